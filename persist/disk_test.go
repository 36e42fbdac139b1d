package persist

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// disk is what a test says is free.
type disk struct{ free atomic.Uint64 }

func (d *disk) options(t testing.TB, free uint64) Options {
	d.free.Store(free)
	o := testOptions(t.TempDir())
	o.freeSpace = func(string) (uint64, error) { return d.free.Load(), nil }
	return o
}

// TestCommitWaitsForSpace: a commit that would fill the disk waits, with all
// its waiters, and goes on when there is room.
func TestCommitWaitsForSpace(t *testing.T) {
	var d disk
	s := mustOpen(t, d.options(t, 1<<30))
	l, w := s.Log(s.NextID()), newWaiter()
	d.free.Store(commitReserve + 100)
	l.Append(1, &newMessage(w, 1, "head", strings.Repeat("b", 10_000)).Record, Meta{})
	time.Sleep(3 * spacePoll)
	if _, told := w.has(1); told {
		t.Fatal("confirmed on a full disk")
	}
	l.Append(2, &newMessage(w, 2, "head", "small").Record, Meta{}) // behind it
	d.free.Store(commitReserve + 20_000)
	w.wait(t, 1, 2)
	s = crash(t, s)
	if all := recovered(t, s.Log(l.ID())); len(all) != 2 {
		t.Errorf("%d messages came back", len(all))
	}
}

// TestCloseOnAFullDisk: a commit that waits is given up, and told so; what was
// confirmed is there afterwards. With a little room nothing is given up.
func TestCloseOnAFullDisk(t *testing.T) {
	for _, left := range []uint64{0, closeReserve + 50_000} {
		var d disk
		o := d.options(t, 1<<30)
		s := mustOpen(t, o)
		l, w := s.Log(s.NextID()), newWaiter()
		l.Append(1, &newMessage(w, 1, "head", "body").Record, Meta{})
		w.wait(t, 1)
		d.free.Store(left)
		l.Append(2, &newMessage(w, 2, "head", strings.Repeat("b", 10_000)).Record, Meta{})
		time.Sleep(2 * spacePoll)
		err := s.Close()
		want := 1
		if left > 0 {
			want = 2
			w.wait(t, 2)
			if err != nil {
				t.Error(err)
			}
		} else if told := w.result(t, 2); !errors.Is(err, ErrNoSpace) || !errors.Is(told, ErrNoSpace) {
			t.Errorf("Close says %v, the waiter was told %v", err, told)
		}
		d.free.Store(1 << 30)
		s = mustOpen(t, o)
		if s.CleanStart() != (left > 0) {
			t.Errorf("clean start: %v", s.CleanStart())
		}
		if all := recovered(t, s.Log(l.ID())); len(all) != want {
			t.Errorf("%d messages came back, want %d", len(all), want)
		}
	}
}

// TestOpenOnAFullDisk: refused before Badger is let near it.
func TestOpenOnAFullDisk(t *testing.T) {
	var d disk
	_, err := Open(d.options(t, commitReserve-1))
	if !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), "make room") {
		t.Errorf("got %v", err)
	}
}

// TestFreeSpace asks the real file system.
func TestFreeSpace(t *testing.T) {
	free, err := freeSpace(t.TempDir())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system cannot be asked for free space")
	}
	if err != nil || free == 0 {
		t.Errorf("%d bytes free, %v", free, err)
	}
	if _, err := freeSpace("/no/such/folder"); err == nil {
		t.Error("a folder that is not there has free space")
	}
}
