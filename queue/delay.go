package queue

import "time"

// delay makes a queue hold messages back, each until a time of its own, instead
// of giving them to consumers, of which it has none. A publish into it is a
// publish like any other, so confirms, transactions, dead-lettering and
// recovery need to know nothing of it.
//
// What waits is a heap of entries by due time, 32 bytes each beside the
// message. One timer, the queue's expiry timer, is set for the first. Guarded
// by the queue's mutex.
type delay struct {
	of   func(m *Message) int64
	fire func(due []Entry)
	heap delayHeap
}

// fireBound is how many messages fire in one go; others that are due follow at
// once, behind timers that are late already.
const fireBound = 256

// NewDelay makes a queue of messages that wait for their time. of says how
// many milliseconds a message waits from now on; it is called with the queue's
// lock held. fire is given those whose time has come, at most fireBound, in
// order of their times and of arrival where these are the same. It runs on the
// clock's goroutine or inside Clock.Advance, one call at a time, with no lock
// held; it must end with a Transaction that settles the entries (Inter). The
// configuration has a Clock; its rules are not looked at.
func NewDelay(c Config, of func(m *Message) int64, fire func(due []Entry)) *Queue {
	rules := NoRules()
	rules.TTL = 0 // so that every message is asked for its time
	c.Rules = &rules
	q := New(c)
	q.delay = &delay{of: of, fire: fire}
	return q
}

// Delayed is how many messages wait for their time: all of a queue that was
// made for that, and those that were given back to a quorum queue with a delay.
func (q *Queue) Delayed() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.delay == nil {
		return len(q.quorum.delayed.entries)
	}
	return len(q.delay.heap)
}

// collect moves what has arrived to the heap. mu is held.
func (d *delay) collect(q *Queue) {
	for q.ready.count > 0 {
		d.heap.push(q.ready.pop())
	}
	d.arm(q)
}

// arm sets the timer for the first message. mu is held.
func (d *delay) arm(q *Queue) {
	if len(d.heap) == 0 || q.expiryDue != 0 && q.expiryDue <= d.heap[0].Expiry {
		return
	}
	q.expiryDue = d.heap[0].Expiry
	wait := time.Duration(q.expiryDue-q.Clock.NowMillis()) * time.Millisecond
	if q.expiryTimer == nil {
		q.expiryTimer = q.Clock.AfterFunc(MessageTime, wait, func() { d.due(q) })
		return
	}
	q.expiryTimer.Reset(wait)
}

// due is the timer's function.
func (d *delay) due(q *Queue) {
	q.mu.Lock()
	q.expiryDue = 0
	var entries []Entry
	if now := q.Clock.NowMillis(); !q.deleted {
		for len(d.heap) > 0 && d.heap[0].Expiry <= now && len(entries) < fireBound {
			entries = append(entries, d.heap.pop())
		}
		d.arm(q)
	}
	q.mu.Unlock()
	if len(entries) > 0 {
		d.fire(entries)
	}
}

// delayHeap orders entries by Expiry, which is when they are due, then by Seq:
// a binary heap, the least first. Written out because container/heap would
// allocate for each entry.
type delayHeap []Entry

func (h delayHeap) before(i, j int) bool {
	if h[i].Expiry != h[j].Expiry {
		return h[i].Expiry < h[j].Expiry
	}
	return h[i].Seq < h[j].Seq
}

func (h *delayHeap) push(e Entry) {
	s := append(*h, e)
	for i := len(s) - 1; i > 0 && s.before(i, (i-1)/2); i = (i - 1) / 2 {
		s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
	}
	*h = s
}

// pop removes the least; there must be one. The memory of a heap that was
// large and is nearly empty is given back.
func (h *delayHeap) pop() Entry {
	s := *h
	least, last := s[0], len(s)-1
	s[0] = s[last]
	s[last] = Entry{}
	s = s[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && s.before(child+1, child) {
			child++
		}
		if !s.before(child, i) {
			break
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
	if cap(s) > heapKept && len(s) < cap(s)/4 {
		s = append(make(delayHeap, 0, cap(s)/2), s...)
	}
	*h = s
	return least
}
