package persist

import (
	"slices"
	"sort"
)

// apply changes the pages in memory and puts the writes into the open batch,
// which it returns, or nil when there was nothing to do any more. Called with
// Store.mu held.
func (r *rewriter) apply(s *Store, plan *movePlan) *batch {
	r.runs = slices.DeleteFunc(r.runs, func(run *pageRun) bool {
		// A run of which a page was settled altogether waits for another time.
		return slices.ContainsFunc(run.old, func(p *indexPage) bool { return !p.onDisk() })
	})
	if len(r.runs) == 0 {
		return nil
	}
	ops, size := 0, int64(0)
	for _, run := range r.runs {
		ops += 3 * len(run.old)
		size += int64(len(run.old))*2*bodyDeleteBytes + pageOpBytes + int64(len(run.entries))*maxEntryBytes
	}
	bodies := int64(0)
	var to *bodyPage
	if plan != nil {
		bodies = int64(len(plan.buf))
	}
	b := s.room(ops, size, bodies)
	if plan != nil && len(plan.at) > 0 {
		to = &bodyPage{id: s.pageIDs.take(1), parts: 1, size: bodies - 1}
	}
	for _, run := range r.runs {
		r.replace(b, run, plan, to)
	}
	if to != nil && to.refs > 0 {
		plan.finish(s, b, to)
	}
	return b
}

// finish has the new body page written and leaves word where messages went.
func (m *movePlan) finish(s *Store, b *batch, to *bodyPage) {
	s.register(to)
	s.livePages++
	s.liveBytes += to.size
	b.bodies += to.size
	key := appendIDKey(nil, prefixBody, to.id)
	value := endFrame(m.buf, 0, key)
	b.moves = append(b.moves, rawOp{key: key, value: value})
	b.count(1, pageOpBytes)
	for at, off := range m.at {
		page := m.moving[at.page]
		if page.moved == nil {
			page.moved = make(map[messageSpan]messagePlace)
		}
		page.moved[at.messageSpan] = messagePlace{to, off}
	}
	s.counts.moved++
}

// replace turns a run into new pages of what is left by now, in memory and in
// batch b. Called with Store.mu held.
func (r *rewriter) replace(b *batch, run *pageRun, plan *movePlan, to *bodyPage) {
	s := run.log.store
	b.removePages(run)
	run.dropSettled()
	fresh := make([]*indexPage, 0, 1)
	for left := run.entries; len(left) > 0; {
		p := &indexPage{log: run.log, first: run.base + uint64(left[0].seqOff)}
		if len(fresh) == 0 {
			// The same page to whoever holds it. Its key stays, so that the
			// offsets do too.
			p = run.old[0]
			p.seqs, p.body, p.bodies, p.acked = nil, nil, nil, positions{}
		}
		n := r.refill(b, p, run, len(run.entries)-len(left), plan, to)
		left = left[n:]
		fresh = append(fresh, p)
	}
	run.log.exchange(run.old, fresh)
	s.counts.indexPages += int64(len(fresh) - len(run.old))
	s.counts.rewritten += uint64(len(run.old))
}

// removePages deletes the keys of a run's pages, of which new ones may be
// written after that.
func (b *batch) removePages(run *pageRun) {
	for _, p := range run.old {
		b.moves = append(b.moves, rawOp{key: appendPageKey(nil, prefixIndex, p.log.id, p.first), delete: true})
		if p.ackWritten {
			b.moves = append(b.moves, rawOp{key: appendPageKey(nil, prefixAck, p.log.id, p.first), delete: true})
			p.ackWritten = false
		}
	}
	b.count(2*len(run.old), 0)
}

// dropSettled leaves the entries that are not settled, and notes their body
// pages.
func (run *pageRun) dropSettled() {
	n := 0
	for i, from := range run.from {
		if p := run.old[from.page]; !p.isAcked(from.at) {
			run.entries[n] = run.entries[i]
			run.bodies = append(run.bodies, p.bodyAt(from.at))
			n++
		}
	}
	run.entries = run.entries[:n]
}

// refill gives page p the entries of a run from position at on, as many as fit,
// has it written, and says how many they are.
func (r *rewriter) refill(b *batch, p *indexPage, run *pageRun, at int, plan *movePlan, to *bodyPage) (n int) {
	s := p.log.store
	shift := uint32(p.first - run.base)
	dense := true
	r.encoder.begin()
	var seqs []uint32
	var bodies []*bodyPage
	for ; at+n < len(run.entries) && !r.encoder.full(); n++ {
		e, body := run.entries[at+n], run.bodies[at+n]
		if plan != nil && plan.moving[e.page] == body {
			if off, ok := plan.at[placeOf(&e)]; ok {
				to.refer()
				s.unrefer(body, b)
				e.page, e.off, body = to.id, off, to
			}
		}
		e.seqOff -= shift
		r.encoder.add(e)
		dense = dense && e.seqOff == uint32(n)
		seqs, bodies = append(seqs, e.seqOff), append(bodies, body)
	}
	p.n, p.live = int32(n), int32(n)
	if !dense {
		p.seqs = slices.Clip(seqs)
	}
	p.setBodies(bodies)
	key := appendPageKey(nil, prefixIndex, p.log.id, p.first)
	value := endFrame(r.encoder.appendTo(beginFrame(nil)), 0, key)
	b.moves = append(b.moves, rawOp{key: key, value: value})
	b.count(1, pageOpBytes+int64(len(value)))
	return n
}

// setBodies gives a page the body pages of its messages, by position. Called
// with Store.mu held.
func (p *indexPage) setBodies(bodies []*bodyPage) {
	single := true
	for i, body := range bodies {
		if i == 0 || body != bodies[i-1] {
			single = single && i == 0
			body.usedBy(p)
		}
	}
	if single {
		p.body = bodies[0]
	} else {
		p.bodies = slices.Clone(bodies)
	}
}

// exchange puts new pages in the place of old ones, which are neighbours but
// for dead ones. The first of both is the same.
func (l *Log) exchange(old, fresh []*indexPage) {
	i := sort.Search(len(l.pages), func(i int) bool { return l.pages[i].first >= old[0].first })
	for l.pages[i] != old[0] { // a dead one may have had the same seq
		i++
	}
	j := i
	for l.pages[j] != old[len(old)-1] {
		j++
	}
	l.dead -= j + 1 - i - len(old)
	for _, p := range old[1:] {
		p.dead = true
		p.seqs, p.bodies, p.body, p.acked = nil, nil, nil, positions{}
	}
	l.pages = slices.Replace(l.pages, i, j+1, fresh...)
	l.hint = 0
	l.mergeAt = l.lookAgain()
}
