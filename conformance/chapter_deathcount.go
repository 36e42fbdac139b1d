package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

func deathCountCases() []Case {
	return slices.Concat(deathHistoryCases(), deathCycleCases(), deadCarbonCopyCases())
}

// deathHistoryCases: several deaths of one message.
func deathHistoryCases() []Case {
	const source = "rabbitmq: dead lettering, behaviour 3.4"
	return []Case{
		{ID: "x-death/chain", Title: "a death in a second queue is a second entry, the newest first; x-first-death headers stay", Source: source, Class: Extension,
			Run: func(t *T) {
				ch := t.Channel()
				third := t.Q2 + "-3"
				ch.Exchange(t.X, "direct")
				ch.Exchange(t.X2, "direct")
				ch.Queue(third)
				ch.Bind(third, t.X2, "second")
				ch.Queue(t.Q2, fields(deadTo(t.X2, "second"), []wire.Field{{Key: "x-max-length", Value: int32(0)}})...)
				ch.Bind(t.Q2, t.X, "first")
				ch.Queue(t.Q, deadTo(t.X, "first")...)
				ch.ConsumeNoAck(third, "dead")
				ch.Publish("", t.Q, "a")
				ch.rejectNext(t.Q)
				got := ch.Delivery()
				t.wantDead(got.Properties, deadHeaders{deaths: []Death{{1, "maxlen", t.Q2, t.X, []string{"first"}, ""}, t.died("rejected")}})
				t.Equal("exchange and key", []string{got.Exchange, got.Key}, []string{t.X2, "second"})
			}},
		{ID: "x-death/long-chain", Title: "the newest entry is in front; under profile 3 each death turns the older ones round, under 4 they keep their order",
			Source: source, Class: Extension, Run: longChain},
		{ID: "x-death/count", Title: "a death in the same queue for the same reason is counted in its entry", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "fanout")
			ch.Queue(t.Q, deadTo("", t.Q)...)
			ch.Bind(t.Q, t.X, "")
			ch.Consume(t.Q, "c")
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: "k"}, wire.Properties{Headers: &wire.Table{{Key: "h", Value: "v"}}}, "a")
			ch.WantBodies("a")
			first := Death{1, "rejected", t.Q, t.X, []string{"k"}, ""}
			for n := uint64(1); n < 5; n++ {
				ch.Send(wire.BasicReject{DeliveryTag: n})
				got := ch.Delivery()
				want := deadHeaders{deaths: []Death{first}, first: first, rest: wire.Table{{Key: "h", Value: "v"}}}
				want.deaths[0].Count = int64(n)
				if n > 1 { // only the first publish was to X
					want.last = Death{Reason: "rejected", Queue: t.Q}
				}
				t.wantDead(got.Properties, want)
			}
			ch.Send(wire.BasicAck{DeliveryTag: 5})
		}},
		{ID: "x-death/order", Title: "a repeated death moves its entry to the front", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, deadTo("", t.Q2)...)
			ch.Queue(t.Q2, deadTo("", t.Q)...)
			ch.Publish("", t.Q, "a")
			q := t.died("rejected")
			q2 := Death{1, "rejected", t.Q2, "", []string{t.Q2}, ""}
			for _, want := range [][]Death{{q}, {q2, q}, {counted(q, 2), q2}, {counted(q2, 2), counted(q, 2)}, {counted(q, 3), counted(q2, 2)}} {
				from, to := want[0].Queue, t.Q2
				if from == t.Q2 {
					to = t.Q
				}
				ch.WantCount(from, 1, 0)
				ch.rejectNext(from)
				ch.WantCount(to, 1, 0)
				got := ch.Get(to, false)
				t.wantDead(got.Properties, deadHeaders{deaths: want, first: q})
				ch.Send(wire.BasicNack{DeliveryTag: got.Tag, Requeue: true})
			}
		}},
		{ID: "x-death/two-reasons", Title: "a death in the same queue for another reason is another entry", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(wire.Field{Key: "x-max-length", Value: int32(1)})
			ch.Bind(t.Q, t.X, "")
			ch.Publish("", t.Q, "a")
			ch.rejectNext(t.Q)
			t.wantDead(grave.Delivery().Properties, deadHeaders{deaths: []Death{t.died("rejected")}})
			ch.WantCount(t.Q, 1, 0)
			ch.Publish("", t.Q, "b")
			got := grave.Delivery()
			t.Equal("body", got.Body, "a")
			t.wantDead(got.Properties, deadHeaders{deaths: []Death{{1, "maxlen", t.Q, t.X, []string{t.Q}, ""}, t.died("rejected")}})
			ch.WantGet(t.Q, "b", 0) // a did not come back: its newest death in Q was no rejection
		}},
		{ID: "x-death/time", Title: "an entry keeps the time of its first death", Source: source, Class: Timing, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, deadTo("", t.Q)...)
			ch.Consume(t.Q, "c")
			ch.Publish("", t.Q, "a")
			ch.WantBodies("a")
			ch.Send(wire.BasicReject{DeliveryTag: 1})
			_, first := t.deaths(*ch.Delivery().Properties.Headers)
			time.Sleep(1100 * time.Millisecond) // times are in whole seconds
			ch.Send(wire.BasicReject{DeliveryTag: 2})
			_, second := t.deaths(*ch.Delivery().Properties.Headers)
			t.Equal("times", second, first)
		}},
		{ID: "x-death/original-expiration", Title: "original-expiration stays in the entry of its death", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, deadTo("", t.Q2)...)
			ch.Queue(t.Q2, deadTo("", t.Q)...)
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Expiration: new("60000")}, "a")
			q := t.died("rejected")
			q.Expiration = "60000"
			q2 := Death{1, "rejected", t.Q2, "", []string{t.Q2}, ""}
			ch.rejectNext(t.Q)
			ch.WantCount(t.Q2, 1, 0)
			ch.rejectNext(t.Q2)
			ch.WantCount(t.Q, 1, 0)
			ch.rejectNext(t.Q)
			ch.WantCount(t.Q2, 1, 0)
			t.wantDead(ch.Get(t.Q2, true).Properties, deadHeaders{deaths: []Death{counted(q, 2), q2}, first: q})
		}},
	}
}

// longChain lets a message die in queues 1 to 5 and looks at each dead letter.
func longChain(t *T) {
	ch := t.Channel()
	q := func(n int) string { return fmt.Sprintf("%s-%d", t.Q, n) }
	for n := 1; n <= 5; n++ {
		ch.Queue(q(n), deadTo("", q(n+1))...)
	}
	ch.Queue(q(6))
	ch.Publish("", q(1), "a")
	var want []Death
	for n := 1; n <= 5; n++ {
		ch.WantCount(q(n), 1, 0)
		ch.rejectNext(q(n))
		ch.WantCount(q(n+1), 1, 0)
		got := ch.Get(q(n+1), false)
		if !t.Four() {
			slices.Reverse(want)
		}
		d := Death{1, "rejected", q(n), "", []string{q(n)}, ""}
		want = append([]Death{d}, want...)
		first := Death{1, "rejected", q(1), "", nil, ""}
		t.wantDead(got.Properties, deadHeaders{deaths: want, first: first})
		ch.Send(wire.BasicNack{DeliveryTag: got.Tag, Requeue: true})
	}
}

// counted gives a death with another count.
func counted(d Death, n int64) Death {
	d.Count = n
	return d
}

// deathCycleCases: a message that comes back to a queue it died in is dropped, unless it was rejected on the way.
func deathCycleCases() []Case {
	const source = "rabbitmq: dead lettering, cycles, behaviour 3.4"
	life := []wire.Field{ttl(short)}
	return []Case{
		{ID: "death-cycle/expired", Title: "a message that expired does not come back to its queue; other queues get their copies", Source: source, Class: Extension,
			Run: func(t *T) {
				ch, grave := t.graveyard(life...)
				ch.Bind(t.Q, t.X, "")
				ch.Publish("", t.Q, "a")
				grave.WantBodies("a")
				ch.Publish("", t.Q, "clock") // were a back in the queue, it would die before this one
				grave.WantBodies("clock")
				ch.WantCount(t.Q, 0, 0)
			}},
		{ID: "death-cycle/maxlen", Title: "a message pushed out does not come back to its queue", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(wire.Field{Key: "x-max-length", Value: int32(1)})
			ch.Bind(t.Q, t.X, "")
			ch.Publish("", t.Q, "a", "b")
			grave.WantBodies("a")
			ch.WantGet(t.Q, "b", 0)
		}},
		{ID: "death-cycle/two-queues", Title: "a cycle of two queues ends where it began", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			grave := ch.Conn.Chan(2)
			third := t.Q2 + "-3"
			ch.Queue(third)
			ch.Exchange(t.X, "fanout")
			ch.Bind(third, t.X, "")
			ch.Queue(t.Q, fields(deadTo("", t.Q2), life)...)
			ch.Bind(t.Q, t.X, "")
			ch.Queue(t.Q2, fields(deadTo(t.X), life)...)
			grave.ConsumeNoAck(third, "dead")
			ch.Publish("", t.Q, "a")
			got := grave.Delivery()
			t.wantDead(got.Properties, deadHeaders{deaths: []Death{{1, "expired", t.Q2, "", []string{t.Q2}, ""}, t.died("expired")}})
			ch.WantCount(t.Q, 0, 0)
			ch.WantCount(t.Q2, 0, 0)
		}},
		{ID: "death-cycle/rejected", Title: "a rejected message comes back however often", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, deadTo("")...)
			ch.Consume(t.Q, "c")
			ch.Publish("", t.Q, "a")
			for n := uint64(1); n < 30; n++ {
				ch.WantBodies("a")
				ch.Send(wire.BasicReject{DeliveryTag: n})
			}
			t.wantDead(ch.Delivery().Properties, deadHeaders{deaths: []Death{counted(t.died("rejected"), 29)}})
		}},
		{ID: "death-cycle/retry", Title: "reject, wait in a queue with a TTL, come back: for ever, with counts that rise", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, deadTo("", t.Q2)...)
			ch.Queue(t.Q2, fields(deadTo("", t.Q), []wire.Field{ttl(20 * time.Millisecond)})...)
			ch.Consume(t.Q, "c")
			ch.Publish("", t.Q, "a")
			ch.WantBodies("a")
			waited := Death{1, "expired", t.Q2, "", []string{t.Q2}, ""}
			for n := int64(1); n < 6; n++ {
				ch.Send(wire.BasicReject{DeliveryTag: uint64(n)})
				got := ch.Delivery()
				t.wantDead(got.Properties, deadHeaders{deaths: []Death{counted(waited, n), counted(t.died("rejected"), n)}})
				t.Equal("redelivered", got.Redelivered, false)
			}
		}},
		{ID: "death-cycle/rejected-before", Title: "a rejection before the cycle does not save a message under profile 4; under 3 it does, for the turned entries put it in the cycle",
			Source: source, Class: Extension, Run: rejectedBefore},
		{ID: "death-cycle/publisher", Title: "an x-death of the publisher's counts for the rule under profile 3, not under 4", Source: source + ", 0.11", Class: Extension,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q2)
				ch.Queue(t.Q, deadTo("", t.Q2)...)
				entry := wire.Table{{Key: "count", Value: int64(1)}, {Key: "reason", Value: "expired"}, {Key: "queue", Value: t.Q2},
					{Key: "time", Value: wire.Timestamp(time.Now().Unix())}, {Key: "exchange", Value: ""}, {Key: "routing-keys", Value: wire.Array{t.Q2}}}
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q},
					wire.Properties{Expiration: new("0"), Headers: &wire.Table{{Key: "x-death", Value: wire.Array{entry}}}}, "a")
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Expiration: new("0")}, "b")
				if t.Four() {
					ch.WantCount(t.Q2, 2, 0)
					ch.WantGet(t.Q2, "a", 1)
				} else {
					ch.WantCount(t.Q2, 1, 0)
				}
				ch.WantGet(t.Q2, "b", 0)
			}},
	}
}

// rejectedBefore rejects a message in one queue, then lets it expire in Q and in Q2, which sends it to Q again and to a
// third queue that keeps a copy.
func rejectedBefore(t *T) {
	ch := t.Channel()
	kept, start := t.Q2+"-3", t.Q+"-0"
	ch.Queue(kept)
	ch.Exchange(t.X, "fanout")
	ch.Bind(kept, t.X, "")
	ch.Queue(start, deadTo("", t.Q)...)
	ch.Queue(t.Q, fields(deadTo("", t.Q2), []wire.Field{ttl(50 * time.Millisecond)})...)
	ch.Bind(t.Q, t.X, "")
	ch.Queue(t.Q2, fields(deadTo(t.X), []wire.Field{ttl(50 * time.Millisecond)})...)
	ch.Publish("", start, "a")
	ch.rejectNext(start)
	rejected := Death{1, "rejected", start, "", []string{start}, ""}
	q, q2 := Death{1, "expired", t.Q, "", []string{t.Q}, ""}, Death{1, "expired", t.Q2, "", []string{t.Q2}, ""}
	if t.Four() {
		t.wantDead(ch.AwaitGet(kept).Properties, deadHeaders{deaths: []Death{q2, q, rejected}})
		ch.WantCount(t.Q, 0, 0)
		ch.WantCount(t.Q2, 0, 0)
		ch.WantEmpty(kept)
		return
	}
	for n := int64(1); n < 4; n++ {
		t.wantDead(ch.AwaitGet(kept).Properties, deadHeaders{deaths: []Death{counted(q2, n), rejected, counted(q, n)}, first: rejected})
	}
}

// deadCarbonCopyCases: CC and BCC of a message that dies.
func deadCarbonCopyCases() []Case {
	const source = "rabbitmq: dead lettering, behaviour 3.4, 0.27"
	cc := func(keys ...any) wire.Field { return wire.Field{Key: "CC", Value: wire.Array(keys)} }
	bcc := func(keys ...any) wire.Field { return wire.Field{Key: "BCC", Value: wire.Array(keys)} }
	// scene declares direct exchange X with queues bound by key, cc and bcc, and kills a message with these headers in Q.
	scene := func(t *T, headers wire.Table, key ...string) *Chan {
		ch := t.Channel()
		ch.Exchange(t.X, "direct")
		for _, k := range []string{"key", "cc", "bcc"} {
			ch.Queue(t.Q2 + k)
			ch.Bind(t.Q2+k, t.X, k)
		}
		ch.Exchange(t.X2, "direct")
		ch.Queue(t.Q, deadTo(t.X, key...)...)
		ch.Bind(t.Q, t.X2, "key")
		ch.PublishWith(wire.BasicPublish{Exchange: t.X2, RoutingKey: "key"}, wire.Properties{Headers: &headers}, "a")
		ch.rejectNext(t.Q)
		return ch
	}
	return []Case{
		{ID: "dead-letter/cc", Title: "without a key of the queue's, CC routes the dead letter too; it is listed, and kept", Source: source, Class: Extension,
			Run: func(t *T) {
				ch := scene(t, wire.Table{cc("cc", "elsewhere")})
				for _, k := range []string{"cc", "key"} {
					ch.WantCount(t.Q2+k, 1, 0)
					got := ch.Get(t.Q2+k, true)
					t.Equal("key", got.Key, "key")
					t.wantDead(got.Properties, deadHeaders{deaths: []Death{{1, "rejected", t.Q, t.X2, []string{"key", "cc", "elsewhere"}, ""}},
						rest: wire.Table{cc("cc", "elsewhere")}})
				}
			}},
		{ID: "dead-letter/bcc", Title: "without a key of the queue's, BCC routes the dead letter too; it is neither listed nor kept", Source: source, Class: Extension,
			Run: func(t *T) {
				ch := scene(t, wire.Table{bcc("bcc")})
				for _, k := range []string{"bcc", "key"} {
					ch.WantCount(t.Q2+k, 1, 0)
					got := ch.Get(t.Q2+k, true)
					t.Equal("key", got.Key, "key")
					t.wantDead(got.Properties, deadHeaders{deaths: []Death{{1, "rejected", t.Q, t.X2, []string{"key"}, ""}}})
				}
			}},
		{ID: "dead-letter/cc-given-key", Title: "with a key of the queue's, neither CC nor BCC routes; CC is removed under profile 3, kept under 4", Source: source,
			Class: Extension, Run: func(t *T) {
				ch := scene(t, wire.Table{cc("cc"), bcc("bcc")}, "key")
				ch.WantCount(t.Q2+"key", 1, 0)
				want := deadHeaders{deaths: []Death{{1, "rejected", t.Q, t.X2, []string{"key", "cc"}, ""}}}
				if t.Four() {
					want.rest = wire.Table{cc("cc")}
				}
				t.wantDead(ch.Get(t.Q2+"key", true).Properties, want)
				ch.WantEmpty(t.Q2 + "cc")
				ch.WantEmpty(t.Q2 + "bcc")
			}},
		{ID: "dead-letter/cc-key-then-none", Title: "after a death with a key of the queue's CC does not route the next one either", Source: source, Class: Extension,
			Run: func(t *T) {
				ch, last := t.Channel(), t.Q2+"-3"
				ch.Queue(last)
				ch.Exchange(t.X2, "direct")
				ch.Bind(last, t.X2, "cc")
				ch.Bind(last, t.X2, "marker")
				ch.Queue(t.Q2, deadTo(t.X2)...)
				ch.Queue(t.Q, deadTo("", t.Q2)...)
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Headers: &wire.Table{cc("cc")}}, "a")
				ch.rejectNext(t.Q)
				ch.WantCount(t.Q2, 1, 0)
				ch.rejectNext(t.Q2)
				ch.WantEmpty(t.Q2)
				ch.Publish(t.X2, "marker", "marker")
				ch.WantGet(last, "marker", 0)
			}},
		{ID: "dead-letter/cc-none-twice", Title: "CC routes every death of a message, as long as no queue gives a key", Source: source, Class: Extension, Run: func(t *T) {
			ch, last := t.Channel(), t.Q2+"-3"
			ch.Queue(last)
			ch.Exchange(t.X2, "direct")
			ch.Bind(last, t.X2, "cc")
			ch.Exchange(t.X, "fanout")
			ch.Queue(t.Q2, deadTo(t.X2)...)
			ch.Bind(t.Q2, t.X, "")
			ch.Queue(t.Q, deadTo(t.X)...)
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Headers: &wire.Table{cc("cc")}}, "a")
			ch.rejectNext(t.Q)
			ch.WantCount(t.Q2, 1, 0)
			ch.rejectNext(t.Q2)
			ch.WantCount(last, 1, 0)
			keys := []string{t.Q, "cc"}
			t.wantDead(ch.Get(last, true).Properties, deadHeaders{rest: wire.Table{cc("cc")},
				deaths: []Death{{1, "rejected", t.Q2, t.X, keys, ""}, {1, "rejected", t.Q, "", keys, ""}}})
		}},
	}
}
