package broker

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

func permissionOn(vhost string) auth.Permission {
	return auth.Permission{User: "guest", VHost: vhost, Configure: ".*", Write: ".*", Read: ".*"}
}

// instant is a consumer whose deliveries are settled by the publisher of the
// benchmark.
type instant struct {
	queue.Consumer
	q    *Queue
	last []queue.Entry
}

func (c *instant) Deliver(_ *queue.Consumer, e *queue.Entry) bool {
	c.last = append(c.last, *e)
	return true
}

func (*instant) Cancelled(*queue.Consumer) {}

// publishPath is a publish from the read buffer to the settled delivery.
type publishPath struct {
	name     string
	exchange string
	typ      string
	keys     []string // in turn
	queues   int
	bindKey  string
	headers  frames.Table
}

var publishPaths = []publishPath{
	{name: "DefaultExchange", keys: []string{"q0"}, queues: 1},
	{name: "DefaultExchangeKeysInTurn", keys: []string{"q0", "q1", "q2"}, queues: 3},
	{name: "Direct", exchange: "x", typ: "direct", keys: []string{"k"}, queues: 1, bindKey: "k"},
	{name: "TopicKeysInTurn", exchange: "x", typ: "topic", keys: []string{"a.b.c", "a.c", "b.c.d.e"}, queues: 2, bindKey: "#.c.#"},
	{name: "FanoutTo10", exchange: "x", typ: "fanout", keys: []string{"k"}, queues: 10},
	{name: "FanoutTo50KeysInTurn", exchange: "x", typ: "fanout", keys: []string{"k", "l"}, queues: 50},
	{name: "Headers", exchange: "x", typ: "headers", keys: []string{"k"}, queues: 2, headers: table("a", "1", "b", int32(2))},
	{name: "CarbonCopies", keys: []string{"q0"}, queues: 3, headers: table("CC", frames.Array{"q1", "q2"})},
	{name: "Unroutable", exchange: "x", typ: "direct", keys: []string{"nowhere"}},
}

// prepare builds the topology and gives one publish a call; consumers settle
// at once.
func (p *publishPath) prepare(t testing.TB) (publish func()) {
	s := guest(t, openBroker(t, compat.V4, ""))
	if p.exchange != "" {
		s.exchange(p.exchange, p.typ, nil)
	}
	var consumers []*instant
	for i := range p.queues {
		name := fmt.Sprint("q", i)
		q := s.queue(name, false, nil)
		if p.exchange != "" {
			s.bindQueue(p.exchange, p.bindKey, name, nil)
		}
		c := &instant{q: q}
		c.Sink = c
		s.must(q.AddConsumer(&c.Consumer))
		q.Resume(&c.Consumer)
		consumers = append(consumers, c)
	}
	var arena queue.Arena
	body := []byte("a body of thirty octets, about")
	raw := withHeaders(p.headers)
	if p.headers == nil {
		raw = frames.PropertyValues{Flags: frames.FlagContentType, ContentType: "text/plain"}
	}
	sent := properties(t, raw)
	keys := make([][]byte, len(p.keys))
	for i, k := range p.keys {
		keys[i] = []byte(k)
	}
	n := 0
	publication := &Publication{Exchange: []byte(p.exchange)} // a channel has one
	return func() {
		*publication = Publication{Exchange: publication.Exchange, RoutingKey: keys[n%len(keys)], Properties: sent, BodySize: uint64(len(body))}
		n++
		queues, err := s.v.Route(&s.r, s.c, publication)
		if err != nil {
			t.Fatal(err)
		}
		if len(queues) == 0 {
			return
		}
		m := publication.Compose(&arena, arena.Copy(body))
		for _, q := range queues {
			q.Publish(m)
		}
		for _, c := range consumers {
			if len(c.last) > 0 {
				c.q.Settle(c.last)
				c.last = c.last[:0]
			}
		}
	}
}

// The transient path, from route to settle, allocates nothing but the blocks
// of the arena, which hundreds of messages share.
func TestPublishPathDoesNotAllocate(t *testing.T) {
	for _, p := range publishPaths {
		t.Run(p.name, func(t *testing.T) {
			publish := p.prepare(t)
			const messages = 300
			perMessage := testing.AllocsPerRun(3, func() {
				for range messages {
					publish()
				}
			}) / messages
			// A block of message structs in 32 and of octets in some hundreds.
			if perMessage > 0.06 {
				t.Errorf("%v allocations a message", perMessage)
			}
		})
	}
}

func TestHooksOfNobodyDoNotAllocate(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	if n := testing.AllocsPerRun(100, func() { b.observe(Event{Step: QueuePurged}) }); n != 0 {
		t.Errorf("%v allocations an event that nobody sees", n)
	}
}

func BenchmarkPublish(b *testing.B) {
	for _, p := range publishPaths {
		b.Run(p.name, func(b *testing.B) {
			publish := p.prepare(b)
			b.ReportAllocs()
			for b.Loop() {
				publish()
			}
		})
	}
}
