package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tool runs warren and gives its output and whether it ended well.
func tool(args ...string) (string, bool) {
	out, err := command(args...).CombinedOutput()
	return string(out), err == nil
}

// TestStoreAfterAKill: the store of a broker that was killed is whole, and goes
// through an export and an import.
func TestStoreAfterAKill(t *testing.T) {
	dir, other := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copy")
	c := start(t, "--data-dir", dir)
	f := c.fill("q")
	for f.confirmed.Load() < 300 {
		time.Sleep(time.Millisecond)
	}
	if out, ok := tool("store", "check", "--data-dir", dir); ok || !strings.Contains(out, "in use") {
		t.Errorf("check of a store in use: %s", out)
	}
	c.cmd.Process.Kill()
	c.cmd.Wait()
	f.stop.Store(true)
	<-f.ended
	for range 2 { // the first one has put the files in order
		if out, ok := tool("store", "check", "--data-dir", dir); !ok || !strings.Contains(out, "no problems") {
			t.Errorf("check: %s", out)
		}
	}
	if out, ok := tool("store", "stats", "--data-dir", dir); !ok || !strings.Contains(out, `"q"`) {
		t.Errorf("stats: %s", out)
	}
	export := filepath.Join(t.TempDir(), "export.jsonl")
	if out, ok := tool("store", "export", "--data-dir", dir, export); !ok {
		t.Fatalf("export: %s", out)
	}
	if out, ok := tool("store", "import", "--data-dir", other, export); !ok {
		t.Fatalf("import: %s", out)
	}
	start(t, "--data-dir", other).drain("q", 0, int(f.confirmed.Load()))
	if out, ok := tool("store", "export"); ok || !strings.Contains(out, "usage") {
		t.Errorf("export without a file: %s", out)
	}
}

// TestRefusedStores: a data folder that cannot be used is named, with what to
// do, by serve and by store check; nothing in it changes.
func TestRefusedStores(t *testing.T) {
	made := func() string {
		dir := filepath.Join(t.TempDir(), "data")
		c := start(t, "--data-dir", dir)
		c.interrupt()
		return dir
	}
	refused := func(dir string, says ...string) {
		t.Helper()
		for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0", "--data-dir", dir}, {"store", "check", "--data-dir", dir}} {
			out, ok := tool(args...)
			if ok {
				t.Errorf("warren %s takes %s", args[0], dir)
			}
			for _, text := range says {
				if !strings.Contains(out, text) {
					t.Errorf("warren %s does not say %q: %s", args[0], text, out)
				}
			}
		}
	}
	change := func(dir, pattern string, change func(data []byte) []byte) string {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		data, err := os.ReadFile(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(paths[0], change(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return paths[0]
	}
	newer := made()
	change(newer, "WARREN", func([]byte) []byte { return []byte("warren store, format 99\n") })
	refused(newer, newer, "format 99", "use the version that wrote it")
	flipped := made()
	table := change(flipped, "*.sst", func(b []byte) []byte { b[100] ^= 1; return b })
	refused(flipped, filepath.Base(table), "restore the folder from a backup")
	cut := made()
	table = change(cut, "*.sst", func(b []byte) []byte { return b[:len(b)/2] })
	refused(cut, filepath.Base(table), "restore the folder from a backup")
	lost := made()
	if err := os.Remove(filepath.Join(lost, "MANIFEST")); err != nil {
		t.Fatal(err)
	}
	refused(lost, lost, "no MANIFEST", "restore the folder from a backup")
	used := filepath.Join(t.TempDir(), "data")
	start(t, "--data-dir", used)
	refused(used, used, "in use", "stop that one first")
}

// interrupt stops a broker cleanly.
func (c *child) interrupt() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("%v\n%s", err, c.output())
	}
}
