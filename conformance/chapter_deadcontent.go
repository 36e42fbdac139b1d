package conformance

import (
	"slices"
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// deadContentCases: what a dead letter keeps and what it loses.
func deadContentCases() []Case {
	const source = "rabbitmq: dead lettering, behaviour 3.4"
	return []Case{
		{ID: "dead-letter/properties", Title: "every property but expiration and headers is kept, and the body", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard()
			p := fullProperties()
			p.UserID = &t.User
			body := string(make([]byte, 300_000))
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, p, body)
			ch.rejectNext(t.Q)
			got := grave.Delivery()
			d := t.died("rejected")
			d.Expiration = *p.Expiration
			t.wantDead(got.Properties, deadHeaders{deaths: []Death{d}, rest: *p.Headers})
			p.Headers, p.Expiration = nil, nil
			t.exactly(withoutHeaders(got.Properties), p)
			if got.Body != body {
				t.Fatalf("the body came back otherwise, %d bytes", len(got.Body))
			}
		}},
		{ID: "dead-letter/no-properties", Title: "a message without properties gets headers and nothing else", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard()
			ch.Publish("", t.Q, "")
			ch.rejectNext(t.Q)
			got := grave.Delivery()
			t.wantDead(got.Properties, deadHeaders{deaths: []Death{t.died("rejected")}})
			t.exactly(withoutHeaders(got.Properties), wire.Properties{})
			t.Equal("body", got.Body, "")
		}},
		{ID: "dead-letter/expires-once", Title: "the dead letter has no expiration left, so it stays where it went", Source: source + ", 3.1", Class: Extension,
			Run: func(t *T) {
				ch := t.Channel()
				other := t.Q2 + "-3"
				ch.Queue(other)
				ch.Queue(t.Q2, deadTo("", other)...)
				ch.Queue(t.Q, deadTo("", t.Q2)...)
				ch.ConsumeNoAck(other, "dead")
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Expiration: new("50")}, "stays")
				ch.WantCount(t.Q2, 1, 0)
				// Were it to expire again, it would before this one, which is published later to the same queue.
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Expiration: new("200")}, "clock")
				ch.WantCount(t.Q2, 2, 0)
				ch.WantGet(t.Q2, "stays", 1)
			}},
		{ID: "dead-letter/ttl-of-new-queue", Title: "the new queue's x-message-ttl applies to it", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			last := t.Q2 + "-3"
			ch.Queue(last)
			ch.Queue(t.Q2, fields(deadTo("", last), []wire.Field{ttl(short)})...)
			ch.Queue(t.Q, deadTo("", t.Q2)...)
			ch.ConsumeNoAck(last, "dead")
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Expiration: new("0")}, "a")
			got := ch.Delivery()
			first := t.died("expired")
			first.Expiration = "0"
			t.wantDead(got.Properties, deadHeaders{deaths: []Death{{1, "expired", t.Q2, "", []string{t.Q2}, ""}, first}})
		}},
		{ID: "dead-letter/priority-of-new-queue", Title: "the new queue orders by the message's priority", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q2, wire.Field{Key: "x-max-priority", Value: int32(5)})
			ch.Queue(t.Q, deadTo("", t.Q2)...)
			ch.publishPriorities(t.Q, 1, 4, -1, 3)
			for range 4 {
				ch.Get(t.Q, false)
			}
			ch.Send(wire.BasicNack{Multiple: true})
			ch.WantCount(t.Q2, 4, 0)
			ch.wantOrder(t.Q2, "bdac")
		}},
	}
}

// deadHeaderCases: the publisher's headers on a dead letter.
func deadHeaderCases() []Case {
	const source = "rabbitmq: dead lettering, behaviour 3.4"
	// buried publishes a message with these headers, rejects it, and gives its dead letter.
	buried := func(t *T, headers wire.Table) Delivery {
		ch, grave := t.graveyard()
		ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Headers: &headers}, "a")
		ch.rejectNext(t.Q)
		return grave.Delivery()
	}
	// entry is an x-death entry of the publisher's making.
	entry := func(queue string) wire.Table {
		return wire.Table{{Key: "count", Value: int64(7)}, {Key: "reason", Value: "rejected"}, {Key: "queue", Value: queue},
			{Key: "time", Value: wire.Timestamp(time.Now().Unix() - 30)}, {Key: "exchange", Value: "ex"}, {Key: "routing-keys", Value: wire.Array{"k"}}}
	}
	// bare demands x-death as given and no other header but those of rest, under profile 3.
	bare := func(t *T, headers wire.Table, want []Death, rest wire.Table) {
		got, _ := t.deaths(headers)
		t.Equal("x-death", got, want)
		t.Equal("headers beside x-death", slices.DeleteFunc(headers, func(f wire.Field) bool { return f.Key == "x-death" }), rest)
	}
	return []Case{
		{ID: "dead-letter/headers-kept", Title: "the publisher's headers are kept, every type of them", Source: source, Class: Extension, Run: func(t *T) {
			p := buried(t, fieldSamples()).Properties
			t.wantDead(p, deadHeaders{deaths: []Death{t.died("rejected")}, rest: fieldSamples()})
		}},
		{ID: "dead-letter/headers-empty", Title: "an empty headers table is filled", Source: source, Class: Extension, Run: func(t *T) {
			t.wantDead(buried(t, wire.Table{}).Properties, deadHeaders{deaths: []Death{t.died("rejected")}})
		}},
		{ID: "dead-letter/headers-not-array", Title: "an x-death of the publisher's that is no array is replaced; under profile 3 there are no x-first-death headers then",
			Source: "behaviour 0.11", Class: Extension, Run: func(t *T) {
				rest := wire.Table{{Key: "h", Value: "v"}}
				p := buried(t, append(wire.Table{{Key: "x-death", Value: "mine"}}, rest...)).Properties
				if t.Four() {
					t.wantDead(p, deadHeaders{deaths: []Death{t.died("rejected")}, rest: rest})
					return
				}
				bare(t, *p.Headers, []Death{t.died("rejected")}, rest)
			}},
		{ID: "dead-letter/headers-own-death", Title: "an x-death of the publisher's: continued under profile 3 without x-first-death headers, replaced under 4",
			Source: "behaviour 0.11", Class: Extension, Run: func(t *T) {
				p := buried(t, wire.Table{{Key: "x-death", Value: wire.Array{entry("elsewhere")}}}).Properties
				if t.Four() {
					t.wantDead(p, deadHeaders{deaths: []Death{t.died("rejected")}})
					return
				}
				bare(t, *p.Headers, []Death{t.died("rejected"), {7, "rejected", "elsewhere", "ex", []string{"k"}, ""}}, nil)
			}},
		{ID: "dead-letter/headers-own-same-death", Title: "an x-death of the publisher's for this queue and reason: counted on under profile 3, replaced under 4",
			Source: "behaviour 0.11", Class: Extension, Run: func(t *T) {
				p := buried(t, wire.Table{{Key: "x-death", Value: wire.Array{entry("elsewhere"), entry(t.Q)}}}).Properties
				if t.Four() {
					t.wantDead(p, deadHeaders{deaths: []Death{t.died("rejected")}})
					return
				}
				bare(t, *p.Headers, []Death{{8, "rejected", t.Q, "ex", []string{"k"}, ""}, {7, "rejected", "elsewhere", "ex", []string{"k"}, ""}}, nil)
			}},
		{ID: "dead-letter/headers-own-first", Title: "x-first-death headers of the publisher's are overwritten, x-last-death headers under profile 4 only", Source: source,
			Class: Extension, Run: func(t *T) {
				headers := wire.Table{{Key: "x-first-death-exchange", Value: "mine"}, {Key: "x-first-death-queue", Value: int32(1)},
					{Key: "x-first-death-reason", Value: "mine"}}
				last := wire.Table{{Key: "x-last-death-exchange", Value: "mine"}, {Key: "x-last-death-queue", Value: int32(1)},
					{Key: "x-last-death-reason", Value: "mine"}}
				want := deadHeaders{deaths: []Death{t.died("rejected")}}
				if !t.Four() {
					want.rest = last
				}
				t.wantDead(buried(t, append(headers, last...)).Properties, want)
			}},
	}
}

// deadRedeliveredCases: the redelivered flag of a dead letter. RabbitMQ 4 keeps it from the queue of the death when
// the message was rejected and then had to wait in its new queue, and forgets it when a consumer takes it at once.
func deadRedeliveredCases() []Case {
	deaths := map[string]struct {
		arguments []wire.Field
		die       func(t *T, ch *Chan)
	}{
		"rejected": {nil, func(t *T, ch *Chan) {
			ch.Publish("", t.Q, "a")
			ch.rejectNext(t.Q)
		}},
		"expired": {[]wire.Field{ttl(lease)}, func(t *T, ch *Chan) {
			ch.Publish("", t.Q, "a")
			ch.Send(wire.BasicNack{DeliveryTag: ch.Get(t.Q, false).Tag, Requeue: true})
		}},
		"maxlen": {[]wire.Field{{Key: "x-max-length", Value: int32(1)}}, func(t *T, ch *Chan) {
			ch.Publish("", t.Q, "a")
			ch.Send(wire.BasicNack{DeliveryTag: ch.Get(t.Q, false).Tag, Requeue: true})
			ch.WantCount(t.Q, 1, 0)
			ch.Publish("", t.Q, "b")
		}},
	}
	var cases []Case
	for _, reason := range []string{"rejected", "expired", "maxlen"} {
		d := deaths[reason]
		cases = append(cases,
			Case{ID: "dead-letter/redelivered-waiting-" + reason, Title: "delivered, then " + reason + ": a waiting consumer gets it as not redelivered",
				Source: "behaviour 0.26", Class: Extension, Run: func(t *T) {
					ch, grave := t.graveyard(d.arguments...)
					d.die(t, ch)
					t.Equal("redelivered", grave.Delivery().Redelivered, false)
				}},
			Case{ID: "dead-letter/redelivered-stored-" + reason, Title: "delivered, then " + reason + ": redelivered from its new queue only when rejected, under profile 4",
				Source: "behaviour 0.26", Class: Extension, Run: func(t *T) {
					ch := t.Channel()
					ch.Queue(t.Q2)
					ch.Queue(t.Q, fields(deadTo("", t.Q2), d.arguments)...)
					d.die(t, ch)
					ch.WantCount(t.Q2, 1, 0)
					t.Equal("redelivered", ch.Get(t.Q2, true).Redelivered, t.Four() && reason == "rejected")
				}})
	}
	return cases
}
