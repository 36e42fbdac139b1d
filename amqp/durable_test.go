package amqp

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/persist"
)

// TestReturnBeforeConfirm: basic.return of an unroutable mandatory publish
// precedes its ack (behaviour 2.5), also when others are confirmed with it.
func TestReturnBeforeConfirm(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	c := s.connect().open(1)
	call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
	const publishes = 1000
	for i := range publishes {
		c.addPublishTo(1, &frames.BasicPublish{RoutingKey: []byte("nowhere"), Mandatory: i%2 == 1}, transient, fmt.Append(nil, i))
	}
	c.flush()
	returned, acked := 0, uint64(0)
	for acked < publishes {
		switch _, m := c.method(); m := m.(type) {
		case *frames.BasicReturn:
			if got, want := string(c.body(1)), fmt.Sprint(2*returned+1); got != want {
				t.Fatalf("returned %s, want %s", got, want)
			}
			returned++
		case *frames.BasicAck:
			if !m.Multiple && m.DeliveryTag != acked+1 {
				t.Fatalf("ack of %d after %d", m.DeliveryTag, acked)
			}
			acked = m.DeliveryTag
			if returned < int(acked)/2 {
				t.Fatalf("ack of %d after %d returns", acked, returned)
			}
		}
	}
	if returned != publishes/2 {
		t.Errorf("%d returns", returned)
	}
	c.close()
}

// TestConfirmBeforeClose: what is confirmed by the batch that closes the
// channel is told first.
func TestConfirmBeforeClose(t *testing.T) {
	s := startSite(t, nil, Options{}).listen()
	for _, last := range []frames.Method{&frames.ChannelClose{ReplyCode: 200}, &frames.BasicGet{Queue: "missing"}, &frames.ConnectionClose{ReplyCode: 200}} {
		c := s.connect().open(1)
		call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
		c.addPublish(1, "nowhere", transient, []byte("x"))
		c.addPublish(1, "nowhere", transient, []byte("x"))
		channel := uint16(1)
		if last.ID() == frames.ConnectionCloseID {
			channel = 0
		}
		c.add(channel, last)
		c.flush()
		if a := expect[*frames.BasicAck](c, 1); a.DeliveryTag != 2 || !a.Multiple {
			t.Errorf("before %v: %+v", last.ID(), a)
		}
		if on, m := c.method(); on != channel {
			t.Errorf("then %T on channel %d", m, on)
		}
	}
}

// ackSite is a server on a store, and a client whose channel 1 confirms and
// has got one persistent message of queue "in".
func ackSite(t *testing.T) (*site, *client, *persist.Store) {
	t.Helper()
	store := openStore(t)
	s := startSite(t, store, Options{}).listen()
	c := s.connect().open(1, 2)
	call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
	c.declare(1, "in", true)
	c.declare(1, "out", true)
	c.declare(1, "memory", false)
	c.publish(1, "in", persistent, []byte("in"))
	expect[*frames.BasicAck](c, 1)
	c.get(1, "in", false)
	return s, c, store
}

// TestConfirmWaitsForAcks: an acknowledgement that a confirm on the same
// channel follows does not come back, so the confirm waits until it is on the
// disk, even if its own message needs none, or was consumed before its commit.
func TestConfirmWaitsForAcks(t *testing.T) {
	tests := map[string]func(c *client){
		"transient message": func(c *client) { c.addPublish(1, "memory", transient, []byte("x")) },
		"unroutable":        func(c *client) { c.addPublish(1, "nowhere", persistent, []byte("x")) },
		"consumed before its commit": func(c *client) {
			c.addPublish(1, "out", persistent, []byte("x"))
			c.add(1, &frames.BasicGet{Queue: "out", NoAck: true})
		},
		"on its way to the disk": func(c *client) { c.addPublish(1, "out", persistent, []byte("x")) },
		"several": func(c *client) {
			c.addPublish(1, "memory", transient, []byte("x"))
			c.addPublish(1, "out", persistent, []byte("x"))
			c.add(1, &frames.BasicGet{Queue: "out", NoAck: true})
			c.addPublish(1, "nowhere", persistent, []byte("x"))
		},
	}
	for name, publish := range tests {
		t.Run(name, func(t *testing.T) {
			s, c, store := ackSite(t)
			release := holdCommitter(t, store)
			c.add(1, &frames.BasicAck{DeliveryTag: 1})
			publish(c)
			c.add(1, &frames.BasicQos{})
			c.flush()
			server := s.conn(c)
			server.mu.Lock()
			ch := server.channels[1]
			server.mu.Unlock()
			early := false
			for waiting := true; waiting; {
				switch _, m := c.method(); m.(type) {
				case *frames.BasicGetOk:
					c.body(1)
				case *frames.BasicAck:
					early = true
				case *frames.BasicQosOk:
					waiting = false
				}
			}
			ch.mu.Lock()
			first, last := ch.confirms.base, ch.confirms.next-1
			ch.mu.Unlock()
			if early || first != 2 {
				t.Errorf("publishes up to %d were confirmed before the ack was safe", first-1)
			}
			release()
			for told := uint64(1); told < last; {
				a := expect[*frames.BasicAck](c, 1)
				told = max(told, a.DeliveryTag)
			}
			// Once it is safe nothing waits any more.
			c.publish(1, "memory", transient, []byte("x"))
			if a := expect[*frames.BasicAck](c, 1); a.DeliveryTag != last+1 {
				t.Errorf("ack of %d, want %d", a.DeliveryTag, last+1)
			}
			c.close()
			s.clean()
		})
	}
}

// TestOtherChannelsDoNotWaitForAcks: only the channel that acknowledged.
func TestOtherChannelsDoNotWaitForAcks(t *testing.T) {
	_, c, store := ackSite(t)
	release := holdCommitter(t, store)
	c.send(1, &frames.BasicAck{DeliveryTag: 1})
	call[*frames.ConfirmSelectOk](c, 2, &frames.ConfirmSelect{})
	c.publish(2, "memory", transient, []byte("x"))
	expect[*frames.BasicAck](c, 2)
	release()
	c.close()
}

// TestConfirmsWhileConsuming: ten thousand persistent publishes are all
// confirmed, in multiples or not, while another client consumes and
// acknowledges them.
func TestConfirmsWhileConsuming(t *testing.T) {
	const publishes = 10_000
	store := openStore(t)
	s := startSite(t, store, Options{}).listen()
	p := s.connect().open(1)
	p.declare(1, "q", true)
	call[*frames.ConfirmSelectOk](p, 1, &frames.ConfirmSelect{})

	consumed := make(chan struct{})
	go func() {
		defer close(consumed)
		c := s.connect().open(1)
		call[*frames.BasicQosOk](c, 1, &frames.BasicQos{PrefetchCount: 500})
		call[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: "q"})
		for i := range uint64(publishes) {
			d, body := c.delivery(1)
			if n := binary.BigEndian.Uint64(body); n != i || d.DeliveryTag != i+1 {
				t.Errorf("delivery %d brings message %d", d.DeliveryTag, n)
				return
			}
			switch {
			case i%50 == 49:
				c.send(1, &frames.BasicAck{DeliveryTag: i + 1, Multiple: true})
			case i%50 == 7:
				c.send(1, &frames.BasicReject{DeliveryTag: i + 1})
			}
		}
		c.close()
	}()

	go func() { // the client below does not need what is written
		body := make([]byte, 8)
		var b []byte
		for i := range uint64(publishes) {
			binary.BigEndian.PutUint64(body, i)
			b = frames.AppendMethodFrame(b, 1, &frames.BasicPublish{RoutingKey: []byte("q")})
			b = frames.AppendHeaderFrame(b, 1, 8, persistent)
			b = frames.AppendBodyFrames(b, 1, body, 4096)
			if i%100 == 99 {
				if _, err := p.socket.Write(b); err != nil {
					t.Errorf("publish: %v", err)
				}
				b = b[:0]
			}
		}
	}()
	told := make([]bool, publishes+1)
	for left, lowest := publishes, uint64(1); left > 0; {
		a := expect[*frames.BasicAck](p, 1)
		from := a.DeliveryTag
		if a.Multiple {
			from = lowest
		}
		for n := from; n <= a.DeliveryTag; n++ {
			if told[n] && !a.Multiple {
				t.Fatalf("publish %d was confirmed twice", n)
			}
			if !told[n] {
				told[n] = true
				left--
			}
		}
		for lowest <= publishes && told[lowest] {
			lowest++
		}
	}
	<-consumed
	p.close()
	s.clean()
	if q, _ := s.broker.VHosts()[0].Queue("q"); q.Counts().Ready != 0 {
		t.Errorf("%d messages are left", q.Counts().Ready)
	}
}

// TestShutdownClosesStore: what was confirmed before is there again, what was
// unacknowledged is marked redelivered.
func TestShutdownClosesStore(t *testing.T) {
	dir := t.TempDir()
	open := func() *persist.Store {
		store, err := persist.Open(persist.Options{Dir: dir, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	s := startSite(t, open(), Options{}).listen()
	c := s.connect().open(1)
	call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
	c.declare(1, "q", true)
	for i := range 3 {
		c.addPublish(1, "q", persistent, fmt.Append(nil, i))
	}
	c.flush()
	for told := uint64(0); told < 3; {
		told = expect[*frames.BasicAck](c, 1).DeliveryTag
	}
	c.get(1, "q", false)
	go func() {
		if e := expect[*frames.ConnectionClose](c, 0); e.ReplyCode != frames.ConnectionForced {
			t.Errorf("closed with %d", e.ReplyCode)
		}
		c.send(0, &frames.ConnectionCloseOk{})
	}()
	s.server.Shutdown(context.Background())
	s.stop()

	store := open() // which the folder's lock allows only after the close
	if !store.CleanStart() {
		t.Error("the store was not closed cleanly")
	}
	s = startSite(t, store, Options{}).listen()
	c = s.connect().open(1)
	for i := range 3 {
		ok, body := c.get(1, "q", true)
		if string(body) != fmt.Sprint(i) || ok.Redelivered != (i == 0) {
			t.Errorf("got %q, redelivered %v", body, ok.Redelivered)
		}
	}
	c.close()
}

// TestStoreFailure: publishes that the store cannot keep are nacked.
func TestStoreFailure(t *testing.T) {
	store := openStore(t)
	b, err := broker.Open(broker.Options{Store: store, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, broker: b, server: NewServer(Options{Broker: b, Logger: quiet})}
	t.Cleanup(s.stop)
	c := s.listen().connect().open(1)
	call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
	c.declare(1, "q", true)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.addPublish(1, "q", persistent, []byte("x"))
	}
	c.flush()
	for told := uint64(0); told < 3; {
		told = expect[*frames.BasicNack](c, 1).DeliveryTag
	}
	c.send(1, &frames.QueueDeclare{Queue: "q2", Durable: true})
	if e := expect[*frames.ConnectionClose](c, 0); e.ReplyCode != frames.InternalError {
		t.Errorf("a declare that cannot be kept: %+v", e)
	}
	c.send(0, &frames.ConnectionCloseOk{})
	c.gone()
	s.clean()
}
