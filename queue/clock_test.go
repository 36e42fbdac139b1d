package queue

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// firings notes what fires, in order. Its notes may come from the clock's
// goroutine.
type firings struct {
	mu    sync.Mutex
	names []string
}

func (f *firings) note(name string) func() {
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.names = append(f.names, name)
	}
}

func (f *firings) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := f.names
	f.names = nil
	return names
}

func (f *firings) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := f.take(); !slices.Equal(got, want) {
		t.Fatalf("fired %v, want %v", got, want)
	}
}

func TestTimersOfBothDomainsFireInRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		defer c.Stop()
		var f firings
		c.AfterFunc(ConnectionTime, 2*time.Second, f.note("connection 2"))
		c.AfterFunc(MessageTime, 3*time.Second, f.note("message 3"))
		c.AfterFunc(MessageTime, time.Second, f.note("message 1"))
		c.AfterFunc(ConnectionTime, 2*time.Second, f.note("connection 2 again"))
		c.AfterFunc(MessageTime, 0, f.note("message 0"))
		c.AfterFunc(MessageTime, -time.Hour, f.note("message past"))
		synctest.Wait()
		f.expect(t, "message 0", "message past")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		f.expect(t, "message 1", "connection 2", "connection 2 again")
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		f.expect(t)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		f.expect(t, "message 3")
	})
}

func TestAdvanceFiresMessageTimersBeforeItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		defer c.Stop()
		var f firings
		start, connection := c.Now(), c.ConnectionNow()
		c.AfterFunc(ConnectionTime, time.Minute, f.note("connection"))
		c.AfterFunc(MessageTime, 3*time.Hour, f.note("3 h"))
		c.AfterFunc(MessageTime, time.Hour, f.note("1 h"))
		c.AfterFunc(MessageTime, 2*time.Hour, f.note("2 h"))
		c.AfterFunc(MessageTime, 2*time.Hour+1, f.note("2 h and more"))
		c.Advance(2 * time.Hour)
		f.expect(t, "1 h", "2 h")
		if got := c.Now().Sub(start); got != 2*time.Hour {
			t.Fatalf("message time moved by %v", got)
		}
		if got := c.ConnectionNow().Sub(connection); got != 0 {
			t.Fatalf("connection time moved by %v", got)
		}
		if got := c.NowMillis() - start.UnixMilli(); got != 2*60*60*1000 {
			t.Fatalf("message time moved by %d ms", got)
		}
		c.Advance(0)
		c.Advance(-time.Hour)
		if got := c.Now().Sub(start); got != 2*time.Hour {
			t.Fatalf("message time went back to %v", got)
		}
		synctest.Wait()
		f.expect(t)
		c.Advance(time.Nanosecond)
		f.expect(t, "2 h and more")
	})
}

// A move that reaches no timer brings them nearer all the same.
func TestAdvanceShortensTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		defer c.Stop()
		var f firings
		c.AfterFunc(MessageTime, 10*time.Second, f.note("10 s"))
		synctest.Wait() // the clock's goroutine sleeps for 10 s
		c.Advance(9 * time.Second)
		f.expect(t)
		time.Sleep(time.Second)
		synctest.Wait()
		f.expect(t, "10 s")
	})
}

// Time goes from timer to timer: each sees the time it was set for, and what
// it sets is reached by the same move.
func TestAdvancePassesThroughTheTimeBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		defer c.Stop()
		start := c.Now()
		var seen []time.Duration
		var again func()
		again = func() {
			seen = append(seen, c.Now().Sub(start))
			if len(seen) < 5 {
				c.AfterFunc(MessageTime, 2*time.Second, again)
			}
		}
		c.AfterFunc(MessageTime, time.Second, again)
		c.Advance(6 * time.Second)
		if want := []time.Duration{time.Second, 3 * time.Second, 5 * time.Second}; !slices.Equal(seen, want) {
			t.Fatalf("fired at %v, want %v", seen, want)
		}
		if got := c.Now().Sub(start); got != 6*time.Second {
			t.Fatalf("message time moved by %v", got)
		}
	})
}

func TestTimerStopAndReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		defer c.Stop()
		var f firings
		a := c.AfterFunc(MessageTime, time.Second, f.note("a"))
		b := c.AfterFunc(ConnectionTime, time.Second, f.note("b"))
		if !a.Stop() || a.Stop() {
			t.Fatal("Stop says wrongly whether the timer was pending")
		}
		b.Reset(3 * time.Second)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		f.expect(t)
		time.Sleep(time.Second)
		synctest.Wait()
		f.expect(t, "b")
		if b.Stop() {
			t.Fatal("a timer that fired says that it was pending")
		}
		a.Reset(time.Second) // after a stop
		b.Reset(time.Second) // after it fired
		b.Reset(-time.Second)
		synctest.Wait()
		f.expect(t, "b")
		time.Sleep(time.Second)
		synctest.Wait()
		f.expect(t, "a")
		a.Reset(time.Second)
		c.Advance(time.Second)
		f.expect(t, "a")
	})
}

func TestTimerFunctionsMaySetAndStopTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		defer c.Stop()
		var f firings
		var self *Timer
		rounds := 0
		other := c.AfterFunc(MessageTime, 2*time.Second, f.note("other"))
		self = c.AfterFunc(MessageTime, time.Second, func() {
			f.note("self")()
			other.Stop()
			if rounds++; rounds < 3 {
				self.Reset(time.Second)
			}
		})
		c.Advance(time.Hour)
		f.expect(t, "self", "self", "self")
	})
}

func TestStoppedClockFiresNothing(t *testing.T) {
	c := NewClock()
	var f firings
	pending := c.AfterFunc(MessageTime, 5*time.Millisecond, f.note("message"))
	c.AfterFunc(ConnectionTime, 5*time.Millisecond, f.note("connection"))
	c.Stop()
	c.Stop()
	late := c.AfterFunc(ConnectionTime, 0, f.note("late"))
	late.Reset(0)
	if late.Stop() {
		t.Fatal("a timer of a stopped clock is pending")
	}
	c.Advance(time.Hour)
	time.Sleep(20 * time.Millisecond)
	f.expect(t)
	if !pending.Stop() {
		t.Fatal("a pending timer cannot be stopped on a stopped clock")
	}
	// TestMain fails when the clock's goroutine stays.
}

func TestUnusedClockHasNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		NewClock().Advance(time.Hour) // the bubble ends only without goroutines
	})
}

func TestFarTimersDoNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		defer c.Stop()
		var f firings
		for range 3 {
			c.Advance(math.MaxInt64)
		}
		now := c.Now()
		c.Advance(time.Hour)
		if got := c.Now(); got.Before(now) || got.Year() < 2140 {
			t.Fatalf("message time is %v after %v", got, now)
		}
		c.AfterFunc(MessageTime, math.MaxInt64, f.note("message"))
		c.AfterFunc(ConnectionTime, math.MaxInt64, f.note("connection"))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		f.expect(t)
	})
}

// TestClockFollowsModel sets, stops and moves timers at random and compares
// what fires with a sorted list.
func TestClockFollowsModel(t *testing.T) {
	type pending struct {
		name  string
		at    time.Duration
		timer *Timer
	}
	rapid.Check(t, func(rt *rapid.T) {
		// Not a bubble: rapid's own goroutines. Delays are hours, so that real
		// time does not matter.
		c := NewClock()
		defer c.Stop()
		var f firings
		var all []pending
		now := time.Duration(0)
		for i := range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0, 1:
				delay := time.Duration(rapid.IntRange(1, 50).Draw(rt, "hours")) * time.Hour
				name := fmt.Sprint(i)
				all = append(all, pending{name, now + delay, c.AfterFunc(MessageTime, delay, f.note(name))})
				c.AfterFunc(ConnectionTime, delay, f.note("connection"))
			case 2:
				if len(all) > 0 {
					n := rapid.IntRange(0, len(all)-1).Draw(rt, "stopped")
					all[n].timer.Stop()
					all = slices.Delete(all, n, n+1)
				}
			case 3:
				d := time.Duration(rapid.IntRange(0, 30).Draw(rt, "move"))*time.Hour + time.Minute
				now += d
				c.Advance(d)
				var want []string
				slices.SortStableFunc(all, func(a, b pending) int { return int(a.at/time.Hour) - int(b.at/time.Hour) })
				for len(all) > 0 && all[0].at <= now {
					want = append(want, all[0].name)
					all = all[1:]
				}
				if diff := gocmp.Diff(want, f.take()); diff != "" {
					rt.Fatalf("fired (-model +clock):\n%s", diff)
				}
			}
		}
	})
}

// Concurrent use, for the race detector: nothing fires twice, nothing is lost.
func TestClockConcurrently(t *testing.T) {
	c := NewClock()
	defer c.Stop()
	const setters, timers = 4, 100
	fired := make(chan int, setters*timers)
	var setting sync.WaitGroup
	for s := range setters {
		setting.Go(func() {
			for i := range timers {
				c.AfterFunc(Domain(i%2), time.Duration(i%7)*time.Millisecond, func() { fired <- s*timers + i })
				if i%10 == 0 {
					c.Advance(time.Millisecond)
				}
				_ = c.NowMillis()
			}
		})
	}
	setting.Wait()
	seen := map[int]bool{}
	for range setters * timers {
		i := <-fired
		if seen[i] {
			t.Fatalf("timer %d fired twice", i)
		}
		seen[i] = true
	}
}

// TestClockServesBothDomains: a message timer that is due again as soon as it
// has run does not keep a connection timer from running.
func TestClockServesBothDomains(t *testing.T) {
	c := NewClock()
	defer c.Stop()
	served := make(chan struct{})
	var again *Timer
	var armed sync.Mutex // again is written before it is read
	rounds := 0
	armed.Lock()
	again = c.AfterFunc(MessageTime, 0, func() {
		armed.Lock()
		defer armed.Unlock()
		if rounds++; rounds < 1_000_000 {
			again.Reset(0)
		}
	})
	armed.Unlock()
	c.AfterFunc(ConnectionTime, time.Millisecond, func() { close(served) })
	<-served
	armed.Lock()
	defer armed.Unlock()
	if rounds == 1_000_000 {
		t.Error("the connection timer ran last")
	}
}
