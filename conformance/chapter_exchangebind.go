package conformance

import "github.com/warrenmq/warren/conformance/wire"

// bindExchange binds two exchanges.
func (ch *Chan) bindExchange(destination, source, key string) {
	ch.Call(wire.ExchangeBind{Destination: destination, Source: source, RoutingKey: key}, wire.ExchangeBindOk{})
}

// wantExchangeGone demands that X is gone, and that it stood as X2 still does.
func (ch *Chan) wantExchangeGone() {
	ch.Send(wire.ExchangeDeclare{Exchange: ch.t.X, Passive: true})
	ch.WantClosing(soft(404, wire.ExchangeDeclare{}, "no {x}"))
}

// autoDeleteScene declares X as an auto-delete fanout with queue Q.
func autoDeleteScene(t *T) *Chan {
	ch := t.Channel()
	ch.Queue(t.Q)
	ch.Call(wire.ExchangeDeclare{Exchange: t.X, Type: "fanout", AutoDelete: true}, wire.ExchangeDeclareOk{})
	return ch
}

func exchangeBindCases() []Case {
	bind, unbind := wire.ExchangeBind{}, wire.ExchangeUnbind{}
	const source = "behaviour 2.2"
	cases := refusals(Extension, []refusal{
		{"exchange-bind/source-missing", "binding to a missing source", source, func(t *T, ch *Chan) {
			ch.Exchange(t.X2, "direct")
			ch.Send(wire.ExchangeBind{Destination: t.X2, Source: t.X, RoutingKey: "k"})
		}, soft(404, bind, "no {x}"), closing{}},
		{"exchange-bind/destination-missing", "binding a missing destination", source, func(t *T, ch *Chan) {
			ch.Exchange(t.X2, "direct")
			ch.Send(wire.ExchangeBind{Destination: t.X, Source: t.X2, RoutingKey: "k"})
		}, soft(404, bind, "no {x}"), closing{}},
		{"exchange-bind/both-missing", "with both missing the source is named", source, func(t *T, ch *Chan) {
			ch.Send(wire.ExchangeBind{Destination: t.X2, Source: t.X, RoutingKey: "k"})
		}, soft(404, bind, "no {x}"), closing{}},
		{"exchange-bind/default-source", "the default exchange as source", source, func(t *T, ch *Chan) {
			ch.Exchange(t.X, "direct")
			ch.Send(wire.ExchangeBind{Destination: t.X, RoutingKey: "k"})
		}, soft(403, bind, defaultExchangeText), closing{}},
		{"exchange-bind/default-destination", "the default exchange as destination", source, func(t *T, ch *Chan) {
			ch.Exchange(t.X, "direct")
			ch.Send(wire.ExchangeBind{Source: t.X, RoutingKey: "k"})
		}, soft(403, bind, defaultExchangeText), closing{}},
		{"exchange-bind/unbind-default", "unbinding the default exchange", source, func(t *T, ch *Chan) {
			ch.Exchange(t.X, "direct")
			ch.Send(wire.ExchangeUnbind{Destination: t.X, RoutingKey: "k"})
		}, soft(403, unbind, defaultExchangeText), closing{}},
	})
	return append(cases, append(autoDeleteCases(), []Case{
		{ID: "exchange-bind/routes", Title: "a message goes through: exchange field and key stay those of the publish", Source: "behaviour 4", Class: Extension,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q)
				ch.Exchange(t.X, "direct")
				ch.Exchange(t.X2, "fanout")
				ch.bindExchange(t.X2, t.X, "k")
				ch.Bind(t.Q, t.X2, "other")
				ch.Publish(t.X, "k", "in")
				ch.Publish(t.X, "other", "out")
				t.Equal("message", ch.Get(t.Q, true), Got{Tag: 1, Exchange: t.X, Key: "k", Body: "in"})
			}},
		{ID: "exchange-bind/unbind", Title: "after unbind-ok (method 51) nothing goes through", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "fanout")
			ch.Exchange(t.X2, "fanout")
			ch.bindExchange(t.X2, t.X, "k")
			ch.bindExchange(t.X2, t.X, "k")
			ch.Bind(t.Q, t.X2, "")
			ch.Call(wire.ExchangeUnbind{Destination: t.X2, Source: t.X, RoutingKey: "k"}, wire.ExchangeUnbindOk{})
			ch.Publish(t.X, "k", "lost")
			ch.WantCount(t.Q, 0, 0)
		}},
		{ID: "exchange-bind/unbind-missing", Title: "unbinding what is not bound, or not there, is ok", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "fanout")
			ch.Call(wire.ExchangeUnbind{Destination: t.X, Source: t.X, RoutingKey: "k"}, wire.ExchangeUnbindOk{})
			ch.Call(wire.ExchangeUnbind{Destination: t.X2, Source: t.X, RoutingKey: "k"}, wire.ExchangeUnbindOk{})
			ch.Call(wire.ExchangeUnbind{Destination: t.X, Source: t.X2, RoutingKey: "k"}, wire.ExchangeUnbindOk{})
		}},
		{ID: "exchange-bind/nowait", Title: "nowait suppresses bind-ok and unbind-ok", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "fanout")
			ch.Exchange(t.X2, "fanout")
			ch.Bind(t.Q, t.X2, "")
			ch.Send(wire.ExchangeBind{Destination: t.X2, Source: t.X, NoWait: true})
			ch.Quiet()
			ch.Publish(t.X, "", "one")
			ch.WantCount(t.Q, 1, 0)
			ch.Send(wire.ExchangeUnbind{Destination: t.X2, Source: t.X, NoWait: true})
			ch.Quiet()
			ch.Publish(t.X, "", "two")
			ch.WantCount(t.Q, 1, 0)
		}},
		{ID: "exchange-bind/self", Title: "an exchange may be bound to itself, and routes once", Source: "behaviour 2.2, 4", Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "fanout")
			ch.bindExchange(t.X, t.X, "")
			ch.Bind(t.Q, t.X, "")
			ch.Publish(t.X, "", "once")
			ch.WantCount(t.Q, 1, 0)
		}},
		{ID: "exchange-bind/cycle", Title: "a cycle of exchanges ends, with one copy per queue", Source: "behaviour 4", Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "fanout")
			ch.Exchange(t.X2, "fanout")
			ch.bindExchange(t.X, t.X2, "")
			ch.bindExchange(t.X2, t.X, "")
			ch.Bind(t.Q, t.X, "")
			ch.Bind(t.Q, t.X2, "")
			ch.Publish(t.X, "", "once")
			ch.WantGet(t.Q, "once", 0)
		}},
		{ID: "exchange-bind/two-paths", Title: "a queue reached by two paths gets one copy", Source: "behaviour 4", Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "topic")
			ch.Exchange(t.X2, "topic")
			ch.bindExchange(t.X2, t.X, "#")
			ch.Bind(t.Q, t.X, "a.*")
			ch.Bind(t.Q, t.X2, "*.b")
			ch.Publish(t.X, "a.b", "once")
			ch.WantGet(t.Q, "once", 0)
		}},
		{ID: "exchange-bind/deleted-source", Title: "deleting the source ends the binding", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "fanout")
			ch.Exchange(t.X2, "fanout")
			ch.bindExchange(t.X2, t.X, "")
			ch.Call(wire.ExchangeDelete{Exchange: t.X}, wire.ExchangeDeleteOk{})
			ch.Exchange(t.X, "fanout")
			ch.Call(wire.ExchangeDelete{Exchange: t.X, IfUnused: true}, wire.ExchangeDeleteOk{})
		}},
	}...)...)
}

// autoDeleteCases: an auto-delete exchange goes with its last binding as a source.
func autoDeleteCases() []Case {
	const source = "spec exchange.declare.auto-delete, behaviour 2.2"
	return []Case{
		{ID: "exchange/auto-delete-unbind", Title: "auto-delete: gone with the last unbind, not before", Source: source, Class: Core, Run: func(t *T) {
			ch := autoDeleteScene(t)
			ch.Bind(t.Q, t.X, "one")
			ch.Bind(t.Q, t.X, "two")
			ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, RoutingKey: "one"}, wire.QueueUnbindOk{})
			ch.Call(wire.ExchangeDeclare{Exchange: t.X, Passive: true}, wire.ExchangeDeclareOk{})
			ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, RoutingKey: "two"}, wire.QueueUnbindOk{})
			ch.wantExchangeGone()
		}},
		{ID: "exchange/auto-delete-queue", Title: "auto-delete: gone with its last queue", Source: source, Class: Core, Run: func(t *T) {
			ch := autoDeleteScene(t)
			ch.Bind(t.Q, t.X, "")
			ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
			ch.wantExchangeGone()
		}},
		{ID: "exchange/auto-delete-connection", Title: "auto-delete: gone with the connection that owned its last, exclusive queue", Source: source, Class: Core,
			Run: func(t *T) {
				ch := autoDeleteScene(t)
				ch.Bind(t.Q, t.X, "")
				ch.Conn.Close()
				t.Channel().eventually404(wire.ExchangeDeclare{Exchange: t.X, Passive: true}, wire.ExchangeDeclareOk{}, "no {x}")
			}},
		{ID: "exchange/auto-delete-destination", Title: "auto-delete: gone with the exchange it was last bound to", Source: source, Class: Extension,
			Run: func(t *T) {
				ch := autoDeleteScene(t)
				ch.Exchange(t.X2, "fanout")
				ch.bindExchange(t.X2, t.X, "")
				ch.Call(wire.ExchangeDelete{Exchange: t.X2}, wire.ExchangeDeleteOk{})
				ch.wantExchangeGone()
			}},
		{ID: "exchange/auto-delete-e2e-unbind", Title: "auto-delete: gone with exchange.unbind", Source: source, Class: Extension, Run: func(t *T) {
			ch := autoDeleteScene(t)
			ch.Exchange(t.X2, "fanout")
			ch.bindExchange(t.X2, t.X, "")
			ch.Call(wire.ExchangeUnbind{Destination: t.X2, Source: t.X}, wire.ExchangeUnbindOk{})
			ch.wantExchangeGone()
		}},
		{ID: "exchange/auto-delete-never-bound", Title: "auto-delete: an exchange that never had a binding stays", Source: source, Class: Core, Run: func(t *T) {
			ch := autoDeleteScene(t)
			ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X}, wire.QueueUnbindOk{})
			ch.Call(wire.ExchangeDeclare{Exchange: t.X, Passive: true}, wire.ExchangeDeclareOk{})
		}},
		{ID: "exchange/auto-delete-as-destination", Title: "auto-delete: bindings to it do not count", Source: source, Class: Extension, Run: func(t *T) {
			ch := autoDeleteScene(t)
			ch.Exchange(t.X2, "fanout")
			ch.bindExchange(t.X, t.X2, "")
			ch.Call(wire.ExchangeUnbind{Destination: t.X, Source: t.X2}, wire.ExchangeUnbindOk{})
			ch.Call(wire.ExchangeDeclare{Exchange: t.X, Passive: true}, wire.ExchangeDeclareOk{})
		}},
		{ID: "exchange/auto-delete-chain", Title: "auto-delete: an exchange that goes takes along the one whose last binding that was", Source: source,
			Class: Extension, Run: func(t *T) {
				ch := autoDeleteScene(t)
				ch.Call(wire.ExchangeDeclare{Exchange: t.X2, Type: "fanout", AutoDelete: true}, wire.ExchangeDeclareOk{})
				ch.bindExchange(t.X2, t.X, "")
				ch.Bind(t.Q, t.X2, "")
				ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
				ch.wantExchangeGone()
			}},
	}
}
