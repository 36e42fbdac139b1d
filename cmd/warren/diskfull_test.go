//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// needRoot in the environment makes tests that mount a file system fail where
// they cannot, instead of saying that they did not run. Continuous integration
// sets it.
const needRoot = "WARREN_TEST_NEED_ROOT"

// smallDisk mounts an ext4 file system of so many MiB.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	cannot := t.Skipf
	if os.Getenv(needRoot) != "" {
		cannot = t.Fatalf
	}
	if os.Getuid() != 0 {
		cannot("%s has not run: it mounts a file system, which takes root", t.Name())
	}
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	for _, c := range [][]string{
		{"truncate", "-s", fmt.Sprintf("%dM", mib), image}, {"mkfs.ext4", "-q", "-F", "-m", "0", image}, {"mount", "-o", "loop", image, dir},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			cannot("%s has not run: %s: %v: %s", t.Name(), strings.Join(c, " "), err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// free is what a file system has left, in bytes.
func free(t *testing.T, dir string) uint64 {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return st.Bavail * uint64(st.Bsize)
}

// TestDiskFillsUp: publishers are held before a small disk is full, consumers
// make room, publishers go on; what was confirmed is there after a kill.
func TestDiskFillsUp(t *testing.T) {
	// On the smaller one all that is written lies in the value log file that
	// Badger does not collect by itself.
	for _, size := range []int{265, 400} {
		t.Run(fmt.Sprint(size, "MiB"), func(t *testing.T) { fillDisk(t, size) })
	}
}

func fillDisk(t *testing.T, size int) {
	dir := smallDisk(t, size)
	data := filepath.Join(dir, "data")
	c := start(t, "--data-dir", data)
	fillers := make([]*filler, 3)
	for i := range fillers {
		fillers[i] = c.fill(fmt.Sprint("q", i))
	}
	for _, f := range fillers {
		f.wantBlocking(true, "low on disk")
	}
	if left := free(t, dir); left < 100<<20 {
		t.Errorf("publishers were held with %d MiB left", left>>20)
	}
	first := int(fillers[0].confirmed.Load())
	if first < 500 {
		t.Errorf("only %d messages were confirmed", first)
	}
	t.Logf("held with %d MiB left and %d messages of %d KiB confirmed", free(t, dir)>>20, first, fillBody>>10)
	drained := make([]int, len(fillers))
	for i, f := range fillers {
		drained[i] = int(f.confirmed.Load())
		c.drain(fmt.Sprint("q", i), 0, drained[i])
	}
	begin := time.Now()
	for _, f := range fillers {
		f.wantBlocking(false, "")
	}
	t.Logf("unblocked %v after the last message was consumed", time.Since(begin).Round(time.Second))
	for _, f := range fillers {
		f.wantBlocking(true, "low on disk") // they fill it again
		f.stop.Store(true)
	}
	for _, f := range fillers {
		<-f.ended
	}
	c.cmd.Process.Kill()
	c.cmd.Wait()
	c = start(t, "--data-dir", data)
	for i, f := range fillers {
		if n := int(f.confirmed.Load()) - drained[i]; n <= 0 {
			t.Errorf("queue %d: nothing was confirmed after the first alarm", i)
		} else {
			c.drain(fmt.Sprint("q", i), drained[i], n)
		}
	}
}

// TestDiskFilledByOthers: when something else takes the last bytes, nothing is
// confirmed and nothing breaks, until there is room again.
func TestDiskFilledByOthers(t *testing.T) {
	dir := smallDisk(t, 400)
	data := filepath.Join(dir, "data")
	c := start(t, "--data-dir", data)
	f := c.fill("q")
	for f.confirmed.Load() < 100 {
		time.Sleep(time.Millisecond)
	}
	ballast := filepath.Join(dir, "ballast")
	if out, err := exec.Command("fallocate", "-l", fmt.Sprint(free(t, dir)-(4<<20)), ballast).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	time.Sleep(2 * time.Second) // what was on its way has come to a stop
	before := f.confirmed.Load()
	time.Sleep(time.Second)
	if n := f.confirmed.Load(); n != before {
		t.Errorf("%d messages were confirmed on a full disk", n-before)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for f.confirmed.Load() < before+100 {
		time.Sleep(time.Millisecond)
	}
	f.stop.Store(true)
	<-f.ended
	c.cmd.Process.Kill()
	c.cmd.Wait()
	c = start(t, "--data-dir", data)
	c.drain("q", 0, int(f.confirmed.Load()))
}

// TestStartOnAFullDisk: refused with a word of what to do.
func TestStartOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, 64)
	if out, err := exec.Command("fallocate", "-l", fmt.Sprint(free(t, dir)-(4<<20)), filepath.Join(dir, "ballast")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := command("serve", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the disk is full") || !strings.Contains(string(out), "make room") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestReadOnlyDisk: serve says that it has to write; the store can be checked
// and exported where it is.
func TestReadOnlyDisk(t *testing.T) {
	dir := smallDisk(t, 128)
	data := filepath.Join(dir, "data")
	start(t, "--data-dir", data).interrupt()
	if out, err := exec.Command("mount", "-o", "remount,ro", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, ok := tool("serve", "--listen", "127.0.0.1:0", "--data-dir", data); ok || !strings.Contains(out, data) || !strings.Contains(out, "writable") {
		t.Errorf("serve: %s", out)
	}
	if out, ok := tool("store", "check", "--data-dir", data); !ok {
		t.Errorf("check: %s", out)
	}
	if out, ok := tool("store", "export", "--data-dir", data, filepath.Join(t.TempDir(), "export")); !ok {
		t.Errorf("export: %s", out)
	}
}
