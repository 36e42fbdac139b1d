package queue

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/warrenmq/warren/persist"
)

// memoryQueues makes queues of consecutive ids.
func memoryQueues(t testing.TB, n int) []*Queue {
	pump := newPump(t)
	queues := make([]*Queue, n)
	for i := range queues {
		queues[i] = New(Config{Name: fmt.Sprint("q", i), ID: uint64(i + 1), Pump: pump})
	}
	return queues
}

// total counts the messages of several queues at one moment.
func total(queues []*Queue) (n int) {
	for _, q := range queues {
		q.mu.Lock()
		defer q.mu.Unlock()
	}
	for _, q := range queues {
		n += q.ready.count + q.unacked
	}
	return n
}

// move takes a message of one queue and commits its acknowledgement together
// with a publish of the same body to another. False: there was none.
func move(from, to *Queue, store *persist.Store, w persist.Waiter, token uint64) bool {
	e, _, ok, err := from.Get(false)
	if err != nil || !ok {
		return false
	}
	m := persistent(string(e.Message.Content), 0)
	commit(Transaction{
		Enqueues:    []Enqueue{{Message: m, Queues: []*Queue{to}}},
		Settlements: []Settlement{{Queue: from, Entries: []Entry{e}}},
	}, store, w, token)
	return true
}

// Nobody sees a part of a transaction, and transactions over the same queues
// in different orders do not wait for each other for ever.
func TestCommitIsSeenAsAWhole(t *testing.T) {
	queues := memoryQueues(t, 3)
	const messages = 30
	for i := range messages {
		queues[i%3].Publish(text(fmt.Sprint(i)))
	}
	var movers, watching sync.WaitGroup
	stop := make(chan struct{})
	watching.Go(func() {
		for {
			if n := total(queues); n != messages {
				t.Errorf("%d messages at one moment", n)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for n := range 6 {
		movers.Go(func() {
			for i := range 500 {
				move(queues[(n+i)%3], queues[(n+i+1+n%2)%3], nil, nil, 0)
			}
		})
	}
	movers.Wait()
	close(stop)
	watching.Wait()
	var all []string
	for _, q := range queues {
		for {
			e, _, ok, _ := q.Get(true)
			if !ok {
				break
			}
			all = append(all, string(e.Message.Content))
		}
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != messages {
		t.Fatalf("%d different messages are left", len(slices.Compact(all)))
	}
}

// Everything a transaction can hold, on queues with consumers.
func TestCommitDeliversAndReturns(t *testing.T) {
	queues := memoryQueues(t, 2)
	a, b := queues[0], queues[1]
	fill(a, 4)
	ca, cb := consume(t, a, "ca", 3), consume(t, b, "cb", unlimited)
	got := ca.take()
	m, n := text("m"), text("n")
	journaled := commit(Transaction{
		Enqueues: []Enqueue{{Message: m, Queues: []*Queue{a, b}}, {Message: n, Queues: []*Queue{b}}},
		Settlements: []Settlement{
			{Queue: a, Entries: got[:1]}, {Queue: a, Entries: got[1:], Fate: Requeue},
		},
	}, nil, nil, 0)
	if journaled {
		t.Fatal("nothing of it is durable")
	}
	if got := bodies(cb.take()); !slices.Equal(got, []string{"m", "n"}) {
		t.Fatalf("b's consumer got %v", got)
	}
	if n := a.Counts(); n.Ready != 4 || n.Unacked != 0 || n.Acked != 1 {
		t.Fatalf("a has %+v", n)
	}
	ca.grant(4)
	if got := bodies(ca.take()); !slices.Equal(got, []string{"1", "2", "3", "m"}) {
		t.Fatalf("a's consumer got %v", got)
	}
}

// What only a return brings, only the commit can deliver.
func TestCommitServesWhatIsReturned(t *testing.T) {
	q := memoryQueues(t, 1)[0]
	fill(q, 3)
	var held []Entry
	for range 3 {
		e, _, _, _ := q.Get(false)
		held = append(held, e)
	}
	c := consume(t, q, "c", unlimited)
	commit(Transaction{Settlements: []Settlement{{Queue: q, Entries: held, Fate: Requeue}}}, nil, nil, 0)
	quiet(q)
	if got := bodies(c.take()); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Fatalf("the consumer got %v", got)
	}
}

// A commit larger than what a caller delivers leaves the rest to the pump.
func TestCommitOfABacklog(t *testing.T) {
	q := memoryQueues(t, 1)[0]
	c := consume(t, q, "c", unlimited)
	var tx Transaction
	var want []string
	for i := range 2*deliverBound + pumpBound {
		want = append(want, fmt.Sprint(i))
		tx.Enqueues = append(tx.Enqueues, Enqueue{Message: text(want[i]), Queues: []*Queue{q}})
	}
	commit(tx, nil, nil, 0)
	quiet(q)
	if got := bodies(c.take()); !slices.Equal(got, want) {
		t.Fatalf("%d of %d messages came, or out of order", len(got), len(want))
	}
}

// Queues that went before the commit are left out; the others get theirs.
func TestCommitWithDeletedQueues(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	kept, gone := durable(t, s, 1, 0), durable(t, s, 2, 0)
	r := newReceipts()
	publishAll(s, persistent("old", 0), r, 1, gone)
	r.wait(t, 1)
	e, _, _, _ := gone.Get(false)
	if _, err := gone.Delete(false, false); err != nil {
		t.Fatal(err)
	}
	tx := Transaction{
		Enqueues:    []Enqueue{{Message: persistent("m", 0), Queues: []*Queue{gone, kept}}},
		Settlements: []Settlement{{Queue: gone, Entries: []Entry{e}}},
	}
	if !commit(tx, s, r, 2) {
		t.Fatal("the commit of a durable message waits for nothing")
	}
	r.wait(t, 2)
	if n := gone.Counts(); n.Ready != 0 || n.Unacked != 0 {
		t.Fatalf("the deleted queue has %+v", n)
	}
	onlyGone := Transaction{Enqueues: []Enqueue{{Message: persistent("n", 0), Queues: []*Queue{gone}}}}
	if commit(onlyGone, s, r, 3) {
		t.Fatal("a commit that does nothing waits")
	}
	stop(t, s, kept)
	expectWaiting(t, durable(t, openStore(t, dir), 1, 0), "m/00")
}

// Transactions from many sides between durable queues, with ordinary
// publishers and consumers, over a kill: what was committed is there once,
// what moved did not stay behind.
func TestCommitsOverAKill(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	queues := []*Queue{durable(t, s, 1, 0), durable(t, s, 2, 0), durable(t, s, 3, 0)}
	other := durable(t, s, 4, 0)
	r := newReceipts()
	const messages, movers, moves = 20, 4, 60
	for i := range messages {
		publishAll(s, persistent(fmt.Sprint(i), 0), r, uint64(i), queues[i%3])
	}
	c := consume(t, other, "c", unlimited)
	var busy sync.WaitGroup
	var mu sync.Mutex
	var tokens []uint64
	for n := range movers {
		busy.Go(func() {
			for i := range moves {
				token := uint64(1000 + n*moves + i)
				if move(queues[(n+i)%3], queues[(n+i+1+n%2)%3], s, r, token) {
					mu.Lock()
					tokens = append(tokens, token)
					mu.Unlock()
				}
			}
		})
	}
	busy.Go(func() {
		for i := range 300 {
			publishAll(s, persistent(fmt.Sprint("other ", i), 0), r, uint64(10000+i), other)
			other.Settle(c.take())
		}
	})
	busy.Wait()
	other.Settle(c.take())
	if len(tokens) == 0 {
		t.Fatal("nothing was moved")
	}
	r.wait(t, tokens...)
	barrier(t, s)

	killed := openStore(t, copyFolder(t, dir))
	var all []string
	for id := range uint64(4) {
		for _, e := range waiting(t, durable(t, killed, id+1, 0)) {
			all = append(all, e)
		}
	}
	var want []string
	for i := range messages {
		want = append(want, fmt.Sprint(i, "/0r0"))
	}
	slices.Sort(all)
	slices.Sort(want)
	if !slices.Equal(all, want) {
		t.Fatalf("after the kill there are %v", all)
	}
}

// A store that has been closed refuses: the receipt says so, the queues go on.
func TestCommitOnAClosedStore(t *testing.T) {
	s := openStore(t, t.TempDir())
	q := durable(t, s, 1, 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r := newReceipts()
	if !commit(Transaction{Enqueues: []Enqueue{{Message: persistent("m", 0), Queues: []*Queue{q}}}}, s, r, 1) {
		t.Fatal("a durable message waits for nothing")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stored[1] != 1 || r.failed == nil {
		t.Fatalf("told %d times, error %v", r.stored[1], r.failed)
	}
}

// commit is Commit for transactions that no queue refuses.
func commit(t Transaction, store *persist.Store, w persist.Waiter, token uint64) (journaled bool) {
	journaled, err := Commit(t, store, w, token)
	if err != nil {
		panic(err)
	}
	return journaled
}

func fateOf(requeue bool) Fate {
	if requeue {
		return Requeue
	}
	return Acknowledge
}
