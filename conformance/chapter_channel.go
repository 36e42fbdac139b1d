package conformance

import "github.com/warrenmq/warren/conformance/wire"

func channelCases() []Case {
	const source = "spec channel, behaviour 2.1"
	cases := refusals(Core, []refusal{
		{"channel/close-ok-unasked", "channel.close-ok while nothing closes", source, func(t *T, ch *Chan) { ch.Send(wire.ChannelCloseOk{}) },
			hard(503, wire.ChannelCloseOk{}, "unimplemented method"), closing{}},
		{"channel/flow-off", "channel.flow active=false", source, func(t *T, ch *Chan) { ch.Send(wire.ChannelFlow{}) },
			hard(540, wire.ChannelFlow{}, "active=false"), closing{}},
	})
	return append(cases,
		Case{ID: "channel/open", Title: "open-ok has an empty channel-id; out-of-band is ignored", Source: source, Class: Core, Run: func(t *T) {
			t.Connect().At(1).Call(wire.ChannelOpen{OutOfBand: "anything"}, wire.ChannelOpenOk{})
		}},
		Case{ID: "channel/flow-on", Title: "channel.flow active=true is answered alike", Source: source, Class: Core, Run: func(t *T) {
			t.Channel().Call(wire.ChannelFlow{Active: true}, wire.ChannelFlowOk{Active: true})
		}},
		Case{ID: "channel/access-request", Title: "access.request is answered with ticket 1", Source: source, Class: Core, Run: func(t *T) {
			t.Channel().Call(wire.AccessRequest{Realm: "/data", Active: true, Write: true, Read: true}, wire.AccessRequestOk{Ticket: 1})
		}},
		Case{ID: "channel/reuse", Title: "a closed channel's number is free at once", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			for range 3 {
				ch.Call(wire.ChannelClose{ReplyCode: 200, ReplyText: "bye"}, wire.ChannelCloseOk{})
				ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
			}
		}},
		Case{ID: "channel/highest-number", Title: "channel 65535 is a channel", Source: "behaviour 1.5", Class: Core, Run: func(t *T) {
			ch := t.Connect().Chan(65535)
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "body")
			ch.WantGet(t.Q, "body", 0)
		}},
		Case{ID: "channel/many", Title: "a hundred channels answer each for itself", Source: source, Class: Core, Run: func(t *T) {
			c := t.Connect()
			for i := range uint16(100) {
				c.Send(i+1, wire.ChannelOpen{})
			}
			for i := range uint16(100) {
				c.Want(i+1, wire.ChannelOpenOk{})
			}
		}},
		Case{ID: "channel/deaf-after-error", Title: "after a channel error methods are ignored until close-ok", Source: "behaviour 2", Class: Core,
			Run: deafAfterError},
		Case{ID: "channel/content-after-error", Title: "content in flight behind a channel error is dropped", Source: "behaviour 2", Class: Core,
			Run: contentAfterError},
		Case{ID: "channel/error-is-local", Title: "an error on one channel leaves the others alone", Source: "spec 4.10", Class: Core, Run: func(t *T) {
			c := t.Connect()
			one, two := c.Chan(1), c.Chan(2)
			two.Queue(t.Q)
			one.Send(wire.QueueDeclare{Queue: t.Q2, Passive: true})
			two.Publish("", t.Q, "body")
			two.WantGet(t.Q, "body", 0)
			one.WantClosing(soft(404, wire.QueueDeclare{}, "no {q2}"))
		}},
		Case{ID: "channel/crossing-closes", Title: "closes that cross: both sides answer, yours comes after the broker's", Source: "behaviour 2", Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Send(wire.QueueDeclare{Queue: t.Q, Passive: true}, wire.ChannelClose{ReplyCode: 200})
				ch.WantChannelClose(soft(404, wire.QueueDeclare{}, "no {q}"))
				ch.Want(wire.ChannelCloseOk{})
				ch.Send(wire.ChannelCloseOk{})
				ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
			}},
		Case{ID: "channel/close-requeues", Title: "closing requeues what is unacknowledged, before close-ok", Source: source, Class: Core, Run: closeRequeues},
		Case{ID: "channel/error-requeues", Title: "a channel error requeues what is unacknowledged", Source: "behaviour 2.6", Class: Core, Run: func(t *T) {
			c := t.Connect()
			one, two := c.Chan(1), c.Chan(2)
			one.Queue(t.Q)
			one.Publish("", t.Q, "body")
			t.Equal("body", one.Get(t.Q, false).Body, "body")
			two.Consume(t.Q, "waiting")
			one.Send(wire.BasicAck{DeliveryTag: 99})
			one.WantClosing(soft(406, wire.BasicAck{}, "unknown delivery tag 99"))
			two.WantDelivery(Delivery{Consumer: "waiting", Tag: 1, Redelivered: true, Key: t.Q, Body: "body"})
		}},
		Case{ID: "channel/close-ends-consumers", Title: "closing a channel ends its consumers", Source: source, Class: Core, Run: func(t *T) {
			c := t.Connect()
			one, two := c.Chan(1), c.Chan(2)
			one.Queue(t.Q)
			one.Consume(t.Q, "c")
			one.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
			two.WantCount(t.Q, 0, 0)
			one.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
			two.Publish("", t.Q, "body")
			two.WantCount(t.Q, 1, 0)
			one.Quiet()
		}},
		Case{ID: "channel/state-is-fresh", Title: "a reopened channel starts anew: delivery tags, confirm mode, prefetch", Source: source, Class: Extension,
			Run: stateIsFresh},
	)
}

func deafAfterError(t *T) {
	c := t.Connect()
	ch := c.Chan(1)
	ch.Send(wire.QueueDeclare{Queue: t.Q, Passive: true}, wire.QueueDeclare{Queue: t.Q2, Exclusive: true}, wire.BasicGet{Queue: t.Q2},
		wire.ChannelFlow{Active: true})
	ch.WantChannelClose(soft(404, wire.QueueDeclare{}, "no {q}"))
	c.Chan(2).Quiet()
	ch.Send(wire.QueueDeclare{Queue: t.Q2, Exclusive: true}, wire.ChannelCloseOk{})
	ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
	ch.Send(wire.QueueDeclare{Queue: t.Q2, Passive: true})
	ch.WantClosing(soft(404, wire.QueueDeclare{}, "no {q2}"))
}

func contentAfterError(t *T) {
	c := t.Connect()
	ch := c.Chan(1)
	ch.Queue(t.Q)
	frames := append([]wire.Frame{wire.MethodFrame(1, wire.QueueDeclare{Queue: t.Q2, Passive: true})},
		ch.ContentFrames(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{}, "lost")...)
	ch.SendFrames(frames...)
	ch.WantClosing(soft(404, wire.QueueDeclare{}, "no {q2}"))
	ch.WantCount(t.Q, 0, 0)
}

// closeRequeues relies on one connection's frames having one order.
func closeRequeues(t *T) {
	c := t.Connect()
	one, two := c.Chan(1), c.Chan(2)
	one.Queue(t.Q)
	one.Publish("", t.Q, "a", "b")
	one.Get(t.Q, false)
	one.Get(t.Q, false)
	two.Consume(t.Q, "other")
	two.Quiet()
	one.Send(wire.ChannelClose{ReplyCode: 200})
	two.WantDelivery(Delivery{Consumer: "other", Tag: 1, Redelivered: true, Key: t.Q, Body: "a"})
	two.WantDelivery(Delivery{Consumer: "other", Tag: 2, Redelivered: true, Key: t.Q, Body: "b"})
	one.Want(wire.ChannelCloseOk{})
}

func stateIsFresh(t *T) {
	c := t.Connect()
	ch := c.Chan(1)
	ch.Queue(t.Q)
	ch.Confirm()
	ch.Prefetch(1)
	ch.Publish("", t.Q, "a")
	ch.WantConfirms(1, 1)
	ch.Get(t.Q, true)
	ch.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
	ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
	ch.Publish("", t.Q, "b", "c")
	ch.WantCount(t.Q, 2, 0)
	ch.Consume(t.Q, "c")
	ch.WantDelivery(Delivery{Consumer: "c", Tag: 1, Key: t.Q, Body: "b"})
	ch.WantDelivery(Delivery{Consumer: "c", Tag: 2, Key: t.Q, Body: "c"})
}
