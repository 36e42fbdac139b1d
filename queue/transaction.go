package queue

import (
	"cmp"
	"slices"

	"github.com/warrenmq/warren/persist"
)

// Enqueue is a message and the queues it was routed to.
type Enqueue struct {
	Message *Message
	Queues  []*Queue
}

// Settlement is entries of one queue that are settled or returned.
type Settlement struct {
	Queue   *Queue
	Entries []Entry
	Requeue bool
}

// Transaction is what tx.commit does at once: all or nothing, also on disk.
type Transaction struct {
	Enqueues    []Enqueue
	Settlements []Settlement
}

// Commit does everything in t under the locks of all its queues, taken by id,
// so that nobody sees a part of it. What must be durable goes to the store as
// one group; w.Stored(token) is called once when it is safe. journaled false:
// nothing had to be, w is not called. Queues that have gone are left out, as
// a publish to them would be.
func Commit(t Transaction, store *persist.Store, w persist.Waiter, token uint64) (journaled bool) {
	queues := t.queues()
	for _, q := range queues {
		q.mu.Lock()
	}
	var group persist.Group
	placed := t.admit(&group)
	settled := t.settle(&group)
	journaled = placed.journaled || settled
	if journaled {
		// Submit may resolve receipts at once; that is in the lock order.
		store.Submit(&group, w, token)
	}
	for _, p := range placed.entries {
		p.queue.place(p.entry)
	}
	for i := range t.Settlements {
		if s := &t.Settlements[i]; s.Requeue && !s.Queue.deleted {
			s.Queue.takeBack(s.Entries)
		}
	}
	for _, q := range slices.Backward(queues) {
		q.serve()
		q.mu.Unlock()
	}
	return journaled
}

// queues lists the transaction's queues once each, by id.
func (t *Transaction) queues() []*Queue {
	var all []*Queue
	for _, e := range t.Enqueues {
		all = append(all, e.Queues...)
	}
	for _, s := range t.Settlements {
		all = append(all, s.Queue)
	}
	slices.SortFunc(all, func(a, b *Queue) int { return cmp.Compare(a.ID, b.ID) })
	return slices.Compact(all)
}

type placement struct {
	queue *Queue
	entry Entry
}

type placements struct {
	entries   []placement
	journaled bool
}

// admit gives each message its place in each queue and puts the durable ones
// into the group.
func (t *Transaction) admit(g *persist.Group) (p placements) {
	for _, e := range t.Enqueues {
		for _, q := range e.Queues {
			if q.deleted {
				continue
			}
			entry := q.admit(e.Message)
			if entry.Journaled {
				if e.Message.record == nil {
					e.Message.Track(nil, 0)
				}
				q.Journal.AppendIn(g, entry.Seq, e.Message.record, meta(&entry))
				p.journaled = true
			}
			p.entries = append(p.entries, placement{q, entry})
		}
	}
	return p
}

// settle ends the acknowledged entries and puts the durable ones into the
// group.
func (t *Transaction) settle(g *persist.Group) (journaled bool) {
	for _, s := range t.Settlements {
		s.Queue.unacked -= len(s.Entries)
		if s.Requeue || s.Queue.deleted {
			continue
		}
		s.Queue.acked.Add(uint64(len(s.Entries)))
		for _, e := range s.Entries {
			if e.Journaled {
				s.Queue.Journal.SettleIn(g, e.Seq)
				journaled = true
			}
		}
	}
	return journaled
}
