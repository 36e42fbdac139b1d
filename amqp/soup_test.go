package amqp

import (
	"io"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/warrenmq/warren/frames"
)

// soup draws what a client sends: mostly methods that mean something to each
// other, sometimes frames that no client should send.
type soup struct {
	t    *rapid.T
	wild bool // does what ends the connection
	b    []byte
}

func (s *soup) bool() bool { return rapid.Bool().Draw(s.t, "bool") }

// seldom is true once in many draws, never for a tame client.
func (s *soup) seldom() bool { return s.wild && rapid.IntRange(0, 39).Draw(s.t, "seldom") == 0 }

func (s *soup) channel() uint16 {
	if s.seldom() {
		return rapid.SampledFrom([]uint16{0, 4, 65535}).Draw(s.t, "channel")
	}
	return rapid.Uint16Range(1, 3).Draw(s.t, "channel")
}

func (s *soup) queue() string {
	return rapid.SampledFrom([]string{"a", "a", "b", "b", "c", "durable", "durable", ""}).Draw(s.t, "queue")
}

func (s *soup) exchange() string {
	return rapid.SampledFrom([]string{"", "x", "y", "amq.topic", "amq.fanout"}).Draw(s.t, "exchange")
}

func (s *soup) tag() string { return rapid.SampledFrom([]string{"t", "u", ""}).Draw(s.t, "tag") }

func (s *soup) number() uint64 { return rapid.Uint64Range(0, 6).Draw(s.t, "number") }

// settled draws which deliveries are meant: mostly all, which is never wrong.
func (s *soup) settled() (tag uint64, multiple bool) {
	if rapid.IntRange(0, 4).Draw(s.t, "which") > 0 {
		return 0, true
	}
	return s.number(), s.bool()
}

// channelMethod draws a method for an open channel. Declares and deletes of
// the durable queue have it wait for the store.
func (s *soup) channelMethod() frames.Method {
	if s.seldom() {
		return rapid.SampledFrom([]frames.Method{
			&frames.BasicCancelOk{}, &frames.QueueDeclareOk{}, &frames.ConnectionOpen{}, &frames.ConnectionClose{}, &frames.ConnectionCloseOk{},
			&frames.ConnectionStartOk{}, &frames.ConnectionUpdateSecret{}, &frames.BasicRecover{}, &frames.BasicQos{PrefetchSize: 1},
			&frames.ChannelCloseOk{}, &frames.ChannelOpen{},
		}).Draw(s.t, "odd method")
	}
	makers := []func() frames.Method{
		func() frames.Method {
			q := s.queue()
			return &frames.QueueDeclare{Queue: q, Durable: q == "durable", NoWait: s.seldom(), Exclusive: s.seldom(), Passive: s.seldom(), AutoDelete: q == "c"}
		},
		func() frames.Method {
			return &frames.QueueDelete{Queue: s.queue(), IfUnused: s.bool(), IfEmpty: s.bool()}
		},
		func() frames.Method { return &frames.QueuePurge{Queue: s.queue(), NoWait: s.bool()} },
		func() frames.Method {
			return &frames.QueueBind{Queue: s.queue(), Exchange: s.exchange(), RoutingKey: s.queue()}
		},
		func() frames.Method {
			return &frames.ExchangeDeclare{Exchange: s.exchange(), Type: "direct", Durable: s.bool(), NoWait: s.bool()}
		},
		func() frames.Method {
			return &frames.BasicConsume{Queue: s.queue(), ConsumerTag: s.tag(), NoAck: s.bool(), NoWait: s.bool(), Exclusive: s.seldom()}
		},
		func() frames.Method { return &frames.BasicCancel{ConsumerTag: s.tag(), NoWait: s.bool()} },
		func() frames.Method { return &frames.BasicGet{Queue: s.queue(), NoAck: s.bool()} },
		func() frames.Method {
			tag, multiple := s.settled()
			return &frames.BasicAck{DeliveryTag: tag, Multiple: multiple}
		},
		func() frames.Method {
			tag, multiple := s.settled()
			return &frames.BasicNack{DeliveryTag: tag, Multiple: multiple, Requeue: s.bool()}
		},
		func() frames.Method { return &frames.BasicReject{DeliveryTag: s.number(), Requeue: s.bool()} },
		func() frames.Method { return &frames.BasicRecover{Requeue: true} },
		func() frames.Method { return &frames.BasicRecoverAsync{Requeue: true} },
		func() frames.Method {
			return &frames.BasicQos{PrefetchCount: uint16(s.number()), Global: s.bool()}
		},
		func() frames.Method { return &frames.ChannelFlow{Active: true} },
		func() frames.Method {
			return &frames.BasicConsume{Queue: "amq.rabbitmq.reply-to", NoAck: true, ConsumerTag: s.tag()}
		},
	}
	return rapid.SampledFrom(makers).Draw(s.t, "method")()
}

func (s *soup) publish(ch uint16) {
	m := &frames.BasicPublish{Exchange: []byte(s.exchange()), RoutingKey: []byte(s.queue()), Mandatory: s.bool(), Immediate: s.seldom()}
	body := make([]byte, rapid.SampledFrom([]int{0, 1, 5000, 200_000}).Draw(s.t, "size"))
	properties := transient
	if s.bool() {
		properties = persistent
	}
	size := uint64(len(body))
	if s.seldom() {
		size += rapid.Uint64Range(0, 1<<40).Draw(s.t, "announced")
	}
	s.b = frames.AppendMethodFrame(s.b, ch, m)
	s.b = frames.AppendHeaderFrame(s.b, ch, size, properties)
	if s.seldom() {
		s.b = frames.AppendMethodFrame(s.b, s.channel(), s.channelMethod()) // inside the content
	}
	s.b = frames.AppendBodyFrames(s.b, ch, body, 131072)
}

// broken draws a frame that is wrong in some way.
func (s *soup) broken() {
	payload := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(s.t, "payload")
	typ := rapid.SampledFrom([]byte{0, 1, 1, 2, 3, 8, 9, 255}).Draw(s.t, "type")
	start := len(s.b)
	s.b = frames.AppendFrameHeader(s.b, typ, s.channel(), uint32(len(payload)))
	s.b = append(append(s.b, payload...), frames.FrameEnd)
	switch rapid.IntRange(0, 5).Draw(s.t, "damage") {
	case 0:
		s.b[len(s.b)-1]++
	case 1:
		s.b = s.b[:start+rapid.IntRange(0, len(s.b)-start).Draw(s.t, "cut")]
	}
}

// send appends methods.
func (s *soup) send(ch uint16, methods ...frames.Method) {
	for _, m := range methods {
		s.b = frames.AppendMethodFrame(s.b, ch, m)
	}
}

// begin opens the channels: 2 may be transactional, 3 may confirm.
func (s *soup) begin() {
	for id := uint16(1); id <= 3; id++ {
		s.send(id, &frames.ChannelOpen{}, &frames.QueueDeclare{Queue: "a"}, &frames.QueueDeclare{Queue: "durable", Durable: true})
		s.send(id, &frames.QueueDeclare{Queue: "b"})
	}
	if s.bool() {
		s.send(2, &frames.TxSelect{})
	}
	if s.bool() {
		s.send(3, &frames.ConfirmSelect{})
	}
}

// transaction does things on channel 2 and ends them.
func (s *soup) transaction() {
	s.send(2, &frames.TxSelect{}, &frames.BasicGet{Queue: s.queue()})
	for range rapid.IntRange(0, 3).Draw(s.t, "publishes") {
		s.publish(2)
	}
	s.send(2, &frames.BasicNack{Multiple: true, Requeue: s.bool()}, &frames.BasicGet{Queue: s.queue()})
	s.send(2, &frames.BasicAck{Multiple: true})
	if s.bool() {
		s.send(2, &frames.TxRollback{})
	} else {
		s.send(2, &frames.TxCommit{})
	}
}

// draw makes one client's octets.
func (s *soup) draw() []byte {
	s.wild = s.bool()
	s.begin()
	for range rapid.IntRange(1, 40).Draw(s.t, "length") {
		switch n := rapid.IntRange(0, 99).Draw(s.t, "kind"); {
		case n < 60:
			s.send(s.channel(), s.channelMethod())
		case n < 85:
			s.publish(s.channel())
		case n < 93:
			s.transaction()
		case n < 97:
			id := s.channel()
			s.send(id, &frames.ChannelClose{}, &frames.ChannelOpen{})
		case s.wild:
			s.broken()
		}
	}
	return s.b
}

// endings of a client.
func (s *soup) ending() []byte {
	if s.bool() {
		return frames.AppendMethodFrame(nil, 0, &frames.ConnectionClose{})
	}
	return nil
}

// eat sends octets while it reads whatever comes, answers closes as a client
// does, and ends.
func (s *site) eat(octets, ending []byte) {
	c := s.connect()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			f, err := c.next()
			if err != nil {
				return
			}
			if f.Type != frames.TypeMethod {
				continue
			}
			// Errors of writing: the server was faster.
			switch id, _, _ := frames.SplitMethod(f.Payload); id {
			case frames.ChannelCloseID:
				_, _ = c.socket.Write(frames.AppendMethodFrame(nil, f.Channel, &frames.ChannelCloseOk{}))
			case frames.ConnectionCloseID:
				_, _ = c.socket.Write(frames.AppendMethodFrame(nil, 0, &frames.ConnectionCloseOk{}))
			}
		}
	}()
	_, _ = c.socket.Write(octets)
	if len(ending) > 0 {
		_, _ = c.socket.Write(ending)
		_ = c.socket.(interface{ CloseWrite() error }).CloseWrite()
		<-read
	}
	c.socket.Close()
	<-read
}

// TestFrameSoup: whatever clients send, two at a time, ends their own channels
// and connections only, and nothing of them is left.
func TestFrameSoup(t *testing.T) {
	for name, store := range map[string]bool{"memory": false, "store": true} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			var s *site
			if store {
				s = startSite(t, openStore(t), Options{}).listen()
			} else {
				s = startSite(t, nil, Options{}).listen()
			}
			honest := s.connect().open(1)
			honest.declare(1, "honest", false)
			rapid.Check(t, func(t *rapid.T) {
				var clients sync.WaitGroup
				for range 2 {
					mix := &soup{t: t}
					octets, ending := mix.draw(), mix.ending()
					clients.Go(func() { s.eat(octets, ending) })
				}
				honest.publish(1, "honest", transient, []byte("hello"))
				if _, got := honest.get(1, "honest", true); string(got) != "hello" {
					t.Fatalf("an honest client got %q", got)
				}
				clients.Wait()
				eventually(s.t, "the clients are gone", func() bool { return s.server.Connections() == 1 })
			})
			honest.close()
			s.clean()
			s.check()
			s.stop()
		})
	}
}

// TestOctetSoup: the same for clients that speak no AMQP at all, or stop
// anywhere in the handshake.
func TestOctetSoup(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := startSite(t, nil, Options{}).listen()
	handshake := []byte("AMQP\x00\x00\x09\x01")
	handshake = frames.AppendMethodFrame(handshake, 0, &frames.ConnectionStartOk{Mechanism: "PLAIN", Response: []byte("\x00guest\x00guest")})
	handshake = frames.AppendMethodFrame(handshake, 0, &frames.ConnectionTuneOk{ChannelMax: 10, FrameMax: 4096})
	handshake = frames.AppendMethodFrame(handshake, 0, &frames.ConnectionOpen{VirtualHost: "/"})
	rapid.Check(t, func(t *rapid.T) {
		b := append([]byte(nil), handshake[:rapid.IntRange(0, len(handshake)).Draw(t, "cut")]...)
		if len(b) > 0 && rapid.Bool().Draw(t, "flip") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		}
		b = append(b, rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "octets")...)
		c := s.dial()
		_, _ = c.socket.Write(b)
		if rapid.Bool().Draw(t, "half close") {
			_ = c.socket.(interface{ CloseWrite() error }).CloseWrite()
			if _, err := io.Copy(io.Discard, io.LimitReader(c.socket, 1)); err != nil {
				t.Logf("read: %v", err) // reset
			}
		}
		c.socket.Close()
	})
	s.clean()
	s.check()
	s.stop()
}
