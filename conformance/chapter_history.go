package conformance

import (
	"fmt"

	"github.com/warrenmq/warren/conformance/wire"
)

const historySource = "behaviour 4 (x-recent-history)"

// historyKind is the type's name, historyLength its argument.
const (
	historyKind   = "x-recent-history"
	historyLength = "x-recent-history-length"
)

func historyRefusals() []refusal {
	bad := func(id string, v any, shown string) refusal {
		return refusal{"history/length-" + id, "x-recent-history-length is a positive integer, not " + shown, historySource,
			typed(historyKind, arg(historyLength, v)...),
			soft(406, wire.ExchangeDeclare{}, "Invalid argument "+shown+", 'x-recent-history-length' must be a positive integer"), closing{}}
	}
	return []refusal{
		bad("zero", int32(0), "0"), bad("negative", int64(-1), "-1"), bad("string", "5", `<<"5">>`), bad("bool", true, "true"),
		bad("unsigned-octet", uint8(5), "5"), bad("unsigned-short", uint16(5), "5"), bad("unsigned", uint32(5), "5"),
		bad("double", 5.0, "5.0"), bad("timestamp", wire.Timestamp(5), "5"),
	}
}

func historyCases() []Case {
	kase := func(id, title string, run func(t *T, ch *Chan)) Case {
		return Case{ID: "history/" + id, Title: title, Source: historySource, Class: Extension, Run: func(t *T) { run(t, t.Channel()) }}
	}
	bodies := func(from, to int) (all []string) {
		for i := from; i <= to; i++ {
			all = append(all, fmt.Sprint("m", i))
		}
		return all
	}
	// wantAll takes all messages of a queue.
	wantAll := func(ch *Chan, q string, bodies ...string) {
		ch.WantCount(q, uint32(len(bodies)), 0)
		for i, b := range bodies {
			ch.WantGet(q, b, uint32(len(bodies)-1-i))
		}
	}
	return append(refusals(Extension, historyRefusals()),
		kase("replay", "a queue that is bound gets the last messages, oldest first", func(t *T, ch *Chan) {
			ch.Exchange(t.X, historyKind, arg(historyLength, int32(3))...)
			ch.Publish(t.X, "k", bodies(1, 5)...)
			ch.Queue(t.Q)
			ch.Bind(t.Q, t.X, "")
			wantAll(ch, t.Q, bodies(3, 5)...)
			ch.Publish(t.X, "any", "m6")
			ch.WantGet(t.Q, "m6", 0)
		}),
		kase("default", "it remembers 20 when nothing is said", func(t *T, ch *Chan) {
			ch.Exchange(t.X, historyKind)
			ch.Publish(t.X, "k", bodies(1, 25)...)
			ch.Queue(t.Q)
			ch.Bind(t.Q, t.X, "")
			wantAll(ch, t.Q, bodies(6, 25)...)
		}),
		kase("lengths", "signed integers of every width count", func(t *T, ch *Chan) {
			for i, v := range []any{int8(1), int16(1), int32(1), int64(1)} {
				x, q := fmt.Sprint(t.X, i), fmt.Sprint(t.Q, i)
				ch.Exchange(x, historyKind, arg(historyLength, v)...)
				ch.Publish(x, "k", "one", "two")
				ch.Queue(q)
				ch.Bind(q, x, "")
				wantAll(ch, q, "two")
			}
		}),
		kase("again", "a binding that is there replays nothing, another one of the same queue does", func(t *T, ch *Chan) {
			ch.Exchange(t.X, historyKind, arg(historyLength, int32(2))...)
			ch.Publish(t.X, "k", "one")
			ch.Queue(t.Q)
			ch.Bind(t.Q, t.X, "")
			ch.Bind(t.Q, t.X, "")
			wantAll(ch, t.Q, "one")
			ch.Bind(t.Q, t.X, "other")
			wantAll(ch, t.Q, "one")
		}),
		kase("rebind", "after unbind, binding again replays", func(t *T, ch *Chan) {
			ch.Exchange(t.X, historyKind)
			ch.Publish(t.X, "k", "one")
			for range 2 {
				ch.Queue(t.Q)
				ch.Bind(t.Q, t.X, "")
				wantAll(ch, t.Q, "one")
				ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X}, wire.QueueUnbindOk{})
				ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
			}
		}),
		kase("no-store", "a message can ask not to be remembered", func(t *T, ch *Chan) {
			ch.Exchange(t.X, historyKind)
			ch.Queue(t.Q)
			ch.Bind(t.Q, t.X, "")
			send := func(v any, body string) {
				p := wire.Properties{Headers: ptr(table("x-recent-history-no-store", v))}
				ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: "k"}, p, body)
			}
			send(true, "unkept")
			send(false, "kept")
			send("true", "kept too")
			wantAll(ch, t.Q, "unkept", "kept", "kept too")
			ch.Queue(t.Q2)
			ch.Bind(t.Q2, t.X, "")
			wantAll(ch, t.Q2, "kept", "kept too")
		}),
		kase("as-published", "what is replayed is as it was published, and not redelivered", func(t *T, ch *Chan) {
			ch.Exchange(t.X, historyKind)
			p := wire.Properties{ContentType: ptrTo("text/plain"), Priority: ptrTo(uint8(3)), MessageID: ptrTo("m1"), Headers: ptr(table("a", int32(1)))}
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: "the.key"}, p, "body")
			ch.Queue(t.Q)
			ch.Bind(t.Q, t.X, "other")
			ch.WantCount(t.Q, 1, 0)
			t.Equal("message", ch.Get(t.Q, true), Got{1, false, t.X, "the.key", 0, p, "body"})
		}),
		kase("expiration", "a time to live counts from the replay", func(t *T, ch *Chan) {
			ch.Exchange(t.X, historyKind)
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: "k"}, wire.Properties{Expiration: ptrTo("1")}, "short")
			ch.Publish(t.X, "k", "long")
			ch.Queue(t.Q)
			ch.Consume(t.Q, "c")
			ch.Send(wire.QueueBind{Queue: t.Q, Exchange: t.X, NoWait: true}) // bind-ok may come before or behind
			ch.WantBodies("short", "long")
		}),
		kase("unroutable", "remembered is not routed: a mandatory message is returned", func(t *T, ch *Chan) {
			ch.Exchange(t.X, historyKind)
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: "k", Mandatory: true}, wire.Properties{}, "body")
			ch.WantReturn(Returned{312, "NO_ROUTE", t.X, "k", wire.Properties{}, "body"})
			ch.Queue(t.Q)
			ch.Bind(t.Q, t.X, "")
			wantAll(ch, t.Q, "body")
		}),
		kase("fanout", "keys do not count; each queue gets one copy", func(t *T, ch *Chan) {
			ch.Exchange(t.X, historyKind)
			ch.Queue(t.Q)
			ch.Queue(t.Q2)
			ch.Bind(t.Q, t.X, "a")
			ch.Bind(t.Q, t.X, "b")
			ch.Bind(t.Q2, t.X, "c")
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: "z"}, wire.Properties{Headers: ptr(table("CC", wire.Array{"a"}))}, "m")
			wantAll(ch, t.Q, "m")
			wantAll(ch, t.Q2, "m")
		}),
		kase("exchange", "an exchange that is bound routes what is remembered", func(t *T, ch *Chan) {
			ch.Exchange(t.X, historyKind)
			ch.Publish(t.X, "k", "one")
			ch.Exchange(t.X2, "direct")
			ch.Queue(t.Q)
			ch.Bind(t.Q, t.X2, "k")
			ch.Call(wire.ExchangeBind{Destination: t.X2, Source: t.X}, wire.ExchangeBindOk{})
			wantAll(ch, t.Q, "one")
		}),
		kase("exchange-order", "an exchange that is bound gets the newest first", func(t *T, ch *Chan) {
			ch.Exchange(t.X, historyKind)
			ch.Publish(t.X, "k", "one", "two", "three")
			ch.Exchange(t.X2, "fanout")
			ch.Queue(t.Q)
			ch.Bind(t.Q, t.X2, "k")
			ch.Call(wire.ExchangeBind{Destination: t.X2, Source: t.X}, wire.ExchangeBindOk{})
			wantAll(ch, t.Q, "three", "two", "one")
		}),
		kase("exchange-nowhere", "an exchange that leads nowhere cannot be bound when something is remembered", func(t *T, ch *Chan) {
			ch.Exchange(t.X, historyKind)
			ch.Exchange(t.X2, "direct")
			ch.Call(wire.ExchangeBind{Destination: t.X2, Source: t.X, RoutingKey: "early"}, wire.ExchangeBindOk{})
			ch.Publish(t.X, "k", "one")
			ch.Send(wire.ExchangeBind{Destination: t.X2, Source: t.X})
			if t.Four() {
				ch.WantClosing(hard(541, wire.ExchangeBind{}, "could not find queue/exchange ''"))
				return
			}
			ch.WantClosing(hard(541, nil, ""))
		}),
		kase("through-exchange", "what comes over another exchange is remembered too", func(t *T, ch *Chan) {
			ch.Exchange(t.X2, "fanout")
			ch.Exchange(t.X, historyKind)
			ch.Call(wire.ExchangeBind{Destination: t.X, Source: t.X2}, wire.ExchangeBindOk{})
			ch.Publish(t.X2, "k", "one")
			ch.Queue(t.Q)
			ch.Bind(t.Q, t.X, "")
			ch.WantCount(t.Q, 1, 0)
			t.Equal("message", ch.Get(t.Q, true), Got{1, false, t.X2, "k", 0, wire.Properties{}, "one"})
		}),
		kase("deleted", "a deleted exchange has forgotten", func(t *T, ch *Chan) {
			ch.Exchange(t.X, historyKind)
			ch.Publish(t.X, "k", "one")
			ch.Call(wire.ExchangeDelete{Exchange: t.X}, wire.ExchangeDeleteOk{})
			ch.Exchange(t.X, historyKind)
			ch.Queue(t.Q)
			ch.Bind(t.Q, t.X, "")
			ch.WantCount(t.Q, 0, 0)
		}),
	)
}
