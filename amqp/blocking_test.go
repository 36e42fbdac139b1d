package amqp

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

// blockable is the handshake of a client that understands connection.blocked.
var blockable = handshake{capabilities: frames.Table{{Key: "connection.blocked", Value: true}}}

// publisher is a client in confirm mode on channel 1, with a queue q.
func (s *site) publisher(h handshake) *client {
	s.t.Helper()
	c := s.dial().login(h).open(1)
	call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
	c.declare(1, "q", false)
	return c
}

// wantBlocked reads connection.blocked.
func (c *client) wantBlocked(reason string) {
	c.t.Helper()
	if got := expect[*frames.ConnectionBlocked](c, 0).Reason; got != reason {
		c.t.Errorf("blocked because %q, want %q", got, reason)
	}
}

// TestBlocked: an alarm is told with the next publish, and what follows it on
// any channel waits; the end of the alarm is told before the answers
// (behaviour 1.11).
func TestBlocked(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.publisher(blockable).open(2)
	s.broker.SetAlarm(broker.Memory)
	c.declare(1, "idle", false) // nothing is told and nothing waits
	c.addPublish(1, "q", transient, []byte("held"))
	c.add(2, &frames.QueueDeclare{Queue: "later"})
	c.flush()
	c.wantBlocked("low on memory")
	if n := c.counted(s, "q"); n != 0 {
		t.Errorf("%d messages went through", n)
	}
	if got := s.broker.Sessions()[0].Details().State; got != "blocked" {
		t.Errorf("the connection's state is %s", got)
	}
	s.broker.SetAlarm(broker.Disk)
	s.broker.ClearAlarm(broker.Memory) // another reason now: not told
	s.broker.ClearAlarm(broker.Disk)
	expect[*frames.ConnectionUnblocked](c, 0)
	c.unordered(t, &frames.BasicAck{DeliveryTag: 1}, &frames.QueueDeclareOk{Queue: "later"})
	if got := s.broker.Sessions()[0].Details().State; got != "running" {
		t.Errorf("the connection's state is %s", got)
	}
	c.close()
}

// counted is how many messages a queue has, past every connection.
func (c *client) counted(s *site, queue string) int {
	v, _ := s.broker.VHost("/")
	for _, q := range v.Queues() {
		if q.Name == queue {
			return q.Counts().Ready
		}
	}
	c.t.Fatalf("no queue %q", queue)
	return 0
}

// unordered reads methods that may come in any order: those of two channels.
func (c *client) unordered(t *testing.T, want ...frames.Method) {
	t.Helper()
	left := map[frames.MethodID]frames.Method{}
	for _, m := range want {
		left[m.ID()] = m
	}
	for range want {
		_, m := c.method()
		if diff := cmp.Diff(left[m.ID()], m); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
		delete(left, m.ID())
	}
}

// TestBlockedReasons: the texts of RabbitMQ 3.10.8 and 4.3.6.
func TestBlockedReasons(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	for low, reason := range map[broker.Resource]string{
		broker.Memory: "low on memory", broker.Disk: "low on disk", broker.Memory | broker.Disk: "low on disk & memory",
	} {
		c := s.publisher(blockable)
		s.broker.SetAlarm(low)
		c.publish(1, "q", transient, []byte("held"))
		c.wantBlocked(reason)
		s.broker.ClearAlarm(low)
		expect[*frames.ConnectionUnblocked](c, 0)
		expect[*frames.BasicAck](c, 1)
		c.close()
	}
}

// TestBlockingFrame: it is the content header or a body frame that blocks, not
// the method; a message that is complete with it is taken.
func TestBlockingFrame(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.publisher(blockable).open(2)
	c.add(1, &frames.BasicPublish{RoutingKey: []byte("q")})
	c.buf = frames.AppendHeaderFrame(c.buf, 1, 4, nil)
	c.buf = frames.AppendBodyFrames(c.buf, 1, []byte("ha"), 131072)
	c.add(2, &frames.BasicPublish{RoutingKey: []byte("q")})
	c.flush()
	call[*frames.ChannelOpenOk](c, 3, &frames.ChannelOpen{})
	s.broker.SetAlarm(broker.Disk)
	call[*frames.ChannelOpenOk](c, 4, &frames.ChannelOpen{}) // a method of a publish blocks nothing
	c.write(frames.AppendBodyFrames(nil, 1, []byte("lf"), 131072))
	c.wantBlocked("low on disk")
	expect[*frames.BasicAck](c, 1)
	c.buf = frames.AppendHeaderFrame(c.buf, 2, 0, nil)
	c.flush()
	if n := c.counted(s, "q"); n != 1 {
		t.Errorf("%d messages, want the one that was complete", n)
	}
	s.broker.ClearAlarm(broker.Disk)
	expect[*frames.ConnectionUnblocked](c, 0)
	eventually(t, "the other message taken", func() bool { return c.counted(s, "q") == 2 })
	s.broker.SetAlarm(broker.Disk)
	c.publish(1, "q", transient, nil)
	c.wantBlocked("low on disk")
	expect[*frames.BasicAck](c, 1) // an empty body is complete with its header
	s.broker.ClearAlarm(broker.Disk)
	expect[*frames.ConnectionUnblocked](c, 0)
	c.close()
}

// TestBlockedWithoutCapability: the same without the methods.
func TestBlockedWithoutCapability(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.publisher(handshake{})
	s.broker.SetAlarm(broker.Memory)
	c.addPublish(1, "q", transient, []byte("held"))
	c.add(1, &frames.QueueDeclare{Queue: "later"})
	c.flush()
	eventually(t, "blocked", func() bool { return s.conn(c).Details().State == "blocked" })
	if n := c.counted(s, "q"); n != 0 {
		t.Errorf("%d messages went through", n)
	}
	s.broker.ClearAlarm(broker.Memory)
	c.unordered(t, &frames.BasicAck{DeliveryTag: 1}, &frames.QueueDeclareOk{Queue: "later"})
	c.close()
}

// TestBlockedConsumer: deliveries go out on a blocked connection; new and
// consuming connections are served.
func TestBlockedConsumer(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.publisher(blockable).open(2)
	call[*frames.BasicConsumeOk](c, 2, &frames.BasicConsume{Queue: "q", NoAck: true})
	other := s.publisher(blockable)
	other.publish(1, "q", transient, nil)
	expect[*frames.BasicAck](other, 1)
	c.delivery(2)
	for range 3 {
		other.publish(1, "work", transient, []byte("x")) // unroutable, confirmed
		expect[*frames.BasicAck](other, 1)
	}
	s.broker.SetAlarm(broker.Memory)
	c.publish(1, "q", transient, []byte("held"))
	c.wantBlocked("low on memory")
	other.publish(1, "q", transient, nil) // the last that goes through
	other.wantBlocked("low on memory")
	expect[*frames.BasicAck](other, 1)
	if _, body := c.delivery(2); len(body) != 0 {
		t.Errorf("delivered %q", body)
	}
	fresh := s.connect().open(1)
	fresh.declare(1, "fresh", false)
	fresh.close()
	s.broker.ClearAlarm(broker.Memory)
	expect[*frames.ConnectionUnblocked](other, 0)
	expect[*frames.ConnectionUnblocked](c, 0)
	c.unorderedDelivery(t)
	c.close()
	other.close()
}

// unorderedDelivery reads a confirm and a delivery on two channels.
func (c *client) unorderedDelivery(t *testing.T) {
	t.Helper()
	for range 2 {
		switch on, m := c.method(); m.(type) {
		case *frames.BasicAck:
		case *frames.BasicDeliver:
			c.body(on)
		default:
			t.Fatalf("got %#v", m)
		}
	}
}

// TestBlockedTransaction: publishes of a transaction block like others, and
// its commit follows afterwards.
func TestBlockedTransaction(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.dial().login(blockable).open(1)
	c.declare(1, "q", false)
	call[*frames.TxSelectOk](c, 1, &frames.TxSelect{})
	s.broker.SetAlarm(broker.Memory)
	c.addPublish(1, "q", transient, []byte("one"))
	c.addPublish(1, "q", transient, []byte("two"))
	c.add(1, &frames.TxCommit{})
	c.flush()
	c.wantBlocked("low on memory")
	s.broker.ClearAlarm(broker.Memory)
	expect[*frames.ConnectionUnblocked](c, 0)
	expect[*frames.TxCommitOk](c, 1)
	if n := c.counted(s, "q"); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
	c.close()
}

// TestBlockedAgain: a publish after the end of one alarm meets the next.
func TestBlockedAgain(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.publisher(blockable)
	for range 200 {
		s.broker.SetAlarm(broker.Memory)
		c.publish(1, "q", transient, []byte("held"))
		c.wantBlocked("low on memory")
		s.broker.ClearAlarm(broker.Memory)
		expect[*frames.ConnectionUnblocked](c, 0)
		expect[*frames.BasicAck](c, 1)
	}
	c.close()
}

// TestBlockedForAMoment: an alarm that comes and goes while many publish loses
// nothing and leaves nobody blocked.
func TestBlockedForAMoment(t *testing.T) {
	const publishers, messages = 8, 2000
	s := startSite(t, nil, Options{}).listen()
	stop, flapping := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(flapping)
		for {
			select {
			case <-stop:
				return
			default:
				s.broker.SetAlarm(broker.Memory)
				runtime.Gosched()
				s.broker.ClearAlarm(broker.Memory)
			}
		}
	}()
	done := make(chan error, publishers)
	for range publishers {
		c := s.publisher(handshake{})
		go func() {
			for range messages {
				c.addPublish(1, "q", transient, []byte("x"))
			}
			if _, err := c.socket.Write(c.buf); err != nil {
				done <- err
				return
			}
			for confirmed := uint64(0); confirmed < messages; {
				f, err := c.next()
				if err != nil {
					done <- err
					return
				}
				var m frames.BasicAck
				_, args, _ := frames.SplitMethod(f.Payload)
				if err := m.Decode(args); err != nil {
					done <- err
					return
				}
				confirmed = m.DeliveryTag
			}
			done <- nil
		}()
	}
	for range publishers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-flapping
	v, _ := s.broker.VHost("/")
	if n := v.Queues()[0].Counts().Ready; n != publishers*messages {
		t.Errorf("%d messages, want %d", n, publishers*messages)
	}
}

// TestBlockedAndClosed: a blocked connection can be closed from the server's
// side, and ends with its client's answer.
func TestBlockedAndClosed(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.publisher(blockable)
	s.broker.SetAlarm(broker.Memory)
	c.publish(1, "q", transient, []byte("held"))
	c.wantBlocked("low on memory")
	s.broker.CloseSessions(func(broker.SessionInfo) bool { return true }, "bye")
	if got := expect[*frames.ConnectionClose](c, 0); got.ReplyCode != 320 {
		t.Errorf("closed with %+v", got)
	}
	c.send(0, &frames.ConnectionCloseOk{})
	if last := c.gone(); len(last) > 0 {
		t.Errorf("after close-ok came %#v", last)
	}
	s.clean()
	s.broker.ClearAlarm(broker.Memory)
	if n := c.counted(s, "q"); n != 0 {
		t.Errorf("%d messages of a closed connection", n)
	}
}

// TestBlockedAndShutDown: a shutdown does not wait for the end of an alarm.
func TestBlockedAndShutDown(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.publisher(blockable)
	s.broker.SetAlarm(broker.Disk)
	c.publish(1, "q", transient, []byte("held"))
	c.wantBlocked("low on disk")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.server.Shutdown(ctx)
	}()
	expect[*frames.ConnectionClose](c, 0)
	c.send(0, &frames.ConnectionCloseOk{})
	<-ended
	s.clean()
}

// TestBlockedClientCloses: its connection.close is not read before the end of
// the alarm, as everything else, and then answered.
func TestBlockedClientCloses(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.publisher(blockable)
	s.broker.SetAlarm(broker.Memory)
	c.publish(1, "q", transient, []byte("held"))
	c.wantBlocked("low on memory")
	c.send(0, &frames.ConnectionClose{ReplyCode: 200})
	s.broker.ClearAlarm(broker.Memory)
	expect[*frames.ConnectionUnblocked](c, 0)
	if last := c.gone(); len(last) != 1 {
		t.Errorf("got %#v, want close-ok", last)
	}
	s.clean()
	if n := c.counted(s, "q"); n != 1 {
		t.Errorf("%d messages, want the held one", n)
	}
}

// TestBlockedClientVanishes: heartbeats find out that a blocked client is no
// more, whose socket nobody reads.
func TestBlockedClientVanishes(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	h := blockable
	h.heartbeat = 1
	c := s.publisher(h)
	s.broker.SetAlarm(broker.Memory)
	c.publish(1, "q", transient, []byte("held"))
	c.wantBlocked("low on memory")
	c.socket.Close()
	eventually(t, "the connection gone", func() bool { return s.server.Connections() == 0 })
	s.broker.ClearAlarm(broker.Memory)
	s.clean()
}

// TestBlockedHeartbeats: the client of a blocked connection is not missed,
// however long it says nothing, and gets heartbeats; after the alarm it is
// missed again (behaviour 1.7).
func TestBlockedHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSite(t, nil, Options{})
		h := blockable
		h.heartbeat = 2
		c := s.pipe().login(h).open(1)
		s.broker.SetAlarm(broker.Memory)
		go c.publish(1, "nobody", transient, []byte("held")) // a pipe takes what is read
		c.wantBlocked("low on memory")
		for range 100 {
			var f frames.Frame
			gap := took(func() { f = c.frame() })
			if f.Type != frames.TypeHeartbeat || gap > 2*time.Second {
				t.Fatalf("frame of type %d after %v", f.Type, gap)
			}
		}
		s.broker.ClearAlarm(broker.Memory)
		expect[*frames.ConnectionUnblocked](c, 0)
		start := time.Now()
		_, err := io.Copy(io.Discard, c.socket)
		if d := time.Since(start); d < 4*time.Second || d > 6*time.Second || err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("dropped %v after the alarm: %v", d, err)
		}
	})
}

// TestBlockedCrowd: blocked connections cost no goroutines, and all are told.
func TestBlockedCrowd(t *testing.T) {
	const crowd = 1000
	s := startSite(t, nil, Options{}).listen()
	clients := make([]*client, crowd)
	for i := range clients {
		clients[i] = s.dial().login(blockable).open(1)
	}
	first := clients[0]
	first.declare(1, "q", false)
	before := runtime.NumGoroutine()
	s.broker.SetAlarm(broker.Memory)
	for _, c := range clients {
		c.publish(1, "q", transient, []byte("held"))
	}
	for _, c := range clients {
		c.wantBlocked("low on memory")
	}
	eventually(t, "no more goroutines than before", func() bool { return runtime.NumGoroutine() <= before })
	s.broker.ClearAlarm(broker.Memory)
	for _, c := range clients {
		expect[*frames.ConnectionUnblocked](c, 0)
	}
	eventually(t, "all messages", func() bool { return first.counted(s, "q") == crowd })
}
