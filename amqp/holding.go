package amqp

import (
	"slices"

	"github.com/warrenmq/warren/queue"
)

// Publishes into a queue that is full and has x-overflow block-publishers
// wait here, copy by copy: the other queues of the message get theirs at once,
// and the confirm comes when the last has. The connection is read on, because
// it may be the one whose acknowledgements make room; only what waits counts
// against parkedBound, above which it is not read any more.
//
//	publish ──> Full ──> holding ──> connection.blocked ──> Room ──> ... ──> connection.unblocked
//
// A channel or connection that the client closes stays until its publishes are
// in their queues; its consumers end at once, so that others get what they
// had. One that the server closes, or that is lost, drops them: none of them
// was confirmed.

// holding is what a connection keeps for one full queue. Guarded by conn.mu.
type holding struct {
	c     *conn
	q     *queue.Queue
	items []held
}

// held is one copy of a message.
type held struct {
	ch      *channel
	publish *pending
	bytes   int
}

// pending is a publish that waits in one queue or more. Guarded by conn.mu.
type pending struct {
	m       *queue.Message
	seq     uint64 // of its confirm; 0: none
	copies  int    // that wait
	refused bool   // by one of its queues
	stored  bool   // the message's record is held: its confirm is the store's
}

// heldMessage is what a held copy counts besides body and properties.
const heldMessage = 256

// hold keeps a copy of a publish for a queue that said Full. conn.mu is held.
func (ch *channel) hold(p *pending, q *queue.Queue) {
	c := ch.c
	h := c.holdings[q]
	if h == nil {
		h = &holding{c: c, q: q}
		if c.holdings == nil {
			c.holdings = map[*queue.Queue]*holding{}
		}
		c.holdings[q] = h
		c.block(blockCause{queue: q})
	}
	one := held{ch: ch, publish: p, bytes: heldMessage + len(p.m.Content) + len(p.m.Properties)}
	h.items = append(h.items, one)
	p.copies++
	ch.holds++
	c.parkedBytes += one.bytes
	if len(h.items) == 1 {
		q.AwaitRoom(h, len(p.m.Content))
	}
}

// roomBound is how many copies one call of Room publishes before others have
// their turn.
const roomBound = 256

// Room implements queue.RoomWaiter.
func (h *holding) Room(q *queue.Queue) {
	c := h.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holdings[q] != h {
		return // the connection has ended
	}
	for n := 0; len(h.items) > 0; n++ {
		first := h.items[0]
		var outcome queue.Outcome
		if n < roomBound {
			outcome = q.PublishWaiting(first.publish.m)
		}
		if n == roomBound || outcome == queue.Full {
			q.AwaitRoom(h, len(first.publish.m.Content))
			break
		}
		h.items[0] = held{}
		h.items = h.items[1:]
		first.publish.refused = first.publish.refused || outcome == queue.Refused
		c.placed(&first)
	}
	if len(h.items) == 0 {
		c.release(h)
	}
	c.flushConfirms()
	c.leave()
}

// placed ends the wait of a copy, and the publish's with the last. mu is held.
func (c *conn) placed(h *held) {
	c.unheld(h)
	p := h.publish
	if p.copies--; p.copies > 0 {
		return
	}
	h.ch.settlePublish(p)
}

// unheld takes a copy out of the accounts. mu is held.
func (c *conn) unheld(h *held) {
	h.ch.holds--
	c.parkedBytes -= h.bytes
	if c.parkedBytes <= parkedBound {
		c.resumed.Broadcast()
	}
	if h.ch.holds == 0 && h.ch.leaving != nil {
		h.ch.leaving.stored(nil)
		h.ch.leaving = nil
	}
}

// settlePublish tells the outcome of a publish whose copies all have a place.
// conn.mu is held.
func (ch *channel) settlePublish(p *pending) {
	switch {
	case p.stored:
		if p.refused {
			ch.refuseNow(p.seq) // the first outcome counts: a copy that is stored changes nothing
		}
		p.m.Journaled().Release(ch.c.server.broker.Store())
	case p.refused:
		ch.refuseNow(p.seq)
	default:
		ch.confirmNow(p.seq)
	}
}

// release forgets an empty holding. mu is held.
func (c *conn) release(h *holding) {
	delete(c.holdings, h.q)
	c.unblock(blockCause{queue: h.q})
}

// dropHeld forgets what a channel that has ended still had waiting. conn.mu is
// held.
func (ch *channel) dropHeld() {
	c := ch.c
	ch.leaving = nil
	if ch.holds == 0 {
		return
	}
	for _, h := range c.holdings {
		h.items = slices.DeleteFunc(h.items, func(i held) bool {
			if i.ch != ch {
				return false
			}
			c.unheld(&i)
			if i.publish.copies--; i.publish.copies == 0 && i.publish.stored {
				i.publish.m.Journaled().Release(c.server.broker.Store())
			}
			return true
		})
		if len(h.items) == 0 {
			h.q.ForgetRoom(h)
			c.release(h)
		}
	}
}

// retire ends what a client that is about to close a channel serves no more:
// its consumers go, and what they had not acknowledged. conn.mu is held.
func (ch *channel) retire() {
	ch.mu.Lock()
	tags := make([]string, 0, len(ch.consumers))
	for tag := range ch.consumers {
		tags = append(tags, tag)
	}
	ch.mu.Unlock()
	for _, tag := range tags {
		ch.removeConsumer(tag)
	}
	ch.mu.Lock()
	items := ch.unacked.takeAll(nil)
	ch.release(items)
	ch.mu.Unlock()
	ch.giveBack(items, lost)
	ch.resumeAll()
}

// closeHeld does channel.close of a channel whose publishes wait. conn.mu is
// held.
func (ch *channel) closeHeld(closed func() error) error {
	ch.retire()
	if ch.holds == 0 {
		return closed()
	}
	ch.parked = &parking{ch: ch, resume: closed}
	ch.leaving = ch.parked
	return nil
}

// closeHeld does connection.close when publishes wait: leave ends it. mu is
// held.
func (c *conn) closeHeld() {
	c.leaves = true
	for _, ch := range c.channels {
		ch.retire()
	}
	c.leave()
}

// leave ends a connection that the client has closed once nothing of it waits
// any more. mu is held.
func (c *conn) leave() {
	if c.leaves && c.state == running && len(c.holdings) == 0 {
		c.closedByClient()
	}
}
