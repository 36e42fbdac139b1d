package queue

// SetRules gives the queue other rules: a policy came, changed or went. They
// hold at once, also for what waits: a shorter queue drops from its head, as
// after a publish, and a new x-expires counts from now. Messages keep the time
// to live that they were given when they came. Whether there is a single active
// consumer, and how many are active, is decided when the queue is made and cannot
// change. Any goroutine; on a queue that has gone it does nothing.
func (q *Queue) SetRules(r Rules) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return
	}
	idle := q.rules.Expires != r.Expires
	r.SingleActive, r.MaxActive, r.MaxBackup = q.rules.SingleActive, q.rules.MaxActive, q.rules.MaxBackup
	overflow := q.rules.Overflow
	q.rules = r
	// Once there were rules something may wait that expires.
	q.ruled = q.ruled || r != NoRules()
	if idle {
		if q.idleTimer != nil {
			q.idleTimer.Stop()
			q.idleTimer = nil
		}
		q.touch()
	}
	if overflow == DropHead && !r.drops() {
		// RabbitMQ takes up the limits before the mode, so that a queue which has
		// dropped so far drops once more before it refuses.
		q.rules.Overflow = DropHead
		q.tidy()
		q.oweDrops()
		q.rules.Overflow = r.Overflow
	}
	q.tidy()
}

// Rules are the queue's rules of the moment. Any goroutine.
func (q *Queue) Rules() Rules {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rules
}
