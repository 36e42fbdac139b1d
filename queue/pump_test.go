package queue

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fill publishes n messages, numbered from 0.
func fill(q *Queue, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
		q.Publish(text(names[i]))
	}
	return names
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		runtime.Gosched()
	}
}

// A backlog that neither a caller nor one step of the pump delivers reaches a
// consumer whole and in order.
func TestBacklogBeyondTheBounds(t *testing.T) {
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
	want := fill(q, deliverBound+3*pumpBound+7)
	c := consume(t, q, "c", unlimited)
	quiet(q)
	if got := bodies(c.take()); !slices.Equal(got, want) {
		t.Fatalf("%d of %d messages came, or out of order", len(got), len(want))
	}
}

// A caller delivers a bounded number of messages for others.
func TestCallersDeliverABoundedNumber(t *testing.T) {
	pump := newPump(t)
	q := New(Config{Name: "q", ID: 1, Pump: pump})
	fill(q, 2*deliverBound)
	pump.mu.Lock() // the pump takes nothing
	c := newClient(q, "c", unlimited)
	if err := q.AddConsumer(&c.Consumer); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		q.Resume(&c.Consumer) // stops at the pump's lock
		close(done)
	}()
	eventually(t, "the caller's share is delivered", func() bool { return c.count() == deliverBound })
	pump.mu.Unlock()
	<-done
	quiet(q)
	if n := c.count(); n != 2*deliverBound {
		t.Fatalf("%d messages came", n)
	}
}

// Two busy queues and one goroutine of the pump: each has its turn.
func TestPumpTakesTurns(t *testing.T) {
	pump := newPump(t)
	pump.most = 1
	var mu sync.Mutex
	var order []string
	var queues []*Queue
	pump.mu.Lock()
	for _, name := range []string{"a", "b"} {
		q := New(Config{Name: name, ID: uint64(len(queues) + 1), Pump: pump})
		q.pumping = true // so that nobody delivers now
		fill(q, 3*pumpBound)
		c := newClient(q, name, unlimited)
		c.taken = func(c *client, _ *Entry) {
			mu.Lock()
			defer mu.Unlock()
			if n := len(order); n == 0 || order[n-1] != c.Tag {
				order = append(order, c.Tag)
			}
		}
		if err := q.AddConsumer(&c.Consumer); err != nil {
			t.Fatal(err)
		}
		q.Resume(&c.Consumer)
		queues = append(queues, q)
	}
	pump.mu.Unlock()
	for _, q := range queues {
		pump.Schedule(q)
	}
	for _, q := range queues {
		quiet(q)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(order[:4], []string{"a", "b", "a", "b"}) {
		t.Fatalf("turns: %v", order)
	}
}

func TestPumpEndsWithItsWork(t *testing.T) {
	p := NewPump()
	var ran atomic.Int32
	count := taskFunc(func() bool { return ran.Add(1)%3 != 0 })
	for range 10 {
		p.Schedule(count)
	}
	eventually(t, "every task ran", func() bool { return ran.Load() >= 10 })
	eventually(t, "no goroutine is left", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.workers == 0 && len(p.tasks) == 0
	})
	p.Close()
	before := ran.Load()
	p.Schedule(count)
	p.Close()
	if ran.Load() != before {
		t.Fatal("a closed pump works on")
	}
}

// Close waits for the task that runs and drops the others.
func TestPumpCloseWaits(t *testing.T) {
	p := NewPump()
	started, goOn := make(chan struct{}), make(chan struct{})
	p.most = 1
	p.Schedule(taskFunc(func() bool { close(started); <-goOn; return true }))
	<-started
	p.Schedule(taskFunc(func() bool { t.Error("a task ran after Close"); return false }))
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	eventually(t, "Close has begun", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.closed
	})
	select {
	case <-closed:
		t.Fatal("Close did not wait for the task")
	default:
	}
	close(goOn)
	<-closed
}

type taskFunc func() bool

func (f taskFunc) Run() bool { return f() }

// A queue that is deleted while the pump delivers: nothing comes afterwards.
func TestDeleteWhileThePumpDelivers(t *testing.T) {
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
	const backlog = 20 * pumpBound
	fill(q, backlog)
	c := newClient(q, "c", unlimited)
	half := make(chan struct{})
	c.taken = func(c *client, _ *Entry) {
		if len(c.got) == deliverBound+pumpBound+1 {
			close(half)
		}
	}
	if err := q.AddConsumer(&c.Consumer); err != nil {
		t.Fatal(err)
	}
	q.Resume(&c.Consumer)
	<-half
	left, err := q.Delete(false, false)
	if err != nil {
		t.Fatal(err)
	}
	got := c.count()
	if got+left != backlog {
		t.Fatalf("%d delivered, %d deleted, of %d", got, left, backlog)
	}
	quiet(q)
	if n := c.count(); n != got || c.cancelled != 1 {
		t.Fatalf("%d deliveries after the deletion, told of it %d times", n-got, c.cancelled)
	}
}

// A consumer that is cancelled while the pump delivers: nothing comes once
// RemoveConsumer has returned, and the rest goes to the next.
func TestCancelWhileThePumpDelivers(t *testing.T) {
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
	const backlog = 8 * pumpBound
	fill(q, backlog)
	total := 0
	for round := 0; total < backlog; round++ {
		c := newClient(q, fmt.Sprint(round), unlimited)
		began := make(chan struct{})
		var once sync.Once
		c.taken = func(*client, *Entry) { once.Do(func() { close(began) }) }
		if err := q.AddConsumer(&c.Consumer); err != nil {
			t.Fatal(err)
		}
		q.Resume(&c.Consumer)
		<-began
		q.RemoveConsumer(&c.Consumer)
		got := c.count()
		if got == 0 {
			t.Fatal("nothing was delivered")
		}
		total += got
		if round%2 == 0 {
			quiet(q)
			if n := c.count(); n != got {
				t.Fatalf("%d deliveries after the cancel", n-got)
			}
		}
	}
	if total != backlog {
		t.Fatalf("%d deliveries of %d messages", total, backlog)
	}
}

// crowd is what publishers and consumers of the test below share.
type crowd struct {
	t       *testing.T
	q       *Queue
	stop    chan struct{}
	settled atomic.Int64

	mu   sync.Mutex
	seen map[string]bool
}

// consume is a consumer that comes and goes, with little credit.
func (c *crowd) consume(n int) {
	for round := 0; ; round++ {
		k := newClient(c.q, fmt.Sprint(n, ".", round), 3)
		k.Priority = n % 2
		if err := c.q.AddConsumer(&k.Consumer); err != nil {
			c.t.Errorf("consumer: %v", err)
			return
		}
		c.q.Resume(&k.Consumer)
		for i := range 500 {
			got := k.take()
			if len(got) > 0 {
				c.finish(got, i)
				k.grant(len(got))
				continue
			}
			select {
			case <-c.stop:
				c.q.RemoveConsumer(&k.Consumer)
				return
			default:
				runtime.Gosched()
			}
		}
		c.q.RemoveConsumer(&k.Consumer)
		c.q.Requeue(k.take())
	}
}

// finish settles deliveries, or returns them now and then.
func (c *crowd) finish(got []Entry, turn int) {
	if turn%7 == 0 {
		c.q.Requeue(got)
		return
	}
	c.mu.Lock()
	for _, e := range got {
		if id := string(e.Message.Content); c.seen[id] {
			c.t.Errorf("%s was settled twice", id)
		} else {
			c.seen[id] = true
		}
	}
	c.mu.Unlock()
	c.q.Settle(got)
	c.settled.Add(int64(len(got)))
}

func (c *crowd) publish(p, messages int) {
	for i := range messages {
		m := text(fmt.Sprint(p, "/", i))
		m.Priority, m.Persistent = uint8(i%3), i%2 == 0
		if m.Persistent {
			m.Track(nil, 0)
		}
		c.q.Publish(m)
	}
}

// Publishers, consumers that run out of credit all the time, returns, and
// consumers that come and go, all at once: every message is settled exactly
// once and nobody is left waiting.
func TestNoWakeUpIsLost(t *testing.T) {
	journal := &lockedJournal{held: map[uint64]bool{}}
	q := New(Config{Name: "q", ID: 1, MaxPriority: 2, Pump: newPump(t), Durable: true, Journal: journal})
	c := &crowd{t: t, q: q, stop: make(chan struct{}), seen: map[string]bool{}}
	const publishers, each, consumers = 3, 2000, 4
	var consuming, publishing sync.WaitGroup
	for n := range consumers {
		consuming.Go(func() { c.consume(n) })
	}
	for p := range publishers {
		publishing.Go(func() { c.publish(p, each) })
	}
	publishing.Wait()
	eventually(t, "every message is settled", func() bool { return c.settled.Load() == publishers*each })
	close(c.stop)
	consuming.Wait()
	if n := q.Counts(); n.Ready != 0 || n.Unacked != 0 || n.ReadyBytes != 0 || n.Consumers != 0 {
		t.Fatalf("left over: %+v", n)
	}
	if len(journal.held) != 0 {
		t.Fatalf("the journal still holds %d messages", len(journal.held))
	}
}
