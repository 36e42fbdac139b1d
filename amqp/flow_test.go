package amqp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warrenmq/warren/frames"
)

// meterBound is the most payload that may stand before a control frame of
// another channel, in the design's words.
const meterBound = 256 << 10

// flood fills a queue with numbered messages and has channel 1 of a client
// that does not read consume them.
func flood(t *testing.T, s *site, size, count int, h handshake) *client {
	t.Helper()
	p := s.connect().open(1)
	p.declare(1, "flood", false)
	body := make([]byte, size)
	for i := range count {
		binary.BigEndian.PutUint64(body, uint64(i))
		p.publish(1, "flood", transient, body)
	}
	call[*frames.BasicQosOk](p, 1, &frames.BasicQos{}) // all are there
	p.close()

	c := s.dialWith(narrow()).login(h).open(1, 2, 3)
	call[*frames.ConfirmSelectOk](c, 3, &frames.ConfirmSelect{})
	c.declare(2, "other", false)
	call[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: "flood"})
	out := &s.conn(c).out
	eventually(t, "the outbox is full and the socket, too", func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return len(out.starved) == 1
	})
	return c
}

// floodReader reads a flooded connection and checks channel 1 on the way.
type floodReader struct {
	*client
	next    uint64 // delivery tag
	size    int    // of bodies
	due     int    // octets of a body under way on channel 1
	payload int    // octets of bodies read
}

// until reads to the first frame on another channel, or the first method on
// channel 1 that is no delivery.
func (r *floodReader) until() frames.Frame {
	r.t.Helper()
	for {
		f := r.frame()
		if f.Channel != 1 {
			return f
		}
		switch {
		case f.Type == frames.TypeBody && r.due > 0:
			if r.due == r.size {
				if n := binary.BigEndian.Uint64(f.Payload); n != r.next-1 {
					r.t.Fatalf("delivery %d brings message %d", r.next, n)
				}
			}
			r.due -= len(f.Payload)
			r.payload += len(f.Payload)
		case f.Type == frames.TypeHeader && r.due == 0:
			r.due = r.size
		case f.Type == frames.TypeMethod && r.due == 0:
			id, args, _ := frames.SplitMethod(f.Payload)
			if id != frames.BasicDeliverID {
				return f
			}
			var d frames.BasicDeliver
			if err := d.Decode(args); err != nil {
				r.t.Fatal(err)
			}
			if r.next++; d.DeliveryTag != r.next {
				r.t.Fatalf("delivery %d where %d is due", d.DeliveryTag, r.next)
			}
		default:
			r.t.Fatalf("frame of type %d on channel 1 is out of place", f.Type)
		}
	}
}

// method reads until a method that is no delivery, on the channel it must be
// on, and says how much payload stood before it.
func (r *floodReader) wait(channel uint16, id frames.MethodID) (before int) {
	r.t.Helper()
	start := r.payload
	for {
		f := r.until()
		if f.Type == frames.TypeHeartbeat {
			continue
		}
		if got, _, _ := frames.SplitMethod(f.Payload); f.Channel != channel || got != id {
			r.t.Fatalf("got %v on channel %d, want %v on channel %d", got, f.Channel, id, channel)
		}
		return r.payload - start
	}
}

// handled sends something and returns when the server has read it and run its
// handler. Nothing is read meanwhile, so that what counts is what the server
// puts before its answer and not what a busy machine lets pass before it looks.
func handled(t *testing.T, c *conn, send func()) {
	t.Helper()
	before := c.reader.BytesRead()
	send()
	eventually(t, "the server has read it", func() bool { return c.reader.BytesRead() > before })
	time.Sleep(time.Millisecond) // from the read to the handler's lock
	c.mu.Lock()
	defer c.mu.Unlock()
}

// TestFlowMetering: a channel that is flooded with deliveries on a slow
// connection does not hold up the replies and confirms of others for more than
// the bound, and its own order stays.
func TestFlowMetering(t *testing.T) {
	for _, size := range []int{100, 1 << 10, 20_000, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := startSite(t, nil, Options{}).listen()
			r := &floodReader{client: flood(t, s, size, max(3<<20/size, 8), handshake{}), size: size}

			c := s.conn(r.client)
			handled(t, c, func() { r.send(2, &frames.QueueDeclare{Queue: "other"}) })
			if n := r.wait(2, frames.QueueDeclareOkID); n > meterBound {
				t.Errorf("%d octets of payload before declare-ok", n)
			} else {
				t.Logf("%d octets of payload before declare-ok", n)
			}
			handled(t, c, func() { r.publish(3, "other", transient, []byte("hello")) })
			if n := r.wait(3, frames.BasicAckID); n > meterBound {
				t.Errorf("%d octets of payload before the confirm", n)
			}
			handled(t, c, func() { r.send(4, &frames.ChannelOpen{}) })
			if n := r.wait(4, frames.ChannelOpenOkID); n > meterBound {
				t.Errorf("%d octets of payload before open-ok", n)
			}
			c.mu.Lock()
			flooded := c.channels[1]
			c.mu.Unlock()
			flooded.mu.Lock()
			behind := flooded.nextTag - 1
			flooded.mu.Unlock()
			r.send(1, &frames.BasicQos{})
			r.wait(1, frames.BasicQosOkID)
			if r.next < behind {
				t.Errorf("qos-ok of the flooded channel came after delivery %d, %d were before it", r.next, behind)
			}
		})
	}
}

// TestFlowMeteringHeartbeat: heartbeats pass a flood as well.
func TestFlowMeteringHeartbeat(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	r := &floodReader{client: flood(t, s, 1<<20, 8, handshake{heartbeat: 1}), size: 1 << 20}
	out := &s.conn(r.client).out
	eventually(t, "a heartbeat is queued", func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return !out.control.empty()
	})
	for f := r.until(); f.Type != frames.TypeHeartbeat; f = r.until() {
		t.Fatalf("frame of type %d on channel %d", f.Type, f.Channel)
	}
	if r.payload > meterBound {
		t.Errorf("%d octets of payload before the heartbeat", r.payload)
	}
}

// TestGetsDoNotHoldUpOthers: what many basic.get bring is payload as well, and
// consume-ok behind them precedes the deliveries.
func TestGetsDoNotHoldUpOthers(t *testing.T) {
	const gets = 1500
	s := startSite(t, nil, Options{}).listen()
	p := s.connect().open(1)
	p.declare(1, "q", false)
	for range 2 * gets {
		p.addPublish(1, "q", transient, bytes.Repeat([]byte("x"), 1000))
	}
	p.flush()
	call[*frames.BasicQosOk](p, 1, &frames.BasicQos{})
	c := s.dialWith(narrow()).login(handshake{}).open(1, 2)
	for range gets {
		c.add(1, &frames.BasicGet{Queue: "q"})
	}
	c.add(1, &frames.BasicConsume{Queue: "q", ConsumerTag: "tag"})
	c.add(2, &frames.BasicQos{})
	c.flush()
	payload, tag, consuming, met := 0, uint64(0), false, false
	for tag < 2*gets {
		f := c.frame()
		if f.Type == frames.TypeBody {
			payload += len(f.Payload)
		}
		if f.Type != frames.TypeMethod {
			continue
		}
		m, err := frames.DecodeMethod(f.Payload)
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *frames.BasicGetOk:
			if tag++; m.DeliveryTag != tag || consuming {
				t.Fatalf("get-ok %d where %d is due, consuming: %v", m.DeliveryTag, tag, consuming)
			}
		case *frames.BasicDeliver:
			if tag++; m.DeliveryTag != tag || !consuming {
				t.Fatalf("delivery %d where %d is due, consuming: %v", m.DeliveryTag, tag, consuming)
			}
		case *frames.BasicConsumeOk:
			consuming = true
		case *frames.BasicQosOk:
			met = true
			// The requests before it are handled first, so that much may have
			// been written meanwhile; but not all that waits.
			if tag == gets && payload > outboxLimit {
				t.Errorf("qos-ok of another channel after all %d octets", payload)
			}
		}
	}
	if !met {
		t.Error("no qos-ok on channel 2")
	}
}

// TestHostileClients: clients that misbehave in every way at once cost bounded
// memory, and an honest one goes on.
func TestHostileClients(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const each = 14
	s := startSite(t, nil, Options{}).listen()
	p := s.connect().open(1)
	p.declare(1, "big", false)
	const backlog = 6 << 20
	for range backlog >> 10 {
		p.addPublish(1, "big", transient, make([]byte, 1<<10))
	}
	p.flush()
	call[*frames.BasicQosOk](p, 1, &frames.BasicQos{})
	p.close()

	var background sync.WaitGroup
	kinds := []func(){
		func() { s.dial() },                                                        // silent
		func() { s.dial().write([]byte("AMQP\x00")) },                              // half a protocol header
		func() { s.connect().write([]byte{1, 0, 1, 0, 0, 100, 0, 60}) },            // a frame that does not go on
		func() { s.connect().open(1).send(1, &frames.BasicConsume{Queue: "big"}) }, // consumes and does not read
		func() { // asks for thousands and does not read
			c := s.dialWith(narrow()).login(handshake{}).open(1)
			for range 2000 {
				c.add(1, &frames.BasicGet{Queue: "big"})
			}
			background.Go(func() { _, _ = c.socket.Write(c.buf) }) // blocks when the server does not read any more
		},
		func() { // declares without end and does not read
			c := s.dialWith(narrow()).login(handshake{}).open(1)
			for range 10_000 {
				c.add(1, &frames.QueueDeclare{Queue: "big"})
			}
			background.Go(func() { _, _ = c.socket.Write(c.buf) })
		},
		func() { // consumes and cancels without answers
			c := s.dialWith(narrow()).login(handshake{}).open(1)
			for i := range 1000 {
				c.add(1, &frames.BasicConsume{Queue: "big", ConsumerTag: fmt.Sprint(i), NoWait: true})
				c.add(1, &frames.BasicCancel{ConsumerTag: fmt.Sprint(i), NoWait: true})
			}
			background.Go(func() { _, _ = c.socket.Write(c.buf) })
		},
	}
	for range each {
		for _, misbehave := range kinds {
			misbehave()
		}
	}
	many := s.connect()
	for id := uint16(1); id <= 2047; id++ {
		many.add(id, &frames.ChannelOpen{})
		// Announces a body and sends one octet of it.
		many.add(id, &frames.BasicPublish{RoutingKey: []byte("big")})
		many.buf = frames.AppendHeaderFrame(many.buf, id, 16<<20, nil)
		many.buf = frames.AppendBodyFrames(many.buf, id, []byte("x"), 4096)
	}
	many.flush()
	for range 2047 {
		if _, m := many.method(); m.ID() != frames.ChannelOpenOkID {
			t.Fatalf("got %T", m)
		}
	}
	for range 50 {
		s.check()
	}
	s.bounded(t)
	for _, c := range s.conns() {
		c.reset()
	}
	background.Wait()
	s.clean()
	s.check()
	s.stop()
}

// bounded checks every limit that keeps a connection's memory small.
func (s *site) bounded(t *testing.T) {
	t.Helper()
	total := 0
	for _, c := range s.conns() {
		c.out.mu.Lock()
		if most := readLimitFactor*outboxLimit + framesBetweenChecks*2<<10; c.out.queued > most {
			t.Errorf("%s: %d octets queued", c.name, c.out.queued)
		}
		if n := len(c.out.starved); n > 1 {
			t.Errorf("%s: %d consumers wait for room, one was not cancelled", c.name, n)
		}
		total += c.out.queued
		c.out.mu.Unlock()
		c.mu.Lock()
		body := 0
		for _, ch := range c.channels {
			if ch.content != nil {
				body += cap(ch.content.body)
			}
		}
		if body > 1<<20 {
			t.Errorf("%s: %d octets reserved for bodies of which little has come", c.name, body)
		}
		c.mu.Unlock()
	}
	if total > budgetBytes+len(s.conns())*(readLimitFactor*outboxLimitScarce+64<<10) {
		t.Errorf("%d octets queued for all connections", total)
	}
}
