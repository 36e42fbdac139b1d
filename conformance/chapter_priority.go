package conformance

import "github.com/warrenmq/warren/conformance/wire"

// publishPriorities publishes one message for each priority, with its place as body; a negative one means none.
func (ch *Chan) publishPriorities(q string, priorities ...int) {
	for i, p := range priorities {
		props := wire.Properties{}
		if p >= 0 {
			props.Priority = new(uint8(p))
		}
		ch.PublishWith(wire.BasicPublish{RoutingKey: q}, props, string(rune('a'+i)))
	}
}

// wantOrder gets messages one by one.
func (ch *Chan) wantOrder(q, bodies string) {
	for i := range bodies {
		ch.WantGet(q, bodies[i:i+1], uint32(len(bodies)-1-i))
	}
}

func priorityCases() []Case {
	const source = "rabbitmq: priority queues, behaviour 3.3"
	const consumers = "rabbitmq: consumer priorities, behaviour 5"
	most := func(n int32) wire.Field { return wire.Field{Key: "x-max-priority", Value: n} }
	return []Case{
		{ID: "priority/order", Title: "higher first, above the maximum as the maximum, none as 0, equals in order", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, most(5))
			ch.publishPriorities(t.Q, 1, -1, 5, 9, 3, 0)
			ch.wantOrder(t.Q, "cdeabf")
		}},
		{ID: "priority/delivered", Title: "the property is delivered as it was published", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, most(5))
			ch.publishPriorities(t.Q, 200)
			t.Equal("message", ch.Get(t.Q, true), Got{Tag: 1, Key: t.Q, Properties: wire.Properties{Priority: new(uint8(200))}, Body: "a"})
		}},
		{ID: "priority/none", Title: "a queue without x-max-priority keeps arrival order", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.publishPriorities(t.Q, 0, 9, 5)
			ch.wantOrder(t.Q, "abc")
		}},
		{ID: "priority/zero-levels", Title: "x-max-priority 0: arrival order under profile 3, two levels under 4", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, most(0))
			ch.publishPriorities(t.Q, 0, 1)
			if t.Four() {
				ch.wantOrder(t.Q, "ba")
				return
			}
			ch.wantOrder(t.Q, "ab")
		}},
		{ID: "priority/255", Title: "255 levels", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, most(255))
			ch.publishPriorities(t.Q, 0, 254, 255, 128)
			ch.wantOrder(t.Q, "cbda")
		}},
		{ID: "priority/requeue", Title: "a requeued message goes back to its place in its priority", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, most(5))
			ch.publishPriorities(t.Q, 1, 3, 3, 5)
			ch.Get(t.Q, false)
			ch.Get(t.Q, false)
			ch.Send(wire.BasicNack{DeliveryTag: 2, Requeue: true}, wire.BasicNack{DeliveryTag: 1, Requeue: true})
			ch.wantOrder(t.Q, "dbca")
		}},
		{ID: "priority/consumer-order", Title: "a consumer gets a backlog by priority, and later messages as they come", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, most(10))
			ch.publishPriorities(t.Q, 1, 10, 5)
			ch.Prefetch(1)
			ch.Consume(t.Q, "c")
			ch.WantBodies("b")
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Priority: new(uint8(7))}, "late")
			ch.Quiet()
			for i, body := range []string{"late", "c", "a"} {
				ch.Send(wire.BasicAck{DeliveryTag: uint64(i + 1)})
				ch.WantBodies(body)
			}
		}},
		{ID: "priority/purge", Title: "purge and counts cover every priority", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, most(9))
			ch.publishPriorities(t.Q, 1, 2, 3, -1)
			ch.WantCount(t.Q, 4, 0)
			ch.Call(wire.QueuePurge{Queue: t.Q}, wire.QueuePurgeOk{MessageCount: 4})
			ch.WantEmpty(t.Q)
		}},
		{ID: "consumer-priority/order", Title: "consumers of higher x-priority first, while they can take more", Source: consumers, Class: Extension, Run: consumerPriorities},
		{ID: "consumer-priority/types", Title: "x-priority takes every integer type", Source: consumers, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			for i, v := range []any{int8(-5), uint8(5), int16(5), uint16(5), int32(-5), uint32(5), int64(5), wire.LongLong(5)} {
				ch.Consume(t.Q, string(rune('a'+i)), wire.Field{Key: "x-priority", Value: v})
			}
		}},
		{ID: "consumer-priority/round-robin", Title: "within a level they take turns", Source: consumers, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Consume(t.Q, "low")
			ch.Consume(t.Q, "a", wire.Field{Key: "x-priority", Value: int32(3)})
			ch.Consume(t.Q, "b", wire.Field{Key: "x-priority", Value: int32(3)})
			for i, tag := range []string{"a", "b", "a", "b"} {
				ch.Publish("", t.Q, "body")
				ch.WantDelivery(Delivery{Consumer: tag, Tag: uint64(i + 1), Key: t.Q, Body: "body"})
			}
		}},
	}
}

// consumerPriorities: prefetch 2 and priorities 0, 10, -5 in the order of their coming.
func consumerPriorities(t *T) {
	ch := t.Channel()
	ch.Queue(t.Q)
	ch.Prefetch(2)
	ch.Consume(t.Q, "middle")
	ch.Consume(t.Q, "high", wire.Field{Key: "x-priority", Value: int32(10)})
	ch.Consume(t.Q, "low", wire.Field{Key: "x-priority", Value: int32(-5)})
	for i, tag := range []string{"high", "high", "middle", "middle", "low", "low"} {
		ch.Publish("", t.Q, "body")
		ch.WantDelivery(Delivery{Consumer: tag, Tag: uint64(i + 1), Key: t.Q, Body: "body"})
	}
	ch.Publish("", t.Q, "waits")
	ch.WantCount(t.Q, 1, 3)
	ch.Send(wire.BasicAck{DeliveryTag: 5})
	ch.WantDelivery(Delivery{Consumer: "low", Tag: 7, Key: t.Q, Body: "waits"})
}
