package persist

import "fmt"

// Group is appends, settles and definition changes that become durable
// together or not at all. It has no effect before Submit, and may be used
// again after it. The zero value is ready. Not safe for concurrent use.
type Group struct {
	appends []groupAppend
	chunks  []*chunkAppend
	settles []groupSettle
	puts    []Definition
	deletes []Key
}

type groupAppend struct {
	log    *Log
	seq    uint64
	record *Record
	meta   Meta
}

type groupSettle struct {
	log *Log
	seq uint64
}

// Append is Log.Append as part of the group.
func (g *Group) Append(l *Log, seq uint64, r *Record, m Meta) {
	g.appends = append(g.appends, groupAppend{l, seq, r, m})
}

// Settle is Log.Settle as part of the group. A message that is cancelled by it
// counts as stored only when the group is durable, because it lives on in what
// the group appends.
func (g *Group) Settle(l *Log, seqs ...uint64) {
	for _, seq := range seqs {
		g.settles = append(g.settles, groupSettle{l, seq})
	}
}

// Put writes a definition as part of the group.
func (g *Group) Put(d Definition) { g.puts = append(g.puts, d) }

// Delete deletes a definition as part of the group.
func (g *Group) Delete(k Key) { g.deletes = append(g.deletes, k) }

// Reset empties the group without submitting it.
func (g *Group) Reset() {
	g.appends, g.settles = recycled(g.appends), recycled(g.settles)
	g.puts, g.deletes = recycled(g.puts), recycled(g.deletes)
	g.chunks = nil
}

// Submit puts all of a group into one commit and empties it. The effects come
// in the order appends, settles, definitions, whatever order they were added
// in. w, which may be nil, is told Stored once all is durable. A group may be
// of any size; bodies beyond 16 MiB are written ahead. A definition that is
// too large refuses the whole group, without any effect.
func (s *Store) Submit(g *Group, w Waiter, token uint64) {
	err := checkUpdate(g.puts, g.deletes)
	for i := range g.appends {
		g.appends[i].record.busy.Add(1)
	}
	s.mu.Lock()
	if s.closed {
		err = s.refusal()
	} else if err == nil {
		err = s.failure()
	}
	if err != nil {
		s.mu.Unlock()
		s.refuse(g, notice{w, token, fmt.Errorf("submit a group: %w", err)})
		return
	}
	bytes, bodies := int64(0), int64(0)
	for i := range g.appends {
		r := g.appends[i].record
		r.measure()
		bodies += r.size()
		bytes += pageOpBytes + maxEntryBytes
	}
	bytes += int64(len(g.settles)) * (2*ackOpBytes + bodyDeleteBytes)
	ops, moreBytes, moreBodies := g.chunkRoom()
	b := s.define(g.puts, g.deletes, ops+len(g.appends)+3*len(g.settles), bytes+moreBytes, bodies+moreBodies)
	var scratch [8]notice
	due := s.apply(b, g, scratch[:0])
	b.force = b.force || len(g.settles) > 0
	if w != nil {
		b.notices = append(b.notices, notice{waiter: w, token: token})
	}
	s.touched(b, w != nil)
	s.mu.Unlock()
	g.Reset()
	deliver(due)
}

// apply does a group's appends and settles in batch b, the open one. Called
// with Store.mu held.
func (s *Store) apply(b *batch, g *Group, due []notice) []notice {
	for i := range g.appends {
		a := &g.appends[i]
		if a.log.dropped {
			if n, ok := a.record.leave(s); ok {
				due = append(due, n)
			}
			continue
		}
		a.log.append(b, a.seq, a.record, a.meta)
	}
	for _, a := range g.chunks {
		s.addChunk(b, a)
	}
	for i := range g.settles {
		if r := g.settles[i].log.settle(b, g.settles[i].seq); r != nil {
			b.deferred = append(b.deferred, r)
		}
	}
	return due
}

// refuse ends a group that cannot be written.
func (s *Store) refuse(g *Group, own notice) {
	var due []notice
	for _, a := range g.chunks {
		a.done(own.err)
	}
	for i := range g.appends {
		if n, ok := g.appends[i].record.fail(s); ok {
			due = append(due, n)
		}
	}
	g.Reset()
	if own.waiter != nil {
		due = append(due, own)
	}
	deliver(due)
}
