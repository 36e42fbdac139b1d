package queue

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// newQuorum makes a quorum queue as 4.3 has it, on a clock that a test may
// move.
func newQuorum(t testing.TB, rules Rules, quorum Quorum) (*Queue, *Clock) {
	t.Helper()
	clock := NewClock()
	t.Cleanup(clock.Stop)
	return New(Config{Name: "q", ID: 1, Pump: newPump(t), Clock: clock, Rules: &rules, Quorum: &quorum}), clock
}

// TestDelayedRetry: a returned message waits for the least time once for each
// failure, up to the most; it is neither ready nor unacknowledged meanwhile,
// and then comes before all that waits.
func TestDelayedRetry(t *testing.T) {
	rules := NoRules()
	rules.Retry, rules.RetryMin, rules.RetryMax = RetryAll, 1000, 2500
	q, clock := newQuorum(t, rules, Quorum{})
	q.Publish(text("a"))
	q.Publish(text("b"))
	for _, wait := range []time.Duration{1000, 2000, 2500, 2500} {
		e, _, _, _ := q.Get(false)
		if string(e.Message.Content) != "a" {
			t.Fatalf("got %s", e.Message.Content)
		}
		q.Return([]Entry{e}, Failed)
		if n := q.Counts(); n.Ready != 1 || n.Unacked != 0 || q.Delayed() != 1 {
			t.Errorf("while it is put off: %+v, %d put off", n, q.Delayed())
		}
		clock.Advance((wait - 50) * time.Millisecond)
		if q.Counts().Ready != 1 {
			t.Errorf("ready too soon for %v", wait)
		}
		clock.Advance(60 * time.Millisecond)
		if q.Counts().Ready != 2 {
			t.Errorf("not ready after %v", wait)
		}
	}
	e, _, _, _ := q.Get(false)
	q.Return([]Entry{e}, HandedBack)
	if marks := q.Marks(); len(marks) != 0 {
		t.Errorf("marks of messages that are on no disk: %v", marks)
	}
	if n, _ := q.Purge(); n != 2 {
		t.Errorf("purged %d", n)
	}
	clock.Advance(time.Hour)
	if n := q.Counts(); n.Ready != 0 {
		t.Errorf("after the purge: %+v", n)
	}
}

// TestRetryTypes: which returns are delayed.
func TestRetryTypes(t *testing.T) {
	e := Entry{Failures: 2}
	for kind, want := range map[RetryType][2]int64{RetryAtOnce: {0, 0}, RetryAll: {20, 20}, RetryFailed: {0, 20}, RetryReturned: {20, 0}} {
		r := Rules{Retry: kind, RetryMin: 10, RetryMax: 100}
		if got := [2]int64{r.retryDelay(&e, false), r.retryDelay(&e, true)}; got != want {
			t.Errorf("type %d: %v, want %v", kind, got, want)
		}
	}
	r := Rules{Retry: RetryAll, RetryMin: 1 << 62, RetryMax: 1<<63 - 1}
	if got := r.retryDelay(&e, true); got != 1<<63-1 {
		t.Errorf("a product beyond int64 gives %d", got)
	}
}

// TestRetryHeap: entries come out by due time, and of one time in the order
// they were put off.
func TestRetryHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h retryHeap
		var model []putOff
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(model) > 0 && rapid.Bool().Draw(t, "pop") {
				if got := h.pop(); got.Seq != model[0].Seq {
					t.Fatalf("got %d, want %d", got.Seq, model[0].Seq)
				}
				model = model[1:]
				continue
			}
			e := Entry{Seq: h.n + 1}
			due := int64(rapid.IntRange(0, 9).Draw(t, "due"))
			h.push(e, due)
			model = append(model, putOff{Entry: e, due: due})
			slices.SortStableFunc(model, func(a, b putOff) int { return cmp.Compare(a.due, b.due) })
		}
	})
}

// TestQuorumFull: a queue that refuses takes one too many, and then none until
// it is down to four fifths.
func TestQuorumFull(t *testing.T) {
	rules := NoRules()
	rules.MaxLength, rules.Overflow = 10, RejectPublish
	q, _ := newQuorum(t, rules, Quorum{})
	var got []int
	for range 30 {
		n := 0
		for q.Publish(text("a")) == Taken {
			n++
		}
		got = append(got, n)
		_, _, _, _ = q.Get(true)
	}
	want := append([]int{11}, make([]int, 29)...)
	for i := 3; i < 30; i += 3 {
		want[i] = 3
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
}

// TestPreemption: a single active consumer with unacknowledged messages gets
// no more when one of higher priority waits, and makes way with the last of
// them, however they are settled.
func TestPreemption(t *testing.T) {
	rules := NoRules()
	rules.SingleActive = true
	for name, settle := range map[string]func(q *Queue, entries []Entry){
		"ack":    func(q *Queue, entries []Entry) { q.Settle(entries) },
		"reject": func(q *Queue, entries []Entry) { q.Reject(entries) },
		"return": func(q *Queue, entries []Entry) { q.Return(entries, HandedBack) },
		"commit": func(q *Queue, entries []Entry) {
			commit(Transaction{Settlements: []Settlement{{q, entries, Acknowledge}}}, nil, nil, 0)
		},
		"commit of a refusal": func(q *Queue, entries []Entry) {
			commit(Transaction{Settlements: []Settlement{{q, entries, Refuse}}}, nil, nil, 0)
		},
		"commit of a return": func(q *Queue, entries []Entry) {
			commit(Transaction{Settlements: []Settlement{{q, entries, Fail}}}, nil, nil, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			q, _ := newQuorum(t, rules, Quorum{Preempts: true})
			low := consume(t, q, "low", unlimited)
			q.Publish(text("1"))
			q.Publish(text("2"))
			high := newClient(q, "high", unlimited)
			high.Priority = 5
			if err := q.AddConsumer(&high.Consumer); err != nil {
				t.Fatal(err)
			}
			q.Resume(&high.Consumer)
			q.Publish(text("3"))
			mine := low.take()
			settle(q, mine[:1])
			quiet(q)
			if low.count() != 0 || high.count() != 0 || q.SingleActive() != &low.Consumer {
				t.Fatalf("%d to the active one, %d to the waiting one", low.count(), high.count())
			}
			settle(q, mine[1:])
			quiet(q)
			if got := bodies(high.take()); low.count() != 0 || !slices.Contains(got, "3") || q.SingleActive() != &high.Consumer {
				t.Errorf("%d to the old one, %v to the new one", low.count(), got)
			}
		})
	}
}

// TestExpireHandsOver: the single active consumer that was too slow loses its
// place; alone it keeps it.
func TestExpireHandsOver(t *testing.T) {
	rules := NoRules()
	rules.SingleActive = true
	q, _ := newQuorum(t, rules, Quorum{Preempts: true})
	slow := consume(t, q, "slow", 1)
	q.Publish(text("1"))
	q.Expire(&slow.Consumer, slow.take())
	if q.SingleActive() != &slow.Consumer {
		t.Error("it lost its place to nobody")
	}
	slow.grant(1)
	next := consume(t, q, "next", unlimited)
	q.Expire(&slow.Consumer, slow.take())
	quiet(q)
	if got := next.take(); len(got) != 1 || got[0].Deliveries != 2 || got[0].Failures != 0 || q.SingleActive() != &next.Consumer {
		t.Errorf("the next one got %v", got)
	}
}

// TestQuorumIdleTick: an unused quorum queue goes at a tick of five seconds.
func TestQuorumIdleTick(t *testing.T) {
	rules := NoRules()
	rules.Expires = 600
	clock := NewClock()
	t.Cleanup(clock.Stop)
	lapsed := make(chan bool, 1)
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t), Clock: clock, Rules: &rules, Quorum: &Quorum{},
		Lapsed: func(q *Queue) { lapsed <- q.DeleteIfLapsed() }})
	clock.Advance(4900 * time.Millisecond)
	if q.Deleted() {
		t.Error("gone too soon")
	}
	clock.Advance(200 * time.Millisecond)
	if !<-lapsed {
		t.Error("still used")
	}
}
