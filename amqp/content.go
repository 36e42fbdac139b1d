package amqp

import (
	"slices"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// content is the basic.publish being assembled from its frames, and scratch
// memory for the next. Guarded by conn.mu.
type content struct {
	broker.Publication
	router               broker.Router
	mandatory, immediate bool
	names                []byte // exchange, then routing key
	properties           []byte
	body                 []byte // of a body that comes in several frames
	received             uint64
	discard              bool // counted, not kept: too large, or ignored
	ignored              bool // an interceptor dropped the method
}

// bodyStart is how many times its first frame's size is reserved for a body,
// at most. A header's word alone reserves nothing: a client with many channels
// could claim gigabytes with a few octets on each.
const bodyStart = 8

// beginPublish does basic.publish; the content follows. Hot: decoded on the
// stack, names copied into scratch memory.
func (ch *channel) beginPublish(args []byte) error {
	var m frames.BasicPublish
	if err := m.Decode(args); err != nil {
		return err
	}
	if ch.content == nil {
		ch.content = new(content)
	}
	p := ch.content
	p.names = append(append(p.names[:0], m.Exchange...), m.RoutingKey...)
	p.Exchange, p.RoutingKey = p.names[:len(m.Exchange)], p.names[len(m.Exchange):]
	p.mandatory, p.immediate, p.ignored = m.Mandatory, m.Immediate, false
	ch.expecting = expectHeader
	return nil
}

func unexpectedContent(format string, a ...any) error {
	return frames.Errorf(frames.UnexpectedFrame, format, a...).At(frames.BasicPublishID)
}

// header takes the content header of a publish. conn.mu is held.
func (ch *channel) header(f frames.Frame) error {
	const due = "expected content header for class 60, got "
	if f.Type != frames.TypeHeader {
		return unexpectedContent(due + "non content header frame instead")
	}
	h, err := frames.ParseContentHeader(f.Payload)
	switch {
	case err != nil:
		return err
	case h.Class != 60:
		return unexpectedContent(due+"one for class %d instead", h.Class)
	case h.Weight != 0:
		return unexpectedContent(due + "non content header frame instead")
	}
	profile := ch.c.server.broker.Profile
	if most := compat.HeaderSizeCap.In(profile); most > 0 && h.BodySize > most {
		return frames.Errorf(frames.FrameError, "content body size %d exceeds maximum allowed size %d", h.BodySize, most).At(frames.BasicPublishID)
	}
	p := ch.content
	p.properties = append(p.properties[:0], h.Properties...)
	p.Properties, p.PropertiesError = frames.ParseProperties(p.properties)
	p.BodySize, p.received = h.BodySize, 0
	p.discard = p.ignored || h.BodySize > ch.c.server.broker.MaxMessageSize
	p.body = nil
	if h.BodySize == 0 {
		return ch.publish(nil, true)
	}
	ch.expecting = expectBody
	return nil
}

// body takes a body frame of a publish. conn.mu is held.
func (ch *channel) body(f frames.Frame) error {
	if f.Type != frames.TypeBody {
		return unexpectedContent("expected content body, got non content body frame instead")
	}
	p := ch.content
	p.received += uint64(len(f.Payload))
	switch {
	case p.received > p.BodySize:
		// 3.10.8 waits for a body that can never be complete any more.
		if compat.BodyOverrun.In(ch.c.server.broker.Profile) {
			return frames.Errorf(frames.FrameError, "content body frame exceeds remaining content size").At(frames.BasicPublishID)
		}
		p.body, p.discard = nil, true
		return nil
	case p.received == p.BodySize && p.body == nil:
		return ch.publish(f.Payload, false)
	case !p.discard:
		if p.body == nil {
			p.body = make([]byte, 0, min(p.BodySize, uint64(bodyStart*len(f.Payload))))
		}
		p.body = append(p.body, f.Payload...)
	}
	if p.received < p.BodySize {
		return nil
	}
	return ch.publish(p.body, true)
}

// publish takes a whole publish. owned: body is not the read buffer's.
// conn.mu is held.
func (ch *channel) publish(body []byte, owned bool) error {
	ch.expecting = expectMethod
	p := ch.content
	if p.ignored {
		ch.ignorePublish()
		return nil
	}
	if p.immediate {
		return frames.Errorf(frames.NotImplemented, "immediate=true").At(frames.BasicPublishID)
	}
	p.ReplyName = ch.replyName
	queues, err := ch.c.vhost.Route(&p.router, &ch.c.client, &p.Publication)
	if err != nil {
		if err == p.PropertiesError {
			return err // with no method's ids, as in RabbitMQ
		}
		return at(err, frames.BasicPublishID)
	}
	if hooks := &ch.c.server.broker.Hooks; hooks.Intercepting() {
		if done, err := ch.interceptPublish(body, owned); done {
			return err
		}
	}
	return ch.accepted(queues, body, owned)
}

// accepted enqueues a publish that passed all checks, at once or at its
// transaction's commit. conn.mu is held.
func (ch *channel) accepted(queues []*queue.Queue, body []byte, owned bool) error {
	p := ch.content
	p.body = nil
	returned := p.mandatory && p.Unroutable
	if ch.tx == nil && len(queues) == 0 && !returned && !ch.c.vhost.Tracing() {
		// Nobody gets it: it needs no memory.
		ch.observePublish(broker.PublishRouted, nil, nil, 0)
		ch.confirmNow(ch.issue())
		return nil
	}
	if !owned {
		body = ch.c.arena.Copy(body)
	}
	m := p.Compose(&ch.c.arena, body)
	if ch.tx != nil {
		ch.tx.publish(m, slices.Clone(queues), returned)
		return nil
	}
	seq := ch.issue()
	ch.observePublish(broker.PublishRouted, m, queues, seq)
	if returned {
		ch.returnUnroutable(m)
	}
	ch.enqueue(m, queues, seq)
	return nil
}

// enqueue gives the message to its queues; its confirm comes when the slowest
// is safe. conn.mu is held.
func (ch *channel) enqueue(m *queue.Message, queues []*queue.Queue, seq uint64) {
	if !keeps(m, queues) {
		switch taken, p := ch.offer(m, queues); {
		case p != nil:
			p.seq = seq
		case taken:
			ch.confirmNow(seq)
		default:
			ch.refuseNow(seq)
		}
		return
	}
	record := m.Track(nil, 0)
	guarded := false
	if seq != 0 {
		guarded = ch.guard(seq)
		record.Init(m, ch, seq)
	}
	record.Hold()
	store := ch.c.server.broker.Store()
	if taken, p := ch.offer(m, queues); p != nil {
		p.seq, p.stored = seq, true
	} else {
		if !taken {
			ch.refuseNow(seq) // the first outcome counts: a copy that is stored changes nothing
		}
		record.Release(store)
	}
	if guarded {
		store.Barrier(&ch.acks, seq)
	}
}

// offer gives the message to its queues. Not taken: one of them is full and
// refused it; the others keep their copies, as in RabbitMQ. p is not nil when
// copies wait for room in a queue; its outcome comes with the last of them.
// conn.mu is held.
func (ch *channel) offer(m *queue.Message, queues []*queue.Queue) (taken bool, p *pending) {
	taken = true
	for _, q := range queues {
		switch q.Publish(m) {
		case queue.Refused:
			taken = false
		case queue.Full:
			if p == nil {
				p = &pending{m: m}
			}
			ch.hold(p, q)
		}
	}
	if p != nil {
		p.refused = !taken
	}
	return taken, p
}

// keeps says whether one of the queues keeps the message on disk.
func keeps(m *queue.Message, queues []*queue.Queue) bool {
	for _, q := range queues {
		if q.Keeps(m) {
			return true
		}
	}
	return false
}

// returnUnroutable sends basic.return. conn.mu is held.
func (ch *channel) returnUnroutable(m *queue.Message) {
	var scratch [600]byte
	method := frames.AppendReturn(scratch[:0], ch.id, frames.NoRoute, frames.CodeName(frames.NoRoute), m.Exchange, m.RoutingKey)
	ch.c.out.sendContent(&ch.position, ch.id, method, m)
	ch.observePublish(broker.PublishReturned, m, nil, 0)
}
