package stream

import (
	"sync"

	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// Log is one stream. It implements queue.Stream and, for the host's pump,
// queue.Task: the turn that writes what has gathered.
type Log struct {
	// Immutable.
	host  *Host
	id    uint64
	shelf shelf

	mu sync.Mutex

	// Guarded by mu.
	filterBytes int      // of a chunk to come
	full        []*chunk // filled, and not on their way yet
	open        *chunk   // being filled; nil: nothing waits
	scheduled   bool     // the pump has the log as a task
	inflight    int      // chunks on their way to the disk
	sealed      uint64   // offset of the next message
	committed   uint64   // offsets before it may be read
	last        uint64   // first offset of the last chunk that may be read
	lastTime    int64    // time of the chunk sealed last
	segments    segments
	retention   Retention
	expiry      *queue.Timer // for the next segment that will be too old
	readers     map[*queue.Consumer]*reader
	waiting     []*reader // have read everything
	unacked     int       // may be negative for the moment between a delivery and its count
	delivered   uint64
	closed      bool
}

// Append implements queue.Stream.
func (l *Log) Append(m *queue.Message) {
	head, body := int64(m.HeadSize()), int64(len(m.Content))
	value := filterValue(m.Properties)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.gather(m, head, body, value)
	if r := m.Journaled(); r != nil {
		r.Hold()
		l.open.records = append(l.open.records, r)
	}
	l.schedule()
}

// gather puts a message into the open chunk. mu is held.
func (l *Log) gather(m *queue.Message, head, body int64, value []byte) {
	if l.open != nil && !l.open.fits(persist.StoredSize(1, head, body)) {
		l.full = append(l.full, l.open)
		l.open = nil
	}
	if l.open == nil {
		l.open = &chunk{marks: make(filterSet, l.filterBytes)}
	}
	l.open.add(m, head, body)
	l.open.marks.add(value)
}

// schedule has the pump write what has gathered. While the store has a chunk
// of this log in hand, the next one fills. mu is held.
func (l *Log) schedule() {
	if l.open != nil && !l.scheduled && (l.inflight == 0 || len(l.full) > 0) {
		l.scheduled = true
		l.host.writing.Schedule(l)
	}
}

// Run implements queue.Task.
func (l *Log) Run() (more bool) {
	l.mu.Lock()
	l.scheduled = false
	chunks := l.seal()
	var ended []ended
	for _, c := range chunks {
		now, err := l.shelf.put(c, func(err error) { l.stored(c, err) })
		ended = l.put(ended, c, now, err)
	}
	l.mu.Unlock()
	for _, e := range ended {
		l.end(e)
	}
	return false
}

// AppendIn implements queue.Stream.
func (l *Log) AppendIn(g *persist.Group, messages []*queue.Message) (stored bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	// What came before the group goes before it.
	var all []ended
	for _, c := range l.seal() {
		now, err := l.shelf.put(c, func(err error) { l.stored(c, err) })
		all = l.put(all, c, now, err)
	}
	for _, m := range messages {
		l.gather(m, int64(m.HeadSize()), int64(len(m.Content)), filterValue(m.Properties))
	}
	for _, c := range l.seal() {
		now, err := l.shelf.putIn(g, c, func(err error) { l.stored(c, err) })
		all = l.put(all, c, now, err)
		stored = stored || !now && err == nil
	}
	l.endSoon(all)
	return stored
}

// seal gives what has gathered its offsets. mu is held.
func (l *Log) seal() []*chunk {
	chunks := l.full
	if l.open != nil {
		chunks = append(chunks, l.open)
	}
	l.full, l.open = nil, nil
	if len(chunks) > 0 {
		l.lastTime = max(l.lastTime, l.host.clock.NowMillis())
	}
	for _, c := range chunks {
		c.first, c.time = l.sealed, l.lastTime
		l.sealed = c.next()
	}
	return chunks
}

// ended is a chunk whose way to the shelf is over, and what follows from it
// once the lock is let go.
type ended struct {
	chunk   *chunk
	err     error
	records []*persist.Record
}

// put notes that the shelf took a chunk. mu is held.
func (l *Log) put(all []ended, c *chunk, now bool, err error) []ended {
	if !now && err == nil {
		l.inflight++
		return all
	}
	return append(all, l.commit(c, err))
}

// stored is the store's word on a chunk.
func (l *Log) stored(c *chunk, err error) {
	if err == nil {
		l.host.cache.put(l.id, c) // before its readers wake
	}
	l.mu.Lock()
	l.inflight--
	e := l.commit(c, err)
	l.schedule()
	l.mu.Unlock()
	l.end(e)
}

// commit lets a chunk be read and wakes those who wait for it. mu is held.
func (l *Log) commit(c *chunk, err error) ended {
	e := ended{chunk: c, err: err, records: c.records}
	c.records = nil
	if err != nil || l.closed {
		return e
	}
	l.committed, l.last = c.next(), c.first
	for _, r := range l.waiting {
		r.waits = false
		r.kick()
	}
	l.waiting = nil
	if l.segments.add(c) {
		l.expire()
	}
	return e
}

// end tells the publishers.
func (l *Log) end(e ended) {
	l.host.store.ReleaseAll(e.records, e.err)
	if _, inMemory := l.shelf.(*memoryShelf); inMemory && e.chunk != nil {
		e.chunk.deliverable(l.host) // lets the publishers' own messages go
	}
}

// ending is the pump's task of ending chunks off everybody's locks.
type ending struct {
	log *Log
	all []ended
}

// Run implements queue.Task.
func (e *ending) Run() (more bool) {
	for _, one := range e.all {
		e.log.end(one)
	}
	return false
}

// endSoon has the pump end chunks.
func (l *Log) endSoon(all []ended) {
	if len(all) > 0 {
		l.host.writing.Schedule(&ending{l, all})
	}
}

// expire applies the retention. mu is held.
func (l *Log) expire() {
	now := l.host.clock.NowMillis()
	if freed := l.segments.expire(l.retention, now); freed > 0 {
		l.shelf.trim(l.segments.list[0].first, freed)
	}
	wait, due := l.segments.nextExpiry(l.retention, now)
	switch {
	case !due:
	case l.expiry == nil:
		l.expiry = l.host.clock.AfterFunc(queue.MessageTime, wait, l.tooOld)
	default:
		l.expiry.Reset(wait)
	}
}

// tooOld is the timer's function.
func (l *Log) tooOld() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.expire()
	}
}

// Configure changes what the stream was opened with, ID and Stored excepted:
// what is kept, at once; the sizes of segments and filter sets for those to
// come.
func (l *Log) Configure(c Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.configure(c)
	if !l.closed {
		l.expire()
	}
}

// configure is Configure without effect on what is there. mu is held, or
// nobody has the log yet.
func (l *Log) configure(c Config) {
	l.retention = c.Retention
	l.segments.full = c.SegmentBytes
	if c.SegmentBytes == 0 {
		l.segments.full = segmentBytes
	}
	switch {
	case c.FilterBytes == 0:
		l.filterBytes = filterBytes
	case c.FilterBytes > 0:
		l.filterBytes = min(c.FilterBytes, maxFilterBytes)
	default:
		l.filterBytes = 0
	}
}

// Close implements queue.Stream.
func (l *Log) Close() {
	l.mu.Lock()
	l.closed = true
	if l.expiry != nil {
		l.expiry.Stop()
	}
	readers := l.readers
	l.readers, l.waiting = nil, nil
	var never ended
	for _, c := range append(l.full, l.open) {
		if c != nil {
			never.records = append(never.records, c.records...)
		}
	}
	l.full, l.open = nil, nil
	l.mu.Unlock()
	for _, r := range readers {
		r.close()
	}
	if len(never.records) > 0 {
		l.endSoon([]ended{never}) // confirmed: a queue that has gone took them
	}
	l.host.forget(l)
}

// Settled implements queue.Stream.
func (l *Log) Settled(n int) {
	l.mu.Lock()
	l.unacked -= n
	l.mu.Unlock()
}

// begins is the offset of the oldest message, or of the next one to come. mu
// is held.
func (l *Log) begins() uint64 {
	if len(l.segments.list) == 0 {
		return l.committed
	}
	return l.segments.list[0].first
}

// Counts implements queue.Stream.
func (l *Log) Counts(n *queue.Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.Ready, n.ReadyBytes = int(l.committed-l.begins()), l.segments.bytes
	n.Unacked, n.Delivered = max(0, l.unacked), l.delivered
}

// Offsets are those of the oldest message and of the next one to come.
func (l *Log) Offsets() (first, next uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begins(), l.committed
}
