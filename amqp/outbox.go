package amqp

import (
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// outbox holds what a connection has to write. Two lanes: bulk for methods
// with content (deliveries, get-ok, returns), and control for replies, confirms
// and heartbeats, which are written before all of bulk unless their own channel
// has something waiting there: the order within a channel is never changed.
// That is the flow metering of the Sun Message Queue's connections: however
// slow the client reads, at most one write call of bulk (writeBound) and what
// the kernel holds (see limitUnsent) stand before a control frame of another
// channel.
//
// Frames are encoded straight into pooled chunks; long bodies go by
// reference. A goroutine writes while there is something to write and ends
// when there is not, so an idle connection has none.
//
// Any goroutine may append. Lock order: the outbox's mutex comes after a
// queue's and a channel's.
type outbox struct {
	// Immutable.
	socket   net.Conn
	frameMax atomic.Uint32 // of the peer; set once by the handshake
	budget   *budget
	late     *late
	raw      syscall.RawConn           // for writing without waiting; nil where that cannot be
	onRoom   func(starved []*consumer) // consumers may be served again; off the lock
	onClosed func(error)               // the writer has ended: nil after closeWhenWritten, else why

	written atomic.Uint64 // bytes ever written, for heartbeats

	// Guarded by mu.
	mu      sync.Mutex
	room    sync.Cond // queued fell, or closed
	control lane
	bulk    lane
	queued  int    // bytes in both lanes or being written, by reference or not
	bulkIn  uint64 // bytes ever appended to bulk
	bulkOut uint64 // bytes of bulk ever handed to the writer
	writing bool   // the writer goroutine runs
	waits   bool   // in late: the end of a batch writes what is queued
	held    bool   // appends do not start the writer: its own reader is in a batch
	closed  bool   // appends are dropped
	finish  bool   // close the socket once everything is written
	starved []*consumer
	failed  error

	// Owned by the writer goroutine.
	iov      [][]byte
	recycled [][]byte
	buffers  net.Buffers
}

const (
	// writeBound is the most bytes handed to one write call, unless a single
	// frame is larger.
	writeBound = 128 << 10
	// copyLimit is the longest body that is copied into a chunk; a longer one
	// is written from where it is, however small the frames are.
	copyLimit = 4 << 10
)

// budget is what all outboxes of a server may hold before each gets little.
type budget struct{ queued atomic.Int64 }

const (
	outboxLimit       = 1 << 20  // above it consumers lose credit
	outboxLimitScarce = 16 << 10 // the same, when the budget is used up
	budgetBytes       = 16 << 20 // of all outboxes together
	readLimitFactor   = 2        // times the limit: the connection is not read any more
)

func (b *budget) scarce() bool { return b.queued.Load() > budgetBytes }

func (b *budget) limit() int {
	if b.scarce() {
		return outboxLimitScarce
	}
	return outboxLimit
}

// lanePosition is where in the bulk lane a channel's last delivery ends.
// Guarded by the outbox's mutex.
type lanePosition struct{ end uint64 }

// init readies an outbox for a socket.
func (o *outbox) init(socket net.Conn, b *budget, l *late) {
	o.socket, o.budget, o.late, o.raw = socket, b, l, rawSocket(socket)
	o.room.L = &o.mu
	o.frameMax.Store(minFrameMax)
}

// laneFor picks the lane of a control frame: behind its channel's own
// deliveries, else past everybody's. mu is held.
func (o *outbox) laneFor(p *lanePosition) *lane {
	o.control.scarce = o.budget.scarce()
	o.bulk.scarce = o.control.scarce
	if p != nil && p.end > o.bulkOut {
		return &o.bulk
	}
	return &o.control
}

// added accounts for n bytes appended to l and starts the writer. mu is held.
func (o *outbox) added(l *lane, p *lanePosition, n int) {
	if l == &o.bulk {
		o.bulkIn += uint64(n)
		if p != nil {
			p.end = o.bulkIn
		}
	}
	o.queued += n
	o.budget.queued.Add(int64(n))
	o.wake()
}

// handOver gives a chunk to the writer. mu is held.
func (o *outbox) handOver(c chunk) {
	if len(c.bytes) > 0 {
		o.iov = append(o.iov, c.bytes)
	}
	if c.owner != nil {
		o.recycled = append(o.recycled, c.owner)
	}
}

func (o *outbox) start() {
	o.writing = true
	go o.write()
}

// hold keeps appends from starting the writer until release: the reader of
// this connection handles many frames, whose replies shall go in one write.
func (o *outbox) hold() {
	o.mu.Lock()
	o.held = true
	o.mu.Unlock()
}

func (o *outbox) release() {
	o.mu.Lock()
	o.held = false
	if o.finish && !o.writing {
		o.start()
	} else if o.queued > 0 {
		o.waits = false
		o.wake()
	}
	o.mu.Unlock()
}

// send appends a method frame. p is the channel's position, nil for channel 0.
func (o *outbox) send(p *lanePosition, channel uint16, m frames.Method) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	l := o.laneFor(p)
	l.reserve(methodRoom)
	before := len(l.buf)
	l.buf = frames.AppendMethodFrame(l.buf, channel, m)
	o.added(l, p, len(l.buf)-before)
}

// sendBytes appends whole frames that stay together.
func (o *outbox) sendBytes(p *lanePosition, b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.append(o.laneFor(p), p, b)
}

// sendLast appends a method on channel 0 behind all that is queued: it ends
// the connection, and nothing comes after it.
func (o *outbox) sendLast(m frames.Method) {
	var scratch [512]byte
	b := frames.AppendMethodFrame(scratch[:0], 0, m)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bulk.empty() {
		o.append(&o.control, nil, b)
		return
	}
	o.append(&o.bulk, nil, b)
}

// append copies whole frames to a lane. mu is held.
func (o *outbox) append(l *lane, p *lanePosition, b []byte) {
	if o.closed {
		return
	}
	l.reserve(len(b))
	l.buf = append(l.buf, b...)
	o.added(l, p, len(b))
}

// ack appends a confirm.
func (o *outbox) ack(p *lanePosition, channel uint16, tag uint64, multiple, nack bool) {
	var scratch [32]byte
	if nack {
		// The requeue bit is set, as RabbitMQ sends it.
		o.sendBytes(p, frames.AppendNack(scratch[:0], channel, tag, multiple, true))
		return
	}
	o.sendBytes(p, frames.AppendAck(scratch[:0], channel, tag, multiple))
}

// methodRoom is enough for almost every method; append moves a longer one, such
// as connection.start, to memory of its own.
const methodRoom = 128

// contentRoom bounds the bytes of a content's frames around its body: method
// with five short strings, header, and the first body frame.
func contentRoom(names, props int) int { return 96 + names + props }

// deliver appends a basic.deliver with its content to the bulk lane. False:
// no room; c is remembered.
func (o *outbox) deliver(c *consumer, tag uint64, e *queue.Entry) bool {
	m := e.Message
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.queued >= o.budget.limit() {
		if !o.closed && c.starvedAt == 0 {
			o.starved = append(o.starved, c)
			c.starvedAt = len(o.starved)
		}
		return false
	}
	l := o.openContent(m, len(c.Tag)+len(m.Exchange)+len(m.RoutingKey))
	before := len(l.buf)
	l.buf = frames.AppendDeliver(l.buf, c.ch.id, c.Tag, tag, e.Redelivered, m.Exchange, m.RoutingKey)
	n := o.content(l, before, c.ch.id, m)
	o.added(l, &c.ch.position, n)
	return true
}

// forget takes a consumer that has ended off the list of those that wait for
// room.
func (o *outbox) forget(c *consumer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.starvedAt == 0 {
		return
	}
	last := len(o.starved) - 1
	moved := o.starved[last]
	o.starved[c.starvedAt-1] = moved
	moved.starvedAt = c.starvedAt
	o.starved[last] = nil
	o.starved = o.starved[:last]
	c.starvedAt = 0
}

// takeStarved empties the list of consumers that wait for room. mu is held.
func (o *outbox) takeStarved() []*consumer {
	for _, c := range o.starved {
		c.starvedAt = 0
	}
	all := o.starved
	o.starved = nil
	return all
}

// openContent readies the bulk lane for a content whose method takes so many
// bytes besides its fixed part. mu is held.
func (o *outbox) openContent(m *queue.Message, method int) *lane {
	l := &o.bulk
	l.scarce = o.budget.scarce()
	l.reserve(contentRoom(method, len(m.Properties)))
	if len(m.Content) > copyLimit {
		l.seal(false) // so that what came before need not go with the first body frame
	}
	return l
}

// sendContent appends a method with content (get-ok, return), whose method
// frame is encoded already.
func (o *outbox) sendContent(p *lanePosition, channel uint16, method []byte, m *queue.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	l := o.openContent(m, len(method))
	before := len(l.buf)
	l.buf = append(l.buf, method...)
	o.added(l, p, o.content(l, before, channel, m))
}

// content appends header and body after a method that starts at before in
// l.buf, and says how many bytes were appended in all.
func (o *outbox) content(l *lane, before int, channel uint16, m *queue.Message) (n int) {
	body := m.Content
	l.buf = frames.AppendHeaderFrame(l.buf, channel, uint64(len(body)), m.Properties)
	n = len(l.buf) - before
	most := int(o.frameMax.Load()) - frames.Overhead
	for len(body) > 0 {
		piece := body[:min(len(body), most)]
		body = body[len(piece):]
		n += len(piece) + frames.Overhead
		if len(m.Content) > copyLimit {
			l.borrow(channel, piece)
			continue
		}
		l.reserve(len(piece) + frames.Overhead)
		l.buf = frames.AppendFrameHeader(l.buf, frames.TypeBody, channel, uint32(len(piece)))
		l.buf = append(l.buf, piece...)
		l.buf = append(l.buf, frames.FrameEnd)
	}
	return n
}

// write is the writer goroutine.
func (o *outbox) write() {
	// Whoever woke the writer is likely to have more: let it go on first.
	runtime.Gosched()
	o.writeAll()
}

// writeAll writes until nothing is left.
func (o *outbox) writeAll() {
	for o.gather() {
		n, err := o.flush()
		o.wrote(n, err)
	}
}

// gather takes what the next write call writes. False: nothing is left and
// the goroutine ends.
func (o *outbox) gather() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.iov, o.recycled = o.iov[:0], o.recycled[:0]
	if o.failed == nil {
		n := o.control.take(o, writeBound)
		if o.control.empty() {
			// Only now: a reply that is left there precedes its channel's
			// deliveries.
			o.bulkOut += uint64(o.bulk.take(o, writeBound-n))
		}
	}
	if len(o.iov) > 0 {
		return true
	}
	o.writing = false
	o.restLanes()
	if o.finish && !o.closed {
		o.shut(nil)
	}
	return false
}

// restLanes lets go of the memory that only a busy connection needs. Nothing
// is being written. mu is held.
func (o *outbox) restLanes() {
	o.control.rest()
	o.bulk.rest()
	clear(o.iov[:cap(o.iov)])
	if cap(o.iov) > 64 {
		o.iov, o.recycled, o.buffers = nil, nil, nil
	}
}

// flush does the system call.
func (o *outbox) flush() (int64, error) {
	if len(o.iov) == 1 {
		n, err := o.socket.Write(o.iov[0])
		return int64(n), err
	}
	o.buffers = o.iov // WriteTo consumes its receiver
	return o.buffers.WriteTo(o.socket)
}

// wrote accounts for a write call and wakes who waited for room.
func (o *outbox) wrote(n int64, err error) {
	o.written.Add(uint64(n))
	for _, b := range o.recycled {
		recycle(b)
	}
	o.mu.Lock()
	limit := o.budget.limit()
	if !o.closed {
		o.queued -= int(n)
		o.budget.queued.Add(-n)
	}
	var starved []*consumer
	if o.queued < limit/2 && len(o.starved) > 0 {
		starved = o.takeStarved()
	}
	if err != nil {
		o.shut(err)
	}
	o.room.Broadcast()
	o.mu.Unlock()
	if starved != nil {
		o.onRoom(starved)
	}
}

// shut drops everything that is queued; later appends are dropped too. mu is
// held.
func (o *outbox) shut(err error) {
	if o.closed {
		return
	}
	o.closed, o.failed = true, io.ErrClosedPipe
	o.budget.queued.Add(-int64(o.queued))
	o.queued = 0
	o.control, o.bulk = lane{}, lane{}
	o.takeStarved()
	o.room.Broadcast()
	go o.onClosed(err)
}

// close drops what is queued. The socket is the caller's.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shut(io.ErrClosedPipe)
}

// closeWhenWritten takes no more and ends the writer once everything there is
// has been written.
func (o *outbox) closeWhenWritten() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finish = true
	if !o.writing && !o.held && !o.closed {
		o.start()
	}
}

// waitForRoom blocks a reader whose client sends requests but does not read
// the answers.
func (o *outbox) waitForRoom() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.overfull() {
		o.room.Wait()
	}
}

func (o *outbox) overfull() bool {
	return !o.closed && o.queued > readLimitFactor*o.budget.limit()
}

// mustWait is waitForRoom's question without the wait.
func (o *outbox) mustWait() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.overfull()
}

// isClosed says whether appends are dropped.
func (o *outbox) isClosed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}
