package amqp

import (
	"testing"
	"time"

	"github.com/warrenmq/warren/frames"
)

// openRefused does a handshake whose connection.open is refused, and gives the close.
func (s *site) openRefused() *frames.ConnectionClose {
	s.t.Helper()
	c := s.dial()
	c.start(handshake{})
	tune := expect[*frames.ConnectionTune](c, 0)
	c.send(0, &frames.ConnectionTuneOk{ChannelMax: tune.ChannelMax, FrameMax: tune.FrameMax})
	c.send(0, &frames.ConnectionOpen{VirtualHost: "/"})
	m := expect[*frames.ConnectionClose](c, 0)
	c.send(0, &frames.ConnectionCloseOk{})
	return m
}

// wantClose compares a close of the connection with what RabbitMQ 4.3.6 sends.
func wantClose(t *testing.T, m *frames.ConnectionClose, text string, method frames.MethodID) {
	t.Helper()
	if m.ReplyCode != 530 || m.ReplyText != "NOT_ALLOWED - "+text || m.ClassID != uint16(method>>16) || m.MethodID != uint16(method) {
		t.Errorf("closed with %+v, want %q", m, text)
	}
}

// TestNodeLimits: limits of the node, and that what goes makes room. The texts are those of behaviour 1.6, 2.4 and
// 8.3, seen on 4.3.6.
func TestNodeLimits(t *testing.T) {
	t.Run("connections", func(t *testing.T) {
		s := startSite(t, nil, Options{ConnectionMax: 2}).listen()
		s.connect()
		second := s.connect()
		wantClose(t, s.openRefused(), "connection refused: node connection limit (2) is reached", frames.ConnectionOpenID)
		second.close()
		for end := time.Now().Add(patience); s.server.Connections() > 1; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the connection is still counted")
			}
		}
		s.connect()
	})
	t.Run("channels", func(t *testing.T) {
		s := startSite(t, nil, Options{ChannelMaxPerNode: 2}).listen()
		first, second := s.connect().open(1), s.connect().open(1)
		call[*frames.ChannelCloseOk](first, 1, &frames.ChannelClose{})
		first.open(1)
		second.send(2, &frames.ChannelOpen{})
		wantClose(t, expect[*frames.ConnectionClose](second, 0),
			"number of channels opened on node 'warren@localhost' has reached the maximum allowed limit of 2", 0)
	})
	t.Run("consumers", func(t *testing.T) {
		s := startSite(t, nil, Options{ConsumerMaxPerChannel: 1}).listen()
		c := s.connect().open(1, 2)
		c.declare(1, "q", false)
		for _, channel := range []uint16{1, 2} {
			call[*frames.BasicConsumeOk](c, channel, &frames.BasicConsume{Queue: "q", ConsumerTag: "a"})
		}
		call[*frames.BasicCancelOk](c, 1, &frames.BasicCancel{ConsumerTag: "a"})
		call[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: "q", ConsumerTag: "b"})
		c.send(1, &frames.BasicConsume{Queue: "nowhere", ConsumerTag: "c"})
		wantClose(t, expect[*frames.ConnectionClose](c, 0), "reached maximum (1) of consumers per channel", frames.BasicConsumeID)
	})
}
