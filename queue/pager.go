package queue

import (
	"cmp"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/persist"
)

// DefaultBodyBudget is how many bytes of waiting messages stay in memory
// unless something else is asked for.
const DefaultBodyBudget = 64 << 20

// Pager keeps the messages that wait in all queues of a broker within a budget
// of memory. Above it, those that are far from the head of their queue go to
// disk, the largest queues' first: persistent messages of durable queues are
// there already, the others are written to transient pages. What comes near
// the head is read back. Nothing of it is done under a queue's lock.
//
// Messages are counted when the block they are in is full, so that short
// queues never meet the pager; up to 64 KiB a queue are not counted.
type Pager struct {
	// Immutable.
	budget int64
	// Weights of blocks and pages: small enough for the budget to hold some
	// hundred blocks and some dozen pages.
	blockWeight, pageWeight int64

	pages *persist.Transient
	clock *Clock
	log   *slog.Logger
	pump  *Pump // of reads and of passes

	resident atomic.Int64 // weight of the blocks in memory that count
	onDisk   atomic.Int64 // pages
	// trigger is the weight from which a pass is begun.
	trigger atomic.Int64
	// swollen: much has gone through memory since it was last given back.
	swollen atomic.Bool

	mu      sync.Mutex
	relief  sync.Cond // a pass has got on or ended
	queues  map[*Queue]struct{}
	passing bool
	closed  bool
	timer   *Timer
	delay   time.Duration // until the next try after a pass that did not help
	failing bool          // the last write failed: said once

	// Owned by the pass.
	buf     []byte
	run     []*block
	entries []Entry
}

// NewPager makes a pager. budget is in bytes, 0 is DefaultBodyBudget; pages
// takes transient messages.
func NewPager(budget int64, pages *persist.Transient, clock *Clock, log *slog.Logger) *Pager {
	g := &Pager{
		budget: cmp.Or(budget, DefaultBodyBudget), pages: pages, clock: clock, log: log,
		pump: NewPump(), queues: map[*Queue]struct{}{},
	}
	g.blockWeight = min(max(g.budget/1024, 1), blockWeight)
	g.pageWeight = min(max(g.budget/64, 1), pageWeight)
	g.trigger.Store(g.trip())
	g.relief.L = &g.mu
	return g
}

// Close ends all reading and writing; it returns when none is under way.
// Before the store is closed.
func (g *Pager) Close() {
	g.mu.Lock()
	g.closed = true
	g.passing = false
	g.relief.Broadcast()
	if g.timer != nil {
		g.timer.Stop()
	}
	g.mu.Unlock()
	g.pump.Close()
}

// PagerStats are levels of now.
type PagerStats struct {
	// Resident is the weight of the waiting messages in memory that count, in
	// bytes; Pages the number of pages on disk.
	Resident, Pages int64
}

// Stats gives the levels.
func (g *Pager) Stats() PagerStats {
	return PagerStats{Resident: g.resident.Load(), Pages: g.onDisk.Load()}
}

// trip is the weight from which a pass is begun, most the one from which
// publishers wait for it. The rest of the budget is for what is not counted.
func (g *Pager) trip() int64 { return g.budget / 8 * 5 }
func (g *Pager) most() int64 { return g.budget / 8 * 7 }

// Wait holds a publisher up while the budget is used up and a pass gets on
// with it: the disk may be slower than the network. No lock may be held.
func (g *Pager) Wait() {
	if g.resident.Load() <= g.most() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.passing && g.resident.Load() > g.most() {
		g.relief.Wait()
	}
}

// add counts weight, and begins a pass when it is too much. A queue's lock is
// held.
func (g *Pager) add(weight int64) {
	if g.resident.Add(weight) > g.trigger.Load() {
		g.wake()
	}
}

// sub is what has left memory, whatever way.
func (g *Pager) sub(weight int64) {
	if g.resident.Add(-weight) <= g.budget/8 && g.swollen.Load() && g.onDisk.Load() == 0 {
		g.release()
	}
}

// wake begins a pass.
func (g *Pager) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.passing || g.closed {
		return
	}
	g.passing = true
	g.trigger.Store(math.MaxInt64)
	g.swollen.Store(true)
	g.pump.Schedule((*pass)(g))
}

// list makes a queue known that has something to page out. Its lock is held.
func (g *Pager) list(q *Queue) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queues[q] = struct{}{}
}

// unlist is the opposite.
func (g *Pager) unlist(q *Queue) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.queues, q)
}

// largest lists the queues by what they have in memory.
func (g *Pager) largest() []*Queue {
	type sized struct {
		q    *Queue
		size int64
	}
	g.mu.Lock()
	all := make([]sized, 0, len(g.queues))
	for q := range g.queues {
		if n := q.paging.resident.Load(); n > 0 {
			all = append(all, sized{q, n})
		}
	}
	g.mu.Unlock()
	slices.SortFunc(all, func(a, b sized) int { return cmp.Compare(b.size, a.size) })
	queues := make([]*Queue, len(all))
	for i := range all {
		queues[i] = all[i].q
	}
	return queues
}

// pass is the pump's task of bringing the broker back under its budget.
type pass Pager

// Run implements Task.
func (p *pass) Run() (more bool) {
	g := (*Pager)(p)
	g.reduce(g.budget / 8 * 3)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passing = false
	g.relief.Broadcast()
	resident := g.resident.Load()
	if resident <= g.trip() {
		g.trigger.Store(g.trip())
		g.delay = 0
		return false
	}
	// What is left cannot go now: its commit is under way, or it is the last
	// few messages of very many queues, or the disk takes nothing.
	g.trigger.Store(resident + g.budget/8)
	g.retry()
	return false
}

// The time until another try.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// retry sets the timer for another pass. mu is held.
func (g *Pager) retry() {
	if g.closed {
		return
	}
	g.delay = min(max(2*g.delay, firstRetry), lastRetry)
	if g.timer == nil {
		g.timer = g.clock.AfterFunc(ConnectionTime, g.delay, g.wake)
		return
	}
	g.timer.Reset(g.delay)
}

// reduce pages out until no more than target is in memory, or nothing goes:
// first what is far from the heads, at last the heads themselves.
func (g *Pager) reduce(target int64) {
	for _, keep := range []int64{2 * g.pageWeight, 2 * g.blockWeight, 0} {
		for _, q := range g.largest() {
			for g.resident.Load() > target && g.open() {
				gone, err := q.pageOut(keep)
				if err != nil {
					g.report(err)
					return
				}
				if !gone {
					break
				}
				g.report(nil)
			}
		}
	}
}

// open says that the pager was not closed, and lets waiting publishers look
// again.
func (g *Pager) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.relief.Broadcast()
	return !g.closed
}

// report logs the first of several failures, and their end.
func (g *Pager) report(err error) {
	g.mu.Lock()
	was := g.failing
	g.failing = err != nil
	g.mu.Unlock()
	switch {
	case err != nil && !was:
		g.log.Error("cannot page messages out, they stay in memory", "error", err)
	case err == nil && was:
		g.log.Info("paging messages out again")
	}
}

// releaseDelay is the time between the end of a large backlog and giving its
// memory back.
const releaseDelay = 300 * time.Millisecond

// release gives memory back to the operating system, which the runtime would
// do only over minutes.
func (g *Pager) release() {
	if !g.swollen.CompareAndSwap(true, false) {
		return
	}
	g.clock.AfterFunc(ConnectionTime, releaseDelay, func() { g.pump.Schedule((*release)(g)) })
}

// release is the pump's task of giving memory back.
type release Pager

// Run implements Task.
func (*release) Run() (more bool) {
	debug.FreeOSMemory()
	return false
}
