package conformance

import "github.com/warrenmq/warren/conformance/wire"

// singleActive is the argument of queues with one consumer at a time.
var singleActive = wire.Field{Key: "x-single-active-consumer", Value: true}

// byPriority is the argument of a consumer with a priority.
func byPriority(n int32) wire.Field { return wire.Field{Key: "x-priority", Value: n} }

// singleScene gives a channel that publishes to Q, which has one active consumer at a time, and two channels of one
// other connection with the consumers "a", which is active, and "b", which waits.
func singleScene(t *T) (ch, a, b *Chan) {
	ch = t.Channel()
	c := t.Connect()
	a, b = c.Chan(1), c.Chan(2)
	ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Arguments: wire.Table{singleActive}})
	a.Consume(t.Q, "a")
	b.Consume(t.Q, "b")
	return ch, a, b
}

// wantOnly demands the only delivery there is on a channel, by tag, mark and body.
func (ch *Chan) wantOnly(tag uint64, redelivered bool, body string) {
	got := ch.Delivery()
	ch.t.Equal("delivery", []any{got.Tag, got.Redelivered, got.Body}, []any{tag, redelivered, body})
	ch.Quiet()
}

func singleActiveCases() []Case {
	const source = "rabbitmq: single active consumer, behaviour 5"
	cases := refusals(Extension, []refusal{
		{"single-active/exclusive", "an exclusive consumer is refused, even without others", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q, singleActive)
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", Exclusive: true})
		}, soft(403, wire.BasicConsume{}, "{q} in exclusive use"), closing{}},
		{"single-active/exclusive-beside", "an exclusive consumer is refused beside others", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q, singleActive)
			ch.Consume(t.Q, "a")
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", Exclusive: true})
		}, soft(403, wire.BasicConsume{}, "{q} in exclusive use"), closing{}},
	})
	return append(append(cases, singleHandoverCases()...),
		Case{ID: "single-active/first", Title: "the first consumer gets everything, the others are counted and wait", Source: source, Class: Extension, Run: func(t *T) {
			ch, a, b := singleScene(t)
			ch.Publish("", t.Q, "1", "2", "3")
			a.WantBodies("1", "2", "3")
			b.Quiet()
			a.Send(wire.BasicAck{DeliveryTag: 3, Multiple: true})
			ch.WantCount(t.Q, 0, 2)
		}},
		Case{ID: "single-active/full", Title: "when its prefetch is used up the others still wait", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, singleActive)
			ch.Prefetch(1)
			ch.Consume(t.Q, "a")
			ch.Consume(t.Q, "b")
			ch.Publish("", t.Q, "1", "2")
			ch.WantDelivery(Delivery{Consumer: "a", Tag: 1, Key: t.Q, Body: "1"})
			ch.WantCount(t.Q, 1, 2)
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.WantDelivery(Delivery{Consumer: "a", Tag: 2, Key: t.Q, Body: "2"})
		}},
		Case{ID: "single-active/requeue", Title: "what the active consumer sends back comes to it again", Source: source, Class: Extension, Run: func(t *T) {
			ch, a, b := singleScene(t)
			ch.Publish("", t.Q, "1")
			a.wantOnly(1, false, "1")
			a.Send(wire.BasicNack{DeliveryTag: 1, Requeue: true})
			a.wantOnly(2, true, "1")
			b.Quiet()
		}},
		Case{ID: "single-active/get", Title: "basic.get is allowed", Source: source + ", 2.6", Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, singleActive)
			ch.Publish("", t.Q, "1", "2", "3")
			ch.WantGet(t.Q, "1", 2)
			ch.Prefetch(1)
			ch.Consume(t.Q, "a")
			ch.WantBodies("2")
			ch.WantGet(t.Q, "3", 0)
		}},
		Case{ID: "single-active/waiting-cancel", Title: "a waiting consumer may cancel; nothing else changes", Source: source, Class: Extension, Run: func(t *T) {
			ch, a, b := singleScene(t)
			b.Call(wire.BasicCancel{ConsumerTag: "b"}, wire.BasicCancelOk{ConsumerTag: "b"})
			ch.Publish("", t.Q, "1")
			a.WantBodies("1")
			ch.WantCount(t.Q, 0, 1)
		}},
		Case{ID: "single-active/no-preemption", Title: "a later consumer of higher priority waits", Source: source, Class: Extension, Run: func(t *T) {
			ch, a, b := singleScene(t)
			high := b.Conn.Chan(3)
			high.Consume(t.Q, "high", byPriority(10))
			ch.Publish("", t.Q, "1")
			a.WantBodies("1")
			a.Send(wire.BasicAck{DeliveryTag: 1})
			ch.Publish("", t.Q, "2")
			a.WantBodies("2")
			high.Quiet()
			b.Quiet()
		}},
		Case{ID: "single-active/false", Title: "x-single-active-consumer false changes nothing", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, wire.Field{Key: "x-single-active-consumer", Value: false})
			ch.Consume(t.Q, "a")
			ch.Consume(t.Q, "b")
			for i, tag := range []string{"a", "b", "a"} {
				ch.Publish("", t.Q, "body")
				ch.WantDelivery(Delivery{Consumer: tag, Tag: uint64(i + 1), Key: t.Q, Body: "body"})
			}
		}},
		Case{ID: "single-active/deleted", Title: "when the queue is deleted all its consumers are cancelled", Source: source, Class: Extension, Run: func(t *T) {
			ch, a, b := singleScene(t)
			ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
			a.Want(wire.BasicCancel{ConsumerTag: "a", NoWait: true})
			b.Want(wire.BasicCancel{ConsumerTag: "b", NoWait: true})
		}},
		Case{ID: "single-active/auto-delete", Title: "an auto-delete queue stays while a consumer waits", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, AutoDelete: true, Arguments: wire.Table{singleActive}})
			ch.Consume(t.Q, "a")
			ch.Consume(t.Q, "b")
			ch.Call(wire.BasicCancel{ConsumerTag: "a"}, wire.BasicCancelOk{ConsumerTag: "a"})
			ch.WantCount(t.Q, 0, 1)
			ch.Call(wire.BasicCancel{ConsumerTag: "b"}, wire.BasicCancelOk{ConsumerTag: "b"})
			ch.eventuallyNoQueue()
			ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
		}},
	)
}

// singleBacklog leaves "2" and "3" in Q when the active consumer "a", which holds "1", cancels; "b" waits.
func (t *T) singleBacklog() *Chan {
	ch := t.Channel()
	ch.Queue(t.Q, singleActive)
	ch.Prefetch(1)
	ch.Consume(t.Q, "a")
	ch.Publish("", t.Q, "1", "2", "3")
	ch.WantBodies("1")
	ch.Prefetch(0)
	ch.Consume(t.Q, "b")
	ch.WantCount(t.Q, 2, 2)
	ch.Send(wire.BasicCancel{ConsumerTag: "a", NoWait: true})
	return ch
}

// singleHandoverCases: the active consumer goes, the next takes over.
func singleHandoverCases() []Case {
	const source = "rabbitmq: single active consumer, behaviour 5"
	return []Case{
		{ID: "single-active/cancel", Title: "after a cancel the next takes over; what the old one holds stays with it", Source: source, Class: Extension, Run: func(t *T) {
			ch, a, b := singleScene(t)
			ch.Publish("", t.Q, "1")
			a.WantBodies("1")
			a.Call(wire.BasicCancel{ConsumerTag: "a"}, wire.BasicCancelOk{ConsumerTag: "a"})
			ch.Publish("", t.Q, "2")
			b.wantOnly(1, false, "2")
			a.Send(wire.BasicNack{DeliveryTag: 1, Requeue: true})
			b.wantOnly(2, true, "1")
			ch.WantCount(t.Q, 0, 1)
		}},
		// The queue of RabbitMQ 3.10.8 leaves the backlog lying, and dies at the next publish.
		{ID: "single-active/cancel-backlog", Title: "the next one gets the backlog at once, in order, before what comes later", Source: source, Class: Extension,
			Profiles: []int{Profile4}, Run: func(t *T) {
				ch := t.singleBacklog()
				ch.WantDelivery(Delivery{Consumer: "b", Tag: 2, Key: t.Q, Body: "2"})
				ch.Publish("", t.Q, "4")
				ch.WantDelivery(Delivery{Consumer: "b", Tag: 3, Key: t.Q, Body: "3"})
				ch.WantDelivery(Delivery{Consumer: "b", Tag: 4, Key: t.Q, Body: "4"})
			}},
		{ID: "single-active/channel", Title: "after a channel close the next takes over, and gets what the old one held", Source: source, Class: Extension, Run: func(t *T) {
			ch, a, b := singleScene(t)
			ch.Publish("", t.Q, "1", "2")
			a.WantBodies("1", "2")
			b.Quiet()
			a.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
			for i, body := range []string{"1", "2"} {
				got := b.Delivery()
				t.Equal("delivery", []any{got.Tag, got.Redelivered, got.Body}, []any{uint64(i + 1), true, body})
			}
			ch.Publish("", t.Q, "3")
			b.wantOnly(3, false, "3")
		}},
		{ID: "single-active/lost", Title: "the same when its connection is lost", Source: source, Class: Extension, Run: func(t *T) {
			ch, other := t.Channel(), t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Arguments: wire.Table{singleActive}})
			other.Consume(t.Q, "a")
			ch.Consume(t.Q, "b")
			other.Publish("", t.Q, "1")
			other.WantBodies("1")
			other.Drop()
			ch.WantDelivery(Delivery{Consumer: "b", Tag: 1, Redelivered: true, Key: t.Q, Body: "1"})
			ch.WantCount(t.Q, 0, 1)
		}},
		{ID: "single-active/closed", Title: "the same when its connection is closed", Source: source, Class: Extension, Run: func(t *T) {
			ch, other := t.Channel(), t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Arguments: wire.Table{singleActive}})
			other.Consume(t.Q, "a")
			ch.Consume(t.Q, "b")
			other.Publish("", t.Q, "1")
			other.WantBodies("1")
			other.Conn.Close()
			ch.WantDelivery(Delivery{Consumer: "b", Tag: 1, Redelivered: true, Key: t.Q, Body: "1"})
		}},
		{ID: "single-active/age", Title: "those who wait take over in the order of their coming", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, singleActive)
			tags := []string{"a", "b", "c", "d"}
			for _, tag := range tags {
				ch.Consume(t.Q, tag)
			}
			for i, tag := range tags {
				ch.Publish("", t.Q, "body")
				ch.WantDelivery(Delivery{Consumer: tag, Tag: uint64(i + 1), Key: t.Q, Body: "body"})
				ch.Call(wire.BasicCancel{ConsumerTag: tag}, wire.BasicCancelOk{ConsumerTag: tag})
			}
		}},
		{ID: "single-active/priority", Title: "of those who wait the highest priority takes over, the oldest among equals", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, singleActive)
			ch.Consume(t.Q, "first")
			ch.Consume(t.Q, "low", byPriority(-1))
			ch.Consume(t.Q, "high-1", byPriority(5))
			ch.Consume(t.Q, "high-2", byPriority(5))
			ch.Consume(t.Q, "middle")
			for i, tag := range []string{"first", "high-1", "high-2", "middle", "low"} {
				ch.Publish("", t.Q, "body")
				ch.WantDelivery(Delivery{Consumer: tag, Tag: uint64(i + 1), Key: t.Q, Body: "body"})
				ch.Call(wire.BasicCancel{ConsumerTag: tag}, wire.BasicCancelOk{ConsumerTag: tag})
			}
		}},
		{ID: "single-active/comes-back", Title: "one who comes back is the last in line", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, singleActive)
			ch.Consume(t.Q, "a")
			ch.Consume(t.Q, "b")
			ch.Call(wire.BasicCancel{ConsumerTag: "a"}, wire.BasicCancelOk{ConsumerTag: "a"})
			ch.Consume(t.Q, "a")
			ch.Publish("", t.Q, "1")
			ch.WantDelivery(Delivery{Consumer: "b", Tag: 1, Key: t.Q, Body: "1"})
		}},
		{ID: "single-active/no-ack", Title: "consumers without acknowledgement take turns in the same way", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, singleActive)
			ch.ConsumeNoAck(t.Q, "a")
			ch.ConsumeNoAck(t.Q, "b")
			ch.Publish("", t.Q, "1")
			ch.WantDelivery(Delivery{Consumer: "a", Tag: 1, Key: t.Q, Body: "1"})
			ch.Publish("", t.Q, "2")
			ch.WantDelivery(Delivery{Consumer: "a", Tag: 2, Key: t.Q, Body: "2"})
			ch.Call(wire.BasicCancel{ConsumerTag: "a"}, wire.BasicCancelOk{ConsumerTag: "a"})
			ch.Publish("", t.Q, "3")
			ch.WantDelivery(Delivery{Consumer: "b", Tag: 3, Key: t.Q, Body: "3"})
		}},
	}
}

// consumerPriorityCases go beyond what the priority chapter has.
func consumerPriorityCases() []Case {
	const source = "rabbitmq: consumer priorities, behaviour 5"
	// pair gives Q with consumers "low", of no priority, and "high", of 10, each with prefetch 1 on a channel of its own.
	pair := func(t *T) (ch, low, high *Chan) {
		ch = t.Channel()
		ch.Queue(t.Q)
		low, high = ch.Conn.Chan(2), ch.Conn.Chan(3)
		low.Prefetch(1)
		high.Prefetch(1)
		low.Consume(t.Q, "low")
		high.Consume(t.Q, "high", byPriority(10))
		return ch, low, high
	}
	return []Case{
		{ID: "consumer-priority/room-again", Title: "the higher one gets the next message once it has room again", Source: source, Class: Extension, Run: func(t *T) {
			ch, low, high := pair(t)
			ch.Publish("", t.Q, "1")
			high.WantBodies("1")
			ch.Publish("", t.Q, "2")
			low.WantBodies("2")
			high.Send(wire.BasicAck{DeliveryTag: 1})
			high.Quiet()
			low.Send(wire.BasicAck{DeliveryTag: 1})
			low.Quiet()
			ch.Publish("", t.Q, "3")
			high.WantBodies("3")
			low.Quiet()
		}},
		{ID: "consumer-priority/backlog", Title: "a backlog waits for whoever has room, the higher one first", Source: source, Class: Extension, Run: func(t *T) {
			ch, low, high := pair(t)
			ch.Publish("", t.Q, "1", "2", "3", "4")
			high.WantBodies("1")
			low.WantBodies("2")
			low.Send(wire.BasicAck{DeliveryTag: 1})
			low.WantBodies("3")
			high.Send(wire.BasicAck{DeliveryTag: 1})
			high.WantBodies("4")
		}},
		{ID: "consumer-priority/requeue", Title: "a message that the lower one sends back goes to the higher one", Source: source, Class: Extension, Run: func(t *T) {
			ch, low, high := pair(t)
			ch.Publish("", t.Q, "1", "2")
			high.WantBodies("1")
			low.WantBodies("2")
			high.Send(wire.BasicAck{DeliveryTag: 1})
			high.Quiet()
			low.Send(wire.BasicNack{DeliveryTag: 1, Requeue: true})
			high.wantOnly(2, true, "2")
		}},
		{ID: "consumer-priority/cancel", Title: "when the higher one goes the lower one gets all", Source: source, Class: Extension, Run: func(t *T) {
			ch, low, high := pair(t)
			high.Call(wire.BasicCancel{ConsumerTag: "high"}, wire.BasicCancelOk{ConsumerTag: "high"})
			ch.Publish("", t.Q, "1")
			low.WantBodies("1")
		}},
		{ID: "consumer-priority/later", Title: "a higher one that comes later gets what comes after it", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.ConsumeNoAck(t.Q, "old")
			ch.Publish("", t.Q, "1")
			ch.WantDelivery(Delivery{Consumer: "old", Tag: 1, Key: t.Q, Body: "1"})
			ch.Consume(t.Q, "new", byPriority(1))
			ch.Publish("", t.Q, "2")
			ch.WantDelivery(Delivery{Consumer: "new", Tag: 2, Key: t.Q, Body: "2"})
		}},
		{ID: "consumer-priority/connections", Title: "priorities hold across connections", Source: source, Class: Extension, Run: func(t *T) {
			low, high := t.Channel(), t.Channel()
			low.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
			low.Consume(t.Q, "c")
			high.Consume(t.Q, "c", byPriority(1))
			low.Publish("", t.Q, "1", "2")
			high.WantBodies("1", "2")
			low.Quiet()
		}},
		{ID: "consumer-priority/extremes", Title: "priorities are integers of any size", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Prefetch(1)
			ch.Consume(t.Q, "lowest", wire.Field{Key: "x-priority", Value: int64(-1 << 63)})
			ch.Consume(t.Q, "highest", wire.Field{Key: "x-priority", Value: int64(1<<63 - 1)})
			ch.Consume(t.Q, "middle", wire.Field{Key: "x-priority", Value: int64(1 << 40)})
			for i, tag := range []string{"highest", "middle", "lowest"} {
				ch.Publish("", t.Q, "body")
				ch.WantDelivery(Delivery{Consumer: tag, Tag: uint64(i + 1), Key: t.Q, Body: "body"})
			}
		}},
	}
}
