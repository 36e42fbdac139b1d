package conformance

import "github.com/warrenmq/warren/conformance/wire"

func getCases() []Case {
	const source = "spec basic.get, behaviour 2.6"
	return append(refusals(Core, []refusal{
		{"get/queue-missing", "getting from a missing queue", source, func(t *T, ch *Chan) { ch.Send(wire.BasicGet{Queue: t.Q}) },
			soft(404, wire.BasicGet{}, "no {q}"), closing{}},
	}),
		Case{ID: "get/empty", Title: "an empty queue: get-empty with an empty cluster-id", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.WantEmpty(t.Q)
		}},
		Case{ID: "get/fields", Title: "get-ok names exchange, key and how many ready messages are left", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "fanout")
			ch.Bind(t.Q, t.X, "")
			ch.Publish(t.X, "k", "a", "b", "c")
			t.Equal("first", ch.Get(t.Q, false), Got{Tag: 1, Exchange: t.X, Key: "k", Left: 2, Body: "a"})
			t.Equal("second", ch.Get(t.Q, false), Got{Tag: 2, Exchange: t.X, Key: "k", Left: 1, Body: "b"})
			t.Equal("third", ch.Get(t.Q, true), Got{Tag: 3, Exchange: t.X, Key: "k", Body: "c"})
			ch.WantEmpty(t.Q)
		}},
		Case{ID: "get/no-ack", Title: "a message got without acknowledgement is gone", Source: source, Class: Core, Run: func(t *T) {
			c := t.Connect()
			ch := c.Chan(1)
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a")
			ch.WantGet(t.Q, "a", 0)
			ch.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
			c.Chan(2).WantCount(t.Q, 0, 0)
		}},
		Case{ID: "get/exclusively-consumed", Title: "getting from an exclusively consumed queue is allowed", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Prefetch(1)
			ch.Call(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", Exclusive: true}, wire.BasicConsumeOk{ConsumerTag: "c"})
			ch.Publish("", t.Q, "a", "b")
			ch.WantBodies("a")
			ch.WantGet(t.Q, "b", 0)
		}},
		Case{ID: "get/pipelined", Title: "gets in one write are answered in order", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a")
			ch.Send(wire.BasicGet{Queue: t.Q, NoAck: true}, wire.BasicGet{Queue: t.Q, NoAck: true})
			ch.Want(wire.BasicGetOk{DeliveryTag: 1, RoutingKey: t.Q})
			ch.Content()
			ch.Want(wire.BasicGetEmpty{})
		}},
	)
}

// three publishes a, b and c to Q and gets them unacknowledged, with tags 1 to 3.
func three(t *T, ch *Chan) {
	ch.Queue(t.Q)
	ch.Publish("", t.Q, "a", "b", "c")
	for range 3 {
		ch.Get(t.Q, false)
	}
}

// unknownTags are settlements of tags that are not outstanding.
func unknownTags() []refusal {
	ack, nack, reject := wire.BasicAck{}, wire.BasicNack{}, wire.BasicReject{}
	send := func(ms ...wire.Method) func(*T, *Chan) {
		return func(t *T, ch *Chan) {
			three(t, ch)
			ch.Send(ms...)
		}
	}
	const source = "spec basic.ack, behaviour 2.6"
	return []refusal{
		{"ack/unknown", "ack of a tag never issued", source, send(wire.BasicAck{DeliveryTag: 9}), soft(406, ack, "unknown delivery tag 9"), closing{}},
		{"ack/largest", "ack of the largest tag there is", source, send(wire.BasicAck{DeliveryTag: 1<<64 - 1}),
			soft(406, ack, "unknown delivery tag 18446744073709551615"), closing{}},
		{"ack/twice", "ack twice", source, send(wire.BasicAck{DeliveryTag: 1}, wire.BasicAck{DeliveryTag: 1}),
			soft(406, ack, "unknown delivery tag 1"), closing{}},
		{"ack/zero", "ack of tag 0 without multiple", source, send(wire.BasicAck{}), soft(406, ack, "unknown delivery tag 0"), closing{}},
		{"ack/multiple-unknown", "multiple ack up to a tag never issued", source, send(wire.BasicAck{DeliveryTag: 9, Multiple: true}),
			soft(406, ack, "unknown delivery tag 9"), closing{}},
		{"ack/multiple-settled", "multiple ack up to a tag that is settled", source,
			send(wire.BasicAck{DeliveryTag: 2}, wire.BasicAck{DeliveryTag: 2, Multiple: true}), soft(406, ack, "unknown delivery tag 2"), closing{}},
		{"ack/no-ack-message", "ack of a message that wants none", source, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a")
			ch.WantGet(t.Q, "a", 0)
			ch.Send(wire.BasicAck{DeliveryTag: 1})
		}, soft(406, ack, "unknown delivery tag 1"), closing{}},
		{"ack/other-channel", "ack on another channel", source, func(t *T, ch *Chan) {
			three(t, ch.Conn.Chan(2))
			ch.Send(wire.BasicAck{DeliveryTag: 1})
		}, soft(406, ack, "unknown delivery tag 1"), closing{}},
		{"nack/unknown", "nack of a tag never issued", source, send(wire.BasicNack{DeliveryTag: 9}), soft(406, nack, "unknown delivery tag 9"), closing{}},
		{"nack/zero", "nack of tag 0 without multiple", source, send(wire.BasicNack{}), soft(406, nack, "unknown delivery tag 0"), closing{}},
		{"nack/multiple-unknown", "multiple nack up to a tag never issued", source, send(wire.BasicNack{DeliveryTag: 9, Multiple: true}),
			soft(406, nack, "unknown delivery tag 9"), closing{}},
		{"nack/after-ack", "nack of an acknowledged tag", source, send(wire.BasicAck{DeliveryTag: 3}, wire.BasicNack{DeliveryTag: 3}),
			soft(406, nack, "unknown delivery tag 3"), closing{}},
		{"reject/unknown", "reject of a tag never issued", source, send(wire.BasicReject{DeliveryTag: 9}), soft(406, reject, "unknown delivery tag 9"), closing{}},
		{"reject/zero", "reject of tag 0", source, send(wire.BasicReject{}), soft(406, reject, "unknown delivery tag 0"), closing{}},
		{"reject/after-reject", "reject twice", source, send(wire.BasicReject{DeliveryTag: 1}, wire.BasicReject{DeliveryTag: 1}),
			soft(406, reject, "unknown delivery tag 1"), closing{}},
	}
}

// settling: after three, send methods; then what is ready must be these bodies in order, each redelivered.
func settling(id, title string, class Class, ms []wire.Method, ready ...string) Case {
	return Case{ID: id, Title: title, Source: "spec basic.ack, behaviour 2.6", Class: class, Run: func(t *T) {
		ch := t.Channel()
		three(t, ch)
		ch.Send(ms...)
		ch.WantCount(t.Q, uint32(len(ready)), 0)
		for i, body := range ready {
			t.Equal("message", ch.Get(t.Q, true),
				Got{Tag: uint64(4 + i), Redelivered: true, Key: t.Q, Left: uint32(len(ready) - 1 - i), Body: body})
		}
		ch.WantEmpty(t.Q)
	}}
}

func ackCases() []Case {
	ms := func(m ...wire.Method) []wire.Method { return m }
	cases := refusals(Core, unknownTags())
	return append(cases,
		settling("ack/one", "ack settles one", Core, ms(wire.BasicAck{DeliveryTag: 2}, wire.BasicNack{Multiple: true, Requeue: true}), "a", "c"),
		settling("ack/multiple", "multiple ack settles all up to the tag", Core,
			ms(wire.BasicAck{DeliveryTag: 2, Multiple: true}, wire.BasicNack{Multiple: true, Requeue: true}), "c"),
		settling("ack/multiple-gaps", "multiple ack passes over tags that are settled", Core,
			ms(wire.BasicAck{DeliveryTag: 2}, wire.BasicAck{DeliveryTag: 3, Multiple: true})),
		settling("ack/multiple-zero", "multiple ack of tag 0 settles all", Core, ms(wire.BasicAck{Multiple: true})),
		settling("ack/multiple-zero-none", "multiple ack and nack of tag 0 with nothing outstanding are ok", Core,
			ms(wire.BasicAck{Multiple: true}, wire.BasicAck{Multiple: true}, wire.BasicNack{Multiple: true, Requeue: true})),
		settling("ack/out-of-order", "acks may come in any order", Core,
			ms(wire.BasicAck{DeliveryTag: 3}, wire.BasicAck{DeliveryTag: 1}, wire.BasicAck{DeliveryTag: 2})),
		settling("nack/requeue", "nack with requeue brings one back", Extension, ms(wire.BasicNack{DeliveryTag: 2, Requeue: true}), "b"),
		settling("nack/requeue-multiple", "multiple nack with requeue brings all back, in their order", Extension,
			ms(wire.BasicNack{DeliveryTag: 3, Multiple: true, Requeue: true}), "a", "b", "c"),
		settling("nack/requeue-order", "messages go back to their places, whatever the order of the nacks", Extension,
			ms(wire.BasicNack{DeliveryTag: 3, Requeue: true}, wire.BasicNack{DeliveryTag: 1, Requeue: true}, wire.BasicNack{DeliveryTag: 2, Requeue: true}),
			"a", "b", "c"),
		settling("nack/drop", "nack without requeue drops", Extension, ms(wire.BasicNack{DeliveryTag: 3, Multiple: true})),
		settling("nack/multiple-part", "multiple nack leaves the tags above alone", Extension,
			ms(wire.BasicNack{DeliveryTag: 2, Multiple: true, Requeue: true}), "a", "b"),
		settling("reject/requeue", "reject with requeue brings one back", Core, ms(wire.BasicReject{DeliveryTag: 1, Requeue: true}), "a"),
		settling("reject/drop", "reject without requeue drops", Core, ms(wire.BasicReject{DeliveryTag: 1}), []string{}...),
		Case{ID: "ack/failed-multiple-keeps", Title: "a refused multiple ack settles nothing: the lower tags are requeued", Source: "behaviour 2.6", Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				three(t, ch)
				ch.Send(wire.BasicAck{DeliveryTag: 9, Multiple: true})
				ch.WantClosing(soft(406, wire.BasicAck{}, "unknown delivery tag 9"))
				ch.WantCount(t.Q, 3, 0)
			}},
		Case{ID: "requeue/between-ready", Title: "requeued messages take their places among the ready ones", Source: "behaviour 2.6", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			three(t, ch)
			ch.Publish("", t.Q, "d")
			ch.Send(wire.BasicNack{DeliveryTag: 3, Requeue: true}, wire.BasicReject{DeliveryTag: 2, Requeue: true})
			ch.WantGet(t.Q, "b", 2)
			ch.WantGet(t.Q, "c", 1)
			ch.WantGet(t.Q, "d", 0)
		}},
		Case{ID: "requeue/sole-consumer", Title: "a requeued message comes back to the sole consumer at once, marked", Source: "behaviour 2.6", Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q)
				ch.Consume(t.Q, "c")
				ch.Publish("", t.Q, "a")
				ch.WantDelivery(Delivery{Consumer: "c", Tag: 1, Key: t.Q, Body: "a"})
				for n := uint64(1); n < 4; n++ {
					ch.Send(wire.BasicReject{DeliveryTag: n, Requeue: true})
					ch.WantDelivery(Delivery{Consumer: "c", Tag: n + 1, Redelivered: true, Key: t.Q, Body: "a"})
				}
			}},
		Case{ID: "requeue/other-consumer", Title: "a requeued message may go to another consumer", Source: "behaviour 2.6", Class: Core, Run: func(t *T) {
			c := t.Connect()
			one, two := c.Chan(1), c.Chan(2)
			one.Queue(t.Q)
			one.Prefetch(1)
			one.Consume(t.Q, "one")
			one.Publish("", t.Q, "a")
			one.WantBodies("a")
			one.Call(wire.BasicCancel{ConsumerTag: "one"}, wire.BasicCancelOk{ConsumerTag: "one"})
			two.Consume(t.Q, "two")
			two.Quiet()
			one.Send(wire.BasicNack{DeliveryTag: 1, Requeue: true})
			two.WantDelivery(Delivery{Consumer: "two", Tag: 1, Redelivered: true, Key: t.Q, Body: "a"})
		}},
	)
}

func recoverCases() []Case {
	const source = "spec basic.recover, behaviour 2.6"
	return append(refusals(Core, []refusal{
		{"recover/no-requeue", "recover without requeue", source, func(t *T, ch *Chan) { ch.Send(wire.BasicRecover{}) },
			hard(540, wire.BasicRecover{}, "requeue=false"), closing{}},
		{"recover/async-no-requeue", "recover-async without requeue", source,
			func(t *T, ch *Chan) { ch.Send(wire.BasicRecoverAsync{}) }, hard(540, wire.BasicRecoverAsync{}, "requeue=false"), closing{}},
		{"recover/old-tags", "the old tags are unknown afterwards", source, func(t *T, ch *Chan) {
			three(t, ch)
			ch.Call(wire.BasicRecover{Requeue: true}, wire.BasicRecoverOk{})
			ch.Send(wire.BasicAck{DeliveryTag: 2})
		}, soft(406, wire.BasicAck{}, "unknown delivery tag 2"), closing{}},
	}),
		Case{ID: "recover/redelivers", Title: "recover-ok first, then the messages again in queue order, marked, with new tags", Source: source, Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q)
				ch.Consume(t.Q, "c")
				ch.Publish("", t.Q, "a", "b")
				ch.WantBodies("a", "b")
				ch.Call(wire.BasicRecover{Requeue: true}, wire.BasicRecoverOk{})
				ch.WantDelivery(Delivery{Consumer: "c", Tag: 3, Redelivered: true, Key: t.Q, Body: "a"})
				ch.WantDelivery(Delivery{Consumer: "c", Tag: 4, Redelivered: true, Key: t.Q, Body: "b"})
			}},
		Case{ID: "recover/async", Title: "recover-async does the same without an answer", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			three(t, ch)
			ch.Send(wire.BasicRecoverAsync{Requeue: true})
			ch.WantCount(t.Q, 3, 0)
			t.Equal("message", ch.Get(t.Q, true), Got{Tag: 4, Redelivered: true, Key: t.Q, Left: 2, Body: "a"})
		}},
		Case{ID: "recover/nothing", Title: "recover with nothing outstanding is ok", Source: source, Class: Core, Run: func(t *T) {
			t.Channel().Call(wire.BasicRecover{Requeue: true}, wire.BasicRecoverOk{})
		}},
		Case{ID: "recover/only-this-channel", Title: "recover is about its own channel", Source: source, Class: Core, Run: func(t *T) {
			c := t.Connect()
			one, two := c.Chan(1), c.Chan(2)
			three(t, one)
			two.Call(wire.BasicRecover{Requeue: true}, wire.BasicRecoverOk{})
			two.WantCount(t.Q, 0, 0)
			one.Send(wire.BasicAck{DeliveryTag: 3, Multiple: true})
			one.WantCount(t.Q, 0, 0)
		}},
	)
}
