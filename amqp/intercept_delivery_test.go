package amqp

import (
	"fmt"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

func TestInterceptDelivery(t *testing.T) {
	second := func(v broker.Verdict) *rule { return &rule{match: step(broker.DeliverySent), nth: 2, verdict: v} }
	// three messages, consumed on channel 2.
	fill := func(c *client) {
		for i := range 3 {
			c.publish(1, "q", transient, []byte{'0' + byte(i)})
			expect[*frames.BasicAck](c, 1)
		}
	}
	consume := func(c *client) {
		fill(c)
		call[*frames.BasicConsumeOk](c, 2, &frames.BasicConsume{Queue: "q", ConsumerTag: "t"})
	}
	delivered := func(c *client, tag uint64, body string) {
		c.t.Helper()
		if d, got := c.delivery(2); d.DeliveryTag != tag || string(got) != body {
			c.t.Errorf("delivery %d of %q, want %d of %q", d.DeliveryTag, got, tag, body)
		}
	}
	t.Run("refuse", func(t *testing.T) {
		intercepted(t, second(refuse), func(s *site, c *client) {
			consume(c)
			delivered(c, 1, "0")
			if e := expect[*frames.ChannelClose](c, 2); e.ReplyText != "PRECONDITION_FAILED - because" {
				t.Errorf("closed with %+v", e)
			}
			if n := call[*frames.QueueDeclareOk](c, 1, &frames.QueueDeclare{Queue: "q"}); n.MessageCount != 3 || n.ConsumerCount != 0 {
				t.Errorf("%+v", n)
			}
		})
	})
	t.Run("drop", func(t *testing.T) {
		intercepted(t, second(drop), func(s *site, c *client) {
			consume(c)
			delivered(c, 1, "0")
			delivered(c, 3, "2")
			// It counts as delivered, and comes back with the channel's end.
			call[*frames.ChannelCloseOk](c, 2, &frames.ChannelClose{})
			if n := call[*frames.QueueDeclareOk](c, 1, &frames.QueueDeclare{Queue: "q"}); n.MessageCount != 3 {
				t.Errorf("%+v", n)
			}
		})
	})
	t.Run("delay", func(t *testing.T) {
		intercepted(t, second(delay), func(s *site, c *client) {
			consume(c)
			delivered(c, 1, "0")
			call[*frames.BasicQosOk](c, 2, &frames.BasicQos{})
			c.send(2, &frames.BasicAck{DeliveryTag: 1})
			minuteLater(t, func() { delivered(c, 2, "1") })
			delivered(c, 3, "2")
		})
	})
	t.Run("delay while the consumer goes", func(t *testing.T) {
		intercepted(t, second(delay), func(s *site, c *client) {
			consume(c)
			delivered(c, 1, "0")
			call[*frames.BasicCancelOk](c, 2, &frames.BasicCancel{ConsumerTag: "t"})
			time.Sleep(time.Hour)
			if n := call[*frames.QueueDeclareOk](c, 2, &frames.QueueDeclare{Queue: "q"}); n.MessageCount != 2 {
				t.Errorf("%+v", n)
			}
		})
	})
	t.Run("close", func(t *testing.T) {
		intercepted(t, second(cut), func(s *site, c *client) {
			fill(c)
			c.send(2, &frames.BasicConsume{Queue: "q", ConsumerTag: "t"})
			c.gone()
			eventually(t, "the connection gone", func() bool { return s.server.Connections() == 0 })
			c = s.pipe().login(handshake{}).open(1)
			if n := call[*frames.QueueDeclareOk](c, 1, &frames.QueueDeclare{Queue: "q"}); n.MessageCount != 3 {
				t.Errorf("%+v", n)
			}
		})
	})
}

func TestInterceptGet(t *testing.T) {
	rules := func(v broker.Verdict) *rule { return &rule{match: step(broker.DeliverySent), nth: 1, verdict: v} }
	fill := func(c *client) {
		for i := range 2 {
			c.publish(1, "q", transient, []byte{'0' + byte(i)})
			expect[*frames.BasicAck](c, 1)
		}
	}
	t.Run("refuse", func(t *testing.T) {
		intercepted(t, rules(refuse), func(s *site, c *client) {
			fill(c)
			c.send(2, &frames.BasicGet{Queue: "q"})
			closedBy(c, 2, frames.BasicGetID)
			if ok, got := c.get(1, "q", false); string(got) != "0" || !ok.Redelivered {
				t.Errorf("got %q, redelivered %v", got, ok.Redelivered)
			}
		})
	})
	t.Run("drop", func(t *testing.T) {
		intercepted(t, rules(drop), func(s *site, c *client) {
			fill(c)
			c.add(2, &frames.BasicGet{Queue: "q"})
			c.add(2, &frames.BasicGet{Queue: "q"})
			c.flush()
			if ok := expect[*frames.BasicGetOk](c, 2); ok.DeliveryTag != 2 {
				t.Errorf("got %d", ok.DeliveryTag)
			}
			c.body(2)
			c.add(2, &frames.BasicReject{DeliveryTag: 1, Requeue: true}) // it was delivered
			c.flush()
			if _, got := c.get(2, "q", false); string(got) != "0" {
				t.Errorf("got %q", got)
			}
		})
	})
	t.Run("delay", func(t *testing.T) {
		intercepted(t, rules(delay), func(s *site, c *client) {
			fill(c)
			c.add(2, &frames.BasicGet{Queue: "q"})
			c.add(2, &frames.BasicGet{Queue: "q"})
			c.flush()
			for tag, wait := range []time.Duration{time.Minute, 0} {
				var ok *frames.BasicGetOk
				if d := took(func() { ok = expect[*frames.BasicGetOk](c, 2) }); d != wait || ok.DeliveryTag != uint64(tag+1) {
					t.Errorf("%+v after %v", ok, d)
				}
				if got := c.body(2); string(got) != fmt.Sprint(tag) {
					t.Errorf("got %q", got)
				}
			}
		})
	})
	t.Run("close", func(t *testing.T) {
		intercepted(t, rules(cut), func(s *site, c *client) {
			fill(c)
			c.send(2, &frames.BasicGet{Queue: "q"})
			c.gone()
		})
	})
}
