package queue

import "time"

// Overflow is what a full queue does with one more message.
type Overflow uint8

// The overflow modes (x-overflow).
const (
	DropHead             Overflow = iota // drop from the head until it fits
	RejectPublish                        // refuse the new one
	RejectPublishAndBury                 // refuse it, and dead-letter it
	DropLowest                           // drop the oldest of the lowest priority until it fits
	BlockPublishers                      // have whoever publishes wait for room
)

// Reason is why a message died.
type Reason uint8

// The reasons, in RabbitMQ's words.
const (
	Rejected Reason = iota
	Expired
	MaxLength
	DeliveryLimit
)

// String is the word that stands in x-death.
func (r Reason) String() string {
	return [...]string{"rejected", "expired", "maxlen", "delivery_limit"}[r]
}

// Dead is an entry that died.
type Dead struct {
	Entry
	Reason Reason
}

// Rules are what a queue's arguments and policies say of its messages. The
// zero value is not "no rules": see NoRules.
type Rules struct {
	// TTL is how long a message may wait, milliseconds; -1 is for ever.
	TTL int64
	// Expires is how long the queue may be unused, milliseconds; 0 is for ever.
	Expires int64
	// MaxLength and MaxBytes bound the messages that wait and the bytes of
	// their bodies; -1 is no bound.
	MaxLength, MaxBytes int64
	Overflow            Overflow
	// DeadLetters says that dead messages go to Config.Bury; otherwise they are
	// dropped.
	DeadLetters bool
	// AtLeastOnce keeps dead messages that nothing takes (Queue.Strand). For a
	// quorum queue that refuses when it is full.
	AtLeastOnce bool
	// SingleActive has one consumer receive while the others wait.
	SingleActive bool
	// DeliveryLimit is how many failures a message of a quorum queue survives;
	// NoDeliveryLimit is any number.
	DeliveryLimit int64
	// Retry delays returns to a quorum queue, by RetryMin milliseconds for each
	// failure and at most RetryMax.
	Retry              RetryType
	RetryMin, RetryMax int64
	// ConsumerTimeout is how long a consumer of a quorum queue may take to
	// acknowledge, milliseconds; negative leaves it to the node's setting.
	ConsumerTimeout int64
	// MaxActive is how many consumers receive, 0 for all; MaxBackup how many
	// more may wait to step in, -1 for any number.
	MaxActive, MaxBackup int
}

// NoRules are the rules of a queue without any.
func NoRules() Rules {
	return Rules{TTL: -1, MaxLength: -1, MaxBytes: -1, DeliveryLimit: NoDeliveryLimit, ConsumerTimeout: -1}
}

// limited says whether publishing can overfill the queue.
func (r *Rules) limited() bool { return r.MaxLength >= 0 || r.MaxBytes >= 0 }

// drops says whether a full queue makes room for a new message.
func (r *Rules) drops() bool { return r.Overflow == DropHead || r.Overflow == DropLowest }

// over says whether so many messages and bytes are too many.
func (r *Rules) over(count int, bytes int64) bool {
	return r.MaxLength >= 0 && int64(count) > r.MaxLength || r.MaxBytes >= 0 && bytes > r.MaxBytes
}

// refuses says whether the queue refuses m for being full, as RabbitMQ
// decides it: by what waits, whoever could be served. mu is held.
func (q *Queue) refuses(m *Message) bool {
	if q.Quorum != nil {
		return q.refusesCounted()
	}
	return !q.rules.drops() && q.rules.limited() &&
		q.rules.over(q.ready.count+q.arriving+1, q.ready.bytes+q.arrivingBytes+int64(len(m.Content)))
}

// expiryOf is when a message that comes now expires; 0 is never. The shorter
// of the queue's and its own time counts. mu is held.
func (q *Queue) expiryOf(m *Message) int64 {
	if q.Clock == nil {
		return 0
	}
	if q.delay != nil {
		return q.Clock.NowMillis() + max(q.delay.of(m), 0)
	}
	ttl := q.rules.TTL
	if m.Expiration >= 0 && (ttl < 0 || m.Expiration < ttl) {
		ttl = m.Expiration
	}
	if ttl < 0 {
		return 0
	}
	q.ruled = true
	return q.Clock.NowMillis() + ttl
}

// tidy applies the rules after a change: too many messages are dropped from
// the head, expired ones at the head die, and the timer is set for the next.
// mu is held.
func (q *Queue) tidy() {
	if !q.ruled || q.deleted {
		return
	}
	if q.delay != nil {
		q.delay.collect(q)
		return
	}
	q.shrink()
	q.expireHeads()
	q.armExpiry()
	q.flushSettled()
	if q.Quorum != nil && q.rules.Overflow != DropHead {
		q.noteFull()
	}
	q.offerRoom()
}

// expireBound is how many messages one pass lets expire; the next follows at
// once.
const expireBound = 1024

// expireHeads lets messages expire that have come to the head: as in RabbitMQ,
// one behind a message that lives longer waits its turn. mu is held.
func (q *Queue) expireHeads() {
	if q.ready.count == 0 || q.ready.nextExpiry() == 0 {
		return
	}
	now := q.Clock.NowMillis()
	for range expireBound {
		e, ok := q.ready.popExpired(now)
		if !ok {
			q.fetchExpired(now)
			return
		}
		q.kill(e, Expired)
	}
}

// armExpiry sets the timer for the next message that will expire. mu is held.
func (q *Queue) armExpiry() {
	due := q.ready.nextExpiry()
	if due == 0 || q.expiryDue != 0 && q.expiryDue <= due {
		return
	}
	wait := time.Duration(due-q.Clock.NowMillis()) * time.Millisecond
	if wait <= 0 && q.ready.onDisk() {
		return // it dies when it has been read, or after the next burial
	}
	q.expiryDue = due
	if q.expiryTimer == nil {
		q.expiryTimer = q.Clock.AfterFunc(MessageTime, wait, q.expire)
		return
	}
	q.expiryTimer.Reset(wait)
}

// expire is the timer's function.
func (q *Queue) expire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expiryDue = 0
	q.tidy()
}

// kill ends a waiting entry that has left the ready order. mu is held.
func (q *Queue) kill(e Entry, r Reason) {
	if !q.rules.DeadLetters {
		if e.Journaled {
			q.settled = append(q.settled, e.Seq)
		}
		return
	}
	q.dead = append(q.dead, Dead{e, r})
	if !q.burying {
		q.burying = true
		q.Pump.Schedule((*burial)(q))
	}
}

// burial is the pump's task of dead-lettering what a queue let die, in order,
// off the queue's lock.
type burial Queue

// burialBound is how many dead messages are published in one go.
const burialBound = 256

// Run implements Task.
func (b *burial) Run() (more bool) {
	q := (*Queue)(b)
	q.mu.Lock()
	n := min(len(q.dead), burialBound)
	batch := q.dead[:n:n]
	if q.dead = q.dead[n:]; len(q.dead) == 0 {
		q.dead = nil
	}
	if n == 0 {
		q.burying = false
	}
	q.mu.Unlock()
	if n > 0 {
		q.Bury(q, batch)
	}
	return n > 0
}

// Reject ends delivered entries that a consumer refused for good: they are
// dead-lettered or dropped.
func (q *Queue) Reject(entries []Entry) {
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
	for _, e := range entries {
		q.kill(e, Rejected)
	}
	q.flushSettled()
	q.released(entries)
}

// Touch says that the queue was used: a declare, active or passive, or a
// basic.get. It puts off the end of an unused queue.
func (q *Queue) Touch() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.touch()
}

// touch is Touch with mu held.
func (q *Queue) touch() {
	if q.rules.Expires == 0 || q.deleted || q.Clock == nil {
		return
	}
	q.idleSince = q.Clock.NowMillis()
	if q.idleTimer == nil {
		q.idleTimer = q.Clock.AfterFunc(MessageTime, q.idleWait(q.rules.Expires), q.idle)
	}
}

// idle is the timer's function: the queue goes if nobody has used it for its
// time, else the timer is set for what is left of it.
func (q *Queue) idle() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || q.rules.Expires == 0 {
		q.idleTimer = nil
		return
	}
	now := q.Clock.NowMillis()
	if len(q.consumers) > 0 {
		q.idleSince = now
	}
	if left := q.idleSince + q.rules.Expires - now; left > 0 {
		q.idleTimer.Reset(q.idleWait(left))
		return
	}
	q.idleTimer = nil
	q.Pump.Schedule((*lapse)(q))
}

// lapse is the pump's task of deleting a queue that nobody used.
type lapse Queue

// Run implements Task.
func (l *lapse) Run() (more bool) {
	q := (*Queue)(l)
	if q.Lapsed != nil {
		q.Lapsed(q)
	}
	return false
}

// DeleteIfLapsed deletes a queue that is unused for its x-expires still;
// false when it was used meanwhile or has gone.
func (q *Queue) DeleteIfLapsed() bool {
	q.mu.Lock()
	used := q.rules.Expires == 0 || len(q.consumers) > 0 || q.Clock.NowMillis() < q.idleSince+q.rules.Expires
	if used && !q.deleted {
		q.touch()
	}
	q.mu.Unlock()
	if used {
		return false
	}
	_, err := q.Delete(true, false)
	return err == nil
}

// stopTimers is for a queue that is being deleted. mu is held.
func (q *Queue) stopTimers() {
	for _, t := range []*Timer{q.expiryTimer, q.idleTimer, q.quorum.timer, q.stranded.timer} {
		if t != nil {
			t.Stop()
		}
	}
}

// setRules gives a new queue its rules.
func (q *Queue) setRules(r Rules) {
	q.rules = r
	q.ruled = r != NoRules()
	q.touch()
}

// mayServe says whether c may be in the turn: with a single active consumer
// only that one. mu is held.
func (q *Queue) mayServe(c *Consumer) bool {
	if !q.rules.SingleActive {
		return q.rules.MaxActive == 0 || c.elected
	}
	return q.single == c && !q.quorum.ending
}

// succeed finds the next single active consumer after c has gone: the highest
// priority, then the oldest. mu is held.
func (q *Queue) succeed(c *Consumer) {
	if q.single != c {
		return
	}
	q.single = nil
	for _, o := range q.consumers {
		if q.single == nil || o.Priority > q.single.Priority && (q.Quorum == nil || q.Quorum.Preempts) {
			q.single = o
		}
	}
	q.enthroned()
	// One that has not begun is served when its consume-ok has been sent.
	if q.single != nil && q.single.begun {
		q.rota.enter(q.single)
		q.serve()
	}
}

// SingleActive is the consumer that receives in a queue with a single active
// consumer; nil when there is none.
func (q *Queue) SingleActive() *Consumer {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.single
}
