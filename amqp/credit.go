package amqp

import (
	"slices"
	"sync"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/queue"
)

// Credit beyond prefetch: a consumer's flow threshold, a connection's limit on
// unacknowledged deliveries, and the rank of a channel's consumers among
// those that share credit.

// batching is a consumer's x-flow-threshold: it is stopped when its prefetch
// limit is reached, until its unacknowledged deliveries have fallen to
// resumeAt. Guarded by channel.mu.
type batching struct {
	resumeAt int // immutable; the prefetch limit itself has no effect
	stopped  bool
}

func newBatching(prefetch, percent int) batching {
	return batching{resumeAt: prefetch * percent / 100}
}

// allows says whether the threshold lets a consumer with so many
// unacknowledged deliveries have another.
func (b *batching) allows(unacked int) bool {
	if b.stopped && unacked <= b.resumeAt {
		b.stopped = false
	}
	return !b.stopped
}

// took notes a delivery.
func (b *batching) took(unacked, prefetch int) {
	if unacked == prefetch && b.resumeAt < prefetch {
		b.stopped = true
	}
}

// allowance is a connection's limit on unacknowledged deliveries to consumers
// (Options.MaxUnacked). Its mutex comes after a channel's.
type allowance struct {
	most int // immutable; 0 is no limit

	mu      sync.Mutex
	used    int
	waiting []*consumer // that were refused; each knows it (consumer.waits)
}

// take asks for one delivery; false: c is remembered.
func (a *allowance) take(c *consumer) bool {
	if a.most == 0 {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used < a.most {
		a.used++
		return true
	}
	if !c.waits {
		c.waits = true
		a.waiting = append(a.waiting, c)
	}
	return false
}

// give returns n deliveries, and appends to dst the consumers that waited for
// them.
func (a *allowance) give(dst []*consumer, n int) []*consumer {
	if a.most == 0 || n == 0 {
		return dst
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used -= n; a.used < a.most {
		for _, c := range a.waiting {
			c.waits = false
		}
		dst = append(dst, a.waiting...)
		clear(a.waiting)
		a.waiting = a.waiting[:0]
	}
	return dst
}

// forget takes a consumer that has ended off the list.
func (a *allowance) forget(c *consumer) {
	if a.most == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.waits {
		c.waits = false
		a.waiting = slices.DeleteFunc(a.waiting, func(o *consumer) bool { return o == c })
	}
}

// ranking is a consumer's x-channel-priority. While a consumer of higher rank
// may still be given something out of the credit that they share, those of
// lower rank get nothing.
type ranking struct {
	// Immutable.
	ranked bool
	rank   int64

	// Guarded by channel.mu.
	eager bool // has been refused, or is about to be served: something may wait for it
}

// outranks compares by rank; a consumer without one is below all others.
func (r *ranking) outranks(o *ranking) bool {
	return r.ranked && (!o.ranked || r.rank > o.rank)
}

// sharesCredit says whether the channel's consumers have credit in common.
// channel.mu is held.
func (ch *channel) sharesCredit() bool {
	return ch.globalPrefetch > 0 || ch.c.allowance.most > 0
}

// givesWay says whether c has to leave the shared credit to a consumer of
// higher rank. channel.mu is held.
func (ch *channel) givesWay(c *consumer) bool {
	if ch.ranked == 0 || !ch.sharesCredit() {
		return false
	}
	for _, o := range ch.consumers {
		if o.eager && !o.gone && o.outranks(&c.ranking) && o.ownCredit() {
			return true
		}
	}
	return false
}

// ownCredit is credit without what is shared. channel.mu is held.
func (c *consumer) ownCredit() bool {
	return c.NoAck || c.late == 0 && (c.prefetch == 0 || c.unacked < c.prefetch) && c.batching.allows(c.unacked)
}

// refused notes that a consumer has to be served again once it has credit. One
// that is at a limit of its own leaves the shared credit to those below it.
// Called with the queue's lock held; channel.mu is held.
func (c *consumer) refused() {
	c.starved, c.eager = true, c.ranked
	if c.ranked && !c.ownCredit() {
		c.ch.wakeStarved()
	}
}

// left forgets the credit of a consumer that is the channel's no more: those
// it kept from theirs go on. channel.mu is held.
func (ch *channel) left(c *consumer) {
	ch.c.allowance.forget(c)
	if c.ranked {
		ch.ranked--
		ch.wakeStarved()
	}
}

// returnAllowance gives back what a delivery that could not be made had taken.
// Called with a queue's lock held.
func (ch *channel) returnAllowance(c *consumer) {
	if c.NoAck {
		return
	}
	if waiting := ch.c.allowance.give(nil, 1); len(waiting) > 0 {
		ch.c.server.broker.Pump().Schedule(&refill{waiting})
	}
}

// Idle implements queue.Idler: nothing waits for a ranked consumer any more,
// so those below it may go on. Called with the queue's lock held.
func (c *consumer) Idle(*queue.Consumer) {
	ch := c.ch
	ch.mu.Lock()
	defer ch.mu.Unlock()
	c.eager = false
	ch.wakeStarved()
}

// wakeStarved has the pump serve the consumers that were refused and may go on
// now: the caller holds a queue's lock. channel.mu is held.
func (ch *channel) wakeStarved() {
	if ch.closed {
		return
	}
	var able []*consumer
	for _, c := range ch.consumers {
		if c.starved && c.credit() {
			c.starved, c.eager = false, c.ranked
			able = append(able, c)
		}
	}
	if len(able) > 0 {
		byRank(able)
		ch.c.server.broker.Pump().Schedule(&refill{able})
	}
}

// byRank sorts the highest first; equals stay as they are.
func byRank(all []*consumer) {
	slices.SortStableFunc(all, func(a, b *consumer) int {
		switch {
		case a.outranks(&b.ranking):
			return -1
		case b.outranks(&a.ranking):
			return 1
		}
		return 0
	})
}

// consumerItems counts the deliveries among items that went to consumers.
func consumerItems(items []unackedItem) (n int) {
	for i := range items {
		if items[i].consumer != nil {
			n++
		}
	}
	return n
}

// newCredit gives a consumer what its arguments say of its credit.
func (c *consumer) newCredit() {
	credit := broker.CreditOf(c.Arguments)
	c.batching = newBatching(c.prefetch, credit.FlowThreshold)
	c.ranking = ranking{ranked: credit.Ranked && !c.NoAck, rank: credit.Rank}
	if c.ranked {
		c.Idler = c
	}
}
