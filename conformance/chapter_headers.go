package conformance

import (
	"fmt"

	"github.com/warrenmq/warren/conformance/wire"
)

// headerRow is a binding's arguments, message headers, and whether they match; four is for profile 4 when it differs.
type headerRow struct {
	id             string
	binding        wire.Table
	headers        *wire.Table // nil: the property is absent
	match          bool
	fourIsOpposite bool
}

func table(pairs ...any) wire.Table {
	t := wire.Table{}
	for i := 0; i < len(pairs); i += 2 {
		t = append(t, wire.Field{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return t
}

func ptr(t wire.Table) *wire.Table { return &t }

// headerRows: x-match is all when absent; arguments named x-... are skipped unless the mode ends in -with-x.
func headerRows() []headerRow {
	a1b2 := table("a", int32(1), "b", int32(2))
	onlyX := table("x-a", int32(1))
	return []headerRow{
		{"all-same", table("a", int32(1), "b", "s"), ptr(table("b", "s", "a", int32(1))), true, false},
		{"all-more-headers", table("a", int32(1)), ptr(a1b2), true, false},
		{"all-one-missing", a1b2, ptr(table("a", int32(1))), false, false},
		{"all-one-differs", a1b2, ptr(table("a", int32(1), "b", int32(3))), false, false},
		{"all-explicit", table("x-match", "all", "a", int32(1)), ptr(table("a", int32(1))), true, false},
		{"all-explicit-missing", table("x-match", "all", "a", int32(1)), ptr(table("b", int32(1))), false, false},
		{"all-empty", table(), ptr(table("a", int32(1))), true, false},
		{"all-empty-no-headers", table(), nil, true, false},
		{"all-no-headers", table("a", int32(1)), nil, false, false},
		{"any-one", table("x-match", "any", "a", int32(1), "b", int32(2)), ptr(table("b", int32(2))), true, false},
		{"any-none", table("x-match", "any", "a", int32(1), "b", int32(2)), ptr(table("a", int32(2), "c", int32(1))), false, false},
		{"any-empty", table("x-match", "any"), ptr(table("a", int32(1))), false, false},
		{"any-no-headers", table("x-match", "any", "a", int32(1)), nil, false, false},
		{"any-only-x", table("x-match", "any", "x-a", int32(1)), ptr(onlyX), false, false},
		{"all-skips-x", table("x-match", "all", "x-a", int32(1), "a", int32(1)), ptr(table("a", int32(1))), true, false},
		{"all-with-x", table("x-match", "all-with-x", "x-a", int32(1), "a", int32(1)), ptr(table("a", int32(1), "x-a", int32(1))), true, false},
		{"all-with-x-missing", table("x-match", "all-with-x", "x-a", int32(1), "a", int32(1)), ptr(table("a", int32(1))), false, false},
		{"any-with-x", table("x-match", "any-with-x", "x-a", int32(1)), ptr(onlyX), true, false},
		{"any-with-x-differs", table("x-match", "any-with-x", "x-a", int32(1)), ptr(table("x-a", int32(2))), false, false},
		{"void-present", table("a", wire.Void{}), ptr(table("a", "anything")), true, false},
		{"void-absent", table("a", wire.Void{}), ptr(table("b", "anything")), false, false},
		{"void-any", table("x-match", "any", "a", wire.Void{}, "b", int32(1)), ptr(table("a", true)), true, false},
		{"key-case", table("a", int32(1)), ptr(table("A", int32(1))), false, false},
		{"string-case", table("a", "s"), ptr(table("a", "S")), false, false},
		{"int-widths", table("a", int32(1)), ptr(table("a", int64(1))), true, false},
		{"int-octet", table("a", int32(1)), ptr(table("a", uint8(1))), true, false},
		{"int-unsigned", table("a", int64(70000)), ptr(table("a", uint32(70000))), true, false},
		{"int-double", table("a", int32(1)), ptr(table("a", 1.0)), true, true},
		{"double-float", table("a", 1.5), ptr(table("a", float32(1.5))), true, false},
		{"bool-int", table("a", true), ptr(table("a", int32(1))), false, false},
		{"bool-same", table("a", false), ptr(table("a", false)), true, false},
		{"string-int", table("a", "1"), ptr(table("a", int32(1))), false, false},
		{"string-bytes", table("a", "s"), ptr(table("a", wire.Bytes("s"))), true, false},
		{"array-same", table("a", wire.Array{"x", "y"}), ptr(table("a", wire.Array{"x", "y"})), true, false},
		{"array-order", table("a", wire.Array{"x", "y"}), ptr(table("a", wire.Array{"y", "x"})), false, false},
		{"table-same", table("a", table("k", "v")), ptr(table("a", table("k", "v"))), true, false},
		{"table-differs", table("a", table("k", "v")), ptr(table("a", table("k", "w"))), false, false},
		{"timestamp-same", table("a", wire.Timestamp(5)), ptr(table("a", wire.Timestamp(5))), true, true},
		{"int-timestamp", table("a", int32(5)), ptr(table("a", wire.Timestamp(5))), true, true},
		{"void-value", table("a", "s"), ptr(table("a", wire.Void{})), false, false},
		{"empty-string", table("a", ""), ptr(table("a", "")), true, false},
		{"array-int-widths", table("a", wire.Array{int32(1)}), ptr(table("a", wire.Array{int64(1)})), false, false},
		{"decimal-same", table("a", wire.Decimal{Scale: 1, Value: 5}), ptr(table("a", wire.Decimal{Scale: 1, Value: 5})), true, false},
		{"negative", table("a", int8(-5)), ptr(table("a", int64(-5))), true, false},
		{"several-all", table("a", "1", "b", "2", "c", "3"), ptr(table("c", "3", "z", "9", "a", "1", "b", "2")), true, false},
		{"several-all-last-missing", table("a", "1", "b", "2", "c", "3"), ptr(table("a", "1", "b", "2", "z", "9")), false, false},
		{"timestamp-int", table("a", wire.Timestamp(5)), ptr(table("a", int32(5))), true, false},
	}
}

func headersCases() []Case {
	bind := wire.QueueBind{}
	const source = "spec 3.1.3.4, behaviour 4"
	var cases []Case
	for _, r := range headerRows() {
		cases = append(cases, Case{ID: "headers/" + r.id, Title: fmt.Sprintf("headers exchange: %s", r.id), Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "headers")
			ch.Bind(t.Q, t.X, "ignored", r.binding...)
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: "k"}, wire.Properties{Headers: r.headers}, "body")
			want := uint32(0)
			if r.match != (r.fourIsOpposite && t.Four()) {
				want = 1
			}
			ch.WantCount(t.Q, want, 0)
		}})
	}
	bad := func(v any) func(*T, *Chan) {
		return func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Send(wire.QueueBind{Queue: t.Q, Exchange: "amq.headers", Arguments: arg("x-match", v)})
		}
	}
	cases = append(cases, refusals(Core, []refusal{
		{"headers/bad-mode", "an unknown x-match", source, bad("bogus"),
			soft(406, bind, `Invalid x-match field value <<"bogus">>; expected all, any, all-with-x, or any-with-x`), closing{}},
		{"headers/bad-mode-type", "an x-match that is no string", source, bad(int32(5)),
			soft(406, bind, `Invalid x-match field type signedint (value 5); expected longstr`), closing{}},
	})...)
	return append(cases,
		Case{ID: "headers/several", Title: "headers: each binding for itself, one copy a queue", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Queue(t.Q2)
			ch.Bind(t.Q, "amq.headers", "", table(t.Key, int32(1))...)
			ch.Bind(t.Q, "amq.headers", "", table(t.Key, int32(1), "x-match", "any")...)
			ch.Bind(t.Q2, "amq.match", "", table(t.Key, int32(1))...)
			p := wire.Properties{Headers: ptr(table(t.Key, int32(1)))}
			ch.PublishWith(wire.BasicPublish{Exchange: "amq.headers"}, p, "one")
			ch.PublishWith(wire.BasicPublish{Exchange: "amq.match"}, p, "two")
			ch.WantGet(t.Q, "one", 0)
			ch.WantGet(t.Q2, "two", 0)
		}},
		Case{ID: "headers/unbind", Title: "headers: unbinding must match the arguments", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "headers")
			ch.Bind(t.Q, t.X, "", table("a", int32(1))...)
			ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, Arguments: table("a", int32(2))}, wire.QueueUnbindOk{})
			p := wire.Properties{Headers: ptr(table("a", int32(1)))}
			ch.PublishWith(wire.BasicPublish{Exchange: t.X}, p, "in")
			ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, Arguments: table("a", int32(1))}, wire.QueueUnbindOk{})
			ch.PublishWith(wire.BasicPublish{Exchange: t.X}, p, "out")
			ch.WantGet(t.Q, "in", 0)
		}},
	)
}
