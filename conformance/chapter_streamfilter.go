package conformance

import (
	"fmt"
	"strings"

	"github.com/warrenmq/warren/conformance/wire"
)

// filter is the argument by which a consumer filters.
func filter(v any) wire.Field { return wire.Field{Key: "x-stream-filter", Value: v} }

// unfiltered is the argument that lets a filtering consumer have messages without a filter value.
func unfiltered(v any) wire.Field {
	return wire.Field{Key: "x-stream-match-unfiltered", Value: v}
}

// filterable opens a channel with a stream in which each message has a chunk of its own and a filter value of its body's
// first letter; a dash means none.
func (t *T) filterable(bodies ...string) *Chan {
	ch := t.streamOf()
	for i, b := range bodies {
		var p wire.Properties
		if b[0] != '-' {
			p.Headers = &wire.Table{{Key: "x-stream-filter-value", Value: b[:1]}}
		}
		ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, p, b)
		ch.WantConfirms(uint64(i+1), uint64(i+1))
	}
	return ch
}

// streamFilterCases: filters, and retention.
func streamFilterCases() []Case {
	const source = streamSource + " (filters: 3.13 and later)"
	finds := func(id, title string, want string, arguments ...wire.Field) Case {
		return Case{ID: "stream-filter/" + id, Title: title, Source: source, Class: Extension, Profiles: []int{Profile4}, Run: func(t *T) {
			ch := t.filterable("a1", "b1", "-1", "c1", "a2", "-2", "end")
			ch.Prefetch(100)
			ch.Consume(t.Q, "c", append(arguments, offset("first"))...)
			ch.WantBodies(strings.Fields(want)...)
			ch.Quiet()
		}}
	}
	array := func(v ...any) wire.Array { return v }
	return append([]Case{
		finds("one", "a string", "a1 a2", filter("a")),
		finds("several", "an array of strings", "a1 c1 a2", filter(array("a", "c"))),
		finds("unfiltered", "x-stream-match-unfiltered lets in messages without a value", "a1 -1 a2 -2", filter("a"), unfiltered(true)),
		finds("unfiltered-false", "x-stream-match-unfiltered false", "a1 a2", filter("a"), unfiltered(false)),
		finds("unfiltered-alone", "x-stream-match-unfiltered without a filter does nothing", "a1 b1 -1 c1 a2 -2 end", unfiltered(true)),
		finds("unfiltered-type", "x-stream-match-unfiltered of another type counts as false", "a1 a2", filter("a"), unfiltered("yes")),
		finds("empty", "the empty string stands for messages without a value", "-1 -2", filter("")),
		finds("other-type", "a filter of another type counts as none", "a1 b1 -1 c1 a2 -2 end", filter(true)),
		finds("other-element", "elements that are no strings are passed over", "b1", filter(array("b", int32(3)))),
		{ID: "stream-filter/goes-on", Title: "the filter holds for what comes later", Source: source, Class: Extension, Profiles: []int{Profile4}, Run: func(t *T) {
			ch := t.filterable("a1", "b1")
			r := ch.Conn.Chan(2)
			r.Prefetch(1)
			r.Consume(t.Q, "c", filter("a"), offset("next"))
			for i, b := range []string{"b", "a", "b", "a"} {
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Headers: &wire.Table{{Key: "x-stream-filter-value", Value: b}}}, fmt.Sprint(b, i))
				ch.WantConfirms(uint64(i+3), uint64(i+3))
			}
			r.streamHas("a1")
			r.Send(wire.BasicAck{DeliveryTag: 1})
			r.streamHas("a3")
		}},
		{ID: "stream-filter/value-type", Title: "a filter value that is not a string", Source: source, Class: Extension, Profiles: []int{Profile4},
			Difference: "stream-filter-value", Run: func(t *T) {
				ch := t.streamOf()
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Headers: &wire.Table{{Key: "x-stream-filter-value", Value: int32(7)}}}, "m")
				if !t.Differs() {
					ch.WantClosing(hard(541, nil, ""))
					return
				}
				ch.WantConfirms(1, 1)
				ch.Prefetch(10)
				ch.Consume(t.Q, "c", filter(""), offset("first"))
				ch.streamHas("m")
			}},
		{ID: "stream-filter/unknown", Title: "3.10.8 knows no filters", Source: source, Class: Extension, Profiles: []int{Profile3}, Run: func(t *T) {
			ch := t.filterable("a1", "b1", "-1")
			ch.Prefetch(100)
			ch.Consume(t.Q, "c", filter("a"), offset("first"))
			ch.wantFrom(0, "a1", "b1", "-1")
		}},
	}, append(filterRefusals(source), retentionCases()...)...)
}

// streamHas demands a delivery by its body.
func (ch *Chan) streamHas(body string) { ch.t.Equal("body", ch.Delivery().Body, body) }

func filterRefusals(source string) []Case {
	cases := refusals(Extension, []refusal{
		{"stream-filter/no-strings", "an array without a string", source, func(t *T, ch *Chan) {
			ch.streamQueue(t.Q)
			ch.Prefetch(10)
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", Arguments: wire.Table{filter(wire.Array{int32(3)})}})
		}, hard(541, nil, ""), closing{}},
		{"stream-filter/empty-array", "an empty array", source, func(t *T, ch *Chan) {
			ch.streamQueue(t.Q)
			ch.Prefetch(10)
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", Arguments: wire.Table{filter(wire.Array{})}})
		}, hard(541, nil, ""), closing{}},
	})
	for i := range cases {
		cases[i].Profiles = []int{Profile4}
	}
	return cases
}

// retentionCases: whole segments go, the newest never. RabbitMQ gives some offsets to entries of its own, so only the
// order of what is left is demanded.
func retentionCases() []Case {
	fill := func(t *T, ch *Chan, n int) {
		for i := range n {
			ch.Publish("", t.Q, fmt.Sprintf("%02d%s", i, strings.Repeat(".", 100)))
			ch.WantConfirms(uint64(i+1), uint64(i+1))
		}
	}
	// oldest reads the stream from its beginning and gives the number of the first message, after checking that the others
	// follow without a gap.
	oldest := func(t *T, n int) (first int) {
		ch := t.Channel()
		ch.Prefetch(1000)
		ch.Consume(t.Q, "c", offset(int64(0)))
		last := ch.Delivery()
		if _, err := fmt.Sscanf(last.Body, "%02d", &first); err != nil {
			t.Fatalf("body %q", last.Body)
		}
		for i := first + 1; i < n; i++ {
			next := ch.Delivery()
			t.Equal("body", next.Body[:2], fmt.Sprintf("%02d", i))
			if a, b := last.streamOffset().(int64), next.streamOffset().(int64); b <= a {
				t.Fatalf("offset %d after %d", b, a)
			}
			last = next
		}
		return first
	}
	segments := wire.Field{Key: "x-stream-max-segment-size-bytes", Value: int64(500)}
	const source = streamSource + ": retention, documentation of streams"
	return []Case{
		{ID: "stream-retention/bytes", Title: "x-max-length-bytes: the oldest segments go; a lost offset means the oldest there is", Source: source, Class: Timing, Run: func(t *T) {
			ch := t.Channel()
			ch.streamQueue(t.Q, segments, maxBytes(2000))
			ch.Confirm()
			fill(t, ch, 40)
			ch.awaitMessages(t.Q, func(n uint32) bool { return n > 0 && n < 30 })
			if first := oldest(t, 40); first < 10 || first > 38 {
				t.Fatalf("the oldest of 40 messages is %d", first)
			}
		}},
		{ID: "stream-retention/none", Title: "without limits segments stay", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.streamQueue(t.Q, segments)
			ch.Confirm()
			fill(t, ch, 20)
			t.Equal("oldest", oldest(t, 20), 0)
		}},
		{ID: "stream-retention/age-young", Title: "x-max-age keeps what is younger", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.streamQueue(t.Q, segments, wire.Field{Key: "x-max-age", Value: "1h"})
			ch.Confirm()
			fill(t, ch, 20)
			t.Equal("oldest", oldest(t, 20), 0)
		}},
	}
}
