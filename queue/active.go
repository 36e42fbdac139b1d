package queue

import "fmt"

// Active and backup consumers: the first Rules.MaxActive consumers of a queue
// receive, the next Rules.MaxBackup wait and step in when an active one goes,
// and one more is refused. It is what the Sun Message Queue had for its
// queues; a single active consumer is the case of one active consumer and any
// number of backups.
//
// Who steps in: the highest x-priority, of equals the oldest. A backup never
// takes the place of an active consumer that stays, whatever its priority.

// FullError says that a queue has all the consumers that its limits allow.
type FullError struct{ Active, Backup int }

// Error names the limits.
func (e *FullError) Error() string {
	return fmt.Sprintf("queue has its %d active and %d backup consumers", e.Active, e.Backup)
}

// crowded is the refusal of one more consumer; nil when there is room. mu is
// held.
func (q *Queue) crowded() error {
	r := &q.rules
	if r.MaxActive == 0 || r.MaxBackup < 0 || len(q.consumers) < r.MaxActive+r.MaxBackup {
		return nil
	}
	return &FullError{Active: r.MaxActive, Backup: r.MaxBackup}
}

// elect makes a new consumer active if a place is free. mu is held.
func (q *Queue) elect(c *Consumer) {
	if q.rules.MaxActive > 0 && q.elected < q.rules.MaxActive {
		c.elected = true
		q.elected++
	}
}

// replace gives the place of a consumer that has left to a backup. mu is held.
func (q *Queue) replace(c *Consumer) {
	if !c.elected {
		return
	}
	c.elected = false
	q.elected--
	var next *Consumer
	for _, o := range q.consumers {
		if !o.elected && (next == nil || o.Priority > next.Priority) {
			next = o
		}
	}
	if next == nil {
		return
	}
	next.elected = true
	q.elected++
	// One that has not begun is served when its consume-ok has been sent.
	if next.begun {
		q.rota.enter(next)
		q.serve()
	}
}

// ActiveConsumers lists the consumers that receive, in the order they came:
// all of them, but in a queue with a limit on active consumers, or with a
// single one.
func (q *Queue) ActiveConsumers() []*Consumer {
	q.mu.Lock()
	defer q.mu.Unlock()
	var active []*Consumer
	for _, c := range q.consumers {
		if q.mayServe(c) {
			active = append(active, c)
		}
	}
	return active
}
