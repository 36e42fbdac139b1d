package conformance

import (
	"fmt"
	"strings"
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// Chan is a channel of a case's connection.
type Chan struct {
	*Conn
	id uint16
}

// At gives channel id without opening it.
func (c *Conn) At(id uint16) *Chan { return &Chan{Conn: c, id: id} }

// Chan opens channel id.
func (c *Conn) Chan(id uint16) *Chan {
	ch := c.At(id)
	ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
	return ch
}

// Send writes methods on this channel.
func (ch *Chan) Send(methods ...wire.Method) { ch.Conn.Send(ch.id, methods...) }

// SendFrame writes a frame of any type on this channel.
func (ch *Chan) SendFrame(kind uint8, payload []byte) {
	ch.SendFrames(wire.Frame{Type: kind, Channel: ch.id, Payload: payload})
}

func (ch *Chan) next() wire.Method { return ch.Method(ch.id) }

// Want demands methods as the next frames of this channel.
func (ch *Chan) Want(methods ...wire.Method) {
	for _, m := range methods {
		ch.Conn.Want(ch.id, m)
	}
}

// Call sends a method and demands its answer.
func (ch *Chan) Call(m, want wire.Method) {
	ch.Send(m)
	ch.Want(want)
}

// WantClosing demands a close. After a channel's, the channel must open again; after a connection's, TCP must end.
func (ch *Chan) WantClosing(want closing) {
	if want.hard {
		ch.Conn.WantClosing(want)
		return
	}
	ch.WantChannelClose(want)
	ch.Send(wire.ChannelCloseOk{})
	ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
}

// WantChannelClose demands a channel.close and leaves it unanswered.
func (ch *Chan) WantChannelClose(want closing) {
	ch.Want(wire.ChannelClose{ReplyCode: want.code, ReplyText: want.replyText(ch.t), ClassID: want.class, MethodID: want.method})
}

// Quiet demands that no frame comes on this channel before the answer to a method that changes nothing.
func (ch *Chan) Quiet() { ch.Call(wire.ChannelFlow{Active: true}, wire.ChannelFlowOk{Active: true}) }

// WantCount demands a queue's ready messages and consumers, and that nothing else comes before the answer. A passive
// declare may overtake publishes of the same channel (it does in RabbitMQ), so it is repeated until it says what is
// wanted; basic.get never overtakes, so "no message" is asked of it first.
func (ch *Chan) WantCount(q string, messages, consumers uint32) {
	if messages == 0 {
		ch.WantEmpty(q)
	}
	want := wire.QueueDeclareOk{Queue: q, MessageCount: messages, ConsumerCount: consumers}
	for end := time.Now().Add(countPatience); time.Now().Before(end); {
		ch.Send(wire.QueueDeclare{Queue: q, Passive: true})
		if got := ch.wantType(want); got == want {
			return
		}
	}
	ch.Call(wire.QueueDeclare{Queue: q, Passive: true}, want)
}

// Queue declares an exclusive queue.
func (ch *Chan) Queue(q string, arguments ...wire.Field) {
	ch.DeclareQueue(wire.QueueDeclare{Queue: q, Exclusive: true, Arguments: arguments})
}

// DeclareQueue declares a queue that must be new and empty.
func (ch *Chan) DeclareQueue(m wire.QueueDeclare) { ch.Call(m, wire.QueueDeclareOk{Queue: m.Queue}) }

// Exchange declares a transient exchange.
func (ch *Chan) Exchange(x, kind string, arguments ...wire.Field) {
	ch.Call(wire.ExchangeDeclare{Exchange: x, Type: kind, Arguments: arguments}, wire.ExchangeDeclareOk{})
}

// Bind binds a queue.
func (ch *Chan) Bind(q, x, key string, arguments ...wire.Field) {
	ch.Call(wire.QueueBind{Queue: q, Exchange: x, RoutingKey: key, Arguments: arguments}, wire.QueueBindOk{})
}

// ContentFrames returns the frames of a publish: method, header, and the body cut at the negotiated size.
func (ch *Chan) ContentFrames(m wire.BasicPublish, p wire.Properties, body string) []wire.Frame {
	frames := []wire.Frame{
		wire.MethodFrame(ch.id, m),
		wire.HeaderFrame(ch.id, wire.Header{Class: 60, Size: uint64(len(body)), Properties: p}),
	}
	for limit := int(ch.frameMax) - 8; len(body) > 0; {
		n := min(limit, len(body))
		frames = append(frames, wire.BodyFrame(ch.id, []byte(body[:n])))
		body = body[n:]
	}
	return frames
}

// PublishWith publishes with everything given.
func (ch *Chan) PublishWith(m wire.BasicPublish, p wire.Properties, body string) {
	ch.SendFrames(ch.ContentFrames(m, p, body)...)
}

// Publish publishes bodies without properties, in order.
func (ch *Chan) Publish(x, key string, bodies ...string) {
	var frames []wire.Frame
	for _, b := range bodies {
		frames = append(frames, ch.ContentFrames(wire.BasicPublish{Exchange: x, RoutingKey: key}, wire.Properties{}, b)...)
	}
	ch.SendFrames(frames...)
}

// Content reads a content header and the body that goes with it. Each body frame must fit frame-max.
func (ch *Chan) Content() (wire.Properties, string) {
	f := ch.frame(ch.id)
	if f.Type != wire.FrameHeader {
		ch.t.Fatalf("want a content header, got %s", describe(f))
	}
	h, err := wire.DecodeHeader(f.Payload)
	if err != nil {
		ch.t.Fatalf("undecodable content header: %v", err)
	}
	if h.Class != 60 || h.Weight != 0 {
		ch.t.Fatalf("content header of class %d with weight %d", h.Class, h.Weight)
	}
	var body strings.Builder
	for uint64(body.Len()) < h.Size {
		f := ch.frame(ch.id)
		if f.Type != wire.FrameBody || len(f.Payload) == 0 || len(f.Payload) > int(ch.frameMax)-8 {
			ch.t.Fatalf("want a body frame of 1 to %d bytes, got %s", ch.frameMax-8, describe(f))
		}
		body.Write(f.Payload)
	}
	if uint64(body.Len()) > h.Size {
		ch.t.Fatalf("body of %d bytes, the header said %d", body.Len(), h.Size)
	}
	return h.Properties, body.String()
}

// Delivery is a basic.deliver with its content.
type Delivery struct {
	Consumer      string
	Tag           uint64
	Redelivered   bool
	Exchange, Key string
	Properties    wire.Properties
	Body          string
}

// Delivery reads the next frames of the channel, which must be a delivery.
func (ch *Chan) Delivery() Delivery {
	m, ok := ch.wantType(wire.BasicDeliver{}).(wire.BasicDeliver)
	if !ok {
		return Delivery{}
	}
	p, body := ch.Content()
	return Delivery{m.ConsumerTag, m.DeliveryTag, m.Redelivered, m.Exchange, m.RoutingKey, p, body}
}

// wantType reads a method and demands that it is of the type of like.
func (ch *Chan) wantType(like wire.Method) wire.Method {
	m := ch.next()
	if got, want := fmt.Sprintf("%T", m), fmt.Sprintf("%T", like); got != want {
		ch.t.Fatalf("want %s, got %#v", want, m)
	}
	return m
}

// WantDelivery demands a delivery, every field of it.
func (ch *Chan) WantDelivery(want Delivery) { ch.t.Equal("delivery", ch.Delivery(), want) }

// WantBodies demands deliveries by their bodies alone, in order.
func (ch *Chan) WantBodies(bodies ...string) {
	for _, b := range bodies {
		ch.t.Equal("body delivered", ch.Delivery().Body, b)
	}
}

// Got is a basic.get-ok with its content.
type Got struct {
	Tag           uint64
	Redelivered   bool
	Exchange, Key string
	Left          uint32 // ready messages that stay behind
	Properties    wire.Properties
	Body          string
}

// Get takes a message, which must be there.
func (ch *Chan) Get(q string, noAck bool) Got {
	ch.Send(wire.BasicGet{Queue: q, NoAck: noAck})
	m := ch.wantType(wire.BasicGetOk{}).(wire.BasicGetOk)
	p, body := ch.Content()
	return Got{m.DeliveryTag, m.Redelivered, m.Exchange, m.RoutingKey, m.MessageCount, p, body}
}

// WantGet takes a message without acknowledgement owed, and demands its body and what is left.
func (ch *Chan) WantGet(q, body string, left uint32) {
	g := ch.Get(q, true)
	ch.t.Equal("message got", []any{g.Body, g.Left}, []any{body, left})
}

// AwaitGet takes the first message that comes, without acknowledgement owed.
func (ch *Chan) AwaitGet(q string) Got {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(getInterval) {
		ch.Send(wire.BasicGet{Queue: q, NoAck: true})
		switch m := ch.next().(type) {
		case wire.BasicGetEmpty:
		case wire.BasicGetOk:
			p, body := ch.Content()
			return Got{m.DeliveryTag, m.Redelivered, m.Exchange, m.RoutingKey, m.MessageCount, p, body}
		default:
			ch.t.Fatalf("basic.get answered with %#v", m)
		}
	}
	ch.t.Fatalf("no message within %v", patience)
	return Got{}
}

// getInterval is how long AwaitGet rests between two tries.
const getInterval = 10 * time.Millisecond

// WantEmpty demands that a queue has nothing to get.
func (ch *Chan) WantEmpty(q string) {
	ch.Call(wire.BasicGet{Queue: q, NoAck: true}, wire.BasicGetEmpty{})
}

// Returned is a basic.return with its content.
type Returned struct {
	Code                uint16
	Text, Exchange, Key string
	Properties          wire.Properties
	Body                string
}

// WantReturn demands a basic.return, every field of it.
func (ch *Chan) WantReturn(want Returned) {
	m := ch.wantType(wire.BasicReturn{}).(wire.BasicReturn)
	p, body := ch.Content()
	ch.t.Equal("return", Returned{m.ReplyCode, m.ReplyText, m.Exchange, m.RoutingKey, p, body}, want)
}

// Consume starts a consumer that acknowledges.
func (ch *Chan) Consume(q, tag string, arguments ...wire.Field) {
	ch.Call(wire.BasicConsume{Queue: q, ConsumerTag: tag, Arguments: arguments}, wire.BasicConsumeOk{ConsumerTag: tag})
}

// ConsumeNoAck starts a consumer that does not acknowledge.
func (ch *Chan) ConsumeNoAck(q, tag string) {
	ch.Call(wire.BasicConsume{Queue: q, ConsumerTag: tag, NoAck: true}, wire.BasicConsumeOk{ConsumerTag: tag})
}

// Prefetch sets the limit for each later consumer.
func (ch *Chan) Prefetch(n uint16) { ch.Call(wire.BasicQos{PrefetchCount: n}, wire.BasicQosOk{}) }

// Confirm puts the channel into confirm mode.
func (ch *Chan) Confirm() { ch.Call(wire.ConfirmSelect{}, wire.ConfirmSelectOk{}) }

// WantConfirms demands positive confirms for exactly the publishes from first to last, in any grouping and order.
func (ch *Chan) WantConfirms(first, last uint64) {
	open := map[uint64]bool{}
	for n := first; n <= last; n++ {
		open[n] = true
	}
	for len(open) > 0 {
		a := ch.wantType(wire.BasicAck{}).(wire.BasicAck)
		if !a.Multiple && !open[a.DeliveryTag] {
			ch.t.Fatalf("confirm %d is not due", a.DeliveryTag)
		}
		settled := 0
		for n := range open {
			if n == a.DeliveryTag || a.Multiple && n < a.DeliveryTag {
				delete(open, n)
				settled++
			}
		}
		if settled == 0 || a.DeliveryTag > last {
			ch.t.Fatalf("confirm up to %d settles nothing that is due", a.DeliveryTag)
		}
	}
}
