package conformance

import (
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// expires is the argument that lets a queue go when it has been unused for so long.
func expires(d time.Duration) wire.Field {
	return wire.Field{Key: "x-expires", Value: d.Milliseconds()}
}

// routable reports whether a queue is there, in the one way that does not count as using it: a mandatory publish on a
// confirming channel, whose n-th publish this is.
func (ch *Chan) routable(q string, n uint64) bool {
	ch.PublishWith(wire.BasicPublish{RoutingKey: q, Mandatory: true}, wire.Properties{}, "")
	returned := false
	for {
		switch m := ch.next().(type) {
		case wire.BasicReturn:
			ch.Content()
			returned = true
		case wire.BasicAck:
			ch.t.Equal("confirm", m.DeliveryTag, n)
			return !returned
		case wire.BasicNack: // RabbitMQ 4 says so of a queue that goes at this moment
			ch.t.Equal("confirm", m.DeliveryTag, n)
			return true
		default:
			ch.t.Fatalf("a mandatory publish answered with %#v", m)
		}
	}
}

// whileThere runs each, in turns, until a queue is gone, which is looked at without using it. It returns how long
// that took.
func (ch *Chan) whileThere(q string, each func()) time.Duration {
	watch := ch.Conn.Chan(confirmChannel)
	watch.Confirm()
	start := time.Now()
	for n := uint64(1); watch.routable(q, n); n++ {
		if time.Since(start) > patience {
			ch.t.Fatalf("queue %s is still there after %v", q, patience)
		}
		if each != nil {
			each()
		}
		time.Sleep(getInterval)
	}
	watch.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
	return time.Since(start)
}

// wantThere demands that a queue is there, without using it.
func (ch *Chan) wantThere(q string) {
	watch := ch.Conn.Chan(confirmChannel)
	watch.Confirm()
	ch.t.Equal("queue "+q+" is there", watch.routable(q, 1), true)
	watch.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
}

func expiresCases() []Case {
	const source = "rabbitmq: queue expiry, behaviour 3.1"
	const life = time.Second
	const long = 1500 * time.Millisecond // for queues that must be used again and again in time
	// kept uses Q again and again while Q2, declared after it with the same expiry, goes. Q must still be there.
	kept := func(id, title string, use func(t *T, ch *Chan)) Case {
		return Case{ID: "queue-expiry/kept-by-" + id, Title: title, Source: source, Class: Timing, Run: func(t *T) {
			ch := t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Arguments: wire.Table{expires(long)}})
			for range 2 { // so that Q outlives itself twice
				ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q2, Arguments: wire.Table{expires(long)}})
				ch.whileThere(t.Q2, func() { use(t, ch) })
			}
			ch.wantThere(t.Q)
		}}
	}
	// gone uses Q again and again until it is gone all the same.
	gone := func(id, title string, use func(t *T, ch *Chan)) Case {
		return Case{ID: "queue-expiry/not-kept-by-" + id, Title: title, Source: source, Class: Timing, Run: func(t *T) {
			ch := t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Arguments: wire.Table{expires(life)}})
			start := time.Now()
			ch.whileThere(t.Q, func() { use(t, ch) })
			if took := time.Since(start); took > life+5*time.Second {
				t.Fatalf("it took %v", took)
			}
			ch.eventuallyNoQueue()
			ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
		}}
	}
	return append([]Case{
		kept("get", "basic.get is use", func(t *T, ch *Chan) { ch.WantEmpty(t.Q) }),
		kept("declare", "declaring it again is use", func(t *T, ch *Chan) {
			ch.Call(wire.QueueDeclare{Queue: t.Q, Arguments: wire.Table{expires(long)}}, wire.QueueDeclareOk{Queue: t.Q})
		}),
		kept("passive", "a passive declare is use", func(t *T, ch *Chan) {
			ch.Call(wire.QueueDeclare{Queue: t.Q, Passive: true}, wire.QueueDeclareOk{Queue: t.Q})
		}),
		gone("publish", "publishing to it is no use", func(t *T, ch *Chan) { ch.Publish("", t.Q, "a") }),
		gone("unbind", "unbinding it is no use", func(t *T, ch *Chan) {
			ch.Send(wire.QueueUnbind{Queue: t.Q, Exchange: "amq.direct", RoutingKey: "k"})
			ch.Want(wire.QueueUnbindOk{})
		}),
		gone("ack", "acknowledging its messages is no use", func(t *T, ch *Chan) { ch.Send(wire.BasicAck{Multiple: true}) }),
		{ID: "queue-expiry/gone", Title: "an unused queue goes after its time, not before, with its messages and bindings", Source: source, Class: Timing, Run: func(t *T) {
			ch := t.Channel()
			ch.Confirm()
			start := time.Now()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Durable: true, Arguments: wire.Table{expires(life)}})
			ch.Bind(t.Q, "amq.direct", t.Key)
			ch.Publish("amq.direct", t.Key, "a")
			ch.WantConfirms(1, 1)
			ch.whileThere(t.Q, nil)
			if took := time.Since(start); took < life || took > life+5*time.Second {
				t.Fatalf("gone after %v, want %v", took, life)
			}
			ch.PublishWith(wire.BasicPublish{Exchange: "amq.direct", RoutingKey: t.Key, Mandatory: true}, wire.Properties{}, "b")
			ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Exchange: "amq.direct", Key: t.Key, Body: "b"})
			ch.WantConfirms(2, 2)
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
			ch.WantEmpty(t.Q)
		}},
		{ID: "queue-expiry/not-dead", Title: "messages of a queue that expires are not dead letters", Source: source, Class: Timing, Run: func(t *T) {
			ch, grave := t.graveyard()
			expiring := t.Q + "-2"
			ch.Queue(expiring, append(deadTo(t.X), expires(short))...)
			ch.Publish("", expiring, "a")
			ch.whileThere(expiring, nil)
			ch.Publish("", t.Q, "marker")
			ch.rejectNext(t.Q)
			grave.WantBodies("marker")
		}},
		{ID: "queue-expiry/unacked", Title: "unacknowledged messages do not keep it, and can be settled afterwards", Source: source, Class: Timing, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, expires(life))
			ch.Publish("", t.Q, "a", "b")
			ch.Get(t.Q, false)
			ch.Get(t.Q, false)
			ch.whileThere(t.Q, nil)
			ch.Send(wire.BasicAck{DeliveryTag: 1}, wire.BasicNack{DeliveryTag: 2, Requeue: true})
			ch.Quiet()
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.WantClosing(soft(406, wire.BasicAck{}, "unknown delivery tag 1"))
		}},
		{ID: "queue-expiry/exclusive", Title: "an exclusive queue expires too", Source: source, Class: Timing, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, expires(short))
			ch.whileThere(t.Q, nil)
			ch.Queue(t.Q)
		}},
	}, expiresConsumerCases(life)...)
}

// expiresConsumerCases: time does not run while there are consumers.
func expiresConsumerCases(life time.Duration) []Case {
	const source = "rabbitmq: queue expiry, behaviour 3.1"
	// freed has a consumer on Q while Q2 with the same expiry goes, then frees Q, which must stay as long again.
	freed := func(id, title string, free func(ch *Chan)) Case {
		return Case{ID: "queue-expiry/consumer-" + id, Title: title, Source: source, Class: Timing, Run: func(t *T) {
			ch := t.Channel()
			two := ch.Conn.Chan(2)
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Arguments: wire.Table{expires(life)}})
			two.Consume(t.Q, "c")
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q2, Arguments: wire.Table{expires(life)}})
			ch.whileThere(t.Q2, nil)
			start := time.Now()
			free(two)
			if took := ch.whileThere(t.Q, nil); time.Since(start) < life || took > life+5*time.Second {
				t.Fatalf("gone %v after the consumer, want %v", took, life)
			}
		}}
	}
	return []Case{
		freed("cancel", "with a consumer it stays; after its cancel the time runs anew", func(ch *Chan) {
			ch.Call(wire.BasicCancel{ConsumerTag: "c"}, wire.BasicCancelOk{ConsumerTag: "c"})
		}),
		freed("channel", "the same when the consumer's channel closes", func(ch *Chan) {
			ch.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
		}),
		{ID: "queue-expiry/consumer-one-of-two", Title: "one of two consumers keeps it", Source: source, Class: Timing, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, expires(life))
			ch.Consume(t.Q, "a")
			ch.Consume(t.Q, "b")
			ch.Call(wire.BasicCancel{ConsumerTag: "a"}, wire.BasicCancelOk{ConsumerTag: "a"})
			ch.Queue(t.Q2, expires(life))
			ch.whileThere(t.Q2, nil)
			ch.WantCount(t.Q, 0, 1)
		}},
	}
}
