package queue

import "math"

// LevelCount are the figures of one priority of a queue.
type LevelCount struct {
	Priority int
	// Ready is how many messages wait.
	Ready int
	// Delivered counts deliveries, to consumers and to basic.get, Redelivered
	// those of them whose message had been handed out before.
	Delivered, Redelivered uint64
	// WaitedMillis is how long, in milliseconds of message time, the messages
	// of the first deliveries waited, all together: divided by Delivered less
	// Redelivered it is the mean.
	WaitedMillis int64
}

// levels is what only a queue with priorities keeps: figures for each of
// them, and when its messages came. Guarded by the queue's mutex.
//
// With aging, a waiting message rises one priority each period. Nothing moves
// for that and no timer runs: messages stay in the order of their own
// priority, of which the first is the oldest and so has risen furthest. The
// next message is the one that has risen highest among the first ones; of
// equals the oldest. So it is decided at the moment of a delivery, exactly,
// and costs a look at each priority.
type levels struct {
	counts []LevelCount
	births births
	aging  int64 // milliseconds a level; 0: none
	now    int64 // message time, read once for each bounded piece of work
}

// newLevels makes what a queue of this configuration needs; nil without
// priorities, and for a quorum queue, which may have them without being asked.
func newLevels(c *Config) *levels {
	if c.MaxPriority == 0 || c.Quorum != nil {
		return nil
	}
	l := &levels{counts: make([]LevelCount, c.MaxPriority+1), aging: c.Aging}
	for i := range l.counts {
		l.counts[i].Priority = i
	}
	var horizon int64
	if c.Clock != nil {
		l.now = c.Clock.NowMillis()
		if l.aging > 0 && l.aging < math.MaxInt64/int64(c.MaxPriority) {
			horizon = l.aging * int64(c.MaxPriority)
		}
	}
	l.births = newBirths(c.MaxPriority+1, horizon, l.now)
	return l
}

// tick reads the time for what follows. mu is held.
func (q *Queue) tick() {
	if l := q.ready.priorities; l != nil && q.Clock != nil {
		l.now = q.Clock.NowMillis()
	}
}

// born notes when a message came. mu is held.
func (q *Queue) born(seq uint64) {
	l := q.ready.priorities
	if l == nil || q.Clock == nil {
		return
	}
	l.now = q.Clock.NowMillis()
	if q.ready.count == 0 && q.unacked == 0 {
		l.births.reset(l.now)
	}
	l.births.note(seq, l.now, q.oldest)
}

// oldest is a number below which no message of the queue is. mu is held.
func (q *Queue) oldest() uint64 {
	if q.unacked > 0 {
		return 0 // it may come back
	}
	seq := q.nextSeq
	for i := range q.ready.levels {
		l := &q.ready.levels[i]
		if e := l.head(); e != nil {
			seq = min(seq, e.Seq)
		} else if l.fifo.first != nil { // on disk
			seq = min(seq, l.fifo.first.firstSeq())
		}
	}
	return seq
}

// handedOut counts a delivery. mu is held.
func (q *Queue) handedOut(e *Entry) {
	l := q.ready.priorities
	if l == nil {
		return
	}
	n := &l.counts[e.Priority]
	n.Delivered++
	switch {
	case e.Deliveries > 0 || e.Redelivered:
		n.Redelivered++
	case e != &q.offered && q.Clock != nil: // that one has not waited
		n.WaitedMillis += max(0, l.now-l.births.at(e.Seq))
	}
}

// LevelCounts reads the figures of each priority, the lowest first; nil for a
// queue without priorities.
func (q *Queue) LevelCounts() []LevelCount {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ready.priorities == nil {
		return nil
	}
	return append([]LevelCount(nil), q.ready.priorities.counts...)
}

// ages says whether messages rise.
func (r *readyOrder) ages() bool { return r.priorities != nil && r.priorities.aging > 0 }

// rank is how high a message of some priority has risen.
func (l *levels) rank(e *Entry) int64 {
	risen := max(0, l.now-l.births.at(e.Seq)) / l.aging
	return min(int64(e.Priority)+risen, int64(len(l.counts)-1))
}

// agedHead is head with aging. It leaves top at the priority whose first
// message it is.
func (r *readyOrder) agedHead() *Entry {
	var best *Entry
	var highest int64
	for i := len(r.levels) - 1; i >= 0; i-- {
		e := r.levels[i].head()
		if e == nil || best != nil && e.Seq > best.Seq {
			continue // a younger one of a lower priority cannot have overtaken
		}
		if rank := r.priorities.rank(e); best == nil || rank >= highest {
			best, highest, r.top = e, rank, i
		}
	}
	return best
}

// agedExpiry is nextExpiry with aging, where the first message of every
// priority may be next: the earliest of their times.
func (r *readyOrder) agedExpiry() (due int64) {
	for i := range r.levels {
		if e := r.levels[i].head(); e != nil && e.Expiry != 0 && (due == 0 || e.Expiry < due) {
			due = e.Expiry
		}
	}
	return due
}

// popAgedExpired is popExpired with aging.
func (r *readyOrder) popAgedExpired(now int64) (Entry, bool) {
	for i := range r.levels {
		if e := r.levels[i].head(); e != nil && e.Expiry != 0 && e.Expiry <= now {
			return r.popLevel(i), true
		}
	}
	return Entry{}, false
}
