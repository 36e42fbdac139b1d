package conformance

import (
	"fmt"

	"github.com/warrenmq/warren/conformance/wire"
)

// shareSource is where the rules of the exchange types that choose one queue stand.
const shareSource = "behaviour 4 (x-consistent-hash, x-random, x-modulus-hash, x-local-random)"

// typed declares an exchange of a type.
func typed(kind string, arguments ...wire.Field) func(*T, *Chan) {
	return func(t *T, ch *Chan) {
		ch.Send(wire.ExchangeDeclare{Exchange: t.X, Type: kind, Arguments: arguments})
	}
}

// boundTo declares a queue, an exchange of a type, and a binding that is refused.
func boundTo(kind, key string, queue ...wire.Field) func(*T, *Chan) {
	return func(t *T, ch *Chan) {
		ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Durable: len(queue) > 0, Exclusive: len(queue) == 0, Arguments: queue})
		ch.Exchange(t.X, kind)
		ch.Send(wire.QueueBind{Queue: t.Q, Exchange: t.X, RoutingKey: key})
	}
}

// choosingRefusals are the errors of these types.
func choosingRefusals() []refusal {
	const source = shareSource
	declare, bind := wire.ExchangeDeclare{}, wire.QueueBind{}
	notInteger := func(key string) closing { return soft(406, bind, `The binding key must be an integer: `+key) }
	tooSmall := soft(406, bind, `The binding key must be greater than 0`)
	unknown := hard(503, declare, "unknown exchange type 'x-local-random'")
	return []refusal{
		{"choosing/hash-property-unknown", "hash-property knows three properties", source,
			typed("x-consistent-hash", arg("hash-property", "foo")...), soft(406, declare, "Unsupported property: foo"), closing{}},
		{"choosing/hash-both", "hash-header and hash-property exclude each other", source,
			typed("x-consistent-hash", table("hash-header", "h", "hash-property", "message_id")...),
			soft(406, declare, "hash-header and hash-property are mutually exclusive"), closing{}},
		{"choosing/hash-both-unknown", "that they exclude each other is said before that the property is unknown", source,
			typed("x-consistent-hash", table("hash-header", "h", "hash-property", "foo")...),
			soft(406, declare, "hash-header and hash-property are mutually exclusive"), closing{}},
		{"choosing/hash-header-type", "a hash-header that is no string crashes the channel", source,
			typed("x-consistent-hash", arg("hash-header", int32(1))...), hard(541, nil, ""), closing{}},
		{"choosing/hash-property-type", "a hash-property that is no string crashes the channel", source,
			typed("x-consistent-hash", arg("hash-property", int32(1))...), hard(541, nil, ""), closing{}},
		{"choosing/weight-word", "a weight is an integer", source, boundTo("x-consistent-hash", "abc"), notInteger(`<<"abc">>`), closing{}},
		{"choosing/weight-empty", "an empty key is no weight", source, boundTo("x-consistent-hash", ""), notInteger(`<<>>`), closing{}},
		{"choosing/weight-fraction", "a weight has no fraction", source, boundTo("x-consistent-hash", "1.5"), notInteger(`<<"1.5">>`), closing{}},
		{"choosing/weight-space", "a weight has no space around it", source, boundTo("x-consistent-hash", " 1"), notInteger(`<<" 1">>`), closing{}},
		{"choosing/weight-zero", "a weight is positive", source, boundTo("x-consistent-hash", "0"), tooSmall, closing{}},
		{"choosing/weight-negative", "a weight is not negative", source, boundTo("x-consistent-hash", "-3"), tooSmall, closing{}},
		{"choosing/local-unknown", "x-local-random came with 4.0", source, func(t *T, ch *Chan) {
			if t.Four() {
				boundTo("x-local-random", "k")(t, ch)
				return
			}
			typed("x-local-random")(t, ch)
		}, unknown, soft(406, bind, "Non empty binding 'k' key not permitted")},
		{"choosing/local-quorum", "x-local-random takes no quorum queues", source,
			localOr3(boundTo("x-local-random", "", wire.Field{Key: "x-queue-type", Value: "quorum"})),
			unknown, soft(406, bind, "Queue type rabbit_quorum_queue not valid for this exchange type")},
		{"choosing/local-exchange", "x-local-random takes no exchanges", source, localOr3(func(t *T, ch *Chan) {
			ch.Exchange(t.X, "x-local-random")
			ch.Exchange(t.X2, "fanout")
			ch.Send(wire.ExchangeBind{Destination: t.X2, Source: t.X})
		}), unknown, soft(406, wire.ExchangeBind{}, "Destination not found")},
	}
}

// localOr3 is for refusals of x-local-random: under profile 3 the type itself is what is refused.
func localOr3(four func(*T, *Chan)) func(*T, *Chan) {
	return func(t *T, ch *Chan) {
		if t.Four() {
			four(t, ch)
			return
		}
		typed("x-local-random")(t, ch)
	}
}

// shares publishes n messages, the i-th as made by each, and returns how many each of the queues got.
func (ch *Chan) shares(queues []string, n int, each func(i int) (wire.BasicPublish, wire.Properties)) []int {
	watch := ch.Conn.Chan(confirmChannel)
	watch.Confirm()
	for i := range n {
		m, p := each(i)
		watch.PublishWith(m, p, "m")
	}
	watch.WantConfirms(1, uint64(n))
	watch.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
	counts, sum := make([]int, len(queues)), 0
	for i, q := range queues {
		ch.Send(wire.QueueDeclare{Queue: q, Passive: true})
		counts[i] = int(ch.wantType(wire.QueueDeclareOk{}).(wire.QueueDeclareOk).MessageCount)
		ch.Send(wire.QueuePurge{Queue: q})
		ch.wantType(wire.QueuePurgeOk{})
		sum += counts[i]
	}
	ch.t.Equal("messages in all queues", sum, n)
	return counts
}

// wantShare demands counts within a band that a fair choice leaves once in many million runs.
func (ch *Chan) wantShare(counts []int, weights ...int) {
	sum, n := 0, 0
	for i := range counts {
		sum, n = sum+weights[i], n+counts[i]
	}
	for i, c := range counts {
		want := n * weights[i] / sum
		if slack := want/3 + 20; c < want-slack || c > want+slack {
			ch.t.Fatalf("shares %v for weights %v", counts, weights)
		}
	}
}

// wantOne demands that one queue got everything, and returns which.
func (ch *Chan) wantOne(counts []int) (which int) {
	full := 0
	for i, c := range counts {
		if c > 0 {
			which, full = i, full+1
		}
	}
	if full != 1 {
		ch.t.Fatalf("messages with equal hash values are spread: %v", counts)
	}
	return which
}

// crowd declares exclusive queues, binds them, and returns their names.
func (ch *Chan) crowd(x string, keys ...string) []string {
	var queues []string
	for i, key := range keys {
		q := fmt.Sprintf("%s-%d", ch.t.Q, i)
		ch.Queue(q)
		ch.Bind(q, x, key)
		queues = append(queues, q)
	}
	return queues
}

func choosingCases() []Case {
	return append(refusals(Extension, choosingRefusals()), append(hashCases(), randomCases()...)...)
}

func hashCases() []Case {
	kase := func(id, title string, run func(t *T, ch *Chan)) Case {
		return Case{ID: "choosing/" + id, Title: title, Source: shareSource, Class: Extension, Run: func(t *T) { run(t, t.Channel()) }}
	}
	const x = "x-consistent-hash"
	to := func(t *T, key string) wire.BasicPublish { return wire.BasicPublish{Exchange: t.X, RoutingKey: key} }
	return []Case{
		kase("hash-share", "each queue gets the share of its weight", func(t *T, ch *Chan) {
			ch.Exchange(t.X, x)
			qs := ch.crowd(t.X, "1", "2", "+3")
			ch.wantShare(ch.shares(qs, 900, func(i int) (wire.BasicPublish, wire.Properties) {
				return to(t, fmt.Sprint("key", i)), wire.Properties{}
			}), 1, 2, 3)
		}),
		kase("hash-sticky", "one routing key, one queue", func(t *T, ch *Chan) {
			ch.Exchange(t.X, x)
			qs := ch.crowd(t.X, "1", "1", "1")
			same := func(int) (wire.BasicPublish, wire.Properties) { return to(t, "order.17"), wire.Properties{} }
			first := ch.wantOne(ch.shares(qs, 30, same))
			t.Equal("queue of the same key again", ch.wantOne(ch.shares(qs, 30, same)), first)
		}),
		kase("hash-carbon", "a message goes to one queue, whatever its CC", func(t *T, ch *Chan) {
			ch.Exchange(t.X, x)
			qs := ch.crowd(t.X, "1", "1", "1")
			cc := ptr(table("CC", wire.Array{"a", "b", "c", "d"}))
			ch.wantOne(ch.shares(qs, 20, func(int) (wire.BasicPublish, wire.Properties) {
				return to(t, "order.17"), wire.Properties{Headers: cc}
			}))
		}),
		kase("hash-header", "with hash-header the header decides, and all without it go to one queue", func(t *T, ch *Chan) {
			ch.Exchange(t.X, x, arg("hash-header", "h")...)
			qs := ch.crowd(t.X, "1", "1", "1")
			with := func(h func(i int) *wire.Table) []int {
				return ch.shares(qs, 300, func(i int) (wire.BasicPublish, wire.Properties) {
					return to(t, fmt.Sprint("key", i)), wire.Properties{Headers: h(i)}
				})
			}
			ch.wantShare(with(func(i int) *wire.Table { return ptr(table("h", fmt.Sprint("value", i))) }), 1, 1, 1)
			ch.wantOne(with(func(int) *wire.Table { return ptr(table("h", "same")) }))
			ch.wantOne(with(func(i int) *wire.Table { return ptr(table("other", fmt.Sprint(i))) }))
			t.Equal("queue for no headers and for none of that name",
				ch.wantOne(with(func(int) *wire.Table { return nil })), ch.wantOne(with(func(int) *wire.Table { return ptr(table("o", "1")) })))
		}),
		kase("hash-property", "with hash-property the property decides", func(t *T, ch *Chan) {
			for n, row := range []struct {
				name string
				set  func(i int) wire.Properties
			}{
				{"message_id", func(i int) wire.Properties { return wire.Properties{MessageID: ptrTo(fmt.Sprint("id", i))} }},
				{"correlation_id", func(i int) wire.Properties { return wire.Properties{CorrelationID: ptrTo(fmt.Sprint("id", i))} }},
				{"timestamp", func(i int) wire.Properties { return wire.Properties{Timestamp: ptrTo(wire.Timestamp(1700000000 + i))} }},
			} {
				name := fmt.Sprint(t.X, n)
				ch.Exchange(name, x, arg("hash-property", row.name)...)
				var qs []string
				for i := range 3 {
					q := fmt.Sprintf("%s-%d-%d", t.Q, n, i)
					ch.Queue(q)
					ch.Bind(q, name, "1")
					qs = append(qs, q)
				}
				send := func(p func(i int) wire.Properties) []int {
					return ch.shares(qs, 300, func(i int) (wire.BasicPublish, wire.Properties) {
						return wire.BasicPublish{Exchange: name, RoutingKey: fmt.Sprint(i)}, p(i)
					})
				}
				ch.wantShare(send(row.set), 1, 1, 1)
				ch.wantOne(send(func(int) wire.Properties { return row.set(7) }))
				ch.wantOne(send(func(int) wire.Properties { return wire.Properties{} }))
			}
		}),
		kase("hash-second-binding", "of two bindings of a queue the first one's weight counts", func(t *T, ch *Chan) {
			ch.Exchange(t.X, x)
			qs := ch.crowd(t.X, "1", "1")
			ch.Bind(qs[0], t.X, "50")
			ch.wantShare(ch.shares(qs, 600, func(i int) (wire.BasicPublish, wire.Properties) {
				return to(t, fmt.Sprint("key", i)), wire.Properties{}
			}), 1, 1)
		}),
		kase("hash-heavy", "4.3 bounds the weight at 10000", func(t *T, ch *Chan) {
			ch.Exchange(t.X, x)
			ch.Queue(t.Q)
			ch.Bind(t.Q, t.X, "10000")
			ch.Send(wire.QueueBind{Queue: t.Q, Exchange: t.X, RoutingKey: "10001"})
			if t.Four() {
				ch.WantClosing(soft(406, wire.QueueBind{}, "The binding key must not exceed 10000"))
				return
			}
			ch.Want(wire.QueueBindOk{})
		}),
		kase("hash-grows", "a queue that comes takes messages from the others and moves nothing else", func(t *T, ch *Chan) {
			ch.Exchange(t.X, x)
			qs := ch.crowd(t.X, "1", "1")
			place := func(key string) int {
				return ch.wantOne(ch.shares(qs, 1, func(int) (wire.BasicPublish, wire.Properties) { return to(t, key), wire.Properties{} }))
			}
			const keys = 30
			var before [keys]int
			for i := range keys {
				before[i] = place(fmt.Sprint("key", i))
			}
			ch.Queue(t.Q2)
			ch.Bind(t.Q2, t.X, "1")
			qs = append(qs, t.Q2)
			for i := range keys {
				if after := place(fmt.Sprint("key", i)); after != before[i] && after != 2 {
					t.Fatalf("key %d moved from queue %d to queue %d, which was there before", i, before[i], after)
				}
			}
		}),
		{ID: "choosing/hash-second-goes", Title: "of two bindings of a queue the second goes", Source: shareSource, Class: Extension,
			Difference: "hash-binding-left", Run: func(t *T) {
				ch := t.Channel()
				ch.Exchange(t.X, x)
				qs := ch.crowd(t.X, "1", "1")
				ch.Bind(qs[0], t.X, "50")
				ch.Call(wire.QueueUnbind{Queue: qs[0], Exchange: t.X, RoutingKey: "50"}, wire.QueueUnbindOk{})
				counts := ch.shares(qs, 600, func(i int) (wire.BasicPublish, wire.Properties) {
					return to(t, fmt.Sprint("key", i)), wire.Properties{}
				})
				if t.Differs() {
					ch.wantShare(counts, 1, 1)
					return
				}
				t.Equal("messages in the two queues", counts, []int{0, 600})
			}},
		kase("hash-empty", "without bindings a message is unroutable", func(t *T, ch *Chan) {
			ch.Exchange(t.X, x)
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: "k", Mandatory: true}, wire.Properties{}, "body")
			ch.WantReturn(Returned{312, "NO_ROUTE", t.X, "k", wire.Properties{}, "body"})
		}),
	}
}

func ptrTo[V any](v V) *V { return &v }

func randomCases() []Case {
	kase := func(id, title string, profiles []int, run func(t *T, ch *Chan)) Case {
		return Case{ID: "choosing/" + id, Title: title, Source: shareSource, Class: Extension, Profiles: profiles,
			Run: func(t *T) { run(t, t.Channel()) }}
	}
	same := func(t *T) func(int) (wire.BasicPublish, wire.Properties) {
		return func(int) (wire.BasicPublish, wire.Properties) {
			return wire.BasicPublish{Exchange: t.X, RoutingKey: "same"}, wire.Properties{}
		}
	}
	return []Case{
		kase("random-share", "x-random: each binding gets its share, whatever the key", nil, func(t *T, ch *Chan) {
			ch.Exchange(t.X, "x-random")
			ch.wantShare(ch.shares(ch.crowd(t.X, "a", "b", ""), 600, same(t)), 1, 1, 1)
		}),
		kase("random-twice", "x-random: a queue with two bindings gets two shares", nil, func(t *T, ch *Chan) {
			ch.Exchange(t.X, "x-random")
			qs := ch.crowd(t.X, "a", "a")
			ch.Bind(qs[1], t.X, "b")
			ch.wantShare(ch.shares(qs, 600, same(t)), 1, 2)
		}),
		kase("random-exchange", "x-random leads to exchanges too", nil, func(t *T, ch *Chan) {
			ch.Exchange(t.X, "x-random")
			ch.Exchange(t.X2, "fanout")
			qs := ch.crowd(t.X, "")
			ch.Call(wire.ExchangeBind{Destination: t.X2, Source: t.X}, wire.ExchangeBindOk{})
			qs = append(qs, t.Q2)
			ch.Queue(t.Q2)
			ch.Bind(t.Q2, t.X2, "")
			ch.wantShare(ch.shares(qs, 400, same(t)), 1, 1)
		}),
		kase("local-share", "x-local-random: each queue gets its share", []int{Profile4}, func(t *T, ch *Chan) {
			ch.Exchange(t.X, "x-local-random")
			ch.wantShare(ch.shares(ch.crowd(t.X, "", "", ""), 600, same(t)), 1, 1, 1)
		}),
		kase("modulus-sticky", "x-modulus-hash: one key, one queue, binding keys do not count", nil, func(t *T, ch *Chan) {
			ch.Exchange(t.X, "x-modulus-hash")
			qs := ch.crowd(t.X, "a", "b", "")
			first := ch.wantOne(ch.shares(qs, 30, same(t)))
			t.Equal("queue of the same key again", ch.wantOne(ch.shares(qs, 30, same(t))), first)
		}),
		kase("modulus-share", "x-modulus-hash: keys spread evenly", nil, func(t *T, ch *Chan) {
			ch.Exchange(t.X, "x-modulus-hash")
			ch.wantShare(ch.shares(ch.crowd(t.X, "", "", ""), 600, func(i int) (wire.BasicPublish, wire.Properties) {
				return wire.BasicPublish{Exchange: t.X, RoutingKey: fmt.Sprint("key", i)}, wire.Properties{}
			}), 1, 1, 1)
		}),
	}
}
