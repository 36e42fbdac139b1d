package conformance

import "github.com/warrenmq/warren/conformance/wire"

// sharedQos reports whether global qos is one limit per channel.
func (t *T) sharedQos() bool { return !t.Four() || t.Differs() }

func qosCases() []Case {
	const source = "spec basic.qos, behaviour 2.4"
	return append(refusals(Core, []refusal{
		{"qos/prefetch-size", "a prefetch-size", source, func(t *T, ch *Chan) { ch.Send(wire.BasicQos{PrefetchSize: 10}) },
			hard(540, wire.BasicQos{}, "prefetch_size!=0 (10)"), closing{}},
	}),
		Case{ID: "qos/per-consumer", Title: "the limit holds for each consumer started after it", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Queue(t.Q2)
			ch.Publish("", t.Q, "a", "b", "c")
			ch.Publish("", t.Q2, "x", "y", "z")
			ch.Prefetch(1)
			ch.Consume(t.Q, "one")
			ch.WantBodies("a")
			ch.Prefetch(2)
			ch.Consume(t.Q2, "two")
			ch.WantBodies("x", "y")
			ch.WantCount(t.Q, 2, 1)
			ch.WantCount(t.Q2, 1, 1)
		}},
		Case{ID: "qos/existing-keep", Title: "a later limit leaves existing consumers theirs", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Prefetch(1)
			ch.Consume(t.Q, "c")
			ch.Prefetch(10)
			ch.Publish("", t.Q, "a", "b")
			ch.WantBodies("a")
			ch.WantCount(t.Q, 1, 1)
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.WantBodies("b")
		}},
		Case{ID: "qos/ack-refills", Title: "each settled message makes room: by ack, nack and reject", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a", "b", "c", "d")
			ch.Prefetch(1)
			ch.Consume(t.Q, "c")
			for i, m := range []wire.Method{wire.BasicAck{DeliveryTag: 1}, wire.BasicNack{DeliveryTag: 2}, wire.BasicReject{DeliveryTag: 3}} {
				ch.WantBodies(string(rune('a' + i)))
				ch.WantCount(t.Q, uint32(3-i), 1)
				ch.Send(m)
			}
			ch.WantBodies("d")
		}},
		Case{ID: "qos/multiple-refills", Title: "a multiple ack makes room for as many", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a", "b", "c", "d", "e", "f", "g")
			ch.Prefetch(3)
			ch.Consume(t.Q, "c")
			ch.WantBodies("a", "b", "c")
			ch.WantCount(t.Q, 4, 1)
			ch.Send(wire.BasicAck{DeliveryTag: 2, Multiple: true})
			ch.WantBodies("d", "e")
			ch.WantCount(t.Q, 2, 1)
		}},
		Case{ID: "qos/no-ack-ignores", Title: "consumers without acknowledgement ignore the limit", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a", "b", "c")
			ch.Prefetch(1)
			ch.ConsumeNoAck(t.Q, "c")
			ch.WantBodies("a", "b", "c")
		}},
		Case{ID: "qos/get-ignores", Title: "basic.get neither counts nor obeys", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a", "b", "c", "d")
			ch.Prefetch(1)
			ch.Get(t.Q, false)
			ch.Get(t.Q, false)
			ch.Consume(t.Q, "c")
			ch.WantBodies("c")
			t.Equal("body got", ch.Get(t.Q, false).Body, "d")
		}},
		Case{ID: "qos/zero", Title: "0 is no limit", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a", "b", "c")
			ch.Prefetch(1)
			ch.Prefetch(0)
			ch.Consume(t.Q, "c")
			ch.WantBodies("a", "b", "c")
		}},
		Case{ID: "qos/fair", Title: "a full consumer is passed over", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Prefetch(1)
			ch.Consume(t.Q, "a")
			ch.Consume(t.Q, "b")
			ch.Publish("", t.Q, "0", "1", "2", "3")
			ch.WantDelivery(Delivery{Consumer: "a", Tag: 1, Key: t.Q, Body: "0"})
			ch.WantDelivery(Delivery{Consumer: "b", Tag: 2, Key: t.Q, Body: "1"})
			ch.WantCount(t.Q, 2, 2)
			ch.Send(wire.BasicAck{DeliveryTag: 2})
			ch.WantDelivery(Delivery{Consumer: "b", Tag: 3, Key: t.Q, Body: "2"})
			ch.Send(wire.BasicAck{DeliveryTag: 3})
			ch.WantDelivery(Delivery{Consumer: "b", Tag: 4, Key: t.Q, Body: "3"})
		}},
		Case{ID: "qos/global", Title: "global: one limit for the channel, and at once", Source: "behaviour 0.9", Class: Extension, Difference: "global-qos", Run: globalQos},
		Case{ID: "qos/global-existing", Title: "global: existing consumers are bound by it under profile 3, not under 4", Source: "behaviour 0.9", Class: Extension,
			Difference: "global-qos", Run: globalQosExisting},
		Case{ID: "qos/global-and-each", Title: "global and per-consumer limits hold together", Source: "behaviour 2.4", Class: Extension,
			Difference: "global-qos", Run: globalAndEach},
		Case{ID: "qos/global-cleared", Title: "a later limit per consumer ends the global one", Source: "behaviour 2.4", Class: Extension, Run: globalCleared},
	)
}

// globalQos: two consumers, a global limit of 2, four messages.
func globalQos(t *T) {
	ch := t.Channel()
	ch.Queue(t.Q)
	ch.Publish("", t.Q, "0", "1", "2", "3", "4", "5")
	ch.Call(wire.BasicQos{PrefetchCount: 2, Global: true}, wire.BasicQosOk{})
	ch.Consume(t.Q, "a")
	ch.WantBodies("0", "1")
	if !t.sharedQos() {
		ch.WantCount(t.Q, 4, 1)
		ch.Consume(t.Q, "b")
		ch.WantBodies("2", "3")
		ch.WantCount(t.Q, 2, 2)
		return
	}
	ch.Consume(t.Q, "b")
	ch.WantCount(t.Q, 4, 2)
	ch.Send(wire.BasicAck{DeliveryTag: 1})
	ch.WantBodies("2")
	ch.WantCount(t.Q, 3, 2)
}

func globalQosExisting(t *T) {
	ch := t.Channel()
	ch.Queue(t.Q)
	ch.Consume(t.Q, "a")
	ch.Call(wire.BasicQos{PrefetchCount: 1, Global: true}, wire.BasicQosOk{})
	ch.Publish("", t.Q, "0", "1")
	ch.WantBodies("0")
	if !t.sharedQos() {
		ch.WantBodies("1")
		return
	}
	ch.WantCount(t.Q, 1, 1)
	ch.Send(wire.BasicAck{DeliveryTag: 1})
	ch.WantBodies("1")
}

// globalAndEach: 1 for consumer a, 10 for b, then 2 for the channel. Where qos is never shared, the last value is the
// limit of the next consumer.
func globalAndEach(t *T) {
	ch := t.Channel()
	ch.Queue(t.Q)
	ch.Queue(t.Q2)
	ch.Publish("", t.Q, "0", "1", "2")
	ch.Publish("", t.Q2, "x", "y", "z")
	ch.Prefetch(1)
	ch.Consume(t.Q, "a")
	ch.WantBodies("0")
	ch.WantCount(t.Q, 2, 1)
	ch.Prefetch(10)
	ch.Call(wire.BasicQos{PrefetchCount: 2, Global: true}, wire.BasicQosOk{})
	ch.Consume(t.Q2, "b")
	ch.WantBodies("x")
	if !t.sharedQos() {
		ch.WantBodies("y")
		ch.WantCount(t.Q2, 1, 1)
		return
	}
	ch.WantCount(t.Q2, 2, 1)
	ch.Send(wire.BasicAck{DeliveryTag: 2})
	ch.WantBodies("y")
	ch.WantCount(t.Q2, 1, 1)
	ch.WantCount(t.Q, 2, 1)
}

// globalCleared: a later limit per consumer ends the one for the channel.
func globalCleared(t *T) {
	ch := t.Channel()
	ch.Queue(t.Q)
	ch.Publish("", t.Q, "0", "1", "2", "3")
	ch.Call(wire.BasicQos{PrefetchCount: 1, Global: true}, wire.BasicQosOk{})
	ch.Call(wire.BasicQos{PrefetchCount: 2}, wire.BasicQosOk{})
	ch.Consume(t.Q, "a")
	ch.WantBodies("0", "1")
	ch.Consume(t.Q, "b")
	ch.WantBodies("2", "3")
}
