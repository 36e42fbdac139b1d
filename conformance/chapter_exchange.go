package conformance

import "github.com/warrenmq/warren/conformance/wire"

// defaultExchangeText is the refusal of everything that is not for the default exchange.
const defaultExchangeText = "operation not permitted on the default exchange"

// predeclared are the exchanges that every virtual host has.
var predeclared = []wire.ExchangeDeclare{
	{Exchange: "amq.direct", Type: "direct", Durable: true}, {Exchange: "amq.fanout", Type: "fanout", Durable: true},
	{Exchange: "amq.topic", Type: "topic", Durable: true}, {Exchange: "amq.headers", Type: "headers", Durable: true},
	{Exchange: "amq.match", Type: "headers", Durable: true},
	{Exchange: "amq.rabbitmq.trace", Type: "topic", Durable: true, Internal: true},
}

func exchangeDeclareCases() []Case {
	var cases []Case
	for _, m := range predeclared {
		cases = append(cases, Case{ID: "exchange/predeclared-" + m.Exchange, Title: m.Exchange + " is there: redeclaring it as it is, is ok",
			Source: "spec 3.1.3, behaviour 2.2", Class: Core, Run: func(t *T) {
				ch := t.Channel()
				ch.Call(m, wire.ExchangeDeclareOk{})
				ch.Call(wire.ExchangeDeclare{Exchange: m.Exchange, Passive: true}, wire.ExchangeDeclareOk{})
			}})
	}
	for _, kind := range []string{"direct", "fanout", "topic", "headers"} {
		cases = append(cases, Case{ID: "exchange/declare-" + kind, Title: "a " + kind + " exchange can be declared in each way and redeclared",
			Source: "spec exchange.declare", Class: Core, Run: func(t *T) {
				ch := t.Channel()
				for bits := range 8 {
					m := wire.ExchangeDeclare{Exchange: t.X, Type: kind, Durable: bits&1 > 0, AutoDelete: bits&2 > 0, Internal: bits&4 > 0}
					ch.Call(m, wire.ExchangeDeclareOk{})
					ch.Call(m, wire.ExchangeDeclareOk{})
					ch.Call(wire.ExchangeDelete{Exchange: t.X}, wire.ExchangeDeleteOk{})
				}
			}})
	}
	cases = append(cases, exchangeInequivalent()...)
	cases = append(cases, refusals(Core, exchangeRefusals())...)
	return append(cases,
		Case{ID: "exchange/passive", Title: "passive declare looks at nothing but the name", Source: "behaviour 2.2", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "direct")
			for _, m := range []wire.ExchangeDeclare{
				{Type: ""}, {Type: "fanout"}, {Type: "bogus"}, {Type: "direct", Durable: true, AutoDelete: true, Internal: true},
				{Type: "direct", Arguments: wire.Table{{Key: "alternate-exchange", Value: "ae"}}},
			} {
				m.Exchange, m.Passive = t.X, true
				ch.Call(m, wire.ExchangeDeclareOk{})
			}
		}},
		Case{ID: "exchange/declare-nowait", Title: "nowait suppresses declare-ok and delete-ok", Source: "spec exchange.declare", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Send(wire.ExchangeDeclare{Exchange: t.X, Type: "fanout", NoWait: true})
			ch.Call(wire.ExchangeDeclare{Exchange: t.X, Passive: true}, wire.ExchangeDeclareOk{})
			ch.Send(wire.ExchangeDelete{Exchange: t.X, NoWait: true}, wire.ExchangeDeclare{Exchange: t.X, Passive: true})
			ch.WantClosing(soft(404, wire.ExchangeDeclare{}, "no {x}"))
		}},
		Case{ID: "exchange/other-arguments", Title: "arguments other than alternate-exchange do not count when redeclaring", Source: "behaviour 2.2", Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Exchange(t.X, "direct", wire.Field{Key: "foo", Value: int32(1)})
				ch.Exchange(t.X, "direct", wire.Field{Key: "bar", Value: "x"})
				ch.Exchange(t.X, "direct")
			}},
		Case{ID: "exchange/same-alternate", Title: "the same alternate-exchange is equivalent", Source: "behaviour 2.2", Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "direct", wire.Field{Key: "alternate-exchange", Value: t.X2})
			ch.Exchange(t.X, "direct", wire.Field{Key: "alternate-exchange", Value: t.X2})
		}},
		Case{ID: "exchange/delete", Title: "delete removes, and is ok when there is nothing", Source: "spec exchange.delete, behaviour 2.2", Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Call(wire.ExchangeDelete{Exchange: t.X}, wire.ExchangeDeleteOk{})
				ch.Exchange(t.X, "direct")
				ch.Call(wire.ExchangeDelete{Exchange: t.X}, wire.ExchangeDeleteOk{})
				ch.Send(wire.ExchangeDeclare{Exchange: t.X, Passive: true})
				ch.WantClosing(soft(404, wire.ExchangeDeclare{}, "no {x}"))
			}},
		Case{ID: "exchange/delete-unused", Title: "if-unused deletes an exchange without bindings of its own, be it a destination", Source: "behaviour 2.2", Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Exchange(t.X, "direct")
				ch.Exchange(t.X2, "direct")
				ch.Call(wire.ExchangeBind{Destination: t.X, Source: t.X2, RoutingKey: "k"}, wire.ExchangeBindOk{})
				ch.Call(wire.ExchangeDelete{Exchange: t.X, IfUnused: true}, wire.ExchangeDeleteOk{})
				ch.Call(wire.ExchangeDelete{Exchange: t.X2, IfUnused: true}, wire.ExchangeDeleteOk{})
			}},
		Case{ID: "exchange/delete-drops-bindings", Title: "a deleted exchange takes its bindings along", Source: "behaviour 2.2", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "fanout")
			ch.Bind(t.Q, t.X, "")
			ch.Call(wire.ExchangeDelete{Exchange: t.X}, wire.ExchangeDeleteOk{})
			ch.Exchange(t.X, "fanout")
			ch.Publish(t.X, "", "lost")
			ch.WantCount(t.Q, 0, 0)
		}},
	)
}

// exchangeInequivalent: names are checked in the order type, durable, auto_delete, internal, and the first that
// differs is named.
func exchangeInequivalent() []Case {
	base := wire.ExchangeDeclare{Type: "direct"}
	var rows []refusal
	for _, r := range []struct {
		id, text string
		change   func(m *wire.ExchangeDeclare)
	}{
		{"type", "inequivalent arg 'type' for {x}: received 'topic' but current is 'direct'", func(m *wire.ExchangeDeclare) { m.Type = "topic" }},
		{"durable", "inequivalent arg 'durable' for {x}: received 'true' but current is 'false'", func(m *wire.ExchangeDeclare) { m.Durable = true }},
		{"auto-delete", "inequivalent arg 'auto_delete' for {x}: received 'true' but current is 'false'",
			func(m *wire.ExchangeDeclare) { m.AutoDelete = true }},
		{"internal", "inequivalent arg 'internal' for {x}: received 'true' but current is 'false'", func(m *wire.ExchangeDeclare) { m.Internal = true }},
		{"alternate", "inequivalent arg 'alternate-exchange' for {x}: received the value 'foo' of type 'longstr' but current is none",
			func(m *wire.ExchangeDeclare) { m.Arguments = wire.Table{{Key: "alternate-exchange", Value: "foo"}} }},
		{"order-type-first", "inequivalent arg 'type' for {x}: received 'fanout' but current is 'direct'", func(m *wire.ExchangeDeclare) {
			m.Type, m.Durable, m.AutoDelete, m.Internal = "fanout", true, true, true
		}},
		{"order-durable-next", "inequivalent arg 'durable' for {x}: received 'true' but current is 'false'", func(m *wire.ExchangeDeclare) {
			m.Durable, m.AutoDelete, m.Internal = true, true, true
		}},
		{"order-auto-delete-next", "inequivalent arg 'auto_delete' for {x}: received 'true' but current is 'false'", func(m *wire.ExchangeDeclare) {
			m.AutoDelete, m.Internal = true, true
		}},
	} {
		rows = append(rows, refusal{"exchange/inequivalent-" + r.id, "redeclared with another " + r.id, "behaviour 2.2", func(t *T, ch *Chan) {
			m := base
			m.Exchange = t.X
			ch.Call(m, wire.ExchangeDeclareOk{})
			r.change(&m)
			ch.Send(m)
		}, soft(406, wire.ExchangeDeclare{}, r.text), closing{}})
	}
	return refusals(Core, rows)
}

func exchangeRefusals() []refusal {
	declare := func(m wire.ExchangeDeclare) func(*T, *Chan) {
		return func(t *T, ch *Chan) {
			m := m
			if m.Exchange == "{X}" {
				m.Exchange = t.X
			}
			ch.Send(m)
		}
	}
	remove := func(m wire.ExchangeDelete) func(*T, *Chan) { return func(t *T, ch *Chan) { ch.Send(m) } }
	d, e := wire.ExchangeDeclare{}, wire.ExchangeDelete{}
	const source = "spec exchange, behaviour 2.2"
	return []refusal{
		{"exchange/passive-missing", "passive declare of a missing exchange", source, declare(wire.ExchangeDeclare{Exchange: "{X}", Type: "direct", Passive: true}),
			soft(404, d, "no {x}"), closing{}},
		{"exchange/passive-missing-nowait", "passive declare of a missing exchange with nowait", source,
			declare(wire.ExchangeDeclare{Exchange: "{X}", Type: "direct", Passive: true, NoWait: true}), soft(404, d, "no {x}"), closing{}},
		{"exchange/unknown-type", "an unknown type: connection error under profile 3, channel error under 4", "behaviour 0.1",
			declare(wire.ExchangeDeclare{Exchange: "{X}", Type: "bogus"}),
			hard(503, d, "unknown exchange type 'bogus'"), soft(406, d, "unknown exchange type 'bogus'")},
		{"exchange/empty-type", "an empty type", "behaviour 2.2", declare(wire.ExchangeDeclare{Exchange: "{X}"}),
			hard(503, d, "invalid exchange type ''"), soft(406, d, "invalid exchange type ''")},
		{"exchange/type-case", "types are case-sensitive", "behaviour 2.2", declare(wire.ExchangeDeclare{Exchange: "{X}", Type: "dirEct"}),
			hard(503, d, "unknown exchange type 'dirEct'"), soft(406, d, "unknown exchange type 'dirEct'")},
		{"exchange/reserved-name", "a new name with the reserved prefix", source, declare(wire.ExchangeDeclare{Exchange: "amq.new", Type: "direct"}),
			soft(403, d, "exchange name 'amq.new' contains reserved prefix 'amq.*'"), closing{}},
		{"exchange/predeclared-differs", "a predeclared exchange with another type", source,
			declare(wire.ExchangeDeclare{Exchange: "amq.direct", Type: "topic", Durable: true}),
			soft(406, d, "inequivalent arg 'type' for exchange 'amq.direct' in vhost '{V}': received 'topic' but current is 'direct'"), closing{}},
		{"exchange/declare-default", "declaring the default exchange", source, declare(wire.ExchangeDeclare{Type: "direct", Durable: true}),
			soft(403, d, defaultExchangeText), closing{}},
		{"exchange/passive-default", "passively declaring the default exchange", source, declare(wire.ExchangeDeclare{Passive: true}),
			soft(403, d, defaultExchangeText), closing{}},
		{"exchange/alternate-type", "alternate-exchange that is no string", "behaviour 2.2",
			declare(wire.ExchangeDeclare{Exchange: "{X}", Type: "direct", Arguments: wire.Table{{Key: "alternate-exchange", Value: int32(5)}}}),
			soft(406, d, "invalid type 'signedint' for arg 'alternate-exchange' in {x}"), closing{}},
		{"exchange/delete-default", "deleting the default exchange", source, remove(wire.ExchangeDelete{}), soft(403, e, defaultExchangeText), closing{}},
		{"exchange/delete-predeclared", "deleting a predeclared exchange", source, remove(wire.ExchangeDelete{Exchange: "amq.topic"}),
			soft(403, e, "deletion of system exchange 'amq.topic' in vhost '{V}' not allowed"), closing{}},
		{"exchange/delete-reserved", "deleting a reserved name that does not exist", "behaviour 2.2", remove(wire.ExchangeDelete{Exchange: "amq.nothing"}),
			soft(403, e, "deletion of system exchange 'amq.nothing' in vhost '{V}' not allowed"), closing{}},
		{"exchange/delete-in-use", "if-unused with a binding", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Exchange(t.X, "direct")
			ch.Bind(t.Q, t.X, "k")
			ch.Send(wire.ExchangeDelete{Exchange: t.X, IfUnused: true})
		}, soft(406, e, "{x} in use"), closing{}},
		{"exchange/delete-in-use-nowait", "if-unused with a binding and nowait", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Exchange(t.X, "direct")
			ch.Bind(t.Q, t.X, "k")
			ch.Send(wire.ExchangeDelete{Exchange: t.X, IfUnused: true, NoWait: true})
		}, soft(406, e, "{x} in use"), closing{}},
	}
}
