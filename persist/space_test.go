//go:build unix && !race

package persist

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Not under the race detector: Badger 4.9.6 reads the highest version in the
// memtable without a lock when it begins to rewrite a file (DB.MaxVersion),
// while a commit may be writing it. An older value than the latest only makes
// compactions keep more.

// diskSize is what the folder's value log files take.
func diskSize(t testing.TB, dir string) (size int64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths[:len(paths)-1] {
		if info, err := os.Stat(path); err == nil {
			size += info.Size()
		}
	}
	return size
}

// The value log must not grow with what went through, although pages write too
// few keys for Badger to notice by itself.
func TestSpaceComesBack(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Sync = SyncNever
	s := mustOpen(t, o)
	l := s.Log(s.NextID())
	// Large ones, so that there is little to index.
	const messages, keep = 20_000, 2000
	pump(t, s, l, 1, messages, keep, 16_000)
	deadline := time.Now().Add(30 * time.Second)
	for diskSize(t, o.Dir) > 2*valueLogBytes {
		if time.Now().After(deadline) {
			t.Fatalf("%d MiB of value log for %d messages: %+v", diskSize(t, o.Dir)>>20, keep, s.Stats())
		}
		time.Sleep(20 * time.Millisecond)
	}
	check := func() {
		t.Helper()
		all := recovered(t, s.Log(l.ID()))
		if len(all) != keep || all[0].Seq != messages-keep+1 || all[keep-1].Seq != messages {
			t.Fatalf("%d messages came back", len(all))
		}
	}
	check()
	s = crash(t, s)
	check()
}

// A store through which messages run steadily, a few a commit, does not grow:
// after 30,000 commits it takes no more than it did after 10,000, but for a
// value log file.
func TestSteadyStoreDoesNotGrow(t *testing.T) {
	for _, size := range []int{700, 6000} { // in the tables, and in the value log
		o := testOptions(t.TempDir())
		o.Sync, o.LazyDelay, o.RewriteInterval = SyncNever, 5*time.Millisecond, 100*time.Millisecond
		s := mustOpen(t, o)
		l := s.Log(s.NextID())
		const keep = 50
		body, w := strings.Repeat("x", size), newWaiter()
		var early int64
		for i := uint64(1); i <= 30_000; i++ {
			m := newMessage(w, i, "", body)
			l.Append(i, &m.Record, Meta{})
			w.wait(t, i)
			// Now and then one stays for long.
			if i > keep && (i-keep)%1000 != 0 {
				l.Settle(i - keep)
			}
			if i > 5000 && i%1000 == 0 {
				l.Settle(i - 5000)
			}
			if i == 10_000 {
				early = folderSize(t, o.Dir)
			}
		}
		barrier(t, s)
		deadline := time.Now().Add(30 * time.Second)
		for folderSize(t, o.Dir) > early+valueLogBytes {
			if time.Now().After(deadline) {
				t.Errorf("size %d: %d MiB, %d MiB earlier: %+v", size, folderSize(t, o.Dir)>>20, early>>20, s.Stats())
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		mustClose(t, s)
	}
}

// Many queues with a message each in turn: pages of one message, which come to
// few. What the folder takes is under twice what lives in it, and 100 MB.
func TestManyQueuesTakeLittleSpace(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Sync, o.RewriteInterval = SyncNever, 50*time.Millisecond
	s := mustOpen(t, o)
	const queues, rounds = 1000, 40
	logs := make([]*Log, queues)
	for i := range logs {
		logs[i] = s.Log(s.NextID())
	}
	w := newCountdown(1000)
	body := strings.Repeat("q", 1000)
	for seq := uint64(1); seq <= rounds; seq++ {
		for _, l := range logs {
			<-w.tokens
			m := newMessage(w, seq, "", body)
			l.Append(seq, &m.Record, Meta{})
		}
	}
	barrier(t, s)
	deadline := time.Now().Add(60 * time.Second)
	for s.Stats().IndexPages > 10*queues || folderSize(t, o.Dir) > 2*s.Stats().LiveBytes+100e6 {
		if time.Now().After(deadline) {
			t.Fatalf("%d MB: %+v", folderSize(t, o.Dir)/1e6, s.Stats())
		}
		time.Sleep(50 * time.Millisecond)
	}
	s = crash(t, s)
	for _, l := range logs {
		if n := len(recovered(t, s.Log(l.ID()))); n != rounds {
			t.Fatalf("queue %d has %d messages", l.ID(), n)
		}
	}
}
