package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// deadMessage is a get-ok of a dead letter, with the headers changed by a fault.
func deadMessage(fault func(headers, entry *wire.Table)) scripted {
	entry := wire.Table{{Key: "count", Value: int64(1)}, {Key: "reason", Value: "rejected"}, {Key: "queue", Value: "q"},
		{Key: "time", Value: wire.Timestamp(time.Now().Unix())}, {Key: "exchange", Value: ""}, {Key: "routing-keys", Value: wire.Array{"q"}}}
	headers := wire.Table{{Key: "x-first-death-reason", Value: "rejected"}, {Key: "x-first-death-queue", Value: "q"},
		{Key: "x-first-death-exchange", Value: ""}, {Key: "h", Value: int32(1)}}
	fault(&headers, &entry)
	headers = append(headers, wire.Field{Key: "x-death", Value: wire.Array{entry}})
	return answers(message(wire.Properties{Headers: &headers}, 1, "a")...)
}

// TestJudgeSeesBadDeaths gives dead letters with one fault each.
func TestJudgeSeesBadDeaths(t *testing.T) {
	set := func(table *wire.Table, key string, value any) {
		i := slices.IndexFunc(*table, func(f wire.Field) bool { return f.Key == key })
		(*table)[i].Value = value
	}
	without := func(table *wire.Table, key string) {
		*table = slices.DeleteFunc(*table, func(f wire.Field) bool { return f.Key == key })
	}
	for _, c := range []struct {
		name  string
		fault func(headers, entry *wire.Table)
		want  string // in the failure; "" when there must be none
	}{
		{"honest", func(h, e *wire.Table) {}, ""},
		{"honest in another order", func(h, e *wire.Table) { slices.Reverse(*h); slices.Reverse(*e) }, ""},
		{"count of another type", func(h, e *wire.Table) { set(e, "count", int32(1)) }, `"count" of int32`},
		{"wrong count", func(h, e *wire.Table) { set(e, "count", int64(2)) }, "Count"},
		{"wrong reason", func(h, e *wire.Table) { set(e, "reason", "expired") }, "Reason"},
		{"wrong keys", func(h, e *wire.Table) { set(e, "routing-keys", wire.Array{}) }, "Keys"},
		{"time in milliseconds", func(h, e *wire.Table) { set(e, "time", wire.Timestamp(time.Now().UnixMilli())) }, "a death at"},
		{"key missing", func(h, e *wire.Table) { without(e, "time") }, `without "time"`},
		{"key too many", func(h, e *wire.Table) { *e = append(*e, wire.Field{Key: "node", Value: "n"}) }, `"node"`},
		{"key twice", func(h, e *wire.Table) { *e = append(*e, (*e)[0]) }, `"count"`},
		{"expiration invented", func(h, e *wire.Table) { *e = append(*e, wire.Field{Key: "original-expiration", Value: "5"}) }, "Expiration"},
		{"first death missing", func(h, e *wire.Table) { without(h, "x-first-death-queue") }, "x-first-death-queue"},
		{"first death wrong", func(h, e *wire.Table) { set(h, "x-first-death-queue", "p") }, "x-first-death-queue"},
		{"last death under profile 3", func(h, e *wire.Table) { *h = append(*h, wire.Field{Key: "x-last-death-queue", Value: "q"}) }, "x-last-death-queue"},
		{"header lost", func(h, e *wire.Table) { without(h, "h") }, `"h"`},
		{"header changed", func(h, e *wire.Table) { set(h, "h", int64(1)) }, `"h"`},
		{"header twice", func(h, e *wire.Table) { *h = append(*h, (*h)[3]) }, `"h" comes twice`},
	} {
		t.Run(c.name, func(t *testing.T) {
			failures := Run(deadMessage(c.fault).serve(t), Case{ID: "judge", Run: func(t *T) {
				t.wantDead(t.Channel().Get("q", true).Properties, deadHeaders{deaths: []Death{{1, "rejected", "q", "", []string{"q"}, ""}},
					rest: wire.Table{{Key: "h", Value: int32(1)}}})
			}}).Failures
			wantFailure(t, failures, c.want)
		})
	}
}

// wantFailure demands a failure with a text in it, or none.
func wantFailure(t *testing.T, failures []string, want string) {
	t.Helper()
	got := strings.Join(failures, "\n")
	if want == "" && got != "" || want != "" && !strings.Contains(got, want) {
		t.Errorf("failures %q, want %q", got, want)
	}
}

// TestJudgeSeesBadSettlement gives confirms with one fault each to WantSettled, where 1 is to be acked, 2 and 3 nacked.
func TestJudgeSeesBadSettlement(t *testing.T) {
	ack := func(tag uint64, multiple bool) wire.Frame {
		return method(1, wire.BasicAck{DeliveryTag: tag, Multiple: multiple})
	}
	nack := func(tag uint64, multiple, requeue bool) wire.Frame {
		return method(1, wire.BasicNack{DeliveryTag: tag, Multiple: multiple, Requeue: requeue})
	}
	for _, c := range []struct {
		name   string
		frames []wire.Frame
		want   string
	}{
		{"one by one", []wire.Frame{ack(1, false), nack(2, false, true), nack(3, false, true)}, ""},
		{"together, in another order", []wire.Frame{nack(2, false, true), ack(1, true), nack(3, true, true)}, ""},
		{"ack for nack", []wire.Frame{ack(1, false), ack(2, false)}, "publish 2: nack is false"},
		{"nack for ack", []wire.Frame{nack(1, false, true)}, "publish 1: nack is true"},
		{"too many nacked", []wire.Frame{nack(3, true, true)}, "publish 1: nack is true"},
		{"no requeue bit", []wire.Frame{ack(1, false), nack(2, false, false)}, "requeue bit"},
		{"twice", []wire.Frame{ack(1, false), ack(1, false)}, "confirm 1 is not due"},
		{"too far", []wire.Frame{ack(4, true)}, "confirm 4 is not due"},
		{"something else", []wire.Frame{method(1, wire.TxCommitOk{})}, "want a confirm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			failures := Run(answers(c.frames...).serve(t), Case{ID: "judge", Run: func(t *T) {
				ch := t.Channel()
				ch.Send(wire.QueuePurge{Queue: "q"}) // which the script answers with the confirms
				ch.WantSettled(3, 2, 3)
			}}).Failures
			wantFailure(t, failures, c.want)
		})
	}
}

// TestJudgeAwaitsMessages: AwaitGet asks until there is a message.
func TestJudgeAwaitsMessages(t *testing.T) {
	asked := 0 // only the script's goroutine uses it
	broker := scripted(func(_ uint16, m wire.Method) []wire.Frame {
		if asked++; asked < 3 {
			return []wire.Frame{method(1, wire.BasicGetEmpty{})}
		}
		return message(wire.Properties{}, 1, "a")
	})
	failures := Run(broker.serve(t), Case{ID: "judge", Run: func(t *T) {
		t.Equal("message", t.Channel().AwaitGet("q"), Got{Tag: 1, Key: "k", Body: "a"})
	}}).Failures
	wantFailure(t, failures, "")
}
