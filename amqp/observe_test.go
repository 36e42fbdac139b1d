package amqp

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

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
	s.broker.SetAlarm(broker.Memory)
	c.publish(1, "nobody", transient, []byte("late"))
	eventually(t, "blocked", func() bool { return s.conn(c).Details().State == "blocked" })
	s.broker.ClearAlarm(broker.Memory)
	expect[*frames.BasicAck](c, 1)
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
		"alarm.set memory", "connection.blocked low on memory", "alarm.cleared memory", "connection.unblocked",
		"publish.accepted ch=1 k=nobody", "publish.routed ch=1 k=nobody", "confirm.sent ch=1 tag=5",
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
	if methods != 21 {
		t.Errorf("%d methods were observed", methods)
	}
	steps := map[broker.Step]bool{}
	for _, e := range j.events {
		steps[e.Step] = true
	}
	for step := broker.ConnectionOpened; step < broker.PolicySet; step++ { // no client sets policies
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
