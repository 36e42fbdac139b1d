package amqp

import (
	"errors"
	"sync"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// expectation is which frame is legal next on an open channel.
type expectation uint8

const (
	expectMethod expectation = iota
	expectHeader
	expectBody
)

// channel is one channel of a connection.
type channel struct {
	// Immutable.
	c    *conn
	id   uint16
	acks acksStored

	// Guarded by the outbox's mutex.
	position lanePosition

	// Guarded by conn.mu.
	closing    bool // channel.close was sent, close-ok is due
	expecting  expectation
	content    *content // nil until the first publish
	replyName  string   // of this channel's direct replies; "" when it consumes none
	lastQueue  string   // last declared here: what an empty queue name means
	prefetch   int      // of consumers to come; 0 is no limit
	confirming bool
	tx         *transaction // nil: not transactional
	parked     *parking     // waits for the store or a delay
	dirty      bool         // in conn.dirty
	holds      int          // copies of publishes that wait for room in a queue
	leaving    *parking     // channel.close waits for them
	taken      []unackedItem
	entries    []queue.Entry
	resumable  []*consumer

	mu              sync.Mutex
	closed          bool // nothing is delivered or confirmed any more
	nextTag         uint64
	unacked         unackedList
	consumers       map[string]*consumer
	ranked          int // consumers with an x-channel-priority
	globalPrefetch  int // basic.qos global; 0 is no limit
	consumerUnacked int // deliveries to consumers, not basic.get
	confirms        confirms
	barrier         ackBarrier
	watch           watch
}

func newChannel(c *conn, id uint16) *channel {
	ch := &channel{c: c, id: id, nextTag: 1}
	ch.acks.ch = ch
	return ch
}

// frame takes a frame of this channel. conn.mu is held.
func (ch *channel) frame(f frames.Frame) error {
	switch {
	case ch.closing:
		return ch.whileClosing(f)
	case ch.parked != nil:
		return ch.postpone(f)
	}
	switch ch.expecting {
	case expectHeader:
		return ch.header(f)
	case expectBody:
		return ch.body(f)
	}
	if f.Type != frames.TypeMethod {
		return errNotMethod()
	}
	return ch.method(f.Payload)
}

// method runs a method's handler. conn.mu is held.
func (ch *channel) method(payload []byte) error {
	id, args, err := frames.SplitMethod(payload)
	if err != nil {
		return err
	}
	h := handlerOf(id)
	if h == nil {
		return ch.unimplemented(id, payload)
	}
	if hooks := &ch.c.server.broker.Hooks; hooks.Intercepting() {
		if done, err := ch.interceptMethod(id, payload); done {
			return err
		}
	}
	ch.observeMethod(id)
	return h(ch, args)
}

// unimplemented: a method that only a server sends, or none at all.
func (ch *channel) unimplemented(id frames.MethodID, payload []byte) error {
	if _, err := frames.DecodeMethod(payload); err != nil {
		return err
	}
	return frames.Errorf(frames.CommandInvalid, "unimplemented method").At(id)
}

// whileClosing: the server has sent channel.close. Everything is ignored but
// close and close-ok; opening the number again is an error. conn.mu is held.
func (ch *channel) whileClosing(f frames.Frame) error {
	if f.Type != frames.TypeMethod {
		return nil
	}
	switch id, _, _ := frames.SplitMethod(f.Payload); id {
	case frames.ChannelCloseID:
		ch.c.out.send(&ch.position, ch.id, &frames.ChannelCloseOk{})
	case frames.ChannelCloseOkID:
		ch.c.forget(ch)
	case frames.ChannelOpenID:
		return errSecondOpen()
	}
	return nil
}

func errSecondOpen() error {
	return frames.Errorf(frames.ChannelError, "second 'channel.open' seen").At(frames.ChannelOpenID)
}

// closeWith ends the channel with an error. conn.mu is held.
func (ch *channel) closeWith(fe *frames.Error) {
	ch.terminate()
	ch.closing = true
	ch.sendClose(fe)
	ch.c.observe(broker.Event{Step: broker.ChannelClosed, Channel: ch.id, Code: fe.Code, Text: fe.Text})
}

// sendClose sends channel.close. conn.mu is held.
func (ch *channel) sendClose(fe *frames.Error) {
	ch.c.out.send(&ch.position, ch.id, &frames.ChannelClose{
		ReplyCode: fe.Code, ReplyText: fe.ReplyText(), ClassID: fe.Class, MethodID: fe.Method,
	})
}

// closedByClient does channel.close: unacknowledged messages are back in
// their queues before close-ok is sent. conn.mu is held.
func (ch *channel) closedByClient(m *frames.ChannelClose) error {
	if ch.holds > 0 {
		return ch.closeHeld(func() error { return ch.closedByClient(m) })
	}
	ch.terminate()
	ch.c.forget(ch)
	ch.c.out.send(&ch.position, ch.id, &frames.ChannelCloseOk{})
	ch.c.observe(broker.Event{Step: broker.ChannelClosed, Channel: ch.id})
	return nil
}

// terminate ends the channel's consumers, returns what it has not
// acknowledged and forgets what it had not finished. conn.mu is held.
func (ch *channel) terminate() {
	if ch.seal() {
		e := ch.dismiss()
		e.giveUp()
	}
}

// seal has the channel send and take nothing more; false when it had ended
// before. Channels that end together are all sealed before any of them gives
// something back, or else what one had not acknowledged would go to the
// consumer of another, and be lost with it. conn.mu is held.
func (ch *channel) seal() bool {
	ch.unpark()
	ch.dropHeld()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return false
	}
	ch.sendConfirms() // those of this batch: nothing is sent later
	ch.closed = true
	if ch.watch.timer != nil {
		ch.watch.timer.Stop()
	}
	return true
}

// estate is what a sealed channel has to give up.
type estate struct {
	ch        *channel
	items     []unackedItem
	abandoned []*broker.Queue // auto-delete, and without a consumer now
}

// dismiss ends the consumers of a sealed channel. conn.mu is held.
func (ch *channel) dismiss() estate {
	ch.mu.Lock()
	consumers := ch.consumers
	ch.consumers = nil
	e := estate{ch: ch, items: ch.unacked.takeAll(nil)}
	ch.mu.Unlock()
	if ch.tx != nil {
		e.items = ch.tx.heldItems(e.items)
		ch.tx = nil
	}
	for _, c := range consumers {
		if c.q.RemoveConsumer(&c.Consumer) {
			e.abandoned = append(e.abandoned, c.q)
		}
		ch.c.out.forget(c)
		ch.c.allowance.forget(c)
		ch.observeConsumer(broker.ConsumerRemoved, c)
	}
	return e
}

// giveUp returns the messages and lets the queues go that nobody needs.
// conn.mu is held.
func (e *estate) giveUp() {
	ch := e.ch
	ch.giveBack(e.items, lost)
	for _, c := range ch.c.allowance.give(nil, consumerItems(e.items)) {
		c.resume()
	}
	for _, q := range e.abandoned {
		ch.c.vhost.ConsumerGone(q)
	}
	ch.content = nil
	ch.c.server.closeChannel(ch.c.client.User)
}

// endChannels ends all channels and deletes the exclusive queues. mu is held.
func (c *conn) endChannels() {
	estates := make([]estate, 0, len(c.channels))
	for id, ch := range c.channels {
		if !ch.seal() {
			delete(c.channels, id)
		}
	}
	for _, ch := range c.channels {
		estates = append(estates, ch.dismiss())
	}
	for i := range estates {
		estates[i].giveUp()
	}
	clear(c.channels)
	c.last, c.dirty = nil, nil
	if c.vhost != nil {
		c.vhost.OwnerGone(c)
	}
}

// open: the channel is open already. conn.mu is held.
func (ch *channel) open(*frames.ChannelOpen) error { return errSecondOpen() }

// flow does channel.flow; stopping deliveries is not implemented, as in
// RabbitMQ.
func (ch *channel) flow(m *frames.ChannelFlow) error {
	if !m.Active {
		return frames.Errorf(frames.NotImplemented, "active=false")
	}
	return ch.reply(&frames.ChannelFlowOk{Active: true})
}

// access does access.request, which old clients send.
func (ch *channel) access(*frames.AccessRequest) error {
	return ch.reply(&frames.AccessRequestOk{Ticket: 1})
}

// reply sends a method on this channel.
func (ch *channel) reply(m frames.Method) error {
	ch.c.out.send(&ch.position, ch.id, m)
	return nil
}

// replyUnless is reply for methods with a nowait bit.
func (ch *channel) replyUnless(noWait bool, m frames.Method) error {
	if noWait {
		return nil
	}
	return ch.reply(m)
}

// queueName resolves the empty name to the queue declared last.
func (ch *channel) queueName(name string) (string, error) {
	if name != "" {
		return name, nil
	}
	if ch.lastQueue == "" {
		return "", frames.Errorf(frames.NotFound, "no previously declared queue")
	}
	return ch.lastQueue, nil
}

// at puts a method's ids on an error that has none. A bare internal error is
// what RabbitMQ sends when its channel process crashes, and names no method.
func at(err error, id frames.MethodID) error {
	var fe *frames.Error
	if !errors.As(err, &fe) || fe.Code == frames.InternalError && fe.Text == "" {
		return err
	}
	return fe.At(id)
}
