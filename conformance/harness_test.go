package conformance

import (
	"flag"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warrenmq/warren/conformance/wire"
)

// TestMain runs many cases at once, since they mostly wait; -parallel still wins when it asks for more.
func TestMain(m *testing.M) {
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if n, err := strconv.Atoi(parallel.Value.String()); err != nil || n < casesAtOnce {
		if err := parallel.Value.Set(strconv.Itoa(casesAtOnce)); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

const casesAtOnce = 24

// scripted is a broker that shakes hands, opens channels and answers channel.flow; the script answers the rest.
type scripted func(channel uint16, m wire.Method) []wire.Frame

// serve runs the broker on a port of its own until the test ends.
func (s scripted) serve(t *testing.T) Target {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			s.talk(wire.NewConn(nc)) // one connection at a time is all that these tests open
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return Target{Addr: ln.Addr().String(), User: "u", Password: "p", VHost: "v", Profile: Profile3}
}

func (s scripted) talk(c *wire.Conn) {
	const limit = 5 * time.Second
	defer c.Close()
	if _, err := c.ReadBytes(8, limit); err != nil {
		return
	}
	reply := func(channel uint16, m wire.Method) { c.Write(wire.MethodFrame(channel, m).Bytes(), limit) }
	reply(0, wire.ConnectionStart{VersionMinor: 9, Mechanisms: "PLAIN", Locales: "en_US"})
	for {
		f, err := c.ReadFrame(limit)
		if err != nil {
			return
		}
		if f.Type != wire.FrameMethod {
			continue
		}
		m, err := wire.DecodeMethod(f.Payload)
		if err != nil {
			return
		}
		switch m := m.(type) {
		case wire.ConnectionStartOk:
			reply(0, wire.ConnectionTune{ChannelMax: 2047, FrameMax: 4096})
		case wire.ConnectionTuneOk:
		case wire.ConnectionOpen:
			reply(0, wire.ConnectionOpenOk{})
		case wire.ConnectionClose:
			reply(0, wire.ConnectionCloseOk{})
			return
		case wire.ChannelOpen:
			reply(f.Channel, wire.ChannelOpenOk{})
		case wire.ChannelFlow:
			reply(f.Channel, wire.ChannelFlowOk(m))
		default:
			for _, a := range s(f.Channel, m) {
				c.Write(a.Bytes(), limit)
			}
		}
	}
}

// answers is a script that gives the same frames to everything but a client's close-ok.
func answers(frames ...wire.Frame) scripted {
	return func(_ uint16, m wire.Method) []wire.Frame {
		if _, is := m.(wire.ChannelCloseOk); is {
			return nil
		}
		return frames
	}
}

func method(channel uint16, m wire.Method) wire.Frame { return wire.MethodFrame(channel, m) }

// message is a get-ok with properties and body frames.
func message(p wire.Properties, size int, bodies ...string) []wire.Frame {
	frames := []wire.Frame{method(1, wire.BasicGetOk{DeliveryTag: 1, RoutingKey: "k"}),
		wire.HeaderFrame(1, wire.Header{Class: 60, Size: uint64(size), Properties: p})}
	for _, b := range bodies {
		frames = append(frames, wire.BodyFrame(1, []byte(b)))
	}
	return frames
}

// TestJudgeSeesFaults runs small cases against brokers that do one thing wrong. A judge is worth as much as the
// faults it sees.
func TestJudgeSeesFaults(t *testing.T) {
	declare := func(t *T) {
		t.Channel().Call(wire.QueueDeclare{Queue: "q", Exclusive: true}, wire.QueueDeclareOk{Queue: "q"})
	}
	ok := method(1, wire.QueueDeclareOk{Queue: "q"})
	refused := func(t *T) {
		ch := t.Channel()
		ch.Send(wire.QueuePurge{Queue: "q"})
		ch.WantClosing(soft(404, wire.QueuePurge{}, "no queue 'q' in vhost '{V}'"))
	}
	closeWith := func(code uint16, text string, class, id uint16) scripted {
		return answers(method(1, wire.ChannelClose{ReplyCode: code, ReplyText: text, ClassID: class, MethodID: id}))
	}
	get := func(t *T) {
		t.exactly(t.Channel().Get("q", true).Properties, wire.Properties{ContentType: new("")})
	}
	empty := wire.Properties{ContentType: new("")}
	confirmed := func(t *T) {
		ch := t.Channel()
		ch.Send(wire.BasicGet{}) // makes the script speak
		ch.WantConfirms(1, 3)
	}
	ack := func(tag uint64, multiple bool) wire.Frame {
		return method(1, wire.BasicAck{DeliveryTag: tag, Multiple: multiple})
	}
	for _, c := range []struct {
		name   string
		broker scripted
		run    func(t *T)
		fault  string // part of the failure; empty: the case must pass
	}{
		{"honest", answers(ok), declare, ""},
		{"wrong field", answers(method(1, wire.QueueDeclareOk{Queue: "q", MessageCount: 1})), declare, "MessageCount"},
		{"wrong method", answers(method(1, wire.QueueBindOk{})), declare, "QueueBindOk"},
		{"wrong channel", answers(method(0, wire.QueueDeclareOk{Queue: "q"})), declare, "on channel 0"},
		{"one frame too many", answers(ok, method(1, wire.QueueBindOk{})), declare, "QueueBindOk"},
		{"a frame on another channel", answers(method(9, wire.QueueBindOk{}), ok), declare, "unread frames on channel 9"},
		{"connection closed", answers(method(0, wire.ConnectionClose{ReplyCode: 541})), declare, "ConnectionClose"},
		{"honest refusal", closeWith(404, "NOT_FOUND - no queue 'q' in vhost 'v'", 50, 30), refused, ""},
		{"refusal with another code", closeWith(403, "NOT_FOUND - no queue 'q' in vhost 'v'", 50, 30), refused, "ReplyCode"},
		{"refusal with another text", closeWith(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 30), refused, "ReplyText"},
		{"refusal blaming another method", closeWith(404, "NOT_FOUND - no queue 'q' in vhost 'v'", 50, 31), refused, "MethodID"},
		{"refusal of the connection", answers(method(0, wire.ConnectionClose{ReplyCode: 404})), refused, "ConnectionClose"},
		{"honest content", answers(message(empty, 3, "abc")...), get, ""},
		{"property lost", answers(message(wire.Properties{}, 3, "abc")...), get, "ContentType"},
		{"property added", answers(message(wire.Properties{ContentType: new(""), AppID: new("")}, 3, "abc")...), get, "AppID"},
		{"body too long", answers(message(empty, 3, "abcd")...), get, "body of 4 bytes"},
		{"body frame too large", answers(message(empty, 5000, strings.Repeat("x", 5000))...), get, "want a body frame"},
		{"method inside content", answers(append(message(empty, 3), ok)...), get, "want a body frame"},
		{"honest confirms", answers(ack(2, false), ack(3, true)), confirmed, ""},
		{"confirm twice", answers(ack(2, false), ack(2, false)), confirmed, "not due"},
		{"confirm of nothing", answers(ack(1, true), ack(1, true)), confirmed, "settles nothing"},
		{"confirm too far", answers(ack(4, true)), confirmed, "settles nothing"},
		{"nack", answers(method(1, wire.BasicNack{DeliveryTag: 1})), confirmed, "BasicNack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			failures := Run(c.broker.serve(t), Case{ID: "judge", Run: c.run}).Failures
			got := strings.Join(failures, "\n")
			if c.fault == "" && got != "" || c.fault != "" && !strings.Contains(got, c.fault) {
				t.Errorf("failures %q, want %q", got, c.fault)
			}
		})
	}
}

func TestCasesAreInOrder(t *testing.T) {
	differences := map[string]bool{}
	for _, d := range Differences() {
		if d.ID == "" || d.Title == "" || d.Reason == "" || differences[d.ID] {
			t.Errorf("difference %+v is incomplete or listed twice", d)
		}
		differences[d.ID] = true
	}
	used, seen := map[string]bool{}, map[string]bool{}
	for _, c := range All() {
		if c.Title == "" || c.Source == "" || c.Run == nil || !strings.Contains(c.ID, "/") {
			t.Errorf("case %q is incomplete", c.ID)
		}
		if seen[c.ID] {
			t.Errorf("case %q is listed twice", c.ID)
		}
		seen[c.ID] = true
		switch c.Class {
		case Core, Extension, Timing, Management, Own, Alarms:
		default:
			t.Errorf("case %q is of class %q", c.ID, c.Class)
		}
		if c.Difference != "" && !differences[c.Difference] {
			t.Errorf("case %q names difference %q, which is not listed", c.ID, c.Difference)
		}
		used[c.Difference] = true
	}
	for id := range differences {
		if !used[id] {
			t.Errorf("no case shows difference %q", id)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for _, c := range []struct {
		uri  string
		want Target
	}{
		{"amqp://broker", Target{Addr: "broker:5672", User: "guest", Password: "guest", VHost: "/"}},
		{"amqp://u:p%40@127.0.0.1:99/v%2Fw", Target{Addr: "127.0.0.1:99", User: "u", Password: "p@", VHost: "v/w"}},
		{"amqp://[::1]:5673/", Target{Addr: "[::1]:5673", User: "guest", Password: "guest", VHost: "/"}},
	} {
		got, err := ParseTarget(c.uri)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.uri, got, err)
		}
	}
	for _, bad := range []string{"http://broker", "amqp://", "::", "broker:5672"} {
		if got, err := ParseTarget(bad); err == nil {
			t.Errorf("%s: read as %+v", bad, got)
		}
	}
}
