package amqp

import (
	"errors"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// qos does basic.qos. Not global: the limit of each consumer to come, and the
// end of a channel-wide limit. Global: one limit for all consumers of the
// channel, at once; those with a limit of their own must have room in both.
func (ch *channel) qos(m *frames.BasicQos) error {
	if m.PrefetchSize != 0 {
		return frames.Errorf(frames.NotImplemented, "prefetch_size!=0 (%d)", m.PrefetchSize)
	}
	ch.mu.Lock()
	if m.Global {
		ch.globalPrefetch = int(m.PrefetchCount)
	} else {
		ch.globalPrefetch = 0
		ch.prefetch = int(m.PrefetchCount)
	}
	ch.collectStarved()
	ch.mu.Unlock()
	ch.resumeAll()
	return ch.reply(&frames.BasicQosOk{})
}

// consume does basic.consume.
func (ch *channel) consume(m *frames.BasicConsume) error {
	tag := m.ConsumerTag
	if tag == "" {
		tag = broker.ConsumerTag()
	}
	if m.Queue == broker.ReplyTo {
		if err := ch.checkReplyConsumer(m); err != nil {
			return err
		}
	}
	if err := ch.checkTag(tag); err != nil {
		return err
	}
	name, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	v := ch.c.vhost
	q, err := ch.consumeQueue(name)
	if err != nil {
		return err
	}
	priority, err := v.CheckConsume(q, m.Arguments)
	if err != nil {
		return err
	}
	if err := v.CheckQuorumConsume(q, ch.globalPrefetch); err != nil {
		return err
	}
	reading, err := v.StreamReading(q, m, ch.prefetch, ch.globalPrefetch)
	if err != nil {
		return err
	}
	if name == broker.ReplyTo {
		ch.replyName = q.Name
	}
	c := &consumer{ch: ch, q: q, prefetch: ch.prefetch, limit: ch.c.server.timeout(q, broker.ConsumerTimeout(m.Arguments)), Consumer: queue.Consumer{
		Tag: tag, NoAck: m.NoAck, Exclusive: m.Exclusive && q.EnforcesExclusive(), Priority: priority, Arguments: m.Arguments, Reading: reading,
		Selector: broker.SelectorOf(q, m.Arguments),
	}}
	c.Sink = c
	c.newCredit()
	if err := ch.addConsumer(c); err != nil {
		return v.ConsumeRefused(name, err)
	}
	ch.observeConsumer(broker.ConsumerAdded, c)
	if err := ch.replyUnless(m.NoWait, &frames.BasicConsumeOk{ConsumerTag: tag}); err != nil {
		return err
	}
	ch.announce(c)
	c.resume()
	return nil
}

// consumeQueue finds the queue of a basic.consume, or makes the channel's
// reply queue.
func (ch *channel) consumeQueue(name string) (*broker.Queue, error) {
	v := ch.c.vhost
	if name != broker.ReplyTo {
		return v.ConsumeQueue(&ch.c.client, name, ch.replyName)
	}
	return v.OpenReply(), nil
}

// checkReplyConsumer: a channel consumes direct replies once, without
// acknowledgement.
func (ch *channel) checkReplyConsumer(m *frames.BasicConsume) error {
	switch {
	case !m.NoAck:
		return frames.Errorf(frames.PreconditionFailed, "reply consumer cannot acknowledge")
	case ch.replyName != "":
		return frames.Errorf(frames.PreconditionFailed, "reply consumer already set")
	}
	return nil
}

// addConsumer makes a consumer known to the channel and its queue.
func (ch *channel) addConsumer(c *consumer) error {
	ch.mu.Lock()
	if ch.consumers == nil {
		ch.consumers = map[string]*consumer{}
	}
	ch.consumers[c.Tag] = c
	if c.ranked {
		ch.ranked++
	}
	ch.mu.Unlock()
	err := c.q.AddConsumer(&c.Consumer)
	if err != nil {
		ch.mu.Lock()
		delete(ch.consumers, c.Tag)
		ch.left(c)
		ch.mu.Unlock()
	}
	return err
}

// checkTag is the first check of basic.consume, as in RabbitMQ.
func (ch *channel) checkTag(tag string) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if _, used := ch.consumers[tag]; used {
		return frames.Errorf(frames.NotAllowed, "attempt to reuse consumer tag '%s'", tag)
	}
	return ch.c.server.checkConsumerLimit(len(ch.consumers))
}

// cancel does basic.cancel; deliveries stay unacknowledged.
func (ch *channel) cancel(m *frames.BasicCancel) error {
	ch.removeConsumer(m.ConsumerTag)
	return ch.replyUnless(m.NoWait, &frames.BasicCancelOk{ConsumerTag: m.ConsumerTag})
}

// cancelOk: 4.3 takes it as a cancel without an answer, 3.10.8 refuses it.
func (ch *channel) cancelOk(m *frames.BasicCancelOk) error {
	if !compat.CancelOkCancels.In(ch.c.server.broker.Profile) {
		return frames.Errorf(frames.CommandInvalid, "unimplemented method")
	}
	if !ch.removeConsumer(m.ConsumerTag) {
		return frames.Errorf(frames.InternalError, "")
	}
	return nil
}

func (ch *channel) removeConsumer(tag string) (known bool) {
	ch.mu.Lock()
	c := ch.consumers[tag]
	if delete(ch.consumers, tag); c != nil {
		ch.left(c)
	}
	ch.mu.Unlock()
	if c == nil {
		return false
	}
	if c.q.RemoveConsumer(&c.Consumer) {
		ch.c.vhost.ConsumerGone(c.q)
	}
	if c.q.Name == ch.replyName {
		ch.replyName = ""
	}
	ch.c.out.forget(c)
	ch.observeConsumer(broker.ConsumerRemoved, c)
	return true
}

// get does basic.get.
func (ch *channel) get(m *frames.BasicGet) error {
	name, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	q, err := ch.c.vhost.GetQueue(&ch.c.client, name)
	if err != nil {
		return err
	}
	e, left, ok, err := q.Get(m.NoAck)
	if errors.Is(err, queue.ErrLoading) {
		return ch.getWhenLoaded(q, m)
	}
	if err != nil {
		return ch.c.vhost.ConsumeRefused(name, err)
	}
	if !ok {
		return ch.reply(&frames.BasicGetEmpty{})
	}
	var limit limit
	if !m.NoAck {
		limit = ch.c.server.timeout(q, -1)
	}
	ch.mu.Lock()
	tag := ch.nextTag
	if !m.NoAck {
		ch.unacked.push(unackedItem{tag: tag, q: q, entry: e, limit: limit})
		ch.watchDelivery(limit)
	}
	ch.nextTag++
	ch.mu.Unlock()
	if hooks := &ch.c.server.broker.Hooks; hooks.Intercepting() {
		kept := e
		send := func() error { ch.sendGetOk(q, tag, &kept, left); return nil }
		if done, err := ch.interceptGet(q, tag, &kept, send); done {
			return err
		}
	}
	ch.sendGetOk(q, tag, &e, left)
	return nil
}

func (ch *channel) sendGetOk(q *broker.Queue, tag uint64, e *queue.Entry, left int) {
	m := q.Counted(ch.c.server.broker.Profile, e, true).Message
	var scratch [600]byte
	method := frames.AppendGetOk(scratch[:0], ch.id, tag, e.Redelivered, m.Exchange, m.RoutingKey, uint32(left))
	ch.c.out.sendContent(&ch.position, ch.id, method, m)
	ch.observeGet(q, tag, e)
}

// outcome is what becomes of deliveries.
type outcome uint8

const (
	acked outcome = iota
	rejected
	requeued
	failed // requeued by basic.reject, which quorum queues count
	lost   // requeued because the channel ended
)

// returns says why the queue gets messages back.
var returns = [...]queue.Return{requeued: queue.HandedBack, failed: queue.Failed, lost: queue.Lost}

// ack does basic.ack. Hot: decoded on the stack.
func (ch *channel) ack(args []byte) error {
	var m frames.BasicAck
	if err := m.Decode(args); err != nil {
		return err
	}
	return at(ch.settle(m.DeliveryTag, m.Multiple, acked), frames.BasicAckID)
}

// reject does basic.reject.
func (ch *channel) reject(args []byte) error {
	var m frames.BasicReject
	if err := m.Decode(args); err != nil {
		return err
	}
	o := rejection(m.Requeue)
	if m.Requeue {
		o = failed
	}
	return at(ch.settle(m.DeliveryTag, false, o), frames.BasicRejectID)
}

// nack does basic.nack.
func (ch *channel) nack(args []byte) error {
	var m frames.BasicNack
	if err := m.Decode(args); err != nil {
		return err
	}
	return at(ch.settle(m.DeliveryTag, m.Multiple, rejection(m.Requeue)), frames.BasicNackID)
}

func rejection(requeue bool) outcome {
	if requeue {
		return requeued
	}
	return rejected
}

// settle ends outstanding deliveries; in a transaction, at its commit. conn.mu
// is held.
func (ch *channel) settle(tag uint64, multiple bool, o outcome) error {
	ch.mu.Lock()
	items, ok := ch.unacked.take(ch.taken[:0], tag, multiple)
	if !ok {
		ch.mu.Unlock()
		return frames.Errorf(frames.PreconditionFailed, "unknown delivery tag %d", tag)
	}
	if ch.tx != nil {
		ch.mu.Unlock()
		ch.tx.hold(items, o)
		return nil
	}
	ch.taken = items
	if o != acked {
		if err := ch.refuseStreams(items); err != nil {
			ch.unacked.restore(items)
			ch.mu.Unlock()
			return err
		}
	}
	ch.release(items)
	if o < requeued {
		ch.barrier.settled(items)
	}
	ch.mu.Unlock()
	ch.observeSettled(items, o)
	ch.byQueue(items, func(q *broker.Queue, entries []queue.Entry) {
		switch o {
		case requeued, failed:
			q.Return(entries, returns[o])
		case rejected:
			q.Reject(entries)
		default:
			q.Settle(entries)
		}
	})
	ch.resumeAll()
	ch.dropTaken()
	return nil
}

// dropTaken lets go of what the scratch slices refer to.
func (ch *channel) dropTaken() {
	clear(ch.taken)
	clear(ch.entries)
	if cap(ch.taken) > 4096 {
		ch.taken, ch.entries = nil, nil
	}
}

// byQueue calls do for each run of items of one queue. conn.mu is held.
func (ch *channel) byQueue(items []unackedItem, do func(*broker.Queue, []queue.Entry)) {
	for len(items) > 0 {
		q := items[0].q
		ch.entries = ch.entries[:0]
		n := 0
		for n < len(items) && items[n].q == q {
			if !items[n].late { // one that timed out is back in its queue already
				ch.entries = append(ch.entries, items[n].entry)
			}
			n++
		}
		if len(ch.entries) > 0 {
			do(q, ch.entries)
		}
		items = items[n:]
	}
}

// giveBack returns deliveries to their queues. conn.mu is held.
func (ch *channel) giveBack(items []unackedItem, o outcome) {
	ch.observeSettled(items, o)
	ch.byQueue(items, func(q *broker.Queue, entries []queue.Entry) { q.Return(entries, returns[o]) })
}

// recover does basic.recover: the answer first, then the redeliveries.
func (ch *channel) recover(m *frames.BasicRecover) error {
	if !m.Requeue {
		return frames.Errorf(frames.NotImplemented, "requeue=false")
	}
	ch.mu.Lock()
	items := ch.unacked.takeAll(nil)
	ch.release(items)
	ch.mu.Unlock()
	if err := ch.recoverRefused(items); err != nil {
		return err
	}
	if err := ch.reply(&frames.BasicRecoverOk{}); err != nil {
		return err
	}
	ch.giveBack(items, requeued)
	ch.resumeAll()
	return nil
}

// recoverAsync does basic.recover-async, which has no answer.
func (ch *channel) recoverAsync(m *frames.BasicRecoverAsync) error {
	if !m.Requeue {
		return frames.Errorf(frames.NotImplemented, "requeue=false")
	}
	ch.mu.Lock()
	items := ch.unacked.takeAll(nil)
	ch.release(items)
	ch.mu.Unlock()
	if err := ch.recoverRefused(items); err != nil {
		return err
	}
	ch.giveBack(items, requeued)
	ch.resumeAll()
	return nil
}
