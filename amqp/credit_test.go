package amqp

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/warrenmq/warren/frames"
)

// fillQueue publishes bodies "QUEUE 0", "QUEUE 1", ...
func (c *client) fillQueue(queue string, n int) {
	c.t.Helper()
	for i := range n {
		c.addPublish(1, queue, transient, fmt.Append(nil, queue, " ", i))
	}
	c.flush()
}

// still demands that nothing has come on channel 1.
func (c *client) still() {
	c.t.Helper()
	call[*frames.ChannelFlowOk](c, 1, &frames.ChannelFlow{Active: true})
}

// consume starts a consumer on channel 1 with arguments.
func (c *client) consume(queue string, arguments ...frames.Field) {
	c.t.Helper()
	call[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: queue, ConsumerTag: queue, Arguments: arguments})
}

// deliveries reads so many, which must be of these bodies' queue, in order.
func (c *client) deliveries(queue string, from, n int) {
	c.t.Helper()
	for i := range n {
		d, body := c.delivery(1)
		if want := fmt.Sprint(queue, " ", from+i); string(body) != want || d.ConsumerTag != queue {
			c.t.Fatalf("got %s for %s, want %s", body, d.ConsumerTag, want)
		}
	}
}

// TestFlowThreshold: at the prefetch limit deliveries stop until few enough
// are unacknowledged, and then come in one go.
func TestFlowThreshold(t *testing.T) {
	for _, c := range []struct{ percent, resumeAt int }{{30, 3}, {1, 0}, {99, 9}, {100, 9}, {50, 5}} {
		t.Run(fmt.Sprint(c.percent), func(t *testing.T) {
			s := startSite(t, nil, Options{}).listen()
			cl := s.connect().open(1)
			cl.declare(1, "q", false)
			cl.fillQueue("q", 40)
			call[*frames.BasicQosOk](cl, 1, &frames.BasicQos{PrefetchCount: 10})
			cl.consume("q", frames.Field{Key: "x-flow-threshold", Value: int32(c.percent)})
			cl.deliveries("q", 0, 10)
			tag := uint64(0)
			for unacked := 10; unacked > c.resumeAt+1; unacked-- {
				tag++
				cl.send(1, &frames.BasicAck{DeliveryTag: tag})
				cl.still()
			}
			tag++
			cl.send(1, &frames.BasicAck{DeliveryTag: tag})
			cl.deliveries("q", 10, 10-c.resumeAt)
			cl.still()
			cl.close()
			s.clean()
		})
	}
}

// A consumer that never reaches its limit is not held up by its threshold.
func TestFlowThresholdBelowTheLimit(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.connect().open(1)
	c.declare(1, "q", false)
	call[*frames.BasicQosOk](c, 1, &frames.BasicQos{PrefetchCount: 10})
	c.consume("q", frames.Field{Key: "x-flow-threshold", Value: int32(10)})
	c.fillQueue("q", 9)
	c.deliveries("q", 0, 9)
	c.send(1, &frames.BasicAck{DeliveryTag: 1})
	c.publish(1, "q", transient, []byte("q 9"))
	c.deliveries("q", 9, 1)
	c.close()
	s.clean()
}

// TestMaxUnacked: the limit counts what all consumers of a connection have not
// acknowledged; any acknowledgement, return or end makes room for all of them.
func TestMaxUnacked(t *testing.T) {
	s := startSite(t, nil, Options{MaxUnacked: 3}).listen()
	c, other := s.connect().open(1, 2), s.connect().open(1)
	for _, q := range []string{"a", "b"} {
		c.declare(1, q, false)
		c.fillQueue(q, 6)
	}
	c.consume("a")
	c.deliveries("a", 0, 3)
	call[*frames.BasicConsumeOk](c, 2, &frames.BasicConsume{Queue: "b", ConsumerTag: "b"})
	c.still()
	// basic.get is no consumer's delivery, and other connections have their own.
	c.get(1, "b", true)
	other.consume("b")
	other.deliveries("b", 1, 3)
	other.still()
	// Nothing of "a" is wanted any more: its acknowledgements serve "b".
	call[*frames.BasicCancelOk](c, 1, &frames.BasicCancel{ConsumerTag: "a"})
	for i := range uint64(2) {
		c.send(1, &frames.BasicAck{DeliveryTag: i + 1})
		if _, body := c.delivery(2); string(body) != fmt.Sprint("b ", i+4) {
			t.Fatalf("got %s", body)
		}
	}
	call[*frames.ChannelCloseOk](c, 2, &frames.ChannelClose{ReplyCode: 200})
	c.open(2)
	c.consume("a")
	for range 2 {
		c.delivery(1)
	}
	c.still()
	c.close()
	other.close()
	s.clean()
}

// A channel that ends gives its part of the limit to the others.
func TestMaxUnackedOfAChannelThatEnds(t *testing.T) {
	s := startSite(t, nil, Options{MaxUnacked: 2}).listen()
	c := s.connect().open(1, 2)
	c.declare(1, "a", false)
	c.declare(1, "b", false)
	c.fillQueue("a", 2)
	c.fillQueue("b", 2)
	call[*frames.BasicConsumeOk](c, 2, &frames.BasicConsume{Queue: "a", ConsumerTag: "a"})
	for range 2 {
		c.delivery(2)
	}
	c.consume("b")
	c.still()
	c.send(2, &frames.ChannelClose{ReplyCode: 200})
	for ok, bodies := false, 0; !ok || bodies < 2; {
		switch on, m := c.method(); m.(type) {
		case *frames.ChannelCloseOk:
			ok = true
		case *frames.BasicDeliver:
			c.body(on)
			bodies++
		}
	}
	c.close()
	s.clean()
}

// ranked is x-channel-priority.
func ranked(n int32) frames.Field { return frames.Field{Key: "x-channel-priority", Value: n} }

// TestChannelPriority: out of the credit that its consumers share, a channel
// gets everything of the high queue before anything of the low one; more than
// one call of a queue delivers.
func TestChannelPriority(t *testing.T) {
	for name, options := range map[string]Options{"global prefetch": {}, "connection limit": {MaxUnacked: 600}} {
		t.Run(name, func(t *testing.T) {
			s := startSite(t, nil, options).listen()
			c := s.connect().open(1)
			for _, q := range []string{"low", "none", "high"} {
				c.declare(1, q, false)
			}
			if options.MaxUnacked == 0 {
				call[*frames.BasicQosOk](c, 1, &frames.BasicQos{PrefetchCount: 600, Global: true})
			}
			c.declare(1, "fill", false)
			c.fillQueue("fill", 600)
			c.consume("fill", ranked(9))
			c.deliveries("fill", 0, 600)
			call[*frames.BasicCancelOk](c, 1, &frames.BasicCancel{ConsumerTag: "fill"})
			c.consume("none")
			c.consume("low", ranked(-1))
			c.consume("high", ranked(1))
			const each = 1500
			c.fillQueue("low", each)
			c.fillQueue("none", each)
			c.fillQueue("high", each)
			c.still()
			tag := uint64(600)
			c.send(1, &frames.BasicAck{DeliveryTag: tag, Multiple: true})
			for _, q := range []string{"high", "low", "none"} {
				for from := 0; from < each; from += 100 {
					c.deliveries(q, from, 100)
					tag += 100
					c.send(1, &frames.BasicAck{DeliveryTag: tag, Multiple: true})
				}
			}
			c.still()
			// Now that all wait, each gets what comes.
			for _, q := range []string{"none", "high", "low"} {
				c.fillQueue(q, 1)
				c.deliveries(q, 0, 1)
			}
			c.close()
			s.clean()
		})
	}
}

// A consumer of higher rank that cannot take anything, or goes, keeps nobody
// from the shared credit.
func TestChannelPriorityHoldsNobodyUp(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c, other := s.connect().open(1), s.connect().open(1)
	call[*frames.QueueDeclareOk](c, 1, &frames.QueueDeclare{Queue: "single", Arguments: frames.Table{{Key: "x-single-active-consumer", Value: true}}})
	for _, q := range []string{"low", "own", "gone", "emptied"} {
		c.declare(1, q, false)
	}
	call[*frames.BasicConsumeOk](other, 1, &frames.BasicConsume{Queue: "single", ConsumerTag: "o"})
	call[*frames.BasicQosOk](c, 1, &frames.BasicQos{PrefetchCount: 1})
	c.consume("own", ranked(9)) // at its own limit soon
	call[*frames.BasicQosOk](c, 1, &frames.BasicQos{})
	call[*frames.BasicQosOk](c, 1, &frames.BasicQos{PrefetchCount: 4, Global: true})
	c.fillQueue("own", 3)
	c.deliveries("own", 0, 1)
	c.consume("single", ranked(8)) // a backup, whose queue has a backlog
	for range 3 {
		other.publish(1, "single", transient, []byte("x"))
		other.delivery(1)
	}
	c.consume("emptied", ranked(7))
	c.consume("gone", ranked(6))
	c.consume("low", ranked(1))
	c.fillQueue("low", 10)
	c.deliveries("low", 0, 3) // the shared limit is used up
	c.fillQueue("gone", 3)
	c.fillQueue("emptied", 3)
	c.still()
	// Somebody else takes what "emptied" was refused for.
	call[*frames.QueuePurgeOk](other, 1, &frames.QueuePurge{Queue: "emptied"})
	// Credit comes back: "gone" is next, and goes instead.
	call[*frames.QueueDeleteOk](other, 1, &frames.QueueDelete{Queue: "gone"})
	c.send(1, &frames.BasicAck{DeliveryTag: 4, Multiple: true})
	c.deliveries("own", 1, 1)
	c.deliveries("low", 3, 3)
	c.send(1, &frames.BasicCancel{ConsumerTag: "own", NoWait: true})
	c.send(1, &frames.BasicAck{DeliveryTag: 8, Multiple: true})
	c.deliveries("low", 6, 4)
	c.close()
	other.close()
	s.clean()
}

// loaded is a connection's consumers under load: every delivery is
// acknowledged by itself, in no order.
type loaded struct {
	c      *client
	tags   map[uint16][]uint64
	random *rand.Rand
}

func (l *loaded) deliver() {
	on, m := l.c.method()
	d, ok := m.(*frames.BasicDeliver)
	if !ok {
		l.c.t.Fatalf("got %#v", m)
	}
	l.c.body(on)
	l.tags[on] = append(l.tags[on], d.DeliveryTag)
}

// settle acknowledges or returns one of the deliveries of a channel; true: it
// has ended.
func (l *loaded) settle(on uint16) (ended bool) {
	tags := l.tags[on]
	i := l.random.IntN(len(tags))
	tag := tags[i]
	l.tags[on] = append(tags[:i], tags[i+1:]...)
	if l.random.IntN(8) == 0 {
		l.c.send(on, &frames.BasicReject{DeliveryTag: tag, Requeue: true})
		return false
	}
	l.c.send(on, &frames.BasicAck{DeliveryTag: tag})
	return true
}

// Shared credit, ranks, thresholds and limits of all kinds at once, with
// publishers on other connections: every message comes, whatever order the
// client acknowledges in, and whenever it holds on to all it may have.
func TestSharedCreditUnderLoad(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			s := startSite(t, nil, Options{MaxUnacked: []int{0, 7}[seed%2]}).listen()
			c := s.connect().open(1, 2)
			const queues, each = 6, 300
			for i := range queues {
				on := uint16(1 + i%2)
				q := fmt.Sprint("q", i)
				c.declare(1, q, false)
				call[*frames.BasicQosOk](c, on, &frames.BasicQos{PrefetchCount: uint16(1 + random.IntN(4))})
				var arguments frames.Table
				if random.IntN(3) > 0 {
					arguments = append(arguments, ranked(int32(random.IntN(3))))
				}
				if random.IntN(2) > 0 {
					arguments = append(arguments, frames.Field{Key: "x-flow-threshold", Value: int32(1 + random.IntN(100))})
				}
				call[*frames.BasicConsumeOk](c, on, &frames.BasicConsume{Queue: q, ConsumerTag: q, Arguments: arguments})
			}
			for on := range uint16(2) {
				call[*frames.BasicQosOk](c, on+1, &frames.BasicQos{PrefetchCount: uint16(1 + random.IntN(5)), Global: true})
			}
			for i := range queues {
				p := s.connect().open(1)
				p.fillQueue(fmt.Sprint("q", i), each)
			}
			l := &loaded{c: c, tags: map[uint16][]uint64{}, random: random}
			for ended := 0; ended < queues*each; {
				on := uint16(1 + random.IntN(2))
				if len(l.tags[1])+len(l.tags[2]) == 0 || len(l.tags[on]) == 0 {
					if len(l.tags[3-on]) == 0 {
						l.deliver() // nothing is held: something must come
						continue
					}
					on = 3 - on
				}
				if l.settle(on) {
					ended++
				}
			}
			c.close()
		})
	}
}
