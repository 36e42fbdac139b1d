package conformance

import (
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// extrasSource names the rules of this chapter that are Warren's own.
const extrasSource = "docs/reference"

// subscriptionCases: the way to a durable subscription in AMQP is a durable queue with a name, bound to the exchange,
// and an exclusive consumer.
func subscriptionCases() []Case {
	const source = "rabbitmq: exclusive consumers, behaviour 2.4"
	subscribe := func(t *T) (publisher, first, second *Chan) {
		publisher, first, second = t.Channel(), t.Channel(), t.Channel()
		publisher.Exchange(t.X, "topic")
		first.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Durable: true})
		first.Bind(t.Q, t.X, "news.#")
		first.Call(wire.BasicConsume{Queue: t.Q, ConsumerTag: "holder", Exclusive: true}, wire.BasicConsumeOk{ConsumerTag: "holder"})
		return publisher, first, second
	}
	again := wire.BasicConsume{Exclusive: true, ConsumerTag: "second"}
	return []Case{
		{ID: "subscription/second-holder", Title: "a second holder of a durable subscription is refused, exclusive or not", Source: source, Class: Core, Run: func(t *T) {
			publisher, first, second := subscribe(t)
			for _, exclusive := range []bool{true, false} {
				second.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "second", Exclusive: exclusive})
				second.WantClosing(soft(403, wire.BasicConsume{}, "{q} in exclusive use"))
			}
			publisher.Publish(t.X, "news.today", "1")
			first.WantBodies("1")
		}},
		{ID: "subscription/away", Title: "what is published while the holder is away waits for whoever comes back, in order", Source: source, Class: Core, Run: func(t *T) {
			publisher, first, second := subscribe(t)
			publisher.Publish(t.X, "news.today", "1")
			first.WantBodies("1")
			first.Send(wire.BasicAck{DeliveryTag: 1})
			first.Conn.Close()
			publisher.Publish(t.X, "news.today", "2", "3")
			publisher.Publish(t.X, "weather", "no news")
			publisher.WantCount(t.Q, 2, 0)
			again.Queue = t.Q
			second.Call(again, wire.BasicConsumeOk{ConsumerTag: "second"})
			second.WantBodies("2", "3")
			second.Quiet()
		}},
		{ID: "subscription/lost", Title: "a holder whose connection is lost leaves its place and what it had not acknowledged", Source: source, Class: Core, Run: func(t *T) {
			publisher, first, second := subscribe(t)
			publisher.Publish(t.X, "news.today", "1")
			first.WantBodies("1")
			first.Conn.Drop()
			publisher.WantCount(t.Q, 1, 0)
			again.Queue = t.Q
			second.Call(again, wire.BasicConsumeOk{ConsumerTag: "second"})
			second.wantOnly(1, true, "1")
		}},
	}
}

// maxActive and maxBackup are the arguments of a queue that limits its consumers.
func maxActive(n int32) wire.Field { return wire.Field{Key: "x-max-active-consumers", Value: n} }
func maxBackup(n int32) wire.Field { return wire.Field{Key: "x-max-backup-consumers", Value: n} }

func activeConsumerCases() []Case {
	// scene gives a channel that publishes, and consumers: "a" on a connection of its own, "b" and "c" on another, so
	// that the end of the case hands nothing from one to the other.
	scene := func(t *T, arguments ...wire.Field) (ch, a, b, c *Chan) {
		ch, a, b = t.Channel(), t.Channel(), t.Channel()
		c = b.Conn.Chan(2)
		ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Arguments: arguments})
		a.Consume(t.Q, "a")
		b.Consume(t.Q, "b")
		c.Consume(t.Q, "c")
		return ch, a, b, c
	}
	return []Case{
		{ID: "active/first", Title: "the first N receive in turn, the next M wait, one more is refused", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch, a, b, c := scene(t, maxActive(2), maxBackup(1))
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "d"})
			ch.WantClosing(soft(403, wire.BasicConsume{}, "{q} has reached its limits of 2 active and 1 backup consumers"))
			ch.Publish("", t.Q, "1", "2", "3", "4")
			a.WantBodies("1", "3")
			b.WantBodies("2", "4")
			c.Quiet()
			ch.WantCount(t.Q, 0, 3)
			a.Send(wire.BasicAck{DeliveryTag: 2, Multiple: true})
			a.Quiet()
			b.Send(wire.BasicAck{DeliveryTag: 2, Multiple: true})
		}},
		{ID: "active/cancel", Title: "a backup steps in after a cancel; its place is free again", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch, a, b, c := scene(t, maxActive(2), maxBackup(1))
			b.Call(wire.BasicCancel{ConsumerTag: "b"}, wire.BasicCancelOk{ConsumerTag: "b"})
			b.Consume(t.Q, "b2")
			ch.Publish("", t.Q, "1", "2")
			a.WantBodies("1")
			c.WantBodies("2")
			b.Quiet()
			a.Send(wire.BasicAck{DeliveryTag: 1})
			a.Quiet()
		}},
		{ID: "active/lost", Title: "a backup steps in after a connection is lost, and gets what that had", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch, a, b, c := scene(t, maxActive(1))
			ch.Publish("", t.Q, "1")
			a.WantBodies("1")
			a.Conn.Drop()
			b.wantOnly(1, true, "1")
			c.Quiet()
		}},
		{ID: "active/priority", Title: "the backup of the highest x-priority steps in; it pushes nobody out", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch, a, b, c := scene(t, maxActive(1))
			high := b.Conn.Chan(3)
			high.Consume(t.Q, "high", byPriority(5))
			ch.Publish("", t.Q, "1")
			a.WantBodies("1")
			a.Call(wire.BasicCancel{ConsumerTag: "a"}, wire.BasicCancelOk{ConsumerTag: "a"})
			a.Send(wire.BasicAck{DeliveryTag: 1})
			a.Quiet()
			ch.Publish("", t.Q, "2")
			high.WantBodies("2")
			b.Quiet()
			c.Quiet()
		}},
		{ID: "active/no-backup", Title: "x-max-backup-consumers 0: nobody waits", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, maxActive(1), maxBackup(0))
			ch.Consume(t.Q, "a")
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "b"})
			ch.WantClosing(soft(403, wire.BasicConsume{}, "{q} has reached its limits of 1 active and 0 backup consumers"))
			ch.Consume(t.Q, "c")
		}},
	}
}

func overflowModeCases() []Case {
	return []Case{
		{ID: "overflow/drop-lowest-priority", Title: "the oldest of the lowest priority goes, as a dead letter", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch, grave := t.graveyard(maxLength(3), overflow("drop-lowest-priority"), wire.Field{Key: "x-max-priority", Value: int32(5)})
			ch.publishPriorities(t.Q, 2, 1, 5, 1, 0, 4)
			for _, body := range []string{"b", "e", "d"} {
				got := grave.Delivery()
				reason, _ := (*got.Properties.Headers).Get("x-first-death-reason")
				t.Equal("dead letter", []any{got.Body, reason}, []any{body, "maxlen"})
			}
			ch.wantReady(t.Q, "c", "f", "a")
			grave.Quiet()
		}},
		{ID: "overflow/block-publishers", Title: "a publisher is blocked while the queue is full; its confirms come with the room", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch, taker := t.Channel(), t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Arguments: wire.Table{maxLength(1), overflow("block-publishers")}})
			ch.Confirm()
			ch.Publish("", t.Q, "1", "2")
			ch.Conn.Want(0, wire.ConnectionBlocked{Reason: t.Text("{q} is full")})
			ch.WantConfirms(1, 1)
			ch.Publish("", t.Q2, "to nobody, at once")
			ch.Want(wire.BasicAck{DeliveryTag: 3})
			taker.WantGet(t.Q, "1", 0)
			ch.Conn.Want(0, wire.ConnectionUnblocked{})
			ch.Want(wire.BasicAck{DeliveryTag: 2})
			taker.WantGet(t.Q, "2", 0)
		}},
		{ID: "overflow/block-own-consumer", Title: "a connection that consumes from the queue it fills goes on", Source: extrasSource, Class: Own, Run: func(t *T) {
			c := t.ConnectAs(login{properties: wire.Table{}}) // is not told
			ch := c.Chan(1)
			ch.Queue(t.Q, maxLength(1), overflow("block-publishers"))
			ch.Prefetch(1)
			ch.Consume(t.Q, "c")
			ch.Publish("", t.Q, "1", "2", "3", "4", "5")
			for i, body := range []string{"1", "2", "3", "4", "5"} {
				ch.WantBodies(body)
				ch.Send(wire.BasicAck{DeliveryTag: uint64(i + 1)})
			}
			ch.WantCount(t.Q, 0, 1)
		}},
		{ID: "overflow/block-others", Title: "publishers of other queues go on", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch, other := t.Channel(), t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Arguments: wire.Table{maxLength(0), maxBytes(10), overflow("block-publishers")}})
			ch.Queue(t.Q2)
			ch.Confirm()
			ch.Publish("", t.Q, "can never fit")
			ch.Want(wire.BasicNack{DeliveryTag: 1, Requeue: true})
			other.Publish("", t.Q2, "1")
			other.WantCount(t.Q, 0, 0)
			ch.WantCount(t.Q2, 1, 0)
		}},
		{ID: "overflow/block-dead-letters", Title: "dead letters and transactions do not wait: they are refused", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q2, maxLength(1), overflow("block-publishers"))
			ch.Queue(t.Q, wire.Field{Key: "x-dead-letter-exchange", Value: ""}, wire.Field{Key: "x-dead-letter-routing-key", Value: t.Q2})
			ch.Publish("", t.Q, "1", "2")
			ch.rejectNext(t.Q)
			ch.WantCount(t.Q2, 1, 0)
			ch.rejectNext(t.Q)
			ch.WantEmpty(t.Q)
			ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
			ch.Publish("", t.Q2, "3")
			ch.Send(wire.TxCommit{})
			ch.WantClosing(soft(406, wire.TxCommit{}, "partial tx completion"))
			ch.WantGet(t.Q2, "1", 0)
			ch.WantEmpty(t.Q2)
		}},
	}
}

func flowThresholdCases() []Case {
	threshold := func(n int32) wire.Field { return wire.Field{Key: "x-flow-threshold", Value: n} }
	rank := func(n int32) wire.Field { return wire.Field{Key: "x-channel-priority", Value: n} }
	return []Case{
		{ID: "flow-threshold/batch", Title: "at the prefetch limit deliveries stop until the threshold, and come in a batch", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "1", "2", "3", "4", "5", "6", "7", "8")
			ch.Prefetch(4)
			ch.Consume(t.Q, "c", threshold(25))
			ch.WantBodies("1", "2", "3", "4")
			ch.Send(wire.BasicAck{DeliveryTag: 2, Multiple: true})
			ch.Quiet()
			ch.Send(wire.BasicAck{DeliveryTag: 3})
			ch.WantBodies("5", "6", "7")
			ch.Quiet()
		}},
		{ID: "flow-threshold/hundred", Title: "100 is what AMQP does without", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "1", "2", "3")
			ch.Prefetch(2)
			ch.Consume(t.Q, "c", threshold(100))
			ch.WantBodies("1", "2")
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.WantBodies("3")
		}},
		{ID: "channel-priority/shared", Title: "of the credit that they share the higher consumer gets all it can use", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch, publisher := t.Channel(), t.Channel()
			publisher.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
			publisher.DeclareQueue(wire.QueueDeclare{Queue: t.Q2})
			ch.Call(wire.BasicQos{PrefetchCount: 2, Global: true}, wire.BasicQosOk{})
			ch.Consume(t.Q2, "low", rank(1))
			ch.Consume(t.Q, "high", rank(2))
			publisher.Publish("", t.Q2, "l1", "l2", "l3", "l4")
			ch.WantBodies("l1", "l2")
			publisher.Publish("", t.Q, "h1", "h2", "h3")
			publisher.WantCount(t.Q, 3, 1)
			for i, body := range []string{"h1", "h2", "h3", "l3", "l4"} {
				ch.Send(wire.BasicAck{DeliveryTag: uint64(i + 1)})
				ch.WantBodies(body)
			}
		}},
	}
}

func agingCases() []Case {
	levels := wire.Field{Key: "x-max-priority", Value: int32(9)}
	aging := func(ms int64) wire.Field { return wire.Field{Key: "x-priority-aging", Value: ms} }
	// publishLate publishes "low" of priority 0, and "high" of priority 9 when low is at least 20 ms old.
	publishLate := func(t *T, ch *Chan) {
		ch.publishPriorities(t.Q, 0)
		ch.WantCount(t.Q, 1, 0)
		time.Sleep(20 * time.Millisecond)
		ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Priority: new(uint8(9))}, "high")
	}
	return []Case{
		{ID: "aging/rises", Title: "a waiting message rises one level each period, and is before younger ones there", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, levels, aging(2))
			publishLate(t, ch)
			ch.WantGet(t.Q, "a", 1)
			ch.WantGet(t.Q, "high", 0)
		}},
		{ID: "aging/strict", Title: "within a period priorities are strict", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, levels, aging(3_600_000))
			publishLate(t, ch)
			ch.WantGet(t.Q, "high", 1)
			ch.WantGet(t.Q, "a", 0)
		}},
	}
}

// ownArgumentCases: what is wrong is refused as RabbitMQ refuses wrong values of its own arguments.
func ownArgumentCases() []Case {
	var cases []Case
	levels := wire.Field{Key: "x-max-priority", Value: int32(2)}
	declare := func(id, argument, reason string, arguments ...wire.Field) {
		cases = append(cases, refusals(Own, []refusal{{"own-argument/" + id, "queue.declare with " + id, extrasSource, func(t *T, ch *Chan) {
			ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Arguments: arguments})
		}, soft(406, wire.QueueDeclare{}, bad(argument, reason)), closing{}}})...)
	}
	consume := func(id, argument, reason string, value any) {
		cases = append(cases, refusals(Own, []refusal{{"own-argument/" + id, "basic.consume with " + id, extrasSource, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Send(wire.BasicConsume{Queue: t.Q, Arguments: wire.Table{{Key: argument, Value: value}}})
		}, soft(406, wire.BasicConsume{}, bad(argument, reason)), closing{}}})...)
	}
	const active, backup, aging = "x-max-active-consumers", "x-max-backup-consumers", "x-priority-aging"
	declare("max-active-zero", active, "{value_zero,0}", maxActive(0))
	declare("max-active-negative", active, "{value_negative,-1}", maxActive(-1))
	declare("max-active-type", active, `"expected integer, got longstr"`, wire.Field{Key: active, Value: "2"})
	declare("max-active-single", active, "{single_active_consumer,2}", maxActive(2), singleActive)
	declare("max-active-large", active, "{max_value_exceeded,2147483647}", maxActive(1<<31-1))
	declare("max-backup-negative", backup, "{value_negative,-1}", maxActive(1), maxBackup(-1))
	declare("max-backup-type", backup, `"expected integer, got bool"`, maxActive(1), wire.Field{Key: backup, Value: true})
	declare("max-backup-alone", backup, "backup_consumers_but_no_max_active_defined", maxBackup(1))
	declare("aging-zero", aging, "{value_zero,0}", levels, wire.Field{Key: aging, Value: int32(0)})
	declare("aging-negative", aging, "{value_negative,-1}", levels, wire.Field{Key: aging, Value: int32(-1)})
	declare("aging-large", aging, "{value_too_large,315360000001}", levels, wire.Field{Key: aging, Value: int64(315360000001)})
	declare("aging-type", aging, `"expected integer, got double"`, levels, wire.Field{Key: aging, Value: 1.5})
	declare("aging-alone", aging, "aging_but_no_max_priority_defined", wire.Field{Key: aging, Value: int32(1000)})
	declare("overflow", "x-overflow", "invalid_overflow", overflow("drop-highest-priority"))
	consume("flow-threshold-zero", "x-flow-threshold", "{value_zero,0}", int32(0))
	consume("flow-threshold-negative", "x-flow-threshold", "{value_negative,-5}", int32(-5))
	consume("flow-threshold-large", "x-flow-threshold", "{max_value_exceeded,101}", int32(101))
	consume("flow-threshold-type", "x-flow-threshold", `"expected integer, got longstr"`, "50")
	consume("channel-priority-type", "x-channel-priority", `"expected integer, got float"`, float32(1))
	return append(cases,
		Case{ID: "own-argument/equivalence", Title: "the arguments have to be the same in a second declare", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			all := wire.Table{levels, maxActive(2), maxBackup(1), {Key: aging, Value: int32(500)}, overflow("drop-lowest-priority")}
			ch.Queue(t.Q, all...)
			ch.Queue(t.Q, all...)
			ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Arguments: wire.Table{levels, maxActive(3), maxBackup(1), {Key: aging, Value: int32(500)}, overflow("drop-lowest-priority")}})
			ch.WantClosing(soft(406, wire.QueueDeclare{}, "inequivalent arg 'x-max-active-consumers' for {q}: received '3' but current is '2'"))
			ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Arguments: wire.Table{levels, overflow("drop-lowest-priority")}})
			ch.WantClosing(soft(406, wire.QueueDeclare{}, "inequivalent arg 'x-max-active-consumers' for {q}: received none but current is the value '2' of type 'signedint'"))
		}},
		Case{ID: "own-argument/quorum", Title: "overflow modes of classic queues are refused for quorum queues", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			for _, mode := range []string{"drop-lowest-priority", "block-publishers"} {
				ch.Send(wire.QueueDeclare{Queue: t.Q, Durable: true, Arguments: wire.Table{{Key: "x-queue-type", Value: "quorum"}, overflow(mode)}})
				ch.WantClosing(soft(406, wire.QueueDeclare{}, bad("x-overflow", "invalid_overflow")))
			}
		}})
}
