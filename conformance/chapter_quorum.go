package conformance

import (
	"fmt"
	"slices"

	"github.com/warrenmq/warren/conformance/wire"
)

// limited is the argument x-delivery-limit.
func limited(n any) wire.Field { return wire.Field{Key: "x-delivery-limit", Value: n} }

// counts are the counting headers of a message: -1 when absent.
func counts(p wire.Properties) (acquired, delivered int64) {
	acquired, delivered = -1, -1
	if p.Headers == nil {
		return
	}
	for _, f := range *p.Headers {
		n, ok := f.Value.(int64)
		switch {
		case ok && f.Key == "x-acquired-count":
			acquired = n
		case ok && f.Key == "x-delivery-count":
			delivered = n
		}
	}
	return
}

// line is what a quorum case looks at in a message.
func quorumLine(body string, redelivered bool, p wire.Properties) string {
	a, d := counts(p)
	return fmt.Sprintf("%s redelivered=%v acquired=%d delivered=%d", body, redelivered, a, d)
}

// WantQuorumGet takes a message and demands its body and counts: those of profile 3 (delivery count), then of 4
// (acquired and delivery count); -1 is no header. It returns the tag.
func (ch *Chan) WantQuorumGet(q, body string, three, four, fourDelivered int64) uint64 {
	g := ch.Get(q, false)
	want := fmt.Sprintf("%s redelivered=%v acquired=-1 delivered=%d", body, three > 0, three)
	if ch.t.Four() {
		want = fmt.Sprintf("%s redelivered=%v acquired=%d delivered=%d", body, four > 0, four, fourDelivered)
	}
	ch.t.Equal("message got", quorumLine(g.Body, g.Redelivered, g.Properties), want)
	return g.Tag
}

// WantOrder takes and acknowledges all messages of a queue and demands their bodies in order.
func (ch *Chan) WantOrder(q string, bodies ...string) {
	var got []string
	for range bodies {
		g := ch.Get(q, false)
		got = append(got, g.Body)
		ch.Send(wire.BasicAck{DeliveryTag: g.Tag})
	}
	ch.t.Equal("order", got, bodies)
	ch.WantEmpty(q)
}

// quorumReturn is a case about where returned messages go: 0 to 4 are put, 0 to 2 taken, then come back.
func quorumReturn(id, title string, arguments []wire.Field, back func(ch *Chan), three, four []string) Case {
	return Case{ID: "quorum/order-" + id, Title: title, Source: "rabbitmq 3.10.8 and 4.3.6, behaviour 2.6", Class: Extension, Run: func(t *T) {
		ch := t.Channel()
		ch.Quorum(t.Q, arguments...)
		taker := t.Channel()
		ch.Put(t.Q, "0", "1", "2", "3", "4")
		for _, body := range []string{"0", "1", "2"} {
			t.Equal("body", taker.Get(t.Q, false).Body, body)
		}
		back(taker)
		ch.WantCount(t.Q, 5, 0)
		want := three
		if t.Four() {
			want = four
		}
		ch.WantOrder(t.Q, want...)
	}}
}

func quorumOrderCases() []Case {
	nacks := func(ch *Chan) {
		ch.Send(wire.BasicNack{DeliveryTag: 2, Requeue: true}, wire.BasicNack{DeliveryTag: 1, Requeue: true}, wire.BasicNack{DeliveryTag: 3, Requeue: true})
		ch.Quiet()
	}
	closes := func(ch *Chan) {
		ch.Call(wire.ChannelClose{}, wire.ChannelCloseOk{})
		ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
	}
	returned := []string{"1", "0", "2", "3", "4"}
	inOrder := []string{"0", "1", "2", "3", "4"}
	return []Case{
		quorumReturn("nack", "what is given back goes before the rest in the order of return; under 3 behind it, without a limit", nil,
			nacks, []string{"3", "4", "1", "0", "2"}, returned),
		quorumReturn("nack-limited", "with a delivery limit it goes before the rest in both", []wire.Field{limited(int32(10))}, nacks, returned, returned),
		quorumReturn("nack-limit-text", "a delivery limit that is no number is one under 3", []wire.Field{limited("x")}, nacks, returned, returned),
		quorumReturn("nack-all", "several in one nack keep their order", nil, func(ch *Chan) {
			ch.Send(wire.BasicNack{DeliveryTag: 3, Multiple: true, Requeue: true})
			ch.Quiet()
		}, []string{"3", "4", "0", "1", "2"}, inOrder),
		quorumReturn("recover", "so does basic.recover", nil, func(ch *Chan) { ch.Call(wire.BasicRecover{Requeue: true}, wire.BasicRecoverOk{}) },
			[]string{"3", "4", "0", "1", "2"}, inOrder),
		quorumReturn("close", "what a closed channel held goes before the rest in both", nil, closes, inOrder, inOrder),
		Case{ID: "quorum/order-priority", Title: "a returned message goes before those of higher priority", Source: "rabbitmq 4.3.6", Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q, limited(int32(10)))
			ch.putPriorities(t.Q, 1)
			g := ch.Get(t.Q, false)
			ch.putPriorities(t.Q, 9, 5)
			ch.Send(wire.BasicNack{DeliveryTag: g.Tag, Requeue: true})
			ch.WantCount(t.Q, 3, 0)
			ch.WantOrder(t.Q, "1", "9", "5")
		}},
		Case{ID: "quorum/priorities", Title: "4.3 tells 32 priorities apart, 4 when absent; 3.10.8 none", Source: "behaviour 0.23", Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q)
			ch.putPriorities(t.Q, 1, -1, 5, 9, 3, 0, 4, 40, 31, 32, 255)
			if t.Four() {
				ch.WantOrder(t.Q, "40", "31", "32", "255", "9", "5", "-1", "4", "3", "1", "0")
			} else {
				ch.WantOrder(t.Q, "1", "-1", "5", "9", "3", "0", "4", "40", "31", "32", "255")
			}
		}},
	}
}

// putPriorities publishes messages whose bodies are their priorities, -1 being none, and waits for each.
func (ch *Chan) putPriorities(q string, priorities ...int) {
	helper := ch.Conn.t.Channel()
	helper.Confirm()
	for i, n := range priorities {
		p := wire.Properties{}
		if n >= 0 {
			b := uint8(n)
			p.Priority = &b
		}
		helper.PublishWith(wire.BasicPublish{RoutingKey: q}, p, fmt.Sprint(n))
		helper.WantConfirms(uint64(i+1), uint64(i+1))
	}
}

func quorumCountCases() []Case {
	const source = "behaviour 0.31, 8.1"
	kase := func(id, title string, run func(t *T, ch *Chan)) Case {
		return Case{ID: "quorum/" + id, Title: title, Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q)
			run(t, ch)
		}}
	}
	return []Case{
		kase("count-get", "basic.get shows how often a message came back", func(t *T, ch *Chan) {
			ch.Put(t.Q, "a")
			ch.Send(wire.BasicNack{DeliveryTag: ch.WantQuorumGet(t.Q, "a", 0, -1, -1), Requeue: true})
			ch.Send(wire.BasicReject{DeliveryTag: ch.WantQuorumGet(t.Q, "a", 1, 1, -1), Requeue: true})
			ch.WantQuorumGet(t.Q, "a", 2, 2, 1)
			ch.Call(wire.BasicRecover{Requeue: true}, wire.BasicRecoverOk{})
			other := t.Channel()
			ch.WantCount(t.Q, 1, 0)
			other.WantQuorumGet(t.Q, "a", 3, 3, 1)
			other.Call(wire.ChannelClose{}, wire.ChannelCloseOk{})
			other.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
			ch.WantCount(t.Q, 1, 0)
			ch.WantQuorumGet(t.Q, "a", 4, 4, 2)
		}),
		kase("count-deliver", "basic.deliver shows it only when the message came back", func(t *T, ch *Chan) {
			ch.Consume(t.Q, "c")
			ch.Put(t.Q, "a")
			d := ch.Delivery()
			t.Equal("first", quorumLine(d.Body, d.Redelivered, d.Properties), "a redelivered=false acquired=-1 delivered=-1")
			ch.Send(wire.BasicReject{DeliveryTag: 1, Requeue: true})
			d = ch.Delivery()
			want := "a redelivered=true acquired=-1 delivered=1"
			if t.Four() {
				want = "a redelivered=true acquired=1 delivered=1"
			}
			t.Equal("second", quorumLine(d.Body, d.Redelivered, d.Properties), want)
		}),
		kase("count-published", "headers that the publisher sent are replaced", func(t *T, ch *Chan) {
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Headers: &wire.Table{
				{Key: "a", Value: "x"}, {Key: "x-acquired-count", Value: int64(70)}, {Key: "x-delivery-count", Value: int64(7)}}}, "a")
			ch.WantCount(t.Q, 1, 0)
			g := ch.Get(t.Q, false)
			first := "a redelivered=false acquired=70 delivered=0"
			if t.Four() {
				first = "a redelivered=false acquired=70 delivered=7"
			}
			t.Equal("first", quorumLine(g.Body, g.Redelivered, g.Properties), first)
			ch.Send(wire.BasicReject{DeliveryTag: g.Tag, Requeue: true})
			ch.WantCount(t.Q, 1, 0)
			g = ch.Get(t.Q, false)
			second := "a redelivered=true acquired=70 delivered=1"
			if t.Four() {
				second = "a redelivered=true acquired=1 delivered=1"
			}
			t.Equal("second", quorumLine(g.Body, g.Redelivered, g.Properties), second)
			t.Equal("other header kept", slices.Contains(*g.Properties.Headers, wire.Field{Key: "a", Value: "x"}), true)
		}),
		kase("count-dead", "the counts are gone after dead-lettering to a classic queue", func(t *T, ch *Chan) {
			ch.Queue(t.Q2)
			ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
			ch.Quorum(t.Q, wire.Field{Key: "x-dead-letter-exchange", Value: ""}, wire.Field{Key: "x-dead-letter-routing-key", Value: t.Q2})
			ch.Put(t.Q, "a")
			ch.Send(wire.BasicReject{DeliveryTag: ch.Get(t.Q, false).Tag, Requeue: true})
			ch.WantCount(t.Q, 1, 0)
			ch.Send(wire.BasicReject{DeliveryTag: ch.Get(t.Q, false).Tag})
			g := ch.AwaitGet(t.Q2)
			t.Equal("dead", quorumLine(g.Body, g.Redelivered, g.Properties), fmt.Sprintf("a redelivered=%v acquired=-1 delivered=-1", t.Four()))
		}),
	}
}

// quorumLimit is a case of a delivery limit: so many deliveries, given back by m each, until the message is gone; 0
// is more than 25.
func quorumLimit(id, title string, back func(tag uint64) wire.Method, three, four int, arguments ...wire.Field) Case {
	return Case{ID: "quorum/limit-" + id, Title: title, Source: "behaviour 0.6, 0.7, 8.1", Class: Extension, Run: func(t *T) {
		ch := t.Channel()
		ch.Queue(t.Q2)
		arguments := append(slices.Clone(arguments), wire.Field{Key: "x-dead-letter-exchange", Value: ""}, wire.Field{Key: "x-dead-letter-routing-key", Value: t.Q2})
		ch.Quorum(t.Q, arguments...)
		ch.Consume(t.Q, "c")
		ch.Put(t.Q, "a")
		want := three
		if t.Four() {
			want = four
		}
		for n := 1; n <= max(want, 25) && (want == 0 || n <= want); n++ {
			d := ch.Delivery()
			t.Equal("tag", d.Tag, uint64(n))
			ch.Send(back(d.Tag))
		}
		if want == 0 {
			ch.Send(wire.BasicAck{DeliveryTag: ch.Delivery().Tag})
			ch.WantCount(t.Q, 0, 1)
			return
		}
		g := ch.AwaitGet(t.Q2)
		reason := ""
		for _, f := range *g.Properties.Headers {
			if f.Key == "x-first-death-reason" {
				reason = fmt.Sprint(f.Value)
			}
		}
		t.Equal("death", []string{g.Body, reason}, []string{"a", "delivery_limit"})
		ch.WantCount(t.Q, 0, 1)
	}}
}

func quorumLimitCases() []Case {
	reject := func(tag uint64) wire.Method { return wire.BasicReject{DeliveryTag: tag, Requeue: true} }
	nack := func(tag uint64) wire.Method { return wire.BasicNack{DeliveryTag: tag, Requeue: true} }
	return []Case{
		quorumLimit("default", "by default there is none under 3, and 20 under 4", reject, 0, 21),
		quorumLimit("two", "a limit of 2 allows three deliveries", reject, 3, 3, limited(int32(2))),
		quorumLimit("zero", "a limit of 0 allows one", reject, 1, 1, limited(int32(0))),
		quorumLimit("negative", "a negative limit is 0 under 3 and none under 4", reject, 1, 0, limited(int32(-1))),
		quorumLimit("text", "a text is a limit never reached under 3, and none given under 4", reject, 0, 21, limited("3")),
		quorumLimit("nack", "basic.nack counts under 3 only", nack, 3, 0, limited(int32(2))),
		Case{ID: "quorum/limit-close", Title: "a channel's end counts", Source: "behaviour 0.7", Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q2)
			ch.Quorum(t.Q, limited(int32(1)), wire.Field{Key: "x-dead-letter-exchange", Value: ""}, wire.Field{Key: "x-dead-letter-routing-key", Value: t.Q2})
			ch.Put(t.Q, "a")
			for range 2 {
				ch.WantCount(t.Q, 1, 0)
				taker := t.Channel()
				t.Equal("body", taker.Get(t.Q, false).Body, "a")
				taker.Call(wire.ChannelClose{}, wire.ChannelCloseOk{})
				taker.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
			}
			t.Equal("dead", ch.AwaitGet(t.Q2).Body, "a")
			ch.WantCount(t.Q, 0, 0)
		}},
	}
}
