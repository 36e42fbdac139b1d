package conformance

import (
	"fmt"
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// streamQueue declares a stream.
func (ch *Chan) streamQueue(q string, arguments ...wire.Field) {
	ch.DeclareQueue(wire.QueueDeclare{Queue: q, Durable: true,
		Arguments: append(wire.Table{{Key: "x-queue-type", Value: "stream"}}, arguments...)})
}

// streamOf opens a channel in confirm mode with a stream that holds bodies, each in a chunk of its own.
func (t *T) streamOf(bodies ...string) *Chan {
	ch := t.Channel()
	ch.streamQueue(t.Q)
	ch.Confirm()
	for i, b := range bodies {
		ch.Publish("", t.Q, b)
		ch.WantConfirms(uint64(i+1), uint64(i+1))
	}
	return ch
}

// offset is the argument that says where a consumer begins.
func offset(v any) wire.Field { return wire.Field{Key: "x-stream-offset", Value: v} }

// streamDelivery demands a delivery from a stream.
func (ch *Chan) streamDelivery(offset int64, body string) Delivery {
	d := ch.Delivery()
	ch.t.Equal("delivery", []any{d.Body, d.Redelivered, d.streamOffset()}, []any{body, false, offset})
	return d
}

// streamOffset is the value of the header x-stream-offset; nil when it is absent.
func (d Delivery) streamOffset() any {
	if d.Properties.Headers == nil {
		return nil
	}
	for _, f := range *d.Properties.Headers {
		if f.Key == "x-stream-offset" {
			return f.Value
		}
	}
	return nil
}

// wantFrom demands deliveries of bodies with rising offsets.
func (ch *Chan) wantFrom(offset int64, bodies ...string) {
	for i, b := range bodies {
		ch.streamDelivery(offset+int64(i), b)
	}
}

// awaitMessages waits until declare-ok counts so many messages; RabbitMQ is some seconds late. It counts no consumer.
func (ch *Chan) awaitMessages(q string, enough func(n uint32) bool) {
	var got wire.QueueDeclareOk
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(getInterval) {
		ch.Send(wire.QueueDeclare{Queue: q, Passive: true})
		if got = ch.wantType(got).(wire.QueueDeclareOk); enough(got.MessageCount) {
			ch.t.Equal("consumers", got.ConsumerCount, uint32(0))
			return
		}
	}
	ch.t.Fatalf("the stream has %d messages", got.MessageCount)
}

const streamSource = "rabbitmq: streams, behaviour 8.2"

func streamCases() []Case {
	return append(append(append(append(streamRefusals(), streamOffsetCases()...), streamReadCases()...), streamQosCases()...), streamFilterCases()...)
}

// streamRefusals: what streams do not do.
func streamRefusals() []Case {
	with := func(m wire.Method, prefetch uint16) func(t *T, ch *Chan) {
		return func(t *T, ch *Chan) {
			ch.streamQueue(t.Q)
			if prefetch > 0 {
				ch.Prefetch(prefetch)
			}
			switch m := m.(type) {
			case wire.BasicConsume:
				m.Queue = t.Q
				ch.Send(m)
			case wire.BasicGet:
				m.Queue = t.Q
				ch.Send(m)
			case wire.QueuePurge:
				m.Queue = t.Q
				ch.Send(m)
			}
		}
	}
	from := func(v any) wire.BasicConsume { return wire.BasicConsume{Arguments: wire.Table{offset(v)}} }
	consume := wire.BasicConsume{}
	noPrefetch3, noPrefetch4 := soft(406, consume, "consumer prefetch count is not set for '{q}'"), soft(406, consume, "consumer prefetch count is not set for stream {q}")
	bogus := soft(406, consume, "invalid arg 'x-stream-offset' for {q}: {invalid_stream_offset_arg,{longstr,<<\"bogus\">>}}")
	crash := hard(541, nil, "")
	const s = streamSource + ", 2.3, 2.4, 2.6"
	return refusals(Extension, []refusal{
		{"stream/get", "basic.get", s, with(wire.BasicGet{}, 0), hard(540, wire.BasicGet{}, "basic.get not supported by stream queues {q}"), closing{}},
		{"stream/purge", "queue.purge", s, with(wire.QueuePurge{}, 0), hard(540, wire.QueuePurge{}, "queue.purge not supported by stream queues {q}"), closing{}},
		{"stream/no-prefetch", "consume without a prefetch", s, with(consume, 0), noPrefetch3, noPrefetch4},
		{"stream/no-ack-no-prefetch", "the prefetch is checked before no-ack", s, with(wire.BasicConsume{NoAck: true}, 0), noPrefetch3, noPrefetch4},
		{"stream/no-ack", "consume without acknowledgement", s, with(wire.BasicConsume{NoAck: true}, 5),
			hard(540, consume, "automatic acknowledgement not supported by stream queues {q}"), hard(540, consume, "automatic acknowledgement not supported by stream {q}")},
		{"stream/offset-bogus", "an offset that is none", s, with(from("bogus"), 5), crash, bogus},
		{"stream/offset-before-no-ack", "the offset is checked before no-ack", s,
			with(wire.BasicConsume{NoAck: true, Arguments: wire.Table{offset("bogus")}}, 5), crash, bogus},
		{"stream/offset-bool", "an offset of type bool", s, with(from(true), 5), crash, closing{}},
		{"stream/offset-double", "an offset of type double", s, with(from(1.5), 5), crash, closing{}},
		{"stream/priority", "x-priority of a consumer", s, with(wire.BasicConsume{Arguments: wire.Table{{Key: "x-priority", Value: int32(1)}}}, 5),
			soft(406, consume, "invalid arg 'x-priority' for {q} of queue type rabbit_stream_queue"), closing{}},
	})
}

// streamOffsetCases: where consumers begin.
func streamOffsetCases() []Case {
	begins := func(id, title string, from wire.Field, at int64, bodies ...string) Case {
		return Case{ID: "stream/" + id, Title: title, Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a", "b", "c", "d")
			ch.Prefetch(100)
			ch.Consume(t.Q, "c", from)
			ch.wantFrom(at, bodies...)
			// Nothing before what comes next.
			ch.Publish("", t.Q, "e")
			for confirmed, got := false, false; !confirmed || !got; {
				switch m := ch.next().(type) {
				case wire.BasicAck:
					confirmed = true
				case wire.BasicDeliver:
					_, body := ch.Content()
					t.Equal("next body", body, "e")
					got = true
				default:
					t.Fatalf("want a delivery and a confirm, got %#v", m)
				}
			}
		}}
	}
	return []Case{
		begins("first", "x-stream-offset first", offset("first"), 0, "a", "b", "c", "d"),
		begins("last", "x-stream-offset last: the last chunk", offset("last"), 3, "d"),
		begins("next", "x-stream-offset next", offset("next"), 4),
		begins("absent", "without x-stream-offset: next", wire.Field{Key: "x-unknown", Value: true}, 4),
		begins("number", "an offset", offset(int64(2)), 2, "c", "d"),
		begins("number-byte", "an offset of another integer type", offset(int8(1)), 1, "b", "c", "d"),
		begins("number-negative", "a negative offset is the first", offset(int64(-1)), 0, "a", "b", "c", "d"),
		begins("interval", "an interval: not older than that", offset("1h"), 0, "a", "b", "c", "d"),
		begins("timestamp-old", "a timestamp before the first chunk", offset(wire.Timestamp(0)), 0, "a", "b", "c", "d"),
		begins("timestamp-future", "a timestamp after the last chunk is next", offset(wire.Timestamp(uint64(time.Now().Add(time.Hour).Unix()))), 4),
		{ID: "stream/number-beyond", Title: "an offset that is not there yet is waited for", Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a", "b")
			reader := ch.Conn.Chan(2)
			reader.Prefetch(10)
			reader.Consume(t.Q, "c", offset(int64(4)))
			for i, b := range []string{"c", "d", "e", "f"} {
				ch.Publish("", t.Q, b)
				ch.WantConfirms(uint64(i+3), uint64(i+3))
			}
			reader.wantFrom(4, "e", "f")
		}},
		{ID: "stream/timestamp", Title: "a timestamp: the first chunk that is not older", Source: streamSource, Class: Timing, Run: func(t *T) {
			ch := t.streamOf("a", "b")
			time.Sleep(2100 * time.Millisecond)
			mark := wire.Timestamp(uint64(time.Now().Add(-500 * time.Millisecond).Unix()))
			ch.Publish("", t.Q, "c")
			ch.WantConfirms(3, 3)
			ch.Prefetch(10)
			ch.Consume(t.Q, "c", offset(mark))
			ch.wantFrom(2, "c")
			ch.Quiet()
		}},
		{ID: "stream/empty", Title: "on an empty stream every offset is the next message", Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf()
			var readers []*Chan
			for i, v := range []any{"first", "last", "next", "1h", wire.Timestamp(0), int64(0)} {
				r := ch.Conn.Chan(uint16(i + 2))
				r.Prefetch(10)
				r.Consume(t.Q, "c", offset(v))
				readers = append(readers, r)
			}
			ch.Publish("", t.Q, "a", "b")
			ch.WantConfirms(1, 2)
			for _, r := range readers {
				r.wantFrom(0, "a", "b")
			}
		}},
	}
}

// streamReadCases: what consumers get.
func streamReadCases() []Case {
	return []Case{
		{ID: "stream/many", Title: "a stream is read again by each consumer, from any offset", Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a", "b", "c")
			for i := range int64(3) {
				r := ch.Conn.Chan(uint16(i + 2))
				r.Prefetch(10)
				r.Consume(t.Q, "c", offset(i))
				r.wantFrom(i, []string{"a", "b", "c"}[i:]...)
				r.Send(wire.BasicAck{Multiple: true})
			}
			r := t.Channel()
			r.Prefetch(10)
			r.Consume(t.Q, "again", offset("first"))
			r.wantFrom(0, "a", "b", "c")
		}},
		{ID: "stream/last-chunk", Title: "last is a whole chunk: all that one publish batch brought, or its end", Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a")
			ch.Publish("", t.Q, "b", "c", "d", "e", "f", "g", "h", "i")
			ch.WantConfirms(2, 9)
			ch.Prefetch(100)
			ch.Consume(t.Q, "c", offset("last"))
			d := ch.Delivery()
			at, _ := d.streamOffset().(int64)
			if at < 1 || at > 8 || d.Body != string(rune('a'+at)) {
				t.Fatalf("the last chunk begins with %q at %v", d.Body, d.streamOffset())
			}
			for ; at < 8; at++ {
				ch.streamDelivery(at+1, string(rune('b'+at)))
			}
		}},
		{ID: "stream/headers", Title: "x-stream-offset is added to the headers and replaces the publisher's", Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf()
			for i, h := range []*wire.Table{nil, {}, {{Key: "a", Value: "1"}, {Key: "z", Value: int32(2)}}, {{Key: "x-stream-offset", Value: "mine"}}} {
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Headers: h, DeliveryMode: new(uint8(2)), AppID: new("app")}, "m")
				ch.WantConfirms(uint64(i+1), uint64(i+1))
			}
			ch.Prefetch(10)
			ch.Consume(t.Q, "c", offset("first"))
			for i, want := range []wire.Table{{}, {}, {{Key: "a", Value: "1"}, {Key: "x-stream-offset", Value: int64(2)}, {Key: "z", Value: int32(2)}}, {}} {
				if len(want) == 0 {
					want = wire.Table{{Key: "x-stream-offset", Value: int64(i)}}
				}
				t.Equal("properties", ch.Delivery().Properties, wire.Properties{Headers: &want, DeliveryMode: new(uint8(2)), AppID: new("app")})
			}
		}},
		{ID: "stream/delivery-mode", Title: "4.3 delivers a message without delivery mode with 1", Source: "rabbitmq: streams, behaviour 0.30", Class: Extension, Run: func(t *T) {
			ch := t.streamOf("m")
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Priority: new(uint8(3)), ContentType: new("t")}, "n")
			ch.WantConfirms(2, 2)
			ch.Prefetch(10)
			ch.Consume(t.Q, "c", offset("first"))
			var mode *uint8
			if t.Four() {
				mode = new(uint8(1))
			}
			for i, want := range []wire.Properties{{}, {Priority: new(uint8(3)), ContentType: new("t")}} {
				want.Headers, want.DeliveryMode = &wire.Table{{Key: "x-stream-offset", Value: int64(i)}}, mode
				t.Equal("properties", ch.Delivery().Properties, want)
			}
		}},
		{ID: "stream/routing", Title: "exchanges and bindings route to a stream as to a queue; confirms and mandatory too", Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf()
			ch.Exchange(t.X, "topic")
			ch.Queue(t.Q2)
			ch.Bind(t.Q, t.X, "a.#")
			ch.Bind(t.Q2, t.X, "#.b")
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: "a.b", Mandatory: true}, wire.Properties{}, "both")
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: "a", Mandatory: true}, wire.Properties{}, "stream")
			ch.WantConfirms(1, 2)
			ch.WantGet(t.Q2, "both", 0)
			ch.Prefetch(10)
			ch.Consume(t.Q, "c", offset("first"))
			t.Equal("exchange and key", fmt.Sprint(ch.streamDelivery(0, "both").Exchange == t.X, " ", ch.streamDelivery(1, "stream").Key), "true a")
		}},
		{ID: "stream/tx", Title: "a transaction's messages are in the stream after its commit", Source: streamSource + ", 2.8", Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.streamQueue(t.Q)
			ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
			ch.Publish("", t.Q, "gone")
			ch.Call(wire.TxRollback{}, wire.TxRollbackOk{})
			ch.Publish("", t.Q, "a", "b")
			ch.commit()
			r := ch.Conn.Chan(2)
			r.Prefetch(10)
			r.Consume(t.Q, "c", offset("first"))
			r.wantFrom(0, "a", "b")
		}},
		{ID: "stream/expiration", Title: "nothing expires in a stream", Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf()
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Expiration: new("0")}, "m")
			ch.WantConfirms(1, 1)
			ch.Prefetch(10)
			ch.Consume(t.Q, "c", offset("first"))
			t.Equal("expiration", ch.streamDelivery(0, "m").Properties.Expiration, new("0"))
		}},
		{ID: "stream/dead-letter", Title: "a stream takes dead letters", Source: streamSource + ", 3.4", Class: Extension, Difference: "stream-dead-letters", Run: func(t *T) {
			ch := t.streamOf()
			ch.Queue(t.Q2, wire.Field{Key: "x-dead-letter-exchange", Value: ""}, wire.Field{Key: "x-dead-letter-routing-key", Value: t.Q})
			r := ch.Conn.Chan(2)
			r.Prefetch(10)
			r.Consume(t.Q, "c", offset("first"))
			ch.Publish("", t.Q2, "dead")
			ch.WantConfirms(1, 1)
			ch.Send(wire.BasicReject{DeliveryTag: ch.Get(t.Q2, false).Tag})
			if t.Four() || t.Differs() {
				t.Equal("dead letter", r.Delivery().Body, "dead")
				return
			}
			ch.Publish("", t.Q, "after")
			ch.WantConfirms(2, 2)
			r.streamDelivery(0, "after")
		}},
	}
}

// streamQosCases: credit, settlement, cancellation, deletion.
func streamQosCases() []Case {
	settles := func(id, title string, m wire.Method, text string) Case {
		return Case{ID: "stream/" + id, Title: title, Source: streamSource + ", 0.29", Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a", "b", "c")
			ch.Prefetch(1)
			ch.Consume(t.Q, "c", offset("first"))
			ch.streamDelivery(0, "a")
			ch.Send(m)
			if !t.Four() {
				c := hard(540, m, text)
				if text == "" {
					c = hard(541, nil, "")
				}
				ch.WantClosing(c)
				return
			}
			ch.streamDelivery(1, "b")
			if _, ok := m.(wire.BasicRecover); ok {
				ch.Want(wire.BasicRecoverOk{})
			}
			ch.Send(wire.BasicAck{DeliveryTag: 2})
			ch.streamDelivery(2, "c")
		}}
	}
	const refused = "basic.nack and basic.reject not supported by stream queues {q}"
	return []Case{
		{ID: "stream/credit", Title: "an acknowledgement returns credit, in any order, and the messages stay", Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a", "b", "c", "d", "e")
			ch.Prefetch(2)
			ch.Consume(t.Q, "c", offset("first"))
			ch.wantFrom(0, "a", "b")
			ch.Quiet()
			ch.Send(wire.BasicAck{DeliveryTag: 2})
			ch.streamDelivery(2, "c")
			ch.Quiet()
			ch.Send(wire.BasicAck{Multiple: true})
			ch.wantFrom(3, "d", "e")
			ch.awaitMessages(t.Q, func(n uint32) bool { return n == 5 })
		}},
		settles("nack", "basic.nack", wire.BasicNack{DeliveryTag: 1}, refused),
		settles("nack-requeue", "basic.nack with requeue", wire.BasicNack{DeliveryTag: 1, Requeue: true}, refused),
		settles("reject", "basic.reject", wire.BasicReject{DeliveryTag: 1}, refused),
		settles("reject-requeue", "basic.reject with requeue", wire.BasicReject{DeliveryTag: 1, Requeue: true}, refused),
		{ID: "stream/recover", Title: "basic.recover settles what is outstanding", Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a", "b")
			ch.Prefetch(1)
			ch.Consume(t.Q, "c", offset("first"))
			ch.streamDelivery(0, "a")
			ch.Send(wire.BasicRecover{Requeue: true})
			if !t.Four() {
				ch.WantClosing(hard(541, nil, ""))
				return
			}
			for answered, got := false, false; !answered || !got; {
				switch m := ch.next().(type) {
				case wire.BasicRecoverOk:
					answered = true
				case wire.BasicDeliver:
					_, body := ch.Content()
					t.Equal("body", body, "b")
					got = true
				default:
					t.Fatalf("want recover-ok and a delivery, got %#v", m)
				}
			}
		}},
		{ID: "stream/tx-nack", Title: "basic.nack in a transaction counts at its commit", Source: streamSource + ", 0.29", Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a", "b")
			r := ch.Conn.Chan(2)
			r.Call(wire.TxSelect{}, wire.TxSelectOk{})
			r.Prefetch(1)
			r.Consume(t.Q, "c", offset("first"))
			r.streamDelivery(0, "a")
			r.Send(wire.BasicNack{DeliveryTag: 1})
			r.Send(wire.TxCommit{})
			if !t.Four() {
				r.WantClosing(hard(540, wire.TxCommit{}, refused))
				return
			}
			for committed, got := false, false; !committed || !got; {
				switch m := r.next().(type) {
				case wire.TxCommitOk:
					committed = true
				case wire.BasicDeliver:
					_, body := r.Content()
					t.Equal("body", body, "b")
					got = true
				default:
					t.Fatalf("want commit-ok and a delivery, got %#v", m)
				}
			}
		}},
		{ID: "stream/global-qos", Title: "3.x: a limit of the channel alone is no prefetch; 4.3 takes it for one", Source: streamSource + ", 0.9", Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a", "b", "c")
			ch.Call(wire.BasicQos{PrefetchCount: 2, Global: true}, wire.BasicQosOk{})
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", Arguments: wire.Table{offset("first")}})
			if !t.Four() {
				ch.WantClosing(soft(406, wire.BasicConsume{}, "consumer prefetch count is not set for '{q}'"))
				return
			}
			ch.Want(wire.BasicConsumeOk{ConsumerTag: "c"})
			ch.wantFrom(0, "a", "b")
			ch.Quiet()
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.streamDelivery(2, "c")
		}},
		{ID: "stream/global-qos-too", Title: "3.x refuses a limit of the channel beside the prefetch", Source: streamSource + ", 0.9", Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a")
			ch.Prefetch(10)
			ch.Call(wire.BasicQos{PrefetchCount: 5, Global: true}, wire.BasicQosOk{})
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c", Arguments: wire.Table{offset("first")}})
			if !t.Four() {
				ch.WantClosing(hard(540, wire.BasicConsume{}, "{q} does not support global qos"))
				return
			}
			ch.Want(wire.BasicConsumeOk{ConsumerTag: "c"})
			ch.streamDelivery(0, "a")
		}},
		{ID: "stream/exclusive", Title: "an exclusive consumer is accepted and excludes nobody", Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a")
			ch.Prefetch(10)
			for i, tag := range []string{"one", "two"} {
				r := ch.Conn.Chan(uint16(i + 2))
				r.Prefetch(10)
				r.Call(wire.BasicConsume{Queue: t.Q, ConsumerTag: tag, Exclusive: true, Arguments: wire.Table{offset("first")}}, wire.BasicConsumeOk{ConsumerTag: tag})
				r.streamDelivery(0, "a")
			}
		}},
		{ID: "stream/cancel", Title: "nothing is delivered after cancel-ok; what is outstanding can be acknowledged", Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a", "b", "c")
			r := ch.Conn.Chan(2)
			r.Prefetch(2)
			r.Consume(t.Q, "c", offset("first"))
			r.wantFrom(0, "a", "b")
			r.Call(wire.BasicCancel{ConsumerTag: "c"}, wire.BasicCancelOk{ConsumerTag: "c"})
			r.Send(wire.BasicAck{DeliveryTag: 2, Multiple: true})
			r.Quiet()
			r.Consume(t.Q, "c", offset(int64(2)))
			r.streamDelivery(2, "c")
		}},
		{ID: "stream/channel-close", Title: "what a closed channel had not acknowledged is not redelivered to others", Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a", "b")
			other := ch.Conn.Chan(3)
			other.Prefetch(10)
			other.Consume(t.Q, "o", offset("next"))
			r := ch.Conn.Chan(2)
			r.Prefetch(10)
			r.Consume(t.Q, "c", offset("first"))
			r.wantFrom(0, "a", "b")
			r.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
			ch.Publish("", t.Q, "c")
			ch.WantConfirms(3, 3)
			other.streamDelivery(2, "c")
		}},
		{ID: "stream/delete", Title: "queue.delete ignores its flags, counts 0 and cancels the consumers", Source: streamSource + ", 2.3", Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a", "b")
			r := t.Channel()
			r.Prefetch(1)
			r.Consume(t.Q, "c", offset("first"))
			r.streamDelivery(0, "a")
			ch.Call(wire.QueueDelete{Queue: t.Q, IfUnused: true, IfEmpty: true}, wire.QueueDeleteOk{})
			r.Want(wire.BasicCancel{ConsumerTag: "c", NoWait: true})
			r.Send(wire.BasicAck{DeliveryTag: 1})
			r.Quiet()
		}},
		{ID: "stream/count", Title: "declare-ok counts all messages and no consumers", Source: streamSource, Class: Extension, Run: func(t *T) {
			ch := t.streamOf("a", "b", "c")
			r := ch.Conn.Chan(2)
			r.Prefetch(1)
			r.Consume(t.Q, "c", offset("first"))
			r.streamDelivery(0, "a")
			ch.awaitMessages(t.Q, func(n uint32) bool { return n == 3 })
		}},
	}
}
