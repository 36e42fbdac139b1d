package queue

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/persist"
)

// Quorum makes a queue a quorum queue: every message is kept on disk, returns
// are counted, and a message that comes back too often dies. The fields are
// where the versions of RabbitMQ differ; all behaviour here was asked of both.
// Immutable.
type Quorum struct {
	// EveryReturnFails counts all returns as failures (3.10.8). Otherwise only
	// Failed and Lost ones are (4.3).
	EveryReturnFails bool
	// UnlimitedGoLast puts what a client gave back behind all that waits when
	// there is no delivery limit (3.10.8); otherwise, and for Lost, it goes
	// before all of it.
	UnlimitedGoLast bool
	// Preempts has a single active consumer make way for a later one of higher
	// priority, and successors come by priority (4.3); otherwise by age alone.
	Preempts bool
	// PropertiesCount counts a message's properties in its size (4.3).
	PropertiesCount bool
	// DefaultPriority is that of a message without a priority property.
	DefaultPriority uint8
}

// NoDeliveryLimit is Rules.DeliveryLimit of a queue that has none.
const NoDeliveryLimit = -1

// Return is why a delivered message comes back.
type Return uint8

// The kinds of return.
const (
	HandedBack Return = iota // basic.nack with requeue, basic.recover
	Failed                   // basic.reject with requeue
	Lost                     // the channel or connection ended
	TimedOut                 // it was not acknowledged in time
)

// RetryType says which returns of a quorum queue are delayed
// (x-delayed-retry-type).
type RetryType uint8

// The retry types.
const (
	RetryAtOnce   RetryType = iota
	RetryAll                // every return
	RetryFailed             // those that count as failures
	RetryReturned           // those that do not
)

// quorumState is what a quorum queue has besides. Guarded by the queue's
// mutex.
type quorumState struct {
	counts  []persist.Returns // scratch: of entries that came back in this call
	full    bool              // it was over its limit and refuses until there is room again
	delayed retryHeap         // came back, and wait until they are due
	timer   *Timer            // for the earliest of them
	due     int64             // when it fires, message time; 0: not set

	// Of a single active consumer that can be preempted: a number for each time
	// another became it, how many messages it has, and that it gets no more
	// because one of higher priority waits for it to be done with these.
	reign   uint32
	reigned int
	ending  bool
}

// emptyOrder makes the order in which the queue's messages will wait.
func (q *Queue) emptyOrder() readyOrder {
	r := newReadyOrder(q.MaxPriority)
	r.properties = q.Quorum != nil && q.Quorum.PropertiesCount
	return r
}

// Keeps says whether the queue keeps this message on disk. Any goroutine.
func (q *Queue) Keeps(m *Message) bool {
	return q.Journal != nil && (m.Persistent || q.Quorum != nil) || q.Stream != nil
}

// priorityOf is the message's priority in this queue.
func (q *Queue) priorityOf(m *Message) uint8 {
	if q.Quorum != nil && (len(m.Properties) < 2 || binary.BigEndian.Uint16(m.Properties)&frames.FlagPriority == 0) {
		return q.Quorum.DefaultPriority
	}
	return uint8(min(int(m.Priority), q.MaxPriority))
}

// Return gives delivered entries back; why decides where to, and in a quorum
// queue what it counts for: a message over the delivery limit dies. Any
// goroutine.
func (q *Queue) Return(entries []Entry, why Return) {
	if q.Stream != nil {
		q.returned(entries)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unacked -= len(entries)
	if q.deleted {
		return
	}
	q.takeBack(entries, why)
	q.tidy() // a full queue drops its head before anybody is served from it
	q.serve()
}

// takeBackCounted is takeBack of a quorum queue. mu is held.
func (q *Queue) takeBackCounted(entries []Entry, why Return) {
	failed := why == Failed || why == Lost
	s := &q.quorum
	for _, e := range entries {
		e.Redelivered = true
		e.Deliveries++
		if failed || q.Quorum.EveryReturnFails {
			e.Failures++
			if limit := q.rules.DeliveryLimit; limit >= 0 && int64(e.Failures) > limit {
				q.kill(e, DeliveryLimit)
				continue
			}
		}
		if e.Journaled {
			s.counts = append(s.counts, persist.Returns{Seq: e.Seq, Total: e.Deliveries, Failed: e.Failures})
		}
		switch delay := q.rules.retryDelay(&e, failed); {
		case delay > 0 && q.Clock != nil:
			q.putOff(e, delay)
		case q.Quorum.UnlimitedGoLast && why != Lost && q.rules.DeliveryLimit < 0:
			q.ready.push(e)
		default:
			q.ready.giveBackFirst(e)
		}
	}
	q.flushSettled() // of those that died without a dead-letter exchange
	if len(s.counts) > 0 {
		q.Journal.SaveReturns(s.counts...)
	}
	if s.counts = s.counts[:0]; cap(s.counts) > settledKept {
		s.counts = nil
	}
	q.released(entries)
}

// retryDelay is how long a returned message is put off, milliseconds: the
// least time, once for each failure, up to the most.
func (r *Rules) retryDelay(e *Entry, failed bool) int64 {
	switch {
	case r.Retry == RetryAtOnce, r.Retry == RetryFailed && !failed, r.Retry == RetryReturned && failed:
		return 0
	}
	times := max(1, int64(e.Failures))
	if r.RetryMin > math.MaxInt64/times {
		return r.RetryMax
	}
	return min(r.RetryMin*times, r.RetryMax)
}

// refusesCounted is refuses of a quorum queue: it takes one message more than
// its limit and then refuses until it is down to four fifths of it. mu is held.
func (q *Queue) refusesCounted() bool {
	r := &q.rules
	if r.Overflow == DropHead || !r.limited() {
		return false
	}
	q.noteFull()
	return q.quorum.full
}

// noteFull watches the limit of a quorum queue that refuses. mu is held.
func (q *Queue) noteFull() {
	r, s := &q.rules, &q.quorum
	count := int64(q.ready.count + q.arriving + len(q.stranded.dead))
	bytes := q.ready.bytes + q.arrivingBytes + q.stranded.bytes
	if !s.full {
		s.full = r.over(int(count), bytes)
		return
	}
	if (r.MaxLength < 0 || 5*count <= 4*r.MaxLength) && (r.MaxBytes < 0 || 5*bytes <= 4*r.MaxBytes) {
		s.full = false
	}
}

// putOff is an entry that waits until it is due.
type putOff struct {
	Entry
	due int64 // milliseconds of message time
	n   uint64
}

// retryHeap has the entry that is due first at its head; of those due at one
// time the one that came back first.
type retryHeap struct {
	entries []putOff
	n       uint64
}

func (h *retryHeap) less(i, j int) bool {
	a, b := &h.entries[i], &h.entries[j]
	return a.due < b.due || a.due == b.due && a.n < b.n
}

func (h *retryHeap) push(e Entry, due int64) {
	h.n++
	h.entries = append(h.entries, putOff{e, due, h.n})
	for i := len(h.entries) - 1; i > 0 && h.less(i, (i-1)/2); i = (i - 1) / 2 {
		h.entries[i], h.entries[(i-1)/2] = h.entries[(i-1)/2], h.entries[i]
	}
}

// pop removes the head; there must be one.
func (h *retryHeap) pop() Entry {
	first, last := h.entries[0].Entry, len(h.entries)-1
	h.entries[0] = h.entries[last]
	h.entries[last] = putOff{}
	if h.entries = h.entries[:last]; last == 0 {
		h.entries = nil
	}
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h.less(child, least) {
				least = child
			}
		}
		if least == i {
			return first
		}
		h.entries[i], h.entries[least] = h.entries[least], h.entries[i]
		i = least
	}
}

// putOff has an entry wait. mu is held.
func (q *Queue) putOff(e Entry, delay int64) {
	q.quorum.delayed.push(e, q.Clock.NowMillis()+delay)
	q.armDelay()
}

// armDelay sets the timer for the first entry that will be due. mu is held.
func (q *Queue) armDelay() {
	s := &q.quorum
	if len(s.delayed.entries) == 0 {
		return
	}
	due := s.delayed.entries[0].due
	if s.due != 0 && s.due <= due {
		return
	}
	s.due = due
	wait := time.Duration(due-q.Clock.NowMillis()) * time.Millisecond
	if s.timer == nil {
		s.timer = q.Clock.AfterFunc(MessageTime, wait, q.endDelays)
		return
	}
	s.timer.Reset(wait)
}

// endDelays is the timer's function: what is due goes before all that waits.
func (q *Queue) endDelays() {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &q.quorum
	s.due = 0
	if q.deleted {
		return
	}
	now := q.Clock.NowMillis()
	for len(s.delayed.entries) > 0 && s.delayed.entries[0].due <= now {
		q.ready.giveBackFirst(s.delayed.pop())
	}
	q.armDelay()
	q.tidy()
	q.serve()
}

// purgeDelayed drops the entries that are put off and says how many there
// were; their seqs are left in q.settled. mu is held.
func (q *Queue) purgeDelayed() (n int) {
	for i := range q.quorum.delayed.entries {
		if e := &q.quorum.delayed.entries[i]; e.Journaled {
			q.settled = append(q.settled, e.Seq)
		}
	}
	n = len(q.quorum.delayed.entries)
	q.quorum.delayed.entries = nil
	return n
}

// preempts says whether the single active consumer can lose its place. mu is
// held.
func (q *Queue) preempts() bool {
	return q.Quorum != nil && q.Quorum.Preempts && q.rules.SingleActive
}

// enthroned notes that another consumer became the single active one. mu is
// held.
func (q *Queue) enthroned() {
	s := &q.quorum
	s.reign++
	s.reigned, s.ending = 0, false
}

// rival is the waiting consumer that the single active one has to make way
// for: of those with a higher priority the highest, then the oldest. mu is
// held.
func (q *Queue) rival() (best *Consumer) {
	for _, c := range q.consumers {
		if c != q.single && c.Priority > q.single.Priority && (best == nil || c.Priority > best.Priority) {
			best = c
		}
	}
	return best
}

// contend looks whether the single active consumer has to make way: at once
// when it has no unacknowledged messages, else it gets no more until they are
// settled. mu is held.
func (q *Queue) contend() {
	if q.single == nil || !q.preempts() {
		return
	}
	s := &q.quorum
	c := q.rival()
	switch {
	case c == nil && s.ending: // whoever it made way for has gone
		s.ending = false
		if q.single.begun {
			q.rota.enter(q.single)
			q.serve()
		}
	case c == nil:
	case s.reigned > 0:
		s.ending = true
		q.rota.leave(q.single)
	default:
		q.enthrone(c)
	}
}

// enthrone makes c the single active consumer in place of another. mu is held.
func (q *Queue) enthrone(c *Consumer) {
	q.rota.leave(q.single)
	q.single = c
	q.enthroned()
	if c.begun {
		q.rota.enter(c)
	}
}

// released notes that delivered entries are nobody's any more. mu is held.
func (q *Queue) released(entries []Entry) {
	if !q.preempts() {
		return
	}
	s := &q.quorum
	for i := range entries {
		if entries[i].Reign == s.reign {
			s.reigned--
		}
	}
	if s.ending && s.reigned == 0 {
		q.contend()
		q.wake()
	}
}

// Expire takes entries back from a consumer that did not acknowledge them in
// time. A single active consumer loses its place to the next. The consumer
// must refuse deliveries until it is resumed. Any goroutine.
func (q *Queue) Expire(c *Consumer, entries []Entry) {
	q.mu.Lock()
	if c != nil && q.single == c && !q.deleted {
		q.abdicate()
	}
	q.mu.Unlock()
	q.Return(entries, TimedOut)
}

// abdicate has another consumer be the single active one, if there is one. mu
// is held.
func (q *Queue) abdicate() {
	var best *Consumer
	for _, c := range q.consumers {
		if c != q.single && (best == nil || c.Priority > best.Priority) {
			best = c
		}
	}
	if best != nil {
		q.enthrone(best)
	}
}

// ConsumerTimeout is how long a consumer may take to acknowledge, milliseconds,
// by the queue's arguments and policies; negative when they do not say.
func (q *Queue) ConsumerTimeout() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rules.ConsumerTimeout
}

// idleTick is how often a quorum queue looks whether it was unused for its
// x-expires, milliseconds.
const idleTick = 5000

// idleWait is how long to wait until the queue may be found unused, left being
// what is left of its time. mu is held.
func (q *Queue) idleWait(left int64) time.Duration {
	if q.Quorum != nil {
		left = (left + idleTick - 1) / idleTick * idleTick
	}
	return time.Duration(left) * time.Millisecond
}

// eachDelayed visits the entries that are put off. mu is held.
func (q *Queue) eachDelayed(visit func(*Entry)) {
	for i := range q.quorum.delayed.entries {
		visit(&q.quorum.delayed.entries[i].Entry)
	}
}
