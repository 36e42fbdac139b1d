package queue

import (
	"fmt"
	"strings"
	"testing"
)

// TestSelectorReachesToDisk: a consumer with a selector gets what matches of a backlog that is on disk, in order and
// once; the rest stays for others, also when it is paged out again.
func TestSelectorReachesToDisk(t *testing.T) {
	clock := newClock(t)
	g := newPager(t, 1<<10, clock)
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t), Pager: g, Clock: clock})
	filler := strings.Repeat("x", 10)
	const n = 2000
	var red, others []string
	for i := range n {
		body, color := fmt.Sprintf("%d %s", i, filler), "blue"
		if i%100 == 99 {
			color = "red"
			red = append(red, body)
		} else {
			others = append(others, body)
		}
		q.Publish(colored(body, color))
	}
	calm(q)
	if onDisk(q) == 0 {
		t.Fatal("nothing is on disk")
	}
	c := consumeSelected(t, q, "red", "color = 'red'", unlimited)
	calm(q)
	wantBodies(t, c, red...)
	if got := q.Counts().Ready; got != n-len(red) {
		t.Errorf("%d are ready, want %d", got, n-len(red))
	}
	q.RemoveConsumer(&c.Consumer)
	q.Publish(colored("last "+filler, "red"))
	calm(q)
	all := consume(t, q, "all", unlimited)
	for q.Counts().Ready > 0 {
		calm(q)
	}
	wantBodies(t, all, append(others, "last "+filler)...)
}
