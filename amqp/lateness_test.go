package amqp

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// The consumer timeout, in bubbles whose time passes when nothing else can
// happen. What of it a client can see on RabbitMQ 4.3.6 is in the conformance
// suite; 3.10.8 has no timeout that a client can choose (behaviour 2.6).

// lateSite is a client of a server with a profile, with channels 1 and 2, and
// a classic queue "q".
func lateSite(t *testing.T, p compat.Profile, timeout time.Duration) *client {
	t.Helper()
	b, err := broker.Open(broker.Options{Logger: quiet, Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, broker: b, server: NewServer(Options{
		Broker: b, Logger: quiet, LoopbackUsers: []string{"none"}, ConsumerTimeout: timeout,
	})}
	t.Cleanup(s.stop)
	c := s.pipe().login(handshake{capabilities: frames.Table{{Key: "consumer_cancel_notify", Value: true}}}).open(1, 2)
	c.declare(1, "q", false)
	return c
}

// consumeOne has channel 1 hold one message of the queue.
func consumeOne(c *client, queue string) {
	call[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: queue, ConsumerTag: "c"})
	c.publish(2, queue, transient, []byte("a"))
	c.delivery(1)
}

// quietFor demands that nothing comes for a time.
func quietFor(c *client, d time.Duration) {
	c.t.Helper()
	time.Sleep(d)
	call[*frames.BasicQosOk](c, 2, &frames.BasicQos{})
}

// TestTimeoutBySlowTick: under 3.10.8 any queue's delivery may time out. It is
// looked for every 60 s, and the close is repeated until it is answered.
func TestTimeoutBySlowTick(t *testing.T) {
	for _, test := range []struct{ timeout, from, to time.Duration }{
		{time.Second, time.Second, time.Minute},
		{90 * time.Second, 90 * time.Second, 2 * time.Minute},
		{0, 30 * time.Minute, 31 * time.Minute},
	} {
		t.Run(fmt.Sprint(test.timeout), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lateSite(t, compat.V3, test.timeout)
				consumeOne(c, "q")
				var m *frames.ChannelClose
				if d := took(func() { m = expect[*frames.ChannelClose](c, 1) }); d < test.from || d > test.to {
					t.Errorf("closed after %v", d)
				}
				ms := max(test.timeout, test.from).Milliseconds()
				want := fmt.Sprintf("PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: %d ms. "+
					"This timeout value can be configured, see consumers doc guide to learn more", ms)
				if m.ReplyCode != frames.PreconditionFailed || m.ReplyText != want || m.ClassID != 0 || m.MethodID != 0 {
					t.Errorf("closed with %+v", m)
				}
				for range 3 {
					if d := took(func() { expect[*frames.ChannelClose](c, 1) }); d != time.Minute {
						t.Errorf("closed again after %v", d)
					}
				}
				c.send(1, &frames.ChannelCloseOk{})
				quietFor(c, time.Hour)
				if ok, body := c.get(2, "q", true); string(body) != "a" || !ok.Redelivered {
					t.Errorf("then %q, redelivered %v", body, ok.Redelivered)
				}
			})
		})
	}
}

// TestNoTimeout: what is acknowledged in time, what nobody limits, and under
// 4.3 what is in a classic queue.
func TestNoTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		profile compat.Profile
		timeout time.Duration
		ack     time.Duration
	}{
		"acknowledged under 3": {compat.V3, 0, 29 * time.Minute},
		"switched off":         {compat.V3, -1, 24 * time.Hour},
		"classic under 4":      {compat.V4, 0, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lateSite(t, test.profile, test.timeout)
				consumeOne(c, "q")
				quietFor(c, test.ack)
				c.send(1, &frames.BasicAck{DeliveryTag: 1})
				quietFor(c, 24*time.Hour)
			})
		})
	}
}

// TestTimeoutInTime: under 4.3 the first delivery of a quorum queue times out
// to the millisecond; later ones within a sixteenth of the limit, and none too
// soon, also when there are more of them than the channel has marks.
func TestTimeoutInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lateSite(t, compat.V4, 0)
		quorum := frames.Table{{Key: "x-queue-type", Value: "quorum"}}
		call[*frames.QueueDeclareOk](c, 2, &frames.QueueDeclare{Queue: "quorum", Durable: true, Arguments: quorum})
		consumeOne(c, "quorum")
		if d := took(func() { expect[*frames.BasicCancel](c, 1) }); d != 30*time.Minute {
			t.Errorf("cancelled after %v", d)
		}
		c.send(1, &frames.BasicAck{DeliveryTag: 1})
		c.delivery(1)
		c.send(1, &frames.BasicAck{DeliveryTag: 2})
	})
	synctest.Test(t, func(t *testing.T) {
		const limit = 1600 * time.Millisecond
		c := lateSite(t, compat.V4, limit)
		quorum := frames.Table{{Key: "x-queue-type", Value: "quorum"}}
		call[*frames.QueueDeclareOk](c, 2, &frames.QueueDeclare{Queue: "quorum", Durable: true, Arguments: quorum})
		slow := frames.Table{{Key: "x-consumer-timeout", Value: int64(3600_000)}}
		call[*frames.QueueDeclareOk](c, 2, &frames.QueueDeclare{Queue: "slow", Durable: true, Arguments: append(slow, quorum...)})
		call[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: "slow", ConsumerTag: "s"})
		slowSince := time.Now()
		c.publish(2, "slow", transient, []byte("s"))
		c.delivery(1)
		for range 50 { // each has a consumer of its own, to hear of it alone
			call[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: "quorum", ConsumerTag: "c"})
			time.Sleep(37 * time.Millisecond)
			c.publish(2, "quorum", transient, []byte("a"))
			d, _ := c.delivery(1)
			if took := took(func() { expect[*frames.BasicCancel](c, 1) }); took < limit || took > limit+limit/watchParts {
				t.Fatalf("cancelled after %v", took)
			}
			call[*frames.BasicCancelOk](c, 1, &frames.BasicCancel{ConsumerTag: "c"})
			c.send(1, &frames.BasicAck{DeliveryTag: d.DeliveryTag})
			if _, body := c.get(2, "quorum", true); string(body) != "a" {
				t.Fatalf("got %q", body)
			}
		}
		if m := expect[*frames.BasicCancel](c, 1); m.ConsumerTag != "s" || time.Since(slowSince) < time.Hour || time.Since(slowSince) > time.Hour+time.Minute {
			t.Errorf("%+v after %v", m, time.Since(slowSince))
		}
	})
}
