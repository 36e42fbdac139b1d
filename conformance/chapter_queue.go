package conformance

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// lockedText is the 405 text.
const lockedText = "cannot obtain exclusive access to locked {q}. It could be originally declared on another connection or the " +
	"exclusive property value does not match that of the original declaration."

// arg is a table with one entry.
func arg(key string, value any) wire.Table { return wire.Table{{Key: key, Value: value}} }

func queueDeclareCases() []Case {
	const source = "spec queue.declare, behaviour 2.3"
	d := wire.QueueDeclare{}
	send := func(m wire.QueueDeclare) func(*T, *Chan) {
		return func(t *T, ch *Chan) {
			m := m
			if m.Queue == "{Q}" {
				m.Queue = t.Q
			}
			ch.Send(m)
		}
	}
	cases := refusals(Core, []refusal{
		{"queue/passive-missing", "passive declare of a missing queue", source, send(wire.QueueDeclare{Queue: "{Q}", Passive: true}),
			soft(404, d, "no {q}"), closing{}},
		{"queue/passive-missing-nowait", "passive declare of a missing queue with nowait", source,
			send(wire.QueueDeclare{Queue: "{Q}", Passive: true, NoWait: true}), soft(404, d, "no {q}"), closing{}},
		{"queue/passive-empty-name", "passive declare of the empty name", source, send(wire.QueueDeclare{Passive: true}),
			soft(404, d, "no queue '' in vhost '{V}'"), closing{}},
		{"queue/reserved-name", "a new name with the reserved prefix", source, send(wire.QueueDeclare{Queue: "amq.foo", Exclusive: true}),
			soft(403, d, "queue name 'amq.foo' contains reserved prefix 'amq.*'"), closing{}},
	})
	cases = append(cases, queueInequivalent()...)
	return append(cases,
		Case{ID: "queue/declare", Title: "a queue can be declared in each way and redeclared", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			for bits := range 8 {
				m := wire.QueueDeclare{Queue: t.Q, Durable: bits&1 > 0, Exclusive: bits&2 > 0, AutoDelete: bits&4 > 0}
				ch.DeclareQueue(m)
				ch.DeclareQueue(m)
				ch.WantCount(t.Q, 0, 0)
				ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
			}
		}},
		Case{ID: "queue/counts", Title: "declare-ok counts ready messages only, and consumers", Source: source, Class: Core, Run: queueCounts},
		Case{ID: "queue/server-named", Title: "the empty name gives amq.gen- and 22 characters", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			seen := map[string]bool{}
			for range 3 {
				name := ch.serverNamed()
				if ok, err := regexp.MatchString(`^amq\.gen-[-_A-Za-z0-9]{22}$`, name); !ok || err != nil || seen[name] {
					t.Fatalf("server-made name %q", name)
				}
				seen[name] = true
				ch.Publish("", name, "body")
				ch.WantGet(name, "body", 0)
			}
		}},
		Case{ID: "queue/server-named-redeclared", Title: "a server-made name may not be redeclared, even by its owner", Source: source, Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				name := ch.serverNamed()
				ch.WantCount(name, 0, 0)
				ch.Send(wire.QueueDeclare{Queue: name, Exclusive: true})
				ch.WantClosing(soft(403, d, "queue name '"+name+"' contains reserved prefix 'amq.*'"))
			}},
		Case{ID: "queue/passive", Title: "passive declare looks at nothing but the name", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, AutoDelete: true, Arguments: arg("x-max-priority", int32(3))})
			for _, m := range []wire.QueueDeclare{{Durable: true}, {Exclusive: true}, {Arguments: arg("x-max-priority", int32(9))},
				{Arguments: arg("x-max-priority", "nonsense")}} {
				m.Queue, m.Passive = t.Q, true
				ch.DeclareQueue(m)
			}
		}},
		Case{ID: "queue/declare-nowait", Title: "nowait suppresses declare-ok, bind-ok, purge-ok and delete-ok", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, NoWait: true},
				wire.QueueBind{Queue: t.Q, Exchange: "amq.direct", RoutingKey: t.Key, NoWait: true})
			ch.Publish("amq.direct", t.Key, "body")
			ch.WantCount(t.Q, 1, 0)
			ch.Send(wire.QueuePurge{Queue: t.Q, NoWait: true})
			ch.WantCount(t.Q, 0, 0)
			ch.Send(wire.QueueDelete{Queue: t.Q, NoWait: true}, wire.QueueDeclare{Queue: t.Q, Passive: true})
			ch.WantClosing(soft(404, d, "no {q}"))
		}},
		Case{ID: "queue/exclusive-durable", Title: "exclusive makes durable irrelevant", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Durable: true})
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Exclusive: true})
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Durable: true})
		}},
	)
}

// serverNamed declares an exclusive queue with a name of the broker's.
func (ch *Chan) serverNamed() string {
	ch.Send(wire.QueueDeclare{Exclusive: true})
	m := ch.wantType(wire.QueueDeclareOk{}).(wire.QueueDeclareOk)
	ch.t.Equal("counts", []uint32{m.MessageCount, m.ConsumerCount}, []uint32{0, 0})
	return m.Queue
}

func queueCounts(t *T) {
	ch := t.Channel()
	ch.Queue(t.Q)
	ch.Publish("", t.Q, "a", "b", "c")
	ch.WantCount(t.Q, 3, 0)
	ch.Get(t.Q, false)
	ch.WantCount(t.Q, 2, 0)
	ch.Prefetch(1)
	ch.Consume(t.Q, "one")
	ch.WantBodies("b")
	ch.WantCount(t.Q, 1, 1)
	ch.Call(wire.QueueDeclare{Queue: t.Q, Exclusive: true}, wire.QueueDeclareOk{Queue: t.Q, MessageCount: 1, ConsumerCount: 1})
	ch.ConsumeNoAck(t.Q, "two")
	ch.WantBodies("c")
	ch.WantCount(t.Q, 0, 2)
}

// queueInequivalent: a queue redeclared otherwise; the first property that differs is named.
func queueInequivalent() []Case {
	plain := wire.QueueDeclare{}
	with := func(key string, v any) wire.QueueDeclare { return wire.QueueDeclare{Arguments: arg(key, v)} }
	var rows []refusal
	for _, r := range []struct {
		id, text     string
		first, again wire.QueueDeclare
	}{
		{"durable", "inequivalent arg 'durable' for {q}: received 'true' but current is 'false'", plain, wire.QueueDeclare{Durable: true}},
		{"transient", "inequivalent arg 'durable' for {q}: received 'false' but current is 'true'", wire.QueueDeclare{Durable: true}, plain},
		{"auto-delete", "inequivalent arg 'auto_delete' for {q}: received 'true' but current is 'false'", plain, wire.QueueDeclare{AutoDelete: true}},
		{"argument-absent", "inequivalent arg 'x-max-priority' for {q}: received none but current is the value '5' of type 'signedint'",
			with("x-max-priority", int32(5)), plain},
		{"argument-added", "inequivalent arg 'x-max-priority' for {q}: received the value '5' of type 'signedint' but current is none",
			plain, with("x-max-priority", int32(5))},
		{"argument-value", "inequivalent arg 'x-max-priority' for {q}: received '6' but current is '5'",
			with("x-max-priority", int32(5)), with("x-max-priority", int32(6))},
		{"argument-text", "inequivalent arg 'x-dead-letter-exchange' for {q}: received 'b' but current is 'a'",
			with("x-dead-letter-exchange", "a"), with("x-dead-letter-exchange", "b")},
		{"argument-ttl", "inequivalent arg 'x-message-ttl' for {q}: received none but current is the value '100000' of type 'signedint'",
			with("x-message-ttl", int32(100000)), plain},
		{"order-durable-first", "inequivalent arg 'durable' for {q}: received 'true' but current is 'false'", plain,
			wire.QueueDeclare{Durable: true, AutoDelete: true, Arguments: arg("x-max-priority", int32(5))}},
		{"order-auto-delete-next", "inequivalent arg 'auto_delete' for {q}: received 'true' but current is 'false'", plain,
			wire.QueueDeclare{AutoDelete: true, Arguments: arg("x-max-priority", int32(5))}},
	} {
		rows = append(rows, refusal{"queue/inequivalent-" + r.id, "redeclared otherwise: " + r.id, "behaviour 2.3", func(t *T, ch *Chan) {
			r.first.Queue, r.again.Queue = t.Q, t.Q
			ch.DeclareQueue(r.first)
			ch.Send(r.again)
		}, soft(406, wire.QueueDeclare{}, r.text), closing{}})
	}
	for _, r := range []struct {
		name  string
		value any
	}{
		{"byte", int8(5)}, {"unsignedbyte", uint8(5)}, {"short", int16(5)}, {"unsignedshort", uint16(5)}, {"unsignedint", uint32(5)},
		{"long", int64(5)}, {"long", wire.LongLong(5)},
	} {
		rows = append(rows, refusal{fmt.Sprintf("queue/inequivalent-type-%s-%T", r.name, r.value), "the text names the type " + r.name, "behaviour 2.3",
			func(t *T, ch *Chan) {
				ch.Queue(t.Q, wire.Field{Key: "x-max-priority", Value: r.value})
				ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true})
			}, soft(406, wire.QueueDeclare{}, "inequivalent arg 'x-max-priority' for {q}: received none but current is the value '5' of type '"+r.name+"'"),
			closing{}})
	}
	rows = append(rows, refusal{"queue/inequivalent-exclusive", "an existing queue redeclared exclusive", "behaviour 2.3", func(t *T, ch *Chan) {
		ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
		ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true})
	}, soft(405, wire.QueueDeclare{}, lockedText), closing{}}, refusal{"queue/inequivalent-not-exclusive", "an exclusive queue redeclared otherwise by its owner",
		"behaviour 2.3", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Send(wire.QueueDeclare{Queue: t.Q})
		}, soft(405, wire.QueueDeclare{}, lockedText), closing{}})
	return refusals(Core, rows)
}

// queueArgumentCases are the arguments that this suite's rules rest on.
func queueArgumentCases() []Case {
	const source = "behaviour 3"
	var rows []refusal
	refuse := func(id string, m wire.Table, text string) {
		rows = append(rows, refusal{"queue-argument/" + id, "refused: " + id, source, func(t *T, ch *Chan) {
			ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Arguments: m})
		}, soft(406, wire.QueueDeclare{}, text), closing{}})
	}
	for _, v := range []struct {
		name  string
		value any
	}{
		{"longstr", "5"}, {"double", 5.0}, {"float", float32(5)}, {"bool", true}, {"timestamp", wire.Timestamp(5)}, {"void", wire.Void{}},
		{"decimal", wire.Decimal{Value: 5}}, {"table", wire.Table{}}, {"array", wire.Array{}}, {"binary", wire.Bytes("5")},
	} {
		refuse("max-priority-"+v.name, arg("x-max-priority", v.value), `invalid arg 'x-max-priority' for {q}: "expected integer, got `+v.name+`"`)
	}
	refuse("max-priority-above", arg("x-max-priority", int32(256)), `invalid arg 'x-max-priority' for {q}: {max_value_exceeded,256}`)
	refuse("max-priority-below", arg("x-max-priority", int32(-1)), `invalid arg 'x-max-priority' for {q}: {value_negative,-1}`)
	refuse("queue-type-unknown", arg("x-queue-type", "bogus"), `invalid arg 'x-queue-type' for {q}: "unsupported queue type 'bogus'"`)
	refuse("queue-type-case", arg("x-queue-type", "Classic"), `invalid arg 'x-queue-type' for {q}: "unsupported queue type 'Classic'"`)
	refuse("queue-type-number", arg("x-queue-type", int32(5)), `invalid arg 'x-queue-type' for {q}: {unacceptable_type,signedint}`)
	refuse("of-another-type", arg("x-max-age", "1h"), `invalid arg 'x-max-age' for {q} of queue type rabbit_classic_queue`)
	cases := refusals(Extension, rows)
	return append(cases,
		Case{ID: "queue-argument/max-priority-integers", Title: "x-max-priority takes every integer type, and they are equivalent", Source: source,
			Class: Extension, Run: func(t *T) {
				ch := t.Channel()
				for _, v := range []any{int8(5), uint8(5), int16(5), uint16(5), int32(5), uint32(5), int64(5), wire.LongLong(5)} {
					ch.Queue(t.Q, wire.Field{Key: "x-max-priority", Value: v})
				}
			}},
		Case{ID: "queue-argument/queue-mode", Title: "x-queue-mode: default and lazy; others are refused under profile 3, ignored under 4", Source: "behaviour 0.20",
			Class: Extension, Run: func(t *T) {
				ch := t.Channel()
				for _, mode := range []string{"default", "lazy"} {
					ch.Queue(t.Q, wire.Field{Key: "x-queue-mode", Value: mode})
					ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
				}
				ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Arguments: arg("x-queue-mode", "bogus")})
				if t.Four() {
					ch.Want(wire.QueueDeclareOk{Queue: t.Q})
					return
				}
				ch.WantClosing(soft(406, wire.QueueDeclare{}, `invalid arg 'x-queue-mode' for {q}: "unsupported queue mode 'bogus'"`))
			}},
		Case{ID: "queue-argument/queue-version", Title: "x-queue-version: 2 always, 1 under profile 3 only", Source: "behaviour 0.21", Class: Extension,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q, wire.Field{Key: "x-queue-version", Value: int32(2)})
				refused := func(version int32) {
					ch.Send(wire.QueueDeclare{Queue: t.Q2, Exclusive: true, Arguments: arg("x-queue-version", version)})
					ch.WantClosing(soft(406, wire.QueueDeclare{},
						fmt.Sprintf(`invalid arg 'x-queue-version' for {q2}: "unsupported queue version '%d'"`, version)))
				}
				refused(3)
				if t.Four() {
					refused(1)
					return
				}
				ch.Queue(t.Q2, wire.Field{Key: "x-queue-version", Value: int32(1)})
			}},
		Case{ID: "queue-argument/type-classic", Title: "x-queue-type classic is the same as none", Source: "behaviour 2.3", Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Queue(t.Q, wire.Field{Key: "x-queue-type", Value: "classic"})
			ch.Queue(t.Q2, wire.Field{Key: "x-queue-type", Value: "classic"})
			ch.Queue(t.Q2)
		}},
		Case{ID: "queue-argument/unknown", Title: "unknown arguments are taken, and do not count when redeclaring", Source: "behaviour 2.3", Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q, fieldSamples()...)
				ch.Queue(t.Q, wire.Field{Key: "x-none-of-ours", Value: "x"})
				ch.Queue(t.Q)
			}},
	)
}

func queueDeleteCases() []Case {
	const source = "spec queue.delete, behaviour 2.3"
	cases := refusals(Core, []refusal{
		{"queue/delete-in-use", "if-unused with a consumer", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Consume(t.Q, "c")
			ch.Send(wire.QueueDelete{Queue: t.Q, IfUnused: true})
		}, soft(406, wire.QueueDelete{}, "{q} in use"), closing{}},
		{"queue/delete-not-empty", "if-empty with a ready message", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "body")
			ch.Send(wire.QueueDelete{Queue: t.Q, IfEmpty: true})
		}, soft(406, wire.QueueDelete{}, "{q} not empty"), closing{}},
		{"queue/delete-not-empty-nowait", "if-empty with a ready message and nowait", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "body")
			ch.Send(wire.QueueDelete{Queue: t.Q, IfEmpty: true, NoWait: true})
		}, soft(406, wire.QueueDelete{}, "{q} not empty"), closing{}},
		{"queue/delete-both", "if-unused and if-empty: if-empty is tested first", "behaviour 2.3", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Prefetch(1)
			ch.Consume(t.Q, "c")
			ch.Publish("", t.Q, "taken", "ready")
			ch.WantBodies("taken")
			ch.Send(wire.QueueDelete{Queue: t.Q, IfUnused: true, IfEmpty: true})
		}, soft(406, wire.QueueDelete{}, "{q} not empty"), closing{}},
		{"queue/purge-missing", "purging a missing queue", "spec queue.purge", func(t *T, ch *Chan) { ch.Send(wire.QueuePurge{Queue: t.Q}) },
			soft(404, wire.QueuePurge{}, "no {q}"), closing{}},
	})
	return append(cases,
		Case{ID: "queue/delete", Title: "delete-ok counts ready messages; a missing queue gives 0", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a", "b", "c")
			ch.Get(t.Q, false)
			ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{MessageCount: 2})
			ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
		}},
		Case{ID: "queue/delete-if-empty-unacked", Title: "unacknowledged messages do not stand against if-empty", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a")
			ch.Get(t.Q, false)
			ch.Call(wire.QueueDelete{Queue: t.Q, IfEmpty: true, IfUnused: true}, wire.QueueDeleteOk{})
		}},
		Case{ID: "queue/delete-then-ack", Title: "messages of a deleted queue can still be acknowledged, once", Source: "behaviour 2.3", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a", "b")
			ch.Get(t.Q, false)
			ch.Get(t.Q, false)
			ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
			ch.Send(wire.BasicAck{DeliveryTag: 1}, wire.BasicNack{DeliveryTag: 2, Requeue: true})
			ch.Quiet()
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.WantClosing(soft(406, wire.BasicAck{}, "unknown delivery tag 1"))
		}},
		Case{ID: "queue/purge", Title: "purge-ok counts ready messages, and leaves the unacknowledged", Source: "spec queue.purge, behaviour 2.3", Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q)
				ch.Call(wire.QueuePurge{Queue: t.Q}, wire.QueuePurgeOk{})
				ch.Publish("", t.Q, "a", "b", "c")
				ch.Get(t.Q, false)
				ch.Call(wire.QueuePurge{Queue: t.Q}, wire.QueuePurgeOk{MessageCount: 2})
				ch.WantEmpty(t.Q)
				ch.Send(wire.BasicNack{DeliveryTag: 1, Requeue: true})
				ch.WantGet(t.Q, "a", 0)
			}},
		Case{ID: "queue/auto-delete-cancel", Title: "auto-delete: gone with the last consumer's cancel, not before", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, AutoDelete: true})
			ch.Consume(t.Q, "a")
			ch.Consume(t.Q, "b")
			ch.Call(wire.BasicCancel{ConsumerTag: "a"}, wire.BasicCancelOk{ConsumerTag: "a"})
			ch.WantCount(t.Q, 0, 1)
			ch.Call(wire.BasicCancel{ConsumerTag: "b"}, wire.BasicCancelOk{ConsumerTag: "b"})
			ch.Send(wire.QueueDeclare{Queue: t.Q, Passive: true})
			ch.WantClosing(soft(404, wire.QueueDeclare{}, "no {q}"))
		}},
		Case{ID: "queue/auto-delete-channel", Title: "auto-delete: gone with the channel of its last consumer", Source: source, Class: Core, Run: autoDeleteChannel},
		Case{ID: "queue/auto-delete-lost", Title: "auto-delete: gone with the lost connection of its last consumer", Source: source, Class: Core, Run: func(t *T) {
			a, b := t.Channel(), t.Channel()
			a.DeclareQueue(wire.QueueDeclare{Queue: t.Q, AutoDelete: true})
			a.Consume(t.Q, "c")
			a.Drop()
			b.eventuallyNoQueue()
		}},
		Case{ID: "queue/auto-delete-never", Title: "auto-delete: without ever a consumer it stays, basic.get does not count", Source: source, Class: Core,
			Run: func(t *T) {
				a, b := t.Channel(), t.Channel()
				a.DeclareQueue(wire.QueueDeclare{Queue: t.Q, AutoDelete: true})
				a.WantEmpty(t.Q)
				a.Conn.Close()
				b.WantCount(t.Q, 0, 0)
			}},
	)
}

func autoDeleteChannel(t *T) {
	c := t.Connect()
	one := c.Chan(1)
	one.DeclareQueue(wire.QueueDeclare{Queue: t.Q, AutoDelete: true})
	one.Consume(t.Q, "c")
	one.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
	two := c.Chan(2)
	two.eventuallyNoQueue()
}

// eventually404 repeats a passive declare until the answer is 404 with this text; its -ok in between is borne, since a
// broker sees to what a connection or channel leaves behind in its own time.
func (ch *Chan) eventually404(declare, ok wire.Method, text string) {
	class, method := wire.ID(declare)
	want := wire.ChannelClose{ReplyCode: 404, ReplyText: "NOT_FOUND - " + ch.t.Text(text), ClassID: class, MethodID: method}
	for end := time.Now().Add(countPatience); time.Now().Before(end); {
		ch.Send(declare)
		m := ch.next()
		if fmt.Sprintf("%T", m) == fmt.Sprintf("%T", ok) {
			continue
		}
		ch.t.Equal("answer", m, wire.Method(want))
		ch.Send(wire.ChannelCloseOk{})
		return
	}
	ch.t.Fatalf("it is still there")
}

// eventuallyNoQueue demands that Q goes.
func (ch *Chan) eventuallyNoQueue() {
	ch.eventually404(wire.QueueDeclare{Queue: ch.t.Q, Passive: true}, wire.QueueDeclareOk{}, "no {q}")
}

func nameCases() []Case {
	const source = "behaviour 2"
	long := func(s string) string { return s + strings.Repeat("n", 255-len(s)) }
	return []Case{
		{ID: "names/line-breaks", Title: "carriage returns and line feeds are taken out of queue and exchange names", Source: source, Class: Extension,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Call(wire.QueueDeclare{Queue: t.Q + "\r\n.x\n", Exclusive: true}, wire.QueueDeclareOk{Queue: t.Q + ".x"})
				ch.WantCount(t.Q+".x", 0, 0)
				ch.t.leavings = append(ch.t.leavings, wire.ExchangeDelete{Exchange: t.X + ".x"})
				ch.Call(wire.ExchangeDeclare{Exchange: t.X + ".\r\nx", Type: "direct"}, wire.ExchangeDeclareOk{})
				ch.Call(wire.QueueBind{Queue: t.Q + ".\rx", Exchange: t.X + "\n.x", RoutingKey: "k"}, wire.QueueBindOk{})
				ch.Publish(t.X+".x", "k", "body")
				ch.WantGet(t.Q+".x", "body", 0)
				ch.Call(wire.QueueDelete{Queue: t.Q + "\r.x"}, wire.QueueDeleteOk{})
			}},
		{ID: "names/255-bytes", Title: "names of 255 bytes", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			q, x, key := long(t.Q), long(t.X), long(t.Key)
			ch.Queue(q)
			ch.Exchange(x, "direct")
			ch.Bind(q, x, key)
			ch.Publish(x, key, "body")
			t.Equal("message", ch.Get(q, true), Got{Tag: 1, Exchange: x, Key: key, Body: "body"})
		}},
		{ID: "names/any-utf8", Title: "names of any UTF-8", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			q, x, key := t.Q+" ключ/%2F?'\"", t.X+" 交換 \t\x00", "🐇.\x01"
			ch.Queue(q)
			ch.Exchange(x, "topic")
			ch.Bind(q, x, key)
			ch.Publish(x, key, "body")
			t.Equal("message", ch.Get(q, true), Got{Tag: 1, Exchange: x, Key: key, Body: "body"})
		}},
		{ID: "names/case", Title: "names are case-sensitive", Source: "spec 3.1.1", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Queue(strings.ToUpper(t.Q))
			ch.Publish("", t.Q, "lower")
			ch.WantEmpty(strings.ToUpper(t.Q))
			ch.WantGet(t.Q, "lower", 0)
		}},
		{ID: "names/one-space-each", Title: "a queue and an exchange may have one name", Source: "spec 3.1.1", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.Q, "fanout")
			ch.Bind(t.Q, t.Q, "")
			ch.Publish(t.Q, "", "body")
			ch.WantGet(t.Q, "body", 0)
		}},
	}
}
