package amqp

import (
	"math"
	"slices"
	"time"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// The consumer timeout: how long a client may take to acknowledge a delivery.
//
// RabbitMQ 3.10.8 looks at every channel every 60 s, whatever the type of the
// queue, and closes a channel that has been too long over one. 4.3 asks it of
// quorum queues only: their late messages go back to the queue in time, and
// the consumer is told with basic.cancel but stays, and gets nothing until it
// has settled all that was late.
//
// No time is read and no timer set for a delivery. A channel with something to
// watch notes now and then which delivery tag is next and what time it is;
// everything below that tag was delivered by then. So a message is found late
// at its time or a little after it (a sixteenth), and never before.

// watch is what a channel knows of the times of its deliveries. Guarded by
// channel.mu.
type watch struct {
	timer  *queue.Timer // nil until the first delivery that is watched
	armed  bool
	least  int64  // shortest limit seen since it was armed, milliseconds
	slow   bool   // the channel is looked at with the slow tick only
	judged int64  // when that was last
	marks  []mark // by time
	due    int64  // when the first that is not late yet will be, as far as the last look knew; 0: unknown
	busy   bool   // somebody is about to deal with what is late
}

// mark says that all deliveries with tags below tag were made by at.
type mark struct {
	tag uint64
	at  int64 // milliseconds of message time
}

const (
	// slowTick is how often RabbitMQ 3.10.8 looks, milliseconds.
	slowTick = 60_000
	// watchParts is into how many parts a limit is divided by marks, and
	// watchStep the shortest part, milliseconds.
	watchParts = 16
	watchStep  = 2
	// watchMarks is the most marks kept; beyond it, every other one is
	// forgotten, which finds some messages later.
	watchMarks = 8 * watchParts
)

// limit is how long a delivery may stay unacknowledged: 0 is for ever, else
// one more than the milliseconds, so that the zero value of an item is no
// limit.
type limit uint32

func limitOf(ms int64) limit {
	if ms < 0 {
		return 0
	}
	return limit(min(ms, math.MaxUint32-1) + 1)
}

func (l limit) millis() int64 { return int64(l) - 1 }

// timeout says how long deliveries of a queue may stay unacknowledged: under
// 3.10.8 as the node says, under 4.3 in quorum queues as the consumer, the
// queue and the node say, in this order. own is the consumer's argument,
// negative without one.
func (s *Server) timeout(q *broker.Queue, own int64) limit {
	node := s.options.ConsumerTimeout.Milliseconds()
	if !compat.TimeoutClosesChannel.In(s.broker.Profile) {
		if q.Quorum == nil {
			return 0
		}
		if own < 0 {
			own = q.ConsumerTimeout()
		}
		if own >= 0 {
			return limitOf(own)
		}
	}
	if s.options.ConsumerTimeout < 0 {
		return 0
	}
	return limitOf(node)
}

// watchDelivery begins to watch, if it does not yet, when a delivery with a
// limit is made: the one that gets nextTag. channel.mu is held.
func (ch *channel) watchDelivery(l limit) {
	w := &ch.watch
	if l == 0 || w.armed && l.millis() >= w.least {
		return
	}
	clock := ch.c.server.broker.Clock
	now := clock.NowMillis()
	if !w.armed {
		w.armed, w.least, w.judged = true, l.millis(), now
		w.slow = compat.TimeoutClosesChannel.In(ch.c.server.broker.Profile)
		w.marks = append(w.marks[:0], mark{ch.nextTag + 1, now})
	}
	w.least, w.due = l.millis(), 0
	if w.timer == nil {
		w.timer = clock.AfterFunc(queue.MessageTime, w.step(now), ch.look)
		return
	}
	w.timer.Reset(w.step(now))
}

// step is how long to wait before the next look at now. channel.mu is held.
func (w *watch) step(now int64) time.Duration {
	wait := min(w.least/watchParts, slowTick)
	if w.due > now {
		wait = min(wait, w.due-now)
	}
	if w.slow {
		wait = min(wait, w.judged+slowTick-now)
	}
	return time.Duration(max(wait, watchStep)) * time.Millisecond
}

// look is the timer's function: it notes the time, and has what is late dealt
// with elsewhere.
func (ch *channel) look() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	w := &ch.watch
	if ch.closed {
		w.armed = false
		return
	}
	now := ch.c.server.broker.Clock.NowMillis()
	w.note(ch.nextTag, now)
	if !w.slow || now-w.judged >= slowTick {
		w.judged = now
		late, more := ch.lateItems(now)
		if len(late) > 0 && !w.busy {
			w.busy = true
			go ch.punish(now)
		}
		if !more && len(late) == 0 {
			w.armed = false
			return
		}
	}
	w.timer.Reset(w.step(now))
}

// note makes a mark, unless nothing was delivered since the last.
func (w *watch) note(tag uint64, now int64) {
	if n := len(w.marks); n > 0 && w.marks[n-1].tag == tag {
		return
	}
	if len(w.marks) == watchMarks {
		kept := w.marks[:0]
		for i := 1; i < watchMarks; i += 2 {
			kept = append(kept, w.marks[i])
		}
		w.marks = kept
	}
	w.marks = append(w.marks, mark{tag, now})
}

// lateItems gives the places of the deliveries that are late at now. more:
// there are others that may become late. Marks that no delivery needs are
// forgotten. channel.mu is held.
func (ch *channel) lateItems(now int64) (late []int, more bool) {
	w, l := &ch.watch, &ch.unacked
	w.due = 0
	m := 0
	for i := l.head; i < len(l.items); i++ {
		it := &l.items[i]
		for m < len(w.marks) && w.marks[m].tag <= it.tag {
			m++
		}
		if i == l.head {
			w.marks = slices.Delete(w.marks, 0, m)
			m = 0
		}
		if m == len(w.marks) {
			return late, true
		}
		if w.due = w.marks[m].at + w.least; w.due > now {
			return late, true
		}
		switch {
		case it.settled, it.late, it.limit == 0:
		case now-w.marks[m].at >= it.limit.millis():
			late = append(late, i)
		default:
			more = true
		}
	}
	return late, more
}

// punish deals with deliveries that are late at now, if they still are.
func (ch *channel) punish(now int64) {
	c := ch.c
	c.mu.Lock()
	defer c.mu.Unlock()
	ch.mu.Lock()
	ch.watch.busy = false
	if ch.closed || ch.closing {
		ch.mu.Unlock()
		return
	}
	places, _ := ch.lateItems(now)
	if len(places) == 0 {
		ch.mu.Unlock()
		return
	}
	if compat.TimeoutClosesChannel.In(c.server.broker.Profile) {
		value := ch.unacked.items[places[0]].limit.millis()
		ch.mu.Unlock()
		ch.closeLate(value)
		return
	}
	fatal := false
	items := make([]unackedItem, 0, len(places))
	for _, i := range places {
		it := &ch.unacked.items[i]
		items = append(items, *it)
		it.late = true
		if it.consumer != nil {
			it.consumer.late++
		}
		fatal = fatal || it.consumer == nil || !c.can.cancelNotify && ch.consumers[it.consumer.Tag] == it.consumer
	}
	ch.mu.Unlock()
	ch.takeLate(items)
	if fatal {
		ch.closeLate(items[0].limit.millis())
	}
}

// takeLate gives late deliveries back to their queues and tells the consumers.
// conn.mu is held.
func (ch *channel) takeLate(items []unackedItem) {
	ch.observeSettled(items, requeued)
	told := map[*consumer]bool{}
	for n := 0; len(items) > 0; items, n = items[n:], 0 {
		first := &items[0]
		ch.entries = ch.entries[:0]
		for n < len(items) && items[n].q == first.q && items[n].consumer == first.consumer {
			ch.entries = append(ch.entries, items[n].entry)
			n++
		}
		if first.consumer == nil {
			first.q.Expire(nil, ch.entries)
			continue
		}
		first.q.Expire(&first.consumer.Consumer, ch.entries)
		if !told[first.consumer] {
			told[first.consumer] = true
			ch.cancelLate(first.consumer)
		}
	}
	clear(ch.entries)
}

// cancelLate sends basic.cancel to a consumer that stays registered.
func (ch *channel) cancelLate(c *consumer) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed || ch.consumers[c.Tag] != c || !ch.c.can.cancelNotify {
		return
	}
	ch.c.log.Warn("consumer timed out", "channel", ch.id, "consumer", c.Tag, "queue", c.q.Name)
	ch.c.out.send(&ch.position, ch.id, &frames.BasicCancel{ConsumerTag: c.Tag, NoWait: true})
}

// closeLate closes the channel with 406 and, under 3.10.8, says so again every
// 60 s until close-ok comes, as RabbitMQ does. conn.mu is held.
func (ch *channel) closeLate(ms int64) {
	if !compat.TimeoutTextHasValue.In(ch.c.server.broker.Profile) {
		ms = -1
	}
	fe := frames.Errorf(frames.PreconditionFailed, "delivery acknowledgement on channel %d timed out. Timeout value used: %d ms. "+
		"This timeout value can be configured, see consumers doc guide to learn more", ch.id, ms)
	ch.c.log.Warn("channel error", "channel", ch.id, "error", fe)
	ch.closeWith(fe)
	if compat.TimeoutClosesChannel.In(ch.c.server.broker.Profile) {
		ch.repeatClose(fe)
	}
	ch.c.flushConfirms()
}

// repeatClose sends channel.close again with every tick until the client has
// answered it. conn.mu is held.
func (ch *channel) repeatClose(fe *frames.Error) {
	c := ch.c
	again := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !ch.closing || c.channels[ch.id] != ch || c.state != running {
			return
		}
		ch.sendClose(fe)
		ch.repeatClose(fe)
	}
	c.server.broker.Clock.AfterFunc(queue.MessageTime, slowTick*time.Millisecond, func() { go again() })
}
