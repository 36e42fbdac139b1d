package queue

import (
	"fmt"
	"runtime"
	"testing"
	"weak"
)

// What a queue has let go of is garbage, although blocks, heaps and scratch
// memory live on.
func TestQueueLetsGoOfMessages(t *testing.T) {
	for _, c := range []struct {
		name  string
		leave func(q *Queue)
	}{
		{"get", func(q *Queue) { _, _, _, _ = q.Get(true) }},
		{"purge", func(q *Queue) { q.Purge(); q.Publish(text("kept")) }},
		{"delete", func(q *Queue) { _, _ = q.Delete(false, false) }},
		{"return and get", func(q *Queue) {
			e, _, _, _ := q.Get(false)
			f, _, _, _ := q.Get(false)
			q.Requeue([]Entry{e, f})
			_, _, _, _ = q.Get(true)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
			m := text("gone")
			gone := weak.Make(m)
			q.Publish(m)
			q.Publish(text("kept"))
			c.leave(q)
			m = nil
			runtime.GC()
			if gone.Value() != nil {
				t.Error("the message is still referred to")
			}
			runtime.KeepAlive(q)
		})
	}
	t.Run("delivery", func(t *testing.T) {
		q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
		c := consume(t, q, "c", unlimited)
		m := text("gone")
		gone := weak.Make(m)
		q.Publish(m)
		q.Settle(c.take())
		m = nil
		runtime.GC()
		if gone.Value() != nil {
			t.Error("the message is still referred to")
		}
		runtime.KeepAlive(q)
	})
}

// One large acknowledgement, one consumer priority or one client does not
// cost a queue memory for ever.
func TestQueueGivesMemoryBack(t *testing.T) {
	q := New(Config{Name: "q", ID: 1, Durable: true, Journal: quietJournal{}, Pump: newPump(t)})
	many := make([]Entry, 100*settledKept)
	for i := range many {
		many[i] = Entry{Seq: uint64(i), Journaled: true}
	}
	q.Settle(many)
	if n := cap(q.settled); n > settledKept {
		t.Errorf("scratch memory for %d entries is kept", n)
	}
	for i := range 1000 {
		c := newClient(q, fmt.Sprint(i), unlimited)
		c.Priority = i
		if err := q.AddConsumer(&c.Consumer); err != nil {
			t.Fatal(err)
		}
		q.Resume(&c.Consumer)
		q.RemoveConsumer(&c.Consumer)
	}
	if n := cap(q.rota.levels); n > 10 {
		t.Errorf("%d levels are kept for consumers that have gone", n)
	}
	if q.consumers = q.consumers[:cap(q.consumers)]; len(q.consumers) > 0 && q.consumers[0] != nil {
		t.Error("a consumer that has gone is still referred to")
	}
}
