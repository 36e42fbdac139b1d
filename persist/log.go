package persist

import (
	"encoding/binary"
	"math"
	"sort"
)

// Log is the messages of one incarnation of one durable queue.
type Log struct {
	// Immutable.
	store *Store
	id    uint64

	// Guarded by Store.mu.
	pages   []*indexPage         // by seq; dead ones linger until trimmed
	dead    int                  // dead ones among them
	hint    int                  // where the last Settle found its page
	next    uint64               // lowest seq that may be appended
	returns map[uint64]*returned // by seq; nil until a message is given back
	mergeAt int                  // pages from which a look at small ones is worth it
	merging bool                 // stands in Store.merging
	dropped bool
	stream  *Stream // what is kept here is a stream
}

// Log gives the log of a queue, new or recovered; the same one for the same id
// until it is dropped.
func (s *Store) Log(id uint64) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[id]; l != nil {
		return l
	}
	l := &Log{store: s, id: id}
	s.logs[id] = l
	return l
}

// ID is the incarnation id that the log was asked for with.
func (l *Log) ID() uint64 { return l.id }

// entryWeight is what an entry adds to the backlog besides its bytes.
const entryWeight = 64

// Append adds a message at the end of the log: seq must be higher than any
// before it in this log since Open, and than any recovered. It joins the open
// batch and returns; the record's waiter is told when it is durable. On a log
// that was dropped it counts as cancelled.
func (l *Log) Append(seq uint64, r *Record, m Meta) {
	s := l.store
	r.busy.Add(1)
	s.mu.Lock()
	if s.closed || l.dropped || s.failure() != nil {
		failed := !l.dropped || s.closed
		s.mu.Unlock()
		finish := r.leave
		if failed {
			finish = r.fail
		}
		if n, ok := finish(s); ok {
			deliver([]notice{n})
		}
		return
	}
	r.measure()
	b := s.room(1, pageOpBytes+maxEntryBytes, r.size())
	l.append(b, seq, r, m)
	s.touched(b, r.waiter != nil)
	s.mu.Unlock()
}

// append puts an entry into batch b, which is the open one. The record is busy
// for it already. Called with Store.mu held.
func (l *Log) append(b *batch, seq uint64, r *Record, m Meta) {
	if seq < l.next {
		panic("persist: sequence numbers of a log must rise")
	}
	l.next = seq + 1
	s := l.store
	p := l.openPage(b, seq)
	m.Expiry = clampExpiry(m.Expiry)
	e := entry{seq: seq, record: r, meta: m}
	weight := int64(entryWeight)
	r.follow()
	if r.page != nil && !r.page.gone {
		e.page = r.page
		e.page.refer()
	} else {
		if r.unplaced++; r.unplaced == 1 {
			e.counted = true
			b.bodies += r.size()
			weight += r.size()
		}
	}
	p.entries = append(p.entries, e)
	p.live++
	b.slots++
	b.count(0, maxEntryBytes)
	s.weigh(b, weight)
	s.counts.appended++
}

// openPage gives the log's page in batch b.
func (l *Log) openPage(b *batch, seq uint64) *indexPage {
	if n := len(l.pages); n > 0 {
		p := l.pages[n-1]
		if p.batch == b && len(p.entries) < pageEntries {
			if len(p.entries) == 0 {
				p.first = seq
			}
			if seq-p.first <= math.MaxUint32 {
				return p
			}
		}
	}
	p := l.store.newPage(l, b)
	p.first = seq
	l.pages = append(l.pages, p)
	b.pages = append(b.pages, p)
	b.count(1, pageOpBytes)
	return p
}

// settleRun is how many messages are settled before others get the lock.
const settleRun = 256

// Settle takes messages out of the log. Those whose commit has not begun are
// cancelled: they leave no trace on disk and count as stored for their record,
// whose waiter may be told on this goroutine. The others are marked with the
// next batch, within Options.LazyDelay. Unknown seqs are ignored.
func (l *Log) Settle(seqs ...uint64) {
	s := l.store
	var scratch [16]notice
	for len(seqs) > 0 {
		run := seqs[:min(len(seqs), settleRun)]
		seqs = seqs[len(run):]
		due := scratch[:0]
		s.mu.Lock()
		if s.closed || s.failure() != nil {
			s.mu.Unlock()
			return
		}
		// Each may at worst delete an index page, its acks and a body page.
		b := s.room(3*len(run), int64(len(run))*(2*ackOpBytes+bodyDeleteBytes), 0)
		for _, seq := range run {
			if r := l.settle(b, seq); r != nil {
				if n, ok := r.leave(s); ok {
					due = append(due, n)
				}
			}
		}
		if !b.isEmpty() {
			s.touched(b, false)
		}
		s.mu.Unlock()
		deliver(due)
	}
}

// settle settles one message as part of batch b. When it was cancelled it
// returns its record, which the caller takes off busy. Called with Store.mu
// held.
func (l *Log) settle(b *batch, seq uint64) *Record {
	if l.dropped {
		return nil
	}
	if l.returns != nil {
		l.dropReturns(b, seq)
	}
	p := l.pageOf(seq)
	if p == nil || p.dead {
		return nil
	}
	if p.batch != nil {
		i, ok := p.findOpen(seq)
		if !ok || p.entries[i].cancelled {
			return nil
		}
		return l.cancel(p, i)
	}
	i, ok := p.find(seq)
	if !ok || !p.ack(i) {
		return nil
	}
	l.store.counts.settled++
	l.store.unrefer(p.bodyAt(i), b)
	l.acked(p, b)
	return nil
}

// acked puts a sealed page whose acks changed on the list it belongs to.
func (l *Log) acked(p *indexPage, b *batch) {
	if p.sparse() {
		l.noteSmall(0)
	}
	switch {
	case p.live == 0:
		l.bury(p, b)
	case !p.dirty:
		p.dirty = true
		b.dirty = append(b.dirty, p)
		b.count(1, ackOpBytes+int64(p.n/8))
	}
}

// bury marks a sealed page dead and has its keys deleted.
func (l *Log) bury(p *indexPage, b *batch) {
	p.dead = true
	p.seqs, p.bodies, p.body = nil, nil, nil
	b.empty = append(b.empty, p)
	b.count(2, 2*ackOpBytes)
	l.dead++
	l.trim()
	l.store.counts.indexPages--
}

// pageOf finds the page that holds seq, if any does.
func (l *Log) pageOf(seq uint64) *indexPage {
	n := len(l.pages)
	if h := l.hint; h < n && l.pages[h].first <= seq && (h+1 == n || l.pages[h+1].first > seq) {
		return l.pages[h]
	}
	i := sort.Search(n, func(i int) bool { return l.pages[i].first > seq }) - 1
	if i < 0 {
		return nil
	}
	l.hint = i
	return l.pages[i]
}

// trim forgets dead pages: at the front at once, elsewhere when they are half
// of all.
func (l *Log) trim() {
	k := 0
	for k < len(l.pages) && l.pages[k].dead {
		l.pages[k] = nil
		k++
	}
	l.pages, l.dead, l.hint = l.pages[k:], l.dead-k, max(0, l.hint-k)
	if len(l.pages) == 0 {
		l.pages = nil
	}
	if l.dead*2 <= len(l.pages) {
		return
	}
	kept := l.pages[:0]
	for _, p := range l.pages {
		if !p.dead {
			kept = append(kept, p)
		}
	}
	clear(l.pages[len(kept):])
	l.pages, l.dead, l.hint = kept, 0, 0
}

// cancel takes a live entry out of an open page and returns its record.
func (l *Log) cancel(p *indexPage, i int) *Record {
	s := l.store
	e := &p.entries[i]
	r := e.record
	e.cancelled = true
	p.live--
	s.counts.cancelled++
	weight := int64(entryWeight)
	if e.page != nil {
		s.unrefer(e.page, s.open)
	} else {
		r.unplaced--
	}
	if e.counted {
		p.batch.bodies -= r.size()
		weight += r.size()
	}
	e.record, e.page = nil, nil
	s.weigh(p.batch, -weight)
	if p.live == 0 {
		p.batch.slots -= len(p.entries)
		p.entries = p.entries[:0]
	}
	return r
}

// Mark is what a clean stop keeps of a message that was delivered.
type Mark struct {
	Seq           uint64
	Redelivered   bool
	DeliveryCount uint32
}

// markBytes is the size of an encoded mark: seq, count, redelivered.
const markBytes = 13

// chunkMarks is how many marks one value holds, outside the value log.
const chunkMarks = (valueThreshold - 1 - frameOverhead) / markBytes

// SaveMarks writes what Recover will report of these messages. For a clean
// stop, right before Close, once a log: any other start ignores and deletes it.
func (l *Log) SaveMarks(marks []Mark) {
	s := l.store
	for chunk := uint32(0); len(marks) > 0; chunk++ {
		run := marks[:min(len(marks), chunkMarks)]
		marks = marks[len(run):]
		key := appendMarksKey(nil, l.id, chunk)
		value := beginFrame(make([]byte, 0, frameOverhead+markBytes*len(run)))
		for _, m := range run {
			value = binary.BigEndian.AppendUint64(value, m.Seq)
			value = binary.BigEndian.AppendUint32(value, m.DeliveryCount)
			value = append(value, boolByte(m.Redelivered))
		}
		op := rawOp{key: key, value: endFrame(value, 0, key)}
		s.mu.Lock()
		if !s.closed && !l.dropped {
			b := s.room(1, op.weight(), 0)
			b.raw = append(b.raw, op)
			b.count(1, op.weight())
			s.touched(b, false)
		}
		s.mu.Unlock()
	}
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// weight is what an op adds to a transaction.
func (op *rawOp) weight() int64 {
	size := int64(len(op.key)) + 16
	if len(op.value) < valueThreshold {
		size += int64(len(op.value))
	}
	return size
}
