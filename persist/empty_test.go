package persist

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestEmptyFiles: a kill leaves empty files where Badger was making one, which
// is the newest, or removing one, which is any. That is no damage. Both were
// seen in runs of the crash matrix.
func TestEmptyFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"000000.vlog", "000099.vlog", "00000.mem", "00099.mem"} {
		dir := t.TempDir()
		s, w := openDir(t, dir), newWaiter()
		l := s.Log(s.NextID())
		fill(t, s, l, w, 1, 5)
		mustClose(t, s)
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s = openDir(t, dir)
		if n := len(recovered(t, s.Log(l.ID()))); n != 5 {
			t.Errorf("%s: %d messages, want 5", name, n)
		}
		mustClose(t, s)
	}
}

// An empty file whose messages are needed is damage still.
func TestEmptiedFileIsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, w := openDir(t, dir), newWaiter()
	l := s.Log(s.NextID())
	for i := range uint64(3) {
		m := newMessage(w, i, "head", string(make([]byte, 64<<10))) // goes to the value log
		l.Append(i+1, &m.Record, Meta{})
	}
	barrier(t, s)
	mustClose(t, s)
	paths, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
	}
	s, err = Open(testOptions(dir))
	if err == nil {
		err = s.Log(l.ID()).Recover(func(Recovered) error { return nil })
		mustClose(t, s)
	}
	if err == nil {
		t.Error("messages without their bytes are taken")
	}
	t.Log(fmt.Sprint(err))
}
