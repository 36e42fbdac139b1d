package conformance

import (
	"fmt"
	"strings"

	"github.com/warrenmq/warren/conformance/wire"
)

// serverOnly are the methods that only a broker sends and that RabbitMQ refuses on an open channel.
var serverOnly = []wire.Method{
	wire.ChannelOpenOk{}, wire.AccessRequestOk{Ticket: 1},
	wire.ExchangeDeclareOk{}, wire.ExchangeDeleteOk{}, wire.ExchangeBindOk{}, wire.ExchangeUnbindOk{},
	wire.QueueDeclareOk{Queue: "q"}, wire.QueueBindOk{}, wire.QueuePurgeOk{}, wire.QueueDeleteOk{}, wire.QueueUnbindOk{},
	wire.BasicQosOk{}, wire.BasicConsumeOk{ConsumerTag: "t"}, wire.BasicGetEmpty{}, wire.BasicRecoverOk{},
	wire.ConfirmSelectOk{}, wire.TxSelectOk{}, wire.TxCommitOk{}, wire.TxRollbackOk{},
}

// methodName gives "QueueDeclareOk".
func methodName(m wire.Method) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", m), "wire.")
}

func sequenceCases() []Case {
	on := func(channel uint16, ms ...wire.Method) func(*T, *Chan) {
		return func(t *T, ch *Chan) { ch.Conn.Send(channel, ms...) }
	}
	const running = "unexpected method in connection state running"
	const source = "spec 2.2.2, behaviour 1.8"
	var rows []refusal
	for _, m := range serverOnly {
		rows = append(rows, refusal{"sequence/server-only-" + methodName(m), methodName(m) + " from a client", "behaviour 1.8", on(1, m),
			hard(503, m, "unimplemented method"), closing{}})
	}
	for _, m := range []wire.Method{
		wire.QueueDeclare{Queue: "q"}, wire.ChannelFlow{Active: true}, wire.ChannelClose{}, wire.ConnectionClose{}, wire.TxSelect{},
	} {
		rows = append(rows, refusal{"sequence/unopened-" + methodName(m), methodName(m) + " on a channel that is not open", source, on(3, m),
			hard(504, m, "expected 'channel.open'"), closing{}})
	}
	for _, m := range []wire.Method{
		wire.ConnectionOpen{VirtualHost: "/"}, wire.ConnectionStartOk{Mechanism: "PLAIN"}, wire.ConnectionTuneOk{}, wire.ConnectionBlocked{Reason: "r"},
		wire.ConnectionUnblocked{}, wire.ConnectionStart{}, wire.ChannelOpen{}, wire.QueueDeclare{Queue: "q"}, wire.BasicPublish{},
	} {
		rows = append(rows, refusal{"sequence/channel-0-" + methodName(m), methodName(m) + " on channel 0 of an open connection", source, on(0, m),
			hard(504, m, running), closing{}})
	}
	rows = append(rows,
		refusal{"sequence/second-open", "a second channel.open", source, on(1, wire.ChannelOpen{}),
			hard(504, wire.ChannelOpen{}, "second 'channel.open' seen"), closing{}},
		refusal{"sequence/content-unopened", "content on a channel that is not open", source,
			func(t *T, ch *Chan) { ch.At(3).Publish("", "q", "body") },
			hard(504, wire.BasicPublish{}, "expected 'channel.open'"), closing{}},
		refusal{"sequence/reopened-too-early", "channel.open before close-ok was sent", "behaviour 2", func(t *T, ch *Chan) {
			ch.Send(wire.QueueDeclare{Queue: t.Q, Passive: true})
			ch.WantChannelClose(soft(404, wire.QueueDeclare{}, "no {q}"))
			ch.Send(wire.ChannelOpen{})
		}, hard(504, wire.ChannelOpen{}, "second 'channel.open' seen"), closing{}},
	)
	return refusals(Core, rows)
}

// contentCases are about what follows a basic.publish.
func contentCases() []Case {
	publish := wire.BasicPublish{}
	then := func(frames ...wire.Frame) func(*T, *Chan) {
		return func(t *T, ch *Chan) {
			ch.SendFrames(append([]wire.Frame{wire.MethodFrame(1, wire.BasicPublish{RoutingKey: t.Q})}, frames...)...)
		}
	}
	header := func(class, weight uint16, size uint64) wire.Frame {
		return wire.HeaderFrame(1, wire.Header{Class: class, Weight: weight, Size: size})
	}
	raw := func(properties ...byte) wire.Frame {
		return wire.HeaderFrame(1, wire.Header{Class: 60, RawProperties: properties})
	}
	const source = "spec 4.2.6, behaviour 1.8"
	const noHeader = "expected content header for class 60, got non content header frame instead"
	const noBody = "expected content body, got non content body frame instead"
	internal := hard(541, nil, "")
	cases := refusals(Core, []refusal{
		{"content/body-for-header", "a body where the header is due", source, then(wire.BodyFrame(1, []byte("x"))), hard(505, publish, noHeader), closing{}},
		{"content/method-for-header", "a method where the header is due", source, then(wire.MethodFrame(1, wire.BasicAck{})),
			hard(505, publish, noHeader), closing{}},
		{"content/weight", "a header whose weight is not 0", source, then(header(60, 1, 0)), hard(505, publish, noHeader), closing{}},
		{"content/class", "a header of another class", source, then(header(50, 0, 0)),
			hard(505, publish, "expected content header for class 60, got one for class 50 instead"), closing{}},
		{"content/header-for-body", "a header where the body is due", source, then(header(60, 0, 5), header(60, 0, 5)), hard(505, publish, noBody), closing{}},
		{"content/method-for-body", "a method where the body is due", source, then(header(60, 0, 5), wire.MethodFrame(1, wire.TxSelect{})),
			hard(505, publish, noBody), closing{}},
		{"content/method-in-body", "a method between two body frames", source,
			then(header(60, 0, 5), wire.BodyFrame(1, []byte("ab")), wire.MethodFrame(1, wire.TxSelect{})), hard(505, publish, noBody), closing{}},
		{"content/flags-continued", "property flags that announce a second word", "behaviour 1.8", then(raw(0x80, 0x01, 0x00, 0x00, 1, 'a')), internal, closing{}},
		{"content/properties-cut", "properties that end inside a value", "behaviour 1.8", then(raw(0x80, 0x00, 9, 'a')), internal, closing{}},
		{"content/properties-missing", "a property flag without a value", "behaviour 1.8", then(raw(0x08, 0x00)), internal, closing{}},
		{"content/headers-letter", "headers with an unknown field type", "behaviour 1.8",
			then(raw(0x20, 0x00, 0, 0, 0, 7, 1, 'k', 'U', 0, 0, 0, 1)), internal, closing{}},
	})
	return append(cases,
		Case{ID: "content/too-large-for-memory", Title: "a header that announces more than 512 MiB is refused under profile 4", Source: "behaviour 1.8", Class: Extension,
			Profiles: []int{Profile4}, Run: func(t *T) {
				ch := t.Channel()
				then(header(60, 0, 512<<20+1))(t, ch)
				ch.WantClosing(hard(501, publish, "content body size 536870913 exceeds maximum allowed size 536870912"))
			}},
		Case{ID: "content/large-announcement", Title: "a header that announces a large body draws no answer before the body is there", Source: "behaviour 1.8", Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				size := uint64(600 << 20)
				if t.Four() {
					size = 500 << 20
				}
				then(header(60, 0, size), wire.BodyFrame(1, []byte("beginning")))(t, ch)
				ch.Conn.Chan(2).Quiet()
			}},
		Case{ID: "content/body-too-long", Title: "more body than announced: refused under profile 4", Source: "behaviour 0.17", Class: Core,
			Profiles: []int{Profile4}, Run: func(t *T) {
				ch := t.Channel()
				then(header(60, 0, 2), wire.BodyFrame(1, []byte("abc")))(t, ch)
				ch.WantClosing(hard(501, publish, "content body frame exceeds remaining content size"))
			}},
		Case{ID: "content/body-too-long-waits", Title: "more body than announced: profile 3 says nothing and the channel hangs", Source: "behaviour 0.17", Class: Core,
			Profiles: []int{Profile3}, Run: func(t *T) {
				ch := t.Channel()
				then(header(60, 0, 2), wire.BodyFrame(1, []byte("abc")))(t, ch)
				ch.Conn.Chan(2).Quiet()
			}},
		Case{ID: "content/empty-body", Title: "content without body has no body frame, in both directions", Source: "spec 4.2.6, behaviour 1.1", Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q)
				ch.Publish("", t.Q, "", "x")
				ch.WantGet(t.Q, "", 1)
				ch.WantGet(t.Q, "x", 0)
			}},
		Case{ID: "content/many-body-frames", Title: "a body in frames of one byte", Source: "spec 4.2.6.2", Class: Core, Run: bodyInBytes},
		Case{ID: "content/empty-body-frames", Title: "empty body frames among others are passed over", Source: "spec 4.2.6.2", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			empty := wire.BodyFrame(1, nil)
			then(header(60, 0, 4), empty, wire.BodyFrame(1, []byte("ab")), empty, wire.BodyFrame(1, []byte("cd")))(t, ch)
			ch.WantGet(t.Q, "abcd", 0)
		}},
		Case{ID: "content/interleaved", Title: "contents of several channels may interleave frame by frame", Source: "spec 4.2.6", Class: Core, Run: interleaved},
	)
}

func bodyInBytes(t *T) {
	ch := t.Channel()
	ch.Queue(t.Q)
	body := "one byte at a time"
	frames := []wire.Frame{wire.MethodFrame(1, wire.BasicPublish{RoutingKey: t.Q}), wire.HeaderFrame(1, wire.Header{Class: 60, Size: uint64(len(body))})}
	for i := range body {
		frames = append(frames, wire.BodyFrame(1, []byte(body[i:i+1])))
	}
	ch.SendFrames(frames...)
	ch.WantGet(t.Q, body, 0)
}

func interleaved(t *T) {
	c := t.Connect()
	one, two := c.Chan(1), c.Chan(2)
	one.Queue(t.Q)
	two.Queue(t.Q2)
	a := one.ContentFrames(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{MessageID: new("a")}, "body of a")
	b := two.ContentFrames(wire.BasicPublish{RoutingKey: t.Q2}, wire.Properties{MessageID: new("b")}, "body of b")
	for i := range a {
		c.SendFrames(a[i], b[i])
	}
	t.Equal("a", one.Get(t.Q, true), Got{Tag: 1, Key: t.Q, Properties: wire.Properties{MessageID: new("a")}, Body: "body of a"})
	t.Equal("b", two.Get(t.Q2, true), Got{Tag: 1, Key: t.Q2, Properties: wire.Properties{MessageID: new("b")}, Body: "body of b"})
}
