package queue

import "time"

// Dead-lettering at least once (x-dead-letter-strategy): a dead message that
// nothing takes, because its dead-letter exchange is missing or routes it
// nowhere or the queues there are full, stays where it died, out of the
// consumers' reach, and is tried again. It counts to the limit at which the
// queue refuses more, which is why that strategy needs such a limit's mode.

// strandRetry is how long stranded messages rest between two tries.
const strandRetry = 10 * time.Second

// stranded is what a queue could not bury. Guarded by the queue's mutex.
type stranded struct {
	dead  []Dead
	bytes int64
	timer *Timer
	armed bool
}

// BuriesSurely says whether dead messages that nothing takes are to be
// stranded. Any goroutine.
func (q *Queue) BuriesSurely() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rules.AtLeastOnce
}

// Strand keeps dead messages that Config.Bury could not deliver; they are given
// to it again later, the oldest first, and the others once those were taken.
// Any goroutine, with no lock held.
func (q *Queue) Strand(dead []Dead) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || len(dead) == 0 {
		return
	}
	s := &q.stranded
	for i := range dead {
		s.bytes += q.ready.size(dead[i].Message)
	}
	s.dead = append(s.dead, dead...)
	q.tidy()
	if s.armed || q.Clock == nil {
		return
	}
	s.armed = true
	if s.timer == nil {
		s.timer = q.Clock.AfterFunc(MessageTime, strandRetry, q.retryStranded)
		return
	}
	s.timer.Reset(strandRetry)
}

// retryStranded is the timer's function.
func (q *Queue) retryStranded() {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &q.stranded
	s.armed = false
	if q.deleted || len(s.dead) == 0 {
		return
	}
	n := min(len(s.dead), burialBound)
	for i := range s.dead[:n] {
		s.bytes -= q.ready.size(s.dead[i].Message)
	}
	q.dead = append(q.dead, s.dead[:n]...)
	clear(s.dead[:n])
	if s.dead = s.dead[n:]; len(s.dead) == 0 {
		s.dead = nil
	} else {
		s.armed = true
		s.timer.Reset(strandRetry)
	}
	if !q.burying {
		q.burying = true
		q.Pump.Schedule((*burial)(q))
	}
}

// Stranded is how many dead messages wait for somebody to take them.
func (q *Queue) Stranded() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.stranded.dead)
}
