package persist

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// returnsIn reads what a log's messages say of their returns.
func returnsIn(t testing.TB, l *Log) map[uint64]Returns {
	t.Helper()
	all := map[uint64]Returns{}
	if err := l.Recover(func(r Recovered) error {
		all[r.Seq] = r.Returns
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// What was said last of a message's returns is there after a crash; it goes
// with the message.
func TestReturnsSurviveCrash(t *testing.T) {
	s := openDir(t, t.TempDir())
	id := s.NextID()
	l := s.Log(id)
	for seq := uint64(1); seq <= 4; seq++ {
		m := newMessage(nil, 0, "h", "body")
		l.Append(seq, &m.Record, Meta{})
	}
	l.SaveReturns(Returns{1, 1, 0}, Returns{2, 1, 1})
	barrier(t, s)
	l.SaveReturns(Returns{2, 2, 1}, Returns{3, 7, 7})
	l.SaveReturns(Returns{2, 3, 2})
	barrier(t, s)
	l.Settle(3)
	barrier(t, s)
	s = crash(t, s)
	want := map[uint64]Returns{1: {1, 1, 0}, 2: {2, 3, 2}, 4: {4, 0, 0}}
	l = s.Log(id)
	if diff := cmp.Diff(want, returnsIn(t, l)); diff != "" {
		t.Fatalf("after a crash (-want +got):\n%s", diff)
	}
	l.Settle(1, 2, 4)
	barrier(t, s)
	wantNoKeys(t, s, messageKeys+string(rune(prefixReturns)))
	mustClose(t, s)
}

// A message that is settled before its commit leaves no returns either, and
// one that is given back a thousand times in one batch is written once.
func TestReturnsOfOneBatch(t *testing.T) {
	s := mustOpen(t, lazy(testOptions(t.TempDir())))
	l := s.Log(s.NextID())
	for seq := uint64(1); seq <= 2; seq++ {
		m := newMessage(nil, 0, "h", "body")
		l.Append(seq, &m.Record, Meta{})
	}
	for n := uint32(1); n <= 1000; n++ {
		l.SaveReturns(Returns{1, n, n}, Returns{2, n, 0})
	}
	s.mu.Lock()
	if n := len(s.open.returns); n != 2 {
		t.Errorf("the batch writes %d returns of 2 messages", n)
	}
	s.mu.Unlock()
	l.Settle(1)
	barrier(t, s)
	if got := keys(t, s, string(rune(prefixReturns))); len(got) != 1 {
		t.Errorf("keys %q, want that of message 2", got)
	}
	l.Settle(2)
	barrier(t, s)
	wantNoKeys(t, s, messageKeys+string(rune(prefixReturns)))
	mustClose(t, s)
}

// Returns go with a dropped log, whether its messages were committed or not.
func TestReturnsOfDroppedLog(t *testing.T) {
	for name, commit := range map[string]bool{"committed": true, "open": false} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, lazy(testOptions(t.TempDir())))
			l := s.Log(s.NextID())
			for seq := uint64(1); seq <= 1000; seq++ {
				m := newMessage(nil, 0, "h", "body")
				l.Append(seq, &m.Record, Meta{})
				l.SaveReturns(Returns{seq, 1, 1})
			}
			if commit {
				barrier(t, s)
			}
			s.Update(nil, nil, []*Log{l}, nil)
			barrier(t, s)
			waitCleared(t, s)
			wantNoKeys(t, s, messageKeys+string(rune(prefixReturns)))
			mustClose(t, s)
		})
	}
}

// Returns without their message are nobody's, and deleted at the next start.
func TestStaleReturnsAreDeleted(t *testing.T) {
	s := openDir(t, t.TempDir())
	id := s.NextID()
	m := newMessage(nil, 0, "h", "body")
	s.Log(id).Append(5, &m.Record, Meta{})
	s.Log(id).SaveReturns(Returns{5, 1, 0}, Returns{6, 1, 0})
	s.Log(s.NextID()).SaveReturns(Returns{1, 1, 0})
	barrier(t, s)
	s = crash(t, s)
	if got := keys(t, s, string(rune(prefixReturns))); len(got) != 1 {
		t.Errorf("keys %q, want that of message 5", got)
	}
	mustClose(t, s)
}
