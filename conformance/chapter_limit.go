package conformance

import (
	"strings"

	"github.com/warrenmq/warren/conformance/wire"
)

// maxLength and maxBytes are the arguments that limit a queue.
func maxLength(n int64) wire.Field { return wire.Field{Key: "x-max-length", Value: n} }
func maxBytes(n int64) wire.Field  { return wire.Field{Key: "x-max-length-bytes", Value: n} }

// overflow is the argument that says what happens at the limit.
func overflow(mode string) wire.Field { return wire.Field{Key: "x-overflow", Value: mode} }

// wantReady gets all messages of a queue, which must be these.
func (ch *Chan) wantReady(q string, bodies ...string) {
	for i, b := range bodies {
		ch.WantGet(q, b, uint32(len(bodies)-1-i))
	}
	ch.WantEmpty(q)
}

func limitCases() []Case {
	return append(append(dropHeadCases(), limitRequeueCases()...), rejectPublishCases()...)
}

// dropHeadCases: the default, the oldest messages go.
func dropHeadCases() []Case {
	const source = "rabbitmq: queue length limits, behaviour 3.2"
	// keeps publishes bodies to an empty queue and demands what stays and, as dead letters, what goes.
	keeps := func(id, title string, arguments []wire.Field, bodies, stay, gone string) Case {
		return Case{ID: "limit/" + id, Title: title, Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(arguments...)
			ch.Confirm()
			sent := strings.Split(bodies, " ")
			ch.Publish("", t.Q, sent...)
			ch.WantConfirms(1, uint64(len(sent)))
			grave.WantBodies(strings.Fields(gone)...)
			ch.wantReady(t.Q, strings.Fields(stay)...)
			grave.Quiet()
		}}
	}
	one := func(f ...wire.Field) []wire.Field { return f }
	return []Case{
		keeps("length", "x-max-length: the oldest go, every publish is confirmed", one(maxLength(3)), "a b c d e", "c d e", "a b"),
		keeps("length-one", "x-max-length 1 keeps the newest", one(maxLength(1)), "a b c", "c", "a b"),
		keeps("length-zero", "x-max-length 0 keeps nothing", one(maxLength(0)), "a b", "", "a b"),
		keeps("drop-head", "x-overflow drop-head is the default", one(maxLength(2), overflow("drop-head")), "a b c", "b c", "a"),
		keeps("bytes", "x-max-length-bytes counts bodies", one(maxBytes(5)), "aa bb cc", "bb cc", "aa"),
		keeps("bytes-exact", "as many bytes as the limit may stay", one(maxBytes(4)), "aa bb", "aa bb", ""),
		keeps("bytes-several", "one large message may push out several", one(maxBytes(5)), "a b c dddd", "c dddd", "a b"),
		keeps("bytes-too-large", "a message above the limit goes at once, and so do all before it", one(maxBytes(3)), "a b cccc d", "d", "a b cccc"),
		keeps("both", "both limits hold: bytes", one(maxLength(5), maxBytes(3)), "a bb c", "bb c", "a"),
		keeps("both-length", "both limits hold: length", one(maxLength(2), maxBytes(30)), "a bb c", "bb c", "a"),
		keeps("huge", "a limit of 2^63-1", one(maxLength(1<<63-1), maxBytes(1<<63-1)), "a b", "a b", ""),
		{ID: "limit/bytes-zero", Title: "x-max-length-bytes 0 keeps empty bodies, until one that is not pushes them out", Source: source, Class: Extension,
			Run: func(t *T) {
				ch, grave := t.graveyard(maxBytes(0))
				ch.Publish("", t.Q, "a", "", "", "b", "")
				grave.WantBodies("a", "", "", "b")
				ch.wantReady(t.Q, "")
				grave.Quiet()
			}},
		{ID: "limit/bytes-body-only", Title: "properties do not count as bytes", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q, maxBytes(2))
			p := wire.Properties{MessageID: new(strings.Repeat("m", 200)), Headers: &wire.Table{{Key: "h", Value: strings.Repeat("v", 1000)}}}
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, p, "a")
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, p, "b")
			ch.wantReady(t.Q, "a", "b")
		}},
		{ID: "limit/unacked", Title: "unacknowledged messages do not count", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(maxLength(2))
			ch.Publish("", t.Q, "a", "b")
			ch.Get(t.Q, false)
			ch.Get(t.Q, false)
			ch.Publish("", t.Q, "c", "d")
			ch.WantCount(t.Q, 2, 0)
			grave.Quiet()
			ch.Publish("", t.Q, "e")
			grave.WantBodies("c")
		}},
		{ID: "limit/consumer", Title: "what a consumer takes does not count", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(maxLength(1))
			ch.Prefetch(3)
			ch.Consume(t.Q, "c")
			ch.Publish("", t.Q, "a", "b", "c", "d", "e")
			ch.WantBodies("a", "b", "c")
			grave.WantBodies("d")
			ch.Send(wire.BasicAck{DeliveryTag: 3, Multiple: true})
			ch.WantBodies("e")
		}},
		{ID: "limit/zero-consumer", Title: "x-max-length 0: a waiting consumer gets the message, otherwise it goes", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(maxLength(0))
			confirmed := ch.Conn.Chan(3)
			confirmed.Confirm()
			ch.Prefetch(1)
			ch.Consume(t.Q, "c")
			confirmed.Publish("", t.Q, "a", "b")
			ch.WantBodies("a")
			grave.WantBodies("b")
			confirmed.WantConfirms(1, 2)
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.Quiet()
		}},
		{ID: "limit/priority", Title: "in a priority queue the head is the highest priority", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(maxLength(2), wire.Field{Key: "x-max-priority", Value: int32(5)})
			ch.publishPriorities(t.Q, 1, 5, 3, 4)
			grave.WantBodies("b", "d")
			ch.wantReady(t.Q, "c", "a")
		}},
		{ID: "limit/purge", Title: "purged messages make room", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(maxLength(2))
			ch.Publish("", t.Q, "a", "b")
			ch.Call(wire.QueuePurge{Queue: t.Q}, wire.QueuePurgeOk{MessageCount: 2})
			ch.Publish("", t.Q, "c", "d")
			ch.wantReady(t.Q, "c", "d")
			grave.Quiet()
		}},
		{ID: "limit/tx", Title: "the limit holds for what a transaction commits", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(maxLength(2))
			ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
			ch.Publish("", t.Q, "a", "b", "c")
			ch.commit()
			grave.WantBodies("a")
			ch.WantCount(t.Q, 2, 0)
		}},
		{ID: "limit/durable", Title: "persistent messages to a durable queue: the oldest go, every publish is confirmed", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Durable: true, Arguments: wire.Table{maxLength(2)}})
			ch.Confirm()
			for _, b := range []string{"a", "b", "c", "d"} {
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{DeliveryMode: new(uint8(2))}, b)
			}
			ch.WantConfirms(1, 4)
			ch.wantReady(t.Q, "c", "d")
		}},
	}
}

// limitRequeueCases: messages that come back to a queue that has filled up meanwhile.
func limitRequeueCases() []Case {
	const source = "rabbitmq: queue length limits, behaviour 3.2"
	// back takes a and b, fills the queue with c and d, and lets a and b come back.
	back := func(id, title string, requeue func(ch *Chan), stay, gone []string, arguments ...wire.Field) Case {
		return Case{ID: "limit/" + id, Title: title, Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(arguments...)
			ch.Publish("", t.Q, "a", "b")
			ch.Get(t.Q, false)
			ch.Get(t.Q, false)
			ch.Publish("", t.Q, "c", "d")
			ch.WantCount(t.Q, 2, 0)
			requeue(ch)
			grave.WantBodies(gone...)
			ch.wantReady(t.Q, stay...)
			grave.Quiet()
		}}
	}
	nack := func(ch *Chan) { ch.Send(wire.BasicNack{DeliveryTag: 2, Multiple: true, Requeue: true}) }
	closing := func(ch *Chan) {
		ch.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
		ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
	}
	return []Case{
		back("requeue", "requeued messages above the limit go: they are the head", nack, []string{"c", "d"}, []string{"a", "b"}, maxLength(2)),
		back("requeue-partly", "as many go as are too many", nack, []string{"b", "c", "d"}, []string{"a"}, maxLength(3)),
		back("requeue-bytes", "the same by bytes", nack, []string{"b", "c", "d"}, []string{"a"}, maxBytes(3)),
		back("requeue-close", "the same when the channel closes", closing, []string{"c", "d"}, []string{"a", "b"}, maxLength(2)),
		back("requeue-reject-publish", "with overflow reject-publish requeued messages stay above the limit", nack, []string{"a", "b", "c", "d"}, nil, maxLength(2), overflow("reject-publish")),
		back("requeue-reject-publish-dlx", "and with reject-publish-dlx", nack, []string{"a", "b", "c", "d"}, nil, maxLength(2), overflow("reject-publish-dlx")),
		back("requeue-none", "without a limit all stay", nack, []string{"a", "b", "c", "d"}, nil),
	}
}

// WantSettled demands confirms for the publishes 1 to last, in any grouping and order: nacks for those named, acks for
// the others. A nack of the broker's has the requeue bit set.
func (ch *Chan) WantSettled(last uint64, nacked ...uint64) {
	open, want := map[uint64]bool{}, map[uint64]bool{}
	for n := uint64(1); n <= last; n++ {
		open[n] = true
	}
	for _, n := range nacked {
		want[n] = true
	}
	settle := func(tag uint64, multiple, nack bool) {
		if tag > last || !open[tag] {
			ch.t.Fatalf("confirm %d is not due", tag)
		}
		for n := range open {
			if n == tag || multiple && n < tag {
				if nack != want[n] {
					ch.t.Fatalf("publish %d: nack is %v, want %v", n, nack, want[n])
				}
				delete(open, n)
			}
		}
	}
	for len(open) > 0 {
		switch m := ch.next().(type) {
		case wire.BasicAck:
			settle(m.DeliveryTag, m.Multiple, false)
		case wire.BasicNack:
			ch.t.Equal("requeue bit", m.Requeue, true)
			settle(m.DeliveryTag, m.Multiple, true)
		default:
			ch.t.Fatalf("want a confirm, got %#v", m)
		}
	}
}

// rejectPublishCases: the newest messages are refused.
func rejectPublishCases() []Case {
	const source = "rabbitmq: queue length limits, behaviour 3.2, 2.7"
	var cases []Case
	for _, mode := range []string{"reject-publish", "reject-publish-dlx"} {
		// refuses publishes bodies to an empty queue and demands what stays; the publishes named are nacked and, with
		// -dlx, are dead letters.
		refuses := func(id, title string, limit []wire.Field, bodies string, stay string, nacked ...uint64) Case {
			return Case{ID: "overflow/" + mode + "-" + id, Title: mode + ": " + title, Source: source, Class: Extension, Run: func(t *T) {
				ch, grave := t.graveyard(append(limit, overflow(mode))...)
				ch.Confirm()
				sent := strings.Split(bodies, " ")
				ch.Publish("", t.Q, sent...)
				ch.WantSettled(uint64(len(sent)), nacked...)
				for _, n := range nacked {
					if mode == "reject-publish-dlx" {
						got := grave.Delivery()
						t.Equal("dead letter", got.Body, sent[n-1])
						t.wantDead(got.Properties, deadHeaders{deaths: []Death{t.died("maxlen")}})
					}
				}
				ch.wantReady(t.Q, strings.Fields(stay)...)
				grave.Quiet()
			}}
		}
		one := func(f ...wire.Field) []wire.Field { return f }
		// dead demands dead letters where the mode makes them.
		dead := func(grave *Chan, bodies ...string) {
			if mode == "reject-publish-dlx" {
				grave.WantBodies(bodies...)
			}
		}
		cases = append(cases,
			refuses("length", "a full queue refuses with basic.nack", one(maxLength(2)), "a b c d", "a b", 3, 4),
			refuses("bytes", "refused is what would exceed the limit in bytes; a smaller one may still fit", one(maxBytes(3)), "aa bb c d", "aa c", 2, 4),
			refuses("bytes-large", "a message above the limit in bytes never fits", one(maxBytes(3)), "bbbb a bbbb c", "a c", 1, 3),
			refuses("zero", "x-max-length 0 refuses everything", one(maxLength(0)), "a b", "", 1, 2),
			refuses("bytes-zero", "x-max-length-bytes 0 refuses everything", one(maxBytes(0)), "a b", "", 1, 2),
			Case{ID: "overflow/" + mode + "-room", Title: mode + ": a queue that has room again takes messages", Source: source, Class: Extension, Run: func(t *T) {
				ch, grave := t.graveyard(maxLength(1), overflow(mode))
				ch.Confirm()
				ch.Publish("", t.Q, "a", "b")
				ch.WantSettled(2, 2)
				ch.WantGet(t.Q, "a", 0)
				ch.Publish("", t.Q, "c")
				ch.Want(wire.BasicAck{DeliveryTag: 3})
				ch.Get(t.Q, false)
				ch.Publish("", t.Q, "d")
				ch.Want(wire.BasicAck{DeliveryTag: 4})
				dead(grave, "b")
				grave.Quiet()
			}},
			Case{ID: "overflow/" + mode + "-silent", Title: mode + ": without confirms a refused message vanishes, mandatory or not", Source: source, Class: Extension,
				Run: func(t *T) {
					ch, grave := t.graveyard(maxLength(1), overflow(mode))
					ch.Publish("", t.Q, "a", "b")
					ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q, Mandatory: true}, wire.Properties{}, "c")
					dead(grave, "b", "c")
					ch.wantReady(t.Q, "a")
				}},
			Case{ID: "overflow/" + mode + "-several", Title: mode + ": one of several queues refuses: one nack, the others keep their copies", Source: source,
				Class: Extension, Run: func(t *T) {
					ch, grave := t.graveyard(maxLength(0), overflow(mode))
					for _, q := range []string{t.Q, t.Q + "-2"} {
						ch.Call(wire.QueueDeclare{Queue: t.Q + "-2", Exclusive: true}, wire.QueueDeclareOk{Queue: t.Q + "-2"})
						ch.Bind(q, "amq.direct", t.Key)
					}
					ch.Confirm()
					ch.Publish("amq.direct", t.Key, "a")
					ch.WantSettled(1, 1)
					ch.WantGet(t.Q+"-2", "a", 0)
					dead(grave, "a")
				}},
			Case{ID: "overflow/" + mode + "-consumer", Title: mode + ": what a consumer has does not count", Source: source, Class: Extension, Run: func(t *T) {
				ch, grave := t.graveyard(maxLength(1), overflow(mode))
				two := ch.Conn.Chan(3)
				two.Prefetch(2)
				two.Consume(t.Q, "c")
				ch.Confirm()
				ch.Publish("", t.Q, "a", "b", "c", "d")
				two.WantBodies("a", "b")
				ch.WantSettled(4, 4)
				dead(grave, "d")
			}},
			Case{ID: "overflow/" + mode + "-zero-consumer", Title: mode + ": x-max-length 0 refuses even while a consumer waits", Source: source, Class: Extension, Run: func(t *T) {
				ch, grave := t.graveyard(maxLength(0), overflow(mode))
				two := ch.Conn.Chan(3)
				two.Consume(t.Q, "c")
				ch.Confirm()
				ch.Publish("", t.Q, "a")
				ch.WantSettled(1, 1)
				dead(grave, "a")
				two.Quiet()
			}},
			Case{ID: "overflow/" + mode + "-priority", Title: mode + ": priorities make no difference", Source: source, Class: Extension, Run: func(t *T) {
				ch, grave := t.graveyard(maxLength(2), overflow(mode), wire.Field{Key: "x-max-priority", Value: int32(5)})
				ch.Confirm()
				ch.publishPriorities(t.Q, 1, 0, 5)
				ch.WantSettled(3, 3)
				dead(grave, "c")
				ch.wantReady(t.Q, "a", "b")
			}},
			Case{ID: "overflow/" + mode + "-tx", Title: mode + ": a transaction whose message is refused fails at commit", Source: "behaviour 2.8", Class: Extension,
				Difference: "tx-whole", Run: func(t *T) {
					ch, grave := t.graveyard(maxLength(1), overflow(mode))
					ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
					ch.Publish("", t.Q, "a", "b")
					ch.Send(wire.TxCommit{})
					ch.WantClosing(soft(406, wire.TxCommit{}, "partial tx completion"))
					if t.Differs() {
						ch.WantEmpty(t.Q)
						grave.Quiet()
						return
					}
					dead(grave, "b")
					ch.wantReady(t.Q, "a")
				}},
			Case{ID: "overflow/" + mode + "-persistent", Title: mode + ": durable queue, persistent messages", Source: source, Class: Extension, Run: func(t *T) {
				ch := t.Channel()
				ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Durable: true, Arguments: wire.Table{maxLength(3), overflow(mode)}})
				ch.Confirm()
				for range 20 {
					ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{DeliveryMode: new(uint8(2))}, "a")
				}
				var refused []uint64
				for n := uint64(4); n <= 20; n++ {
					refused = append(refused, n)
				}
				ch.WantSettled(20, refused...)
				ch.wantReady(t.Q, "a", "a", "a")
			}})
	}
	return cases
}
