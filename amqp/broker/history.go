package broker

import (
	"slices"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// The recent history exchange: a fanout that remembers its last messages, in a
// backlog that drops the oldest, and gives them to each queue that is bound.

const (
	argHistoryLength = "x-recent-history-length"
	headerNoStore    = "x-recent-history-no-store"

	defaultHistoryLength = 20
)

// checkHistoryLength: of the integers, RabbitMQ takes the signed ones.
func checkHistoryLength(args frames.Table) *frames.Error {
	v, given := args.Get(argHistoryLength)
	if !given {
		return nil
	}
	n, ok := integer(v)
	switch v.(type) {
	case uint8, uint16, uint32:
		ok = false
	}
	if ok && n > 0 {
		return nil
	}
	return frames.Errorf(frames.PreconditionFailed, "Invalid argument %s, 'x-recent-history-length' must be a positive integer", erlangTerm(v))
}

// historyLength reads an argument that checkHistoryLength has nothing against.
func historyLength(args frames.Table) int64 {
	v, _ := args.Get(argHistoryLength)
	if n, ok := integer(v); ok {
		return n
	}
	return defaultHistoryLength
}

// forgets says whether a message asks not to be remembered.
func forgets(headers frames.RawTable) bool {
	v, ok := headers.Lookup(headerNoStore)
	return ok && v.Type == 't' && v.Data[0] != 0
}

// replay gives what an exchange remembers, oldest first, to where it is being
// bound: a queue, or the queues behind an exchange. Called for a new binding
// before anybody sees it, so that no later message comes first; one that is
// published at the same moment may be in neither. mu is held.
func (v *VHost) replay(x *Exchange, to *destination) {
	if x.history == nil {
		return
	}
	var t queue.Transaction
	var r Router
	for _, remembered := range x.history.queue.Messages() {
		m := *remembered // a copy, because the transaction may give it a place in the store
		e := queue.Enqueue{Message: &m}
		if to.queue != nil {
			e.Queues = []*queue.Queue{to.queue.Queue}
		} else {
			e.Queues = slices.Clone(v.routeFrom(&r, to.exchange, &m))
		}
		if len(e.Queues) > 0 {
			t.Enqueues = append(t.Enqueues, e)
		}
	}
	// It cannot fail: queues that are full or gone are left out.
	_, _ = queue.Commit(t, v.broker.store, nil, 0)
}
