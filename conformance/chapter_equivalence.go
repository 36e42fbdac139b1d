package conformance

import (
	"fmt"
	"slices"

	"github.com/warrenmq/warren/conformance/wire"
)

// equivalenceRow is a queue declared with some arguments, then declared again with others.
type equivalenceRow struct {
	id           string
	first, again wire.Table
	text         string // after "inequivalent arg "; "" when the two are equivalent
	text4        string // under profile 4, when it differs; "-" for equivalent
}

func equivalenceCases() []Case {
	var cases []Case
	for _, r := range slices.Concat(argumentPresenceRows(), argumentValueRows(), argumentTypeRows()) {
		cases = append(cases, Case{ID: "queue-equivalence/" + r.id, Title: "redeclared: " + r.id, Source: "behaviour 2.3", Class: Extension, Run: func(t *T) {
			text := r.text
			if t.Four() && r.text4 != "" {
				text = r.text4
			}
			ch := t.Channel()
			ch.Queue(t.Q, r.first...)
			ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Arguments: r.again})
			if text == "" || text == "-" {
				ch.Want(wire.QueueDeclareOk{Queue: t.Q})
				return
			}
			ch.WantClosing(soft(406, wire.QueueDeclare{}, "inequivalent arg "+text))
			ch.Queue(t.Q, r.first...) // nothing has changed
		}})
	}
	return append(cases, equivalenceOrderCases()...)
}

// current is the text that received a value while there is another.
func current(name, received, value string) string {
	return "'" + name + "' for {q}: received '" + received + "' but current is '" + value + "'"
}

// removed and added are the texts when only one side has the argument.
func removed(name, value, kind string) string {
	return "'" + name + "' for {q}: received none but current is the value '" + value + "' of type '" + kind + "'"
}

func added(name, value, kind string) string {
	return "'" + name + "' for {q}: received the value '" + value + "' of type '" + kind + "' but current is none"
}

// argumentPresenceRows: every argument of a classic queue, added, taken away and changed.
func argumentPresenceRows() []equivalenceRow {
	var rows []equivalenceRow
	for _, a := range []struct {
		name       string
		one, two   any
		sone, stwo string
		kind       string
	}{
		{"x-message-ttl", int32(100_000), int32(200_000), "100000", "200000", "signedint"},
		{"x-expires", int64(100_000), int64(200_000), "100000", "200000", "long"},
		{"x-max-length", uint8(1), uint8(2), "1", "2", "unsignedbyte"},
		{"x-max-length-bytes", int16(1), int16(2), "1", "2", "short"},
		{"x-max-priority", int8(1), int8(2), "1", "2", "byte"},
		{"x-overflow", "drop-head", "reject-publish", "drop-head", "reject-publish", "longstr"},
		{"x-dead-letter-exchange", "a", "", "a", "", "longstr"},
		{"x-single-active-consumer", true, false, "true", "false", "bool"},
		{"x-queue-mode", "default", "lazy", "default", "lazy", "longstr"},
	} {
		one, two := arg(a.name, a.one), arg(a.name, a.two)
		rows = append(rows,
			equivalenceRow{a.name + "-same", one, one, "", ""},
			equivalenceRow{a.name + "-removed", one, nil, removed(a.name, a.sone, a.kind), ""},
			equivalenceRow{a.name + "-added", nil, two, added(a.name, a.stwo, a.kind), ""},
			equivalenceRow{a.name + "-changed", one, two, current(a.name, a.stwo, a.sone), ""})
	}
	dlx := wire.Field{Key: "x-dead-letter-exchange", Value: "x"}
	key := wire.Field{Key: "x-dead-letter-routing-key", Value: "k"}
	return append(rows,
		equivalenceRow{"x-dead-letter-routing-key-removed", wire.Table{dlx, key}, wire.Table{dlx}, removed(key.Key, "k", "longstr"), ""},
		equivalenceRow{"x-dead-letter-routing-key-added", wire.Table{dlx}, wire.Table{dlx, key}, added(key.Key, "k", "longstr"), ""},
		equivalenceRow{"x-dead-letter-routing-key-changed", wire.Table{dlx, key}, wire.Table{dlx, {Key: key.Key, Value: "l"}}, current(key.Key, "l", "k"), ""},
		equivalenceRow{"x-queue-version-added", nil, arg("x-queue-version", int32(2)), added("x-queue-version", "2", "signedint"), ""},
		equivalenceRow{"unknown", arg("foo", int32(1)), wire.Table{{Key: "foo", Value: "x"}, {Key: "bar", Value: true}}, "", ""},
		equivalenceRow{"foreign", nil, wire.Table{{Key: "x-max-age", Value: "5s"}, {Key: "x-delivery-limit", Value: int32(1)}}, "", ""},
		equivalenceRow{"duplicate", arg("x-max-length", int32(1)), wire.Table{{Key: "x-max-length", Value: int32(1)}, {Key: "x-max-length", Value: int32(2)}}, "", ""},
		equivalenceRow{"any-order", wire.Table{dlx, key}, wire.Table{key, dlx}, "", ""})
}

// argumentValueRows: which values are the same, and how others are printed.
func argumentValueRows() []equivalenceRow {
	const name = "x-max-length"
	var rows []equivalenceRow
	for _, v := range integers(5) {
		rows = append(rows,
			equivalenceRow{fmt.Sprintf("integer-%T", v), arg(name, int32(5)), arg(name, v), "", ""},
			equivalenceRow{fmt.Sprintf("integer-%T-changed", v), arg(name, int32(6)), arg(name, v), current(name, "5", "6"), ""})
	}
	for _, r := range []struct {
		id    string
		value any
		text  string
	}{
		{"timestamp", wire.Timestamp(5), ""}, // a timestamp counts as an integer here
		{"timestamp-changed", wire.Timestamp(6), "6"},
		{"double", 5.0, "5.0"}, {"double-fraction", 0.5, "0.5"}, {"float", float32(0.5), "0.5"},
		{"longstr", "5", "5"}, {"longstr-utf8", "łé", "łé"}, {"bytes", wire.Bytes("x"), "x"},
		{"bool", true, "true"}, {"table-empty", wire.Table{}, "[]"},
		{"table", wire.Table{{Key: "a", Value: int32(1)}, {Key: "b", Value: "x"}}, `[{<<"a">>,signedint,1},{<<"b">>,longstr,<<"x">>}]`},
		{"array", wire.Array{int32(1), "x"}, `[{signedint,1},{longstr,<<"x">>}]`},
	} {
		text := ""
		if r.text != "" {
			text = current(name, r.text, "5")
		}
		rows = append(rows, equivalenceRow{"value-" + r.id, arg(name, int32(5)), arg(name, r.value), text, ""})
	}
	rows = append(rows, equivalenceRow{"value-void", arg(name, int32(5)), arg(name, wire.Void{}), "'" + name + "' for {q}: received none but current is '5'", ""})
	return append(rows,
		equivalenceRow{"value-void-added", nil, arg(name, wire.Void{}), added(name, "undefined", "void"), ""},
		equivalenceRow{"value-double-added", nil, arg(name, 5.0), added(name, "5.0", "double"), ""},
		equivalenceRow{"value-bytes-same", arg("x-overflow", "drop-head"), arg("x-overflow", wire.Bytes("drop-head")), "", ""},
		equivalenceRow{"value-bad", arg("x-overflow", "drop-head"), arg("x-overflow", "bogus"), current("x-overflow", "bogus", "drop-head"), ""})
}

// argumentTypeRows: x-queue-type, and the order in which differences are reported.
func argumentTypeRows() []equivalenceRow {
	const name = "x-queue-type"
	classic := arg(name, "classic")
	return []equivalenceRow{
		{"type-none-classic", nil, classic, "", ""},
		{"type-classic-none", classic, nil, "", ""},
		{"type-quorum", nil, arg(name, "quorum"), added(name, "quorum", "longstr"), current(name, "quorum", "classic")},
		{"type-stream", nil, arg(name, "stream"), added(name, "stream", "longstr"), current(name, "stream", "classic")},
		{"type-bogus", nil, arg(name, "bogus"), added(name, "bogus", "longstr"), current(name, "bogus", "classic")},
		{"type-number", nil, arg(name, int32(1)), added(name, "1", "signedint"), current(name, "1", "classic")},
		{"type-classic-quorum", classic, arg(name, "quorum"), current(name, "quorum", "classic"), ""},
		{"order-expires-ttl", nil, wire.Table{{Key: "x-message-ttl", Value: int32(1)}, {Key: "x-expires", Value: int32(1)}}, added("x-expires", "1", "signedint"), ""},
		{"order-ttl-dlx", nil, wire.Table{{Key: "x-dead-letter-exchange", Value: "x"}, {Key: "x-message-ttl", Value: int32(1)}}, added("x-message-ttl", "1", "signedint"), ""},
		{"order-dlx-length", nil, wire.Table{{Key: "x-max-length", Value: int32(1)}, {Key: "x-dead-letter-exchange", Value: "x"}}, added("x-dead-letter-exchange", "x", "longstr"), ""},
		{"order-length-priority", nil, wire.Table{{Key: "x-max-priority", Value: int32(1)}, {Key: "x-max-length", Value: int32(1)}}, added("x-max-length", "1", "signedint"), ""},
		{"order-priority-overflow", nil, wire.Table{{Key: "x-overflow", Value: "drop-head"}, {Key: "x-max-priority", Value: int32(1)}}, added("x-max-priority", "1", "signedint"), ""},
		{"order-overflow-single", nil, wire.Table{{Key: "x-single-active-consumer", Value: true}, {Key: "x-overflow", Value: "drop-head"}},
			added("x-overflow", "drop-head", "longstr"), ""},
	}
}

// equivalenceOrderCases: exclusivity, durable, auto-delete, arguments.
func equivalenceOrderCases() []Case {
	const source = "behaviour 2.3"
	limited := arg("x-max-length", int32(1))
	again := func(first, second wire.QueueDeclare) func(*T, *Chan) {
		return func(t *T, ch *Chan) {
			first.Queue, second.Queue = t.Q, t.Q
			ch.DeclareQueue(first)
			ch.Send(second)
		}
	}
	rows := []refusal{
		{"queue-equivalence/exclusive-first", "exclusivity is looked at before everything else", source,
			again(wire.QueueDeclare{}, wire.QueueDeclare{Durable: true, Exclusive: true, AutoDelete: true, Arguments: limited}),
			soft(405, wire.QueueDeclare{}, lockedText), closing{}},
		{"queue-equivalence/owner-first", "so is the owner", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			other := t.Channel()
			other.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Durable: true, Arguments: limited})
			other.WantClosing(soft(405, wire.QueueDeclare{}, lockedText))
			ch.Send(wire.QueueDeclare{Queue: t.Q, Durable: true, AutoDelete: true, Arguments: limited})
		}, soft(405, wire.QueueDeclare{}, lockedText), closing{}},
		{"queue-equivalence/exclusive-auto-delete", "auto-delete counts on exclusive queues", source,
			again(wire.QueueDeclare{Exclusive: true}, wire.QueueDeclare{Exclusive: true, AutoDelete: true, Arguments: limited}),
			soft(406, wire.QueueDeclare{}, "inequivalent arg 'auto_delete' for {q}: received 'true' but current is 'false'"), closing{}},
		{"queue-equivalence/nowait", "a difference with nowait", source,
			again(wire.QueueDeclare{}, wire.QueueDeclare{NoWait: true, Arguments: limited}),
			soft(406, wire.QueueDeclare{}, "inequivalent arg "+added("x-max-length", "1", "signedint")), closing{}},
		{"queue-equivalence/other-connection", "differences count across connections", source, func(t *T, ch *Chan) {
			t.Channel().DeclareQueue(wire.QueueDeclare{Queue: t.Q, Arguments: limited})
			ch.Send(wire.QueueDeclare{Queue: t.Q})
		}, soft(406, wire.QueueDeclare{}, "inequivalent arg "+removed("x-max-length", "1", "signedint")), closing{}},
	}
	return append(refusals(Extension, rows),
		Case{ID: "queue-equivalence/in-use", Title: "an equal declare of a queue in use counts its messages and consumers", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, limited...)
			ch.Prefetch(1)
			ch.Consume(t.Q, "c")
			ch.Publish("", t.Q, "a", "b")
			ch.WantBodies("a")
			ch.WantCount(t.Q, 1, 1)
			ch.Call(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Arguments: limited}, wire.QueueDeclareOk{Queue: t.Q, MessageCount: 1, ConsumerCount: 1})
		}})
}
