package queue

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// twin is one of two queues that are treated alike: one is all in memory, the
// other pages all the time.
type twin struct {
	q       *Queue
	journal *bookJournal
	client  *client
	held    map[string]Entry // delivered, by body
	seen    []string         // what the clients saw, in order
	dead    []string         // what died, in order; of the burials until calm
}

// twins is both, and what was drawn for them.
type twins struct {
	clock *Clock
	both  [2]*twin
	next  int
	// expiring: some messages may expire. Then a get does not say how many are
	// left in the same way: those behind it that have expired are found out
	// when they have been read.
	expiring bool
}

// TestPagingChangesNothing does the same to a queue in memory and to one whose
// messages are on disk most of the time: deliveries, deaths, counts and what
// the journal holds are the same.
func TestPagingChangesNothing(t *testing.T) {
	clock := newClock(t)
	pagers := []*Pager{newPager(t, 1, clock), newPager(t, 300<<10, clock), newPager(t, 3<<20, clock)}
	paged := 0
	rapid.Check(t, func(t *rapid.T) {
		w := &twins{clock: clock}
		pump := NewPump()
		defer pump.Close()
		w.begin(t, pump, rapid.SampledFrom(pagers).Draw(t, "pager"))
		defer func() {
			for _, tw := range w.both {
				_, _ = tw.q.Delete(false, false)
			}
		}()
		t.Repeat(map[string]func(*rapid.T){
			"publish": w.publish, "burst": w.burst, "get": w.get, "grant": w.grant, "settle": w.settle, "purge": w.purge,
			"advance": w.advance, "commit": w.commit,
			"": func(t *rapid.T) { w.check(t); paged += onDisk(w.both[1].q) },
		})
	})
	if paged == 0 {
		t.Error("nothing was ever paged out")
	}
	for _, g := range pagers {
		if s := g.Stats(); s.Pages != 0 || s.Resident != 0 {
			t.Errorf("after all queues have gone the pager counts %+v", s)
		}
		if files, _ := g.pages.Usage(); files != 0 {
			t.Errorf("%d files of transient pages are left", files)
		}
	}
}

func (w *twins) begin(t *rapid.T, pump *Pump, pager *Pager) {
	w.expiring = rapid.Bool().Draw(t, "expiring")
	rules := NoRules()
	rules.TTL = rapid.SampledFrom([]int64{-1, -1, 2 * 3600_000}).Draw(t, "ttl")
	if !w.expiring {
		rules.TTL = -1
	}
	rules.MaxLength = rapid.SampledFrom([]int64{-1, -1, 7, 40}).Draw(t, "max-length")
	rules.MaxBytes = rapid.SampledFrom([]int64{-1, -1, 100}).Draw(t, "max-length-bytes")
	if w.expiring {
		// Why a message died would not be the same, only that it did: one that
		// has to be read before it can be dropped may have expired meanwhile.
		rules.MaxLength, rules.MaxBytes = -1, -1
	}
	rules.Overflow = rapid.SampledFrom([]Overflow{DropHead, DropHead, RejectPublish, RejectPublishAndBury}).Draw(t, "overflow")
	rules.DeadLetters = rapid.Bool().Draw(t, "dead letters")
	priorities := rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "max priority")
	durable := rapid.Bool().Draw(t, "durable")
	for i := range w.both {
		tw := &twin{held: map[string]Entry{}}
		c := Config{Name: "q", ID: uint64(i + 1), Pump: pump, Clock: w.clock, Rules: &rules, MaxPriority: priorities}
		if durable {
			tw.journal = newBookJournal()
			c.Durable, c.Journal = true, tw.journal
		}
		if i == 1 {
			c.Pager = pager
		}
		c.Bury = func(q *Queue, dead []Dead) {
			t := Transaction{Settlements: []Settlement{{Queue: q, Fate: Inter}}}
			for _, d := range dead {
				tw.dead = append(tw.dead, fmt.Sprint(d.Reason, " ", describe(&d.Entry)))
				if d.Seq == 0 { // refused at the door
					continue
				}
				if d.Journaled {
					tw.journal.Settle(d.Seq)
					d.Journaled = false
				}
				t.Settlements[0].Entries = append(t.Settlements[0].Entries, d.Entry)
			}
			commit(t, nil, nil, 0)
		}
		tw.q = New(c)
		tw.client = newClient(tw.q, "c", 0)
		if err := tw.q.AddConsumer(&tw.client.Consumer); err != nil {
			t.Fatal(err)
		}
		tw.q.Resume(&tw.client.Consumer)
		w.both[i] = tw
	}
}

// describe is everything of an entry that a client or another queue sees.
func describe(e *Entry) string {
	m := e.Message
	return fmt.Sprint(string(m.Content), " seq ", e.Seq, " redelivered ", e.Redelivered, e.Deliveries, " priority ", e.Priority, m.Priority,
		" journaled ", e.Journaled, " ", m.Exchange, " ", m.RoutingKey, " ", len(m.Properties), m.Persistent, m.Expiration, m.BCC)
}

// message draws one; each twin gets its own.
func (w *twins) message(t *rapid.T) func(tw *twin) *Message {
	id := fmt.Sprint("m", w.next)
	w.next++
	size := rapid.SampledFrom([]int{0, 10, 700, 22 << 10}).Draw(t, "properties")
	priority := rapid.IntRange(0, 4).Draw(t, "priority")
	persistent := rapid.Bool().Draw(t, "persistent")
	expiration := rapid.SampledFrom([]int64{-1, -1, 3600_000, 3 * 3600_000}).Draw(t, "expiration")
	if !w.expiring {
		expiration = -1
	}
	return func(tw *twin) *Message {
		m := text(id)
		m.Properties = make([]byte, size)
		m.Priority, m.Persistent, m.Expiration = uint8(priority), persistent, expiration
		m.Exchange, m.RoutingKey = fmt.Sprint("x", size), id
		if persistent && tw.journal != nil {
			tw.journal.track(m)
		}
		return m
	}
}

func (w *twins) publish(t *rapid.T) {
	var outcomes [2]Outcome
	make := w.message(t)
	for i, tw := range w.both {
		outcomes[i] = tw.q.Publish(make(tw))
	}
	if outcomes[0] != outcomes[1] {
		t.Fatalf("publish: %v in memory, %v paged", outcomes[0], outcomes[1])
	}
}

// burst publishes without waiting between.
func (w *twins) burst(t *rapid.T) {
	for range rapid.IntRange(10, 90).Draw(t, "messages") {
		w.publish(t)
	}
}

func (w *twins) get(t *rapid.T) {
	noAck := rapid.Bool().Draw(t, "no-ack")
	for _, tw := range w.both {
		e, left, ok, err := getNow(tw.q, noAck)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			tw.seen = append(tw.seen, "empty")
			continue
		}
		if w.expiring {
			left = -1
		}
		tw.seen = append(tw.seen, fmt.Sprint("got ", describe(&e), " left ", left))
		if !noAck {
			tw.held[string(e.Message.Content)] = e
		}
	}
}

func (w *twins) grant(t *rapid.T) {
	n := rapid.SampledFrom([]int{1, 3, 30}).Draw(t, "credit")
	for _, tw := range w.both {
		tw.client.grant(n)
	}
}

// settle ends some of what was delivered, each way.
func (w *twins) settle(t *rapid.T) {
	ids := slices.Sorted(maps.Keys(w.both[0].held))
	if len(ids) == 0 {
		t.Skip()
	}
	ids = rapid.Permutation(ids).Draw(t, "order")
	ids = ids[:rapid.IntRange(1, len(ids)).Draw(t, "how many")]
	how := rapid.SampledFrom([]string{"ack", "requeue", "requeue", "reject"}).Draw(t, "how")
	for _, tw := range w.both {
		var entries []Entry
		for _, id := range ids {
			e, ok := tw.held[id]
			if !ok {
				t.Fatalf("%s was not delivered by both", id)
			}
			delete(tw.held, id)
			entries = append(entries, e)
		}
		switch how {
		case "ack":
			tw.q.Settle(entries)
		case "requeue":
			tw.q.Requeue(entries)
		default:
			tw.q.Reject(entries)
		}
	}
}

func (w *twins) purge(t *rapid.T) {
	if rapid.IntRange(0, 4).Draw(t, "rarely") > 0 {
		t.Skip()
	}
	for _, tw := range w.both {
		count, journaled := tw.q.Purge()
		tw.seen = append(tw.seen, fmt.Sprint("purged ", count, journaled))
	}
}

// advance moves time by what no sum of makes an expiry fall due exactly.
func (w *twins) advance(t *rapid.T) {
	w.clock.Advance(time.Duration(rapid.SampledFrom([]int{37, 71}).Draw(t, "minutes")) * time.Minute)
}

func (w *twins) commit(t *rapid.T) {
	var makers []func(*twin) *Message
	for range rapid.IntRange(1, 4).Draw(t, "messages") {
		makers = append(makers, w.message(t))
	}
	whole := rapid.Bool().Draw(t, "whole")
	for _, tw := range w.both {
		if tw.journal != nil {
			t.Skip() // a journal in a group needs a store
		}
		tx := Transaction{Whole: whole}
		for _, make := range makers {
			tx.Enqueues = append(tx.Enqueues, Enqueue{Message: make(tw), Queues: []*Queue{tw.q}, Redelivered: whole})
		}
		_, err := Commit(tx, nil, nil, 0)
		tw.seen = append(tw.seen, fmt.Sprint("commit ", err))
	}
}

// check compares both when nothing moves any more.
func (w *twins) check(t *rapid.T) {
	calm(w.both[0].q, w.both[1].q)
	var counts [2]Counts
	var held [2][]uint64
	for i, tw := range w.both {
		for _, e := range tw.client.take() {
			tw.seen = append(tw.seen, "delivered "+describe(&e))
			tw.held[string(e.Message.Content)] = e
		}
		counts[i] = tw.q.Counts()
		if tw.journal != nil {
			held[i] = tw.journal.seqs()
		}
	}
	if diff := gocmp.Diff(w.both[0].seen, w.both[1].seen); diff != "" {
		t.Fatalf("what happened (-in memory +paged):\n%s", diff)
	}
	if diff := gocmp.Diff(counts[0], counts[1]); diff != "" {
		t.Fatalf("counts (-in memory +paged):\n%s", diff)
	}
	if diff := gocmp.Diff(held[0], held[1]); diff != "" {
		t.Fatalf("the journal holds (-in memory +paged):\n%s", diff)
	}
	if diff := gocmp.Diff(w.both[0].dead, w.both[1].dead); diff != "" {
		t.Fatalf("what died (-in memory +paged):\n%s", diff)
	}
	for _, tw := range w.both {
		tw.seen, tw.dead = nil, nil
	}
	checkPages(t, w.both[1].q)
}

// checkPages checks the sums of a queue's pages and blocks.
func checkPages(t *rapid.T, q *Queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	pages, resident, count := 0, int64(0), 0
	for i := range q.ready.levels {
		l := &q.ready.levels[i]
		last := uint64(0)
		for b := l.fifo.first; b != nil; b = b.next {
			if b.firstSeq() <= last {
				t.Fatalf("block of %d behind message %d", b.firstSeq(), last)
			}
			if b.page != nil {
				pages++
				count += b.page.count
				last = max(b.page.first, b.page.journaled.last)
			} else {
				count += b.end - b.start
				last = b.entries[b.end-1].Seq
			}
			if b.counted {
				resident += b.weight
			}
			if b.leaving || (b.next == nil) != (b == l.fifo.last) {
				t.Fatal("a block is leaving still, or the last is not the last")
			}
		}
		count += len(l.returned)
	}
	p := q.paging
	if pages != p.onDisk || resident != p.resident.Load() || count != q.ready.count || p.target != nil {
		t.Fatalf("%d pages, weight %d, %d messages; counted are %d, %d, %d", pages, resident, count, p.onDisk, p.resident.Load(), q.ready.count)
	}
}
