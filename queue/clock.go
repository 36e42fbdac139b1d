package queue

import (
	"container/heap"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Domain says which of the clock's two readings a timer follows.
type Domain uint8

// MessageTime runs message expiry, delays, x-expires, aging and consumer
// timeouts; a test may move it. ConnectionTime runs heartbeats, handshake and
// socket deadlines; it is real time always, so that moving messages by an hour
// does not kill every connection, and it is the steady clock, so that setting
// the machine's clock does not either. Message time follows the machine's
// clock, because expiry times outlive the process.
const (
	MessageTime Domain = iota
	ConnectionTime
)

// Clock is the only source of time in the frames, exchange, queue and amqp
// rooms: two readings, and one heap of timers for each that asks them. All
// methods may be called from any goroutine.
type Clock struct {
	started time.Time // immutable; zero of connection time

	offset atomic.Int64 // nanoseconds that message time runs ahead; written under firing

	// Guarded by mu.
	mu      sync.Mutex
	timers  [2]timerHeap
	nextID  uint64
	stopped bool

	kick chan struct{} // one slot: the earliest timer changed
	done chan struct{}
	once sync.Once

	// firing serialises timer callbacks between the clock's goroutine and
	// Advance, so that they run one at a time and in order. Before mu.
	firing sync.Mutex
}

// maxOffset is how far ahead message time may be moved: 146 years, so that no
// sum of a reading and an offset overflows before the year 2150.
const maxOffset = 1 << 62

// Timer is one pending call of Clock.AfterFunc.
type Timer struct {
	clock *Clock
	fn    func()
	at    int64 // nanoseconds in its domain
	id    uint64
	index int // in the heap; -1 when not pending
	dom   Domain
}

// NewClock starts a clock. Its goroutine starts with the first timer and ends
// with Stop.
func NewClock() *Clock {
	return &Clock{started: time.Now(), kick: make(chan struct{}, 1), done: make(chan struct{})}
}

// Now reads message time.
func (c *Clock) Now() time.Time {
	return time.Now().Add(time.Duration(c.offset.Load()))
}

// NowMillis reads message time in milliseconds since the Unix epoch, the unit
// of expiry times.
func (c *Clock) NowMillis() int64 { return c.read(MessageTime) / int64(time.Millisecond) }

// ConnectionNow reads connection time.
func (c *Clock) ConnectionNow() time.Time { return time.Now() }

// read gives a domain's time in nanoseconds: since the Unix epoch, and since
// the clock was started.
func (c *Clock) read(d Domain) int64 {
	if d == MessageTime {
		return time.Now().UnixNano() + c.offset.Load()
	}
	return int64(time.Since(c.started))
}

// AfterFunc calls fn once, on the clock's goroutine or inside Advance, when
// the domain's time has moved on by delay. fn must not block; it may set and
// stop timers but must not call Advance.
func (c *Clock) AfterFunc(d Domain, delay time.Duration, fn func()) *Timer {
	t := &Timer{clock: c, fn: fn, dom: d, index: -1}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return t
	}
	first := c.nextID == 0
	c.arm(t, delay)
	if first {
		go c.run()
	}
	return t
}

// Reset arms the timer again, delay from now, whether it fired or not. It
// saves the allocation of a new timer for those that repeat.
func (t *Timer) Reset(delay time.Duration) {
	c := t.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	if t.index >= 0 {
		heap.Remove(&c.timers[t.dom], t.index)
	}
	c.arm(t, delay)
}

// Stop disarms the timer. False means that it had fired or was stopped
// before; its function may still be running then.
func (t *Timer) Stop() bool {
	c := t.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.index < 0 {
		return false
	}
	heap.Remove(&c.timers[t.dom], t.index)
	return true
}

// arm pushes a timer, delay from now. mu is held.
func (c *Clock) arm(t *Timer, delay time.Duration) {
	c.nextID++
	t.id = c.nextID
	now := c.read(t.dom)
	if t.at = now + int64(max(delay, 0)); t.at < now {
		t.at = math.MaxInt64
	}
	heap.Push(&c.timers[t.dom], t)
	if t.index == 0 {
		c.recalculate()
	}
}

// recalculate has the clock's goroutine look how long it may sleep.
func (c *Clock) recalculate() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// Advance moves message time forward by d and runs what becomes due on the
// way, in order of due time, before it returns. Time moves from one due timer
// to the next, so that each runs at the time it was set for and what it sets
// in turn runs too if it is due within d: a message that expires into a queue
// where it expires again does both in one call. For tests of users' programs;
// a d that is not positive is ignored.
func (c *Clock) Advance(d time.Duration) {
	if d <= 0 {
		return
	}
	c.firing.Lock()
	defer c.firing.Unlock()
	target := min(int64(d), maxOffset-c.offset.Load()) + c.offset.Load()
	for fn := c.popUntil(target); fn != nil; fn = c.popUntil(target) {
		fn()
	}
	c.offset.Store(target)
	c.recalculate() // timers that are left are nearer now
}

// popUntil removes the next message timer that is due before message time is
// target ahead, and moves message time to it. firing is held.
func (c *Clock) popUntil(target int64) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.timers[MessageTime]
	if c.stopped || len(*h) == 0 {
		return nil
	}
	ahead := (*h)[0].at - time.Now().UnixNano()
	if ahead > target {
		return nil
	}
	c.offset.Store(max(c.offset.Load(), ahead))
	return heap.Pop(h).(*Timer).fn
}

// Stop ends the clock's goroutine; pending timers never fire. Later timers
// are taken and never fire either.
func (c *Clock) Stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.once.Do(func() { close(c.done) })
}

// run sleeps until the earliest timer of either domain and fires it.
func (c *Clock) run() {
	sleep := time.NewTimer(time.Hour)
	defer sleep.Stop()
	for {
		sleep.Reset(c.untilNext())
		select {
		case <-c.done:
			return
		case <-c.kick:
		case <-sleep.C:
			c.fire()
		}
	}
}

func (c *Clock) untilNext() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := time.Hour
	for d := range c.timers {
		if h := c.timers[d]; len(h) > 0 {
			wait = min(wait, time.Duration(h[0].at-c.read(Domain(d))))
		}
	}
	return max(wait, 0)
}

// fire runs every due timer, earliest first.
func (c *Clock) fire() {
	c.firing.Lock()
	defer c.firing.Unlock()
	for {
		fn := c.popDue()
		if fn == nil {
			return
		}
		fn()
	}
}

func (c *Clock) popDue() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	// The one that is later than the other goes first: a message timer that is
	// due again and again, as it is with a million delayed messages after a long
	// stop, must not keep heartbeats waiting.
	var due *timerHeap
	latest := int64(-1)
	for d := range c.timers {
		h := &c.timers[d]
		if len(*h) == 0 {
			continue
		}
		if late := c.read(Domain(d)) - (*h)[0].at; late > latest {
			due, latest = h, late
		}
	}
	if due == nil {
		return nil
	}
	return heap.Pop(due).(*Timer).fn
}

// timerHeap orders timers by due time, then by the order they were set.
type timerHeap []*Timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].id < h[j].id
}
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timerHeap) Push(x any) {
	t := x.(*Timer)
	t.index = len(*h)
	*h = append(*h, t)
}
func (h *timerHeap) Pop() any {
	old := *h
	n := len(old) - 1
	t := old[n]
	old[n] = nil
	*h = old[:n]
	t.index = -1
	return t
}
