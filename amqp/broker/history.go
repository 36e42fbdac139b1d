package broker

import (
	"slices"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
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

// replay gives what an exchange remembers to where it is being bound: oldest
// first to a queue, newest first to the queues behind an exchange. That is
// RabbitMQ's order, as it is RabbitMQ that ends the connection when an exchange
// leads nowhere (verified on 3.10.8 and 4.3.6). To be called for a new binding
// before anybody sees it, so that no later message comes first; one that is
// published at the same moment may be in neither. mu is held.
func (v *VHost) replay(x *Exchange, to *destination) error {
	var t queue.Transaction
	var r Router
	messages := x.history.queue.Messages()
	if to.queue == nil {
		slices.Reverse(messages)
	}
	for _, remembered := range messages {
		m := *remembered // a copy, because the transaction may give it a place in the store
		e := queue.Enqueue{Message: &m}
		if to.queue != nil {
			e.Queues = []*queue.Queue{to.queue.Queue}
		} else if e.Queues = slices.Clone(v.routeFrom(&r, to.exchange, &m)); len(e.Queues) == 0 {
			return leadsNowhere(v.broker.Profile)
		}
		t.Enqueues = append(t.Enqueues, e)
	}
	// It cannot fail: queues that are full or gone are left out.
	_, _ = queue.Commit(t, v.broker.store, nil, 0)
	return nil
}

// leadsNowhere is RabbitMQ's error for an exchange without queues behind it.
func leadsNowhere(p compat.Profile) error {
	if !compat.ReplayErrorNamed.In(p) {
		return crash()
	}
	return frames.Errorf(frames.InternalError, "could not find queue/exchange ''")
}
