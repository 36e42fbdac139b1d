package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"
)

const (
	// gcDiscardRatio is the part of a value log file that must be dead before
	// it is rewritten: lower gives space back sooner and copies more.
	gcDiscardRatio = 0.5
	// gcFiles bounds the files of one pass, so that Close does not wait long.
	gcFiles = 32
	// gcGap is the least time between two passes.
	gcGap = time.Second
	// gcFlushBytes is how much must have died before Badger is made to notice.
	gcFlushBytes = valueLogBytes / 2
	// gcFlattenBytes is the size of tables up to which all of them are
	// compacted for that; more than this are left to Badger.
	gcFlattenBytes = 64 << 20
)

// clearPages is how many index pages of a dropped log one commit clears.
const clearPages = 256

// runBackground is the background goroutine: it clears dropped logs and gives
// disk space back.
func (s *Store) runBackground() {
	defer s.finished.Done()
	ticker := time.NewTicker(s.opts.GCInterval)
	defer ticker.Stop()
	gap := time.NewTimer(gcGap)
	defer gap.Stop()
	look := time.NewTicker(s.opts.RewriteInterval)
	defer look.Stop()
	var r rewriter
	last, wait := time.Now(), gcGap
	for {
		for s.streamStep() || s.clearStep() {
		}
		ticked := false
		select {
		case <-s.bgStop:
			return
		case <-s.bgWake:
		case <-gap.C:
		case <-look.C:
			r.run(s)
		case <-ticker.C:
			ticked = true
		}
		s.mu.Lock()
		due := ticked || s.deadBytes >= valueLogBytes
		s.mu.Unlock()
		if !due {
			continue
		}
		if wait := wait - time.Since(last); wait > 0 && !ticked {
			gap.Reset(wait)
			continue
		}
		wait = s.collectAgain(s.collect(), wait)
		last = time.Now()
	}
}

// collectAgain says how long the next collection has to wait at least. One that
// found nothing although much is dead had Badger not compacted the deletes yet,
// for whatever reason: it is repeated, less and less often, until one of
// GCInterval is the next anyway.
func (s *Store) collectAgain(rewritten bool, wait time.Duration) time.Duration {
	size := valueLogSize(s.opts.Dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	left := size - s.liveBytes
	if left < valueLogBytes {
		return gcGap
	}
	if wait *= 2; rewritten {
		wait = gcGap
	}
	if wait > s.opts.GCInterval {
		return gcGap
	}
	s.deadBytes = max(s.deadBytes, left)
	s.rouse()
	return wait
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
		return s.failure() != nil
	}
}

// collect gives disk space back. Badger rewrites a value log file when enough
// of it is known to be dead, and learns that only when it compacts the tables
// that hold the deletes. Body pages are few keys, so those deletes would stay
// in the memtable for long: when much has died, flushDeletes pushes them on. It
// says whether space was given back.
func (s *Store) collect() (rewritten bool) {
	s.gcMu.Lock()
	defer s.gcMu.Unlock()
	s.counts.gcPasses.Add(1)
	s.mu.Lock()
	dead := s.deadBytes
	if dead >= gcFlushBytes {
		s.deadBytes = 0
	}
	s.mu.Unlock()
	if dead >= gcFlushBytes {
		s.flushDeletes()
	}
	s.rollHead()
	release := s.keepOldFiles()
	defer release()
	for range gcFiles {
		if s.stopping() {
			return rewritten
		}
		err := s.db.RunValueLogGC(s.gcRatio())
		if errors.Is(err, badger.ErrNoRewrite) {
			break
		}
		if err != nil {
			s.opts.Logger.Warn("collecting the value log failed", "dir", s.opts.Dir, "error", err)
			break
		}
		s.counts.gcRewrites.Add(1)
		rewritten = true
	}
	if rewritten {
		s.sweep()
		s.sweepStreams()
	}
	return rewritten
}

// flushDeletes has Badger write out its memtable and compact, so that it counts
// what was deleted. There is no call for the former; a memtable is written out
// when it is full. Called with gcMu held.
func (s *Store) flushDeletes() {
	s.counts.gcFlushes.Add(1)
	// One table alone is not compacted: it takes a second one, or one on a
	// lower level to go with it.
	for range 2 {
		if !s.fillMemtable() {
			return
		}
		deeper := false
		for _, level := range s.db.Levels()[1:] {
			deeper = deeper || level.NumTables > 0
		}
		if deeper {
			break
		}
	}
	size := int64(0)
	for _, table := range s.db.Tables() {
		size += int64(table.OnDiskSize)
	}
	if size > gcFlattenBytes || s.stopping() {
		return
	}
	if err := s.db.Flatten(1); err != nil {
		// Mostly that Badger's own compactors were first. What is really wrong
		// they report too, and the next pass tries again.
		s.opts.Logger.Debug("compacting ended early", "dir", s.opts.Dir, "error", err)
	}
}

// Filler: so many values of so many bytes, written again and again, then
// deleted.
const (
	fillerValues = 150
	fillerBytes  = 1000
)

// fillMemtable writes until Badger has made a table of its memtable, and says
// whether it has.
func (s *Store) fillMemtable() bool {
	before := s.lastTable()
	ops := make([]rawOp, fillerValues)
	for i := range ops {
		ops[i].key = binary.BigEndian.AppendUint16(bytes.Clone(counterFiller), uint16(i))
		ops[i].value = appendFrame(nil, ops[i].key, make([]byte, fillerBytes-frameOverhead))
	}
	for written := 0; written <= memTableBytes && s.lastTable() == before; written += fillerValues * fillerBytes {
		if !s.writeRaw(ops) {
			return false
		}
	}
	deletes := make([]rawOp, fillerValues)
	for i := range deletes {
		deletes[i] = rawOp{key: ops[i].key, delete: true}
	}
	if !s.writeRaw(deletes) {
		return false
	}
	for range 200 { // the table is written while we look on
		if s.lastTable() != before {
			return true
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-s.bgStop:
			return false
		}
	}
	return false
}

// lastTable is the highest number of a table.
func (s *Store) lastTable() (id uint64) {
	for _, table := range s.db.Tables() {
		id = max(id, table.ID)
	}
	return id
}

// sweep deletes body pages that nothing refers to. Normally there are none, but
// a collection can bring back a page whose delete Badger has not compacted yet
// (see doc.go).
func (s *Store) sweep() {
	s.mu.Lock()
	bound := s.pageIDs.next // higher ones may be in the making
	s.mu.Unlock()
	var ids []uint64
	err := s.scanKeys([]byte{prefixBody}, func(item *badger.Item) error {
		if id, ok := parseIDKey(item.Key()); ok && id < bound {
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		s.opts.Logger.Warn("looking for deleted pages failed", "dir", s.opts.Dir, "error", err)
		return
	}
	var deletes []rawOp
	s.mu.Lock()
	for _, id := range ids {
		if s.bodies[id] == nil {
			deletes = append(deletes, rawOp{key: appendIDKey(nil, prefixBody, id), delete: true})
		}
	}
	s.mu.Unlock()
	for len(deletes) > 0 {
		n := min(len(deletes), clearPages)
		if !s.writeRaw(deletes[:n]) {
			return
		}
		deletes = deletes[n:]
	}
}

// writeRaw has ops committed, waits for it and says whether the background may
// go on.
func (s *Store) writeRaw(ops []rawOp) bool {
	size := int64(0)
	for i := range ops {
		size += ops[i].weight()
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	b := s.room(len(ops), size, 0)
	b.raw = append(b.raw, ops...)
	b.count(len(ops), size)
	return s.waitFor(b)
}

// waitFor lets go of Store.mu, waits for the open batch b and says whether the
// background may go on.
func (s *Store) waitFor(b *batch) bool {
	durable := make(chan struct{})
	b.written = append(b.written, durable)
	b.force = true
	s.touched(b, true)
	s.mu.Unlock()
	select {
	case <-durable:
	case <-s.bgStop:
	}
	return !s.stopping()
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
	if l.stream != nil && !l.stream.cleared { // dropped a moment ago: streamStep is first
		s.mu.Unlock()
		return true
	}
	b := s.room(3*clearPages, clearPages*(2*ackOpBytes+bodyDeleteBytes), 0)
	if !l.clear(b) {
		key := appendIDKey(nil, prefixDrop, l.id)
		b.raw = append(b.raw, rawOp{key: key, delete: true})
		b.count(1, bodyDeleteBytes)
		delete(s.logs, l.id)
		s.dropping[0] = nil
		s.dropping = s.dropping[1:]
	}
	return s.waitFor(b)
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
	l.dropAllReturns(b, limit)
	return len(l.returns) > 0
}
