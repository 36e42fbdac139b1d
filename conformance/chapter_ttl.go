package conformance

import (
	"strconv"
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// lease is the time to live of messages that must be taken while they live, even on a busy machine.
const lease = time.Second

// publishFor publishes a message that expires.
func (ch *Chan) publishFor(q, body string, d time.Duration) {
	ch.PublishWith(wire.BasicPublish{RoutingKey: q}, wire.Properties{Expiration: new(strconv.FormatInt(d.Milliseconds(), 10))}, body)
}

// outlive returns when a message that was published in this call with an expiration of d has gone. What was given d
// or less before is over by then, however slow this machine is.
func (ch *Chan) outlive(d time.Duration) {
	clock := ch.t.Q + "-clock"
	ch.Call(wire.QueueDeclare{Queue: clock, Exclusive: true}, wire.QueueDeclareOk{Queue: clock})
	ch.Confirmed(func(confirmed *Chan) { confirmed.publishFor(clock, "tick", d) })
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(getInterval) {
		ch.Send(wire.QueueDeclare{Queue: clock, Passive: true})
		if ch.wantType(wire.QueueDeclareOk{}).(wire.QueueDeclareOk).MessageCount == 0 {
			return
		}
	}
	ch.t.Fatalf("a message with expiration %v is still there after %v", d, patience)
}

// confirmChannel is the number of the channel that Confirmed opens; no case uses it.
const confirmChannel = 2045

// Confirmed runs publish, which publishes one message, on a channel of its own and returns when it is confirmed.
func (ch *Chan) Confirmed(publish func(ch *Chan)) {
	other := ch.Conn.Chan(confirmChannel)
	other.Confirm()
	publish(other)
	other.WantConfirms(1, 1)
	other.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
}

func ttlCases() []Case {
	const source = "rabbitmq: time to live, behaviour 3.1"
	long := wire.Field{Key: "x-message-ttl", Value: int32(600_000)}
	// lives checks that a message lives as long as it should: the queue's ttl, when above 0, and its expiration, when
	// above 0, given.
	lives := func(id, title string, queue, message, want time.Duration) Case {
		return Case{ID: "ttl/" + id, Title: title, Source: source, Class: Timing, Run: func(t *T) {
			var arguments []wire.Field
			if queue > 0 {
				arguments = append(arguments, ttl(queue))
			}
			ch, grave := t.graveyard(arguments...)
			start := time.Now()
			if message > 0 {
				ch.publishFor(t.Q, "a", message)
			} else {
				ch.Publish("", t.Q, "a")
			}
			grave.WantBodies("a")
			if took := time.Since(start); took < want || took > want+5*time.Second {
				t.Fatalf("died after %v, want %v", took, want)
			}
		}}
	}
	return append([]Case{
		lives("queue", "a message lives as long as the queue's x-message-ttl", 200*time.Millisecond, 0, 200*time.Millisecond),
		lives("message", "a message lives as long as its expiration", 0, 200*time.Millisecond, 200*time.Millisecond),
		lives("both-queue", "the smaller of the two counts: the queue's", 150*time.Millisecond, 10*time.Minute, 150*time.Millisecond),
		lives("both-message", "the smaller of the two counts: the message's", 10*time.Minute, 150*time.Millisecond, 150*time.Millisecond),
		{ID: "ttl/gone", Title: "an expired message is neither counted nor got nor delivered", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.publishFor(t.Q, "a", 50*time.Millisecond)
			ch.publishFor(t.Q, "b", 50*time.Millisecond)
			ch.outlive(60 * time.Millisecond)
			ch.WantEmpty(t.Q)
			ch.WantCount(t.Q, 0, 0)
			ch.Consume(t.Q, "c")
			ch.Publish("", t.Q, "fresh")
			ch.WantBodies("fresh")
		}},
		{ID: "ttl/gone-behind", Title: "messages without expiration behind expired ones stay, and can be got", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.publishFor(t.Q, "a", 50*time.Millisecond)
			ch.Publish("", t.Q, "b")
			ch.outlive(60 * time.Millisecond)
			ch.WantCount(t.Q, 1, 0)
			ch.WantGet(t.Q, "b", 0)
		}},
		{ID: "ttl/per-queue", Title: "one message lives as long as each of its queues lets it", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, ttl(50*time.Millisecond))
			ch.Queue(t.Q2, long)
			ch.Bind(t.Q, "amq.direct", t.Key)
			ch.Bind(t.Q2, "amq.direct", t.Key)
			ch.Publish("amq.direct", t.Key, "a")
			ch.outlive(60 * time.Millisecond)
			ch.WantCount(t.Q, 0, 0)
			ch.WantGet(t.Q2, "a", 0)
		}},
		{ID: "ttl/largest", Title: "the largest ttl and expiration there are", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, wire.Field{Key: "x-message-ttl", Value: int64(315360000000)})
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Expiration: new("315360000000")}, "a")
			ch.outlive(20 * time.Millisecond)
			ch.WantGet(t.Q, "a", 0)
		}},
		{ID: "ttl/confirm", Title: "a message is confirmed once, whether it expires or not", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Confirm()
			ch.publishFor(t.Q, "a", 0)
			ch.publishFor(t.Q, "b", 20*time.Millisecond)
			ch.Publish("", t.Q, "c")
			ch.WantConfirms(1, 3)
			ch.outlive(30 * time.Millisecond)
			ch.WantCount(t.Q, 1, 0)
		}},
		{ID: "ttl/returned", Title: "an expiring message that routes is not returned, mandatory or not", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q, Mandatory: true}, wire.Properties{Expiration: new("0")}, "a")
			ch.WantCount(t.Q, 0, 0)
		}},
		{ID: "ttl/tx", Title: "in a transaction the time runs from the commit", Source: source + ", 2.8", Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			tx := ch.Conn.Chan(2)
			ch.Queue(t.Q)
			tx.Call(wire.TxSelect{}, wire.TxSelectOk{})
			tx.publishFor(t.Q, "a", time.Second)
			tx.Quiet()
			ch.outlive(1010 * time.Millisecond)
			tx.commit()
			ch.WantGet(t.Q, "a", 0)
		}},
	}, append(ttlHeadCases(), append(ttlRequeueCases(), ttlZeroCases()...)...)...)
}

// ttlHeadCases: only the first ready message of a queue, or of a priority, can expire.
func ttlHeadCases() []Case {
	const source = "rabbitmq: time to live, behaviour 3.1"
	return []Case{
		{ID: "ttl/head", Title: "behind a message that lives longer an expired one stays counted; getting that message drops it, and get-ok does not count it", Source: source, Class: Extension,
			Run: func(t *T) {
				ch, grave := t.graveyard()
				ch.Publish("", t.Q, "long")
				ch.publishFor(t.Q, "short", 50*time.Millisecond)
				ch.outlive(60 * time.Millisecond)
				ch.WantCount(t.Q, 2, 0)
				grave.Quiet()
				ch.WantGet(t.Q, "long", 0)
				ch.WantEmpty(t.Q)
				grave.WantBodies("short")
			}},
		{ID: "ttl/head-timer", Title: "an expired message that comes to the head dies without anybody asking", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard()
			ch.publishFor(t.Q, "longer", 200*time.Millisecond)
			ch.publishFor(t.Q, "short", 50*time.Millisecond)
			ch.publishFor(t.Q, "longest", 300*time.Millisecond)
			grave.WantBodies("longer", "short", "longest")
		}},
		{ID: "ttl/head-delivered", Title: "the same with a consumer that takes one at a time", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard()
			ch.Prefetch(1)
			ch.Consume(t.Q, "c")
			ch.Publish("", t.Q, "long")
			ch.WantBodies("long")
			ch.Publish("", t.Q, "second")
			ch.publishFor(t.Q, "short", 50*time.Millisecond)
			ch.Publish("", t.Q, "third")
			ch.outlive(60 * time.Millisecond)
			ch.WantCount(t.Q, 3, 1)
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.WantBodies("second")
			grave.WantBodies("short")
			ch.WantCount(t.Q, 1, 1)
			ch.Send(wire.BasicAck{DeliveryTag: 2})
			ch.WantBodies("third")
		}},
		{ID: "ttl/head-purge", Title: "purge counts the expired ones behind the head too", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard()
			ch.Publish("", t.Q, "long")
			ch.publishFor(t.Q, "short", 50*time.Millisecond)
			ch.outlive(60 * time.Millisecond)
			ch.Call(wire.QueuePurge{Queue: t.Q}, wire.QueuePurgeOk{MessageCount: 2})
			grave.Quiet()
		}},
		{ID: "ttl/head-priority", Title: "a priority queue has one head, of its highest priority: what expired below it stays too", Source: source + ", 3.3", Class: Extension,
			Run: func(t *T) {
				ch, grave := t.graveyard(wire.Field{Key: "x-max-priority", Value: int32(5)})
				with := func(priority uint8, expiration *string, body string) {
					ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Priority: &priority, Expiration: expiration}, body)
				}
				with(5, nil, "high long")
				with(5, new("50"), "high short")
				with(1, new("50"), "low short")
				with(1, nil, "low long")
				ch.outlive(60 * time.Millisecond)
				ch.WantCount(t.Q, 4, 0)
				grave.Quiet()
				ch.WantGet(t.Q, "high long", 1)
				grave.WantBodies("high short", "low short")
				ch.WantGet(t.Q, "low long", 0)
			}},
		{ID: "ttl/head-priority-above", Title: "a message of higher priority in front holds back the expiry of one that was the head", Source: source + ", 3.3", Class: Extension,
			Run: func(t *T) {
				ch, grave := t.graveyard(wire.Field{Key: "x-max-priority", Value: int32(5)})
				ch.publishFor(t.Q, "low short", lease)
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Priority: new(uint8(5))}, "high")
				ch.outlive(lease + 10*time.Millisecond)
				ch.WantCount(t.Q, 2, 0)
				grave.Quiet()
				ch.WantGet(t.Q, "high", 0)
				grave.WantBodies("low short")
			}},
	}
}

// ttlRequeueCases: time goes on while a message is out, but it does not expire there.
func ttlRequeueCases() []Case {
	const source = "rabbitmq: time to live, behaviour 3.1"
	return []Case{
		{ID: "ttl/unacked", Title: "an unacknowledged message does not expire", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(ttl(lease))
			ch.Publish("", t.Q, "a")
			tag := ch.Get(t.Q, false).Tag
			ch.outlive(lease + 10*time.Millisecond)
			ch.Send(wire.BasicAck{DeliveryTag: tag})
			ch.Quiet()
			grave.Quiet()
		}},
		{ID: "ttl/requeue-expired", Title: "requeued after its time it expires at once", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(ttl(lease))
			ch.Publish("", t.Q, "a")
			tag := ch.Get(t.Q, false).Tag
			ch.outlive(lease + 10*time.Millisecond)
			ch.Send(wire.BasicNack{DeliveryTag: tag, Requeue: true})
			ch.WantEmpty(t.Q)
			got := grave.Delivery()
			t.wantDead(got.Properties, deadHeaders{deaths: []Death{t.died("expired")}})
		}},
		{ID: "ttl/requeue-expired-delivered", Title: "requeued after its time it is not delivered to a consumer that waits", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(ttl(lease))
			ch.Consume(t.Q, "c")
			ch.Publish("", t.Q, "a")
			ch.WantBodies("a")
			ch.outlive(lease + 10*time.Millisecond)
			ch.Send(wire.BasicNack{DeliveryTag: 1, Requeue: true})
			ch.Quiet()
			grave.WantBodies("a")
		}},
		{ID: "ttl/requeue-keeps", Title: "requeued within its time it expires when it would have", Source: source, Class: Timing, Run: func(t *T) {
			const life = 2 * lease
			ch, grave := t.graveyard(ttl(life))
			ch.Publish("", t.Q, "a")
			tag := ch.Get(t.Q, false).Tag
			ch.outlive(lease + lease/2)
			back := time.Now()
			ch.Send(wire.BasicNack{DeliveryTag: tag, Requeue: true})
			grave.WantBodies("a")
			if took := time.Since(back); took > life-100*time.Millisecond {
				t.Fatalf("expired %v after it was requeued, want some 500 ms", took)
			}
		}},
		{ID: "ttl/requeue-behind", Title: "a requeued message is at the head again and holds back what expired behind it", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard()
			ch.Publish("", t.Q, "first")
			ch.publishFor(t.Q, "short", lease)
			tag := ch.Get(t.Q, false).Tag
			ch.Send(wire.BasicNack{DeliveryTag: tag, Requeue: true})
			ch.outlive(lease + 10*time.Millisecond)
			ch.WantCount(t.Q, 2, 0)
			grave.Quiet()
			ch.WantGet(t.Q, "first", 0)
			grave.WantBodies("short")
		}},
		{ID: "ttl/recover-expired", Title: "recovered after its time it expires too", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(ttl(lease))
			ch.Publish("", t.Q, "a")
			ch.Get(t.Q, false)
			ch.outlive(lease + 10*time.Millisecond)
			ch.Call(wire.BasicRecover{Requeue: true}, wire.BasicRecoverOk{})
			grave.WantBodies("a")
		}},
	}
}

// ttlZeroCases: a time to live of 0 means now or never.
func ttlZeroCases() []Case {
	const source = "rabbitmq: time to live, behaviour 3.1"
	var cases []Case
	for _, way := range []string{"queue", "message"} {
		scene := func(t *T) (ch, grave *Chan) {
			if way == "queue" {
				return t.graveyard(ttl(0))
			}
			return t.graveyard()
		}
		publish := func(t *T, ch *Chan, body string) {
			if way == "queue" {
				ch.Publish("", t.Q, body)
			} else {
				ch.publishFor(t.Q, body, 0)
			}
		}
		cases = append(cases,
			Case{ID: "ttl/zero-waiting-" + way, Title: "0 by the " + way + ": a waiting consumer gets the message", Source: source, Class: Extension, Run: func(t *T) {
				ch, grave := scene(t)
				ch.Consume(t.Q, "c")
				publish(t, ch, "a")
				ch.WantBodies("a")
				grave.Quiet()
			}},
			Case{ID: "ttl/zero-nobody-" + way, Title: "0 by the " + way + ": without a consumer the message expires at once", Source: source, Class: Extension,
				Run: func(t *T) {
					ch, grave := scene(t)
					publish(t, ch, "a")
					got := grave.Delivery()
					d := t.died("expired")
					if way == "message" {
						d.Expiration = "0"
					}
					t.wantDead(got.Properties, deadHeaders{deaths: []Death{d}})
					ch.WantEmpty(t.Q)
				}},
			Case{ID: "ttl/zero-full-" + way, Title: "0 by the " + way + ": a consumer whose prefetch is used up does not help", Source: source, Class: Extension,
				Run: func(t *T) {
					ch, grave := scene(t)
					ch.Prefetch(1)
					ch.Consume(t.Q, "c")
					publish(t, ch, "a")
					ch.WantBodies("a")
					publish(t, ch, "b")
					grave.WantBodies("b")
					ch.Send(wire.BasicAck{DeliveryTag: 1})
					publish(t, ch, "c")
					ch.WantBodies("c")
				}},
			Case{ID: "ttl/zero-requeue-" + way, Title: "0 by the " + way + ": a requeued message expires, whoever waits", Source: source, Class: Extension, Run: func(t *T) {
				ch, grave := scene(t)
				ch.Consume(t.Q, "c")
				publish(t, ch, "a")
				ch.WantBodies("a")
				ch.Send(wire.BasicNack{DeliveryTag: 1, Requeue: true})
				grave.WantBodies("a")
				ch.Quiet()
			}})
	}
	return append(cases, Case{ID: "ttl/zero-behind", Title: "0 by the message: behind one that lives it waits its turn, then expires", Source: source, Class: Extension, Run: func(t *T) {
		ch, grave := t.graveyard()
		ch.Publish("", t.Q, "long")
		ch.publishFor(t.Q, "now", 0)
		ch.WantCount(t.Q, 2, 0)
		grave.Quiet()
		ch.WantGet(t.Q, "long", 0)
		grave.WantBodies("now")
	}})
}
