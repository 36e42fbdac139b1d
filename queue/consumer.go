package queue

import "github.com/warrenmq/warren/frames"

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
	Sink      Sink

	// Guarded by the queue's mutex.
	queue      *Queue
	active     bool // in the ring of its priority: may be offered messages
	prev, next *Consumer
}

// Queue is the queue the consumer was added to.
func (c *Consumer) Queue() *Queue { return c.queue }

// rota is the order in which consumers are served: by priority, in turn
// inside one. Only consumers that may have credit are in it. Guarded by the
// queue's mutex.
type rota struct {
	levels []rotaLevel // highest priority first
}

type rotaLevel struct {
	priority int
	head     *Consumer // next to be served; a ring
}

// next is the consumer to serve; nil when none has credit.
func (r *rota) next() *Consumer {
	for i := range r.levels {
		if c := r.levels[i].head; c != nil {
			return c
		}
	}
	return nil
}

// served moves c, the head of its level, to the end of the level's turn.
func (r *rota) served(c *Consumer) {
	if c.next == c {
		return
	}
	r.level(c.Priority).head = c.next
}

// enter puts c at the end of its level's turn.
func (r *rota) enter(c *Consumer) {
	if c.active {
		return
	}
	c.active = true
	l := r.level(c.Priority)
	if l.head == nil {
		l.head, c.prev, c.next = c, c, c
		return
	}
	c.prev, c.next = l.head.prev, l.head
	c.prev.next, c.next.prev = c, c
}

// leave takes c out.
func (r *rota) leave(c *Consumer) {
	if !c.active {
		return
	}
	c.active = false
	l := r.level(c.Priority)
	if c.next == c {
		l.head = nil
	} else {
		c.prev.next, c.next.prev = c.next, c.prev
		if l.head == c {
			l.head = c.next
		}
	}
	c.prev, c.next = nil, nil
}

// level finds or makes the level of a priority. Levels stay; a queue sees few
// priorities.
func (r *rota) level(priority int) *rotaLevel {
	i := 0
	for i < len(r.levels) && r.levels[i].priority > priority {
		i++
	}
	if i == len(r.levels) || r.levels[i].priority != priority {
		r.levels = append(r.levels, rotaLevel{})
		copy(r.levels[i+1:], r.levels[i:])
		r.levels[i] = rotaLevel{priority: priority}
	}
	return &r.levels[i]
}
