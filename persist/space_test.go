//go:build !race

package persist

import (
	"os"
	"path/filepath"
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
