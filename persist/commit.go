package persist

import (
	"fmt"
	"slices"
	"time"
)

// committed is what the committer keeps of the batch it works on.
type committed struct {
	batch *batch
	plan  bodyPlan
	// index has the index pages, encoded in arena.
	index   []rawOp
	arena   []byte
	encoder pageEncoder
	// split are pages cut off from others that had too much on them.
	split []*indexPage
	// raise, when it has a key, is the write of a page id reservation that
	// has to be on disk no later than the pages.
	raise rawOp
	// deletes are the bodies that go with this batch.
	deletes []*bodyPage
}

// runCommitter is the committer goroutine: it takes what is waiting as soon as
// the commit before has ended.
func (s *Store) runCommitter() {
	defer s.finished.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var c committed
	closing := false
	for {
		s.mu.Lock()
		wait := s.take(&c, closing, time.Now())
		s.mu.Unlock()
		if c.batch != nil {
			s.commit(&c)
		}
		s.writer.syncIfDue(s)
		if wait == 0 {
			continue
		}
		if closing {
			return
		}
		timer.Reset(min(wait, max(0, s.writer.syncDue(s))))
		select {
		case <-s.wake:
		case <-timer.C:
		case <-s.closing:
			closing = true
		}
	}
}

// take seals the batch that is to be committed now, or says how long to wait.
// Called with mu held.
func (s *Store) take(c *committed, closing bool, now time.Time) time.Duration {
	b := s.open
	switch {
	case len(s.queued) > 0:
		b = s.queued[0]
		s.queued[0] = nil
		if s.queued = s.queued[1:]; len(s.queued) == 0 {
			s.queued = nil
		}
	case b.isEmpty():
		return time.Hour
	default:
		if b.since.IsZero() {
			b.since = now
		}
		if wait := s.opts.LazyDelay - now.Sub(b.since); wait > 0 && !b.urgent && !closing {
			return wait
		}
		s.open = s.newBatch()
		b.force = b.force || closing
		b.freeze(s.open, s.opts.LazyDelay, now)
	}
	s.committing, c.batch = b, b
	s.seal(c)
	return 0
}

// seal ends the time in which entries of the batch can be cancelled: bodies
// get their place and pages their final form. Called with mu held.
func (s *Store) seal(c *committed) {
	b := c.batch
	c.plan.reset()
	c.index, c.arena = recycled(c.index), recycledBytes(c.arena)
	kept := b.pages[:0]
	for _, p := range b.pages {
		if s.sealPage(p, c) {
			kept = append(kept, p)
		}
	}
	clear(b.pages[len(kept):])
	b.pages = append(kept, c.split...)
	c.split = recycled(c.split)
	c.deletes = c.deletes[:0]
	for _, page := range b.orphans {
		page.queued = false
		if page.refs == 0 && !page.gone {
			s.retire(page)
			c.deletes = append(c.deletes, page)
		}
	}
	s.livePages += int64(len(c.plan.pages))
	s.liveBytes += c.plan.bytes
	s.numberChunks(b)
	c.raise = rawOp{}
	if s.pageIDs.raise {
		c.raise = s.pageIDs.reserve()
	}
}

// sealPage seals one page and says whether anything is left on it.
func (s *Store) sealPage(p *indexPage, c *committed) bool {
	p.batch = nil
	live := p.entries[:0]
	for i := range p.entries {
		e := p.entries[i]
		if e.cancelled {
			continue
		}
		if e.page == nil {
			r := e.record
			if r.unplaced--; r.page == nil || r.page.gone {
				c.plan.place(s, r)
			}
			e.page = r.page
			e.page.refer()
		}
		live = append(live, e)
	}
	clear(p.entries[len(live):])
	p.entries = live
	if len(live) == 0 {
		p.log.forget(p)
		s.recyclePage(p)
		return false
	}
	for p != nil {
		rest := c.encodePage(s, p)
		p.compact(s)
		s.counts.indexPages++
		p.log.noteSmall(p.log.mergeAt)
		p = rest
	}
	return true
}

// encodePage encodes a page, whose entries are placed. What does not fit is cut
// off and returned as a page of its own.
func (c *committed) encodePage(s *Store, p *indexPage) (rest *indexPage) {
	first := p.entries[0].seq
	c.encoder.begin()
	for i := range p.entries {
		e := &p.entries[i]
		if c.encoder.full() {
			rest = s.cut(p, i)
			c.split = append(c.split, rest)
			break
		}
		r := e.record
		c.encoder.add(storedEntry{uint32(e.seq - first), e.page.id, r.off, r.head, r.body, e.meta})
	}
	start := len(c.arena)
	c.arena = appendPageKey(c.arena, prefixIndex, p.log.id, first)
	key := c.arena[start:len(c.arena):len(c.arena)]
	start = len(c.arena)
	c.arena = c.encoder.appendTo(beginFrame(c.arena))
	c.arena = endFrame(c.arena, start, key)
	c.index = append(c.index, rawOp{key: key, value: c.arena[start:len(c.arena):len(c.arena)]})
	return rest
}

// cut makes a page of the entries of p from position i on.
func (s *Store) cut(p *indexPage, i int) *indexPage {
	rest := &indexPage{
		log: p.log, first: p.entries[i].seq, live: int32(len(p.entries) - i),
		// Of its own, because p's slice is reused.
		entries: slices.Clone(p.entries[i:]),
	}
	clear(p.entries[i:])
	p.entries = p.entries[:i]
	p.live = int32(i)
	pages := p.log.pages
	at := len(pages)
	for pages[at-1] != p {
		at--
	}
	p.log.pages = slices.Insert(pages, at, rest)
	return rest
}

// forget takes a page without messages out of the log.
func (l *Log) forget(p *indexPage) {
	for i := len(l.pages) - 1; i >= 0; i-- {
		if l.pages[i] == p {
			l.pages = append(l.pages[:i], l.pages[i+1:]...)
			l.hint = 0
			return
		}
	}
}

// recyclePage takes back a page that no log has any more.
func (s *Store) recyclePage(p *indexPage) {
	s.recycleEntries(p.entries)
	*p = indexPage{}
	if len(s.freePages) < freeLimit {
		s.freePages = append(s.freePages, p)
	}
}

// commit writes a sealed batch and tells its waiters.
func (s *Store) commit(c *committed) {
	b := c.batch
	crashPoint("sealed")
	if mutantEarly {
		s.tell(c, nil)
		s.writer.notifier.flush()
		time.Sleep(mutantEarlyBy)
	}
	err := s.failure()
	if err == nil {
		if err = s.writer.write(s, c); err == nil {
			// Badger only logs a failed sync of its value log.
			err = s.failure()
		}
		if err != nil {
			s.fail(fmt.Errorf("commit: %w", err))
			err = s.failure()
		}
	}
	for _, written := range b.written {
		close(written)
	}
	b.tellChunks(err)
	if !mutantEarly {
		s.tell(c, err)
	}
	crashPoint("told")

	s.mu.Lock()
	s.committing = nil
	notices, dones := b.notices, b.dones
	for _, p := range b.pages {
		s.recycleEntries(p.entries)
		p.entries = nil
	}
	s.backlog.Add(-b.weight)
	s.mu.Unlock()

	// A barrier may have joined until now, and joins no more.
	n := &s.writer.notifier
	for _, w := range notices {
		w.err = err
		n.stored(w)
	}
	n.flush()
	for _, d := range dones {
		if d.err == nil {
			d.err = err
		}
		d.fn(d.err)
	}

	s.mu.Lock()
	b.reset()
	if len(s.freeBatches) < freeLimit {
		s.freeBatches = append(s.freeBatches, b)
	}
	s.mu.Unlock()
	c.batch = nil
	c.plan.reset()
	clear(c.deletes)
}

// tell resolves the appends and cancels of a batch.
func (s *Store) tell(c *committed, err error) {
	n := &s.writer.notifier
	resolve := func(r *Record) {
		finish := r.leave
		if err != nil {
			finish = r.fail
		}
		if w, ok := finish(s); ok {
			n.stored(w)
		}
	}
	for _, p := range c.batch.pages {
		for i := range p.entries {
			resolve(p.entries[i].record)
		}
	}
	for _, r := range c.batch.deferred {
		resolve(r)
	}
}

// notifier calls Stored at once and remembers whom to flush.
type notifier struct {
	last Waiter
	seen map[Waiter]struct{}
	due  []Waiter
}

func (n *notifier) stored(w notice) {
	w.waiter.Stored(w.token, w.err)
	if w.waiter == n.last {
		return
	}
	n.last = w.waiter
	if n.seen == nil {
		n.seen = make(map[Waiter]struct{})
	}
	if _, ok := n.seen[w.waiter]; !ok {
		n.seen[w.waiter] = struct{}{}
		n.due = append(n.due, w.waiter)
	}
}

func (n *notifier) flush() {
	for i, w := range n.due {
		w.Flush()
		n.due[i] = nil
	}
	n.due, n.last = n.due[:0], nil
	clear(n.seen)
}
