package conformance

import (
	"errors"
	"fmt"
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// Conn is a connection of a case.
type Conn struct {
	t        *T
	w        *wire.Conn
	frameMax uint32
	start    wire.ConnectionStart
	tune     wire.ConnectionTune

	pending map[uint16][]wire.Frame // read while another channel's frame was wanted
	over    bool                    // closed, or the case looks after the end itself
}

// maxPending bounds the frames kept for other channels.
const maxPending = 100_000

// login says how to open a connection. The zero value is filled in from the target.
type login struct {
	user, password, vhost string
	mechanism             string // PLAIN when empty
	response              string // built from user and password when empty
	properties            wire.Table
	channelMax            uint16 // the broker's offer when 0
	frameMax              uint32 // the broker's offer when 0
	heartbeat             uint16 // seconds; 0 is none
}

// capabilities are those of a client that wants to be told everything.
func capabilities(names ...string) wire.Table {
	t := wire.Table{}
	for _, n := range names {
		t = append(t, wire.Field{Key: n, Value: true})
	}
	return t
}

var allCapabilities = capabilities("publisher_confirms", "exchange_exchange_bindings", "basic.nack",
	"consumer_cancel_notify", "connection.blocked", "authentication_failure_close")

// Dial opens a TCP connection and says nothing.
func (t *T) Dial() *Conn {
	w, err := wire.Dial(t.Addr, patience)
	t.Must(err)
	c := &Conn{t: t, w: w, frameMax: 4096, pending: map[uint16][]wire.Frame{}}
	t.conns = append(t.conns, c)
	return c
}

// DialStart opens a TCP connection, sends the protocol header and reads connection.start.
func (t *T) DialStart() *Conn {
	c := t.Dial()
	c.SendBytes([]byte(wire.Header091))
	m := c.Method(0)
	start, ok := m.(wire.ConnectionStart)
	if !ok {
		t.Fatalf("protocol header answered with %#v", m)
	}
	c.start = start
	return c
}

// Connect opens a connection as the target's user.
func (t *T) Connect() *Conn { return t.ConnectAs(login{}) }

// ConnectAs opens a connection.
func (t *T) ConnectAs(l login) *Conn {
	c := t.DialStart()
	c.Authenticate(l)
	c.TuneOpen(l)
	c.Want(0, wire.ConnectionOpenOk{})
	return c
}

// Channel opens a connection with one channel, number 1.
func (t *T) Channel() *Chan { return t.Connect().Chan(1) }

// StartOk sends start-ok.
func (c *Conn) StartOk(l login) {
	if l.user == "" {
		l.user, l.password = c.t.User, c.t.Password
	}
	if l.mechanism == "" {
		l.mechanism = "PLAIN"
	}
	if l.response == "" && l.mechanism == "PLAIN" {
		l.response = "\x00" + l.user + "\x00" + l.password
	}
	if l.properties == nil {
		l.properties = wire.Table{{Key: "product", Value: "warren-conformance"}, {Key: "capabilities", Value: allCapabilities}}
	}
	c.Send(0, wire.ConnectionStartOk{ClientProperties: l.properties, Mechanism: l.mechanism,
		Response: wire.LongStr(l.response), Locale: "en_US"})
}

// Authenticate sends start-ok and reads connection.tune.
func (c *Conn) Authenticate(l login) {
	c.StartOk(l)
	m := c.Method(0)
	tune, ok := m.(wire.ConnectionTune)
	if !ok {
		c.t.Fatalf("start-ok answered with %#v", m)
	}
	c.tune = tune
}

// TuneOpen sends tune-ok and connection.open, whose answer is the case's to demand.
func (c *Conn) TuneOpen(l login) {
	ok := wire.ConnectionTuneOk{ChannelMax: l.channelMax, FrameMax: l.frameMax, Heartbeat: l.heartbeat}
	if ok.ChannelMax == 0 {
		ok.ChannelMax = c.tune.ChannelMax
	}
	if ok.FrameMax == 0 {
		ok.FrameMax = c.tune.FrameMax
	}
	vhost := l.vhost
	if vhost == "" {
		vhost = c.t.VHost
	}
	c.frameMax = ok.FrameMax
	c.Send(0, ok, wire.ConnectionOpen{VirtualHost: vhost})
}

// SendBytes writes bytes as they are. A connection that the broker has ended is noticed at the next read.
func (c *Conn) SendBytes(b []byte) {
	if err := c.w.Write(b, patience); err != nil && !errors.Is(err, wire.ErrClosed) {
		c.t.Fatalf("write: %v", err)
	}
}

// SendFrames writes frames in one go.
func (c *Conn) SendFrames(frames ...wire.Frame) {
	var b []byte
	for _, f := range frames {
		b = append(b, f.Bytes()...)
	}
	c.SendBytes(b)
}

// Send writes methods on a channel in one go.
func (c *Conn) Send(channel uint16, methods ...wire.Method) {
	var b []byte
	for _, m := range methods {
		c.t.noteLeaving(m)
		b = append(b, wire.MethodFrame(channel, m).Bytes()...)
	}
	c.SendBytes(b)
}

// NextFrame returns the next frame of any channel, in the order of arrival. Heartbeats are passed over.
func (c *Conn) NextFrame() wire.Frame {
	for {
		f, err := c.w.ReadFrame(patience)
		if err != nil {
			c.over = true
			c.t.Fatalf("waiting for a frame: %v", err)
		}
		if f.Type != wire.FrameHeartbeat {
			return f
		}
	}
}

// frame returns the next frame of one channel; those of others wait their turn. A connection.close that was not
// asked for ends the case.
func (c *Conn) frame(channel uint16) wire.Frame {
	if p := c.pending[channel]; len(p) > 0 {
		c.pending[channel] = p[1:]
		return p[0]
	}
	for range maxPending {
		f := c.NextFrame()
		if f.Channel == channel {
			return f
		}
		if f.Channel == 0 {
			c.t.Fatalf("on channel 0, while waiting for channel %d: %s", channel, describe(f))
		}
		c.pending[f.Channel] = append(c.pending[f.Channel], f)
	}
	c.t.Fatalf("more than %d frames on other channels", maxPending)
	return wire.Frame{}
}

// Method returns the next frame of a channel, which must be a method.
func (c *Conn) Method(channel uint16) wire.Method {
	return c.decode(c.frame(channel))
}

func (c *Conn) decode(f wire.Frame) wire.Method {
	if f.Type != wire.FrameMethod {
		c.t.Fatalf("want a method, got %s", describe(f))
	}
	m, err := wire.DecodeMethod(f.Payload)
	if err != nil {
		c.t.Fatalf("undecodable method: %v in %s", err, describe(f))
	}
	return m
}

// Want demands a method as the next frame of a channel.
func (c *Conn) Want(channel uint16, want wire.Method) {
	c.t.Equal(fmt.Sprintf("method on channel %d", channel), c.Method(channel), want)
}

// WantNext demands a method as the next frame of the whole connection.
func (c *Conn) WantNext(channel uint16, want wire.Method) {
	f := c.NextFrame()
	if f.Channel != channel {
		c.t.Fatalf("want %#v on channel %d, got %s", want, channel, describe(f))
	}
	c.t.Equal(fmt.Sprintf("method on channel %d", channel), c.decode(f), want)
}

// WantClosed demands that the broker ends the TCP connection without another frame, within the limit. Heartbeats may
// come.
func (c *Conn) WantClosed(limit time.Duration) {
	c.over = true
	for end := time.Now().Add(limit); ; {
		f, err := c.w.ReadFrame(time.Until(end))
		switch {
		case errors.Is(err, wire.ErrClosed):
			return
		case err != nil:
			c.t.Fatalf("want the connection ended: %v", err)
		case f.Type != wire.FrameHeartbeat:
			c.t.Fatalf("want the connection ended, got %s", describe(f))
		}
	}
}

// WantClosing demands a connection.close, answers it, and demands the end of the connection.
func (c *Conn) WantClosing(want closing) {
	c.Want(0, wire.ConnectionClose{ReplyCode: want.code, ReplyText: want.replyText(c.t), ClassID: want.class, MethodID: want.method})
	c.Send(0, wire.ConnectionCloseOk{})
	c.WantClosed(patience)
}

// Close closes the connection in order.
func (c *Conn) Close() {
	c.over = true
	c.Send(0, wire.ConnectionClose{ReplyCode: 200, ReplyText: "done"})
	for range maxPending {
		f := c.NextFrame()
		if f.Channel == 0 {
			c.t.Equal("answer to connection.close", c.decode(f), wire.ConnectionCloseOk{})
			return
		}
	}
	c.t.Fatalf("no close-ok among %d frames", maxPending)
}

// Drop ends the TCP connection without a goodbye.
func (c *Conn) Drop() {
	c.over = true
	c.w.Close()
}

// lastChannel is the number that wantNothingMore opens; no case uses it.
const lastChannel = 2046

// wantNothingMore is the check that every connection of a passed case gets: all frames were read, the connection
// still answers, and it closes in order.
func (c *Conn) wantNothingMore() {
	for channel, frames := range c.pending {
		if len(frames) > 0 {
			c.t.Fatalf("%d unread frames on channel %d, the first: %s", len(frames), channel, describe(frames[0]))
		}
	}
	if c.over {
		return
	}
	c.Send(lastChannel, wire.ChannelOpen{})
	c.WantNext(lastChannel, wire.ChannelOpenOk{})
	c.Close()
}

// describe prints a frame for a failure message.
func describe(f wire.Frame) string {
	switch f.Type {
	case wire.FrameMethod:
		if m, err := wire.DecodeMethod(f.Payload); err == nil {
			return fmt.Sprintf("%#v on channel %d", m, f.Channel)
		}
	case wire.FrameHeader:
		if h, err := wire.DecodeHeader(f.Payload); err == nil {
			return fmt.Sprintf("content header %+v on channel %d", h, f.Channel)
		}
	}
	p := f.Payload
	if len(p) > 64 {
		p = p[:64]
	}
	return fmt.Sprintf("frame of type %d on channel %d, %d bytes: %q", f.Type, f.Channel, len(f.Payload), p)
}
