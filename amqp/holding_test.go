package amqp

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

// canBeBlocked is the capability of clients that want to be told.
var canBeBlocked = frames.Table{{Key: "connection.blocked", Value: true}}

// blocker connects a client that is told of blocking, with channel 1.
func (s *site) blocker() *client {
	return s.dial().login(handshake{capabilities: canBeBlocked}).open(1)
}

// declareBlocking declares a queue of so many messages that blocks.
func (c *client) declareBlocking(queue string, length int64, durable bool) {
	c.t.Helper()
	call[*frames.QueueDeclareOk](c, 1, &frames.QueueDeclare{Queue: queue, Durable: durable, Arguments: frames.Table{
		{Key: "x-max-length", Value: length}, {Key: "x-overflow", Value: "block-publishers"},
	}})
}

// drain gets bodies by basic.get on channel 1.
func (c *client) drain(queue string, bodies ...string) {
	c.t.Helper()
	for _, want := range bodies {
		// What waits for room comes a moment after there is some.
		eventually(c.t, want+" is in "+queue, func() bool {
			return call[*frames.QueueDeclareOk](c, 1, &frames.QueueDeclare{Queue: queue, Passive: true}).MessageCount > 0
		})
		if _, got := c.get(1, queue, true); string(got) != want {
			c.t.Fatalf("got %s, want %s", got, want)
		}
	}
}

// waiting is how many connections wait for room in a queue.
func (s *site) waiting(queue string) int {
	return s.queue(queue).Blocking()
}

func (s *site) queue(name string) *broker.Queue {
	s.t.Helper()
	for _, v := range s.broker.VHosts() {
		if q, ok := v.Queue(name); ok {
			return q
		}
	}
	s.t.Fatalf("no queue %q", name)
	return nil
}

// The whole round: blocked with the first publish that finds the queue full,
// other queues' publishes go on, unblocked when there is room.
func TestBlockPublishers(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c, taker := s.blocker(), s.connect().open(1)
	c.declareBlocking("full", 2, false)
	c.declare(1, "other", false)
	call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
	for _, body := range []string{"1", "2", "3", "4"} {
		c.addPublish(1, "full", transient, []byte(body))
	}
	c.addPublish(1, "other", transient, []byte("5"))
	c.flush()
	if b := expect[*frames.ConnectionBlocked](c, 0); b.Reason != "queue 'full' in vhost '/' is full" {
		t.Errorf("reason %q", b.Reason)
	}
	if a := expect[*frames.BasicAck](c, 1); a.DeliveryTag != 2 || !a.Multiple {
		t.Errorf("%+v", a)
	}
	if a := expect[*frames.BasicAck](c, 1); a.DeliveryTag != 5 || a.Multiple {
		t.Errorf("%+v", a)
	}
	taker.drain("full", "1")
	if a := expect[*frames.BasicAck](c, 1); a.DeliveryTag != 3 {
		t.Errorf("%+v", a)
	}
	taker.drain("full", "2")
	expect[*frames.ConnectionUnblocked](c, 0)
	if a := expect[*frames.BasicAck](c, 1); a.DeliveryTag != 4 {
		t.Errorf("%+v", a)
	}
	taker.drain("full", "3", "4")
	c.close()
	taker.close()
	s.clean()
}

// A connection that consumes from the queue it fills, all on one channel,
// cannot lock itself out; nor is anything lost or out of order.
func TestBlockedConsumerGoesOn(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.dial().login(handshake{}).open(1)
	c.declareBlocking("full", 2, false)
	call[*frames.BasicQosOk](c, 1, &frames.BasicQos{PrefetchCount: 1})
	const messages = 300
	for i := range messages {
		c.addPublish(1, "full", transient, fmt.Append(nil, i))
	}
	c.add(1, &frames.BasicConsume{Queue: "full", ConsumerTag: "c"})
	c.flush()
	expect[*frames.BasicConsumeOk](c, 1)
	for i := range messages {
		d, body := c.delivery(1)
		if string(body) != fmt.Sprint(i) {
			t.Fatalf("delivery %d is %s", i, body)
		}
		c.send(1, &frames.BasicAck{DeliveryTag: d.DeliveryTag})
	}
	c.close()
	s.clean()
}

// Above the bound the connection is not read; everything gets through all the
// same once there is room.
func TestBlockedBeyondTheBound(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c, taker := s.blocker(), s.connect().open(1)
	c.declareBlocking("full", 1, false)
	body := make([]byte, 100<<10)
	const messages = 40 // four megabytes
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range messages {
			c.publish(1, "full", transient, body)
		}
	}()
	server := s.conn(c)
	eventually(t, "the connection is paused", func() bool { return server.paused.Load() == ownPause })
	server.mu.Lock()
	if n := server.parkedBytes; n > parkedBound+2*len(body) {
		t.Errorf("%d octets wait", n)
	}
	server.mu.Unlock()
	call[*frames.BasicConsumeOk](taker, 1, &frames.BasicConsume{Queue: "full", ConsumerTag: "c", NoAck: true})
	for range messages {
		taker.delivery(1)
	}
	<-sent
	expect[*frames.ConnectionBlocked](c, 0)
	c.close()
	taker.close()
	s.clean()
}

// channel.close and connection.close wait until what was published before has
// its place, as they do on a connection that an alarm blocks.
func TestCloseWaitsForRoom(t *testing.T) {
	for _, last := range []string{"channel", "connection"} {
		t.Run(last, func(t *testing.T) {
			s := startSite(t, nil, Options{}).listen()
			c, taker := s.blocker(), s.connect().open(1)
			c.declareBlocking("full", 1, false)
			call[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: "full", ConsumerTag: "c"})
			c.publish(1, "full", transient, []byte("0"))
			c.delivery(1)
			call[*frames.BasicCancelOk](c, 1, &frames.BasicCancel{ConsumerTag: "c"})
			for _, body := range []string{"1", "2", "3"} {
				c.addPublish(1, "full", transient, []byte(body))
			}
			if last == "channel" {
				c.add(1, &frames.ChannelClose{ReplyCode: 200})
			} else {
				c.add(0, &frames.ConnectionClose{ReplyCode: 200})
			}
			c.flush()
			expect[*frames.ConnectionBlocked](c, 0)
			// What it had not acknowledged is back in the queue before that.
			eventually(t, "the unacknowledged message is back", func() bool { return s.queue("full").Counts().Ready == 2 })
			taker.drain("full", "0", "1", "2", "3")
			expect[*frames.ConnectionUnblocked](c, 0)
			if last == "channel" {
				expect[*frames.ChannelCloseOk](c, 1)
				c.open(1)
				c.close()
			} else {
				expect[*frames.ConnectionCloseOk](c, 0)
			}
			taker.close()
			s.clean()
		})
	}
}

// One that is lost, or closed by the server, leaves nothing: neither messages
// nor a place among those that wait.
func TestHeldPublishesGoWithTheirChannel(t *testing.T) {
	for name, end := range map[string]func(c *client){
		"lost":             func(c *client) { c.socket.Close() },
		"channel error":    func(c *client) { c.send(1, &frames.BasicGet{Queue: "missing"}) },
		"connection error": func(c *client) { c.send(7, &frames.BasicGet{Queue: "missing"}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := startSite(t, openStore(t), Options{}).listen()
			c := s.blocker()
			c.declareBlocking("full", 1, true)
			call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
			for _, properties := range [][]byte{persistent, persistent, transient} {
				c.addPublish(1, "full", properties, []byte("x"))
			}
			c.flush()
			// The confirm of the first may come before connection.blocked or after it.
			eventually(t, "it waits", func() bool { return s.waiting("full") == 1 })
			end(c)
			eventually(t, "nobody waits", func() bool { return s.waiting("full") == 0 })
			s.check()
			taker := s.connect().open(1)
			taker.drain("full", "x")
			call[*frames.BasicGetEmpty](taker, 1, &frames.BasicGet{Queue: "full"})
			taker.close()
		})
	}
}

// A message for several queues is in those that have room at once, and
// confirmed when the last has it; also a persistent one.
func TestHeldCopies(t *testing.T) {
	s := startSite(t, openStore(t), Options{}).listen()
	c, taker := s.blocker(), s.connect().open(1)
	for _, q := range []string{"a", "b"} {
		c.declareBlocking(q, 1, true)
	}
	c.declare(1, "free", true)
	for _, q := range []string{"a", "b", "free"} {
		call[*frames.QueueBindOk](c, 1, &frames.QueueBind{Queue: q, Exchange: "amq.fanout"})
	}
	call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
	c.publish(1, "a", transient, []byte("1"))
	expect[*frames.BasicAck](c, 1)
	c.publish(1, "b", transient, []byte("1"))
	expect[*frames.BasicAck](c, 1)
	c.addPublishTo(1, &frames.BasicPublish{Exchange: []byte("amq.fanout")}, persistent, []byte("2"))
	c.flush()
	expect[*frames.ConnectionBlocked](c, 0)
	taker.drain("free", "2")
	taker.drain("b", "1", "2")
	eventually(t, "only a is full", func() bool { return s.waiting("b") == 0 && s.waiting("a") == 1 })
	// Nothing comes before the answer to this: neither unblocked nor a confirm.
	call[*frames.ChannelFlowOk](c, 1, &frames.ChannelFlow{Active: true})
	taker.drain("a", "1", "2")
	expect[*frames.ConnectionUnblocked](c, 0)
	if a := expect[*frames.BasicAck](c, 1); a.DeliveryTag != 3 {
		t.Errorf("%+v", a)
	}
	c.close()
	taker.close()
	s.clean()
}

// A queue that is deleted lets its publishers go on, as one deleted just
// before would have.
func TestHeldByADeletedQueue(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.blocker()
	c.declareBlocking("full", 1, false)
	call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
	c.addPublish(1, "full", transient, []byte("1"))
	c.addPublish(1, "full", transient, []byte("2"))
	c.flush()
	expect[*frames.ConnectionBlocked](c, 0)
	expect[*frames.BasicAck](c, 1)
	c.send(1, &frames.QueueDelete{Queue: "full"})
	var saw [3]bool
	for range saw {
		switch _, m := c.method(); m.(type) {
		case *frames.QueueDeleteOk:
			saw[0] = true
		case *frames.ConnectionUnblocked:
			saw[1] = true
		case *frames.BasicAck:
			saw[2] = true
		}
	}
	if saw != [3]bool{true, true, true} {
		t.Errorf("delete-ok, unblocked, ack: %v", saw)
	}
	c.close()
	s.clean()
}

// A transaction into a full queue is refused, and so is what can never fit.
func TestBlockPublishersRefuses(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.blocker().open(2)
	c.declareBlocking("full", 1, false)
	c.publish(1, "full", transient, []byte("1"))
	call[*frames.TxSelectOk](c, 2, &frames.TxSelect{})
	c.publish(2, "full", transient, []byte("2"))
	c.send(2, &frames.TxCommit{})
	if e := expect[*frames.ChannelClose](c, 2); e.ReplyCode != frames.PreconditionFailed {
		t.Errorf("%+v", e)
	}
	c.send(2, &frames.ChannelCloseOk{})
	call[*frames.QueueDeclareOk](c, 1, &frames.QueueDeclare{Queue: "small", Arguments: frames.Table{
		{Key: "x-max-length-bytes", Value: int32(3)}, {Key: "x-overflow", Value: "block-publishers"},
	}})
	call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
	c.publish(1, "small", transient, []byte("four"))
	expect[*frames.BasicNack](c, 1)
	c.close()
	s.clean()
}

// Many publishers into one small queue: nothing is lost, each one's order
// holds, all are blocked and unblocked in pairs.
func TestManyBlockedPublishers(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	taker := s.connect().open(1)
	taker.declareBlocking("full", 16, false)
	const publishers, messages = 20, 200
	var clients []*client
	for p := range publishers {
		c := s.blocker()
		call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
		for i := range messages {
			c.addPublish(1, "full", transient, fmt.Append(nil, p, " ", i))
		}
		c.flush()
		clients = append(clients, c)
	}
	call[*frames.BasicQosOk](taker, 1, &frames.BasicQos{PrefetchCount: 10})
	call[*frames.BasicConsumeOk](taker, 1, &frames.BasicConsume{Queue: "full", ConsumerTag: "c"})
	next := make([]int, publishers)
	for range publishers * messages {
		d, body := taker.delivery(1)
		var p, i int
		if _, err := fmt.Sscan(string(body), &p, &i); err != nil || next[p] != i {
			t.Fatalf("publisher %d: %d came, want %d (%v)", p, i, next[p], err)
		}
		next[p]++
		taker.send(1, &frames.BasicAck{DeliveryTag: d.DeliveryTag})
	}
	for p, c := range clients {
		blocked, acked := 0, uint64(0)
		for acked < messages || blocked > 0 {
			switch _, m := c.method(); m := m.(type) {
			case *frames.ConnectionBlocked:
				blocked++
			case *frames.ConnectionUnblocked:
				blocked--
			case *frames.BasicAck:
				if acked = m.DeliveryTag; blocked < 0 || blocked > 1 {
					t.Fatalf("publisher %d: blocked %d times at once", p, blocked)
				}
			}
		}
		c.close()
	}
	taker.close()
	s.clean()
}
