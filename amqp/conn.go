package amqp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// connState is where a connection is in its life.
type connState uint8

const (
	starting connState = iota // connection.start was sent, start-ok is due
	tuning                    // tune was sent, tune-ok is due
	opening                   // connection.open is due
	running
	closing // the server sent connection.close; only close and close-ok count
	silent  // the handshake failed: nothing is answered, a reset follows
	ended   // nothing is read or written any more
)

// conn is one client connection.
type conn struct {
	// Immutable.
	server    *Server
	socket    net.Conn
	name      string // "HOST:PORT -> HOST:PORT"
	log       *slog.Logger
	out       outbox
	allowance allowance                          // of unacknowledged deliveries
	info      atomic.Pointer[broker.SessionInfo] // set when the connection is open

	// Owned by the reader goroutine.
	reader *frames.Reader

	paused atomic.Uint32 // why the reader does not read; one of pauses

	// Guarded by mu, which whoever runs handlers holds.
	mu          sync.Mutex
	resumed     sync.Cond // parkedBytes fell, an alarm or the connection ended
	state       connState
	peer        auth.ConnInfo
	client      broker.Client // Owner is this conn
	vhost       *broker.VHost
	counted     bool // against the limits of connections
	mechanism   string
	properties  []byte // the client's, a field table
	connectedAt time.Time
	can         capabilities
	channels    map[uint16]*channel
	last        *channel // of the last frame, most likely of the next
	channelMax  uint16
	heartbeat   time.Duration
	arena       queue.Arena
	dirty       []*channel // have confirms to send
	parkedBytes int        // of frames behind parked channels
	timers      []*queue.Timer
	tornDown    bool
	holdings    map[*queue.Queue]*holding // publishes that wait for room in a queue
	blocked     map[blockCause]struct{}   // why publishes wait
	alarm       broker.Resource           // what was low when an alarm blocked the connection; 0: none does
	leaves      bool                      // the client has closed it; publishes wait
}

// capabilities of the client that the server acts on.
type capabilities struct {
	cancelNotify, blocked, authenticationFailureClose bool
}

// The times of RabbitMQ's reader.
const (
	silentCloseDelay = 3 * time.Second  // before the reset after a failed handshake or lost framing
	closingTimeout   = 30 * time.Second // most to wait for close-ok
	refusedLinger    = 5 * time.Second  // most to wait after a refused login
)

// contentHeaderSize is class, weight and body size of a content header.
const contentHeaderSize = 12

// framesBetweenChecks is how many frames a batch handles before it looks
// whether its own answers pile up.
const framesBetweenChecks = 32

// backlogBound is how many bytes may wait for the store's commit before
// publishers are not read any more.
const backlogBound = 16 << 20

func newConn(s *Server, socket net.Conn) *conn {
	c := &conn{
		server: s, socket: socket, reader: frames.NewReader(newWatcher(&s.watch, socket)),
		name: fmt.Sprintf("%s -> %s", socket.RemoteAddr(), socket.LocalAddr()),
	}
	c.log = s.log.With("connection", c.name)
	c.resumed.L = &c.mu
	c.allowance.most = s.options.MaxUnacked
	c.client = broker.Client{Owner: c, Connection: c.name}
	c.out.init(socket, &s.budget, &s.late)
	c.out.onRoom = func(starved []*consumer) { s.broker.Pump().Schedule(&refill{starved}) }
	c.out.onClosed = c.written
	return c
}

// refill is the pump's task after a full outbox has drained: its consumers
// may be served again.
type refill struct{ starved []*consumer }

func (r *refill) Run() (more bool) {
	for _, c := range r.starved {
		c.resume()
	}
	return false
}

// after runs fn once when connection time has moved on by d.
func (s *Server) after(d time.Duration, fn func()) *queue.Timer {
	return s.broker.Clock.AfterFunc(queue.ConnectionTime, d, fn)
}

// after is Server.after for as long as the connection lives. mu is held.
func (c *conn) after(d time.Duration, fn func()) {
	if !c.tornDown {
		c.timers = append(c.timers, c.server.after(d, fn))
	}
}

// stopTimers forgets all timers. mu is held.
func (c *conn) stopTimers() {
	for _, t := range c.timers {
		t.Stop()
	}
	c.timers = nil
}

// run is the reader goroutine.
func (c *conn) run() {
	defer c.server.left(c)
	c.mu.Lock()
	c.after(c.server.options.HandshakeTimeout, c.reset)
	c.mu.Unlock()
	err := c.serve()
	c.tearDown(err)
}

// serve reads until the connection ends.
func (c *conn) serve() error {
	if t, ok := c.socket.(*tls.Conn); ok {
		if err := t.Handshake(); err != nil {
			return fmt.Errorf("TLS handshake: %w", err)
		}
	}
	limitUnsent(c.socket)
	c.reader.SetLimit(compat.InitialFrameMax.In(c.server.broker.Profile))
	if err := c.readProtocolHeader(); err != nil {
		return err
	}
	for {
		f, err := c.reader.Next()
		if err != nil {
			return c.lost(err)
		}
		c.server.late.begin()
		err = c.batch(f)
		c.server.late.end()
		if err != nil {
			return c.lost(err)
		}
		c.throttle()
	}
}

// batch handles a frame and all that came with it in one read, then sends the
// confirms that gathered.
func (c *conn) batch(f frames.Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.hold()
	defer c.out.release()
	defer c.flushConfirms()
	for n := 1; ; n++ {
		c.handle(f)
		if c.alarmed(&f) || c.parkedBytes > parkedBound || !c.reader.Buffered() || n%framesBetweenChecks == 0 && c.out.mustWait() {
			return nil
		}
		var err error
		if f, err = c.reader.Next(); err != nil {
			return err
		}
	}
}

// throttle keeps the reader from running ahead: of an alarm, of parked channels
// with many frames behind them, of a client that does not read its answers, and
// of the disk.
func (c *conn) throttle() {
	c.paused.Store(ownPause)
	c.waitForAlarm()
	c.mu.Lock()
	for c.parkedBytes > parkedBound && c.state != ended {
		c.resumed.Wait()
	}
	c.mu.Unlock()
	if s := c.server.broker.Store(); s != nil && s.Backlog() > backlogBound {
		w := make(waitStored, 1)
		s.Barrier(w, 0)
		<-w
	}
	if p := c.server.broker.Pager(); p != nil {
		p.Wait()
	}
	c.paused.Store(roomPause)
	c.out.waitForRoom()
	c.paused.Store(reading)
}

// waitStored is a persist.Waiter for one goroutine.
type waitStored chan error

func (w waitStored) Stored(_ uint64, err error) { w <- err }
func (w waitStored) Flush()                     {}

// lost deals with the end of the byte stream. Broken framing is answered, and
// the socket reset a little later; nothing more is read meanwhile.
func (c *conn) lost(err error) error {
	var fe *frames.Error
	if !errors.As(err, &fe) {
		return err
	}
	c.mu.Lock()
	c.fail(0, fe)
	c.after(silentCloseDelay, c.reset)
	c.mu.Unlock()
	_, _ = io.Copy(io.Discard, c.socket) // until the reset
	return err
}

// handle runs one frame and turns an error into its consequence. mu is held.
func (c *conn) handle(f frames.Frame) {
	if err := c.dispatch(f); err != nil {
		c.fail(f.Channel, err)
	}
}

// dispatch is where a frame's type and the connection's state meet. mu is
// held.
func (c *conn) dispatch(f frames.Frame) error {
	switch c.state {
	case silent, ended:
		return nil
	case closing:
		return c.whileClosing(f)
	}
	switch f.Type {
	case frames.TypeMethod, frames.TypeBody:
	case frames.TypeHeader:
		// Too short a header is a broken frame, whether or not one is due.
		if len(f.Payload) < contentHeaderSize {
			return frames.Errorf(frames.FrameError, "%s", frames.FrameErrorText(f, "unknown_frame"))
		}
	case frames.TypeHeartbeat:
		return heartbeatFault(f)
	default:
		return frames.Errorf(frames.FrameError, "%s", frames.FrameErrorText(f, "unknown_frame"))
	}
	if f.Channel == 0 {
		return c.connectionFrame(f)
	}
	if c.state != running {
		return frames.Errorf(frames.UnexpectedFrame, "%s", frames.FrameErrorText(f, ""))
	}
	if ch := c.last; ch != nil && ch.id == f.Channel {
		return ch.frame(f)
	}
	ch := c.channels[f.Channel]
	if ch == nil {
		return c.unopened(f)
	}
	c.last = ch
	return ch.frame(f)
}

// heartbeatFault: a heartbeat is empty and on channel 0 (spec 4.2.7).
func heartbeatFault(f frames.Frame) error {
	switch {
	case len(f.Payload) > 0:
		return frames.Errorf(frames.FrameError, "%s", frames.FrameErrorText(f, "unknown_frame"))
	case f.Channel != 0:
		return frames.Errorf(frames.UnexpectedFrame, "%s", frames.FrameErrorText(f, ""))
	}
	return nil
}

// unopened takes a frame on a channel that is not open: only channel.open is
// legal. mu is held.
func (c *conn) unopened(f frames.Frame) error {
	if f.Type != frames.TypeMethod {
		return errNotMethod()
	}
	m, err := frames.DecodeMethod(f.Payload)
	if err != nil {
		return err
	}
	if m.ID() != frames.ChannelOpenID {
		return frames.Errorf(frames.ChannelError, "expected 'channel.open'").At(m.ID())
	}
	return c.openChannel(f.Channel)
}

func errNotMethod() error {
	return frames.Errorf(frames.UnexpectedFrame, "expected method frame, got non method frame instead")
}

// openChannel does channel.open. channel-max limits how many are open, not
// their numbers, as in RabbitMQ. mu is held.
func (c *conn) openChannel(id uint16) error {
	if n := len(c.channels); n >= int(c.channelMax) {
		return frames.Errorf(frames.NotAllowed, "number of channels opened (%d) has reached the negotiated channel_max (%d)", n, c.channelMax)
	}
	if err := c.server.openChannel(c.client.User); err != nil {
		return err
	}
	ch := newChannel(c, id)
	c.channels[id], c.last = ch, ch
	c.observe(broker.Event{Step: broker.ChannelOpened, Channel: id})
	c.out.send(&ch.position, id, &frames.ChannelOpenOk{})
	return nil
}

// forget drops a channel that has ended; its number is free. mu is held.
func (c *conn) forget(ch *channel) {
	delete(c.channels, ch.id)
	if c.last == ch {
		c.last = nil
	}
}

// fail is the one place where an error becomes a protocol close. id is the
// channel whose frame it was. mu is held.
func (c *conn) fail(id uint16, err error) {
	var fe *frames.Error
	if !errors.As(err, &fe) {
		c.log.Error("internal error", "channel", id, "error", err)
		fe = frames.Errorf(frames.InternalError, "")
	}
	ch := c.channels[id]
	switch {
	case c.state == ended || c.state == silent || c.state == closing && fe.Scope != frames.ScopeReset:
	case fe.Scope == frames.ScopeReset:
		c.log.Warn("connection reset", "reason", fe.Text)
		c.end()
		resetSocket(c.socket)
	case c.state < opening:
		// A client that fails the login is kept waiting and told nothing, as
		// RabbitMQ does.
		c.log.Warn("handshake failed", "error", fe)
		c.state = silent
		c.after(silentCloseDelay, c.reset)
	case fe.Scope == frames.ScopeChannel && ch != nil:
		c.log.Warn("channel error", "channel", id, "error", fe)
		ch.closeWith(fe)
	default:
		c.log.Warn("connection error", "channel", id, "error", fe)
		c.closeWith(fe, c.closeWait())
	}
}

// closeWait is how long the server waits for close-ok.
func (c *conn) closeWait() time.Duration {
	if c.heartbeat > 0 {
		return min(c.heartbeat, closingTimeout)
	}
	return closingTimeout
}

// closeWith sends connection.close after the channels have ended and the
// exclusive queues are gone, and resets the socket if close-ok does not come.
// mu is held.
func (c *conn) closeWith(fe *frames.Error, wait time.Duration) {
	c.endChannels()
	c.state = closing
	c.out.sendLast(&frames.ConnectionClose{
		ReplyCode: fe.Code, ReplyText: fe.ReplyText(), ClassID: fe.Class, MethodID: fe.Method,
	})
	c.after(wait, c.reset)
	c.resumed.Broadcast()
}

// Close closes the connection from the server's side. Any goroutine.
func (c *conn) Close(code uint16, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.state {
	case running:
		c.closeWith(frames.Errorf(code, "%s", text), c.closeWait())
	case closing, ended:
	default:
		c.end()
		resetSocket(c.socket)
	}
}

// Describe implements broker.Session.
func (c *conn) Describe() broker.SessionInfo { return *c.info.Load() }

// reset drops the socket. Any goroutine, also the clock's.
func (c *conn) reset() { resetSocket(c.socket) }

// end stops all reading and writing. mu is held.
func (c *conn) end() {
	c.state = ended
	c.out.close()
	c.resumed.Broadcast()
}

// finish ends an orderly close: what is queued is written, then the socket
// closed. mu is held.
func (c *conn) finish() {
	c.state = ended
	c.out.closeWhenWritten()
	c.after(closingTimeout, c.reset)
	c.resumed.Broadcast()
}

// written is called when the writer has ended for good.
func (c *conn) written(err error) {
	if err == nil {
		c.socket.Close()
		return
	}
	resetSocket(c.socket)
	// A reader that waits for the end of an alarm would not notice the socket's.
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resumed.Broadcast()
}

// whileClosing: the server has sent connection.close; close-ok ends it, and a
// close that crossed is answered. mu is held.
func (c *conn) whileClosing(f frames.Frame) error {
	if f.Type != frames.TypeMethod || f.Channel != 0 {
		return nil
	}
	switch id, _, _ := frames.SplitMethod(f.Payload); id {
	case frames.ConnectionCloseID:
		c.out.sendLast(&frames.ConnectionCloseOk{})
	case frames.ConnectionCloseOkID:
		c.finish()
	}
	return nil
}

// tearDown frees all that the connection held, however it ended.
func (c *conn) tearDown(err error) {
	c.socket.Close()
	c.server.broker.Detach(c)
	c.server.alarmed.remove(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != ended && c.state > tuning {
		c.log.Info("connection closed by the client or lost", "error", err)
	}
	c.endChannels()
	c.end()
	c.tornDown = true
	c.stopTimers()
	if c.counted {
		c.server.closeConnection(c.client.User, c.vhost.Name)
		c.observe(broker.Event{Step: broker.ConnectionClosed})
	}
}

// flushConfirms sends the confirms that gathered in a batch. mu is held.
func (c *conn) flushConfirms() {
	for i, ch := range c.dirty {
		c.dirty[i] = nil
		ch.dirty = false
		ch.Flush()
	}
	c.dirty = c.dirty[:0]
}

// observe tells the observers, if there are any.
func (c *conn) observe(e broker.Event) {
	h := &c.server.broker.Hooks
	if !h.Observing() {
		return
	}
	c.describe(&e)
	h.Emit(&e)
}

func (c *conn) describe(e *broker.Event) {
	e.At = c.server.broker.Clock.Now()
	e.User, e.Connection = c.client.User, c.name
	if c.vhost != nil {
		e.VHost = c.vhost.Name
	}
}
