package queue

import (
	"cmp"
	"slices"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/selector"
)

// Sink is the far end of a consumer: a channel, a remote link. Its methods
// must not call back into the queue and must not block.
type Sink interface {
	// Deliver offers the entry at the head of the queue. True: it was taken
	// (for a consumer with acknowledgement the sink owns it now, until Settle
	// or Requeue). False: no credit; the sink remembers that it refused and
	// calls Queue.Resume once it has credit again. Called with the queue's
	// lock held; e is valid during the call only.
	Deliver(c *Consumer, e *Entry) bool
	// Cancelled says that the queue has gone. Called with no lock held.
	Cancelled(c *Consumer)
}

// Consumer is one basic.consume on one queue.
type Consumer struct {
	// Immutable.
	Tag       string
	NoAck     bool
	Exclusive bool
	Priority  int // x-priority; higher is served first while it has credit
	Arguments frames.Table
	Reading   *Reading // of a stream; nil for other queues
	Sink      Sink
	Idler     Idler // nil: nobody needs to know
	// Selector says which messages the consumer takes; nil for all.
	Selector *selector.Selector

	// Guarded by the queue's mutex.
	queue      *Queue
	active     bool // in the ring of its priority: may be offered messages
	begun      bool // its client knows of it: consume-ok was sent, Resume called
	elected    bool // active, where Rules.MaxActive limits how many are
	prev, next *Consumer
	lane       *lane // of its selector; nil without
	parked     bool  // has credit, but nothing waits in its lane
}

// Queue is the queue the consumer was added to.
func (c *Consumer) Queue() *Queue { return c.queue }

// rota is the order in which consumers are served: by priority, in turn
// inside one. Only consumers that may have credit are in it. Guarded by the
// queue's mutex.
type rota struct {
	// levels are the priorities that somebody has, highest first. One that
	// nobody has any more goes at once: clients choose the numbers, so keeping
	// them would let the list grow for ever.
	levels []rotaLevel
}

type rotaLevel struct {
	priority int
	head     *Consumer // next to be served; a ring
}

// next is the consumer to serve; nil when none has credit.
func (r *rota) next() *Consumer {
	if len(r.levels) == 0 {
		return nil
	}
	return r.levels[0].head
}

// served moves c, the head of the first level, to the end of its turn.
func (r *rota) served(c *Consumer) { r.levels[0].head = c.next }

// enter puts c at the end of its level's turn.
func (r *rota) enter(c *Consumer) {
	if c.active {
		return
	}
	c.active, c.parked = true, false
	i, found := r.find(c.Priority)
	if !found {
		r.levels = slices.Insert(r.levels, i, rotaLevel{priority: c.Priority, head: c})
		c.prev, c.next = c, c
		return
	}
	head := r.levels[i].head
	c.prev, c.next = head.prev, head
	c.prev.next, c.next.prev = c, c
}

// leave takes c out.
func (r *rota) leave(c *Consumer) {
	if !c.active {
		return
	}
	c.active = false
	i, _ := r.find(c.Priority)
	if c.next == c {
		r.levels = slices.Delete(r.levels, i, i+1)
	} else {
		c.prev.next, c.next.prev = c.next, c.prev
		if r.levels[i].head == c {
			r.levels[i].head = c.next
		}
	}
	c.prev, c.next = nil, nil
}

// find gives the place of a priority's level, or where it would be.
func (r *rota) find(priority int) (i int, found bool) {
	return slices.BinarySearchFunc(r.levels, priority, func(l rotaLevel, p int) int { return cmp.Compare(p, l.priority) })
}
