package queue

import (
	"errors"
	"fmt"

	"github.com/warrenmq/warren/persist"
)

// Recover gives a new durable queue the summary of what its log holds, a page
// for each megabyte or so, which is read when it comes near the head; without
// a Pager the messages themselves. maybeDelivered: the last stop was not a
// clean one, so every message may have been handed out and is marked
// redelivered. To be called before the queue is in use.
func (q *Queue) Recover(log *persist.Log, maybeDelivered bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := recovery{q: q, maybeDelivered: maybeDelivered, open: make([]openPage, len(q.ready.levels))}
	r.pageWeight = pageWeight
	if q.Pager != nil {
		r.pageWeight = q.Pager.pageWeight
	}
	log.Survey(r.add)
	for priority := range r.open {
		r.close(priority)
	}
	exact := q.ready.properties && q.rules.MaxBytes >= 0 // see size
	if q.paging != nil && !q.staysInMemory() && !exact {
		return nil
	}
	if err := q.readAll(); err != nil {
		return fmt.Errorf("recover queue %q in vhost %q: %w", q.Name, q.VHost, err)
	}
	return nil
}

// recovery is the state of Recover.
type recovery struct {
	q              *Queue
	maybeDelivered bool
	pageWeight     int64
	open           []openPage // the last page of each priority
}

// openPage is a page in the making.
type openPage struct {
	page   *page
	weight int64
}

// add puts a message into the last page of its priority.
func (r *recovery) add(m *persist.Surveyed) {
	q := r.q
	e := Entry{
		Seq: m.Seq, Expiry: m.Meta.Expiry, Deliveries: max(m.DeliveryCount, m.Returns.Total), Journaled: true,
		Redelivered: m.Redelivered || r.maybeDelivered || m.Returns.Total > 0,
		Priority:    uint8(min(int(m.Meta.Priority), q.MaxPriority)),
	}
	o := &r.open[e.Priority]
	if o.weight >= r.pageWeight {
		r.close(int(e.Priority))
	}
	if o.page == nil {
		o.page = new(page)
	}
	o.page.add(&e, r.size(m))
	o.weight += entryWeight + int64(m.Head) + int64(m.Body)
	q.ruled = q.ruled || e.Expiry != 0
	q.nextSeq = max(q.nextSeq, e.Seq+1)
}

// size is what a message counts in bytes. Where its properties count, it is a
// little too much until the message is read: the stored head has its exchange
// and routing key too.
func (r *recovery) size(m *persist.Surveyed) int64 {
	if r.q.ready.properties {
		return int64(m.Body) + int64(m.Head) - (headFixed + 2)
	}
	return int64(m.Body)
}

// close puts the last page of a priority into the order.
func (r *recovery) close(priority int) {
	o := &r.open[priority]
	if o.page == nil {
		return
	}
	ready := &r.q.ready
	ready.levels[priority].fifo.link(&block{page: o.page})
	ready.top = max(ready.top, priority)
	ready.came(o.page, o.page.count, o.page.bytes)
	if p := r.q.paging; p != nil {
		p.moved(1)
	}
	*o = openPage{}
}

// readAll reads all pages, for a queue that keeps everything in memory. mu is
// held, but nobody uses the queue yet.
func (q *Queue) readAll() error {
	for i := range q.ready.levels {
		for b := q.ready.levels[i].fifo.first; b != nil; b = b.next {
			entries, err := q.readPage(b.page)
			if err != nil {
				return err
			}
			if len(entries) != b.page.count {
				return errors.New("messages are missing")
			}
			q.install(b, entries)
		}
	}
	return nil
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
	q.ready.eachPage(func(out *page) {
		out.eachMark(func(m persist.Mark) { marks = append(marks, m) })
	})
	return marks
}
