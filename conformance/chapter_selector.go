package conformance

import "github.com/warrenmq/warren/conformance/wire"

// selectorArgument is x-filter-jms-selector.
func selectorArgument(text any) wire.Field {
	return wire.Field{Key: "x-filter-jms-selector", Value: text}
}

// bindSelector binds a queue with a selector.
func (c *Chan) bindSelector(q, x, key, text string) {
	c.Call(wire.QueueBind{Queue: q, Exchange: x, RoutingKey: key, Arguments: wire.Table{selectorArgument(text)}}, wire.QueueBindOk{})
}

// publishColors publishes each color as the body and as header color.
func (c *Chan) publishColors(x, key string, colors ...string) {
	for _, color := range colors {
		c.PublishWith(wire.BasicPublish{Exchange: x, RoutingKey: key}, wire.Properties{Headers: ptr(table("color", color))}, color)
	}
}

func selectorBindingCases() []Case {
	return []Case{
		{ID: "selector/topic", Title: "a topic binding with a selector takes what matches both, also when only headers change", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "topic")
			ch.Queue(t.Q)
			ch.bindSelector(t.Q, t.X, "a.*", "color = 'red'")
			ch.publishColors(t.X, "a.b", "red", "blue", "red")
			ch.publishColors(t.X, "b", "red")
			ch.WantCount(t.Q, 2, 0)
		}},
		{ID: "selector/headers", Title: "a headers binding with a selector takes what matches both", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "headers")
			ch.Queue(t.Q)
			ch.Call(wire.QueueBind{Queue: t.Q, Exchange: t.X, Arguments: append(table("x-match", "all-with-x", "kind", "fruit"), selectorArgument("weight BETWEEN 2 AND 3"))}, wire.QueueBindOk{})
			for i, kind := range []string{"fruit", "fruit", "stone", "fruit"} {
				ch.PublishWith(wire.BasicPublish{Exchange: t.X}, wire.Properties{Headers: ptr(table("kind", kind, "weight", int32(i+1)))}, kind)
			}
			ch.WantCount(t.Q, 1, 0)
		}},
		{ID: "selector/properties", Title: "selectors see properties by their names in JMS", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "topic")
			ch.Queue(t.Q)
			ch.bindSelector(t.Q, t.X, "#", "JMSPriority > 4 AND JMSDeliveryMode = 'PERSISTENT' AND JMSType LIKE 'or%'")
			for _, mode := range []uint8{1, 2} {
				for _, priority := range []uint8{4, 5} {
					ch.PublishWith(wire.BasicPublish{Exchange: t.X}, wire.Properties{DeliveryMode: new(mode), Priority: new(priority), Type: new("order")}, "m")
				}
			}
			ch.WantCount(t.Q, 1, 0)
		}},
		{ID: "selector/exchange", Title: "a binding between exchanges may have a selector", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "topic")
			ch.Exchange(t.X2, "fanout")
			ch.Queue(t.Q)
			ch.Bind(t.Q, t.X2, "")
			ch.Call(wire.ExchangeBind{Destination: t.X2, Source: t.X, RoutingKey: "#", Arguments: wire.Table{selectorArgument("color IN ('red', 'green')")}}, wire.ExchangeBindOk{})
			ch.publishColors(t.X, "k", "blue", "green", "yellow")
			ch.WantGet(t.Q, "green", 0)
		}},
		{ID: "selector/identity", Title: "the selector is part of a binding's identity", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "topic")
			ch.Queue(t.Q)
			ch.bindSelector(t.Q, t.X, "#", "color = 'red'")
			ch.bindSelector(t.Q, t.X, "#", "color = 'blue'")
			ch.publishColors(t.X, "k", "red", "blue")
			ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, RoutingKey: "#", Arguments: wire.Table{selectorArgument("color = 'red'")}}, wire.QueueUnbindOk{})
			ch.publishColors(t.X, "k", "red", "blue")
			ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, RoutingKey: "#", Arguments: wire.Table{selectorArgument("color = 'blue'")}}, wire.QueueUnbindOk{})
			ch.publishColors(t.X, "k", "red", "blue")
			ch.WantCount(t.Q, 3, 0)
		}},
		{ID: "selector/wrong", Title: "a wrong selector is refused with the place of the fault", Source: extrasSource, Class: Own, Run: func(t *T) {
			for _, c := range []struct {
				typ  string
				text any
				want string
			}{
				{"topic", "color = ", "Invalid x-filter-jms-selector field value at position 9: expected a name or a value, found the end"},
				{"headers", "color > 'red'", "Invalid x-filter-jms-selector field value at position 9: expected a number, found a string"},
				{"topic", int32(1), "Invalid x-filter-jms-selector field type signedint; expected longstr"},
				{"direct", "color = 'red'", "x-filter-jms-selector is not for bindings to this exchange; only headers and topic exchanges take it"},
			} {
				ch := t.Channel()
				ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
				ch.Send(wire.QueueBind{Queue: t.Q, Exchange: "amq." + c.typ, RoutingKey: "k", Arguments: wire.Table{selectorArgument(c.text)}})
				ch.WantClosing(soft(406, wire.QueueBind{}, c.want))
			}
		}},
	}
}

func selectorConsumerCases() []Case {
	consume := func(c *Chan, q, tag, text string) { c.Consume(q, tag, selectorArgument(text)) }
	return []Case{
		{ID: "selector/consumer", Title: "a consumer takes what matches, in order, and leaves the rest for others", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch, other := t.Channel(), t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
			ch.publishColors("", t.Q, "blue", "red")
			consume(ch, t.Q, "c", "color <> 'blue'")
			ch.WantBodies("red")
			ch.publishColors("", t.Q, "green", "blue", "red")
			ch.WantBodies("green", "red")
			ch.Quiet()
			other.Consume(t.Q, "rest")
			other.WantBodies("blue", "blue")
			ch.Send(wire.BasicAck{DeliveryTag: 3, Multiple: true})
			ch.WantCount(t.Q, 0, 2)
		}},
		{ID: "selector/prefetch", Title: "prefetch counts what matches; a requeued message comes again to whoever matches", Source: extrasSource, Class: Own, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Prefetch(1)
			consume(ch, t.Q, "c", "color = 'red'")
			ch.publishColors("", t.Q, "red", "blue", "red")
			ch.WantBodies("red")
			ch.Quiet()
			ch.Send(wire.BasicReject{DeliveryTag: 1, Requeue: true})
			ch.wantOnly(2, true, "red")
			ch.Send(wire.BasicAck{DeliveryTag: 2})
			ch.wantOnly(3, false, "red")
			ch.WantCount(t.Q, 1, 1)
		}},
		{ID: "selector/lost", Title: "what a lost consumer had goes to the next that matches", Source: extrasSource, Class: Own, Run: func(t *T) {
			a, b := t.Channel(), t.Channel()
			b.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
			consume(a, t.Q, "a", "color = 'red'")
			b.publishColors("", t.Q, "blue", "red")
			a.WantBodies("red")
			consume(b, t.Q, "b", "color IN ('red')")
			a.Conn.Drop()
			b.wantOnly(1, true, "red")
		}},
		{ID: "selector/consumer-wrong", Title: "a wrong selector is refused with the place of the fault, and other queue types refuse the argument", Source: extrasSource, Class: Own, Run: func(t *T) {
			for _, c := range []struct {
				typ  string
				text any
				want string
			}{
				{"classic", "color = ", "invalid arg 'x-filter-jms-selector' for {q}: position 9: expected a name or a value, found the end"},
				{"classic", true, "invalid arg 'x-filter-jms-selector' for {q}: {unacceptable_type,bool}"},
				{"quorum", "color = 'red'", "invalid arg 'x-filter-jms-selector' for {q} of queue type rabbit_quorum_queue"},
				{"stream", "color = 'red'", "invalid arg 'x-filter-jms-selector' for {q} of queue type rabbit_stream_queue"},
			} {
				ch := t.Channel()
				ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Durable: true, Arguments: table("x-queue-type", c.typ)})
				ch.Prefetch(1)
				ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", Arguments: wire.Table{selectorArgument(c.text)}})
				ch.WantClosing(soft(406, wire.BasicConsume{}, c.want))
				ch.Conn.Chan(2).Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
			}
		}},
	}
}
