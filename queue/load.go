package queue

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/warrenmq/warren/persist"
)

// fetch has the page at the head read, or the one behind the messages in
// memory. mu is held.
func (q *Queue) fetch() {
	p := q.paging
	p.wanted = true
	if !p.loading {
		p.loading = true
		p.pager.pump.Schedule((*load)(q))
	}
}

// readAhead has the next page read while the messages before it are being
// delivered, unless memory is short. mu is held.
func (q *Queue) readAhead() {
	if p := q.paging; p != nil && p.onDisk > 0 {
		p.readAhead(q)
	}
}

// readAhead is Queue.readAhead of a queue with pages.
func (p *paging) readAhead(q *Queue) {
	p.guard = nil
	if p.pager.resident.Load() <= p.pager.budget/8*7 && q.nextPage() != nil {
		q.fetch()
	}
}

// nextPage is the page that is at the head, or the next one behind it; nil
// when it is further. mu is held.
func (q *Queue) nextPage() *block {
	if b := q.paging.lowest; b != nil {
		return b
	}
	if q.hasSelectors() {
		return q.ready.anyPage()
	}
	for i := q.ready.top; i >= 0; i-- {
		l := &q.ready.levels[i]
		b := l.fifo.first
		if b == nil {
			if len(l.returned) > 0 {
				return nil
			}
			continue
		}
		if b.page == nil {
			b = b.next
		}
		if b == nil || b.page == nil {
			return nil
		}
		return b
	}
	return nil
}

// anyPage is the first block that is on disk; nil when there is none.
func (r *readyOrder) anyPage() *block {
	for i := range r.levels {
		for b := r.levels[i].fifo.first; b != nil; b = b.next {
			if b.page != nil {
				return b
			}
		}
	}
	return nil
}

// Await calls fn, which must not block and not call the queue, once the head
// can be taken or there is none any more: for a Get that was answered with
// ErrLoading, which is then to be tried again.
func (q *Queue) Await(fn func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || !q.ready.onDisk() {
		fn()
		return
	}
	q.paging.waiting = append(q.paging.waiting, fn)
	q.fetch()
}

// load is the pump's task of reading pages of a queue.
type load Queue

// Run implements Task.
func (l *load) Run() (more bool) {
	q := (*Queue)(l)
	p := q.paging
	q.mu.Lock()
	p.wanted = false
	b := q.nextPage()
	if b == nil || q.deleted {
		p.loading = false
		p.tell()
		q.mu.Unlock()
		return false
	}
	p.target = b
	out := b.page
	p.pager.swollen.Store(true)
	q.mu.Unlock()

	entries, err := q.readPage(out)

	q.mu.Lock()
	defer q.mu.Unlock()
	if p.target == b && !q.deleted {
		if err != nil {
			p.report(out, len(entries), err)
		}
		q.install(b, entries)
		if q.hasSelectors() {
			for i := range entries {
				q.index(&entries[i])
			}
			p.wanted = p.wanted || p.onDisk > 0
		}
		if len(p.waiting) > 0 {
			p.guard = b
		}
		q.tidy()
		q.serve()
	}
	if p.lowest == b {
		p.lowest = nil
	}
	p.target = nil
	p.tell()
	if !p.wanted {
		p.loading = false
	}
	return p.wanted
}

// tell wakes who waits for the head, unless it is on disk still. mu is held.
func (p *paging) tell() {
	if !p.queue.deleted && p.queue.ready.onDisk() {
		if len(p.waiting) > 0 {
			p.wanted = true
		}
		return
	}
	for _, fn := range p.waiting {
		fn()
	}
	p.waiting = nil
}

// install puts what was read in the place of its page. mu is held.
func (q *Queue) install(b *block, entries []Entry) {
	p, was := q.paging, b.page
	bytes := int64(0)
	for i := range entries {
		bytes += q.ready.size(entries[i].Message)
		b.weight += weigh(entries[i].Message)
	}
	q.ready.gone(was, was.count-len(entries), was.bytes-bytes)
	b.page, b.entries, b.start, b.end = nil, entries, 0, len(entries)
	if p != nil {
		p.moved(-1)
		p.free(was)
	}
	if len(entries) == 0 { // nothing of it could be read
		q.ready.unlink(b)
	} else if p != nil {
		p.count(b)
	}
}

// readPage reads the entries of a page. What cannot be read is left out; of the
// journal it is not settled, so that it is there again when the disk is. With
// no lock held.
func (q *Queue) readPage(out *page) ([]Entry, error) {
	entries := make([]Entry, 0, out.count)
	var r restorer
	var journalErr, transientErr error
	if out.journaled.count > 0 {
		entries, journalErr = q.readJournaled(&r, out, entries)
	}
	if !out.transient.IsZero() {
		entries, transientErr = q.readTransient(&r, out, entries)
	}
	if 0 < out.journaled.count && out.journaled.count < out.count {
		slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return entries, errors.Join(journalErr, transientErr)
}

// readJournaled reads the entries that the journal holds; when that fails, one
// by one, so that a damaged one costs no other.
func (q *Queue) readJournaled(r *restorer, out *page, entries []Entry) ([]Entry, error) {
	marks := out.marks
	add := func(m *persist.StoredMessage) error {
		message, err := r.message(m.Head, m.Body)
		if err != nil {
			return fmt.Errorf("message %d: %w", m.Seq, err)
		}
		e := Entry{
			Message: message, Seq: m.Seq, Expiry: m.Meta.Expiry, Journaled: true, Redelivered: out.redelivered,
			Priority: uint8(min(int(m.Meta.Priority), q.MaxPriority)),
		}
		for len(marks) > 0 && marks[0].Seq < m.Seq {
			marks = marks[1:]
		}
		if len(marks) > 0 && marks[0].Seq == m.Seq {
			e.Redelivered, e.Deliveries = marks[0].Redelivered, marks[0].DeliveryCount
		}
		e.Deliveries, e.Failures = max(e.Deliveries, m.Returns.Total), m.Returns.Failed
		e.Redelivered = e.Redelivered || m.Returns.Total > 0
		entries = append(entries, e)
		return nil
	}
	source := q.Journal.(pageSource) // else nothing would have been left to it
	seqs := out.journaled.append(nil)
	err := source.Read(seqs, add)
	if err == nil {
		return entries, nil
	}
	errs := []error{err}
	for _, seq := range seqs[len(entries):] {
		if err := source.Read([]uint64{seq}, add); err != nil && len(errs) < loggedErrors {
			errs = append(errs, err)
		}
	}
	return entries, errors.Join(errs...)
}

// loggedErrors is the most errors of one page that are logged.
const loggedErrors = 5

// readTransient reads the entries that were written out.
func (q *Queue) readTransient(r *restorer, out *page, entries []Entry) ([]Entry, error) {
	b, err := q.Pager.pages.Read(out.transient, nil)
	for err == nil && len(b) > 0 {
		var e Entry
		var head, body []byte
		if e, head, body, b, err = parseTransient(b); err == nil {
			if e.Message, err = r.message(head, body); err == nil {
				entries = append(entries, e)
			}
		}
	}
	return entries, err
}

// report logs that messages of a page could not be read.
func (p *paging) report(out *page, found int, err error) {
	p.pager.log.Error("messages cannot be read back and are passed over",
		"vhost", p.queue.VHost, "queue", p.queue.Name, "messages", out.count-found, "of", out.count, "error", err)
}
