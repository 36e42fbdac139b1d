package amqp

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/frames"
)

// The tests of this file run in a bubble whose time passes when nothing else
// can happen: durations are exact.

var heartbeatFrame = frames.AppendHeartbeat(nil)

// took runs f and says how long it was.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// TestHeartbeatsSent: an idle server sends one every half interval (behaviour
// 1.7), also when the client sends its own.
func TestHeartbeatsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSite(t, nil, Options{}).pipe().login(handshake{heartbeat: 4})
		first := took(func() { c.frame() })
		if first > 4*time.Second {
			t.Errorf("the first heartbeat came after %v", first)
		}
		for range 20 {
			c.write(heartbeatFrame)
			var f frames.Frame
			gap := took(func() { f = c.frame() })
			if f.Type != frames.TypeHeartbeat || gap != 2*time.Second {
				t.Fatalf("frame of type %d after %v, want a heartbeat after 2s", f.Type, gap)
			}
		}
	})
}

// TestHeartbeatsNotSent: with interval 0 the server sends none and waits for
// none.
func TestHeartbeatsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startSite(t, nil, Options{}).pipe().login(handshake{})
		time.Sleep(24 * time.Hour)
		c.open(1)
	})
}

// TestHeartbeatsMissed: a client of which nothing came for two to three
// intervals is dropped without a word; any octet counts.
func TestHeartbeatsMissed(t *testing.T) {
	for _, lived := range []time.Duration{0, time.Second, 1500 * time.Millisecond, time.Minute + 300*time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c := startSite(t, nil, Options{}).pipe().login(handshake{heartbeat: 1})
			ended := make(chan time.Time)
			go func() {
				io.Copy(io.Discard, c.socket)
				ended <- time.Now()
			}()
			for start := time.Now(); time.Since(start) < lived; time.Sleep(100 * time.Millisecond) {
				c.write(heartbeatFrame)
			}
			c.write(heartbeatFrame[:1])
			start := time.Now()
			d := (<-ended).Sub(start)
			if d < 2*time.Second || d > 3*time.Second {
				t.Errorf("dropped %v after the last octet", d)
			}
		})
	}
}

// TestHeartbeatsOfSlowReader: a client that is not read because it takes its
// answers slowly is alive as long as it takes them.
func TestHeartbeatsOfSlowReader(t *testing.T) {
	for _, takes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := startSite(t, nil, Options{}).pipe().login(handshake{heartbeat: 2}).open(1)
			c.declare(1, "q", false)
			c.publish(1, "q", transient, make([]byte, 500_000))
			for range 10 {
				c.add(1, &frames.BasicGet{Queue: "q"})
				c.add(1, &frames.BasicRecoverAsync{Requeue: true})
			}
			c.flush()
			wrote := make(chan error, 1)
			go func() { // stops when the server does not read any more
				for {
					if _, err := c.socket.Write(heartbeatFrame); err != nil {
						wrote <- err
						return
					}
					time.Sleep(time.Second)
				}
			}()
			if !takes {
				if d := took(func() { <-wrote }); d > 10*time.Second {
					t.Errorf("a client that takes nothing was dropped after %v", d)
				}
				return
			}
			piece := make([]byte, 100_000)
			for range 60 {
				time.Sleep(time.Second)
				if _, err := io.ReadFull(c.socket, piece[:80_000]); err != nil {
					t.Fatalf("dropped although it takes its answers: %v", err)
				}
			}
			c.socket.Close()
			<-wrote
		})
	}
}

// TestHandshakeTimeout: 10 seconds for all of the handshake, and no word
// (behaviour 1.2).
func TestHandshakeTimeout(t *testing.T) {
	for name, begin := range map[string]func(*client){
		"nothing":             func(*client) {},
		"part of the header":  func(c *client) { c.write([]byte("AMQ")) },
		"header":              func(c *client) { c.write([]byte("AMQP\x00\x00\x09\x01")); c.frame() },
		"start-ok":            func(c *client) { c.start(handshake{}); c.frame() },
		"header after a wait": func(c *client) { time.Sleep(4 * time.Second); c.write([]byte("AMQP\x00\x00\x09\x01")); c.frame() },
		"tune-ok": func(c *client) {
			c.start(handshake{})
			c.frame()
			c.send(0, &frames.ConnectionTuneOk{ChannelMax: 1, FrameMax: 4096})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startSite(t, nil, Options{})
				var last []frames.Method
				d := took(func() {
					c := s.pipe()
					begin(c)
					last = c.gone()
				})
				if d != 10*time.Second || len(last) > 0 {
					t.Errorf("closed after %v with %v", d, last)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := startSite(t, nil, Options{HandshakeTimeout: time.Second}).pipe().login(handshake{})
		time.Sleep(time.Minute)
		c.open(1) // the timeout ended with the handshake
	})
}

// TestFailedHandshake: what a client gets wrong is not told but waited out
// (behaviour 1.4, 1.5), save a refused login for a client that can take it.
func TestFailedHandshake(t *testing.T) {
	can := frames.Table{{Key: "authentication_failure_close", Value: true}}
	const refused = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
	tests := map[string]struct {
		handshake
		tune *frames.ConnectionTuneOk
		want []frames.Method
		wait time.Duration
	}{
		"wrong password":            {handshake{mechanism: "PLAIN", response: "\x00guest\x00no"}, nil, nil, 3 * time.Second},
		"wrong password, able":      {handshake{mechanism: "PLAIN", response: "\x00guest\x00no", capabilities: can}, nil, []frames.Method{&frames.ConnectionClose{ReplyCode: 403, ReplyText: refused}}, 5 * time.Second},
		"malformed response":        {handshake{mechanism: "PLAIN", response: "guest"}, nil, nil, 3 * time.Second},
		"malformed response, able":  {handshake{mechanism: "PLAIN", response: "guest", capabilities: can}, nil, nil, 3 * time.Second},
		"unknown mechanism":         {handshake{mechanism: "KERBEROS"}, nil, nil, 3 * time.Second},
		"EXTERNAL without TLS":      {handshake{mechanism: "EXTERNAL"}, nil, nil, 3 * time.Second},
		"frame-max too small":       {handshake{}, &frames.ConnectionTuneOk{ChannelMax: 10, FrameMax: 4095}, nil, 3 * time.Second},
		"frame-max without limit":   {handshake{}, &frames.ConnectionTuneOk{ChannelMax: 10}, nil, 3 * time.Second},
		"channel-max without limit": {handshake{}, &frames.ConnectionTuneOk{FrameMax: 4096}, nil, 3 * time.Second},
		"channel-max too large":     {handshake{}, &frames.ConnectionTuneOk{ChannelMax: 2048, FrameMax: 4096}, nil, 3 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startSite(t, nil, Options{}).pipe()
				c.start(tt.handshake)
				if tt.tune != nil {
					expect[*frames.ConnectionTune](c, 0)
					c.send(0, tt.tune)
				}
				var got []frames.Method
				if d := took(func() { got = c.gone() }); d != tt.wait {
					t.Errorf("dropped after %v, want %v", d, tt.wait)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestCloseTimeout: the server waits for close-ok for the heartbeat interval,
// at most 30 seconds (behaviour 1.9), and sends heartbeats meanwhile.
func TestCloseTimeout(t *testing.T) {
	for beat, want := range map[uint16]time.Duration{0: 30 * time.Second, 5: 5 * time.Second, 600: 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := startSite(t, nil, Options{}).pipe().login(handshake{heartbeat: beat}).open(1)
			c.write(frames.AppendBodyFrames(nil, 1, []byte("unexpected"), 4096))
			closed := expect[*frames.ConnectionClose](c, 0)
			if closed.ReplyCode != frames.UnexpectedFrame {
				t.Errorf("closed with %d %s", closed.ReplyCode, closed.ReplyText)
			}
			start := time.Now()
			c.send(1, &frames.QueueDeclare{Queue: "ignored"})
			if last := c.gone(); len(last) > 0 {
				t.Errorf("%v after the close", last)
			}
			if d := time.Since(start); d != want {
				t.Errorf("heartbeat %d: dropped after %v, want %v", beat, d, want)
			}
		})
	}
}

// TestCloseAnswered: close-ok ends the connection at once; a close that
// crossed the server's is answered.
func TestCloseAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSite(t, nil, Options{})
		c := s.pipe().login(handshake{}).open(1)
		c.write(frames.AppendBodyFrames(nil, 1, []byte("unexpected"), 4096))
		expect[*frames.ConnectionClose](c, 0)
		c.send(0, &frames.ConnectionClose{ReplyCode: 200})
		expect[*frames.ConnectionCloseOk](c, 0)
		c.send(0, &frames.ConnectionCloseOk{})
		if d := took(func() { c.gone() }); d != 0 {
			t.Errorf("ended after %v", d)
		}
		synctest.Wait()
		s.clean()
	})
}

// TestCloseOfDeafClient: a client that closes but does not read is dropped.
func TestCloseOfDeafClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSite(t, nil, Options{})
		c := s.pipe().login(handshake{}).open(1)
		c.declare(1, "q", false)
		c.publish(1, "q", transient, make([]byte, 1<<20))
		c.send(1, &frames.BasicGet{Queue: "q"})
		c.send(0, &frames.ConnectionClose{ReplyCode: 200})
		time.Sleep(29 * time.Second)
		if n := s.server.Connections(); n != 1 {
			t.Fatalf("%d connections before the time is over", n)
		}
		time.Sleep(2 * time.Second)
		s.clean()
	})
}

// TestBrokenFraming: what cannot be read on is answered, and reset 3 seconds
// later whatever the client sends (behaviour 1.8).
func TestBrokenFraming(t *testing.T) {
	for name, broken := range map[string][]byte{
		"end octet": {1, 0, 1, 0, 0, 0, 1, 'x', 'X'},
		"too large": {1, 0, 1, 0, 2, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startSite(t, nil, Options{})
				c := s.pipe().login(handshake{}).open(1)
				c.write(broken)
				closed := expect[*frames.ConnectionClose](c, 0)
				if closed.ReplyCode != frames.FrameError {
					t.Errorf("closed with %d %s", closed.ReplyCode, closed.ReplyText)
				}
				c.send(0, &frames.ConnectionCloseOk{})
				c.write(bytes.Repeat([]byte("more"), 10_000))
				if d := took(func() { c.gone() }); d != 3*time.Second {
					t.Errorf("reset after %v", d)
				}
				synctest.Wait()
				s.clean()
			})
		})
	}
}

// TestShutdown: clients get 320 with RabbitMQ's text, those that do not answer
// are reset when the context ends, and those inside the handshake at once.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSite(t, nil, Options{})
		polite, deaf, mute := s.pipe().login(handshake{}).open(1), s.pipe().login(handshake{}), s.pipe()
		polite.declare(1, "q", false)
		call[*frames.BasicConsumeOk](polite, 1, &frames.BasicConsume{Queue: "q"})
		go mute.gone()
		closed := make(chan *frames.ConnectionClose, 1)
		go func() {
			closed <- expect[*frames.ConnectionClose](polite, 0)
			polite.send(0, &frames.ConnectionCloseOk{})
			polite.gone()
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if d := took(func() { s.server.Shutdown(ctx) }); d != 5*time.Second {
			t.Errorf("shutdown took %v, a client did not answer for 5s", d)
		}
		want := &frames.ConnectionClose{ReplyCode: 320, ReplyText: "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"}
		if diff := cmp.Diff(want, <-closed); diff != "" {
			t.Error(diff)
		}
		deaf.gone()
		s.clean()
		if d := took(func() { s.server.Shutdown(ctx) }); d != 0 {
			t.Errorf("a second shutdown took %v", d)
		}
		late := s.pipe()
		late.gone()
	})
}

// TestShutdownWithoutWait: when all clients answer nobody waits for the
// context.
func TestShutdownWithoutWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSite(t, nil, Options{})
		for range 10 {
			c := s.pipe().login(handshake{})
			go func() {
				expect[*frames.ConnectionClose](c, 0)
				c.send(0, &frames.ConnectionCloseOk{})
			}()
		}
		if d := took(func() { s.server.Shutdown(context.Background()) }); d != 0 {
			t.Errorf("shutdown took %v", d)
		}
	})
}
