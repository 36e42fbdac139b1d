package queue

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/warrenmq/warren/persist"
)

// ErrLoading: the message at the head is on disk and being read. See
// Queue.Await.
var ErrLoading = errors.New("the next message is being read from disk")

// pageSource reads messages back that a journal holds. A Journal that is none
// has its queue's persistent messages stay in memory.
type pageSource interface {
	// Read calls fn for each of these messages, in order; they rise, and none
	// is settled. With no lock held.
	Read(seqs []uint64, fn func(*persist.StoredMessage) error) error
}

// paging is a queue's part in the paging of backlogs. Guarded by Queue.mu,
// but for resident.
type paging struct {
	// Immutable.
	queue *Queue
	pager *Pager
	size  func(*Message) int64 // what a message counts in bytes

	resident atomic.Int64 // weight of the blocks in memory that count
	onDisk   int          // pages
	listed   bool         // the pager knows of the queue

	lowest  *block   // it is to be read first: a full queue drops from it
	loading bool     // the pager's pump has reading as a task
	wanted  bool     // somebody asked for more
	target  *block   // being read
	guard   *block   // read for a basic.get that has not come back for it yet
	waiting []func() // of Await
	owes    bool     // see oweDrops
}

// startPaging gives a new queue its part, if it has a pager.
func (q *Queue) startPaging() {
	if q.Pager == nil {
		return
	}
	order := readyOrder{properties: q.ready.properties}
	q.paging = &paging{queue: q, pager: q.Pager, size: order.size}
	q.ready.paging = q.paging
	for i := range q.ready.levels {
		q.ready.levels[i].fifo.limit = q.Pager.blockWeight
	}
}

// count has a block that is full count towards the budget.
func (p *paging) count(b *block) {
	if b.counted || b.page != nil {
		return
	}
	b.counted = true
	p.resident.Add(b.weight)
	if !p.listed {
		p.listed = true
		p.pager.list(p.queue)
	}
	p.pager.add(b.weight)
}

// discount is the opposite.
func (p *paging) discount(b *block) {
	b.counted = false
	if p.guard == b {
		p.guard = nil
	}
	p.resident.Add(-b.weight)
	p.pager.sub(b.weight)
}

// moved counts pages.
func (p *paging) moved(pages int) {
	p.onDisk += pages
	p.pager.onDisk.Add(int64(pages))
}

// pageOut writes out one page of a queue, with nothing held while it does.
// keep is how much at its head is to stay. gone false: nothing could go.
func (q *Queue) pageOut(keep int64) (gone bool, err error) {
	p, g := q.paging, q.Pager
	q.mu.Lock()
	f := q.coldRun(keep)
	if f == nil {
		if p.resident.Load() == 0 || q.deleted {
			p.listed = false
			g.unlist(q)
		}
		q.mu.Unlock()
		return false, nil
	}
	entries := g.entries[:0]
	for _, b := range g.run {
		b.leaving = true
		entries = append(entries, b.entries[b.start:b.end]...)
	}
	first, start := g.run[0], g.run[0].start
	q.mu.Unlock()

	out, err := p.write(entries)
	clear(entries)
	g.entries = entries[:0]
	if cap(entries) > settledKept {
		g.entries = nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// The first block leaves the queue before the others do, unless a selector
	// reaches into them.
	if gone = err == nil && first.leaving && first.start == start && f.holes == 0 && !q.deleted && !q.staysInMemory(); gone {
		p.replace(f, g.run, out)
	} else if err == nil {
		p.free(out)
	}
	for _, b := range g.run {
		b.leaving = false
	}
	clear(g.run)
	return gone, err
}

// coldRun finds blocks in a row that may go, collects them in Pager.run and
// gives their level; nil when there are none. mu is held.
func (q *Queue) coldRun(keep int64) *fifo {
	g := q.Pager
	if q.deleted || q.staysInMemory() {
		return nil
	}
	for i := q.ready.top; i >= 0; i-- {
		f := &q.ready.levels[i].fifo
		g.run = g.run[:0]
		weight := int64(0)
		for b := f.first; b != nil && weight < g.pageWeight; b = b.next {
			switch mayGo := b.counted && !b.leaving && b != q.paging.guard; {
			case mayGo && keep <= 0 && q.safe(b) && rises(g.run, b):
				g.run = append(g.run, b)
				weight += b.weight
			case len(g.run) > 0:
				return f
			default:
				keep -= b.weight
			}
		}
		if len(g.run) > 0 {
			return f
		}
	}
	return nil
}

// staysInMemory says that pages cannot do for a queue. With priorities and a
// limit that drops, which message goes depends on when it does, and a more
// important one may come while a page is read; the limit bounds what that
// takes. With aging the first message of every priority may be the next one,
// and with selectors any message. mu is held.
func (q *Queue) staysInMemory() bool {
	return q.hasSelectors() || q.rules.drops() && q.rules.limited() && len(q.ready.levels) > 1 || q.ready.ages()
}

// rises says that a block's messages are in the order of their numbers, and
// behind those of a run. In a quorum queue what came back may not be.
func rises(run []*block, b *block) bool {
	last := uint64(0)
	if n := len(run); n > 0 {
		last = run[n-1].entries[run[n-1].end-1].Seq
	}
	for i := b.start; i < b.end; i++ {
		if b.entries[i].Seq <= last {
			return false
		}
		last = b.entries[i].Seq
	}
	return true
}

// safe says whether a block's persistent messages can be read back. mu is
// held.
func (q *Queue) safe(b *block) bool {
	_, readable := q.Journal.(pageSource)
	for i := b.start; i < b.end; i++ {
		e := &b.entries[i]
		if e.Message == nil { // a hole that a selector left
			return false
		}
		if r := e.Message.record; e.Journaled && (!readable || r != nil && !r.Safe()) {
			return false
		}
	}
	return true
}

// write puts entries on disk as far as they are not, and sums them up. For
// the pass, with no lock held.
func (p *paging) write(entries []Entry) (*page, error) {
	out := new(page)
	buf := p.pager.buf[:0]
	for i := range entries {
		e := &entries[i]
		out.add(e, p.size(e.Message))
		if !e.Journaled {
			buf = appendTransient(buf, e)
		}
	}
	p.pager.buf = buf
	if cap(buf) > 4*pageWeight {
		p.pager.buf = nil
	}
	if len(buf) == 0 {
		return out, nil
	}
	var err error
	if out.transient, err = p.pager.pages.Write(buf); err != nil {
		return nil, fmt.Errorf("page out messages of queue %q in vhost %q: %w", p.queue.Name, p.queue.VHost, err)
	}
	return out, nil
}

// replace puts a page in the place of the blocks it was made of. mu is held.
func (p *paging) replace(f *fifo, run []*block, out *page) {
	first, last := run[0], run[len(run)-1]
	for _, b := range run {
		p.discount(b)
	}
	next := last.next
	*first = block{next: next, page: out}
	if f.last == last {
		f.last = first
	}
	p.moved(1)
}

// free gives up what only a page had. mu may be held.
func (p *paging) free(out *page) {
	if !out.transient.IsZero() {
		p.pager.pages.Free(out.transient)
	}
}

// eachPage visits every page that is on disk, in no promised order.
func (r *readyOrder) eachPage(visit func(*page)) {
	for i := range r.levels {
		for b := r.levels[i].fifo.first; b != nil; b = b.next {
			if b.page != nil {
				visit(b.page)
			}
		}
	}
}

// link appends a block.
func (f *fifo) link(b *block) {
	if f.last == nil {
		f.first = b
	} else {
		f.last.next = b
	}
	f.last = b
}

// came and gone account for messages of a page.
func (r *readyOrder) came(p *page, count int, bytes int64) {
	r.count += count
	r.bytes += bytes
	if r.priorities != nil {
		r.priorities.counts[p.level].Ready += count
	}
}

func (r *readyOrder) gone(p *page, count int, bytes int64) { r.came(p, -count, -bytes) }

// unlink takes an empty block out. mu is held.
func (r *readyOrder) unlink(b *block) {
	for i := range r.levels {
		f := &r.levels[i].fifo
		var before *block
		for o := f.first; o != nil; before, o = o, o.next {
			if o != b {
				continue
			}
			if before == nil {
				f.first = b.next
			} else {
				before.next = b.next
			}
			if f.last == b {
				f.last = before
			}
			return
		}
	}
}

// purgePages drops the pages on disk. journaled: some of their messages were
// in the journal. mu is held.
func (q *Queue) purgePages() (journaled bool) {
	if q.paging == nil || q.paging.onDisk == 0 {
		return false
	}
	var seqs []uint64
	q.dropPages(func(out *page) {
		if out.journaled.count > 0 {
			seqs = out.journaled.append(seqs[:0])
			q.Journal.Settle(seqs...)
			journaled = true
		}
	})
	return journaled
}

// dropPages takes all pages out of the order, after drop has seen them. mu is
// held.
func (q *Queue) dropPages(drop func(*page)) {
	p := q.paging
	for i := range q.ready.levels {
		f := &q.ready.levels[i].fifo
		var kept *block
		first := f.first
		f.first, f.last = nil, nil
		for b := first; b != nil; b = b.next {
			if b.page != nil {
				drop(b.page)
				q.ready.gone(b.page, b.page.count, b.page.bytes)
				p.free(b.page)
				p.moved(-1)
				continue
			}
			if kept == nil {
				f.first = b
			} else {
				kept.next = b
			}
			kept, f.last = b, b
		}
		if kept != nil {
			kept.next = nil
		}
	}
	p.target, p.lowest = nil, nil
}

// endPaging is for a queue that is being deleted. mu is held.
func (q *Queue) endPaging() {
	p := q.paging
	if p == nil {
		return
	}
	q.dropPages(func(*page) {})
	p.pager.sub(p.resident.Swap(0))
	if p.listed {
		p.listed = false
		p.pager.unlist(q)
	}
	p.guard = nil
	p.tell()
}
