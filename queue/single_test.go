package queue

import (
	"slices"
	"testing"
)

// A single active consumer receives alone; when it goes, the next takes over:
// the highest priority, then the oldest.
func TestSingleActiveConsumers(t *testing.T) {
	rules := NoRules()
	rules.SingleActive = true
	q := New(Config{Name: "q", ID: 1, Rules: &rules, Pump: newPump(t)})
	a, b := consume(t, q, "a", unlimited), consume(t, q, "b", unlimited)
	c := newClient(q, "c", unlimited)
	c.Priority = 1
	if err := q.AddConsumer(&c.Consumer); err != nil {
		t.Fatal(err)
	}
	fill(q, 2)
	if got := bodies(a.take()); !slices.Equal(got, []string{"0", "1"}) || b.count() != 0 {
		t.Fatalf("the active one got %v, the next %d", got, b.count())
	}
	q.RemoveConsumer(&a.Consumer)
	if q.SingleActive() != &c.Consumer {
		t.Fatal("the highest priority did not take over")
	}
	fill(q, 1)
	quiet(q)
	if n := c.count(); n != 0 {
		t.Fatalf("%d deliveries before its client knew of it", n)
	}
	q.Resume(&c.Consumer)
	fill(q, 1)
	if n := c.count(); n != 2 {
		t.Fatalf("%d deliveries", n)
	}
	q.RemoveConsumer(&c.Consumer)
	fill(q, 1)
	if n := b.count(); n != 1 || q.SingleActive() != &b.Consumer {
		t.Fatalf("%d deliveries to the last one", n)
	}
}
