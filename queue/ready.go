package queue

import "cmp"

// Entry is one message in one queue. It is a value: it moves from the ready
// order to the consumer's channel, and back when it is returned.
type Entry struct {
	Message *Message
	// Seq is the place in the queue: arrival order. A returned message keeps it.
	Seq uint64
	// Expiry is when the message expires in this queue, milliseconds of
	// message time since the Unix epoch; 0 is never.
	Expiry int64
	// Deliveries counts how often the message was handed out before.
	Deliveries uint32
	// Failures counts how many of these a quorum queue holds against it.
	Failures uint32
	// Reign is that of the single active consumer who has the message, in a
	// quorum queue.
	Reign uint32
	// Journaled says that the queue's journal holds the entry.
	Journaled bool
	// Redelivered says that the message may have been handed out before.
	Redelivered bool
	// Priority is the message's priority, capped by the queue's.
	Priority uint8
}

// readyOrder holds the messages that wait, in delivery order: highest
// priority first, arrival order inside a priority. A returned message goes
// back to its place. Guarded by the queue's mutex.
type readyOrder struct {
	levels []level // by priority; one for a queue without priorities
	top    int     // no level above it holds anything
	count  int
	bytes  int64 // of bodies
	first  fifo  // goes before all levels: what came back to a quorum queue
	// properties counts them in bytes.
	properties bool
	// priorities has what only a queue with priorities keeps; nil without.
	priorities *levels
	paging     *paging // nil for a queue that is all in memory
}

// level is one priority: arrivals in a FIFO, returned messages in a heap
// beside it. The smaller Seq of the two heads is next. A heap, because
// returns come in any order; the FIFO stays a FIFO and costs nothing more.
type level struct {
	fifo     fifo
	returned entryHeap
}

func newReadyOrder(priorities int) readyOrder {
	return readyOrder{levels: make([]level, priorities+1)}
}

func (r *readyOrder) push(e Entry) {
	f := &r.levelOf(e).fifo
	if r.paging != nil && f.last != nil && f.last.full() {
		r.paging.count(f.last)
	}
	f.push(e)
	r.added(e)
}

func (r *readyOrder) giveBack(e Entry) {
	l := r.levelOf(e)
	l.returned.push(e)
	r.added(e)
}

// giveBackFirst puts a returned entry before all that waits, behind those that
// were returned before it.
func (r *readyOrder) giveBackFirst(e Entry) {
	r.first.push(e)
	r.added(e)
}

// size is what an entry counts in bytes.
func (r *readyOrder) size(m *Message) int64 {
	if r.properties {
		return int64(len(m.Content) + len(m.Properties))
	}
	return int64(len(m.Content))
}

func (r *readyOrder) levelOf(e Entry) *level {
	p := int(e.Priority)
	if p > r.top {
		r.top = p
	}
	return &r.levels[p]
}

func (r *readyOrder) added(e Entry) {
	r.count++
	r.bytes += r.size(e.Message)
	if r.priorities != nil {
		r.priorities.counts[e.Priority].Ready++
	}
}

// head is the next entry, which stays; nil when nothing waits or when it is
// on disk (onDisk). Valid until the next change.
func (r *readyOrder) head() *Entry {
	if r.count == 0 {
		return nil
	}
	if e := r.first.head(); e != nil {
		return e
	}
	if r.ages() {
		return r.agedHead()
	}
	for {
		l := &r.levels[r.top]
		if e := l.head(); e != nil || l.fifo.first != nil {
			return e
		}
		r.top--
	}
}

// onDisk says that there is a head, but not in memory.
func (r *readyOrder) onDisk() bool {
	return r.paging != nil && r.paging.onDisk > 0 && r.count > 0 && r.head() == nil
}

// pop removes the head; there must be one in memory.
func (r *readyOrder) pop() Entry {
	if r.first.first != nil {
		return r.left(r.first.pop())
	}
	r.head() // moves top to a level that holds something
	return r.popLevel(r.top)
}

// nextExpiry is when the head expires; 0 when it does not. A queue has one
// head, whatever its priorities: what expired behind it waits its turn, as in
// RabbitMQ.
func (r *readyOrder) nextExpiry() int64 {
	if r.ages() {
		return r.agedExpiry()
	}
	if e := r.head(); e != nil {
		return e.Expiry
	}
	if r.count > 0 {
		return r.levels[r.top].fifo.first.page.expiry
	}
	return 0
}

// popExpired removes the head if it has expired at now.
func (r *readyOrder) popExpired(now int64) (Entry, bool) {
	if r.ages() {
		return r.popAgedExpired(now)
	}
	e := r.head()
	if e == nil || e.Expiry == 0 || e.Expiry > now {
		return Entry{}, false
	}
	return r.pop(), true
}

// left accounts for an entry that was removed.
func (r *readyOrder) left(e Entry) Entry {
	r.count--
	r.bytes -= r.size(e.Message)
	if r.priorities != nil {
		r.priorities.counts[e.Priority].Ready--
	}
	return e
}

// head is the level's next entry; nil when it is on disk or there is none.
func (l *level) head() *Entry {
	if l.returnedFirst() {
		return &l.returned[0]
	}
	return l.fifo.head()
}

// returnedFirst says that the next entry is a returned one.
func (l *level) returnedFirst() bool {
	if len(l.returned) == 0 {
		return false
	}
	b := l.fifo.first
	return b == nil || l.returned[0].Seq < b.firstSeq()
}

// pop removes the level's next entry, which is in memory.
func (l *level) pop(p *paging) Entry {
	if l.returnedFirst() {
		return l.returned.pop()
	}
	return l.popFirst(p)
}

// popFirst removes the first entry of the FIFO, which is in memory, and the
// holes behind it.
func (l *level) popFirst(p *paging) Entry {
	e := l.cut(p)
	for f := &l.fifo; f.holes > 0; {
		if h := f.head(); h == nil || h.Message != nil {
			break
		}
		f.holes--
		l.cut(p)
	}
	return e
}

// cut takes the first entry of the FIFO and may leave a hole at its head.
func (l *level) cut(p *paging) Entry {
	if b := l.fifo.first; b.counted && b.start+1 == b.end {
		p.discount(b)
	}
	return l.fifo.pop()
}

// fifo is a list of blocks: growing copies nothing, and a drained backlog
// gives its memory back block by block. One spent block is kept so that a
// queue that hovers around empty allocates nothing. first is nil or holds an
// entry, in memory or on disk.
type fifo struct {
	first, last *block
	spare       *block
	holes       int   // entries without a message that were taken from the middle: see selective.go
	limit       int64 // of blocks; 0: blockWeight
}

const (
	// blockEntries is how many entries a block takes.
	blockEntries = 64
	// blockWeight is the weight from which it takes no more, or less with a
	// small budget: blocks are what is paged out, and large bodies must not have
	// to wait for 63 others.
	blockWeight = 64 << 10
)

// block is entries in a row: in memory, or on disk (paging.go).
type block struct {
	next       *block
	start, end int   // of the entries that wait; equal when they are on disk
	weight     int64 // of all that were put into it, see weigh
	limit      int64 // weight from which it takes no more
	entries    []Entry
	page       *page // where the entries are; nil: in memory
	counted    bool  // its weight counts towards the broker's budget
	leaving    bool  // it is being written out
}

// full says that the next entry needs another block.
func (b *block) full() bool { return b.end == len(b.entries) || b.weight >= b.limit }

// firstSeq is the place of the first entry that waits.
func (b *block) firstSeq() uint64 {
	if b.page != nil {
		return b.page.first
	}
	return b.entries[b.start].Seq
}

func (f *fifo) push(e Entry) {
	if f.last == nil || f.last.full() {
		f.grow()
	}
	b := f.last
	b.entries[b.end] = e
	b.end++
	b.weight += weigh(e.Message)
}

func (f *fifo) grow() {
	b := f.spare
	f.spare = nil
	if b == nil {
		b = &block{entries: make([]Entry, blockEntries)}
	}
	b.limit = cmp.Or(f.limit, blockWeight)
	f.link(b)
}

// head is the first entry; nil when it is on disk or there is none.
func (f *fifo) head() *Entry {
	b := f.first
	if b == nil || b.start == b.end {
		return nil
	}
	return &b.entries[b.start]
}

// pop takes the first entry, which is in memory.
func (f *fifo) pop() Entry {
	b := f.first
	e := b.entries[b.start]
	b.entries[b.start].Message = nil
	b.start++
	if b.start == b.end {
		f.retire(b)
	}
	return e
}

// retire drops a block that has been read to its end. The last block is
// rewound in place, so first is nil or holds an entry.
func (f *fifo) retire(b *block) {
	f.first = b.next
	if f.first == nil {
		f.last = nil
	}
	if len(b.entries) == blockEntries {
		*b = block{entries: b.entries}
		f.spare = b
		return
	}
	b.next, b.leaving = nil, false
}

// entryHeap orders returned entries by Seq: a binary heap, the least first.
// Written out because container/heap would allocate for each entry.
type entryHeap []Entry

func (h *entryHeap) push(e Entry) {
	s := append(*h, e)
	i := len(s) - 1
	for i > 0 && s[(i-1)/2].Seq > e.Seq {
		s[i] = s[(i-1)/2]
		i = (i - 1) / 2
	}
	s[i] = e
	*h = s
}

// heapKept is the most entries of memory that an empty heap keeps.
const heapKept = 16

// pop removes the least; there must be one.
func (h *entryHeap) pop() Entry {
	s := *h
	least, last := s[0], s[len(s)-1]
	s[len(s)-1] = Entry{}
	s = s[:len(s)-1]
	if *h = s; len(s) == 0 {
		if cap(s) > heapKept {
			*h = nil
		}
		return least
	}
	i := 0
	for child := 1; child < len(s); child = 2*i + 1 {
		if child+1 < len(s) && s[child+1].Seq < s[child].Seq {
			child++
		}
		if s[child].Seq >= last.Seq {
			break
		}
		s[i] = s[child]
		i = child
	}
	s[i] = last
	return least
}

// each visits every waiting entry that is in memory, in no promised order.
func (r *readyOrder) each(visit func(*Entry)) {
	r.first.each(visit)
	for i := range r.levels {
		l := &r.levels[i]
		l.fifo.each(visit)
		for j := range l.returned {
			visit(&l.returned[j])
		}
	}
}

func (f *fifo) each(visit func(*Entry)) {
	for b := f.first; b != nil; b = b.next {
		for j := b.start; j < b.end; j++ {
			if b.entries[j].Message != nil {
				visit(&b.entries[j])
			}
		}
	}
}
