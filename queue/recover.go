package queue

import (
	"fmt"

	"github.com/warrenmq/warren/persist"
)

// Recover fills a new durable queue with what its log holds. maybeDelivered:
// the last stop was not a clean one, so every message may have been handed
// out and is marked redelivered. shared keeps one Message for a record that
// several queues hold; the caller passes the same map for all queues. To be
// called before the queue is in use.
func (q *Queue) Recover(log *persist.Log, maybeDelivered bool, shared map[*persist.Record]*Message) error {
	return log.Recover(func(r persist.Recovered) error {
		m := shared[r.Record]
		if m == nil {
			var err error
			if m, err = recovered(r.Head, r.Body, r.Record); err != nil {
				return fmt.Errorf("recover queue %q in vhost %q: %w", q.Name, q.VHost, err)
			}
			shared[r.Record] = m
		}
		q.ready.push(Entry{
			Message: m, Seq: r.Seq, Expiry: r.Meta.Expiry,
			Priority:  uint8(min(int(r.Meta.Priority), q.MaxPriority)),
			Journaled: true, Deliveries: max(r.DeliveryCount, r.Returns.Total), Failures: r.Returns.Failed,
			Redelivered: r.Redelivered || maybeDelivered || r.Returns.Total > 0,
		})
		q.ruled = q.ruled || r.Meta.Expiry != 0
		q.nextSeq = max(q.nextSeq, r.Seq+1)
		return nil
	})
}

// Start applies the queue's rules to what was recovered: what has expired
// meanwhile dies. To be called once the queues are there that dead letters may
// go to.
func (q *Queue) Start() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tidy()
}

// Marks lists the waiting messages that were handed out before, for a clean
// stop.
func (q *Queue) Marks() []persist.Mark {
	q.mu.Lock()
	defer q.mu.Unlock()
	var marks []persist.Mark
	visit := func(e *Entry) {
		if e.Journaled && (e.Redelivered || e.Deliveries > 0) {
			marks = append(marks, persist.Mark{Seq: e.Seq, Redelivered: e.Redelivered, DeliveryCount: e.Deliveries})
		}
	}
	q.ready.each(visit)
	q.eachDelayed(visit)
	return marks
}
