package queue

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// blocking makes a queue whose publishers wait above length messages.
func blocking(t testing.TB, length, bytes int64) *Queue {
	rules := NoRules()
	rules.MaxLength, rules.MaxBytes, rules.Overflow = length, bytes, BlockPublishers
	return New(Config{Name: "q", ID: 1, Rules: &rules, Pump: newPump(t)})
}

// sender is a publisher that keeps what a full queue does not take.
type sender struct {
	q *Queue

	mu       sync.Mutex
	kept     []*Message
	outcomes []Outcome
	called   int
}

func (s *sender) publish(m *Message) Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.q.Publish(m)
	if o == Full {
		if s.kept = append(s.kept, m); len(s.kept) == 1 {
			s.q.AwaitRoom(s, len(m.Content))
		}
	}
	return o
}

func (s *sender) Room(q *Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called++
	for len(s.kept) > 0 {
		o := q.PublishWaiting(s.kept[0])
		if o == Full {
			q.AwaitRoom(s, len(s.kept[0].Content))
			return
		}
		s.outcomes = append(s.outcomes, o)
		s.kept = s.kept[1:]
	}
}

// settled waits until the queue calls nobody.
func settled(q *Queue) {
	for {
		quiet(q)
		q.mu.Lock()
		busy := q.offering || q.pumping
		q.mu.Unlock()
		if !busy {
			return
		}
	}
}

func take(t *testing.T, q *Queue, want ...string) {
	t.Helper()
	for _, w := range want {
		e, _, ok, err := q.Get(true)
		if err != nil || !ok || string(e.Message.Content) != w {
			t.Fatalf("get: %v, %v, %v; want %s", e.Message, ok, err, w)
		}
		settled(q)
	}
}

// Those that wait go in order, nobody passes them, and a publisher's messages
// keep theirs.
func TestRoomInTurn(t *testing.T) {
	q := blocking(t, 2, -1)
	a, b := &sender{q: q}, &sender{q: q}
	for _, p := range []struct {
		from *sender
		id   string
		want Outcome
	}{{a, "a1", Taken}, {b, "b1", Taken}, {b, "b2", Full}, {a, "a2", Full}, {a, "a3", Full}, {b, "b3", Full}} {
		if o := p.from.publish(text(p.id)); o != p.want {
			t.Fatalf("%s: %v", p.id, o)
		}
	}
	if n := q.Blocking(); n != 2 {
		t.Fatalf("%d wait", n)
	}
	take(t, q, "a1", "b1", "b2", "a2", "b3", "a3")
	if n := q.Blocking(); n != 0 {
		t.Fatalf("%d wait", n)
	}
	if o := a.publish(text("free")); o != Taken {
		t.Fatalf("outcome %v when nobody waits", o)
	}
}

// Nobody is called before an eighth of the limit is free.
func TestRoomIsOfferedByTheEighth(t *testing.T) {
	for name, q := range map[string]*Queue{"length": blocking(t, 80, -1), "bytes": blocking(t, -1, 160)} {
		t.Run(name, func(t *testing.T) {
			for range 80 {
				q.Publish(text("xx"))
			}
			s := &sender{q: q}
			if o := s.publish(text("y")); o != Full {
				t.Fatalf("outcome %v", o)
			}
			calls := func() int {
				settled(q)
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.called
			}
			for range 9 {
				_, _, _, _ = q.Get(true)
			}
			if n := calls(); n != 0 {
				t.Fatalf("called %d times with less than an eighth free", n)
			}
			_, _, _, _ = q.Get(true)
			if n := calls(); n != 1 {
				t.Fatalf("called %d times with an eighth free", n)
			}
		})
	}
}

// What can never fit is refused, as reject-publish does.
func TestRoomForTooMuch(t *testing.T) {
	if o := blocking(t, -1, 3).Publish(text("four")); o != Refused {
		t.Errorf("a body above the limit: %v", o)
	}
	if o := blocking(t, 0, -1).Publish(text("x")); o != Refused {
		t.Errorf("a queue that holds nothing: %v", o)
	}
}

// A large message at the head of those that wait is called when it fits.
func TestRoomForALargeMessage(t *testing.T) {
	q := blocking(t, -1, 10)
	for range 5 {
		q.Publish(text("xx"))
	}
	s := &sender{q: q}
	s.publish(text("12345678"))
	s.publish(text("a"))
	take(t, q, "xx", "xx", "xx", "xx")
	if n := q.Counts(); n.Ready != 2 || n.ReadyBytes != 10 {
		t.Fatalf("%+v", n)
	}
	take(t, q, "xx", "12345678", "a")
}

// What makes room besides a delivery; a queue that goes lets everybody go on.
func TestRoomByOtherMeans(t *testing.T) {
	for name, makeRoom := range map[string]func(q *Queue){
		"purge":  func(q *Queue) { q.Purge() },
		"delete": func(q *Queue) { _, _ = q.Delete(false, false) },
		"consumer": func(q *Queue) {
			c := newClient(q, "c", unlimited)
			_ = q.AddConsumer(&c.Consumer)
			q.Resume(&c.Consumer)
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := blocking(t, 1, -1)
			fill(q, 1)
			var all []*sender
			for range 3 {
				s := &sender{q: q}
				s.publish(text("x"))
				all = append(all, s)
			}
			makeRoom(q)
			settled(q)
			left := 0
			for _, s := range all {
				left += len(s.kept)
			}
			if want := map[string]int{"purge": 2}[name]; left != want {
				t.Fatalf("%d still wait, want %d", left, want)
			}
			if name == "delete" && !slices.Equal(all[0].outcomes, []Outcome{Gone}) {
				t.Fatalf("outcomes %v", all[0].outcomes)
			}
		})
	}
}

// A waiter that has ended is passed over.
func TestRoomForgotten(t *testing.T) {
	q := blocking(t, 1, -1)
	fill(q, 1)
	a, b := &sender{q: q}, &sender{q: q}
	a.publish(text("a"))
	b.publish(text("b"))
	q.ForgetRoom(a)
	take(t, q, "0", "b")
	if a.called != 0 || q.Blocking() != 0 {
		t.Fatalf("called %d times, %d wait", a.called, q.Blocking())
	}
}

// A transaction does not wait: whole ones fail, dead letters are left out.
func TestRoomInTransactions(t *testing.T) {
	q := blocking(t, 1, -1)
	fill(q, 1)
	tx := Transaction{Enqueues: []Enqueue{{Message: text("x"), Queues: []*Queue{q}}}}
	if _, err := Commit(tx, nil, nil, 0); err != nil || q.Counts().Ready != 1 {
		t.Fatalf("%v, %+v", err, q.Counts())
	}
	tx.Whole = true
	if _, err := Commit(tx, nil, nil, 0); err != ErrRefused {
		t.Fatalf("%v", err)
	}
}

// Many publishers and a consumer: the limit holds, nothing is lost, and each
// publisher's messages stay in order.
func TestRoomUnderLoad(t *testing.T) {
	const publishers, messages, limit = 8, 500, 5
	q := blocking(t, limit, -1)
	var senders sync.WaitGroup
	for p := range publishers {
		s := &sender{q: q}
		senders.Go(func() {
			for i := range messages {
				s.publish(text(fmt.Sprint(p, " ", i)))
			}
		})
	}
	next := make([]int, publishers)
	for got := 0; got < publishers*messages; {
		if n := q.Counts(); n.Ready > limit {
			t.Fatalf("%d wait", n.Ready)
		}
		e, _, ok, err := q.Get(true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			settled(q)
			continue
		}
		var p, i int
		if _, err := fmt.Sscan(string(e.Message.Content), &p, &i); err != nil || next[p] != i {
			t.Fatalf("publisher %d: got %d, want %d (%v)", p, i, next[p], err)
		}
		next[p]++
		got++
	}
	senders.Wait()
}
