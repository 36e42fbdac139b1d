package amqp

import (
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// consumer is a channel's end of a queue's consumer.
type consumer struct {
	queue.Consumer
	// Immutable.
	ch       *channel
	q        *broker.Queue
	prefetch int // most unacknowledged deliveries; 0 is no limit
	limit    limit
	batching
	ranking

	// Guarded by channel.mu.
	announced bool // consume-ok was sent
	gone      bool // the queue has gone
	unacked   int
	late      int  // deliveries that timed out and are not settled; nothing is delivered meanwhile
	starved   bool // refused a delivery for lack of prefetch credit
	passed    bool // an interceptor's delay of the next delivery is over

	// Guarded by the outbox's mutex.
	starvedAt int // place in outbox.starved, from 1; 0 is none

	// Guarded by the connection's allowance.
	waits bool // for the connection's limit
}

// credit says whether prefetch allows another delivery. channel.mu is held.
func (c *consumer) credit() bool {
	if c.NoAck {
		return true
	}
	ch := c.ch
	return c.ownCredit() && (ch.globalPrefetch == 0 || ch.consumerUnacked < ch.globalPrefetch) && !ch.givesWay(c)
}

// Deliver implements queue.Sink: it is called with the queue's lock held.
func (c *consumer) Deliver(_ *queue.Consumer, e *queue.Entry) bool {
	ch := c.ch
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return false
	}
	if !c.credit() {
		c.refused()
		return false
	}
	sent := true
	if hooks := &ch.c.server.broker.Hooks; hooks.Intercepting() {
		var wait bool
		if sent, wait = ch.interceptDelivery(c, e); wait {
			return false
		}
	}
	if !c.NoAck && !ch.c.allowance.take(c) {
		c.eager = c.ranked
		return false
	}
	if sent && !ch.c.out.deliver(c, ch.nextTag, c.q.Counted(ch.c.server.broker.Profile, e, false)) {
		c.eager = c.ranked
		ch.returnAllowance(c)
		return false
	}
	ch.observeDelivery(c, e)
	if !c.NoAck {
		ch.unacked.push(unackedItem{tag: ch.nextTag, q: c.q, consumer: c, entry: *e, limit: c.limit})
		ch.watchDelivery(c.limit)
		c.unacked++
		c.took(c.unacked, c.prefetch)
		ch.consumerUnacked++
	}
	ch.nextTag++
	return true
}

// Cancelled implements queue.Sink: the queue has gone. A client that can take
// it is told.
func (c *consumer) Cancelled(*queue.Consumer) {
	ch := c.ch
	ch.mu.Lock()
	defer ch.mu.Unlock()
	c.gone = true
	if c.announced {
		ch.queueGone(c)
	}
}

// announce notes that consume-ok was sent. A queue that went meanwhile is told
// only now, because clients do not know the tag before.
func (ch *channel) announce(c *consumer) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	c.announced, c.eager = true, c.ranked
	if c.gone {
		ch.queueGone(c)
	}
}

// queueGone forgets a consumer and sends basic.cancel, under the lock so that
// nothing is sent on a channel that has ended. channel.mu is held.
func (ch *channel) queueGone(c *consumer) {
	if ch.closed || ch.consumers[c.Tag] != c {
		return
	}
	delete(ch.consumers, c.Tag)
	ch.left(c)
	ch.c.out.forget(c)
	if ch.c.can.cancelNotify {
		ch.c.out.send(&ch.position, ch.id, &frames.BasicCancel{ConsumerTag: c.Tag, NoWait: true})
	}
	ch.observeConsumer(broker.ConsumerRemoved, c)
}

// resume has the queue serve the consumer again.
func (c *consumer) resume() { c.q.Resume(&c.Consumer) }

// release gives the deliveries' prefetch credit back and collects in
// ch.resumable the consumers that can go on because of it. conn.mu and
// channel.mu are held.
func (ch *channel) release(items []unackedItem) {
	if ch.c.allowance.most > 0 {
		ch.resumable = ch.c.allowance.give(ch.resumable, consumerItems(items))
	}
	for i := range items {
		c := items[i].consumer
		if c == nil {
			continue
		}
		c.unacked--
		ch.consumerUnacked--
		if items[i].late {
			c.late--
			c.starved = true
		}
		if c.starved && c.credit() {
			c.starved = false
			ch.resumable = append(ch.resumable, c)
		}
	}
	if ch.globalPrefetch > 0 {
		ch.collectStarved()
	}
	if ch.ranked > 0 {
		byRank(ch.resumable)
	}
}

// collectStarved looks at all consumers of the channel: a limit they share
// has room again. channel.mu is held.
func (ch *channel) collectStarved() {
	for _, c := range ch.consumers {
		if c.starved && c.credit() {
			c.starved = false
			ch.resumable = append(ch.resumable, c)
		}
	}
}

// resumeAll serves the consumers that release collected. conn.mu is held.
func (ch *channel) resumeAll() {
	for i, c := range ch.resumable {
		ch.resumable[i] = nil
		c.resume()
	}
	ch.resumable = ch.resumable[:0]
}
