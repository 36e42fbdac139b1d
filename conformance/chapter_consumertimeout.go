package conformance

import (
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// isQuorum is the argument that makes a queue a quorum queue.
var isQuorum = wire.Field{Key: "x-queue-type", Value: "quorum"}

// Quorum declares a quorum queue.
func (ch *Chan) Quorum(q string, arguments ...wire.Field) {
	ch.DeclareQueue(wire.QueueDeclare{Queue: q, Durable: true, Arguments: append(wire.Table{isQuorum}, arguments...)})
}

// Put publishes without properties and waits until the queue has the messages.
func (ch *Chan) Put(q string, bodies ...string) {
	helper := ch.Conn.t.Channel()
	helper.Confirm()
	for n, b := range bodies {
		helper.Publish("", q, b)
		helper.WantConfirms(uint64(n+1), uint64(n+1))
	}
}

// consumerTimeout is the argument of queues and consumers, in milliseconds.
func consumerTimeout(ms int32) wire.Field { return wire.Field{Key: "x-consumer-timeout", Value: ms} }

// shortTimeout is the limit of most cases.
const shortTimeout = 1000

// longTimeout is never reached.
const longTimeout = 600_000

// lateScene gives a channel whose consumer "c" has let these messages of Q time out, and been told so once for each.
func lateScene(t *T, bodies ...string) *Chan {
	ch := t.Channel()
	ch.Quorum(t.Q, consumerTimeout(shortTimeout))
	ch.Consume(t.Q, "c")
	ch.Put(t.Q, bodies...)
	for range bodies {
		ch.Delivery()
	}
	t.Channel().WantCount(t.Q, uint32(len(bodies)), 1) // repeated until they are back
	ch.wantCancels("c", len(bodies))
	return ch
}

// wantCancels demands that the server has cancelled a consumer, at most so many times, and said nothing else.
func (ch *Chan) wantCancels(tag string, most int) {
	ch.WantCancelled(tag)
	ch.Send(wire.ChannelFlow{Active: true})
	for ; ; most-- {
		m := ch.next()
		if _, ok := m.(wire.ChannelFlowOk); ok && most > 0 {
			return
		}
		ch.t.Equal("method", m, wire.Method(wire.BasicCancel{ConsumerTag: tag, NoWait: true}))
	}
}

// WantCancelled demands that the server cancels a consumer.
func (ch *Chan) WantCancelled(tag string) { ch.Want(wire.BasicCancel{ConsumerTag: tag, NoWait: true}) }

const timedOutText = "delivery acknowledgement on channel 1 timed out. Timeout value used: -1 ms. " +
	"This timeout value can be configured, see consumers doc guide to learn more"

// came demands a delivery by what a return changes.
func (ch *Chan) came(body string, returns int64) {
	d := ch.Delivery()
	ch.t.Equal("delivery", []any{d.Body, d.Redelivered, acquired(d.Properties)}, []any{body, returns > 0, returns})
}

// acquired reads x-acquired-count; 0 when absent.
func acquired(p wire.Properties) int64 {
	if p.Headers == nil {
		return 0
	}
	for _, f := range *p.Headers {
		if f.Key == "x-acquired-count" {
			n, _ := f.Value.(int64)
			return n
		}
	}
	return 0
}

func consumerTimeoutCases() []Case {
	const source = "behaviour 2.6, consumer timeout (4.3)"
	kase := func(id, title string, run func(t *T)) Case {
		return Case{ID: "consumer-timeout/" + id, Title: title, Source: source, Class: Timing, Profiles: []int{Profile4}, Run: run}
	}
	return []Case{
		kase("cancels", "the consumer is cancelled and its message is ready again, marked; it still counts", func(t *T) {
			ch := lateScene(t, "a")
			ch.WantCount(t.Q, 1, 1)
			other := ch.Conn.Chan(2)
			g := other.Get(t.Q, true)
			t.Equal("message", []any{g.Body, g.Redelivered, acquired(g.Properties)}, []any{"a", true, int64(1)})
		}),
		kase("late-ack", "when the late message is acknowledged, the consumer is fed again", func(t *T) {
			ch := lateScene(t, "a")
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.came("a", 1)
			ch.Send(wire.BasicAck{DeliveryTag: 2})
			ch.WantCount(t.Q, 0, 1)
		}),
		{ID: "consumer-timeout/late-nack", Title: "when the last late message is given back, the consumer is fed again",
			Source: source, Class: Timing, Profiles: []int{Profile4}, Difference: "late-requeue", Run: func(t *T) {
				ch := lateScene(t, "a")
				ch.Send(wire.BasicNack{DeliveryTag: 1, Requeue: true})
				if t.Differs() {
					ch.came("a", 1)
					return
				}
				ch.Put(t.Q, "b")
				ch.WantCount(t.Q, 2, 1)
			}},
		kase("late-reject", "when the late message is rejected, the consumer is fed again", func(t *T) {
			ch := lateScene(t, "a")
			ch.Send(wire.BasicReject{DeliveryTag: 1})
			ch.came("a", 1)
		}),
		kase("late-two", "the consumer waits until all its late messages are settled", func(t *T) {
			ch := lateScene(t, "a", "b")
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.WantCount(t.Q, 2, 1)
			ch.Send(wire.BasicAck{DeliveryTag: 2})
			ch.came("a", 1)
			ch.came("b", 1)
		}),
		kase("each", "each message has its own time", func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q, consumerTimeout(2*shortTimeout))
			ch.Consume(t.Q, "c")
			ch.Put(t.Q, "a")
			ch.came("a", 0)
			time.Sleep(shortTimeout * time.Millisecond)
			ch.Put(t.Q, "b")
			ch.came("b", 0)
			ch.WantCancelled("c")
			ch.WantCount(t.Q, 1, 1)
			ch.WantCancelled("c")
			ch.WantCount(t.Q, 2, 1)
		}),
		kase("again", "a consumer that is fed again is cancelled again", func(t *T) {
			ch := lateScene(t, "a")
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.came("a", 1)
			ch.WantCancelled("c")
			ch.WantCount(t.Q, 1, 1)
		}),
		kase("tag-taken", "its tag is still taken", func(t *T) {
			ch := lateScene(t, "a")
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c"})
			ch.WantClosing(hard(530, wire.BasicConsume{}, "attempt to reuse consumer tag 'c'"))
		}),
		kase("client-cancel", "the client can cancel it, and then use the tag again", func(t *T) {
			ch := lateScene(t, "a")
			ch.Call(wire.BasicCancel{ConsumerTag: "c"}, wire.BasicCancelOk{ConsumerTag: "c"})
			ch.WantCount(t.Q, 1, 0)
			ch.Consume(t.Q, "c")
			ch.came("a", 1)
		}),
		kase("no-notify", "a client that cannot take basic.cancel loses the channel", func(t *T) {
			ch := t.ConnectAs(login{properties: wire.Table{{Key: "capabilities", Value: capabilities("basic.nack", "publisher_confirms")}}}).Chan(1)
			ch.Quorum(t.Q, consumerTimeout(shortTimeout))
			ch.Consume(t.Q, "c")
			ch.Put(t.Q, "a")
			ch.came("a", 0)
			ch.WantClosing(soft(406, nil, timedOutText))
			ch.WantCount(t.Q, 1, 0)
		}),
		kase("get", "a message taken by basic.get closes the channel", func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q, consumerTimeout(shortTimeout))
			ch.Put(t.Q, "a")
			ch.Get(t.Q, false)
			ch.WantClosing(soft(406, nil, timedOutText))
			g := ch.Get(t.Q, true)
			t.Equal("message", []any{g.Body, g.Redelivered, acquired(g.Properties)}, []any{"a", true, int64(1)})
		}),
		kase("not-a-failure", "it does not count to the delivery limit", func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q, consumerTimeout(shortTimeout), wire.Field{Key: "x-delivery-limit", Value: int32(0)})
			ch.Put(t.Q, "a")
			ch.Consume(t.Q, "c")
			ch.came("a", 0)
			ch.WantCancelled("c")
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.came("a", 1)
		}),
		kase("acknowledged", "one that is acknowledged in time does not time out", func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q, consumerTimeout(2*shortTimeout))
			ch.Consume(t.Q, "c")
			ch.Put(t.Q, "a", "b")
			ch.came("a", 0)
			ch.came("b", 0)
			ch.Send(wire.BasicAck{DeliveryTag: 2, Multiple: true})
			time.Sleep(3 * shortTimeout * time.Millisecond)
			ch.WantCount(t.Q, 0, 1)
		}),
		kase("consumer-argument", "the consumer's argument counts before the queue's", func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q, consumerTimeout(600_000))
			ch.Consume(t.Q, "c", consumerTimeout(shortTimeout))
			ch.Put(t.Q, "a")
			ch.came("a", 0)
			ch.WantCancelled("c")
		}),
		kase("consumer-argument-longer", "also when it is the longer one", func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q, consumerTimeout(shortTimeout))
			ch.Consume(t.Q, "c", consumerTimeout(600_000))
			ch.Put(t.Q, "a")
			ch.came("a", 0)
			time.Sleep(3 * shortTimeout * time.Millisecond)
			ch.WantCount(t.Q, 0, 1)
		}),
		kase("single-active", "the next consumer of a queue with a single active one takes over", func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q, consumerTimeout(shortTimeout), singleActive)
			next := ch.Conn.Chan(2)
			ch.Consume(t.Q, "c")
			next.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "n", Arguments: wire.Table{consumerTimeout(longTimeout)}})
			next.Want(wire.BasicConsumeOk{ConsumerTag: "n"})
			ch.Put(t.Q, "a")
			ch.came("a", 0)
			ch.WantCancelled("c")
			next.came("a", 1)
			ch.Put(t.Q, "b")
			next.came("b", 0)
		}),
		kase("classic", "classic queues know no consumer timeout", func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", Arguments: wire.Table{consumerTimeout(1)}})
			ch.WantClosing(soft(406, wire.BasicConsume{}, "invalid arg 'x-consumer-timeout' for {q} of queue type rabbit_classic_queue"))
		}),
	}
}
