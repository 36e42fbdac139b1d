package queue

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/warrenmq/warren/frames"
)

// Config is what a queue is declared with. Immutable.
type Config struct {
	VHost, Name string
	Durable     bool
	AutoDelete  bool
	// Owner is the connection an exclusive queue belongs to; nil for others.
	Owner any
	// Arguments are the declared arguments, in order and with their types.
	Arguments frames.Table
	// MaxPriority is the highest priority the queue tells apart; 0 is plain
	// arrival order.
	MaxPriority int
	// Aging is after how many milliseconds a waiting message rises one
	// priority; 0: never. It needs a Clock.
	Aging int64
	// ID is the incarnation id, unique in this process; for durable queues
	// unique in the store.
	ID uint64
	// Journal keeps persistent messages; nil for a queue that is not durable.
	Journal Journal
	// Stream is the log of a queue of type stream; nil for all others.
	Stream Stream
	// Pump serves deliveries beyond deliverBound.
	Pump *Pump
	// Clock is message time; nil for a queue in which nothing expires.
	Clock *Clock
	// Quorum makes it a quorum queue; nil for other types.
	Quorum *Quorum
	// Pager keeps the broker's backlogs within its memory; nil keeps all of
	// this queue's messages in memory.
	Pager *Pager
	// Rules are the queue's limits and times; nil is NoRules.
	Rules *Rules
	// Bury dead-letters what died in the queue; Rules.DeadLetters says whether
	// it is to be called. On a goroutine of the pump, with no lock held. It ends
	// with a Transaction that settles the entries.
	Bury func(q *Queue, dead []Dead)
	// Funeral rewrites dead messages of the queue and finds the queues they go
	// to, for a transaction that their deaths are part of; without dead
	// lettering there are none. Called with no lock held.
	Funeral func(q *Queue, dead []Dead) []Enqueue
	// Lapsed deletes a queue whose Rules.Expires has passed. On a goroutine of
	// the pump.
	Lapsed func(q *Queue)
}

// Queue is one queue: the messages that wait, in order, and the consumers
// they go to in turn. It has no goroutine: whoever brings work (a publish, an
// acknowledgement, a new consumer) delivers a bounded number of messages and
// leaves the rest to the pump. All methods may be called from any goroutine.
//
// Lock order: the queue's mutex comes before a channel's, an outbox's and the
// store's batch; it is never held across I/O.
type Queue struct {
	Config

	paging *paging // immutable; nil without a Pager

	mu        sync.Mutex
	ready     readyOrder
	rota      rota
	consumers []*Consumer // all, in the order they came
	exclusive *Consumer   // the consumer that excludes others
	nextSeq   uint64
	unacked   int
	pumping   bool // the pump has this queue as a task
	served    bool // it has had a consumer: auto-delete may apply
	deleted   bool
	// Messages of the transaction under way that have no place yet.
	arriving               int
	arrivingBytes          int64
	rules                  Rules
	ruled                  bool       // something can expire or overflow: tidy has work
	single                 *Consumer  // the active one of a queue with a single active consumer
	elected                int        // active consumers, where rules.MaxActive limits them
	idlers                 int        // consumers with an Idler
	waiters                []roomWait // publishers that wait for room
	offering               bool       // the pump has a roomOffer as a task
	quorum                 quorumState
	selective              *selective // nil without consumers that have selectors
	delay                  *delay     // immutable; nil but in a queue of messages that wait for their time
	stranded               stranded
	dead                   []Dead // waits to be dead-lettered
	burying                bool   // the pump has the burial as a task
	expiryTimer, idleTimer *Timer
	expiryDue, idleSince   int64    // milliseconds of message time; due 0: not set
	settled                []uint64 // scratch: journaled entries settled in this call
	offered                Entry    // scratch: a new entry while sinks look at it, which on the stack would escape

	published, delivered, acked atomic.Uint64
}

// deliverBound is how many messages a caller delivers for others before the
// pump takes over; pumpBound is how many the pump delivers before the next
// queue has its turn.
const (
	deliverBound = 256
	pumpBound    = 1024
)

// settledKept is the most entries of scratch memory that a queue keeps: one
// acknowledgement of a million messages must not cost it 8 MB for ever.
const settledKept = 4 * pumpBound

// The reasons for which a queue refuses.
var (
	ErrDeleted   = errors.New("queue is deleted")
	ErrExclusive = errors.New("queue is in exclusive use")
	ErrInUse     = errors.New("queue has consumers")
	ErrNotEmpty  = errors.New("queue has messages")
)

// New makes an empty queue.
func New(c Config) *Queue {
	q := &Queue{Config: c, nextSeq: 1}
	q.ready = q.emptyOrder()
	q.ready.priorities = newLevels(&q.Config)
	q.startPaging()
	rules := NoRules()
	if c.Rules != nil {
		rules = *c.Rules
	}
	q.setRules(rules)
	return q
}

// Outcome is what became of a publish in one queue.
type Outcome uint8

// The outcomes.
const (
	Taken   Outcome = iota
	Gone            // the queue has been deleted
	Refused         // the queue is full and refuses more
	Full            // the queue is full and has its publishers wait: see AwaitRoom
)

// Publish takes a message: to the consumer whose turn it is when nothing
// waits before it, else to the end of its priority. A persistent message for a
// durable queue must have been tracked (Message.Track) before.
func (q *Queue) Publish(m *Message) Outcome {
	if q.Stream != nil {
		return q.append(m)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return Gone
	}
	if q.ruled {
		if q.block(m) {
			return Full
		}
		if q.refuses(m) {
			q.turnAway(m)
			return Refused
		}
	}
	q.take(m)
	return Taken
}

// turnAway refuses a message of a full queue. mu is held.
func (q *Queue) turnAway(m *Message) {
	if q.rules.Overflow == RejectPublishAndBury {
		q.kill(Entry{Message: m}, MaxLength)
	}
}

// admit makes the message's entry. mu is held.
func (q *Queue) admit(m *Message) Entry {
	e := Entry{Message: m, Seq: q.nextSeq, Journaled: q.Keeps(m)}
	if q.MaxPriority > 0 {
		e.Priority = q.priorityOf(m)
		q.born(e.Seq)
	}
	if m.Expiration >= 0 || q.rules.TTL >= 0 {
		e.Expiry = q.expiryOf(m)
	}
	q.nextSeq++
	q.published.Add(1)
	return e
}

// place delivers a new entry, or lets it wait, marked redelivered if it is to
// be. mu is held.
func (q *Queue) place(e Entry, redelivered bool) {
	if q.hasSelectors() {
		e.Redelivered = redelivered
		q.ready.push(e)
		q.index(&e)
		q.serve()
		return
	}
	// A consumer that could take a message while others wait has the pump at
	// work, or its caller about to serve.
	if q.ready.count > 0 || q.rota.next() == nil || !q.hand(e) {
		e.Redelivered = redelivered
		q.ready.push(e)
	}
}

// hand offers a new entry, before which nothing waits, to one consumer after
// the other. mu is held.
func (q *Queue) hand(e Entry) (taken bool) {
	q.offered = e
	for c := q.rota.next(); c != nil && !taken; c = q.rota.next() {
		taken = q.offer(c, &q.offered)
	}
	q.offered = Entry{}
	q.flushSettled()
	return taken
}

// offer gives e to c, or takes c out of the turn. mu is held.
func (q *Queue) offer(c *Consumer, e *Entry) bool {
	if q.Quorum != nil {
		e.Reign = q.quorum.reign
	}
	if !c.Sink.Deliver(c, e) {
		q.rota.leave(c)
		return false
	}
	q.rota.served(c)
	q.delivered.Add(1)
	if q.MaxPriority > 0 {
		q.handedOut(e)
	}
	if !c.NoAck {
		q.unacked++
		q.quorum.reigned++
	} else if e.Journaled {
		q.settled = append(q.settled, e.Seq)
	}
	return true
}

// flushSettled tells the journal of entries that left without waiting for an
// acknowledgement. mu is held.
func (q *Queue) flushSettled() {
	if len(q.settled) > 0 {
		q.Journal.Settle(q.settled...)
		q.settled = q.settled[:0]
	}
	if cap(q.settled) > settledKept {
		q.settled = nil
	}
}

// drain delivers up to bound waiting messages. True: more could be delivered.
// mu is held.
func (q *Queue) drain(bound int) (more bool) {
	defer q.flushSettled()
	defer q.readAhead()
	if q.MaxPriority > 0 {
		q.tick()
	}
	if q.hasSelectors() {
		return q.drainSelective(bound)
	}
	for q.ready.count > 0 {
		c := q.rota.next()
		if c == nil {
			return false
		}
		if bound == 0 {
			return true
		}
		if q.ruled {
			if q.expireHeads(); q.ready.count == 0 {
				return false
			}
		}
		head := q.ready.head()
		if head == nil { // served when it has been read
			q.fetch()
			return false
		}
		if q.offer(c, head) {
			q.ready.pop()
			bound--
		}
	}
	return false
}

// wake has the pump deliver when there is something to deliver. mu is held.
func (q *Queue) wake() {
	if !q.pumping && q.ready.count > 0 && q.rota.next() != nil {
		q.pumping = true
		q.Pump.Schedule(q)
	}
}

// serve delivers a bounded number of messages and wakes the pump for the
// rest. mu is held.
func (q *Queue) serve() {
	if q.pumping {
		return
	}
	if q.drain(deliverBound) {
		q.wake()
	} else {
		q.tellIdle()
	}
	q.tidy()
}

// Run implements Task for the pump.
func (q *Queue) Run() (more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.drain(pumpBound) {
		q.offerRoom()
		return true
	}
	q.pumping = false
	q.tellIdle()
	q.tidy()
	return false
}

// AddConsumer registers a consumer, not yet served: the caller sends
// consume-ok and then calls Resume. ErrExclusive when it or another is
// exclusive and the queue has a consumer; ErrDeleted; a FullError.
func (q *Queue) AddConsumer(c *Consumer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.deleted:
		return ErrDeleted
	case q.exclusive != nil, c.Exclusive && (len(q.consumers) > 0 || q.rules.SingleActive):
		return ErrExclusive
	}
	if err := q.crowded(); err != nil {
		return err
	}
	c.queue = q
	q.consumers = append(q.consumers, c)
	q.enlist(c)
	if q.single == nil && q.rules.SingleActive {
		q.single = c
		q.enthroned()
	}
	q.contend()
	q.elect(c)
	if c.Idler != nil {
		q.idlers++
	}
	q.served = true
	if c.Exclusive {
		q.exclusive = c
	}
	if q.Stream != nil {
		q.Stream.Attach(c)
	}
	return nil
}

// Resume says that a consumer can take messages (again).
func (q *Queue) Resume(c *Consumer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || c.queue != q {
		return
	}
	c.begun = true
	if q.Stream != nil {
		q.Stream.Resume(c)
		return
	}
	if q.mayServe(c) {
		q.rota.enter(c)
		q.serve()
	} else if c.Idler != nil {
		c.Idler.Idle(c)
	}
}

// RemoveConsumer ends a consumer: once it returns, nothing is delivered to
// it. True: the queue is auto-delete and that was its last consumer; the
// caller deletes the queue.
func (q *Queue) RemoveConsumer(c *Consumer) (deleteNow bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.queue != q {
		return false
	}
	if q.Stream != nil {
		q.Stream.Detach(c)
	}
	q.rota.leave(c)
	q.discharge(c)
	c.queue = nil
	if i := slices.Index(q.consumers, c); i >= 0 {
		q.consumers = slices.Delete(q.consumers, i, i+1)
		if c.Idler != nil {
			q.idlers--
		}
	}
	if q.exclusive == c {
		q.exclusive = nil
	}
	q.succeed(c)
	q.replace(c)
	q.contend()
	if len(q.consumers) == 0 {
		q.touch()
	}
	return q.AutoDelete && q.served && len(q.consumers) == 0 && !q.deleted
}

// Get takes the head for basic.get. ok is false when nothing waits; left is
// how many wait after it. Without noAck the caller owns the entry until
// Settle or Requeue. ErrLoading: see Await.
func (q *Queue) Get(noAck bool) (e Entry, left int, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return e, 0, false, ErrDeleted
	}
	q.touch()
	if q.MaxPriority > 0 {
		q.tick()
	}
	q.tidy()
	if q.ready.count == 0 {
		return e, 0, false, nil
	}
	if q.ready.onDisk() {
		return e, 0, false, ErrLoading
	}
	e = q.ready.pop()
	q.readAhead()
	q.tidy()
	q.delivered.Add(1)
	if q.MaxPriority > 0 {
		q.handedOut(&e)
	}
	if !noAck {
		q.unacked++
	} else if e.Journaled {
		q.Journal.Settle(e.Seq)
	}
	return e, q.left(), true, nil
}

// Settle ends delivered entries: acknowledged, or rejected without requeue.
func (q *Queue) Settle(entries []Entry) {
	if q.Stream != nil {
		q.returned(entries)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unacked -= len(entries)
	q.acked.Add(uint64(len(entries)))
	q.released(entries)
	if q.deleted || q.Journal == nil {
		return
	}
	for i := range entries {
		if entries[i].Journaled {
			q.settled = append(q.settled, entries[i].Seq)
		}
	}
	q.flushSettled()
}

// Requeue gives delivered entries back to their places, marked redelivered.
func (q *Queue) Requeue(entries []Entry) { q.Return(entries, HandedBack) }

func (q *Queue) takeBack(entries []Entry, why Return) {
	if q.Quorum != nil {
		q.takeBackCounted(entries, why)
		return
	}
	for _, e := range entries {
		e.Redelivered = true
		e.Deliveries++
		q.ready.giveBack(e)
		if q.hasSelectors() {
			q.index(&e)
		}
	}
}

// Purge drops the messages that wait and says how many there were.
// Journaled: some of them were on disk, so the purge is safe only after the
// next commit.
func (q *Queue) Purge() (count int, journaled bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	count, _ = q.waits()
	journaled = q.purgePages()
	for q.ready.count > 0 {
		if e := q.ready.pop(); e.Journaled {
			q.settled = append(q.settled, e.Seq)
		}
	}
	count += q.purgeDelayed()
	journaled = journaled || len(q.settled) > 0
	q.flushSettled()
	q.offerRoom()
	return count, journaled
}

// Delete ends the queue: its messages are dropped and its consumers told
// (after the lock is let go). It says how many messages waited. The caller
// takes it out of the topology and drops its log. ErrNotEmpty, ErrInUse by
// the flags, tested in this order; ErrDeleted when it has gone before.
func (q *Queue) Delete(ifUnused, ifEmpty bool) (count int, err error) {
	q.mu.Lock()
	switch {
	case q.deleted:
		err = ErrDeleted
	case q.Stream != nil: // the flags do not count, as in RabbitMQ
	case ifEmpty && q.ready.count > 0:
		err = ErrNotEmpty
	case ifUnused && len(q.consumers) > 0:
		err = ErrInUse
	}
	if err != nil {
		q.mu.Unlock()
		return 0, err
	}
	q.deleted = true
	q.stopTimers()
	count, _ = q.waits()
	q.endPaging()
	gone := q.consumers
	for _, c := range gone {
		q.rota.leave(c)
		c.queue = nil
	}
	q.consumers, q.exclusive, q.single = nil, nil, nil
	q.ready, q.selective = q.emptyOrder(), nil
	q.quorum.delayed.entries, q.stranded.dead = nil, nil
	if q.delay != nil {
		q.delay.heap = nil
	}
	q.offerRoom()
	if q.Stream != nil {
		q.Stream.Close()
	}
	q.mu.Unlock()
	for _, c := range gone {
		c.Sink.Cancelled(c)
	}
	return count, nil
}

// Deleted says whether the queue has gone. It never comes back.
func (q *Queue) Deleted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.deleted
}

// DeleteIfAbandoned deletes an auto-delete queue that has no consumers; false
// when it got one meanwhile or has gone.
func (q *Queue) DeleteIfAbandoned() bool {
	_, err := q.Delete(true, false)
	return err == nil
}

// Counts are a queue's figures at one moment.
type Counts struct {
	Ready, Unacked, Consumers   int
	ReadyBytes                  int64
	Published, Delivered, Acked uint64
}

// Counts reads the queue's figures.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	ready, bytes := q.waits()
	n := Counts{
		Ready: ready, Unacked: q.unacked, Consumers: len(q.consumers), ReadyBytes: bytes,
		Published: q.published.Load(), Delivered: q.delivered.Load(), Acked: q.acked.Load(),
	}
	if q.Stream != nil {
		q.Stream.Counts(&n)
	}
	return n
}

// Consumers lists the consumers in the order they came.
func (q *Queue) Consumers() []*Consumer {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.consumers)
}
