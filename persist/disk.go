package persist

import (
	"errors"
	"fmt"
	"time"
)

// Badger maps its files: a page of a file that gets its first byte is given
// room on the disk at that moment, and where there is none the kernel ends the
// process with SIGBUS. So the disk must never be full. Two things see to that:
// the broker holds publishers when less than FreeFloor is left, and, for the
// case that others fill the disk faster than that helps, a commit waits until
// commitReserve is left after it.

// FreeFloor is the least free space, in bytes, that publishers are to leave:
// three times what Badger may have in the making, which is its memtables and
// the value log file. What is on its way when they are held, and what consumers
// cause to be written, fits into it.
const FreeFloor = 3 * (memTables*memTableBytes + valueLogBytes)

const (
	// commitReserve is what a transaction leaves free, for what Badger writes
	// beside it: memtables, tables of 2 MiB that it compacts.
	commitReserve = 32 << 20
	// closeReserve is the same for the last commits before Close, which shall
	// not be lost for the sake of later ones.
	closeReserve = 8 << 20
	// spacePoll is how often a commit that waits looks again.
	spacePoll = 100 * time.Millisecond
	// gcLowRatio is gcDiscardRatio for a disk that is almost full: a file that
	// is all but dead gives back much more than its rewriting takes.
	gcLowRatio = 0.95
)

// ErrNoSpace is what Open wraps when too little is free to open the store
// safely, and what the store fails with when it is closed while a commit waits
// for space.
var ErrNoSpace = errors.New("the disk is full")

// FreeSpace is how many bytes the file system that holds the store has free
// for this user. ErrUnsupported where the system cannot be asked.
func (s *Store) FreeSpace() (uint64, error) { return s.opts.freeSpace(s.opts.Dir) }

// checkSpace refuses to open a store where Badger could not write.
func checkSpace(o Options) error {
	free, err := o.freeSpace(o.Dir)
	if err == nil && free < commitReserve {
		return fmt.Errorf("%w: %s has %d MiB free, opening a store takes %d MiB; make room, or move the folder to another disk",
			ErrNoSpace, o.Dir, free>>20, commitReserve>>20)
	}
	return nil // where the system cannot be asked, nothing is refused
}

// awaitSpace holds a transaction until the disk has room for it. Called by the
// committer.
func (s *Store) awaitSpace(lists [][]rawOp) error {
	size := uint64(0)
	for _, ops := range lists {
		for i := range ops {
			size += uint64(len(ops[i].key) + len(ops[i].value))
		}
	}
	for waited := false; ; waited = true {
		need, closing := size+commitReserve, false
		select {
		case <-s.closing:
			need, closing = size+closeReserve, true
		default:
		}
		free, err := s.FreeSpace()
		if err != nil || free >= need {
			if waited {
				s.opts.Logger.Info("the disk has room again, commits go on", "dir", s.opts.Dir)
			}
			return nil
		}
		if closing {
			return fmt.Errorf("%w: %d bytes are free, a commit needs %d", ErrNoSpace, free, need)
		}
		if !waited {
			s.opts.Logger.Error("the disk is full: nothing is committed or confirmed until there is room",
				"dir", s.opts.Dir, "free_bytes", free, "needed_bytes", need)
		}
		select {
		case <-s.closing:
		case <-time.After(spacePoll):
		}
	}
}

// gcRatio is how much of a value log file must be dead before it is rewritten,
// which takes space itself.
func (s *Store) gcRatio() float64 {
	if free, err := s.FreeSpace(); err == nil && free < commitReserve+valueLogBytes/2 {
		return gcLowRatio
	}
	return gcDiscardRatio
}
