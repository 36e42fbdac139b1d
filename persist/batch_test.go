package persist

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMarksOfACleanStop(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, l, w, 1, 3)
	l.SaveMarks([]Mark{{Seq: 1, Redelivered: true, DeliveryCount: 7}, {Seq: 3, DeliveryCount: 1}})
	type flags struct {
		Redelivered bool
		Count       uint32
	}
	check := func(want map[uint64]flags) {
		t.Helper()
		all := make(map[uint64]flags)
		err := s.Log(l.ID()).Recover(func(r Recovered) error {
			all[r.Seq] = flags{r.Redelivered, r.DeliveryCount}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, all); diff != "" {
			t.Errorf("marks (-want +got):\n%s", diff)
		}
	}
	s = reopen(t, s)
	if !s.CleanStart() {
		t.Error("a start after Close is not clean")
	}
	check(map[uint64]flags{1: {true, 7}, 2: {}, 3: {false, 1}})
	wantNoKeys(t, s, "r")
	s = reopen(t, s)
	check(map[uint64]flags{1: {}, 2: {}, 3: {}})
	s.Log(l.ID()).SaveMarks([]Mark{{Seq: 2}})
	barrier(t, s)
	s = crash(t, s)
	if s.CleanStart() {
		t.Error("a start after a crash is clean")
	}
	check(map[uint64]flags{1: {true, 0}, 2: {true, 0}, 3: {true, 0}})
	wantNoKeys(t, s, "r")
}

func TestManyMarks(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, l, w, 1, 2)
	marks := make([]Mark, chunkMarks+2)
	for i := range marks {
		marks[i] = Mark{Seq: uint64(i + 3), DeliveryCount: 1}
	}
	marks[0].Seq, marks[len(marks)-1].Seq = 1, 2
	l.SaveMarks(marks)
	s = reopen(t, s)
	err := s.Log(l.ID()).Recover(func(r Recovered) error {
		if r.DeliveryCount != 1 {
			return fmt.Errorf("message %d has lost its mark", r.Seq)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A queue that is read in order while it is filled must cost nothing per
// message before the commit.
func TestAppendAndSettleDoNotAllocate(t *testing.T) {
	s := mustOpen(t, lazy(testOptions(t.TempDir())))
	l := s.Log(s.NextID())
	messages := make([]message, 16)
	seq := uint64(0)
	round := func() {
		first := seq + 1
		for i := range messages {
			m := &messages[i]
			m.Init(m, nil, 0)
			seq++
			l.Append(seq, &m.Record, Meta{})
		}
		for ; first <= seq; first++ {
			l.Settle(first)
		}
	}
	round()
	if n := testing.AllocsPerRun(200, round); n > 0 {
		t.Errorf("%v allocations in a round of %d messages", n, len(messages))
	}
}

func TestBacklog(t *testing.T) {
	g := newGate("commit")
	s := openGated(t, g)
	l, w := s.Log(s.NextID()), newWaiter()
	g.arm()
	fillAsync := func(seq uint64) {
		m := newMessage(w, seq, "", strings.Repeat("x", 1000))
		l.Append(seq, &m.Record, Meta{})
	}
	fillAsync(1)
	g.catch(t)
	fillAsync(2)
	fillAsync(3)
	if n := s.Backlog(); n != 3*(1000+entryWeight) {
		t.Errorf("backlog %d", n)
	}
	l.Settle(3)
	if n := s.Backlog(); n != 2*(1000+entryWeight) {
		t.Errorf("backlog %d after a cancel", n)
	}
	g.open <- nil
	w.wait(t, 1, 2, 3)
	barrier(t, s)
	if n := s.Backlog(); n != 0 {
		t.Errorf("backlog %d when all is written", n)
	}
}

// More than fits one batch is queued in several, in order.
func TestBatchesAreCapped(t *testing.T) {
	g := newGate("commit")
	s := openGated(t, g)
	l, w := s.Log(s.NextID()), newWaiter()
	g.arm()
	first := newMessage(w, 1, "", "x")
	l.Append(1, &first.Record, Meta{})
	g.catch(t)
	var tokens []uint64
	for seq := uint64(2); seq <= 3*batchSlots; seq++ {
		m := newMessage(w, seq, "", "y")
		l.Append(seq, &m.Record, Meta{})
		tokens = append(tokens, seq)
	}
	for seq := uint64(3*batchSlots + 1); seq <= 3*batchSlots+20; seq++ {
		m := newMessage(w, seq, "", strings.Repeat("z", 1<<20))
		l.Append(seq, &m.Record, Meta{})
		tokens = append(tokens, seq)
	}
	s.mu.Lock()
	queued := len(s.queued)
	s.mu.Unlock()
	if queued < 7 {
		t.Errorf("only %d batches are queued", queued)
	}
	l.Settle(4, 3*batchSlots) // in batches that wait: cancelled
	if st := s.Stats(); st.Cancelled != 2 {
		t.Errorf("%d cancelled in waiting batches", st.Cancelled)
	}
	g.open <- nil
	w.wait(t, tokens...)
	last := uint64(0)
	for _, token := range w.order {
		if token < last && token != 4 && token != 3*batchSlots {
			t.Fatalf("token %d told after %d", token, last)
		}
		if token != 4 && token != 3*batchSlots {
			last = token
		}
	}
	s = crash(t, s)
	if n := len(recovered(t, s.Log(l.ID()))); n != 3*batchSlots+20-2 {
		t.Errorf("%d messages came back", n)
	}
}

// A consumer that is close behind its publisher costs hardly any lists of
// settled messages: its pages are settled altogether before these are due.
func TestCloseConsumerWritesFewAckPages(t *testing.T) {
	o := testOptions(t.TempDir())
	o.LazyDelay = time.Minute
	s := mustOpen(t, o)
	l := s.Log(s.NextID())
	w := newWaiter()
	const commits = 40
	for i := uint64(0); i < commits; i++ {
		fill(t, s, l, w, i*10+1, i*10+10)
		for seq := max(i*10, 5) - 4; seq <= i*10+5; seq++ { // half of a page stays
			l.Settle(seq)
		}
	}
	if n := s.Stats().AckPages; n > 0 {
		t.Errorf("%d lists of settled messages in %d commits", n, commits)
	}
	barrier(t, s) // with which they are due
	if n := s.Stats().AckPages; n != 1 {
		t.Errorf("%d lists of settled messages after a barrier", n)
	}
	s = crash(t, s)
	if all := recovered(t, s.Log(l.ID())); len(all) != 5 || all[0].Seq != commits*10-4 {
		t.Errorf("%d messages came back", len(all))
	}
}

// Acks are written once they are old enough, also while commits that somebody
// waits for keep coming.
func TestAcksAreNotPutOffForEver(t *testing.T) {
	s := openDir(t, t.TempDir()) // 50 ms
	l, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, l, w, 1, 10)
	l.Settle(1)
	deadline := time.Now().Add(20 * time.Second)
	// A page that is merged with its neighbours meanwhile takes its acks along.
	for seq := uint64(11); s.Stats().AckPages+s.Stats().Rewritten == 0; seq++ {
		if time.Now().After(deadline) {
			t.Fatal("an ack is put off for ever")
		}
		fill(t, s, l, w, seq, seq)
	}
}

// A group's settles are in its commit, also on a page whose older acks wait.
func TestGroupTakesAcksAlong(t *testing.T) {
	o := testOptions(t.TempDir())
	o.LazyDelay = time.Minute
	s := mustOpen(t, o)
	l, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, l, w, 1, 10)
	l.Settle(3)
	fill(t, s, l, w, 11, 11) // passes the ack on
	var g Group
	g.Settle(l, 5)
	s.Submit(&g, w, 99)
	w.wait(t, 99)
	s = crash(t, s)
	for _, m := range recovered(t, s.Log(l.ID())) {
		if m.Seq == 3 || m.Seq == 5 {
			t.Errorf("message %d came back", m.Seq)
		}
	}
}
