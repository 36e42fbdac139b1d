package persist

import (
	"errors"
	"testing"
	"time"
)

// waitNoKeys waits for the background to clear what it has to.
func waitNoKeys(t testing.TB, s *Store, prefixes string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for len(keys(t, s, prefixes)) > 0 {
		if time.Now().After(deadline) {
			wantNoKeys(t, s, prefixes)
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func TestDropLog(t *testing.T) {
	gate := newGate("commit")
	s := openGated(t, gate)
	a, b, w := s.Log(s.NextID()), s.Log(s.NextID()), newWaiter()
	shared := newMessage(w, 1, "", "in both")
	shared.Hold()
	a.Append(1, &shared.Record, Meta{})
	b.Append(1, &shared.Record, Meta{})
	shared.Release(s)
	w.wait(t, 1)
	fill(t, s, a, w, 2, 300)
	a.Settle(10, 20)
	barrier(t, s)

	gate.arm()
	committing := newMessage(w, 2, "", "committing")
	a.Append(301, &committing.Record, Meta{})
	gate.catch(t)
	open := newMessage(w, 3, "", "open")
	a.Append(302, &open.Record, Meta{})
	done := make(chan error, 1)
	s.Update([]Definition{{Key{'q', "", "d"}, []byte("v")}}, nil, []*Log{a, a}, func(err error) { done <- err })
	if _, told := w.has(3); told {
		t.Error("told before the drop is durable")
	}
	late := newMessage(w, 4, "", "late")
	a.Append(303, &late.Record, Meta{})
	if err, told := w.has(4); !told || err != nil {
		t.Errorf("an append to a dropped log: %v %v", told, err)
	}
	var g Group
	grouped := newMessage(w, 5, "", "grouped")
	g.Append(a, 304, &grouped.Record, Meta{})
	g.Settle(a, 5)
	s.Submit(&g, w, 6)
	a.Settle(7)
	gate.open <- nil
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.wait(t, 2, 3, 5, 6)
	waitNoKeys(t, s, "x")
	if names := keys(t, s, "aib"); len(names) != 2 {
		t.Errorf("left on disk: %v", names)
	}
	s = crash(t, s)
	wantMessages(t, s.Log(b.ID()), got{1, "", "in both"})
	if ids := s.Logs(); len(ids) != 1 {
		t.Errorf("logs %v", ids)
	}
	if err := recoverNothing(s.Log(a.ID())); err != nil {
		t.Error(err)
	}
}

func recoverNothing(l *Log) error {
	return l.Recover(func(Recovered) error { return errors.New("a dropped message came back") })
}

func TestDroppedLogIsClearedAfterACrash(t *testing.T) {
	gate := newGate("commit")
	o := testOptions(t.TempDir())
	o.probe, o.Sync = gate.probe, SyncNever
	s := mustOpen(t, o)
	a, b, w := s.Log(s.NextID()), s.Log(s.NextID()), newWaiter()
	const pages = 4 * clearPages
	for seq := uint64(1); seq <= pages; seq++ {
		m := newMessage(w, seq, "", "x")
		m.Hold()
		a.Append(seq, &m.Record, Meta{})
		if seq == 1 {
			b.Append(1, &m.Record, Meta{})
		}
		m.Release(s)
		w.wait(t, seq)
	}
	gate.arm()
	done := make(chan error, 1)
	s.Update(nil, nil, []*Log{a}, func(err error) { done <- err })
	gate.catch(t) // with the update, and perhaps a first part of the clearing
	gate.arm()
	gate.open <- nil
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	gate.catch(t)
	gate.open <- errors.New("killed while clearing")
	// Before the background goes on, what is left must not be offered.
	s.Close()
	second := newGate("commit")
	o.probe = second.probe
	second.arm()
	s = mustOpen(t, o)
	second.catch(t)
	if n := len(keys(t, s, "i")); n < clearPages {
		t.Errorf("%d index pages are left, nothing to resume", n)
	}
	if ids := s.Logs(); len(ids) != 1 || ids[0] != b.ID() {
		t.Errorf("logs %v, want only %d", ids, b.ID())
	}
	if err := recoverNothing(s.Log(a.ID())); err != nil {
		t.Error(err)
	}
	if st := s.Stats(); st.Dropping != 1 {
		t.Errorf("%d logs to clear", st.Dropping)
	}
	second.open <- nil
	waitNoKeys(t, s, "x")
	if names := keys(t, s, "aib"); len(names) != 2 {
		t.Errorf("left on disk: %d keys", len(names))
	}
	wantMessages(t, s.Log(b.ID()), got{1, "", "x"})
	if s.Log(a.ID()) == a {
		t.Error("the cleared log is still known")
	}
}

func TestDropOfALogWithNothingOnDisk(t *testing.T) {
	s := mustOpen(t, lazy(testOptions(t.TempDir())))
	l, w := s.Log(s.NextID()), newWaiter()
	m := newMessage(w, 1, "", "x")
	m.Hold()
	l.Append(1, &m.Record, Meta{})
	s.Update(nil, nil, []*Log{l}, nil)
	m.Release(s)
	barrier(t, s)
	w.wait(t, 1)
	wantNoKeys(t, s, messageKeys)
}

func TestOrphanLogsCanBeDropped(t *testing.T) {
	s := openDir(t, t.TempDir())
	a, b, w := s.Log(s.NextID()), s.Log(s.NextID()), newWaiter()
	m := newMessage(w, 1, "", "shared")
	m.Hold()
	a.Append(1, &m.Record, Meta{})
	b.Append(1, &m.Record, Meta{})
	m.Release(s)
	w.wait(t, 1)
	s = reopen(t, s)
	wantMessages(t, s.Log(b.ID()), got{1, "", "shared"})
	for _, id := range s.Logs() {
		if id != b.ID() {
			s.Update(nil, nil, []*Log{s.Log(id)}, nil)
		}
	}
	barrier(t, s)
	s.recoverMu.Lock()
	kept := len(s.records)
	s.recoverMu.Unlock()
	if kept > 0 {
		t.Errorf("%d records are kept for a log that was dropped", kept)
	}
	waitNoKeys(t, s, "x")
	if names := keys(t, s, "bi"); len(names) != 2 {
		t.Errorf("left on disk: %v", names)
	}
}
