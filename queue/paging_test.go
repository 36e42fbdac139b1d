package queue

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warrenmq/warren/persist"
)

// heavy makes a message that fills a block.
func heavy(body string) *Message {
	m := text(body)
	m.Properties = make([]byte, blockWeight)
	return m
}

// pagedQueue makes a queue of heavy messages, all but the last on disk.
func pagedQueue(t testing.TB, g *Pager, rules *Rules, bodies ...string) *Queue {
	t.Helper()
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t), Pager: g, Clock: g.clock, Rules: rules})
	for _, body := range bodies {
		q.Publish(heavy(body))
	}
	calm(q)
	if len(bodies) > 1 && onDisk(q) == 0 {
		t.Fatal("nothing was paged out")
	}
	return q
}

// body gets the next message's, waiting for it.
func body(t testing.TB, q *Queue) string {
	t.Helper()
	e, _, ok, err := getNow(q, true)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return "empty"
	}
	return string(e.Message.Content)
}

func TestGetWaitsForItsPage(t *testing.T) {
	q := pagedQueue(t, newPager(t, 1, newClock(t)), nil, "a", "b", "c")
	if _, _, ok, err := q.Get(true); ok || !errors.Is(err, ErrLoading) {
		t.Fatalf("get of a message on disk: %v, %v", ok, err)
	}
	for _, want := range []string{"a", "b", "c", "empty"} {
		if got := body(t, q); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	told := 0
	q.Await(func() { told++ })
	if told != 1 {
		t.Error("awaiting an empty queue waits")
	}
}

// Who waits for a message is told when there is none any more.
func TestAwaitEnds(t *testing.T) {
	for _, end := range []struct {
		name string
		do   func(q *Queue)
		err  error
	}{
		{"purge", func(q *Queue) { q.Purge() }, nil},
		{"delete", func(q *Queue) { _, _ = q.Delete(false, false) }, ErrDeleted},
	} {
		t.Run(end.name, func(t *testing.T) {
			q := pagedQueue(t, newPager(t, 1, newClock(t)), nil, "a", "b", "c")
			told := make(chan struct{}, 10)
			for range 3 {
				q.Await(func() { told <- struct{}{} })
			}
			end.do(q)
			for range 3 {
				select {
				case <-told:
				case <-time.After(20 * time.Second):
					t.Fatal("never told")
				}
			}
			if _, _, ok, err := q.Get(true); ok || !errors.Is(err, end.err) {
				t.Errorf("get: %v, %v", ok, err)
			}
			calm(q)
			if s := q.Pager.Stats(); s.Pages != 0 {
				t.Errorf("%d pages are left", s.Pages)
			}
		})
	}
}

// The count of a full queue is never above its limit, although what falls out
// has to be read first.
func TestFullQueueOnDisk(t *testing.T) {
	rules := NoRules()
	rules.MaxLength, rules.MaxBytes = 3, 1000
	q := pagedQueue(t, newPager(t, 1, newClock(t)), &rules, "a", "b", "c")
	for i := range 50 {
		q.Publish(heavy(fmt.Sprint(i)))
		if n := q.Counts(); n.Ready > 3 || n.ReadyBytes > 1000 {
			t.Fatalf("after %d more: %+v", i, n)
		}
	}
	if got := body(t, q); got != "47" {
		t.Fatalf("the head is %s", got)
	}
	if n, _ := q.Purge(); n != 2 {
		t.Fatalf("purged %d", n)
	}
}

// A page that cannot be read costs its own messages only, and is logged.
func TestUnreadablePages(t *testing.T) {
	g := newPager(t, 1, newClock(t))
	var log bytes.Buffer
	g.log = slog.New(slog.NewTextHandler(&log, nil))
	j := newBookJournal()
	q := New(Config{Name: "q", VHost: "v", ID: 1, Durable: true, Journal: j, Pump: newPump(t), Pager: g})
	for i := range 10 {
		m := heavy(fmt.Sprint(i))
		m.Persistent = true
		j.track(m)
		q.Publish(m)
	}
	calm(q)
	j.mu.Lock()
	j.unread[3], j.unread[4] = true, true // messages 2 and 3
	j.mu.Unlock()
	for _, want := range []string{"0", "1", "4", "5"} {
		if got := body(t, q); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	if n := q.Counts(); n.Ready != 4 || n.ReadyBytes != 4 {
		t.Errorf("counted: %+v", n)
	}
	if got := j.seqs(); !slices.Contains(got, 3) || !slices.Contains(got, 4) {
		t.Errorf("what could not be read is settled: the journal holds %v", got)
	}
	calm(q)
	for _, want := range []string{"cannot be read back", "vhost=v", "queue=q", "messages=1", "message 3 cannot be read"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}

// What the disk does not take stays in memory, and is paged out once it does.
func TestPagingWithoutDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pages")
	pages, err := persist.NewTransient(dir)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var log bytes.Buffer
	g := NewPager(1, pages, newClock(t), slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(b)
	}), nil)))
	defer g.Close()
	if err := os.WriteFile(dir, nil, 0o644); err != nil { // where the folder would be
		t.Fatal(err)
	}
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t), Pager: g})
	for i := range 100 {
		q.Publish(heavy(fmt.Sprint(i)))
	}
	calm(q)
	if onDisk(q) != 0 {
		t.Fatal("something was paged out")
	}
	if got := body(t, q); got != "0" {
		t.Fatalf("the head is %s", got)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); onDisk(q) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("paging out is not tried again")
		}
	}
	for i := 1; i < 100; i++ {
		if got := body(t, q); got != fmt.Sprint(i) {
			t.Fatalf("got %s, want %d", got, i)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if n := strings.Count(log.String(), "stay in memory"); n != 1 || !strings.Contains(log.String(), "paging messages out again") {
		t.Errorf("the log has the failure %d times:\n%s", n, log.String())
	}
}

type writer func(b []byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// The largest queue goes first, and only as much as is too much.
func TestLargestQueueIsPagedOut(t *testing.T) {
	g := newPager(t, 100*blockWeight, newClock(t))
	pump := newPump(t)
	small := New(Config{Name: "small", ID: 1, Pump: pump, Pager: g})
	large := New(Config{Name: "large", ID: 2, Pump: pump, Pager: g})
	for i := range 10 {
		small.Publish(heavy(fmt.Sprint(i)))
	}
	for i := range 200 {
		large.Publish(heavy(fmt.Sprint(i)))
		if i%10 == 0 {
			g.Wait()
		}
	}
	calm(small, large)
	if onDisk(small) != 0 || onDisk(large) == 0 {
		t.Errorf("pages: %d of the small one, %d of the large one", onDisk(small), onDisk(large))
	}
	if s := g.Stats(); s.Resident > 70*blockWeight || s.Resident < 20*blockWeight {
		t.Errorf("in memory: %d blocks", s.Resident/blockWeight)
	}
	if n := large.Counts(); n.Ready != 200 {
		t.Errorf("counted: %+v", n)
	}
}

// What has been paged out is garbage, and a large backlog costs little.
func TestBacklogCostsLittleMemory(t *testing.T) {
	const messages, size = 100_000, 1 << 10
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, kind := range []string{"transient", "persistent"} {
		t.Run(kind, func(t *testing.T) {
			store := openStore(t, t.TempDir())
			log := store.Log(store.NextID())
			g := NewPager(2<<20, store.Transient(), newClock(t), slog.New(slog.DiscardHandler))
			t.Cleanup(g.Close)
			q := New(Config{Name: "q", ID: 1, Durable: true, Journal: StoreJournal(log), Pump: newPump(t), Pager: g})
			before := used()
			var a Arena
			for i := range messages {
				m := a.NewMessage(size)
				m.Expiration, m.Content = -1, a.Bytes(size)
				m.Persistent = kind == "persistent"
				if m.Persistent {
					m.Track(nil, 0)
				}
				q.Publish(m)
				if i%100 == 99 {
					g.Wait()
				}
				if i%10_000 == 9999 {
					barrier(t, store)
				}
			}
			barrier(t, store)
			for end := time.Now().Add(20 * time.Second); g.Stats().Resident > g.budget; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%+v", g.Stats())
				}
			}
			calm(q)
			// The store's own memory for the pages is in it.
			if cost := used() - before; cost > messages*size/5 {
				t.Errorf("%d messages of %d bytes cost %d bytes", messages, size, cost)
			}
			if n := q.Counts(); n.Ready != messages || n.ReadyBytes != messages*size {
				t.Errorf("counted: %+v", n)
			}
			c := newClient(q, "c", unlimited)
			c.NoAck = true
			next := uint64(1)
			c.taken = func(c *client, e *Entry) {
				if e.Seq != next || len(e.Message.Content) != size {
					t.Errorf("message %d in place of %d", e.Seq, next)
				}
				next, c.got = e.Seq+1, c.got[:0]
			}
			if err := q.AddConsumer(&c.Consumer); err != nil {
				t.Fatal(err)
			}
			q.Resume(&c.Consumer)
			for end := time.Now().Add(60 * time.Second); q.Counts().Ready > 0; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d messages are left", q.Counts().Ready)
				}
			}
			calm(q)
			if s := g.Stats(); s.Pages != 0 || s.Resident > 2*pageWeight {
				t.Errorf("after the drain: %+v", s)
			}
		})
	}
}

// Publishers, consumers and gets at once, with everything on disk most of the
// time: each message comes once, those of one publisher in order.
func TestPagingConcurrently(t *testing.T) {
	g := newPager(t, 1, newClock(t))
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t), Pager: g})
	const publishers, each = 4, 300
	var mu sync.Mutex
	last := map[byte]int{}
	count := 0
	took := func(e *Entry) {
		var p byte
		var n int
		if _, err := fmt.Sscanf(string(e.Message.Content), "%c %d", &p, &n); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if n != last[p]+1 {
			t.Errorf("publisher %c: message %d after %d", p, n, last[p])
		}
		last[p] = n
		count++
	}
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				q.Publish(heavy(fmt.Sprintf("%c %d", 'a'+p, i+1)))
			}
		})
	}
	c := newClient(q, "c", 0)
	c.NoAck = true
	c.taken = func(c *client, e *Entry) { took(e); c.got = nil }
	if err := q.AddConsumer(&c.Consumer); err != nil {
		t.Fatal(err)
	}
	q.Resume(&c.Consumer)
	wg.Wait()
	for done := false; !done; {
		c.grant(10)
		calm(q)
		// Alone, because a get and a delivery have no order between them.
		for range 10 {
			e, _, ok, err := getNow(q, true)
			if err != nil {
				t.Fatal(err)
			}
			if done = !ok; done {
				break
			}
			took(&e)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if count != publishers*each {
		t.Errorf("%d of %d messages", count, publishers*each)
	}
}

// A queue that is paged has the same cost on the hot paths as one that is not.
func TestPagedHotPathsDoNotAllocate(t *testing.T) {
	g := newPager(t, 1<<30, newClock(t))
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t), Pager: g})
	m := text("m")
	fill(q, blockEntries+blockEntries/2)
	if n := testing.AllocsPerRun(200, func() {
		for range blockEntries {
			q.Publish(m)
			_, _, _, _ = q.Get(true)
		}
	}); n != 0 {
		t.Errorf("%v allocations a block", n)
	}
	if s := g.Stats(); s.Resident <= 0 || s.Pages != 0 {
		t.Errorf("counted: %+v", s)
	}
}
