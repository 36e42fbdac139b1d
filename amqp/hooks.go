package amqp

import (
	"slices"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// This file is where the connection's and channel's steps meet the broker's
// hooks. Each function is called only after one nil check said that somebody
// is there, or does that check itself before anything else.

// observing says whether events are wanted.
func (ch *channel) observing() bool { return ch.c.server.broker.Hooks.Observing() }

// emit completes an event of this channel and tells the observers.
func (ch *channel) emit(e broker.Event) {
	ch.c.describe(&e)
	e.Channel = ch.id
	ch.c.server.broker.Hooks.Emit(&e)
}

// ask completes an event of this channel and asks the interceptors.
func (ch *channel) ask(e broker.Event) broker.Verdict {
	ch.c.describe(&e)
	e.Channel = ch.id
	return ch.c.server.broker.Hooks.Intercept(&e)
}

// fateOf turns the verdicts that end a channel or connection into the error
// that does it.
func fateOf(v broker.Verdict) error {
	if v.Action == broker.Close {
		return frames.Reset("closed by an interceptor")
	}
	return frames.Errorf(v.Code, "%s", v.Text)
}

func (ch *channel) observeMethod(id frames.MethodID) {
	if ch.observing() {
		ch.emit(broker.Event{Step: broker.MethodHandled, Method: id})
	}
}

// interceptMethod asks before a method runs. done: its handler must not run
// now.
func (ch *channel) interceptMethod(id frames.MethodID, payload []byte) (done bool, err error) {
	v := ch.ask(broker.Event{Step: broker.MethodHandled, Method: id})
	switch v.Action {
	case broker.GoOn:
		return false, nil
	case broker.Drop:
		return true, ch.ignoreMethod(id, payload)
	case broker.Delay:
		kept := slices.Clone(payload)
		ch.parkFor(v.Wait, func() error {
			_, args, _ := frames.SplitMethod(kept)
			ch.observeMethod(id)
			return handlerOf(id)(ch, args)
		})
		return true, nil
	}
	return true, at(fateOf(v), id)
}

// ignoreMethod drops a method, with the content that follows it.
func (ch *channel) ignoreMethod(id frames.MethodID, payload []byte) error {
	if id != frames.BasicPublishID {
		return nil
	}
	_, args, err := frames.SplitMethod(payload)
	if err != nil {
		return err
	}
	if err := ch.beginPublish(args); err != nil {
		return err
	}
	ch.content.ignored = true
	return nil
}

// ignorePublish ends a publish that is dropped with its content. It keeps its
// number, so that later confirms stay in step with the client's count, and
// nothing is told about it. conn.mu is held.
func (ch *channel) ignorePublish() {
	if seq := ch.issue(); seq != 0 {
		ch.mu.Lock()
		ch.confirms.resolve(seq, told)
		ch.mu.Unlock()
	}
}

// interceptPublish asks before a checked publish is routed for good. done: it
// must not be enqueued now.
func (ch *channel) interceptPublish(body []byte, owned bool) (done bool, err error) {
	p := ch.content
	v := ch.ask(broker.Event{Step: broker.PublishAccepted, Exchange: string(p.Exchange), RoutingKey: string(p.RoutingKey)})
	switch v.Action {
	case broker.GoOn:
		return false, nil
	case broker.Drop:
		ch.confirmNow(ch.issue())
		return true, nil
	case broker.Delay:
		if !owned {
			body = slices.Clone(body)
		}
		ch.parkFor(v.Wait, func() error {
			// The topology may have changed meanwhile.
			queues, err := ch.c.vhost.Route(&p.router, &ch.c.client, &p.Publication)
			if err != nil {
				return at(err, frames.BasicPublishID)
			}
			return ch.accepted(queues, body, true)
		})
		return true, nil
	}
	return true, at(fateOf(v), frames.BasicPublishID)
}

// interceptConfirm asks before a publish counts as resolved; refusing one
// turns an ack into a nack. now: note the state that is returned. channel.mu
// is held.
func (ch *channel) interceptConfirm(seq uint64, s confirmState) (_ confirmState, now bool) {
	v := ch.ask(broker.Event{Step: broker.ConfirmSent, DeliveryTag: seq, Nack: s == refused})
	switch v.Action {
	case broker.Refuse:
		return refused, true
	case broker.Drop:
		return told, true
	case broker.Close:
		ch.c.reset()
		return told, true
	case broker.Delay:
		ch.c.server.after(v.Wait, func() {
			ch.mu.Lock()
			ch.confirms.resolve(seq, s)
			ch.mu.Unlock()
			ch.Flush()
		})
		return s, false
	}
	return s, true
}

// interceptDelivery asks before a delivery. sent false: it counts as
// delivered, but no frame goes out. wait: not now. channel.mu and the queue's
// lock are held.
func (ch *channel) interceptDelivery(c *consumer, e *queue.Entry) (sent, wait bool) {
	if c.passed {
		c.passed = false
		return true, false
	}
	v := ch.ask(deliveryEvent(c.q, c.Tag, ch.nextTag, e))
	switch v.Action {
	case broker.Drop:
		return false, false
	case broker.Delay:
		ch.c.server.after(v.Wait, func() {
			ch.mu.Lock()
			c.passed = true
			ch.mu.Unlock()
			c.resume()
		})
		return false, true
	case broker.Refuse, broker.Close:
		go ch.interrupt(fateOf(v))
		return false, true
	}
	return true, false
}

// interceptGet asks before a get-ok. A refusal ends the channel, which returns
// the message to its queue unless it was got with no-ack. done: nothing is to
// be sent now. conn.mu is held.
func (ch *channel) interceptGet(q *broker.Queue, tag uint64, e *queue.Entry, send func() error) (done bool, err error) {
	v := ch.ask(deliveryEvent(q, "", tag, e))
	switch v.Action {
	case broker.GoOn:
		return false, nil
	case broker.Drop:
		return true, nil
	case broker.Delay:
		ch.parkFor(v.Wait, send)
		return true, nil
	}
	return true, at(fateOf(v), frames.BasicGetID)
}

// interrupt fails the channel from outside its frames.
func (ch *channel) interrupt(err error) {
	ch.c.mu.Lock()
	defer ch.c.mu.Unlock()
	if ch.c.channels[ch.id] == ch && !ch.closing {
		ch.c.fail(ch.id, err)
	}
}

func (ch *channel) observePublish(step broker.Step, m *queue.Message, queues []*queue.Queue, seq uint64) {
	if !ch.observing() {
		return
	}
	e := broker.Event{Step: step, Message: m, Queues: broker.CountVisible(queues), DeliveryTag: seq}
	if step == broker.PublishRouted && ch.c.vhost.Tracing() {
		e.Routed = broker.VisibleQueues(queues)
	}
	if m != nil {
		e.Exchange, e.RoutingKey = m.Exchange, m.RoutingKey
	} else {
		e.Exchange, e.RoutingKey = string(ch.content.Exchange), string(ch.content.RoutingKey)
	}
	if step == broker.PublishReturned {
		e.Code, e.Text = frames.NoRoute, frames.CodeName(frames.NoRoute)
	} else {
		accepted := e
		accepted.Step, accepted.Queues, accepted.Routed = broker.PublishAccepted, 0, nil
		ch.emit(accepted)
	}
	ch.emit(e)
}

func (ch *channel) observeConfirm(seq uint64, nack bool) {
	if ch.observing() {
		ch.emit(broker.Event{Step: broker.ConfirmSent, DeliveryTag: seq, Nack: nack})
	}
}

func (ch *channel) observeDelivery(c *consumer, e *queue.Entry) {
	if ch.observing() {
		ch.emit(deliveryEvent(c.q, c.Tag, ch.nextTag, e))
	}
}

func (ch *channel) observeGet(q *broker.Queue, tag uint64, e *queue.Entry) {
	if ch.observing() {
		ch.emit(deliveryEvent(q, "", tag, e))
	}
}

func deliveryEvent(q *broker.Queue, consumer string, tag uint64, e *queue.Entry) broker.Event {
	return broker.Event{
		Step: broker.DeliverySent, Queue: q.Name, Consumer: consumer, DeliveryTag: tag, Redelivered: e.Redelivered,
		Exchange: e.Message.Exchange, RoutingKey: e.Message.RoutingKey, Message: e.Message,
	}
}

func (ch *channel) observeSettled(items []unackedItem, o outcome) {
	if !ch.observing() {
		return
	}
	step := [...]broker.Step{acked: broker.DeliverySettled, rejected: broker.DeliveryRejected, requeued: broker.DeliveryRequeued, failed: broker.DeliveryRequeued, lost: broker.DeliveryRequeued}[o]
	for i := range items {
		it := &items[i]
		tag := ""
		if it.consumer != nil {
			tag = it.consumer.Tag
		}
		e := deliveryEvent(it.q, tag, it.tag, &it.entry)
		e.Step = step
		ch.emit(e)
	}
}

func (ch *channel) observeConsumer(step broker.Step, c *consumer) {
	if ch.observing() {
		ch.emit(broker.Event{Step: step, Queue: c.q.Name, Consumer: c.Tag})
	}
}
