package queue

import (
	"slices"
	"sort"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/selector"
)

// Consumers with selectors. Such a consumer takes the messages that its selector matches, in the queue's order, and
// leaves the others for the rest. The messages stay in the one order that every queue has; beside it each distinct
// selector has a lane, which lists the waiting messages that match it. A selector is evaluated when a message comes or
// comes back, and when the first consumer with it comes, once for each message that waits; never for a delivery.
//
//	arrival ──> ready order ──────────────> consumers without a selector, get, expiry, overflow: from the head
//	   └─ evaluate ──> lane of a selector ──> its consumers: from wherever the message stands
//
// Nobody tells a lane that one of its messages went another way: a message that is not in the order any more is passed
// over when its turn comes, and a lane that has grown to twice what the queue holds is swept.
//
// A consumer whose lane is empty is parked: it is out of the turn, though it has credit, until its lane gets a message.
// So all that are in the turn have work whenever something waits for them, as in a queue without selectors.
//
// Memory: 8 bytes for each waiting message and selector that matches it. A message that was taken from the middle
// leaves its place in the order empty, 64 bytes, until what was before it has gone. A queue with selector consumers
// is in memory as a whole: what was on disk when the first of them came is read, page by page, and listed as it comes.

// selective is what a queue has while it has consumers with selectors. Guarded by the queue's mutex.
type selective struct {
	lanes       []*lane
	view        selector.View // scratch
	evaluations uint64        // so far, for tests
}

// lane is one selector of a queue.
type lane struct {
	selector  *selector.Selector
	consumers []*Consumer
	levels    []seqHeap // what matches, by priority; some of it may have gone
	fingers   []*block  // where the last search in each priority ended
	count     int       // of all levels
}

// laneSlack is how many messages that have gone a lane may list beyond what the queue holds twice.
const laneSlack = 64

// hasSelectors says whether the queue has consumers with selectors, and so keeps all its messages in memory. mu is held.
func (q *Queue) hasSelectors() bool { return q.selective != nil }

// enlist gives a new consumer its lane. mu is held.
func (q *Queue) enlist(c *Consumer) {
	if c.Selector == nil {
		return
	}
	if q.selective == nil {
		q.selective = new(selective)
	}
	s := q.selective
	for _, l := range s.lanes {
		if l.selector.String() == c.Selector.String() {
			c.lane = l
		}
	}
	if c.lane == nil {
		c.lane = &lane{selector: c.Selector, levels: make([]seqHeap, q.MaxPriority+1), fingers: make([]*block, q.MaxPriority+1)}
		s.lanes = append(s.lanes, c.lane)
		q.ready.each(func(e *Entry) {
			if s.sees(e); s.matches(c.lane) {
				c.lane.push(e)
			}
		})
		s.view.Reset(frames.Properties{})
		if q.paging != nil && q.paging.onDisk > 0 {
			q.fetch()
		}
	}
	c.lane.consumers = append(c.lane.consumers, c)
}

// discharge takes a consumer from its lane, and the lane away with its last. mu is held.
func (q *Queue) discharge(c *Consumer) {
	l := c.lane
	if l == nil {
		return
	}
	c.lane, c.parked = nil, false
	l.consumers = slices.DeleteFunc(l.consumers, func(o *Consumer) bool { return o == c })
	if len(l.consumers) > 0 || q.selective == nil {
		return
	}
	s := q.selective
	s.lanes = slices.DeleteFunc(s.lanes, func(o *lane) bool { return o == l })
	if len(s.lanes) == 0 {
		q.selective = nil
	}
}

// index lists an entry that was put into the order in the lanes that match it. mu is held.
func (q *Queue) index(e *Entry) {
	s := q.selective
	s.sees(e)
	for _, l := range s.lanes {
		if !s.matches(l) {
			continue
		}
		l.push(e)
		if l.count > 2*q.ready.count+laneSlack {
			l.sweep(&q.ready)
		}
		for _, c := range l.consumers {
			if c.parked {
				q.rota.enter(c)
			}
		}
	}
	s.view.Reset(frames.Properties{})
}

// sees turns the view to a message. Its properties were checked when it was published.
func (s *selective) sees(e *Entry) {
	p, err := frames.ParseProperties(e.Message.Properties)
	if err != nil {
		p = frames.Properties{} // made by hand, without any
	}
	s.view.Reset(p)
}

// matches evaluates a lane's selector.
func (s *selective) matches(l *lane) bool {
	s.evaluations++
	return l.selector.Match(&s.view)
}

// drainSelective is drain of a queue with selectors. mu is held.
func (q *Queue) drainSelective(bound int) (more bool) {
	if q.paging != nil && q.paging.onDisk > 0 { // served in order when all has been read
		q.fetch()
		return false
	}
	for q.ready.count > 0 {
		c := q.rota.next()
		if c == nil {
			return false
		}
		if bound == 0 {
			return true
		}
		if q.ruled {
			if q.expireHeads(); q.ready.count == 0 {
				return false
			}
		}
		if c.lane == nil {
			if q.offer(c, q.ready.head()) {
				q.ready.pop()
				bound--
			}
			continue
		}
		p, ok := c.lane.next(&q.ready)
		switch {
		case !ok:
			q.park(c)
		case q.hasExpired(p.entry):
			q.kill(q.ready.remove(p), Expired)
			bound--
		case q.offer(c, p.entry):
			q.ready.remove(p)
			bound--
		}
	}
	return false
}

// hasExpired says whether an entry, wherever it stands, is too old to be delivered. mu is held.
func (q *Queue) hasExpired(e *Entry) bool {
	return e.Expiry != 0 && e.Expiry <= q.Clock.NowMillis()
}

// park takes a consumer for which nothing waits out of the turn. mu is held.
func (q *Queue) park(c *Consumer) {
	q.rota.leave(c)
	c.parked = true
	if c.Idler != nil {
		c.Idler.Idle(c)
	}
}

// push lists an entry.
func (l *lane) push(e *Entry) {
	l.levels[e.Priority].push(e.Seq)
	l.count++
}

// next finds the lane's next message in the order, by the order's own rules.
func (l *lane) next(r *readyOrder) (best place, found bool) {
	var highest int64
	for i := len(l.levels) - 1; i >= 0; i-- {
		p, ok := l.first(r, i)
		switch {
		case !ok:
		case !r.ages():
			return p, true
		case found && p.entry.Seq > best.entry.Seq: // see agedHead
		default:
			if rank := r.priorities.rank(p.entry); !found || rank >= highest {
				best, highest, found = p, rank, true
			}
		}
	}
	return best, found
}

// first finds the first message of a priority that is still there, and forgets those that are not.
func (l *lane) first(r *readyOrder, priority int) (place, bool) {
	seqs := &l.levels[priority]
	for len(*seqs) > 0 {
		if p, ok := r.find(priority, (*seqs)[0], &l.fingers[priority]); ok {
			return p, true
		}
		seqs.pop()
		l.count--
	}
	return place{}, false
}

// sweep forgets what is not there any more. What is left costs as much as it did to list it, so that sweeping doubles
// the work at most.
func (l *lane) sweep(r *readyOrder) {
	l.count = 0
	for i := range l.levels {
		seqs := l.levels[i]
		slices.Sort(seqs)
		seqs = slices.Compact(seqs) // one that came back while it was listed
		seqs = slices.DeleteFunc(seqs, func(seq uint64) bool {
			_, ok := r.find(i, seq, &l.fingers[i])
			return !ok
		})
		l.levels[i] = slices.Clip(seqs) // in order, so it is a heap
		l.count += len(seqs)
	}
}

// place is where an entry stands in a ready order. Valid until the next change.
type place struct {
	entry    *Entry
	priority int
	block    *block // nil: among the returned
	at       int
}

// find looks for an entry. finger is where to begin, and is moved to where the search ended: searches in the order of
// the queue walk over it once. Returned entries are looked through one by one, but the first of them, which is what a
// lane mostly asks for.
func (r *readyOrder) find(priority int, seq uint64, finger **block) (place, bool) {
	l := &r.levels[priority]
	if b, i, ok := l.fifo.find(seq, *finger); b != nil {
		*finger = b
		if ok {
			return place{&b.entries[i], priority, b, i}, true
		}
	}
	if len(l.returned) == 0 || l.returned[0].Seq > seq {
		return place{}, false
	}
	for i := range l.returned {
		if l.returned[i].Seq == seq {
			return place{&l.returned[i], priority, nil, i}, true
		}
	}
	return place{}, false
}

// find looks for an entry from a block on, or from the head if it stands before that. It also gives the block in which
// the entry would stand; nil when all are earlier.
func (f *fifo) find(seq uint64, from *block) (b *block, at int, ok bool) {
	// A block that was retired is empty, or holds later entries of the same list.
	if b = from; b == nil || b.start == b.end || b.entries[b.start].Seq > seq {
		b = f.first
	}
	// What is on disk is listed again when it has been read.
	for b != nil && (b.page != nil || b.entries[b.end-1].Seq < seq) {
		b = b.next
	}
	if b == nil {
		return nil, 0, false
	}
	at = b.start + sort.Search(b.end-b.start, func(i int) bool { return b.entries[b.start+i].Seq >= seq })
	return b, at, b.entries[at].Seq == seq && b.entries[at].Message != nil
}

// remove takes an entry out from wherever it stands.
func (r *readyOrder) remove(p place) Entry {
	l := &r.levels[p.priority]
	if p.block == nil {
		return r.left(l.returned.remove(p.at))
	}
	if p.block == l.fifo.first && p.at == p.block.start {
		return r.left(l.popFirst(r.paging))
	}
	return r.left(l.fifo.hollow(p.block, p.at))
}

// hollow takes an entry out of the middle: its place stays as a hole, without a message, until those before it have
// gone. The head is never a hole.
func (f *fifo) hollow(b *block, at int) Entry {
	e := b.entries[at]
	b.entries[at].Message = nil
	f.holes++
	return e
}

// remove takes the entry at a place of the heap out.
func (h *entryHeap) remove(at int) Entry {
	if at == 0 {
		return h.pop()
	}
	s := *h
	e, last := s[at], s[len(s)-1]
	s[len(s)-1] = Entry{}
	s = s[:len(s)-1]
	*h = s
	if at == len(s) {
		return e
	}
	i := at
	for ; i > 0 && s[(i-1)/2].Seq > last.Seq; i = (i - 1) / 2 {
		s[i] = s[(i-1)/2]
	}
	for child := 2*i + 1; child < len(s); child = 2*i + 1 {
		if child+1 < len(s) && s[child+1].Seq < s[child].Seq {
			child++
		}
		if s[child].Seq >= last.Seq {
			break
		}
		s[i] = s[child]
		i = child
	}
	s[i] = last
	return e
}

// seqHeap is a binary heap of sequence numbers, the least first.
type seqHeap []uint64

func (h *seqHeap) push(seq uint64) {
	s := append(*h, seq)
	i := len(s) - 1
	for ; i > 0 && s[(i-1)/2] > seq; i = (i - 1) / 2 {
		s[i] = s[(i-1)/2]
	}
	s[i] = seq
	*h = s
}

// pop removes the least; there must be one.
func (h *seqHeap) pop() {
	s := *h
	last := s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	i := 0
	for child := 1; child < len(s); child = 2*i + 1 {
		if child+1 < len(s) && s[child+1] < s[child] {
			child++
		}
		if s[child] >= last {
			break
		}
		s[i] = s[child]
		i = child
	}
	if len(s) > 0 {
		s[i] = last
	}
}
