package amqp

import (
	"testing"

	"github.com/warrenmq/warren/frames"
)

// notified is a client that can take basic.cancel.
var notified = handshake{capabilities: frames.Table{{Key: "consumer_cancel_notify", Value: true}}}

// TestCancelNotified: a consumer that got consume-ok is told when its queue
// goes, however close the two are; and never before consume-ok.
func TestCancelNotified(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	a, b := s.dial().login(notified).open(1), s.connect().open(1)
	consumed := 0
	for i := range 300 {
		b.declare(1, "q", false)
		if i%2 == 0 {
			a.send(1, &frames.BasicConsume{Queue: "q", ConsumerTag: "t"})
			b.send(1, &frames.QueueDelete{Queue: "q"})
		} else {
			b.send(1, &frames.QueueDelete{Queue: "q"})
			a.send(1, &frames.BasicConsume{Queue: "q", ConsumerTag: "t"})
		}
		expect[*frames.QueueDeleteOk](b, 1)
		switch _, m := a.method(); m := m.(type) {
		case *frames.BasicConsumeOk:
			consumed++
			if got := expect[*frames.BasicCancel](a, 1); got.ConsumerTag != "t" {
				t.Fatalf("%+v", got)
			}
		case *frames.ChannelClose:
			if m.ReplyCode != frames.NotFound {
				t.Fatalf("closed with %+v", m)
			}
			a.send(1, &frames.ChannelCloseOk{})
			a.open(1)
		default:
			t.Fatalf("got %T", m)
		}
	}
	t.Logf("%d of 300 consumed before the queue went", consumed)
	a.close()
	b.close()
	s.clean()
}

// TestCancelBeforeConsumeOk is the narrow case of it: the queue goes after the
// consumer was added and before consume-ok was sent.
func TestCancelBeforeConsumeOk(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.dial().login(notified).open(1)
	c.declare(1, "q", false)
	server := s.conn(c)
	server.mu.Lock()
	ch := server.channels[1]
	q, _ := server.vhost.Queue("q")
	o := &consumer{ch: ch, q: q}
	o.Tag, o.Sink = "t", o
	if err := ch.addConsumer(o); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Delete(false, false); err != nil {
		t.Fatal(err)
	}
	if err := ch.reply(&frames.BasicConsumeOk{ConsumerTag: "t"}); err != nil {
		t.Fatal(err)
	}
	ch.announce(o)
	ch.announce(o) // once is enough
	server.mu.Unlock()
	expect[*frames.BasicConsumeOk](c, 1)
	expect[*frames.BasicCancel](c, 1)
	call[*frames.BasicCancelOk](c, 1, &frames.BasicCancel{ConsumerTag: "t"})
	c.close()
}

// TestCancelOnOwnConnection: deleting a queue that the same connection consumes
// from, on the same or another channel.
func TestCancelOnOwnConnection(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	for _, on := range []uint16{1, 2} {
		c := s.dial().login(notified).open(1, 2)
		c.declare(1, "q", false)
		call[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: "q", ConsumerTag: "t"})
		c.send(on, &frames.QueueDelete{Queue: "q"})
		kinds := map[frames.MethodID]uint16{}
		for range 2 {
			channel, m := c.method()
			kinds[m.ID()] = channel
		}
		if kinds[frames.BasicCancelID] != 1 || kinds[frames.QueueDeleteOkID] != on {
			t.Errorf("deleted on channel %d: %v", on, kinds)
		}
		c.close()
	}
	s.clean()
}

// TestReusedTagFirst: the tag is checked before the queue, so that a consume
// that fails makes no reply queue.
func TestReusedTagFirst(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.connect().open(1)
	c.declare(1, "q", false)
	call[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: "q", ConsumerTag: "t"})
	c.send(1, &frames.BasicConsume{Queue: "missing", ConsumerTag: "t", NoAck: true})
	if e := expect[*frames.ConnectionClose](c, 0); e.ReplyText != "NOT_ALLOWED - attempt to reuse consumer tag 't'" {
		t.Errorf("closed with %s", e.ReplyText)
	}
	c.send(0, &frames.ConnectionCloseOk{})
	c.gone()
	s.clean()
}
