package amqp

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

// rule is an interceptor that says one thing to the nth event that matches.
type rule struct {
	match   func(*broker.Event) bool
	nth     int // from 1; 0 is every
	verdict broker.Verdict

	mu   sync.Mutex
	seen int
}

func (r *rule) Intercept(e *broker.Event) broker.Verdict {
	if !r.match(e) {
		return broker.Verdict{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen++
	if r.nth != 0 && r.seen != r.nth {
		return broker.Verdict{}
	}
	return r.verdict
}

// asked is how many events matched.
func (r *rule) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

func step(s broker.Step) func(*broker.Event) bool {
	return func(e *broker.Event) bool { return e.Step == s }
}

func methodStep(id frames.MethodID) func(*broker.Event) bool {
	return func(e *broker.Event) bool { return e.Step == broker.MethodHandled && e.Method == id }
}

var (
	refuse = broker.Verdict{Action: broker.Refuse, Code: frames.PreconditionFailed, Text: "because"}
	drop   = broker.Verdict{Action: broker.Drop}
	delay  = broker.Verdict{Action: broker.Delay, Wait: time.Minute}
	cut    = broker.Verdict{Action: broker.Close}
)

// intercepted runs a client against a server with one rule, in a bubble. The
// client has channels 1 and 2 and queue q, and channel 1 confirms.
func intercepted(t *testing.T, r *rule, run func(s *site, c *client)) {
	synctest.Test(t, func(t *testing.T) {
		s := startSite(t, nil, Options{})
		c := s.pipe().login(handshake{}).open(1, 2)
		c.declare(1, "q", false)
		call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
		defer s.broker.Hooks.AddInterceptor(r)()
		run(s, c)
	})
}

// closedBy checks the channel.close of a refusal.
func closedBy(c *client, channel uint16, id frames.MethodID) {
	c.t.Helper()
	want := &frames.ChannelClose{ReplyCode: refuse.Code, ReplyText: "PRECONDITION_FAILED - because", ClassID: id.Class(), MethodID: id.Method()}
	if diff := cmp.Diff(want, expect[*frames.ChannelClose](c, channel)); diff != "" {
		c.t.Error(diff)
	}
}

// minuteLater checks that something takes the time of delay.
func minuteLater(t testing.TB, f func()) {
	t.Helper()
	if d := took(f); d != delay.Wait {
		t.Errorf("after %v, want %v", d, delay.Wait)
	}
}

func TestInterceptMethod(t *testing.T) {
	qos := methodStep(frames.BasicQosID)
	declare := &frames.QueueDeclare{Queue: "q"}
	t.Run("go on", func(t *testing.T) {
		intercepted(t, &rule{match: qos}, func(s *site, c *client) {
			call[*frames.BasicQosOk](c, 1, &frames.BasicQos{})
		})
	})
	t.Run("refuse", func(t *testing.T) {
		intercepted(t, &rule{match: qos, verdict: refuse}, func(s *site, c *client) {
			c.send(1, &frames.BasicQos{})
			closedBy(c, 1, frames.BasicQosID)
			call[*frames.QueueDeclareOk](c, 2, declare)
		})
	})
	t.Run("refuse for good", func(t *testing.T) {
		v := broker.Verdict{Action: broker.Refuse, Code: frames.ResourceError, Text: "no more"}
		intercepted(t, &rule{match: qos, verdict: v}, func(s *site, c *client) {
			c.send(1, &frames.BasicQos{})
			if e := expect[*frames.ConnectionClose](c, 0); e.ReplyText != "RESOURCE_ERROR - no more" || e.MethodID != 10 {
				t.Errorf("closed with %+v", e)
			}
		})
	})
	t.Run("drop", func(t *testing.T) {
		intercepted(t, &rule{match: qos, verdict: drop}, func(s *site, c *client) {
			c.add(1, &frames.BasicQos{})
			c.add(1, declare)
			c.flush()
			expect[*frames.QueueDeclareOk](c, 1)
		})
	})
	t.Run("delay", func(t *testing.T) {
		intercepted(t, &rule{match: qos, verdict: delay}, func(s *site, c *client) {
			c.add(1, &frames.BasicQos{})
			c.add(1, declare)
			c.add(2, declare)
			c.flush()
			expect[*frames.QueueDeclareOk](c, 2)
			minuteLater(t, func() { expect[*frames.BasicQosOk](c, 1) })
			expect[*frames.QueueDeclareOk](c, 1)
		})
	})
	t.Run("close", func(t *testing.T) {
		intercepted(t, &rule{match: qos, verdict: cut}, func(s *site, c *client) {
			c.send(1, &frames.BasicQos{})
			if last := c.gone(); len(last) > 0 {
				t.Errorf("%v before the end", last)
			}
		})
	})
	t.Run("drop a publish", func(t *testing.T) {
		intercepted(t, &rule{match: methodStep(frames.BasicPublishID), nth: 2, verdict: drop}, func(s *site, c *client) {
			for i := range 3 {
				c.addPublish(1, "q", transient, []byte{'0' + byte(i)})
			}
			c.flush()
			for _, tag := range []uint64{1, 3} {
				if a := expect[*frames.BasicAck](c, 1); a.DeliveryTag != tag || a.Multiple {
					t.Fatalf("%+v, want %d", a, tag)
				}
			}
			for _, want := range []string{"0", "2"} {
				if _, got := c.get(1, "q", true); string(got) != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	})
	t.Run("delay a publish", func(t *testing.T) {
		intercepted(t, &rule{match: methodStep(frames.BasicPublishID), verdict: delay}, func(s *site, c *client) {
			c.publish(1, "q", transient, []byte("x"))
			minuteLater(t, func() { expect[*frames.BasicAck](c, 1) })
		})
	})
}

func TestInterceptPublish(t *testing.T) {
	second := func(v broker.Verdict) *rule { return &rule{match: step(broker.PublishAccepted), nth: 2, verdict: v} }
	publish := func(c *client) {
		for i := range 3 {
			c.addPublish(1, "q", transient, []byte{'0' + byte(i)})
		}
		c.flush()
	}
	arrived := func(c *client, want ...string) {
		c.t.Helper()
		for _, w := range want {
			if _, got := c.get(2, "q", true); string(got) != w {
				c.t.Errorf("got %q, want %q", got, w)
			}
		}
		call[*frames.BasicGetEmpty](c, 2, &frames.BasicGet{Queue: "q"})
	}
	t.Run("refuse", func(t *testing.T) {
		intercepted(t, second(refuse), func(s *site, c *client) {
			publish(c)
			if a := expect[*frames.BasicAck](c, 1); a.DeliveryTag != 1 {
				t.Errorf("%+v", a)
			}
			closedBy(c, 1, frames.BasicPublishID)
			arrived(c, "0")
		})
	})
	t.Run("drop", func(t *testing.T) {
		intercepted(t, second(drop), func(s *site, c *client) {
			publish(c)
			for told := uint64(0); told < 3; {
				told = expect[*frames.BasicAck](c, 1).DeliveryTag
			}
			arrived(c, "0", "2")
		})
	})
	t.Run("delay", func(t *testing.T) {
		intercepted(t, second(delay), func(s *site, c *client) {
			publish(c)
			if a := expect[*frames.BasicAck](c, 1); a.DeliveryTag != 1 {
				t.Errorf("%+v", a)
			}
			arrived(c, "0")
			minuteLater(t, func() { expect[*frames.BasicAck](c, 1) })
			arrived(c, "1", "2")
		})
	})
	t.Run("delay while the queue goes", func(t *testing.T) {
		intercepted(t, second(delay), func(s *site, c *client) {
			c.publish(1, "q", transient, []byte("0"))
			expect[*frames.BasicAck](c, 1)
			c.addPublishTo(1, &frames.BasicPublish{RoutingKey: []byte("q"), Mandatory: true}, transient, []byte("1"))
			c.add(2, &frames.QueueDelete{Queue: "q"})
			c.flush()
			expect[*frames.QueueDeleteOk](c, 2)
			minuteLater(t, func() { expect[*frames.BasicReturn](c, 1) })
			c.body(1)
			expect[*frames.BasicAck](c, 1)
		})
	})
	t.Run("delay while the connection goes", func(t *testing.T) {
		intercepted(t, second(delay), func(s *site, c *client) {
			publish(c)
			expect[*frames.BasicAck](c, 1)
			c.close()
			s.clean()
			time.Sleep(time.Hour)
			c = s.pipe().login(handshake{}).open(2)
			arrived(c, "0")
		})
	})
	t.Run("close", func(t *testing.T) {
		intercepted(t, second(cut), func(s *site, c *client) {
			publish(c)
			c.gone()
			c = s.pipe().login(handshake{}).open(2)
			arrived(c, "0")
		})
	})
}

func TestInterceptConfirm(t *testing.T) {
	second := func(v broker.Verdict) *rule { return &rule{match: step(broker.ConfirmSent), nth: 2, verdict: v} }
	publish := func(c *client) {
		for range 3 {
			c.publish(1, "q", transient, []byte("x"))
		}
	}
	t.Run("refuse", func(t *testing.T) {
		intercepted(t, second(refuse), func(s *site, c *client) {
			publish(c)
			expect[*frames.BasicAck](c, 1)
			if n := expect[*frames.BasicNack](c, 1); n.DeliveryTag != 2 || n.Multiple || !n.Requeue {
				t.Errorf("%+v", n)
			}
			expect[*frames.BasicAck](c, 1)
		})
	})
	t.Run("drop", func(t *testing.T) {
		intercepted(t, second(drop), func(s *site, c *client) {
			publish(c)
			for _, tag := range []uint64{1, 3} {
				if a := expect[*frames.BasicAck](c, 1); a.DeliveryTag != tag || a.Multiple {
					t.Errorf("%+v, want %d", a, tag)
				}
			}
			call[*frames.BasicQosOk](c, 1, &frames.BasicQos{})
		})
	})
	t.Run("delay", func(t *testing.T) {
		intercepted(t, second(delay), func(s *site, c *client) {
			publish(c)
			for _, tag := range []uint64{1, 3} {
				if a := expect[*frames.BasicAck](c, 1); a.DeliveryTag != tag || a.Multiple {
					t.Errorf("%+v, want %d", a, tag)
				}
			}
			minuteLater(t, func() { expect[*frames.BasicAck](c, 1) })
		})
	})
	t.Run("delay while the channel goes", func(t *testing.T) {
		intercepted(t, second(delay), func(s *site, c *client) {
			publish(c)
			expect[*frames.BasicAck](c, 1)
			expect[*frames.BasicAck](c, 1)
			call[*frames.ChannelCloseOk](c, 1, &frames.ChannelClose{})
			time.Sleep(time.Hour)
			c.open(1)
			c.close()
			s.clean()
		})
	})
	t.Run("close", func(t *testing.T) {
		intercepted(t, second(cut), func(s *site, c *client) {
			c.publish(1, "q", transient, []byte("x"))
			expect[*frames.BasicAck](c, 1)
			c.publish(1, "q", transient, []byte("x"))
			c.gone()
		})
	})
}

func TestInterceptOpen(t *testing.T) {
	open := func(t *testing.T, v broker.Verdict, then func(s *site, c *client)) {
		synctest.Test(t, func(t *testing.T) {
			s := startSite(t, nil, Options{})
			defer s.broker.Hooks.AddInterceptor(&rule{match: step(broker.ConnectionOpened), verdict: v})()
			c := s.pipe()
			c.start(handshake{})
			tune := expect[*frames.ConnectionTune](c, 0)
			c.send(0, &frames.ConnectionTuneOk{ChannelMax: tune.ChannelMax, FrameMax: tune.FrameMax})
			c.send(0, &frames.ConnectionOpen{VirtualHost: "/"})
			then(s, c)
			s.clean()
		})
	}
	t.Run("refuse", func(t *testing.T) {
		v := broker.Verdict{Action: broker.Refuse, Code: frames.NotAllowed, Text: "not today"}
		open(t, v, func(s *site, c *client) {
			if e := expect[*frames.ConnectionClose](c, 0); e.ReplyText != "NOT_ALLOWED - not today" || e.ClassID != 10 || e.MethodID != 40 {
				t.Errorf("closed with %+v", e)
			}
			c.send(0, &frames.ConnectionCloseOk{})
			c.gone()
		})
	})
	t.Run("drop", func(t *testing.T) {
		open(t, drop, func(s *site, c *client) {
			c.send(1, &frames.ChannelOpen{})
			expect[*frames.ChannelOpenOk](c, 1) // open-ok never came
			c.close()
		})
	})
	t.Run("delay", func(t *testing.T) {
		open(t, delay, func(s *site, c *client) {
			minuteLater(t, func() { expect[*frames.ConnectionOpenOk](c, 0) })
			c.close()
		})
	})
	t.Run("delay of a client that goes", func(t *testing.T) {
		open(t, delay, func(s *site, c *client) {
			c.close()
			time.Sleep(time.Hour)
		})
	})
	t.Run("close", func(t *testing.T) {
		open(t, cut, func(s *site, c *client) { c.gone() })
	})
}

// TestInterceptorsInOrder: the first that does not go on decides, and one that
// was removed is not asked.
func TestInterceptorsInOrder(t *testing.T) {
	intercepted(t, &rule{match: methodStep(frames.BasicQosID)}, func(s *site, c *client) {
		remove := s.broker.Hooks.AddInterceptor(&rule{match: methodStep(frames.BasicQosID), verdict: refuse})
		defer s.broker.Hooks.AddInterceptor(&rule{match: methodStep(frames.BasicQosID), verdict: cut})()
		c.send(1, &frames.BasicQos{})
		closedBy(c, 1, frames.BasicQosID)
		remove()
		c.send(2, &frames.BasicQos{})
		c.gone()
	})
}

// TestConfirmAskedOnce: a publish that one queue refused and another stored
// has one outcome, and interceptors are asked about that only.
func TestConfirmAskedOnce(t *testing.T) {
	store := openStore(t)
	s := startSite(t, store, Options{}).listen()
	c := s.connect().open(1)
	full := frames.Table{{Key: "x-max-length", Value: int32(1)}, {Key: "x-overflow", Value: "reject-publish"}}
	call[*frames.QueueDeclareOk](c, 1, &frames.QueueDeclare{Queue: "full", Durable: true, Arguments: full})
	c.declare(1, "q", true)
	for _, q := range []string{"full", "q"} {
		call[*frames.QueueBindOk](c, 1, &frames.QueueBind{Queue: q, Exchange: "amq.fanout"})
	}
	call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
	r := &rule{match: step(broker.ConfirmSent)}
	defer s.broker.Hooks.AddInterceptor(r)()
	for _, want := range []frames.MethodID{frames.BasicAckID, frames.BasicNackID} {
		c.addPublishTo(1, &frames.BasicPublish{Exchange: []byte("amq.fanout")}, persistent, []byte("x"))
		c.flush()
		if _, m := c.method(); m.ID() != want {
			t.Errorf("got %v, want %v", m.ID(), want)
		}
	}
	c.declare(1, "later", true) // the second publish's other copy is stored
	if n := r.asked(); n != 2 {
		t.Errorf("interceptors were asked %d times about 2 publishes", n)
	}
	c.close()
}
