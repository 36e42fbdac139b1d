package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestDelayHeap takes entries out in the order of time, then of arrival.
func TestDelayHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h delayHeap
		var model []Entry
		take := func() {
			slices.SortFunc(model, func(a, b Entry) int {
				if a.Expiry != b.Expiry {
					return int(a.Expiry - b.Expiry)
				}
				return int(a.Seq) - int(b.Seq)
			})
			if got := h.pop(); got != model[0] {
				t.Fatalf("popped %+v, want %+v", got, model[0])
			}
			model = model[1:]
		}
		for i := range rapid.IntRange(1, 300).Draw(t, "steps") {
			if len(model) > 0 && rapid.IntRange(0, 2).Draw(t, "op") == 0 {
				take()
				continue
			}
			e := Entry{Seq: uint64(i), Expiry: rapid.Int64Range(0, 20).Draw(t, "due")}
			h.push(e)
			model = append(model, e)
		}
		for len(model) > 0 {
			take()
		}
		if cap(h) > 4*heapKept {
			t.Fatalf("an empty heap keeps room for %d", cap(h))
		}
	})
}

// delayed is a queue of messages that wait for as many milliseconds as their
// Expiration says, and what has fired.
type delayed struct {
	*Queue
	clock *Clock
	fired []string
	late  []time.Duration // how long after the time that a message was to fire
}

func newDelayed(t *testing.T) *delayed {
	d := &delayed{clock: NewClock()}
	t.Cleanup(d.clock.Stop)
	d.Queue = NewDelay(Config{ID: 1, Clock: d.clock, Pump: newPump(t)}, func(m *Message) int64 { return m.Expiration }, func(due []Entry) {
		for _, e := range due {
			d.fired = append(d.fired, string(e.Message.Content))
			d.late = append(d.late, time.Duration(d.clock.NowMillis()-e.Expiry)*time.Millisecond)
		}
	})
	return d
}

func (d *delayed) wait(ms int64, body string) {
	d.Publish(&Message{Content: []byte(body), Expiration: ms})
}

func TestDelayFiresInOrderOfTime(t *testing.T) {
	d := newDelayed(t)
	d.wait(60_000, "c")
	d.wait(20_000, "a")
	d.wait(40_000, "b")
	d.wait(60_000, "d")
	if n := d.Delayed(); n != 4 {
		t.Fatalf("%d wait, want 4", n)
	}
	d.clock.Advance(19 * time.Second)
	if len(d.fired) != 0 {
		t.Fatalf("fired early: %v", d.fired)
	}
	d.clock.Advance(time.Second)
	d.wait(5_000, "a2") // sooner than the one that the timer is set for
	d.clock.Advance(45 * time.Second)
	if diff := cmp.Diff([]string{"a", "a2", "b", "c", "d"}, d.fired); diff != "" {
		t.Errorf("fired (-want +got):\n%s", diff)
	}
	for i, late := range d.late {
		if late < 0 || late > time.Second { // message time stands still while it is moved, but for the test's own running
			t.Errorf("%s fired %v late", d.fired[i], late)
		}
	}
	if d.Delayed() != 0 || d.Counts().Ready != 0 {
		t.Errorf("%d wait, %d ready", d.Delayed(), d.Counts().Ready)
	}
}

// TestDelayFiresMoreThanOneBatch in one call of Advance.
func TestDelayFiresMoreThanOneBatch(t *testing.T) {
	d := newDelayed(t)
	const n = 3*fireBound + 7
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint(i))
		d.wait(60_000+int64(i/1000), want[i])
	}
	d.clock.Advance(2 * time.Minute)
	if diff := cmp.Diff(want, d.fired); diff != "" {
		t.Errorf("fired (-want +got):\n%s", diff)
	}
}

func TestDelayedQueueDeleted(t *testing.T) {
	d := newDelayed(t)
	d.wait(60_000, "a")
	if _, err := d.Delete(false, false); err != nil {
		t.Fatal(err)
	}
	d.wait(1, "b")
	d.clock.Advance(time.Hour)
	if len(d.fired) != 0 || d.Delayed() != 0 {
		t.Errorf("fired %v, %d wait", d.fired, d.Delayed())
	}
}

// TestNoDelay: other queues know of none.
func TestNoDelay(t *testing.T) {
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
	q.Publish(text("a"))
	q.Publish(text("b"))
	if q.Delayed() != 0 {
		t.Error("a plain queue delays")
	}
	var got []string
	for _, m := range q.Messages() {
		got = append(got, string(m.Content))
	}
	if !slices.Equal(got, []string{"a", "b"}) || q.Counts().Ready != 2 {
		t.Errorf("messages %v, %d ready", got, q.Counts().Ready)
	}
}
