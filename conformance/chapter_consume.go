package conformance

import (
	"regexp"
	"strings"

	"github.com/warrenmq/warren/conformance/wire"
)

func consumeCases() []Case {
	const source = "spec basic.consume, behaviour 2.4"
	consume := wire.BasicConsume{}
	cases := refusals(Core, []refusal{
		{"consume/queue-missing", "consuming a missing queue", source, func(t *T, ch *Chan) { ch.Send(wire.BasicConsume{Queue: t.Q}) },
			soft(404, consume, "no {q}"), closing{}},
		{"consume/queue-missing-nowait", "consuming a missing queue with nowait", source, func(t *T, ch *Chan) {
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", NoWait: true})
		}, soft(404, consume, "no {q}"), closing{}},
		{"consume/tag-in-use", "a consumer tag that the channel has already", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Consume(t.Q, "t")
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "t"})
		}, hard(530, consume, "attempt to reuse consumer tag 't'"), closing{}},
		{"consume/exclusively-consumed", "a second consumer beside an exclusive one", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Call(wire.BasicConsume{Queue: t.Q, ConsumerTag: "a", Exclusive: true}, wire.BasicConsumeOk{ConsumerTag: "a"})
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "b"})
		}, soft(403, consume, "{q} in exclusive use"), closing{}},
		{"consume/exclusive-too-late", "an exclusive consumer beside another", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Consume(t.Q, "a")
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "b", Exclusive: true})
		}, soft(403, consume, "{q} in exclusive use"), closing{}},
	})
	cases = append(cases, refusals(Extension, []refusal{
		{"consume/priority-type", "x-priority that is no integer", "behaviour 2.4", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Send(wire.BasicConsume{Queue: t.Q, Arguments: arg("x-priority", "high")})
		}, soft(406, consume, `invalid arg 'x-priority' for {q}: "expected integer, got longstr"`), closing{}},
		{"consume/argument-of-another-type", "an argument of another queue type", "behaviour 2.4", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Send(wire.BasicConsume{Queue: t.Q, Arguments: arg("x-stream-offset", "first")})
		}, soft(406, consume, "invalid arg 'x-stream-offset' for {q} of queue type rabbit_classic_queue"), closing{}},
	})...)
	return append(append(cases, deliveryCases()...),
		Case{ID: "consume/server-tag", Title: "the empty tag gives amq.ctag- and 22 characters", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			seen := map[string]bool{}
			for range 3 {
				ch.Send(wire.BasicConsume{Queue: t.Q})
				tag := ch.wantType(wire.BasicConsumeOk{}).(wire.BasicConsumeOk).ConsumerTag
				if ok, err := regexp.MatchString(`^amq\.ctag-[-_A-Za-z0-9]{22}$`, tag); !ok || err != nil || seen[tag] {
					t.Fatalf("server-made tag %q", tag)
				}
				seen[tag] = true
			}
		}},
		Case{ID: "consume/tag-255-bytes", Title: "a tag of 255 bytes of any UTF-8", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			tag := "тег \n" + strings.Repeat("t", 247)
			ch.Consume(t.Q, tag)
			ch.Publish("", t.Q, "body")
			ch.WantDelivery(Delivery{Consumer: tag, Tag: 1, Key: t.Q, Body: "body"})
		}},
		Case{ID: "consume/exclusive-other-connection", Title: "exclusive consumption holds across connections", Source: source, Class: Core, Run: func(t *T) {
			a, b := t.Channel(), t.Channel()
			a.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
			a.Call(wire.BasicConsume{Queue: t.Q, ConsumerTag: "a", Exclusive: true}, wire.BasicConsumeOk{ConsumerTag: "a"})
			b.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "b"})
			b.WantClosing(soft(403, consume, "{q} in exclusive use"))
		}},
		Case{ID: "consume/tag-on-other-channel", Title: "one tag on two channels is two consumers", Source: source, Class: Core, Run: func(t *T) {
			c := t.Connect()
			one, two := c.Chan(1), c.Chan(2)
			one.Queue(t.Q)
			one.Consume(t.Q, "t")
			two.Consume(t.Q, "t")
			two.WantCount(t.Q, 0, 2)
		}},
		Case{ID: "consume/tag-free-again", Title: "a cancelled consumer's tag is free", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			for range 3 {
				ch.Consume(t.Q, "t")
				ch.Call(wire.BasicCancel{ConsumerTag: "t"}, wire.BasicCancelOk{ConsumerTag: "t"})
			}
		}},
		Case{ID: "consume/exclusive-free-again", Title: "an exclusive consumer that is cancelled lets others in", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Call(wire.BasicConsume{Queue: t.Q, ConsumerTag: "a", Exclusive: true}, wire.BasicConsumeOk{ConsumerTag: "a"})
			ch.Call(wire.BasicCancel{ConsumerTag: "a"}, wire.BasicCancelOk{ConsumerTag: "a"})
			ch.Consume(t.Q, "b")
		}},
		Case{ID: "consume/no-local", Title: "no-local is ignored", Source: "behaviour 2.4", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Call(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", NoLocal: true}, wire.BasicConsumeOk{ConsumerTag: "c"})
			ch.Publish("", t.Q, "own")
			ch.WantBodies("own")
		}},
		Case{ID: "consume/unknown-arguments", Title: "unknown arguments are ignored", Source: "behaviour 2.4", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Consume(t.Q, "c", fieldSamples()...)
		}},
		Case{ID: "consume/nowait", Title: "nowait: no consume-ok, deliveries start at once", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "body")
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", NoWait: true})
			ch.WantDelivery(Delivery{Consumer: "c", Tag: 1, Key: t.Q, Body: "body"})
		}},
	)
}

func deliveryCases() []Case {
	const source = "spec basic.deliver, behaviour 2.4"
	return []Case{
		{ID: "deliver/fields", Title: "a delivery names consumer, tag, exchange and key, after consume-ok", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "direct")
			ch.Bind(t.Q, t.X, "k")
			ch.Publish(t.X, "k", "a")
			ch.Publish("", t.Q, "b")
			ch.Consume(t.Q, "tag")
			ch.WantDelivery(Delivery{Consumer: "tag", Tag: 1, Exchange: t.X, Key: "k", Body: "a"})
			ch.WantDelivery(Delivery{Consumer: "tag", Tag: 2, Key: t.Q, Body: "b"})
		}},
		{ID: "deliver/order", Title: "one publisher's messages come in order", Source: "spec 4.7", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			var bodies []string
			for i := range 500 {
				bodies = append(bodies, string(rune('a'+i%26))+string(rune('0'+i%10)))
			}
			ch.Publish("", t.Q, bodies[:250]...)
			ch.ConsumeNoAck(t.Q, "c")
			ch.Publish("", t.Q, bodies[250:]...)
			ch.WantBodies(bodies...)
		}},
		{ID: "deliver/round-robin", Title: "messages go round the consumers in the order of their coming", Source: "behaviour 2.4", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			for _, tag := range []string{"a", "b", "c"} {
				ch.Consume(t.Q, tag)
			}
			for i, body := range []string{"0", "1", "2", "3", "4", "5"} {
				ch.Publish("", t.Q, body)
				ch.WantDelivery(Delivery{Consumer: string(rune('a' + i%3)), Tag: uint64(i + 1), Key: t.Q, Body: body})
			}
		}},
		{ID: "deliver/tags-shared", Title: "delivery tags count per channel over consumers and gets, acknowledged or not", Source: "behaviour 2.6", Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q)
				ch.Queue(t.Q2)
				ch.Publish("", t.Q, "a", "b")
				t.Equal("tag", ch.Get(t.Q, true).Tag, uint64(1))
				t.Equal("tag", ch.Get(t.Q, false).Tag, uint64(2))
				ch.ConsumeNoAck(t.Q, "c")
				ch.Consume(t.Q2, "d")
				ch.Publish("", t.Q, "x")
				ch.WantDelivery(Delivery{Consumer: "c", Tag: 3, Key: t.Q, Body: "x"})
				ch.Publish("", t.Q2, "y")
				ch.WantDelivery(Delivery{Consumer: "d", Tag: 4, Key: t.Q2, Body: "y"})
			}},
		{ID: "deliver/tags-per-channel", Title: "each channel counts for itself", Source: "spec basic.deliver", Class: Core, Run: func(t *T) {
			c := t.Connect()
			one, two := c.Chan(1), c.Chan(2)
			one.Queue(t.Q)
			one.Publish("", t.Q, "a", "b")
			t.Equal("tag", one.Get(t.Q, false).Tag, uint64(1))
			t.Equal("tag", two.Get(t.Q, false).Tag, uint64(1))
		}},
		{ID: "deliver/backlog", Title: "a new consumer gets what is there", Source: "spec basic.consume", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a", "b", "c")
			ch.Consume(t.Q, "c")
			ch.WantBodies("a", "b", "c")
			ch.Send(wire.BasicAck{DeliveryTag: 3, Multiple: true})
			ch.WantCount(t.Q, 0, 1)
		}},
	}
}

func cancelCases() []Case {
	const source = "spec basic.cancel, behaviour 2.4"
	return []Case{
		{ID: "cancel/ok", Title: "cancel-ok names the tag; nothing is delivered afterwards", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Consume(t.Q, "c")
			ch.Call(wire.BasicCancel{ConsumerTag: "c"}, wire.BasicCancelOk{ConsumerTag: "c"})
			ch.Publish("", t.Q, "stays")
			ch.WantCount(t.Q, 1, 0)
		}},
		{ID: "cancel/unknown", Title: "cancelling an unknown tag is ok", Source: source, Class: Core, Run: func(t *T) {
			t.Channel().Call(wire.BasicCancel{ConsumerTag: "nobody"}, wire.BasicCancelOk{ConsumerTag: "nobody"})
		}},
		{ID: "cancel/nowait", Title: "nowait suppresses cancel-ok", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Consume(t.Q, "c")
			ch.Send(wire.BasicCancel{ConsumerTag: "c", NoWait: true}, wire.BasicCancel{ConsumerTag: "nobody", NoWait: true})
			ch.WantCount(t.Q, 0, 0)
		}},
		{ID: "cancel/unacked-stay", Title: "unacknowledged deliveries outlive the consumer and can be settled", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a", "b")
			ch.Consume(t.Q, "c")
			ch.WantBodies("a", "b")
			ch.Call(wire.BasicCancel{ConsumerTag: "c"}, wire.BasicCancelOk{ConsumerTag: "c"})
			ch.WantEmpty(t.Q)
			ch.Send(wire.BasicAck{DeliveryTag: 1}, wire.BasicReject{DeliveryTag: 2, Requeue: true})
			ch.WantGet(t.Q, "b", 0)
		}},
		{ID: "cancel/by-broker", Title: "deleting the queue cancels its consumers on other connections", Source: source, Class: Extension, Run: func(t *T) {
			a, b := t.Channel(), t.Channel()
			a.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
			b.Consume(t.Q, "c")
			a.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
			b.Want(wire.BasicCancel{ConsumerTag: "c", NoWait: true})
			b.Call(wire.BasicCancel{ConsumerTag: "c"}, wire.BasicCancelOk{ConsumerTag: "c"})
		}},
		{ID: "cancel/by-broker-same-connection", Title: "deleting the queue cancels its consumers on the same channel, before or after delete-ok",
			Source: source, Class: Extension, Run: cancelBesideDeleteOk},
		{ID: "cancel/by-broker-silent", Title: "a client without consumer_cancel_notify is not told", Source: source, Class: Extension, Run: func(t *T) {
			l := login{properties: wire.Table{{Key: "capabilities", Value: capabilities("basic.nack")}}}
			a, b := t.Channel(), t.ConnectAs(l).Chan(1)
			a.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
			b.Consume(t.Q, "c")
			a.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
			b.Quiet()
			a.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
			b.Quiet()
		}},
		{ID: "cancel/by-broker-tag-free", Title: "after a cancel by the broker the tag is free", Source: source, Class: Extension, Run: func(t *T) {
			a, b := t.Channel(), t.Channel()
			a.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
			b.Consume(t.Q, "c")
			a.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
			b.Want(wire.BasicCancel{ConsumerTag: "c", NoWait: true})
			b.Queue(t.Q2)
			b.Consume(t.Q2, "c")
		}},
		{ID: "cancel/cancel-ok-from-client", Title: "basic.cancel-ok from a client is refused under profile 3", Source: "behaviour 0.15", Class: Extension,
			Profiles: []int{Profile3}, Run: func(t *T) {
				ch := t.Channel()
				ch.Send(wire.BasicCancelOk{ConsumerTag: "c"})
				ch.WantClosing(hard(503, wire.BasicCancelOk{}, "unimplemented method"))
			}},
		{ID: "cancel/cancel-ok-cancels", Title: "basic.cancel-ok from a client cancels under profile 4, without an answer", Source: "behaviour 0.15",
			Class: Extension, Profiles: []int{Profile4}, Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q)
				ch.Consume(t.Q, "c")
				ch.Send(wire.BasicCancelOk{ConsumerTag: "c"})
				ch.WantCount(t.Q, 0, 0)
			}},
	}
}

func cancelBesideDeleteOk(t *T) {
	ch := t.Channel()
	ch.Queue(t.Q)
	ch.Consume(t.Q, "c")
	ch.Send(wire.QueueDelete{Queue: t.Q})
	got := map[wire.Method]bool{ch.next(): true, ch.next(): true}
	t.Equal("answers", got, map[wire.Method]bool{wire.QueueDeleteOk{}: true, wire.BasicCancel{ConsumerTag: "c", NoWait: true}: true})
}
