package queue

import (
	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// check compares queue and model.
func (m *machine) check(t *rapid.T) {
	calm(m.q)
	if diff := gocmp.Diff(m.expected, m.delivered); diff != "" {
		t.Fatalf("deliveries (-model +queue):\n%s", diff)
	}
	m.expected, m.delivered = nil, nil
	want := Counts{
		Ready: len(m.ready), Unacked: len(m.held), Consumers: len(m.clients),
		Published: m.nextSeq - 1, Acked: uint64(m.acked),
	}
	held := 0
	for _, e := range m.ready {
		want.ReadyBytes += int64(len(e.id))
		held += m.journaled(e)
	}
	for _, e := range m.held {
		held += m.journaled(e)
	}
	for _, c := range m.clients {
		want.Unacked += len(c.unacked)
		for _, e := range c.unacked {
			held += m.journaled(e)
		}
	}
	got := m.q.Counts()
	got.Delivered = 0 // counted by the deliveries themselves
	if got != want {
		t.Fatalf("counts: %+v, want %+v", got, want)
	}
	if m.journal != nil && len(m.journal.held) != held {
		t.Fatalf("the journal holds %d messages, %d are alive", len(m.journal.held), held)
	}
	m.checkInside(t)
}

func (m *machine) journaled(e modelEntry) int {
	if e.persistent && m.journal != nil {
		return 1
	}
	return 0
}

// checkInside checks what holds between calls: no message waits while a
// consumer may take it, and nothing is left in scratch memory.
func (m *machine) checkInside(t *rapid.T) {
	m.q.mu.Lock()
	defer m.q.mu.Unlock()
	if m.q.ready.count > 0 && m.q.rota.next() != nil {
		t.Fatal("a message waits, a consumer has its turn, and nobody serves it")
	}
	if len(m.q.settled) != 0 {
		t.Fatal("settled entries the journal was not told of")
	}
	priorities := map[int]bool{}
	for _, c := range m.turn {
		priorities[c.Priority] = true
	}
	if len(m.q.rota.levels) != len(priorities) {
		t.Fatalf("%d levels for consumers of %d priorities", len(m.q.rota.levels), len(priorities))
	}
}
