package broker

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/queue"
)

// Post publishes one message from inside, with the checks of basic.publish, and
// returns when it is where a publisher would have its confirm from: in the
// queues, and on disk in those that are durable if it is persistent. routed:
// it went to a queue. The caller must not hold a lock of the broker.
func (v *VHost) Post(c *Client, p *Publication, body []byte) (routed bool, err error) {
	var r Router
	var a queue.Arena
	queues, err := v.Route(&r, c, p)
	if err != nil || len(queues) == 0 {
		return false, err
	}
	m := p.Compose(&a, bytes.Clone(body))
	return true, v.commit(queue.Transaction{Enqueues: []queue.Enqueue{{Message: m, Queues: queues}}})
}

// GetNow is Queue.Get with acknowledgement for those inside that can wait for a
// message to be read from disk. What it gives is to be ended with EndGot.
func (q *Queue) GetNow() (e queue.Entry, left int, ok bool, err error) {
	for {
		e, left, ok, err = q.Get(false)
		if !errors.Is(err, queue.ErrLoading) {
			return e, left, ok, err
		}
		ready := make(chan struct{})
		q.Await(func() { close(ready) })
		<-ready
	}
}

// EndGot ends or returns messages that GetNow has given, and returns when that
// is durable. The caller must not hold a lock of the broker.
func (v *VHost) EndGot(q *Queue, entries []queue.Entry, fate queue.Fate) error {
	if len(entries) == 0 {
		return nil
	}
	return v.commit(queue.Transaction{Settlements: []queue.Settlement{{Queue: q.Queue, Entries: entries, Fate: fate}}})
}

// commit does a transaction and waits for the store.
func (v *VHost) commit(t queue.Transaction) error {
	stored := make(chan error, 1)
	journaled, err := queue.Commit(t, v.broker.store, &afterBarrier{func(err error) { stored <- err }}, 0)
	if err != nil || !journaled {
		return err
	}
	return <-stored
}

// Settled calls done when everything that was settled before it is durable; at
// once, on the caller's goroutine, when nothing is outstanding.
func (b *Broker) Settled(done func(error)) {
	if b.store == nil {
		done(nil)
		return
	}
	b.store.Barrier(&afterBarrier{done}, 0)
}

// Uptime is how long the broker has been open.
func (b *Broker) Uptime() time.Duration { return b.Clock.ConnectionNow().Sub(b.opened) }

// ExchangeTypes lists the types of exchange that can be declared.
func (b *Broker) ExchangeTypes() []string {
	return slices.DeleteFunc([]string{
		exchange.TypeDirect, exchange.TypeFanout, exchange.TypeHeaders, exchange.TypeTopic, exchange.TypeConsistentHash,
		typeDelayed, exchange.TypeLocalRandom, exchange.TypeModulusHash, exchange.TypeRandom, typeRecentHistory,
	}, func(typ string) bool { return !knownExchangeType(b.Profile, typ) })
}
