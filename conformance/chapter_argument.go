package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warrenmq/warren/conformance/wire"
)

// kinds has a value of every field type that is no integer, by the name that error texts give the type.
func kinds() []wire.Field {
	return []wire.Field{{Key: "longstr", Value: "5"}, {Key: "double", Value: 5.0}, {Key: "float", Value: float32(5)}, {Key: "bool", Value: true},
		{Key: "timestamp", Value: wire.Timestamp(5)}, {Key: "void", Value: wire.Void{}}, {Key: "decimal", Value: wire.Decimal{Value: 5}},
		{Key: "table", Value: wire.Table{}}, {Key: "array", Value: wire.Array{}}, {Key: "binary", Value: wire.Bytes("5")}}
}

// integers has a value of every integer type, all the same number, which fits them all.
func integers(n int8) []any {
	return []any{n, uint8(n), int16(n), uint16(n), int32(n), uint32(n), int64(n), wire.LongLong(n)}
}

// argumentRow is a set of arguments and what queue.declare of a classic queue says to it.
type argumentRow struct {
	id        string
	arguments wire.Table
	text      string // the 406 text; "" when the queue is declared
	text4     string // under profile 4, when it differs; "-" for none
}

// deprecatedLocator is what RabbitMQ 4.3.6 says to x-queue-master-locator, as far as it fits a reply-text.
const deprecatedLocator = "Feature `queue_master_locator` is deprecated.\nBy default, this feature is not permitted anymore.\nThe feature will be removed " +
	"from a future major RabbitMQ version, regardless of the configuration; actual version to be determined.\nTo continue"

// bad is the text about an argument; the reason is as RabbitMQ prints it.
func bad(argument, reason string) string {
	return "invalid arg '" + argument + "' for {q}: " + reason
}

// wrongType is the text about an argument that classic queues do not have.
func wrongType(argument string) string {
	return "invalid arg '" + argument + "' for {q} of queue type rabbit_classic_queue"
}

func argumentCases() []Case {
	rows := slices.Concat(integerRows(), wordRows(), foreignRows(), orderRows())
	var cases []Case
	for _, r := range rows {
		cases = append(cases, Case{ID: "queue-argument/" + r.id, Title: "queue.declare with " + r.id, Source: "behaviour 3", Class: Extension,
			Run: func(t *T) {
				text := r.text
				if t.Four() && r.text4 != "" {
					text = strings.TrimPrefix(r.text4, "-")
				}
				ch := t.Channel()
				ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Arguments: r.arguments})
				if text == "" {
					ch.Want(wire.QueueDeclareOk{Queue: t.Q})
					ch.Queue(t.Q, r.arguments...)
					return
				}
				ch.WantClosing(soft(406, wire.QueueDeclare{}, text))
				ch.Send(wire.QueueDeclare{Queue: t.Q, Passive: true})
				ch.WantClosing(soft(404, wire.QueueDeclare{}, "no {q}"))
			}})
	}
	return append(cases, append(argumentUseCases(), consumeArgumentCases()...)...)
}

// integerRows: arguments that are numbers.
func integerRows() []argumentRow {
	const most = 315360000000 // ten years in milliseconds
	var rows []argumentRow
	for _, name := range []string{"x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes"} {
		for _, k := range kinds() {
			rows = append(rows, argumentRow{name + "-" + k.Key, arg(name, k.Value), bad(name, `"expected integer, got `+k.Key+`"`), ""})
		}
		for _, v := range integers(100) {
			rows = append(rows, argumentRow{fmt.Sprintf("%s-%T", name, v), arg(name, v), "", ""})
		}
		rows = append(rows, argumentRow{name + "-negative", arg(name, int32(-1)), bad(name, "{value_negative,-1}"), ""},
			argumentRow{name + "-most-negative", arg(name, int64(-1<<63)), bad(name, "{value_negative,-9223372036854775808}"), ""})
	}
	for _, name := range []string{"x-message-ttl", "x-expires"} {
		rows = append(rows, argumentRow{name + "-largest", arg(name, int64(most)), "", ""},
			argumentRow{name + "-too-large", arg(name, int64(most+1)), bad(name, "{value_too_large,315360000001}"), ""})
	}
	return append(rows,
		argumentRow{"x-message-ttl-zero", arg("x-message-ttl", int32(0)), "", ""},
		argumentRow{"x-expires-zero", arg("x-expires", int32(0)), bad("x-expires", "{value_zero,0}"), ""},
		argumentRow{"x-max-length-zero", arg("x-max-length", int32(0)), "", ""},
		argumentRow{"x-max-length-bytes-zero", arg("x-max-length-bytes", int32(0)), "", ""},
		argumentRow{"x-max-length-largest", arg("x-max-length", int64(1<<63-1)), "", ""},
		argumentRow{"x-max-length-bytes-largest", arg("x-max-length-bytes", int64(1<<63-1)), "", ""})
}

// wordRows: arguments that are words, or true and false.
func wordRows() []argumentRow {
	const dlx, key, single = "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-single-active-consumer"
	var rows []argumentRow
	for _, k := range append(kinds(), wire.Field{Key: "signedint", Value: int32(5)}, wire.Field{Key: "long", Value: int64(5)}, wire.Field{Key: "unsignedbyte", Value: uint8(5)}) {
		if k.Key != "bool" {
			rows = append(rows, argumentRow{single + "-" + k.Key, arg(single, k.Value), bad(single, "{unacceptable_type,"+k.Key+"}"), ""})
		}
		if k.Key != "longstr" {
			rows = append(rows,
				argumentRow{"x-overflow-" + k.Key, arg("x-overflow", k.Value), bad("x-overflow", "{unacceptable_type,"+k.Key+"}"), ""},
				argumentRow{key + "-" + k.Key, wire.Table{{Key: dlx, Value: ""}, {Key: key, Value: k.Value}}, bad(key, "{unacceptable_type,"+k.Key+"}"), ""},
				argumentRow{dlx + "-" + k.Key, arg(dlx, k.Value), "invalid type '" + k.Key + "' for arg '" + dlx + "' in {q}", ""})
		}
	}
	for _, mode := range []string{"drop-head", "reject-publish", "reject-publish-dlx"} {
		rows = append(rows, argumentRow{"x-overflow-" + mode, arg("x-overflow", mode), "", ""})
	}
	for _, mode := range []string{"", "bogus", "Drop-Head", "drop_head"} {
		rows = append(rows, argumentRow{fmt.Sprintf("x-overflow-word-%q", mode), arg("x-overflow", mode), bad("x-overflow", "invalid_overflow"), ""})
	}
	return append(rows,
		argumentRow{single + "-true", arg(single, true), "", ""},
		argumentRow{single + "-false", arg(single, false), "", ""},
		argumentRow{dlx + "-empty", arg(dlx, ""), "", ""},
		argumentRow{dlx + "-missing", arg(dlx, "there is no such exchange"), "", ""},
		argumentRow{key + "-empty", wire.Table{{Key: dlx, Value: ""}, {Key: key, Value: ""}}, "", ""},
		argumentRow{key + "-first", wire.Table{{Key: key, Value: "k"}, {Key: dlx, Value: "x"}}, "", ""},
		argumentRow{key + "-alone", arg(key, "k"), bad(key, "routing_key_but_no_dlx_defined"), ""},
		argumentRow{key + "-alone-number", arg(key, int32(5)), bad(key, "{unacceptable_type,signedint}"), ""},
		argumentRow{"x-queue-type-empty", arg("x-queue-type", ""), bad("x-queue-type", `"unsupported queue type ''"`), "-"},
		argumentRow{"x-queue-type-undefined", arg("x-queue-type", "undefined"), bad("x-queue-type", `"unsupported queue type 'undefined'"`), "-"},
		argumentRow{"x-queue-type-void", arg("x-queue-type", wire.Void{}), bad("x-queue-type", "{unacceptable_type,void}"), ""},
		argumentRow{"x-queue-type-bool", arg("x-queue-type", true), bad("x-queue-type", "{unacceptable_type,bool}"), ""},
		argumentRow{"x-queue-mode-number", arg("x-queue-mode", int32(5)), bad("x-queue-mode", "{unacceptable_type,signedint}"), "-"},
		argumentRow{"x-queue-version-word", arg("x-queue-version", "2"), bad("x-queue-version", `"expected integer, got longstr"`), ""},
		argumentRow{"x-queue-version-zero", arg("x-queue-version", int32(0)), bad("x-queue-version", `"unsupported queue version '0'"`), ""},
	)
}

// foreignRows: arguments of other types of queue, and of none.
func foreignRows() []argumentRow {
	rows := []argumentRow{
		{"x-queue-leader-locator", arg("x-queue-leader-locator", "client-local"), wrongType("x-queue-leader-locator"), "-"},
		{"x-queue-leader-locator-balanced", arg("x-queue-leader-locator", "balanced"), wrongType("x-queue-leader-locator"), "-"},
		{"x-queue-leader-locator-bogus", arg("x-queue-leader-locator", "bogus"), wrongType("x-queue-leader-locator"), bad("x-queue-leader-locator", "invalid_queue_locator_arg")},
		{"x-dead-letter-strategy", arg("x-dead-letter-strategy", "at-most-once"), wrongType("x-dead-letter-strategy"), ""},
		{"x-delivery-limit", arg("x-delivery-limit", int32(5)), wrongType("x-delivery-limit"), ""},
		{"x-quorum-initial-group-size", arg("x-quorum-initial-group-size", int32(1)), wrongType("x-quorum-initial-group-size"), ""},
		{"x-max-in-memory-length", arg("x-max-in-memory-length", int32(1)), wrongType("x-max-in-memory-length"), ""},
		{"x-max-in-memory-bytes", arg("x-max-in-memory-bytes", int32(1)), wrongType("x-max-in-memory-bytes"), ""},
		{"x-max-age-number", arg("x-max-age", int32(5)), wrongType("x-max-age"), ""},
		{"x-stream-max-segment-size-bytes", arg("x-stream-max-segment-size-bytes", int32(1000)), wrongType("x-stream-max-segment-size-bytes"), ""},
		{"x-initial-cluster-size", arg("x-initial-cluster-size", int32(1)), wrongType("x-initial-cluster-size"), ""},
		{"x-stream-filter-size-bytes", arg("x-stream-filter-size-bytes", int32(16)), "", wrongType("x-stream-filter-size-bytes")},
		{"x-consumer-timeout", arg("x-consumer-timeout", int32(1000)), "", wrongType("x-consumer-timeout")},
		{"x-consumer-disconnected-timeout", arg("x-consumer-disconnected-timeout", int32(1000)), "", wrongType("x-consumer-disconnected-timeout")},
		{"x-delayed-retry-type", arg("x-delayed-retry-type", "all"), "", wrongType("x-delayed-retry-type")},
		{"x-delayed-retry-min", arg("x-delayed-retry-min", int32(1)), "", wrongType("x-delayed-retry-min")},
		{"x-delayed-retry-max", arg("x-delayed-retry-max", int32(1)), "", wrongType("x-delayed-retry-max")},
		{"x-quorum-target-group-size", arg("x-quorum-target-group-size", int32(1)), "", ""},
	}
	for _, name := range []string{"X-Message-TTL", "x-message-ttl ", "message-ttl", "max-length", "x-ha-policy", "alternate-exchange", "", "x-priority"} {
		rows = append(rows, argumentRow{fmt.Sprintf("unknown-%q", name), arg(name, "not checked"), "", ""})
	}
	return rows
}

// orderRows: which of several faults is reported.
func orderRows() []argumentRow {
	pair := func(first, second string, v1, v2 any) wire.Table {
		return wire.Table{{Key: first, Value: v1}, {Key: second, Value: v2}}
	}
	return []argumentRow{
		{"order-duplicate-first", pair("x-message-ttl", "x-message-ttl", int32(5), "bad"), "", ""},
		{"order-duplicate-bad-first", pair("x-message-ttl", "x-message-ttl", "bad", int32(5)), bad("x-message-ttl", `"expected integer, got longstr"`), ""},
		{"order-expires-ttl", pair("x-message-ttl", "x-expires", "bad", "bad"), bad("x-expires", `"expected integer, got longstr"`), ""},
		{"order-ttl-length", pair("x-max-length", "x-message-ttl", "bad", "bad"), bad("x-message-ttl", `"expected integer, got longstr"`), ""},
		{"order-length-priority", pair("x-max-priority", "x-max-length", "bad", "bad"), bad("x-max-length", `"expected integer, got longstr"`), ""},
		{"order-priority-overflow", pair("x-overflow", "x-max-priority", "bad", "bad"), bad("x-max-priority", `"expected integer, got longstr"`), ""},
		{"order-dlx-first", pair("x-expires", "x-dead-letter-exchange", "bad", int32(5)), "invalid type 'signedint' for arg 'x-dead-letter-exchange' in {q}", ""},
		{"order-value-foreign", pair("x-max-age", "x-max-length", "1h", "bad"), bad("x-max-length", `"expected integer, got longstr"`), ""},
		{"order-foreign-bad-value", pair("x-max-age", "x-max-length", "bad", int32(5)), wrongType("x-max-age"), ""},
		{"order-foreign-last", pair("x-dead-letter-strategy", "x-max-length", "at-most-once", "bad"), bad("x-max-length", `"expected integer, got longstr"`), ""},
		{"order-type-value", pair("x-max-length", "x-queue-type", "bad", "bogus"), bad("x-queue-type", `"unsupported queue type 'bogus'"`), ""},
	}
}

// argumentUseCases: when arguments are looked at at all.
func argumentUseCases() []Case {
	const source = "behaviour 2.3, 3"
	return append(refusals(Extension, []refusal{
		{"queue-argument/nowait", "a bad argument with nowait", source, func(t *T, ch *Chan) {
			ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, NoWait: true, Arguments: arg("x-expires", int32(0))})
		}, soft(406, wire.QueueDeclare{}, bad("x-expires", "{value_zero,0}")), closing{}},
		{"queue-argument/reserved-name-first", "the reserved prefix is looked at before the arguments", source, func(t *T, ch *Chan) {
			ch.Send(wire.QueueDeclare{Queue: "amq.x", Exclusive: true, Arguments: arg("x-expires", int32(0))})
		}, soft(403, wire.QueueDeclare{}, "queue name 'amq.x' contains reserved prefix 'amq.*'"), closing{}},
		{"queue-argument/existing", "on a queue that is there a bad argument is a difference", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Arguments: arg("x-expires", int32(0))})
		}, soft(406, wire.QueueDeclare{}, "inequivalent arg 'x-expires' for {q}: received the value '0' of type 'signedint' but current is none"), closing{}},
	}),
		Case{ID: "queue-argument/x-queue-master-locator", Title: "x-queue-master-locator: taken under profile 3, a connection error under 4", Source: source, Class: Extension, Run: func(t *T) {
			for _, locator := range []string{"min-masters", "client-local", "random"} {
				ch := t.Channel()
				ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Arguments: arg("x-queue-master-locator", locator)})
				if t.Four() {
					ch.WantClosing(hard(541, wire.QueueDeclare{}, deprecatedLocator))
					continue
				}
				ch.Want(wire.QueueDeclareOk{Queue: t.Q})
				ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
				ch.Conn.Close()
			}
		}},
		Case{ID: "queue-argument/passive", Title: "a passive declare looks at no argument", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			for _, m := range []wire.Table{arg("x-expires", "bad"), arg("x-queue-type", "bogus"), arg("x-max-age", "1h")} {
				ch.Call(wire.QueueDeclare{Queue: t.Q, Passive: true, Arguments: m}, wire.QueueDeclareOk{Queue: t.Q})
			}
		}},
		Case{ID: "queue-argument/all", Title: "all arguments of a classic queue together", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			all := wire.Table{{Key: "x-expires", Value: int32(100_000)}, {Key: "x-message-ttl", Value: int32(100_000)}, {Key: "x-dead-letter-exchange", Value: t.X},
				{Key: "x-dead-letter-routing-key", Value: "k"}, {Key: "x-max-length", Value: int32(10)}, {Key: "x-max-length-bytes", Value: int32(1000)},
				{Key: "x-max-priority", Value: int32(3)}, {Key: "x-overflow", Value: "reject-publish"}, {Key: "x-queue-mode", Value: "lazy"},
				{Key: "x-queue-version", Value: int32(2)}, {Key: "x-single-active-consumer", Value: true}, {Key: "x-queue-type", Value: "classic"}}
			ch.Queue(t.Q, all...)
			slices.Reverse(all)
			ch.Queue(t.Q, all...)
			ch.Publish("", t.Q, "a")
			ch.WantGet(t.Q, "a", 0)
		}},
	)
}

// consumeArgumentCases: arguments of basic.consume on a classic queue.
func consumeArgumentCases() []Case {
	consume := wire.BasicConsume{}
	var rows []refusal
	refuse := func(id string, arguments wire.Table, text string) {
		rows = append(rows, refusal{"consume-argument/" + id, "basic.consume with " + id, "behaviour 2.4", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", Arguments: arguments})
		}, soft(406, consume, text), closing{}})
	}
	for _, k := range kinds() {
		refuse("x-priority-"+k.Key, arg("x-priority", k.Value), bad("x-priority", `"expected integer, got `+k.Key+`"`))
	}
	refuse("x-stream-offset", arg("x-stream-offset", "first"), wrongType("x-stream-offset"))
	refuse("duplicate", wire.Table{{Key: "x-priority", Value: "bad"}, {Key: "x-priority", Value: int32(1)}}, bad("x-priority", `"expected integer, got longstr"`))
	cases := refusals(Extension, rows)
	for _, r := range []struct {
		id        string
		arguments wire.Table
	}{
		{"x-stream-filter", arg("x-stream-filter", "a")}, {"x-stream-match-unfiltered", arg("x-stream-match-unfiltered", true)},
		{"x-consumer-timeout", arg("x-consumer-timeout", int32(1000))},
	} {
		cases = append(cases, Case{ID: "consume-argument/" + r.id, Title: "basic.consume with " + r.id + ": unknown under profile 3, refused under 4", Source: "behaviour 2.4",
			Class: Extension, Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q)
				if t.Four() {
					ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", Arguments: r.arguments})
					ch.WantClosing(soft(406, consume, wrongType(r.id)))
					return
				}
				ch.Consume(t.Q, "c", r.arguments...)
			}})
	}
	return cases
}
