package conformance

import "github.com/warrenmq/warren/conformance/wire"

func queueBindCases() []Case {
	bind, unbind := wire.QueueBind{}, wire.QueueUnbind{}
	const source = "spec queue.bind, behaviour 2.3"
	const noLast = "no previously declared queue"
	method := func(m wire.Method) func(*T, *Chan) { return func(t *T, ch *Chan) { ch.Send(m) } }
	cases := refusals(Core, []refusal{
		{"bind/exchange-missing", "binding to a missing exchange", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Send(wire.QueueBind{Queue: t.Q, Exchange: t.X})
		}, soft(404, bind, "no {x}"), closing{}},
		{"bind/queue-missing", "binding a missing queue", source, func(t *T, ch *Chan) { ch.Send(wire.QueueBind{Queue: t.Q, Exchange: "amq.direct"}) },
			soft(404, bind, "no {q}"), closing{}},
		{"bind/both-missing", "with both missing the exchange is named", source, func(t *T, ch *Chan) {
			ch.Send(wire.QueueBind{Queue: t.Q, Exchange: t.X})
		}, soft(404, bind, "no {x}"), closing{}},
		{"bind/nowait-missing", "errors come with nowait too", source, func(t *T, ch *Chan) {
			ch.Send(wire.QueueBind{Queue: t.Q, Exchange: "amq.direct", NoWait: true})
		}, soft(404, bind, "no {q}"), closing{}},
		{"bind/default", "binding to the default exchange", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Send(wire.QueueBind{Queue: t.Q, RoutingKey: "k"})
		}, soft(403, bind, defaultExchangeText), closing{}},
		{"bind/unbind-default", "unbinding from the default exchange", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Send(wire.QueueUnbind{Queue: t.Q, RoutingKey: t.Q})
		}, soft(403, unbind, defaultExchangeText), closing{}},
		{"last-queue/none-bind", "bind of the empty name with nothing declared", "behaviour 2.3", method(wire.QueueBind{Exchange: "amq.direct"}),
			soft(404, bind, noLast), closing{}},
		{"last-queue/none-unbind", "unbind of the empty name with nothing declared", "behaviour 2.3", method(wire.QueueUnbind{Exchange: "amq.direct"}),
			soft(404, unbind, noLast), closing{}},
		{"last-queue/none-purge", "purge of the empty name with nothing declared", "behaviour 2.3", method(wire.QueuePurge{}),
			soft(404, wire.QueuePurge{}, noLast), closing{}},
		{"last-queue/none-delete", "delete of the empty name with nothing declared", "behaviour 2.3", method(wire.QueueDelete{}),
			soft(404, wire.QueueDelete{}, noLast), closing{}},
		{"last-queue/none-consume", "consume of the empty name with nothing declared", "behaviour 2.3", method(wire.BasicConsume{}),
			soft(404, wire.BasicConsume{}, noLast), closing{}},
		{"last-queue/none-get", "get of the empty name with nothing declared", "behaviour 2.3", method(wire.BasicGet{}),
			soft(404, wire.BasicGet{}, noLast), closing{}},
		{"last-queue/deleted", "the last declared queue has been deleted", "behaviour 2.3", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Call(wire.QueueDelete{}, wire.QueueDeleteOk{})
			ch.Send(wire.QueuePurge{})
		}, soft(404, wire.QueuePurge{}, "no {q}"), closing{}},
		{"last-queue/other-channel", "what another channel declared does not count", "behaviour 2.3", func(t *T, ch *Chan) {
			ch.Conn.Chan(2).Queue(t.Q)
			ch.Send(wire.QueuePurge{})
		}, soft(404, wire.QueuePurge{}, noLast), closing{}},
	})
	return append(append(cases, lastQueueCases()...),
		Case{ID: "bind/idempotent", Title: "the same binding twice is one", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "direct")
			ch.Bind(t.Q, t.X, "k")
			ch.Bind(t.Q, t.X, "k")
			ch.Publish(t.X, "k", "once")
			ch.WantCount(t.Q, 1, 0)
			ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, RoutingKey: "k"}, wire.QueueUnbindOk{})
			ch.Publish(t.X, "k", "lost")
			ch.WantCount(t.Q, 1, 0)
		}},
		Case{ID: "bind/arguments-apart", Title: "the same key with other arguments is another binding", Source: source, Class: Core, Run: argumentsApart},
		Case{ID: "bind/several-keys", Title: "a queue matched by several bindings gets one copy", Source: "behaviour 2.5", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "topic")
			for _, key := range []string{"#", "a.*", "*.b", "a.b"} {
				ch.Bind(t.Q, t.X, key)
			}
			ch.Publish(t.X, "a.b", "once")
			ch.WantCount(t.Q, 1, 0)
		}},
		Case{ID: "bind/unbind-missing", Title: "unbinding what is not bound, or not there, is ok", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "direct")
			ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, RoutingKey: "k"}, wire.QueueUnbindOk{})
			ch.Call(wire.QueueUnbind{Queue: t.Q2, Exchange: t.X, RoutingKey: "k"}, wire.QueueUnbindOk{})
			ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X2, RoutingKey: "k"}, wire.QueueUnbindOk{})
		}},
		Case{ID: "bind/durable-to-transient", Title: "a durable queue may be bound to a transient exchange", Source: "behaviour 2.3", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Durable: true})
			ch.Exchange(t.X, "direct")
			ch.Bind(t.Q, t.X, "k")
			ch.Publish(t.X, "k", "body")
			ch.WantGet(t.Q, "body", 0)
		}},
		Case{ID: "bind/deleted-queue", Title: "a deleted queue takes its bindings along", Source: "spec queue.delete", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "direct")
			ch.Bind(t.Q, t.X, "k")
			ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
			ch.Queue(t.Q)
			ch.Publish(t.X, "k", "lost")
			ch.WantCount(t.Q, 0, 0)
			ch.Call(wire.ExchangeDelete{Exchange: t.X, IfUnused: true}, wire.ExchangeDeleteOk{})
		}},
	)
}

// argumentsApart: two bindings of one key; unbinding with the wrong arguments takes away neither.
func argumentsApart(t *T) {
	ch := t.Channel()
	ch.Queue(t.Q)
	ch.Exchange(t.X, "direct")
	ch.Bind(t.Q, t.X, "k")
	ch.Bind(t.Q, t.X, "k", wire.Field{Key: "a", Value: int32(1)})
	ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, RoutingKey: "k"}, wire.QueueUnbindOk{})
	ch.Publish(t.X, "k", "one")
	ch.WantCount(t.Q, 1, 0)
	ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, RoutingKey: "k", Arguments: arg("a", int32(2))}, wire.QueueUnbindOk{})
	ch.Publish(t.X, "k", "two")
	ch.WantCount(t.Q, 2, 0)
	ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, RoutingKey: "k", Arguments: arg("a", int32(1))}, wire.QueueUnbindOk{})
	ch.Publish(t.X, "k", "three")
	ch.WantCount(t.Q, 2, 0)
}

// lastQueueCases: the empty queue name stands for the queue last declared on the channel.
func lastQueueCases() []Case {
	const source = "spec queue.bind, behaviour 2.3"
	return []Case{
		{ID: "last-queue/all-methods", Title: "the empty name is the last declared queue in bind, consume, get, purge, unbind and delete", Source: source,
			Class: Core, Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q2)
				ch.Queue(t.Q)
				ch.Call(wire.QueueBind{Exchange: "amq.direct", RoutingKey: t.Key}, wire.QueueBindOk{})
				ch.Publish("amq.direct", t.Key, "a", "b")
				ch.WantGet("", "a", 1)
				ch.Call(wire.QueuePurge{}, wire.QueuePurgeOk{MessageCount: 1})
				ch.Consume("", "c")
				ch.WantCount(t.Q, 0, 1)
				ch.Call(wire.QueueUnbind{Exchange: "amq.direct", RoutingKey: t.Key}, wire.QueueUnbindOk{})
				ch.Publish("amq.direct", t.Key, "lost")
				ch.Call(wire.BasicCancel{ConsumerTag: "c"}, wire.BasicCancelOk{ConsumerTag: "c"})
				ch.Call(wire.QueueDelete{}, wire.QueueDeleteOk{})
				ch.WantCount(t.Q2, 0, 0)
			}},
		{ID: "last-queue/passive", Title: "a passive declare counts", Source: source, Class: Core, Run: func(t *T) {
			c := t.Connect()
			c.Chan(1).Queue(t.Q)
			two := c.Chan(2)
			two.WantCount(t.Q, 0, 0)
			two.Call(wire.QueuePurge{}, wire.QueuePurgeOk{})
		}},
		{ID: "last-queue/nowait", Title: "a declare with nowait counts", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, NoWait: true})
			ch.Call(wire.QueuePurge{}, wire.QueuePurgeOk{})
		}},
		{ID: "last-queue/server-named", Title: "a server-named queue counts", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			name := ch.serverNamed()
			ch.Publish("", name, "body")
			ch.WantGet("", "body", 0)
		}},
		{ID: "last-queue/key-too", Title: "bind with empty name and empty key: the key is the queue's name", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Call(wire.QueueBind{Exchange: "amq.direct"}, wire.QueueBindOk{})
			ch.Publish("amq.direct", t.Q, "by name")
			ch.Publish("amq.direct", "", "lost")
			ch.WantGet(t.Q, "by name", 0)
			ch.Call(wire.QueueUnbind{Exchange: "amq.direct"}, wire.QueueUnbindOk{})
			ch.Publish("amq.direct", t.Q, "lost")
			ch.WantCount(t.Q, 0, 0)
		}},
		{ID: "last-queue/named-empty-key", Title: "bind with a name and an empty key: the key stays empty", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "direct")
			ch.Bind(t.Q, t.X, "")
			ch.Publish(t.X, t.Q, "lost")
			ch.Publish(t.X, "", "empty key")
			ch.WantGet(t.Q, "empty key", 0)
		}},
		{ID: "last-queue/not-publish", Title: "publish to the default exchange with an empty key goes nowhere", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.PublishWith(wire.BasicPublish{Mandatory: true}, wire.Properties{}, "body")
			ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Body: "body"})
			ch.WantCount(t.Q, 0, 0)
		}},
	}
}

// exclusiveCases: what another connection may do with an exclusive queue.
func exclusiveCases() []Case {
	const source = "spec queue.declare.exclusive, behaviour 2.3"
	var cases []Case
	for _, r := range []struct {
		id     string
		method func(q string) wire.Method
	}{
		{"declare", func(q string) wire.Method { return wire.QueueDeclare{Queue: q} }},
		{"declare-exclusive", func(q string) wire.Method { return wire.QueueDeclare{Queue: q, Exclusive: true} }},
		{"declare-passive", func(q string) wire.Method { return wire.QueueDeclare{Queue: q, Passive: true} }},
		{"declare-nowait", func(q string) wire.Method { return wire.QueueDeclare{Queue: q, Exclusive: true, NoWait: true} }},
		{"bind", func(q string) wire.Method { return wire.QueueBind{Queue: q, Exchange: "amq.direct", RoutingKey: "k"} }},
		{"purge", func(q string) wire.Method { return wire.QueuePurge{Queue: q} }},
		{"delete", func(q string) wire.Method { return wire.QueueDelete{Queue: q} }},
		{"consume", func(q string) wire.Method { return wire.BasicConsume{Queue: q} }},
		{"get", func(q string) wire.Method { return wire.BasicGet{Queue: q} }},
	} {
		cases = append(cases, Case{ID: "exclusive/" + r.id, Title: r.id + " from another connection: 405", Source: source, Class: Core, Run: func(t *T) {
			owner, other := t.Channel(), t.Channel()
			owner.Queue(t.Q)
			m := r.method(t.Q)
			other.Send(m)
			other.WantClosing(soft(405, m, lockedText))
			owner.WantCount(t.Q, 0, 0)
		}})
	}
	return append(cases,
		Case{ID: "exclusive/publish", Title: "publishing from another connection is allowed", Source: source, Class: Core, Run: func(t *T) {
			owner, other := t.Channel(), t.Channel()
			owner.Queue(t.Q)
			other.Confirm()
			other.Publish("", t.Q, "body")
			other.WantConfirms(1, 1)
			owner.WantGet(t.Q, "body", 0)
		}},
		Case{ID: "exclusive/unbind-missing", Title: "unbinding what is not bound, from another connection, is ok", Source: "behaviour 2.3", Class: Core,
			Run: func(t *T) {
				owner, other := t.Channel(), t.Channel()
				owner.Queue(t.Q)
				other.Call(wire.QueueUnbind{Queue: t.Q, Exchange: "amq.direct", RoutingKey: t.Key}, wire.QueueUnbindOk{})
			}},
		Case{ID: "exclusive/other-channel", Title: "any channel of the owning connection may use it", Source: source, Class: Core, Run: func(t *T) {
			c := t.Connect()
			one, two := c.Chan(1), c.Chan(2)
			one.Queue(t.Q)
			two.Queue(t.Q)
			one.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
			two.Publish("", t.Q, "body")
			two.WantGet(t.Q, "body", 0)
		}},
	)
}
