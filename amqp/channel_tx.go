package amqp

import (
	"errors"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// transaction is what a channel has done since tx.select or the last commit
// or rollback. Publishes were checked and routed, acknowledgements taken; both
// happen at the commit. Guarded by conn.mu.
type transaction struct {
	publishes []txPublish
	held      []txSettle
}

type txPublish struct {
	queue.Enqueue
	returned bool // mandatory and unroutable
}

type txSettle struct {
	items   []unackedItem
	outcome outcome
}

func (t *transaction) publish(m *queue.Message, queues []*queue.Queue, returned bool) {
	t.publishes = append(t.publishes, txPublish{queue.Enqueue{Message: m, Queues: queues}, returned})
}

// hold keeps acknowledgements for the commit. items is scratch memory of the
// channel.
func (t *transaction) hold(items []unackedItem, o outcome) {
	t.held = append(t.held, txSettle{append([]unackedItem(nil), items...), o})
}

// heldItems appends all deliveries whose acknowledgement is held.
func (t *transaction) heldItems(dst []unackedItem) []unackedItem {
	for _, h := range t.held {
		dst = append(dst, h.items...)
	}
	return dst
}

// txSelect does tx.select.
func (ch *channel) txSelect(*frames.TxSelect) error {
	if ch.confirming {
		return frames.Errorf(frames.PreconditionFailed, "cannot switch from confirm to tx mode")
	}
	if ch.tx == nil {
		ch.tx = &transaction{}
	}
	return ch.reply(&frames.TxSelectOk{})
}

func errNotTransactional() error {
	return frames.Errorf(frames.PreconditionFailed, "channel is not transactional")
}

// txRollback does tx.rollback: publishes are forgotten, held
// acknowledgements are outstanding again.
func (ch *channel) txRollback(*frames.TxRollback) error {
	if ch.tx == nil {
		return errNotTransactional()
	}
	items := ch.tx.heldItems(nil)
	ch.tx = &transaction{}
	if len(items) > 0 {
		ch.mu.Lock()
		ch.unacked.restore(items)
		ch.mu.Unlock()
	}
	return ch.reply(&frames.TxRollbackOk{})
}

// txCommit does tx.commit: everything at once, in memory and on disk.
// Unroutable mandatory messages are returned before commit-ok.
func (ch *channel) txCommit(*frames.TxCommit) error {
	if ch.tx == nil {
		return errNotTransactional()
	}
	t := ch.tx
	ch.tx = &transaction{}
	all := queue.Transaction{Whole: true}
	for _, p := range t.publishes {
		if p.returned {
			ch.returnUnroutable(p.Message)
		}
		ch.observePublish(broker.PublishRouted, p.Message, p.Queues, 0)
		all.Enqueues = append(all.Enqueues, p.Enqueue)
	}
	for _, h := range t.held {
		if err := ch.refuseStreams(h.items); h.outcome != acked && err != nil {
			return err
		}
	}
	ch.settleHeld(t, &all)
	err := ch.afterStored(func(func(error)) (bool, error) {
		ch.parked.commit = true
		return queue.Commit(all, ch.c.server.broker.Store(), ch.parked, 0)
	}, func() error { return ch.reply(&frames.TxCommitOk{}) })
	if errors.Is(err, queue.ErrRefused) {
		// Nothing was done; what was to be acknowledged goes back.
		ch.giveBack(t.heldItems(nil), requeued)
		err = frames.Errorf(frames.PreconditionFailed, "partial tx completion")
	}
	ch.resumeAll()
	return err
}

var fates = [...]queue.Fate{acked: queue.Acknowledge, rejected: queue.Refuse, requeued: queue.Requeue, failed: queue.Fail}

// settleHeld gives the held deliveries' credit back and adds them to the
// transaction.
func (ch *channel) settleHeld(t *transaction, all *queue.Transaction) {
	for _, h := range t.held {
		ch.mu.Lock()
		ch.release(h.items)
		ch.mu.Unlock()
		ch.observeSettled(h.items, h.outcome)
		ch.byQueue(h.items, func(q *broker.Queue, entries []queue.Entry) {
			all.Settlements = append(all.Settlements, queue.Settlement{
				Queue: q.Queue, Entries: append([]queue.Entry(nil), entries...), Fate: fates[h.outcome],
			})
		})
	}
}
