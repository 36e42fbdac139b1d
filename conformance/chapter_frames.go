package conformance

import (
	"fmt"
	"strings"

	"github.com/warrenmq/warren/conformance/wire"
)

// smallest is the least frame-max that every target of the profile takes.
func (t *T) smallest() uint32 {
	if t.Four() {
		return 8192
	}
	return 4096
}

// badFrames are single frames, or bytes in place of one, that end the connection.
func badFrames() []refusal {
	send := func(b ...byte) func(*T, *Chan) { return func(t *T, ch *Chan) { ch.SendBytes(b) } }
	frame := func(kind uint8, channel uint16, payload string) func(*T, *Chan) {
		return func(t *T, ch *Chan) {
			ch.SendFrames(wire.Frame{Type: kind, Channel: channel, Payload: []byte(payload)})
		}
	}
	const source = "spec 4.2.3, behaviour 1.8"
	return []refusal{
		{"frames/unknown-type", "a frame of unknown type", source, frame(9, 1, "abc"),
			hard(501, nil, `type 9, all octets = <<"abc">>: unknown_frame`), closing{}},
		{"frames/unknown-type-bytes", "a frame of unknown type with bytes that do not print", source, frame(4, 1, "\x00\xff"),
			hard(501, nil, `type 4, all octets = <<0,255>>: unknown_frame`), closing{}},
		{"frames/unknown-type-long", "a long frame of unknown type", source, frame(9, 1, "abcdefghijklmnopqrstuvwxyz"),
			hard(501, nil, `type 9, first 16 octets = <<"abcdefghijklmnop">>: unknown_frame`), closing{}},
		{"frames/bad-end", "a frame with a wrong end octet", source, send(1, 0, 1, 0, 0, 0, 4, 0, 50, 0, 10, 'X'),
			hard(501, nil, `type 1, all octets = <<0,50,0,10>>: {invalid_frame_end_marker,88}`), closing{}},
		{"frames/oversize", "a frame that announces more than frame-max", source, send(1, 0, 1, 0, 3, 0x0d, 0x40),
			hard(501, nil, `type 1, all octets = <<>>: {frame_too_large,200000,131064}`), closing{}},
		{"frames/heartbeat-on-channel", "a heartbeat on a channel", source, frame(8, 1, ""),
			hard(505, nil, `type 8, all octets = <<>>`), closing{}},
		{"frames/heartbeat-payload", "a heartbeat with a payload", source, frame(8, 0, "x"),
			hard(501, nil, `type 8, all octets = <<"x">>: unknown_frame`), closing{}},
		{"frames/heartbeat-unopened", "a heartbeat on a channel that is not open", source, frame(8, 9, ""),
			hard(505, nil, `type 8, all octets = <<>>`), closing{}},
		{"frames/body-for-method", "a body frame where a method is due", source, frame(3, 1, "abc"),
			hard(505, nil, "expected method frame, got non method frame instead"), closing{}},
		{"frames/header-for-method", "a content header where a method is due", source,
			func(t *T, ch *Chan) { ch.SendFrames(wire.HeaderFrame(1, wire.Header{Class: 60, Size: 1})) },
			hard(505, nil, "expected method frame, got non method frame instead"), closing{}},
		{"frames/truncated-arguments", "a known method with cut arguments", source, frame(1, 1, "\x00\x32\x00\x0a\x00\x00\xff"),
			hard(501, wire.QueueDeclare{}, "cannot decode <<0,0,255>>"), closing{}},
		{"frames/no-arguments", "a known method without its arguments", source, frame(1, 1, "\x00\x3c\x00\x50"),
			hard(501, wire.BasicAck{}, "cannot decode <<>>"), closing{}},
		{"frames/invalid-utf8", "a short string that is not UTF-8", "behaviour 1.1",
			func(t *T, ch *Chan) { ch.Conn.Send(1, wire.QueueDeclare{Queue: "\xff\xfe", Exclusive: true}) },
			hard(501, nil, "Malformed UTF-8 in shortstr"), closing{}},
	}
}

// silentEnds are payloads of method frames that end TCP without a method.
var silentEnds = []struct{ id, title, payload string }{
	{"unknown-class", "a method of an unknown class", "\x00\x63\x00\x0a"},
	{"unknown-queue-method", "an unknown method of the queue class", "\x00\x32\x00\x63"},
	{"unknown-basic-method", "an unknown method of the basic class", "\x00\x3c\x03\xe7"},
	{"old-exchange-unbind-ok", "exchange method 41, which exchange.unbind-ok is not", "\x00\x28\x00\x29"},
	{"bad-table-letter", "a method table with an unknown field type", "\x00\x32\x00\x0a\x00\x00\x01q\x04\x00\x00\x00\x07\x01kU\x00\x00\x00\x01"},
}

func frameCases() []Case {
	cases := refusals(Core, badFrames())
	for _, e := range silentEnds {
		cases = append(cases, Case{ID: "frames/" + e.id, Title: e.title + ": TCP ends without a method", Source: "behaviour 1.8", Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				ch.SendFrame(wire.FrameMethod, []byte(e.payload))
				ch.WantClosed(patience)
			}})
	}
	return append(cases,
		Case{ID: "frames/slack", Title: "a payload of frame-max bytes still passes, eight more than the rule allows", Source: "behaviour 1.1", Class: Core,
			Run: func(t *T) { bodyFrameOf(t, t.smallest(), true) }},
		Case{ID: "frames/slack-exceeded", Title: "a payload of frame-max plus one bytes is refused", Source: "behaviour 1.1", Class: Core,
			Run: func(t *T) { bodyFrameOf(t, t.smallest()+1, false) }},
		Case{ID: "frames/oversize-negotiated", Title: "the limit is the negotiated frame-max", Source: "spec 4.2.3, behaviour 1.8", Class: Core,
			Run: func(t *T) {
				ch := t.ConnectAs(login{frameMax: 20000}).Chan(1)
				ch.SendBytes([]byte{1, 0, 1, 0, 0, 0x4e, 0x21}) // 20001
				ch.WantClosing(hard(501, nil, `type 1, all octets = <<>>: {frame_too_large,20001,19992}`))
			}},
		Case{ID: "frames/heartbeat", Title: "a heartbeat on channel 0 is taken at any time, also inside content", Source: "spec 4.2.7", Class: Core,
			Run: heartbeatInsideContent},
		Case{ID: "frames/body-split", Title: "deliveries are cut at frame-max less eight", Source: "spec 4.2.6.2, behaviour 1.1", Class: Core,
			Run: bodySplit},
		Case{ID: "frames/body-exact", Title: "a body of exactly one frame is one frame", Source: "spec 4.2.6.2", Class: Core,
			Run: func(t *T) {
				ch := t.ConnectAs(login{frameMax: t.smallest()}).Chan(1)
				ch.Queue(t.Q)
				body := strings.Repeat("x", int(t.smallest())-8)
				ch.Publish("", t.Q, body)
				ch.WantGet(t.Q, body, 0)
			}},
		Case{ID: "frames/large-header", Title: "a content header above the receiver's frame-max is sent whole", Source: "behaviour 1.1", Class: Core,
			Run: largeHeader},
		Case{ID: "frames/large-body", Title: "a body of 5 MiB comes back as it was", Source: "spec 4.2.6", Class: Core, Run: largeBody},
		Case{ID: "frames/long-reply-text", Title: "a reply text is cut at 255 bytes", Source: "behaviour 1.1", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			name := t.Q + strings.Repeat("n", 255-len(t.Q))
			ch.Send(wire.QueueDeclare{Queue: name, Passive: true})
			ch.WantClosing(soft(404, wire.QueueDeclare{}, "no queue '"+name+"' in vhost '{V}'"))
		}},
	)
}

func bodyFrameOf(t *T, size uint32, passes bool) {
	ch := t.ConnectAs(login{frameMax: t.smallest()}).Chan(1)
	ch.Queue(t.Q)
	body := strings.Repeat("x", int(size))
	ch.Send(wire.BasicPublish{RoutingKey: t.Q})
	ch.SendFrames(wire.HeaderFrame(1, wire.Header{Class: 60, Size: uint64(size)}), wire.BodyFrame(1, []byte(body)))
	if passes {
		ch.WantGet(t.Q, body, 0)
		return
	}
	ch.WantClosing(hard(501, nil, fmt.Sprintf("type 3, all octets = <<>>: {frame_too_large,%d,%d}", size, t.smallest()-8)))
}

func heartbeatInsideContent(t *T) {
	ch := t.Channel()
	ch.Queue(t.Q)
	beat := wire.Frame{Type: wire.FrameHeartbeat}
	frames := []wire.Frame{beat}
	for _, f := range ch.ContentFrames(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{}, "body") {
		frames = append(frames, f, beat)
	}
	ch.SendFrames(frames...)
	ch.WantGet(t.Q, "body", 0)
}

func bodySplit(t *T) {
	ch := t.ConnectAs(login{frameMax: t.smallest()}).Chan(1)
	ch.Queue(t.Q)
	body := strings.Repeat("0123456789", 2000)
	ch.Publish("", t.Q, body)
	ch.Send(wire.BasicGet{Queue: t.Q, NoAck: true})
	ch.wantType(wire.BasicGetOk{})
	if h := ch.frame(1); h.Type != wire.FrameHeader {
		t.Fatalf("want a content header, got %s", describe(h))
	}
	limit := int(t.smallest()) - 8
	for left := len(body); left > 0; left -= limit {
		f := ch.frame(1)
		t.Equal("body frame", []int{int(f.Type), len(f.Payload)}, []int{wire.FrameBody, min(left, limit)})
	}
}

func largeHeader(t *T) {
	sender := t.Channel()
	receiver := t.ConnectAs(login{frameMax: t.smallest()}).Chan(1)
	sender.DeclareQueue(wire.QueueDeclare{Queue: t.Q, AutoDelete: true})
	headers := &wire.Table{{Key: "long", Value: strings.Repeat("h", 3*int(t.smallest()))}}
	sender.Confirm()
	sender.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Headers: headers}, "body")
	sender.WantConfirms(1, 1)
	t.Equal("message", receiver.Get(t.Q, true), Got{Tag: 1, Key: t.Q, Properties: wire.Properties{Headers: headers}, Body: "body"})
}

func largeBody(t *T) {
	ch := t.Channel()
	ch.Queue(t.Q)
	body := strings.Repeat("the quick brown fox. ", 5<<20/21)
	ch.Publish("", t.Q, body)
	if got := ch.Get(t.Q, true); got.Body != body {
		t.Fatalf("the body of %d bytes came back otherwise, %d bytes", len(body), len(got.Body))
	}
}
