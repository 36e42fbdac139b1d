package persist

import (
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// gcDiscardRatio is the part of a value log file that must be dead before it is
// rewritten: lower gives space back sooner and copies more.
const gcDiscardRatio = 0.5

// gcFiles bounds the files of one pass, so that Close does not wait long.
const gcFiles = 32

// clearPages is how many index pages of a dropped log one commit clears.
const clearPages = 256

// runBackground is the background goroutine: it clears dropped logs and gives
// disk space back.
func (s *Store) runBackground() {
	defer s.finished.Done()
	ticker := time.NewTicker(s.opts.GCInterval)
	defer ticker.Stop()
	for {
		for s.clearStep() {
		}
		due := s.counts.gcAsked.Swap(false)
		if due {
			s.collect()
		}
		select {
		case <-s.bgStop:
			return
		case <-s.bgWake:
		case <-ticker.C:
			s.counts.gcAsked.Store(true)
		}
	}
}

// rouse wakes the background goroutine.
func (s *Store) rouse() {
	select {
	case s.bgWake <- struct{}{}:
	default:
	}
}

// stopping says whether the background goroutine is to end.
func (s *Store) stopping() bool {
	select {
	case <-s.bgStop:
		return true
	default:
		return false
	}
}

// collect runs Badger's value log collection until it finds nothing worth it.
func (s *Store) collect() {
	s.counts.gcPasses.Add(1)
	for range gcFiles {
		if s.stopping() || s.failure() != nil {
			return
		}
		switch err := s.db.RunValueLogGC(gcDiscardRatio); {
		case err == nil:
			s.counts.gcRewrites.Add(1)
		case errors.Is(err, badger.ErrNoRewrite):
			return
		default:
			s.opts.Logger.Warn("collecting the value log failed", "dir", s.opts.Dir, "error", err)
			return
		}
	}
}

// clearStep clears a bounded part of a dropped log, waits for its commit and
// says whether there may be more.
func (s *Store) clearStep() bool {
	s.mu.Lock()
	if len(s.dropping) == 0 || s.closed || s.failure() != nil {
		s.mu.Unlock()
		return false
	}
	l := s.dropping[0]
	b := s.room(3*clearPages, clearPages*(2*ackOpBytes+bodyDeleteBytes), 0)
	if !l.clear(b) {
		key := appendIDKey(nil, prefixDrop, l.id)
		b.raw = append(b.raw, rawOp{key: key, delete: true})
		b.count(1, bodyDeleteBytes)
		delete(s.logs, l.id)
		s.dropping[0] = nil
		s.dropping = s.dropping[1:]
	}
	durable := make(chan struct{})
	b.dones = append(b.dones, doneFunc{fn: func(error) { close(durable) }})
	s.touched(b, true)
	s.mu.Unlock()
	select {
	case <-durable:
	case <-s.bgStop:
		return false
	}
	return !s.stopping()
}

// clear has the keys of some pages deleted in batch b, the open one, and says
// whether pages are left. Called with Store.mu held.
func (l *Log) clear(b *batch) bool {
	s := l.store
	limit := b.ops + 3*clearPages
	for k := 0; k < len(l.pages); {
		p := l.pages[k]
		if p.dead || p.batch != nil { // an open one is empty, and goes when it is sealed
			k++
			continue
		}
		if b.ops >= limit {
			return true
		}
		for i := range int(p.n) {
			if !p.isAcked(i) {
				s.unrefer(p.bodyAt(i), b)
			}
		}
		p.live = 0
		l.bury(p, b)
		k = 0
	}
	return false
}
