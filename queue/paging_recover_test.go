package queue

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/warrenmq/warren/persist"
)

// pagedDurable is durable with a pager of the store's.
func pagedDurable(t testing.TB, s *persist.Store, id uint64, maxPriority int, budget int64) *Queue {
	t.Helper()
	g := NewPager(budget, s.Transient(), newClock(t), slog.New(slog.DiscardHandler))
	t.Cleanup(g.Close)
	log := s.Log(id)
	q := New(Config{
		Name: fmt.Sprint("q", id), ID: id, Durable: true, MaxPriority: maxPriority, Journal: StoreJournal(log), Pump: newPump(t), Pager: g,
	})
	if err := q.Recover(log, !s.CleanStart()); err != nil {
		t.Fatal(err)
	}
	return q
}

// A start reads no message, counts all, and has them in order with their
// marks, over several stops.
func TestStartReadsNothing(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	const messages = 4000
	q := pagedDurable(t, s, 7, 2, 0)
	r := newReceipts()
	for i := range messages {
		m := persistent(fmt.Sprintf("%04d", i), uint8(i%4)) // 2 and 3 count as 2
		m.Properties = make([]byte, 1000)
		publishAll(s, m, r, uint64(i), q)
	}
	for i := range uint64(messages) {
		r.wait(t, i)
	}
	// 2 and 3 are handed out and given back; 6 is settled.
	var entries []Entry
	for range 3 {
		e, _, _, err := getNow(q, false)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	q.Requeue(entries[:2])
	q.Settle(entries[2:])
	calm(q)

	for stop := range 3 {
		q.Pager.Close()
		if stop < 2 {
			s.Log(7).SaveMarks(q.Marks())
		} else {
			s = openStore(t, copyFolder(t, dir)) // as after a kill
		}
		if stop < 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openStore(t, dir)
		}
		q = pagedDurable(t, s, 7, 2, 0)
		q.ready.each(func(e *Entry) { t.Fatalf("message %d was read at the start", e.Seq) })
		if n := q.Counts(); n.Ready != messages-1 || n.ReadyBytes != 4*(messages-1) {
			t.Fatalf("stop %d: recovered %+v", stop, n)
		}
		if pages := onDisk(q); pages > 3*(1+messages*1300/pageWeight) {
			t.Errorf("%d pages", pages)
		}
	}
	next := func(priority int, i int) {
		e, _, ok, err := getNow(q, true)
		if err != nil || !ok {
			t.Fatalf("message %d: %v, %v", i, ok, err)
		}
		deliveries := uint32(0) // those of a kill are not known
		if string(e.Message.Content) != fmt.Sprintf("%04d", i) || int(e.Priority) != priority || !e.Redelivered || e.Deliveries != deliveries {
			t.Fatalf("got %s: %+v, want %d", e.Message.Content, e, i)
		}
	}
	for i := range messages {
		if i%4 >= 2 && i != 6 {
			next(2, i)
		}
	}
	for _, priority := range []int{1, 0} {
		for i := priority; i < messages; i += 4 {
			next(priority, i)
		}
	}
	if _, _, ok, _ := getNow(q, true); ok {
		t.Fatal("there are more")
	}
}

// Marks of a clean stop are there after the next, read or not.
func TestMarksOfPages(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	q := pagedDurable(t, s, 7, 0, 1)
	r := newReceipts()
	for i := range 10 {
		publishAll(s, persistent(fmt.Sprint(i), 0), r, uint64(i), q)
		r.wait(t, uint64(i))
	}
	e, _, _, _ := getNow(q, false)
	q.Requeue([]Entry{e})
	for range 3 {
		q.Pager.Close()
		s.Log(7).SaveMarks(q.Marks())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openStore(t, dir)
		q = pagedDurable(t, s, 7, 0, 1)
	}
	first, _, _, _ := getNow(q, false)
	second, _, _, _ := getNow(q, false)
	if !first.Redelivered || first.Deliveries != 1 || second.Redelivered || second.Deliveries != 0 {
		t.Errorf("recovered %+v and %+v", first, second)
	}
	// A publish takes a number behind all others although none was read.
	publishAll(s, persistent("new", 0), r, 100, q)
	r.wait(t, 100)
	for i := 2; i < 10; i++ {
		if got := body(t, q); got != fmt.Sprint(i) {
			t.Fatalf("got %s, want %d", got, i)
		}
	}
	if got := body(t, q); got != "new" {
		t.Errorf("got %s behind the others", got)
	}
}
