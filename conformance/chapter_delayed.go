package conformance

import (
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

const (
	delayedSource = "behaviour 4 (x-delayed-message)"
	delayedKind   = "x-delayed-message"
)

// delayedCase is a rule of the delayed message exchange t.X, of type direct, with t.Q bound under t.Key. RabbitMQ
// without the plugin must refuse the type; with it, it is judged by the rule.
func delayedCase(id, title string, class Class, run func(t *T, ch *Chan)) Case {
	return Case{ID: "delayed/" + id, Title: title, Source: delayedSource, Class: class, Difference: "delayed-there", Run: func(t *T) {
		ch := t.Channel()
		if !ch.delayedThere(t.X, wire.Field{Key: "x-delayed-type", Value: "direct"}) {
			return
		}
		ch.Queue(t.Q)
		ch.Bind(t.Q, t.X, t.Key)
		run(t, ch)
	}}
}

// delayedThere declares a delayed exchange. False: the broker does not know the type, and has said so as it must.
func (ch *Chan) delayedThere(x string, arguments ...wire.Field) bool {
	declare := wire.ExchangeDeclare{Exchange: x, Type: delayedKind, Arguments: arguments}
	if ch.t.Differs() {
		ch.Call(declare, wire.ExchangeDeclareOk{})
		return true
	}
	ch.Send(declare)
	refused := hard(503, declare, "unknown exchange type 'x-delayed-message'")
	if ch.t.Four() {
		refused = soft(406, declare, refused.text)
	}
	switch m := ch.decode(ch.NextFrame()).(type) {
	case wire.ExchangeDeclareOk:
		return true
	case wire.ChannelClose:
		ch.t.Equal("refusal", []any{m.ReplyCode, m.ReplyText}, []any{refused.code, refused.replyText(ch.t)})
		ch.Send(wire.ChannelCloseOk{})
		ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
	case wire.ConnectionClose:
		ch.t.Equal("refusal", []any{m.ReplyCode, m.ReplyText}, []any{refused.code, refused.replyText(ch.t)})
		ch.Conn.Send(0, wire.ConnectionCloseOk{})
		ch.WantClosed(patience)
	default:
		ch.t.Fatalf("exchange.declare answered with %#v", m)
	}
	return false
}

// delayedBy are properties with an x-delay header.
func delayedBy(v any) wire.Properties { return wire.Properties{Headers: ptr(table("x-delay", v))} }

func delayedCases() []Case {
	const brief = 300 * time.Millisecond
	send := func(t *T, ch *Chan, v any, body string) {
		ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: t.Key}, delayedBy(v), body)
	}
	negated := func(t *T, ms int64) wire.Properties {
		if t.Four() {
			return delayedBy(-ms)
		}
		return delayedBy(int32(-ms))
	}
	return append([]Case{
		delayedCase("waits", "a message comes when its time has come, with the header negated", Timing, func(t *T, ch *Chan) {
			start := time.Now()
			send(t, ch, int32(brief.Milliseconds()), "body")
			ch.WantEmpty(t.Q)
			g := ch.AwaitGet(t.Q)
			if waited := time.Since(start); waited < brief-time.Millisecond {
				t.Errorf("it came after %v, want %v", waited, brief)
			}
			t.Equal("message", []any{g.Exchange, g.Key, g.Redelivered, g.Properties, g.Body},
				[]any{t.X, t.Key, false, negated(t, brief.Milliseconds()), "body"})
		}),
		delayedCase("order", "messages come in the order of their times", Timing, func(t *T, ch *Chan) {
			ch.Consume(t.Q, "c")
			for _, m := range []struct {
				ms   any
				body string
			}{{int64(600), "third"}, {"300", "first"}, {450.5, "second"}, {int32(0), "at once"}, {int16(-1), "at once too"}} {
				send(t, ch, m.ms, m.body)
			}
			ch.WantBodies("at once", "at once too", "first", "second", "third")
		}),
		delayedCase("at-once", "without a delay, or with one that does not count, a message is routed at once", Extension, func(t *T, ch *Chan) {
			ch.Publish(t.X, t.Key, "plain")
			for _, v := range []any{int32(0), int32(-1000), int64(4294967296), true, wire.Timestamp(5)} {
				send(t, ch, v, "delay that does not count")
			}
			ch.WantCount(t.Q, 6, 0)
		}),
		delayedCase("mandatory", "a message that waits is unroutable, and confirmed", Timing, func(t *T, ch *Chan) {
			ch.Confirm()
			p := delayedBy(int32(200))
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: t.Key, Mandatory: true}, p, "body")
			ch.WantReturn(Returned{312, "NO_ROUTE", t.X, t.Key, p, "body"})
			ch.WantConfirms(1, 1)
			t.Equal("body", ch.AwaitGet(t.Q).Body, "body")
		}),
		delayedCase("late-binding", "the bindings of the moment it fires decide", Timing, func(t *T, ch *Chan) {
			ch.Queue(t.Q2)
			send(t, ch, int32(500), "body")
			ch.Bind(t.Q2, t.X, t.Key)
			ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, RoutingKey: t.Key}, wire.QueueUnbindOk{})
			t.Equal("body", ch.AwaitGet(t.Q2).Body, "body")
			ch.WantEmpty(t.Q)
		}),
		delayedCase("deleted", "what waits goes with the exchange", Timing, func(t *T, ch *Chan) {
			send(t, ch, int32(100), "body")
			ch.Call(wire.ExchangeDelete{Exchange: t.X}, wire.ExchangeDeleteOk{})
			ch.delayedThere(t.X, wire.Field{Key: "x-delayed-type", Value: "direct"})
			ch.Bind(t.Q, t.X, t.Key)
			send(t, ch, int32(400), "later")
			t.Equal("body", ch.AwaitGet(t.Q).Body, "later")
			ch.WantEmpty(t.Q)
		}),
		delayedCase("tx", "a message of a transaction waits from its commit", Timing, func(t *T, ch *Chan) {
			ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
			send(t, ch, int32(200), "rolled back")
			ch.Call(wire.TxRollback{}, wire.TxRollbackOk{})
			send(t, ch, int32(300), "body")
			ch.Call(wire.TxCommit{}, wire.TxCommitOk{})
			t.Equal("body", ch.AwaitGet(t.Q).Body, "body")
			ch.WantEmpty(t.Q)
		}),
	}, delayedTypes()...)
}

// delayedTypes: what the type's argument may be.
func delayedTypes() []Case {
	const source = delayedSource
	refused := func(id, title, text string, arguments ...wire.Field) Case {
		return Case{ID: "delayed/" + id, Title: title, Source: source, Class: Extension, Difference: "delayed-there", Run: func(t *T) {
			ch := t.Channel()
			if !ch.delayedThere(t.X2, wire.Field{Key: "x-delayed-type", Value: "fanout"}) {
				return
			}
			declare := wire.ExchangeDeclare{Exchange: t.X, Type: delayedKind, Arguments: arguments}
			ch.Send(declare)
			if text == "unknown exchange type 'bogus'" && !t.Four() {
				ch.WantClosing(hard(503, declare, text))
				return
			}
			ch.WantClosing(soft(406, declare, text))
		}}
	}
	const mustExist = "Invalid argument, 'x-delayed-type' must be an existing exchange type"
	return []Case{
		refused("type-missing", "x-delayed-type is required", mustExist),
		refused("type-number", "x-delayed-type is a string", mustExist, arg("x-delayed-type", int32(1))...),
		refused("type-unknown", "x-delayed-type is a type", "unknown exchange type 'bogus'", arg("x-delayed-type", "bogus")...),
		refused("type-itself", "x-delayed-type is another type", "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
			arg("x-delayed-type", delayedKind)...),
	}
}
