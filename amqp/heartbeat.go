package amqp

import (
	"sync"
	"time"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// pauses is why a connection is not read for a while.
type pauses = uint32

const (
	reading   pauses = iota
	ownPause         // the store is behind: none of the client's fault
	roomPause        // the client does not read what it asked for
)

// heartbeat keeps a connection's both directions alive. Half an interval long
// nothing written: the server sends a heartbeat. Between two and three
// intervals nothing read: the socket is reset (spec 4.2.7; the times are
// RabbitMQ's).
type heartbeat struct {
	// Immutable.
	c    *conn
	half time.Duration

	// mu guards timer, which the first tick might need before it is set.
	mu    sync.Mutex
	timer *queue.Timer

	// Owned by the clock's goroutine.
	written, read uint64 // bytes at the last tick
	beat          bool   // the last tick sent a heartbeat
	quiet         int    // ticks without a byte read
}

// quietTicks is how many half intervals without a byte a client may have, not
// counting the one in which the last byte came.
const quietTicks = 4

// startHeartbeats begins when tune-ok has set the interval; 0 is none. mu is
// held.
func (c *conn) startHeartbeats(interval time.Duration) {
	if interval == 0 {
		return
	}
	h := &heartbeat{c: c, half: interval / 2}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = c.server.after(h.half, h.tick)
	c.timers = append(c.timers, h.timer)
}

// tick runs on the clock's goroutine every half interval.
func (h *heartbeat) tick() {
	c := h.c
	written, read := c.out.written.Load(), c.reader.BytesRead()
	// The last heartbeat does not count as something written.
	idle := written == h.written || h.beat && written == h.written+frames.Overhead
	if idle {
		c.out.sendBytes(nil, frames.AppendHeartbeat(nil))
	}
	if h.alive(written, read) {
		h.quiet = 0
	} else {
		h.quiet++
		c.trim()
	}
	h.written, h.read, h.beat = written, read, idle
	if h.quiet > quietTicks {
		c.log.Warn("missed heartbeats from the client", "interval", 2*h.half)
		c.reset()
		return
	}
	// A tick that runs while tearDown stops the timers must not set it again.
	if !c.out.isClosed() {
		h.mu.Lock()
		h.timer.Reset(h.half)
		h.mu.Unlock()
	}
}

// alive: something came; or nothing could come, because the server did not
// read, and the client is not to blame or takes what is written.
func (h *heartbeat) alive(written, read uint64) bool {
	if read != h.read {
		return true
	}
	switch h.c.paused.Load() {
	case ownPause:
		return true
	case roomPause:
		return written != h.written
	}
	return false
}

// trim gives back memory of a connection that has nothing to read, if nobody
// is at work on it. Any goroutine; does not wait.
func (c *conn) trim() {
	if c.mu.TryLock() {
		c.arena.Trim()
		c.mu.Unlock()
	}
}
