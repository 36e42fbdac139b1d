package broker

import (
	"bytes"
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
	t := queue.Transaction{Enqueues: []queue.Enqueue{{Message: m, Queues: queues}}}
	stored := make(chan error, 1)
	journaled, err := queue.Commit(t, v.broker.store, &afterBarrier{func(err error) { stored <- err }}, 0)
	if err != nil || !journaled {
		return true, err
	}
	return true, <-stored
}

// Uptime is how long the broker has been open.
func (b *Broker) Uptime() time.Duration { return b.Clock.ConnectionNow().Sub(b.opened) }

// ExchangeTypes lists the types of exchange that can be declared.
func (b *Broker) ExchangeTypes() []string {
	return []string{exchange.TypeDirect, exchange.TypeFanout, exchange.TypeHeaders, exchange.TypeTopic}
}
