package persist

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// quiet is a store whose background does not look for pages to rewrite: the
// test does.
func quiet(t testing.TB) Options {
	o := testOptions(t.TempDir())
	o.RewriteInterval = time.Hour
	return o
}

// look lets a store rewrite what is worth it now.
func look(s *Store) {
	var r rewriter
	for range 2 {
		r.run(s)
	}
}

// appendAll appends messages from ... to of 1000 bytes, in commits of so many.
func appendAll(t testing.TB, s *Store, l *Log, from, to, commit uint64) {
	t.Helper()
	w := newWaiter()
	body := strings.Repeat("x", 1000)
	for seq := from; seq <= to; seq += commit {
		var g Group
		for i := seq; i < min(seq+commit, to+1); i++ {
			m := newMessage(nil, 0, "", fmt.Sprint(i)+body)
			g.Append(l, i, &m.Record, Meta{Priority: uint8(i % 3), Expiry: int64(i)})
		}
		s.Submit(&g, w, seq)
		w.wait(t, seq)
	}
}

// settleBut settles from ... to, but not every n-th.
func settleBut(l *Log, from, to, n uint64) (left []uint64) {
	for seq := from; seq <= to; seq++ {
		if seq%n == 0 {
			left = append(left, seq)
		} else {
			l.Settle(seq)
		}
	}
	return left
}

// wantSeqs checks which messages a log has, and that each is what appendAll
// made it.
func wantSeqs(t testing.TB, l *Log, want []uint64) {
	t.Helper()
	var have []uint64
	err := l.Recover(func(r Recovered) error {
		have = append(have, r.Seq)
		if (r.Meta != Meta{Priority: uint8(r.Seq % 3), Expiry: int64(r.Seq)}) || string(r.Body) != fmt.Sprint(r.Seq)+strings.Repeat("x", 1000) {
			return fmt.Errorf("message %d has changed: %+v", r.Seq, r.Meta)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Fatalf("messages (-want +got):\n%s", diff)
	}
}

// One message that is never acknowledged pins its own bytes, not those of all
// that were committed with it.
func TestSurvivorsPinLittle(t *testing.T) {
	s := mustOpen(t, quiet(t))
	l := s.Log(s.NextID())
	appendAll(t, s, l, 1, 3000, 1000)
	left := settleBut(l, 1, 3000, 500)
	barrier(t, s)
	if before := s.Stats(); before.BodyPages != 3 || before.LiveBytes < 3_000_000 {
		t.Fatalf("nothing to give back: %+v", before)
	}
	look(s)
	after := s.Stats()
	if after.BodyPages != 1 || after.LiveBytes > 7000 || after.IndexPages > 3 {
		t.Errorf("%d messages of 1000 bytes pin: %+v", len(left), after)
	}
	if n := countKeys(t, s); n[prefixBody] != 1 || n[prefixAck] != 0 || n[prefixIndex] != int(after.IndexPages) {
		t.Errorf("keys on disk: %v", n)
	}
	wantSeqs(t, l, left)
	s = crash(t, s)
	l = s.Log(l.ID())
	wantSeqs(t, l, left)
	l.Settle(left...)
	barrier(t, s)
	wantNoKeys(t, s, messageKeys)
}

// What is sparse when the store is opened is found as well.
func TestSurvivorsOfAnEarlierRun(t *testing.T) {
	s := mustOpen(t, quiet(t))
	l := s.Log(s.NextID())
	appendAll(t, s, l, 1, 1000, 1000)
	left := settleBut(l, 1, 1000, 500)
	s = reopen(t, s)
	l = s.Log(l.ID())
	look(s) // not before it was recovered
	if st := s.Stats(); st.MovedPages != 0 {
		t.Errorf("rewritten before recovery: %+v", st)
	}
	wantSeqs(t, l, left)
	look(s)
	if st := s.Stats(); st.BodyPages != 1 || st.LiveBytes > 3000 {
		t.Errorf("pinned: %+v", st)
	}
	wantSeqs(t, l, left)
}

// The background does it by itself.
func TestRewritingHappens(t *testing.T) {
	o := testOptions(t.TempDir())
	o.RewriteInterval = 10 * time.Millisecond
	s := mustOpen(t, o)
	l := s.Log(s.NextID())
	appendAll(t, s, l, 1, 1000, 1000)
	left := settleBut(l, 1, 1000, 500)
	deadline := time.Now().Add(20 * time.Second)
	for s.Stats().LiveBytes > 3000 {
		if time.Now().After(deadline) {
			t.Fatalf("nothing is rewritten: %+v", s.Stats())
		}
		time.Sleep(5 * time.Millisecond)
	}
	wantSeqs(t, l, left)
}

// Index pages of one message each become few, again and again while they come.
func TestSmallIndexPagesAreMerged(t *testing.T) {
	o := quiet(t)
	o.Sync = SyncNever
	s := mustOpen(t, o)
	logs := []*Log{s.Log(s.NextID()), s.Log(s.NextID())}
	var want []uint64
	for round := range uint64(4) {
		for _, l := range logs {
			appendAll(t, s, l, round*40+1, round*40+40, 1)
		}
		look(s)
		if st := s.Stats(); st.IndexPages > 2*8+int64(2*round) {
			t.Errorf("round %d: %d index pages", round, st.IndexPages)
		}
	}
	if st := s.Stats(); st.Rewritten > 2*160*3 {
		t.Errorf("%d pages were rewritten, of %d", st.Rewritten, 2*160)
	}
	for seq := uint64(1); seq <= 160; seq++ {
		if seq%3 == 0 {
			want = append(want, seq)
		} else {
			logs[0].Settle(seq)
			logs[1].Settle(seq)
		}
	}
	barrier(t, s)
	s = crash(t, s)
	for _, l := range logs {
		wantSeqs(t, s.Log(l.ID()), want)
		s.Log(l.ID()).Settle(want...)
	}
	barrier(t, s)
	wantNoKeys(t, s, messageKeys)
}

// A large page is not copied again and again for what comes behind it.
func TestMergingLeavesLargePagesAlone(t *testing.T) {
	s := mustOpen(t, quiet(t))
	l := s.Log(s.NextID())
	appendAll(t, s, l, 1, 500, 500)
	appendAll(t, s, l, 501, 540, 1)
	look(s)
	if st := s.Stats(); st.Rewritten != 40 || st.IndexPages != 2 {
		t.Errorf("%d pages rewritten, %d left", st.Rewritten, st.IndexPages)
	}
}

// fanOut appends messages to several logs each, in one commit.
func fanOut(t testing.TB, s *Store, logs []*Log, n uint64, body string) (messages []*message) {
	t.Helper()
	var g Group
	for seq := uint64(1); seq <= n; seq++ {
		m := newMessage(nil, 0, "", fmt.Sprint(seq)+body)
		messages = append(messages, m)
		for _, l := range logs {
			g.Append(l, seq, &m.Record, Meta{})
		}
	}
	w := newWaiter()
	s.Submit(&g, w, 1)
	w.wait(t, 1)
	return messages
}

// A body that ten queues have is on disk once, also after a rewrite, and comes
// back as one message.
func TestFanOutIsOnDiskOnce(t *testing.T) {
	s := mustOpen(t, quiet(t))
	var logs []*Log
	for range 10 {
		logs = append(logs, s.Log(s.NextID()))
	}
	const size = 100 << 10
	fanOut(t, s, logs, 16, strings.Repeat("f", size))
	if n := s.Stats().BodyBytes; n > 16*(size+2) {
		t.Errorf("%d bytes of 16 messages of %d", n, size)
	}
	for seq := uint64(1); seq <= 16; seq++ {
		if seq != 7 {
			for _, l := range logs {
				l.Settle(seq)
			}
		}
	}
	look(s)
	if st := s.Stats(); st.MovedPages != 1 || st.LiveBytes != size+1 {
		t.Errorf("after a rewrite: %+v", st)
	}
	s = crash(t, s)
	records := make(map[*Record]bool)
	for _, l := range logs {
		err := s.Log(l.ID()).Recover(func(r Recovered) error {
			records[r.Record] = true
			if r.Seq != 7 || len(r.Body) != size+1 {
				return fmt.Errorf("message %d of %d bytes", r.Seq, len(r.Body))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(records) != 1 {
		t.Errorf("%d records of one message", len(records))
	}
}

// A message that was moved is found by whoever appends it again: a dead letter
// is not written twice.
func TestMovedMessageIsAppendedAgain(t *testing.T) {
	s := mustOpen(t, quiet(t))
	from, to := s.Log(s.NextID()), s.Log(s.NextID())
	messages := fanOut(t, s, []*Log{from}, 100, strings.Repeat("d", 1000))
	for seq := uint64(1); seq <= 100; seq++ {
		if seq != 50 {
			from.Settle(seq)
		}
	}
	look(s)
	written := s.Stats().BodyBytes
	m := messages[49]
	var g Group
	g.Append(to, 1, &m.Record, Meta{})
	g.Settle(from, 50)
	w := newWaiter()
	s.Submit(&g, w, 9)
	w.wait(t, 9)
	if st := s.Stats(); st.BodyBytes != written || st.BodyPages != 1 || st.MovedPages != 1 {
		t.Errorf("written again: %+v", st)
	}
	s = crash(t, s)
	wantMessages(t, s.Log(from.ID()))
	wantMessages(t, s.Log(to.ID()), got{1, "", string(m.body)})
}

// Settles that come while a rewrite is on its way to the disk are not lost, and
// not ahead of their group.
func TestSettlesDuringARewrite(t *testing.T) {
	g := newGate("commit")
	o := quiet(t)
	o.probe = g.probe
	s := mustOpen(t, o)
	l := s.Log(s.NextID())
	appendAll(t, s, l, 1, 1000, 1000)
	left := settleBut(l, 1, 1000, 100)
	barrier(t, s)
	var r rewriter
	r.run(s)
	g.arm()
	done := make(chan struct{})
	go func() { defer close(done); r.run(s) }()
	g.catch(t)
	l.Settle(left[0], left[9])
	w := newWaiter()
	var group Group
	m := newMessage(nil, 0, "", "1001"+strings.Repeat("x", 1000))
	group.Append(l, 1001, &m.Record, Meta{Priority: 1001 % 3, Expiry: 1001})
	group.Settle(l, left[1])
	s.Submit(&group, w, 1)
	g.open <- nil
	<-done
	w.wait(t, 1)
	barrier(t, s)
	want := append(left[2:9:9], 1001)
	wantSeqs(t, l, want)
	s = crash(t, s)
	wantSeqs(t, s.Log(l.ID()), want)
}

// A rewrite that does not reach the disk has not happened.
func TestFailedRewrite(t *testing.T) {
	fault := errors.New("no more room")
	var mu sync.Mutex
	failing := false
	o := quiet(t)
	o.probe = func(point string) error {
		mu.Lock()
		defer mu.Unlock()
		if failing && point == "commit" {
			return fault
		}
		return nil
	}
	s := mustOpen(t, o)
	l := s.Log(s.NextID())
	appendAll(t, s, l, 1, 1000, 1000)
	left := settleBut(l, 1, 1000, 100)
	barrier(t, s)
	var r rewriter
	r.run(s)
	mu.Lock()
	failing = true
	mu.Unlock()
	r.run(s)
	if err := s.Close(); !errors.Is(err, fault) {
		t.Fatalf("closed with %v", err)
	}
	mu.Lock()
	failing = false
	mu.Unlock()
	s = mustOpen(t, o)
	wantSeqs(t, s.Log(l.ID()), left)
}

// Readers and rewrites do not get into each other's way.
func TestReadingDuringRewrites(t *testing.T) {
	o := testOptions(t.TempDir())
	o.RewriteInterval = time.Millisecond
	o.Sync = SyncNever
	o.rewrite = rewriteLimits{bodyBytes: 2000, entries: 8, small: 64, run: 2}
	s := mustOpen(t, o)
	l := s.Log(s.NextID())
	left := []uint64{}
	for round := range uint64(30) {
		from := round*100 + 1
		appendAll(t, s, l, from, from+99, 20)
		left = append(left, settleBut(l, from, from+99, 25)...)
		count := 0
		// A page that dies between two looks at the list is left out.
		if err := l.Recover(func(r Recovered) error { count++; return nil }); err != nil {
			t.Fatal(err)
		}
		if count > len(left) {
			t.Fatalf("%d messages, %d are left", count, len(left))
		}
	}
	if s.Stats().Rewritten == 0 {
		t.Error("nothing was rewritten")
	}
	barrier(t, s)
	s = crash(t, s)
	wantSeqs(t, s.Log(l.ID()), left)
}
