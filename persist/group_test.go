package persist

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestGroupIsOneCommit(t *testing.T) {
	s := openDir(t, t.TempDir())
	a, b, w := s.Log(s.NextID()), s.Log(s.NextID()), newWaiter()
	fill(t, s, a, w, 1, 3)
	var g Group
	shared := newMessage(nil, 0, "h", "to both")
	g.Append(a, 4, &shared.Record, Meta{})
	g.Append(b, 1, &shared.Record, Meta{})
	g.Settle(a, 1, 3, 77)
	g.Put(Definition{Key{'q', "v", "n"}, []byte("d")})
	g.Delete(Key{'q', "v", "other"})
	before := s.Stats().Commits
	s.Submit(&g, w, 9)
	w.wait(t, 9)
	if n := s.Stats().Commits - before; n != 1 {
		t.Errorf("%d commits", n)
	}
	s = crash(t, s)
	wantMessages(t, s.Log(a.ID()), got{2, "", bodyOf(2)}, got{4, "h", "to both"})
	wantMessages(t, s.Log(b.ID()), got{1, "h", "to both"})
}

func TestFailedGroupLeavesNothing(t *testing.T) {
	for _, point := range []string{"commit", "ahead"} {
		t.Run(point, func(t *testing.T) {
			gate := newGate(point)
			s := openGated(t, gate)
			a, b, w := s.Log(s.NextID()), s.Log(s.NextID()), newWaiter()
			fill(t, s, a, w, 1, 1)
			gate.arm()
			var g Group
			m := newMessage(w, 1, "", strings.Repeat("x", 20<<20))
			g.Settle(a, 1)
			g.Append(b, 1, &m.Record, Meta{})
			s.Submit(&g, w, 2)
			gate.catch(t)
			gate.open <- errors.New("boom")
			for _, token := range []uint64{1, 2} {
				if w.result(t, token) == nil {
					t.Errorf("token %d was told stored", token)
				}
			}
			s = crash(t, s)
			wantMessages(t, s.Log(a.ID()), got{1, "", bodyOf(1)})
			wantMessages(t, s.Log(b.ID()))
			if names := keys(t, s, "b"); len(names) != 1 {
				t.Errorf("body pages written ahead are still there: %v", names)
			}
		})
	}
}

// Dead-lettering a message that is not on disk yet: its publisher must not be
// told before the dead letter is durable, because only that one is left of it.
func TestGroupSettleOfAnUncommittedMessageDefersItsWaiter(t *testing.T) {
	gate := newGate("commit")
	s := openGated(t, gate)
	a, b, w := s.Log(s.NextID()), s.Log(s.NextID()), newWaiter()
	gate.arm()
	first := newMessage(w, 1, "", "x")
	a.Append(1, &first.Record, Meta{})
	gate.catch(t)
	m := newMessage(w, 2, "", "dies early")
	a.Append(2, &m.Record, Meta{})
	var g Group
	dead := newMessage(nil, 0, "death", "dies early")
	g.Settle(a, 2)
	g.Append(b, 1, &dead.Record, Meta{})
	s.Submit(&g, nil, 0)
	if _, told := w.has(2); told {
		t.Fatal("told before the group is durable")
	}
	gate.open <- nil
	w.wait(t, 1, 2)
	s = crash(t, s)
	wantMessages(t, s.Log(a.ID()), got{1, "", "x"})
	wantMessages(t, s.Log(b.ID()), got{1, "death", "dies early"})
}

// Acks of a group must not go to disk with a batch that was closed before it,
// although both touch the same index page.
func TestGroupSettleDoesNotGoAhead(t *testing.T) {
	gate := newGate("commit")
	s := openGated(t, gate)
	a, b, w := s.Log(s.NextID()), s.Log(s.NextID()), newWaiter()
	fill(t, s, a, w, 1, 4)
	gate.arm()
	first := newMessage(w, 1, "", "x")
	b.Append(1, &first.Record, Meta{})
	gate.catch(t)
	a.Settle(1)
	s.mu.Lock()
	s.open.force = true // as a barrier has it; else the ack would wait
	s.closeBatch()
	s.mu.Unlock()
	var g Group
	m := newMessage(nil, 0, "", "moved")
	g.Settle(a, 2)
	g.Append(b, 2, &m.Record, Meta{})
	s.Submit(&g, w, 9)
	gate.arm() // for the closed batch
	gate.open <- nil
	gate.catch(t)
	gate.arm() // for the group
	gate.open <- nil
	gate.catch(t)
	gate.open <- errors.New("killed here")
	if w.result(t, 9) == nil {
		t.Fatal("the group was told stored")
	}
	s = crash(t, s)
	wantMessages(t, s.Log(a.ID()), got{2, "", bodyOf(2)}, got{3, "", bodyOf(3)}, got{4, "", bodyOf(4)})
	wantMessages(t, s.Log(b.ID()), got{1, "", "x"})
}

func TestGroupWithARefusedDefinitionHasNoEffect(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	var g Group
	m := newMessage(w, 1, "", "x")
	g.Append(l, 1, &m.Record, Meta{})
	g.Put(Definition{Value: make([]byte, MaxValueBytes+1)})
	s.Submit(&g, w, 2)
	if w.result(t, 1) == nil || w.result(t, 2) == nil {
		t.Error("told stored")
	}
	barrier(t, s)
	wantNoKeys(t, s, messageKeys)
	g.Append(l, 1, &m.Record, Meta{})
	g.Reset()
	s.Submit(&g, w, 3)
	w.wait(t, 3)
	wantNoKeys(t, s, messageKeys)
}

// wide is a group over so many logs that it exceeds a Badger transaction.
const wideLogs = 6000

func submitWide(s *Store, w *waiter, first uint64) {
	var g Group
	m := newMessage(nil, 0, "wide", strings.Repeat("w", 3000))
	for id := first; id < first+wideLogs; id++ {
		g.Append(s.Log(id), 1, &m.Record, Meta{})
	}
	s.Submit(&g, w, 1)
}

func TestGroupLargerThanATransaction(t *testing.T) {
	s := openDir(t, t.TempDir())
	if wideLogs < s.caps.ops {
		t.Fatalf("the group would fit: %d", s.caps.ops)
	}
	first, w := s.NextID(), newWaiter()
	for range wideLogs {
		s.NextID()
	}
	submitWide(s, w, first)
	w.wait(t, 1)
	wantNoKeys(t, s, "g")
	s = crash(t, s)
	if n := len(s.Logs()); n != wideLogs {
		t.Fatalf("%d logs", n)
	}
	if n := len(keys(t, s, "b")); n != 1 {
		t.Errorf("%d body pages", n)
	}
	for _, id := range s.Logs() {
		wantMessages(t, s.Log(id), got{1, "wide", strings.Repeat("w", 3000)})
	}
	// And gone again, as one group.
	var g Group
	for _, id := range s.Logs() {
		g.Settle(s.Log(id), 1)
	}
	s.Submit(&g, w, 2)
	w.wait(t, 2)
	wantNoKeys(t, s, messageKeys)
}

// A crash before the redo list is written leaves nothing, one at any later
// point everything.
func TestCrashWithinALargeGroup(t *testing.T) {
	for _, at := range []struct {
		point string
		nth   int
		whole bool
	}{{"commit", 1, false}, {"redo", 1, false}, {"piece", 1, true}, {"piece", 2, true}, {"piece", 3, true}, {"committed", 1, true}} {
		t.Run(fmt.Sprint(at.point, at.nth), func(t *testing.T) {
			o := testOptions(t.TempDir())
			armed := make(chan struct{})
			n := 0
			o.probe = func(point string) error {
				select {
				case <-armed:
				default:
					return nil
				}
				if point == at.point {
					if n++; n == at.nth {
						return errors.New("killed here")
					}
				}
				return nil
			}
			s := mustOpen(t, o)
			first, w := s.NextID(), newWaiter()
			for range wideLogs {
				s.NextID()
			}
			close(armed)
			submitWide(s, w, first)
			if w.result(t, 1) == nil {
				t.Fatalf("the group passed %s %d", at.point, at.nth)
			}
			s.Close()
			s = openDir(t, o.Dir)
			want := 0
			if at.whole {
				want = wideLogs
			}
			if n := len(s.Logs()); n != want {
				t.Errorf("%d logs, want %d", n, want)
			}
			wantNoKeys(t, s, "g")
			if n := len(keys(t, s, "b")); n != min(want, 1) {
				t.Errorf("%d body pages", n)
			}
		})
	}
}

func TestUpdateLargerThanATransaction(t *testing.T) {
	s := openDir(t, t.TempDir())
	var puts []Definition
	for i := range 20_000 {
		puts = append(puts, Definition{Key{'b', "v", fmt.Sprintf("%06d", i)}, []byte(strings.Repeat("j", 100))})
	}
	done := make(chan error, 1)
	s.Update(puts, nil, nil, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s = crash(t, s)
	n := 0
	err := s.Definitions(func(d Definition) error {
		if d.Key != puts[n].Key || string(d.Value) != string(puts[n].Value) {
			return fmt.Errorf("definition %d is %v", n, d)
		}
		n++
		return nil
	})
	if err != nil || n != len(puts) {
		t.Errorf("%v, %d definitions of %d", err, n, len(puts))
	}
}
