package persist

import "time"

// What one change is taken to add to a Badger transaction, in bytes. Generous:
// a batch that is too large all the same goes the way of a large group.
const (
	pageOpBytes     = 64 // key, version, checksum and pointer of one page
	bodyDeleteBytes = 32
	ackOpBytes      = 64 // without the positions
)

// batchSlots is the most messages of one batch, unless they are a group.
const batchSlots = 4096

// lazyBytes is the size from which a batch that nobody waits for is committed
// without delay.
const lazyBytes = 512 << 10

// batch is what goes into one commit. Guarded by Store.mu until the committer
// takes it.
type batch struct {
	pages    []*indexPage // new, with the messages appended
	chunks   []*chunkAppend
	dirty    []*indexPage // sealed before, whose acks changed
	empty    []*indexPage // sealed before, settled altogether: to be deleted
	orphans  []*bodyPage  // may be deleted, unless referred to again by then
	moves    []rawOp      // of a rewrite; before acks
	raw      []rawOp      // definitions, counters, marks, dropped logs
	returns  []*returned  // whose Returns changed
	deferred []*Record    // cancelled; their cancel counts once this is durable
	notices  []notice     // groups and barriers
	dones    []doneFunc   // updates
	// written is closed as soon as the batch is on disk or has failed, before
	// any waiter is told; of the background goroutine, which may hold moving.
	written []chan struct{}

	// Set when the batch is closed to further changes.
	acks  []rawOp // of dirty
	arena []byte  // keys and values of acks

	slots  int   // entries, cancelled ones included
	ops    int   // keys written, about
	bytes  int64 // size of the transaction, about
	bodies int64 // bytes for body pages
	weight int64 // share in Store.backlog

	// force has the acks go with this batch although they are young: a barrier
	// or a group came after them.
	force     bool
	acksSince time.Time // when the committer first saw them; zero: not yet

	urgent bool      // somebody waits
	roused bool      // the committer was told that there is something
	since  time.Time // when the committer first saw it; zero: not yet
}

// rawOp is one key to be written or deleted as it is.
type rawOp struct {
	key, value []byte
	delete     bool
}

// doneFunc is the end of an Update.
type doneFunc struct {
	fn  func(error)
	err error // set when the update was refused
}

// count adds to what the batch is taken to write.
func (b *batch) count(ops int, bytes int64) {
	b.ops += ops
	b.bytes += bytes
}

// isEmpty says that committing b would change nothing and tell nobody.
func (b *batch) isEmpty() bool {
	return len(b.pages) == 0 && len(b.dirty) == 0 && len(b.empty) == 0 && len(b.orphans) == 0 &&
		len(b.moves) == 0 && len(b.raw) == 0 && len(b.returns) == 0 && len(b.chunks) == 0 && len(b.deferred) == 0 && len(b.notices) == 0 &&
		len(b.dones) == 0 && len(b.written) == 0
}

// reset makes b as new, keeping its slices unless one large commit blew them up.
func (b *batch) reset() {
	*b = batch{
		pages:    recycled(b.pages),
		chunks:   recycled(b.chunks),
		dirty:    recycled(b.dirty),
		empty:    recycled(b.empty),
		orphans:  recycled(b.orphans),
		moves:    recycled(b.moves),
		raw:      recycled(b.raw),
		returns:  recycled(b.returns),
		deferred: recycled(b.deferred),
		notices:  recycled(b.notices),
		dones:    recycled(b.dones),
		written:  recycled(b.written),
		acks:     recycled(b.acks),
		arena:    recycledBytes(b.arena),
	}
}

// keepSlots is the largest slice that is kept for reuse.
const keepSlots = 2 * batchSlots

// recycledBytes is recycled for bytes.
func recycledBytes(b []byte) []byte {
	if cap(b) > 1<<20 {
		return nil
	}
	return b[:0]
}

// recycled empties a slice and forgets what it pointed to.
func recycled[T any](s []T) []T {
	if cap(s) > keepSlots {
		return nil
	}
	clear(s)
	return s[:0]
}

// room returns the open batch after making sure that it can take this much
// more; otherwise the batch is queued and the next one opened. An empty batch
// takes everything. Called with Store.mu held.
func (s *Store) room(ops int, bytes, bodies int64) *batch {
	b := s.open
	if b.slots+1 > s.caps.slots || b.ops+ops > s.caps.ops || b.bytes+bytes > s.caps.bytes || b.bodies+bodies > bodyPageBytes {
		if !b.isEmpty() {
			s.closeBatch()
		}
	}
	return s.open
}

// closeBatch queues the open batch. Called with Store.mu held.
func (s *Store) closeBatch() {
	b := s.open
	s.open = s.newBatch()
	b.freeze(s.open, s.opts.LazyDelay, time.Now())
	s.queued = append(s.queued, b)
	s.signal()
}

// freeze closes the batch to further acks: those that are due are copied out,
// so that settles that come later, perhaps as part of a group that must be
// written as a whole, do not go ahead with this batch. Those that may wait move
// on to the next batch, the open one: of a queue whose consumer is close behind
// its publisher most pages are settled altogether meanwhile, and then there is
// only a page to delete. Called with Store.mu held.
func (b *batch) freeze(next *batch, delay time.Duration, now time.Time) {
	if len(b.dirty) == 0 {
		b.freezeReturns()
		return
	}
	if b.acksSince.IsZero() {
		b.acksSince = now
	}
	if !b.force && now.Sub(b.acksSince) < delay {
		for _, p := range b.dirty {
			if !p.dead {
				next.dirty = append(next.dirty, p)
				next.count(1, ackOpBytes+int64(p.n/8))
			}
		}
		b.dirty = recycled(b.dirty)
		b.passReturns(next)
		b.freezeReturns()
		next.acksSince, next.since = b.acksSince, b.acksSince
		return
	}
	for _, p := range b.dirty {
		p.dirty = false
		if p.dead || p.acked.isEmpty() { // since this batch, which deletes or rewrites it
			continue
		}
		start := len(b.arena)
		b.arena = appendPageKey(b.arena, prefixAck, p.log.id, p.first)
		key := b.arena[start:len(b.arena):len(b.arena)]
		start = len(b.arena)
		b.arena = appendAcks(beginFrame(b.arena), &p.acked, int(p.n))
		b.arena = endFrame(b.arena, start, key)
		b.acks = append(b.acks, rawOp{key: key, value: b.arena[start:len(b.arena):len(b.arena)]})
		p.ackWritten = true
	}
	b.freezeReturns()
}

// passReturns moves the deletes of Returns on to the next batch, with the acks
// of their messages. Called with Store.mu held.
func (b *batch) passReturns(next *batch) {
	kept := b.returns[:0]
	for _, c := range b.returns {
		if !c.gone {
			kept = append(kept, c)
			continue
		}
		next.returns = append(next.returns, c)
		next.count(1, ackOpBytes)
	}
	clear(b.returns[len(kept):])
	b.returns = kept
}

// newBatch takes a batch from the free list. Called with Store.mu held.
func (s *Store) newBatch() *batch {
	if n := len(s.freeBatches); n > 0 {
		b := s.freeBatches[n-1]
		s.freeBatches = s.freeBatches[:n-1]
		return b
	}
	return new(batch)
}

// newPage takes an index page from the free list. Called with Store.mu held.
func (s *Store) newPage(l *Log, b *batch) *indexPage {
	var p *indexPage
	if n := len(s.freePages); n > 0 {
		p = s.freePages[n-1]
		s.freePages = s.freePages[:n-1]
	} else {
		p = new(indexPage)
	}
	p.log, p.batch = l, b
	if n := len(s.freeEntries); n > 0 {
		p.entries = s.freeEntries[n-1]
		s.freeSlots -= cap(p.entries)
		s.freeEntries = s.freeEntries[:n-1]
	}
	return p
}

// freeLimit bounds each free list.
const freeLimit = 64

// freeSlots bounds the entries of all slices kept for reuse.
const freeSlots = 4 * batchSlots

// recycleEntries takes an entry slice back. Called with Store.mu held.
func (s *Store) recycleEntries(entries []entry) {
	if cap(entries) == 0 || len(s.freeEntries) >= freeLimit || s.freeSlots+cap(entries) > freeSlots {
		return
	}
	clear(entries)
	s.freeSlots += cap(entries)
	s.freeEntries = append(s.freeEntries, entries[:0])
}

// weigh adds to the backlog. Called with Store.mu held.
func (s *Store) weigh(b *batch, bytes int64) {
	b.weight += bytes
	s.backlog.Add(bytes)
}

// touched tells the committer that b has something to do, when it may not know
// yet. Called with Store.mu held.
func (s *Store) touched(b *batch, urgent bool) {
	switch {
	case urgent && !b.urgent:
		b.urgent = true
		s.signal()
	case !b.roused:
		b.roused = true
		s.signal()
	case b.weight >= lazyBytes && !b.urgent:
		b.urgent = true
		s.signal()
	}
}

// signal wakes the committer.
func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
