package persist

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// pump sends n messages of a size through a log, keeping the last few
// unsettled.
func pump(t testing.TB, s *Store, l *Log, from, n, keep uint64, size int) {
	t.Helper()
	w := newCountdown(1000)
	body := strings.Repeat("x", size)
	for seq := from; seq < from+n; seq++ {
		<-w.tokens
		m := newMessage(w, seq, "", body)
		l.Append(seq, &m.Record, Meta{})
		if seq >= from+keep {
			l.Settle(seq - keep)
		}
	}
	barrier(t, s)
}

// What was settled stays settled over collections, compactions and restarts.
// Badger 4.9.6 can bring back a deleted value that lay in the value log: a
// rewrite copies it while its delete waits in an upper level, and then the
// delete is compacted away without the copy. This takes the way there.
func TestDeletedKeysStayDeleted(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Sync, o.GCInterval = SyncNever, time.Hour
	s := mustOpen(t, o)
	keep, victims, l := s.Log(s.NextID()), s.Log(s.NextID()), s.Log(s.NextID())
	w := newWaiter()
	fill(t, s, keep, w, 1, 50)
	next, back := uint64(1), 0
	for round := range uint64(4) {
		s.gcMu.Lock() // the background is not to come between
		at := (round + 2) * 100
		fill(t, s, keep, w, at, at+40)
		for seq := at; seq < at+20; seq++ {
			m := newMessage(w, seq, "", strings.Repeat("v", 5000))
			victims.Append(seq, &m.Record, Meta{})
			w.wait(t, seq)
		}
		pump(t, s, l, next, 70_000, 1200, 1000) // more than a value log file
		next += 70_000
		s.flushDeletes() // the file of the victims is known to be mostly dead
		for seq := at; seq < at+20; seq++ {
			victims.Settle(seq)
		}
		keep.Settle(round+1, at+7)
		barrier(t, s)
		s.fillMemtable() // their deletes are on an upper level
		for s.db.RunValueLogGC(0.01) == nil {
		}
		if err := s.db.Flatten(1); err != nil { // the compactors were first
			t.Logf("flatten: %v", err)
		}
		back += countKeys(t, s)[prefixBody] - int(s.Stats().BodyPages)
		s.gcMu.Unlock()
		if round%2 == 1 {
			s.sweep()
		} else {
			s = crash(t, s)
			keep, victims, l = s.Log(keep.ID()), s.Log(victims.ID()), s.Log(l.ID())
		}
		counts, st := countKeys(t, s), s.Stats()
		if int64(counts[prefixIndex]) != st.IndexPages || int64(counts[prefixBody]) != st.BodyPages {
			t.Errorf("on disk are %d index and %d body pages, in use %d and %d",
				counts[prefixIndex], counts[prefixBody], st.IndexPages, st.BodyPages)
		}
		for _, want := range []struct {
			log *Log
			n   int
		}{{victims, 0}, {keep, 50 + 39*int(round+1)}, {l, 1200 * int(round+1)}} {
			if n := len(recovered(t, want.log)); n != want.n {
				t.Fatalf("round %d: queue %d has %d messages, want %d", round, want.log.ID(), n, want.n)
			}
		}
	}
	t.Logf("Badger brought %d pages back", back)
}

// Only body pages and redo lists may lie in the value log, for the reason
// above: what else came back would be believed.
func TestOnlyBodiesAreInTheValueLog(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, l, w, 1, 200)
	l.Settle(1, 50)
	marks := make([]Mark, 500)
	l.SaveMarks(marks)
	s.Update([]Definition{{Key{'q', "", "large"}, make([]byte, MaxValueBytes)}}, nil, nil, nil)
	barrier(t, s)
	err := s.scanKeys(nil, func(item *badger.Item) error {
		if key := item.Key(); item.ValueSize() >= valueThreshold && key[0] != prefixBody && key[0] != prefixRedo {
			t.Errorf("%s has %d bytes", keyName(key), item.ValueSize())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a large value of another kind is written")
		}
	}()
	var w2 writer
	w2.transact(s, []rawOp{{key: counterPage, value: make([]byte, valueThreshold)}})
}

// A page that comes back while the store runs is swept away, one that is in
// use or in the making is not.
func TestSweep(t *testing.T) {
	gate := newGate("ahead")
	o := testOptions(t.TempDir())
	o.probe = gate.probe
	s := mustOpen(t, o)
	l, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, l, w, 1, 3)
	old := s.pageIDs.next
	fill(t, s, l, w, 4, 4)
	l.Settle(4)
	barrier(t, s)
	key := appendIDKey(nil, prefixBody, old)
	err := s.db.Update(func(txn *badger.Txn) error {
		return txn.Set(key, appendFrame(nil, key, bytes.Repeat([]byte("x"), 5000)))
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	gate.arm()
	large := newMessage(w, 9, "", strings.Repeat("l", 2*aheadBytes))
	l.Append(9, &large.Record, Meta{})
	gate.catch(t) // a body that is half written
	go func() { defer close(done); s.sweep() }()
	gate.open <- nil
	<-done
	w.wait(t, 9)
	if found, err := s.has(key); found || err != nil {
		t.Errorf("the page is still there: %v %v", found, err)
	}
	s = crash(t, s)
	if n := len(recovered(t, s.Log(l.ID()))); n != 4 {
		t.Errorf("%d messages", n)
	}
}

// A redo list that was done and comes back is not done again.
func TestOldRedoListIsNotDoneAgain(t *testing.T) {
	s := openDir(t, t.TempDir())
	first, w := s.NextID(), newWaiter()
	for range wideLogs {
		s.NextID()
	}
	submitWide(s, w, first)
	w.wait(t, 1)
	for _, id := range s.Logs() {
		s.Log(id).Settle(1)
	}
	key := appendRedoKey(nil, 1, 0)
	put := rawOp{key: appendPageKey(nil, prefixIndex, first, 1), value: []byte("old")}
	mustClose(t, s)
	tamper(t, s.opts.Dir, func(txn *badger.Txn) error {
		return txn.Set(key, appendFrame(nil, key, appendRedo(nil, &put)))
	})
	s = openDir(t, s.opts.Dir)
	wantNoKeys(t, s, messageKeys)
	mustClose(t, s)
	// One that is out of order is not guessed at.
	key = appendRedoKey(nil, 3, 0)
	tamper(t, s.opts.Dir, func(txn *badger.Txn) error {
		return txn.Set(key, appendFrame(nil, key, appendRedo(nil, &put)))
	})
	if s, err := Open(s.opts); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
		s.Close()
	}
}
