package amqp

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/frames"
)

// parkedSite is a server whose store commits nothing until release is called,
// and a client with channel 1 parked behind a durable declare.
func parkedSite(t *testing.T) (s *site, c *client, release func()) {
	t.Helper()
	store := openStore(t)
	s = startSite(t, store, Options{}).listen()
	c = s.connect().open(1, 2)
	release = holdCommitter(t, store)
	c.send(1, &frames.QueueDeclare{Queue: "durable", Durable: true})
	return s, c, release
}

// TestParkedChannel: a durable declare waits for the store; the frames behind
// it on its channel wait too, in order, and other channels go on.
func TestParkedChannel(t *testing.T) {
	s, c, release := parkedSite(t)
	for i := range 3 {
		c.addPublish(1, "durable", transient, fmt.Append(nil, i))
	}
	c.add(1, &frames.QueueDeclare{Queue: "durable2", Durable: true, NoWait: true}) // parks again
	c.add(1, &frames.QueueDeclare{Queue: "durable3", Durable: true})               // and again
	c.add(1, &frames.BasicGet{Queue: "durable", NoAck: true})
	c.add(1, &frames.BasicConsume{Queue: "durable", ConsumerTag: "tag", NoAck: true})
	c.flush()
	for range 3 {
		c.declare(2, "transient", false)
	}
	release()
	expect[*frames.QueueDeclareOk](c, 1)
	if q := expect[*frames.QueueDeclareOk](c, 1); q.Queue != "durable3" {
		t.Errorf("declare-ok of %q", q.Queue)
	}
	expect[*frames.BasicGetOk](c, 1)
	if got := c.body(1); string(got) != "0" {
		t.Errorf("got message %q", got)
	}
	expect[*frames.BasicConsumeOk](c, 1)
	for _, want := range []string{"1", "2"} {
		if _, got := c.delivery(1); string(got) != want {
			t.Errorf("delivered %q, want %q", got, want)
		}
	}
	c.close()
	s.clean()
}

// TestParkedBacklog: beyond the bound the connection is not read until the
// channel goes on.
func TestParkedBacklog(t *testing.T) {
	s, c, release := parkedSite(t)
	body := make([]byte, 100_000)
	for range 15 {
		c.publish(1, "durable", transient, body)
	}
	server := s.conn(c)
	eventually(t, "the connection is paused", func() bool {
		server.mu.Lock()
		defer server.mu.Unlock()
		return server.parkedBytes > parkedBound && server.paused.Load() == ownPause
	})
	c.send(2, &frames.QueueDeclare{Queue: "transient"})
	before := server.reader.BytesRead()
	server.mu.Lock()
	if most := parkedBound + 2*len(body); server.parkedBytes > most {
		t.Errorf("%d octets wait", server.parkedBytes)
	}
	server.mu.Unlock()
	if n := server.reader.BytesRead(); n != before {
		t.Errorf("%d more octets were read", n-before)
	}
	release()
	for seen := 0; seen < 2; seen++ { // in any order: two channels
		if _, m := c.method(); m.ID() != frames.QueueDeclareOkID {
			t.Fatalf("got %T", m)
		}
	}
	for q := range 15 {
		if n := call[*frames.QueueDeclareOk](c, 1, &frames.QueueDeclare{Queue: "durable", Passive: true}).MessageCount; n != 15 {
			t.Fatalf("%d messages arrived, asked %d times", n, q)
		}
	}
	server.mu.Lock()
	if server.parkedBytes != 0 {
		t.Errorf("%d octets count as parked", server.parkedBytes)
	}
	server.mu.Unlock()
	c.close()
	s.clean()
}

// TestParkedBoundIsTheConnections: many parked channels share one bound.
func TestParkedBoundIsTheConnections(t *testing.T) {
	s, c, release := parkedSite(t)
	for id := uint16(3); id <= 22; id++ {
		c.open(id)
	}
	for id := uint16(3); id <= 22; id++ {
		c.add(id, &frames.QueueDeclare{Queue: fmt.Sprint("durable", id), Durable: true})
		c.addPublish(id, "durable", transient, make([]byte, 70_000))
	}
	c.flush()
	server := s.conn(c)
	eventually(t, "the connection is paused", func() bool { return server.paused.Load() == ownPause })
	server.mu.Lock()
	if n := server.parkedBytes; n > parkedBound+150_000 {
		t.Errorf("%d octets wait", n)
	}
	server.mu.Unlock()
	release()
	for range 21 {
		if _, m := c.method(); m.ID() != frames.QueueDeclareOkID {
			t.Fatalf("got %T", m)
		}
	}
	c.close()
	s.clean()
}

// TestParkedPipeline: thousands of durable declares in one go are answered in
// order and handled in linear time.
func TestParkedPipeline(t *testing.T) {
	const declares = 3000
	s, c, release := parkedSite(t)
	for i := range declares {
		c.add(1, &frames.QueueDeclare{Queue: fmt.Sprint("q", i), Durable: true, NoWait: i%100 != 99})
	}
	c.flush()
	release()
	expect[*frames.QueueDeclareOk](c, 1)
	for i := 99; i < declares; i += 100 {
		if q := expect[*frames.QueueDeclareOk](c, 1); q.Queue != fmt.Sprint("q", i) {
			t.Fatalf("declare-ok of %q, want q%d", q.Queue, i)
		}
	}
	c.close()
	s.clean()
}

// TestParkedReopen: the frames behind a parked channel may close it and open
// its number again.
func TestParkedReopen(t *testing.T) {
	s, c, release := parkedSite(t)
	c.add(1, &frames.ChannelClose{ReplyCode: 200})
	c.add(1, &frames.ChannelOpen{})
	c.add(1, &frames.QueueDeclare{Queue: "again", Durable: true})
	c.add(1, &frames.BasicQos{})
	c.flush()
	c.declare(2, "transient", false)
	release()
	expect[*frames.QueueDeclareOk](c, 1)
	expect[*frames.ChannelCloseOk](c, 1)
	expect[*frames.ChannelOpenOk](c, 1)
	if q := expect[*frames.QueueDeclareOk](c, 1); q.Queue != "again" {
		t.Errorf("declare-ok of %q", q.Queue)
	}
	expect[*frames.BasicQosOk](c, 1)
	c.close()
	s.clean()
}

// TestParkedError: an error among the frames that waited ends the channel; the
// rest is ignored.
func TestParkedError(t *testing.T) {
	s, c, release := parkedSite(t)
	c.add(1, &frames.BasicGet{Queue: "missing"})
	c.addPublish(1, "durable", transient, []byte("too late"))
	c.add(1, &frames.BasicQos{})
	c.flush()
	c.declare(2, "transient", false)
	release()
	expect[*frames.QueueDeclareOk](c, 1)
	if e := expect[*frames.ChannelClose](c, 1); e.ReplyCode != frames.NotFound {
		t.Errorf("closed with %d %s", e.ReplyCode, e.ReplyText)
	}
	c.send(1, &frames.ChannelCloseOk{})
	c.open(1)
	if q := call[*frames.QueueDeclareOk](c, 1, &frames.QueueDeclare{Queue: "durable", Passive: true}); q.MessageCount != 0 {
		t.Errorf("%d messages of a channel that had ended", q.MessageCount)
	}
	c.close()
	s.clean()
}

// TestParkedEnds: whatever ends the connection while a channel is parked, and
// while it is not read for that reason, leaves nothing behind.
func TestParkedEnds(t *testing.T) {
	ends := map[string]func(s *site, c *client){
		"client closes": func(s *site, c *client) { c.close() },
		"client goes":   func(s *site, c *client) { c.socket.Close() },
		"server closes": func(s *site, c *client) {
			s.conn(c).Close(frames.ConnectionForced, "enough")
			if e := expect[*frames.ConnectionClose](c, 0); e.ReplyText != "CONNECTION_FORCED - enough" {
				s.t.Errorf("closed with %s", e.ReplyText)
			}
			c.send(0, &frames.ConnectionCloseOk{})
			c.gone()
		},
		"server resets": func(s *site, c *client) { s.conn(c).reset(); c.gone() },
		"another channel fails": func(s *site, c *client) {
			c.write(frames.AppendBodyFrames(nil, 2, []byte("unexpected"), 4096))
			expect[*frames.ConnectionClose](c, 0)
			c.send(0, &frames.ConnectionCloseOk{})
			c.gone()
		},
	}
	for name, end := range ends {
		for _, backlog := range []int{1, 20} {
			t.Run(fmt.Sprint(name, " behind ", backlog), func(t *testing.T) {
				if name == "client closes" || name == "another channel fails" {
					backlog = min(backlog, 5) // or it is not read before the channel goes on
				}
				s, c, release := parkedSite(t)
				for range backlog {
					c.publish(1, "durable", persistent, make([]byte, 100_000))
				}
				server := s.conn(c)
				eventually(t, "the frames wait", func() bool {
					server.mu.Lock()
					defer server.mu.Unlock()
					return server.parkedBytes >= min(parkedBound, backlog*100_000)
				})
				end(s, c)
				release()
				s.clean()
				s.check()
				s.stop()
			})
		}
	}
}

// TestCommitPending: tx.commit waits for the store, and a further method
// meanwhile is an error (behaviour 2.8).
func TestCommitPending(t *testing.T) {
	for _, impatient := range []bool{false, true} {
		store := openStore(t)
		s := startSite(t, store, Options{}).listen()
		c := s.connect().open(1, 2)
		c.declare(1, "durable", true)
		call[*frames.TxSelectOk](c, 1, &frames.TxSelect{})
		release := holdCommitter(t, store)
		c.addPublish(1, "durable", persistent, []byte("one"))
		c.addPublish(1, "durable", persistent, []byte("two"))
		c.add(1, &frames.TxCommit{})
		c.flush()
		c.declare(2, "transient", false)
		if impatient {
			c.send(1, &frames.BasicQos{})
			e := expect[*frames.ConnectionClose](c, 0)
			const want = "CHANNEL_ERROR - unexpected command while processing 'tx.commit'"
			if e.ReplyText != want || e.ClassID != 60 || e.MethodID != 10 {
				t.Errorf("closed with %+v", e)
			}
			release()
			c.send(0, &frames.ConnectionCloseOk{})
			c.gone()
		} else {
			release()
			expect[*frames.TxCommitOk](c, 1)
			c.close()
		}
		s.clean()
		c = s.connect().open(1)
		for _, want := range []string{"one", "two"} {
			if _, got := c.get(1, "durable", true); string(got) != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		c.close()
	}
}
