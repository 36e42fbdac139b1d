package amqp

import (
	"fmt"
	"slices"
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

// journal is an observer that keeps what it was told.
type journal struct {
	mu     sync.Mutex
	events []broker.Event
}

func (j *journal) Observe(events []broker.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, events...)
}

// TestObservedSteps has every step happen and compares what observers were
// told.
func TestObservedSteps(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	j := &journal{}
	remove, dropped := s.broker.Hooks.AddObserver(j, 10_000)
	c := s.connect().open(1, 2)
	call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
	call[*frames.ExchangeDeclareOk](c, 1, &frames.ExchangeDeclare{Exchange: "x", Type: "direct"})
	c.declare(1, "q", false)
	call[*frames.QueueBindOk](c, 1, &frames.QueueBind{Queue: "q", Exchange: "x", RoutingKey: "k"})
	for range 3 {
		c.addPublishTo(1, &frames.BasicPublish{Exchange: []byte("x"), RoutingKey: []byte("k")}, transient, []byte("hello"))
	}
	c.addPublishTo(1, &frames.BasicPublish{Exchange: []byte("x"), RoutingKey: []byte("nobody"), Mandatory: true}, transient, []byte("back"))
	c.flush()
	expect[*frames.BasicReturn](c, 1)
	c.body(1)
	expect[*frames.BasicAck](c, 1)
	call[*frames.BasicQosOk](c, 2, &frames.BasicQos{PrefetchCount: 1})
	call[*frames.BasicConsumeOk](c, 2, &frames.BasicConsume{Queue: "q", ConsumerTag: "t"})
	c.delivery(2)
	c.send(2, &frames.BasicAck{DeliveryTag: 1})
	c.delivery(2)
	call[*frames.BasicCancelOk](c, 2, &frames.BasicCancel{ConsumerTag: "t"})
	c.send(2, &frames.BasicNack{DeliveryTag: 2, Requeue: true})
	c.get(2, "q", false)
	c.send(2, &frames.BasicReject{DeliveryTag: 3})
	call[*frames.QueuePurgeOk](c, 2, &frames.QueuePurge{Queue: "q"})
	call[*frames.QueueUnbindOk](c, 2, &frames.QueueUnbind{Queue: "q", Exchange: "x", RoutingKey: "k"})
	call[*frames.QueueDeleteOk](c, 2, &frames.QueueDelete{Queue: "q"})
	call[*frames.ExchangeDeleteOk](c, 2, &frames.ExchangeDelete{Exchange: "x"})
	c.send(2, &frames.BasicGet{Queue: "q"})
	expect[*frames.ChannelClose](c, 2)
	c.close()
	s.clean()
	remove()
	if n := dropped(); n != 0 {
		t.Errorf("%d events were dropped", n)
	}

	var got []string
	for _, e := range j.events {
		if e.At.IsZero() {
			t.Errorf("%v has no time", e.Step)
		}
		if e.Step == broker.MethodHandled {
			continue // compared below
		}
		got = append(got, line(e))
	}
	want := []string{
		"connection.opened", "channel.opened ch=1", "channel.opened ch=2",
		"exchange.declared x=x", "queue.declared q=q", "binding.added x=x k=k q=q",
		"publish.accepted ch=1 x=x k=k tag=1 hello", "publish.routed ch=1 x=x k=k tag=1 queues=1 hello",
		"publish.accepted ch=1 x=x k=k tag=2 hello", "publish.routed ch=1 x=x k=k tag=2 queues=1 hello",
		"publish.accepted ch=1 x=x k=k tag=3 hello", "publish.routed ch=1 x=x k=k tag=3 queues=1 hello",
		"publish.accepted ch=1 x=x k=nobody tag=4 back", "publish.routed ch=1 x=x k=nobody tag=4 back",
		"publish.returned ch=1 x=x k=nobody NO_ROUTE back",
		"confirm.sent ch=1 tag=4",
		"consumer.added ch=2 q=q c=t",
		"delivery.sent ch=2 x=x k=k q=q c=t tag=1 hello", "delivery.settled ch=2 x=x k=k q=q c=t tag=1 hello",
		"delivery.sent ch=2 x=x k=k q=q c=t tag=2 hello", "consumer.removed ch=2 q=q c=t", "delivery.requeued ch=2 x=x k=k q=q c=t tag=2 hello",
		"delivery.sent ch=2 x=x k=k q=q tag=3 redelivered hello", "delivery.rejected ch=2 x=x k=k q=q tag=3 redelivered hello",
		"queue.purged q=q", "binding.removed x=x k=k q=q", "queue.deleted q=q", "exchange.deleted x=x",
		"channel.closed ch=2 no queue 'q' in vhost '/'",
		"connection.closed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	methods := 0
	for _, e := range j.events {
		if e.Step == broker.MethodHandled {
			methods++
			if e.Channel == 0 || e.User != "guest" || e.VHost != "/" {
				t.Errorf("%+v", e)
			}
		}
	}
	if methods != 20 {
		t.Errorf("%d methods were observed", methods)
	}
	steps := map[broker.Step]bool{}
	for _, e := range j.events {
		steps[e.Step] = true
	}
	for step := broker.ConnectionOpened; step.String() != "unknown"; step++ {
		if !steps[step] {
			t.Errorf("%v was not observed", step)
		}
	}
}

// line writes an event's fields but the connection's.
func line(e broker.Event) string {
	s := e.Step.String()
	add := func(name string, value any, is bool) {
		if is {
			s += fmt.Sprint(" ", name, value)
		}
	}
	add("ch=", e.Channel, e.Channel != 0)
	add("x=", e.Exchange, e.Exchange != "")
	add("k=", e.RoutingKey, e.RoutingKey != "")
	add("q=", e.Queue, e.Queue != "")
	add("c=", e.Consumer, e.Consumer != "")
	add("tag=", e.DeliveryTag, e.DeliveryTag != 0)
	add("queues=", e.Queues, e.Queues != 0)
	add("", "nack", e.Nack)
	add("", "redelivered", e.Redelivered)
	add("", e.Text, e.Text != "")
	if e.Message != nil {
		s += " " + string(e.Message.Content)
	}
	return s
}

// TestObserverTooSlow: an observer that does not return loses events, which
// are counted, and holds up nobody.
func TestObserverTooSlow(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	gate := make(chan struct{})
	o := observerFunc(func([]broker.Event) { <-gate })
	remove, dropped := s.broker.Hooks.AddObserver(o, 10)
	for range 10 {
		s.check()
	}
	if dropped() == 0 {
		t.Error("nothing was dropped")
	}
	close(gate)
	remove()
}

type observerFunc func([]broker.Event)

func (f observerFunc) Observe(events []broker.Event) { f(events) }

// TestConsumerRemovedWithQueue: observers learn that a consumer went with its
// queue, as they do of any other end.
func TestConsumerRemovedWithQueue(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	j := &journal{}
	remove, _ := s.broker.Hooks.AddObserver(j, 100)
	c := s.dial().login(handshake{capabilities: frames.Table{{Key: "consumer_cancel_notify", Value: true}}}).open(1)
	c.declare(1, "q", false)
	call[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: "q", ConsumerTag: "t"})
	c.send(1, &frames.QueueDelete{Queue: "q"})
	for seen := 0; seen < 2; seen++ { // in any order
		switch _, m := c.method(); m := m.(type) {
		case *frames.BasicCancel:
			if m.ConsumerTag != "t" || !m.NoWait {
				t.Errorf("%+v", m)
			}
		case *frames.QueueDeleteOk:
		default:
			t.Fatalf("got %T", m)
		}
	}
	c.close()
	remove()
	removed := slices.ContainsFunc(j.events, func(e broker.Event) bool {
		return e.Step == broker.ConsumerRemoved && e.Consumer == "t" && e.Queue == "q"
	})
	if !removed {
		t.Error("no event")
	}
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
