package persist

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
)

func TestEachWaiterIsFlushedOnceACommit(t *testing.T) {
	g := newGate("commit")
	s := openGated(t, g)
	l := s.Log(s.NextID())
	first, a, b := newWaiter(), newWaiter(), newWaiter()
	g.arm()
	m := newMessage(first, 1, "", "")
	l.Append(1, &m.Record, Meta{})
	g.catch(t)
	for seq := uint64(2); seq <= 21; seq++ {
		m := newMessage([]Waiter{a, b}[seq%2], seq, "", "x")
		l.Append(seq, &m.Record, Meta{})
	}
	g.open <- nil
	a.wait(t, 2, 4, 20)
	b.wait(t, 3, 5, 21)
	barrier(t, s)
	if a.flushes != 1 || b.flushes != 1 {
		t.Errorf("%d and %d flushes for one commit", a.flushes, b.flushes)
	}
}

func TestHoldAndRelease(t *testing.T) {
	s := openDir(t, t.TempDir())
	w := newWaiter()
	none := newMessage(w, 1, "", "goes nowhere")
	none.Hold()
	none.Release(s)
	w.wait(t, 1)
	twice := newMessage(w, 2, "", "held twice")
	twice.Hold()
	twice.Hold()
	twice.Release(s)
	if _, told := w.has(2); told {
		t.Error("told after the first of two releases")
	}
	twice.Release(s)
	w.wait(t, 2)
	later := newMessage(w, 3, "", "appended again after it was told")
	l := s.Log(s.NextID())
	l.Append(1, &later.Record, Meta{})
	w.wait(t, 3)
	l.Append(2, &later.Record, Meta{})
	barrier(t, s)
	defer func() {
		if recover() == nil {
			t.Error("a release without a hold goes unnoticed")
		}
	}()
	later.Release(s)
}

func TestBarrierWithNothingOutstandingIsImmediate(t *testing.T) {
	s := openDir(t, t.TempDir())
	barrier(t, s)
	w := newWaiter()
	s.Barrier(w, 1)
	if err, told := w.has(1); !told || err != nil {
		t.Errorf("not told at once: %v %v", told, err)
	}
}

// A barrier also waits for what is being committed and for what is queued.
func TestBarrierWaitsForCommits(t *testing.T) {
	g := newGate("commit")
	s := openGated(t, g)
	l, w := s.Log(s.NextID()), newWaiter()
	g.arm()
	m := newMessage(nil, 0, "", "x")
	l.Append(1, &m.Record, Meta{})
	s.Barrier(w, 1)
	g.catch(t)
	s.Barrier(w, 2)
	m2 := newMessage(nil, 0, "", "y")
	l.Append(2, &m2.Record, Meta{})
	s.mu.Lock()
	s.closeBatch()
	s.mu.Unlock()
	s.Barrier(w, 3)
	for token := uint64(1); token <= 3; token++ {
		if _, told := w.has(token); told {
			t.Errorf("barrier %d did not wait", token)
		}
	}
	g.open <- nil
	w.wait(t, 1, 2, 3)
}

func TestFailedCommit(t *testing.T) {
	boom := errors.New("boom")
	var fatal atomic.Int32
	g := newGate("commit")
	o := testOptions(t.TempDir())
	o.probe = g.probe
	o.OnFatal = func(err error) {
		if !errors.Is(err, boom) {
			t.Errorf("OnFatal got %v", err)
		}
		fatal.Add(1)
	}
	s := mustOpen(t, o)
	l, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, l, newWaiter(), 1, 1)
	g.arm()
	m := newMessage(w, 2, "", "x")
	l.Append(2, &m.Record, Meta{})
	g.catch(t)
	// Joins while the commit is failing.
	held := newMessage(w, 3, "", "y")
	held.Hold()
	l.Append(3, &held.Record, Meta{})
	var group Group
	gm := newMessage(w, 4, "", "z")
	group.Append(l, 4, &gm.Record, Meta{})
	s.Submit(&group, w, 5)
	done := make(chan error, 2)
	s.Update(nil, nil, nil, func(err error) { done <- err })
	s.Barrier(w, 6)
	g.open <- boom
	for _, token := range []uint64{2, 4, 5, 6} {
		if err := w.result(t, token); !errors.Is(err, boom) {
			t.Errorf("token %d got %v", token, err)
		}
	}
	if err := <-done; !errors.Is(err, boom) {
		t.Errorf("update got %v", err)
	}
	held.Release(s)
	// After the failure.
	l.Settle(1)
	late := newMessage(w, 7, "", "late")
	l.Append(7, &late.Record, Meta{})
	group.Append(l, 8, &late.Record, Meta{})
	s.Submit(&group, w, 8)
	s.Barrier(w, 9)
	s.Update(nil, nil, nil, func(err error) { done <- err })
	for _, token := range []uint64{3, 7, 8, 9} {
		if err := w.result(t, token); !errors.Is(err, boom) {
			t.Errorf("token %d got %v", token, err)
		}
	}
	if err := <-done; !errors.Is(err, boom) {
		t.Errorf("late update got %v", err)
	}
	if err := s.Close(); !errors.Is(err, boom) {
		t.Errorf("Close: %v", err)
	}
	if n := fatal.Load(); n != 1 {
		t.Errorf("OnFatal was called %d times", n)
	}
	s = openDir(t, o.Dir)
	if s.CleanStart() {
		t.Error("the start after a failure is clean")
	}
	wantMessages(t, s.Log(l.ID()), got{1, "", bodyOf(1)})
}

// Badger only logs that its value log could not be synced.
func TestBadgersLoggedFailureIsFatal(t *testing.T) {
	for _, format := range []string{"Error while curlf sync: %v\n", "error flushing memtable to disk: %v, retrying"} {
		var s *Store
		fatal := make(chan error, 2)
		o := testOptions(t.TempDir())
		ready := make(chan struct{})
		o.probe = func(point string) error {
			<-ready
			if point == "committed" { // as if it had been logged within the commit
				s.logger.Errorf(format, errors.New("input/output error"))
			}
			return nil
		}
		o.OnFatal = func(err error) { fatal <- err }
		opened, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		s = opened
		close(ready)
		w := newWaiter()
		m := newMessage(w, 1, "", "x")
		s.Log(s.NextID()).Append(1, &m.Record, Meta{})
		if err := w.result(t, 1); err == nil {
			t.Error("told stored although the sync failed")
		}
		if err := <-fatal; err == nil {
			t.Error("OnFatal without an error")
		}
		if err := s.Close(); err == nil {
			t.Error("Close without an error")
		}
	}
	l := &badgerLogger{logger: testOptions("").Logger}
	l.Errorf("Error while curlf sync: early")
	var early error
	l.watch(func(err error) { early = err })
	if early == nil {
		t.Error("a failure before the store ran is forgotten")
	}
}

func TestAfterClose(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	held := newMessage(w, 1, "", "stored before")
	held.Hold()
	l.Append(1, &held.Record, Meta{})
	open := newMessage(w, 2, "", "open at Close")
	l.Append(2, &open.Record, Meta{})
	mustClose(t, s)
	w.wait(t, 2)
	held.Release(s)
	w.wait(t, 1)

	l.Settle(1)
	l.SaveMarks([]Mark{{Seq: 1}})
	m := newMessage(w, 3, "", "x")
	l.Append(3, &m.Record, Meta{})
	var g Group
	g.Append(l, 4, &m.Record, Meta{})
	s.Submit(&g, w, 4)
	s.Barrier(w, 5)
	done := make(chan error, 1)
	s.Update(nil, nil, []*Log{l}, func(err error) { done <- err })
	for token := uint64(3); token <= 5; token++ {
		if err := w.result(t, token); !errors.Is(err, ErrClosed) {
			t.Errorf("token %d got %v", token, err)
		}
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("update got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	s = openDir(t, s.opts.Dir)
	wantMessages(t, s.Log(l.ID()), got{1, "", "stored before"}, got{2, "", "open at Close"})
}

func TestSeqsMustRise(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, l, w, 1, 5)
	s = reopen(t, s)
	l = s.Log(l.ID())
	defer func() {
		s.mu.Unlock() // the panic came under it; Close needs it
		if recover() == nil {
			t.Error("a sequence number that is taken goes unnoticed")
		}
	}()
	m := newMessage(nil, 0, "", "x")
	l.Append(5, &m.Record, Meta{})
	s.mu.Lock()
}

func TestSyncPolicies(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncAlways, SyncInterval, SyncNever} {
		t.Run(policy.String(), func(t *testing.T) {
			o := testOptions(t.TempDir())
			o.Sync, o.SyncInterval = policy, 1
			s := mustOpen(t, o)
			l, w := s.Log(s.NextID()), newWaiter()
			for seq := uint64(1); seq <= 20; seq++ {
				fill(t, s, l, w, seq, seq)
			}
			s = crash(t, s)
			if n := len(recovered(t, s.Log(l.ID()))); n != 20 {
				t.Errorf("%d messages", n)
			}
		})
	}
	if _, err := Open(Options{Dir: t.TempDir(), Sync: 9}); err == nil {
		t.Error("an unknown policy is taken")
	}
	if _, err := Open(Options{}); err == nil {
		t.Error("no folder is taken")
	}
	if got := fmt.Sprint(SyncPolicy(9)); got != "SyncPolicy(9)" {
		t.Error(got)
	}
}
