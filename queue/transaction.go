package queue

import (
	"cmp"
	"errors"
	"slices"

	"github.com/warrenmq/warren/persist"
)

// Enqueue is a message and the queues it was routed to.
type Enqueue struct {
	Message *Message
	Queues  []*Queue
	// Redelivered marks the message as handed out before in queues where it has
	// to wait; one that goes straight to a consumer is not marked.
	Redelivered bool

	// died is where a dead letter of this transaction died: a queue that
	// refuses it is left out, also where the transaction has to be whole; and
	// if it has gone meanwhile, there is no dead letter.
	died *Queue
}

// Settlement is entries of one queue that end or are returned.
type Settlement struct {
	Queue   *Queue
	Entries []Entry
	Fate    Fate
}

// Fate is what becomes of a settlement's entries.
type Fate uint8

// The fates.
const (
	Acknowledge Fate = iota // delivered, and done with
	Requeue                 // delivered, and given back
	Refuse                  // delivered, and dead-lettered or dropped
	Fail                    // delivered, and given back because it failed
	Inter                   // dead (Config.Bury), and dealt with by this transaction
)

// Transaction is what tx.commit does at once: all or nothing, also on disk.
type Transaction struct {
	Enqueues    []Enqueue
	Settlements []Settlement
	// Whole has the transaction fail if a queue refuses a message; otherwise
	// that queue is left out.
	Whole bool
}

// ErrRefused: a queue of a transaction that must be whole is full.
var ErrRefused = errors.New("a queue refuses more messages")

// Commit does everything in t under the locks of all its queues, taken by id,
// so that nobody sees a part of it. What must be durable goes to the store as
// one group; w.Stored(token) is called once when it is safe. journaled false:
// nothing had to be, w is not called. Queues that have gone are left out, as
// a publish to them would be. ErrRefused: nothing was done.
func Commit(t Transaction, store *persist.Store, w persist.Waiter, token uint64) (journaled bool, err error) {
	t.bury()
	queues := t.queues()
	for _, q := range queues {
		q.mu.Lock()
	}
	if t.Whole && t.refused() {
		for _, q := range slices.Backward(queues) {
			q.mu.Unlock()
		}
		return false, ErrRefused
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
		p.queue.arriving, p.queue.arrivingBytes = 0, 0
		p.queue.place(p.entry, p.redelivered)
	}
	for i := range t.Settlements {
		t.Settlements[i].finish()
	}
	for _, q := range slices.Backward(queues) {
		q.tidy()
		q.serve()
		q.mu.Unlock()
	}
	return journaled, nil
}

// bury makes the dead letters of what the transaction refuses a part of it, so
// that after a crash a refused message is neither back nor lost. They come
// last: the transaction's own messages have the first claim to room. No lock
// is held.
func (t *Transaction) bury() {
	for i := range t.Settlements {
		s := &t.Settlements[i]
		if s.Fate != Refuse || s.Queue.Funeral == nil || !s.Queue.Rules().DeadLetters {
			continue
		}
		dead := make([]Dead, len(s.Entries))
		for j, e := range s.Entries {
			dead[j] = Dead{e, Rejected}
		}
		for _, e := range s.Queue.Funeral(s.Queue, dead) {
			e.died = s.Queue
			t.Enqueues = append(t.Enqueues, e)
		}
	}
}

// refused says whether a queue would refuse one of the messages. All locks
// are held.
func (t *Transaction) refused() bool {
	more := map[*Queue][2]int64{}
	for _, e := range t.Enqueues {
		if e.died != nil {
			continue
		}
		for _, q := range e.Queues {
			if q.deleted || q.rules.drops() || !q.rules.limited() {
				continue
			}
			if q.Quorum != nil {
				if q.refusesCounted() {
					return true
				}
				continue
			}
			n := more[q]
			n = [2]int64{n[0] + 1, n[1] + int64(len(e.Message.Content))}
			if more[q] = n; q.rules.over(q.ready.count+int(n[0]), q.ready.bytes+n[1]) {
				return true
			}
		}
	}
	return false
}

// finish does the part of a settlement that is in memory. The queue's lock is
// held.
func (s *Settlement) finish() {
	q := s.Queue
	switch {
	case q.deleted, q.Stream != nil:
	case s.Fate == Requeue:
		q.takeBack(s.Entries, HandedBack)
	case s.Fate == Fail:
		q.takeBack(s.Entries, Failed)
	case s.Fate == Refuse && q.Funeral == nil && q.rules.DeadLetters:
		for _, e := range s.Entries {
			q.kill(e, Rejected)
		}
		q.flushSettled()
		q.released(s.Entries)
	}
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
	queue       *Queue
	entry       Entry
	redelivered bool // if it has to wait
}

type placements struct {
	entries   []placement
	streams   []streamAppend
	journaled bool
}

// admit gives each message its place in each queue and puts the durable ones
// into the group.
func (t *Transaction) admit(g *persist.Group) (p placements) {
	for _, e := range t.Enqueues {
		if e.died != nil && e.died.deleted {
			continue
		}
		for _, q := range e.Queues {
			if q.deleted {
				continue
			}
			if q.Stream != nil {
				p.stream(q, e.Message)
				continue
			}
			if q.ruled && q.refuses(e.Message) {
				q.turnAway(e.Message)
				continue
			}
			entry := q.admit(e.Message)
			q.arriving++
			q.arrivingBytes += q.ready.size(e.Message)
			if entry.Journaled {
				if e.Message.record == nil {
					e.Message.Track(nil, 0)
				}
				q.Journal.AppendIn(g, entry.Seq, e.Message.record, meta(&entry))
				p.journaled = true
			}
			p.entries = append(p.entries, placement{q, entry, e.Redelivered})
		}
	}
	p.appendStreams(g)
	return p
}

// settle ends the acknowledged entries and puts the durable ones into the
// group.
func (t *Transaction) settle(g *persist.Group) (journaled bool) {
	for _, s := range t.Settlements {
		if s.Queue.Stream != nil {
			s.Queue.returned(s.Entries)
			continue
		}
		if s.Fate != Inter {
			s.Queue.unacked -= len(s.Entries)
		}
		if s.Queue.deleted || s.Fate == Requeue || s.Fate == Fail || s.Fate == Refuse && s.Queue.Funeral == nil && s.Queue.rules.DeadLetters {
			continue
		}
		if s.Fate == Acknowledge {
			s.Queue.acked.Add(uint64(len(s.Entries)))
		}
		if s.Fate != Inter {
			s.Queue.released(s.Entries)
		}
		for _, e := range s.Entries {
			if e.Journaled {
				s.Queue.Journal.SettleIn(g, e.Seq)
				journaled = true
			}
		}
	}
	return journaled
}
