package queue

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
	r.levelOf(e).fifo.push(e)
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

// head is the next entry, which stays; nil when nothing waits. Valid until
// the next change.
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
		if e := r.levels[r.top].head(); e != nil {
			return e
		}
		r.top--
	}
}

// pop removes the head; there must be one.
func (r *readyOrder) pop() Entry {
	if r.first.first != nil {
		return r.left(r.first.pop())
	}
	r.head() // moves top to a level that holds something
	return r.left(r.levels[r.top].pop())
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

func (l *level) head() *Entry {
	f := l.fifo.head()
	if len(l.returned) > 0 && (f == nil || l.returned[0].Seq < f.Seq) {
		return &l.returned[0]
	}
	return f
}

func (l *level) pop() Entry {
	f := l.fifo.head()
	if len(l.returned) > 0 && (f == nil || l.returned[0].Seq < f.Seq) {
		return l.returned.pop()
	}
	return l.fifo.pop()
}

// fifo is a list of fixed blocks: growing copies nothing, and a drained
// backlog gives its memory back block by block. One spent block is kept so
// that a queue that hovers around empty allocates nothing.
type fifo struct {
	first, last *block
	spare       *block
	holes       int // entries without a message that were taken from the middle: see selective.go
}

const blockEntries = 64

type block struct {
	next       *block
	start, end int
	entries    [blockEntries]Entry
}

func (f *fifo) push(e Entry) {
	if f.last == nil || f.last.end == blockEntries {
		f.grow()
	}
	b := f.last
	b.entries[b.end] = e
	b.end++
}

func (f *fifo) grow() {
	b := f.spare
	f.spare = nil
	if b == nil {
		b = new(block)
	}
	if f.last == nil {
		f.first = b
	} else {
		f.last.next = b
	}
	f.last = b
}

func (f *fifo) head() *Entry {
	if f.first == nil {
		return nil
	}
	return &f.first.entries[f.first.start]
}

func (f *fifo) pop() Entry {
	e := f.cut()
	if f.holes > 0 {
		f.skip()
	}
	return e
}

// cut is pop that may leave a hole at the head.
func (f *fifo) cut() Entry {
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
	b.next, b.start, b.end = nil, 0, 0
	f.spare = b
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

// each visits every waiting entry, in no promised order.
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
