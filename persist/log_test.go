package persist

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// gate lets a test stop the committer at a point, once for each arm.
type gate struct {
	point   string
	armed   chan struct{}
	entered chan struct{}
	open    chan error
}

func newGate(point string) *gate {
	return &gate{point: point, armed: make(chan struct{}, 1), entered: make(chan struct{}), open: make(chan error)}
}

func (g *gate) probe(point string) error {
	if point != g.point {
		return nil
	}
	select {
	case <-g.armed:
	default:
		return nil
	}
	g.entered <- struct{}{}
	return <-g.open
}

// arm makes the committer stop at the point; catch waits until it has.
func (g *gate) arm() { g.armed <- struct{}{} }

func (g *gate) catch(t testing.TB) {
	t.Helper()
	select {
	case <-g.entered:
	case <-time.After(20 * time.Second):
		t.Fatalf("the committer did not come to %q", g.point)
	}
}

// openGated opens a store whose committer g can stop.
func openGated(t testing.TB, g *gate) *Store {
	t.Helper()
	o := testOptions(t.TempDir())
	o.probe = g.probe
	return mustOpen(t, o)
}

// lazy keeps batches that nobody waits for open for as long as a test lasts.
func lazy(o Options) Options {
	o.LazyDelay = time.Hour
	return o
}

func TestSettledBeforeCommitLeavesNoKey(t *testing.T) {
	s := mustOpen(t, lazy(testOptions(t.TempDir())))
	l := s.Log(s.NextID())
	for seq := uint64(1); seq <= 100; seq++ {
		m := newMessage(nil, 0, "h", "body")
		l.Append(seq, &m.Record, Meta{})
		if seq%10 != 0 {
			l.Settle(seq)
		}
	}
	for seq := uint64(10); seq <= 100; seq += 10 {
		l.Settle(seq)
	}
	barrier(t, s)
	wantNoKeys(t, s, messageKeys)
	if st := s.Stats(); st.Cancelled != 100 || st.Written != 0 || st.BodyBytes != 0 || st.Backlog != 0 {
		t.Errorf("stats %+v", st)
	}
	s = crash(t, s)
	wantNoKeys(t, s, messageKeys)
}

func TestSettledBeforeCommitCountsAsStored(t *testing.T) {
	g := newGate("commit")
	s := openGated(t, g)
	l, w := s.Log(s.NextID()), newWaiter()
	g.arm()
	first := newMessage(w, 1, "", "first")
	l.Append(1, &first.Record, Meta{})
	g.catch(t)
	second := newMessage(w, 2, "", "second") // in the next batch
	l.Append(2, &second.Record, Meta{})
	if _, told := w.has(2); told {
		t.Fatal("told before commit or settle")
	}
	l.Settle(2)
	if err, told := w.has(2); !told || err != nil {
		t.Fatalf("settling did not tell: %v %v", told, err)
	}
	g.open <- nil
	w.wait(t, 1)
	s = reopen(t, s)
	wantMessages(t, s.Log(l.ID()), got{1, "", "first"})
}

func TestSettledWhileCommitting(t *testing.T) {
	g := newGate("commit")
	s := openGated(t, g)
	l, w := s.Log(s.NextID()), newWaiter()
	g.arm()
	for seq := uint64(1); seq <= 3; seq++ {
		m := newMessage(w, seq, "", fmt.Sprint(seq))
		m.Hold()
		l.Append(seq, &m.Record, Meta{})
		defer m.Release(s)
	}
	g.catch(t)
	s.mu.Lock()
	committing := len(s.committing.pages) > 0
	s.mu.Unlock()
	if !committing {
		t.Fatal("nothing is being committed")
	}
	l.Settle(1)
	g.open <- nil
	barrier(t, s)
	s = crash(t, s)
	all := recovered(t, s.Log(l.ID()))
	for _, m := range all {
		if m.Seq == 1 {
			t.Error("a message settled while it was committed came back")
		}
	}
	l = s.Log(l.ID())
	l.Settle(1, 2, 3, 99)
	barrier(t, s)
	wantNoKeys(t, s, messageKeys)
}

func TestWholePageSettledWhileCommitting(t *testing.T) {
	g := newGate("commit")
	s := openGated(t, g)
	l, w := s.Log(s.NextID()), newWaiter()
	g.arm()
	m := newMessage(w, 1, "", "x")
	l.Append(1, &m.Record, Meta{})
	g.catch(t)
	l.Settle(1)
	g.open <- nil
	w.wait(t, 1)
	barrier(t, s)
	wantNoKeys(t, s, messageKeys)
}

func TestSettledAfterCommit(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, l, w, 1, 500)
	var odd []uint64
	var want []got
	for seq := uint64(1); seq <= 500; seq++ {
		if seq%2 == 1 || seq > 400 {
			odd = append(odd, seq, seq) // twice is as good as once
		} else {
			want = append(want, got{seq, "", bodyOf(seq)})
		}
	}
	l.Settle(odd...)
	l.Settle(0, 501, 1<<63)
	barrier(t, s)
	if len(keys(t, s, "a")) == 0 {
		t.Error("no list of settled messages on disk")
	}
	s = crash(t, s)
	l = s.Log(l.ID())
	wantMessages(t, l, want...)
	for _, m := range want {
		l.Settle(m.Seq)
	}
	barrier(t, s)
	wantNoKeys(t, s, messageKeys)
}

// bodyOf is the body fill gives a message.
func bodyOf(seq uint64) string { return strings.Repeat(fmt.Sprint(seq, " "), 1+int(seq%7)) }

// fill appends messages from ... to and waits for them.
func fill(t testing.TB, s *Store, l *Log, w *waiter, from, to uint64) {
	t.Helper()
	var tokens []uint64
	for seq := from; seq <= to; seq++ {
		token := l.ID()<<32 | seq
		m := newMessage(w, token, "", bodyOf(seq))
		l.Append(seq, &m.Record, Meta{})
		tokens = append(tokens, token)
	}
	w.wait(t, tokens...)
}

func TestSettleWithoutCompanyIsCommitted(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, l, w, 1, 1)
	l.Settle(1)
	deadline := time.Now().Add(10 * time.Second)
	for len(keys(t, s, messageKeys)) > 0 {
		if time.Now().After(deadline) {
			t.Fatal("a settle that nobody waits for is never committed")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestGapsBetweenSeqs(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	seqs := []uint64{0, 1, 5, 1 << 31, 1<<32 + 7, 1<<32 + 8, 1 << 62}
	var want []got
	for i, seq := range seqs {
		m := newMessage(w, uint64(i), "", fmt.Sprint(seq))
		l.Append(seq, &m.Record, Meta{})
		want = append(want, got{seq, "", fmt.Sprint(seq)})
	}
	w.wait(t, 0, 1, 2, 3, 4, 5, 6)
	s = reopen(t, s)
	wantMessages(t, s.Log(l.ID()), want...)
	s.Log(l.ID()).Settle(2, 4, 1<<31, 1<<32)
	barrier(t, s)
	s = crash(t, s)
	wantMessages(t, s.Log(l.ID()), append(want[:3:3], want[4:]...)...)
}

func TestSharedBodyIsStoredOnce(t *testing.T) {
	g := newGate("commit")
	s := openGated(t, g)
	w := newWaiter()
	logs := []*Log{s.Log(s.NextID()), s.Log(s.NextID()), s.Log(s.NextID())}
	m := newMessage(w, 1, "head", strings.Repeat("shared ", 1000))
	m.Hold()
	g.arm()
	logs[0].Append(1, &m.Record, Meta{})
	logs[1].Append(1, &m.Record, Meta{})
	g.catch(t) // the third joins while the body is being written
	logs[2].Append(1, &m.Record, Meta{Priority: 7})
	g.open <- nil
	barrier(t, s)
	if _, told := w.has(1); told {
		t.Error("told while the record was held")
	}
	m.Release(s)
	if err, told := w.has(1); !told || err != nil {
		t.Errorf("release did not tell: %v %v", told, err)
	}
	if n := len(keys(t, s, "b")); n != 1 {
		t.Errorf("%d body pages for one message", n)
	}

	s = reopen(t, s)
	var records []*Record
	for i, l := range logs {
		logs[i] = s.Log(l.ID())
		err := logs[i].Recover(func(r Recovered) error {
			records = append(records, r.Record)
			if string(r.Head) != "head" || !bytes.Equal(r.Body, m.body) {
				return errors.New("other bytes")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(records) != 3 || records[0] != records[1] || records[1] != records[2] {
		t.Errorf("records %v: not one shared by all", records)
	}
	if s.records != nil || s.shared != nil {
		t.Error("what recovery needed is still kept")
	}
	for i, l := range logs {
		l.Settle(1)
		barrier(t, s)
		if n, want := len(keys(t, s, "b")), min(1, 2-i); n != want {
			t.Errorf("after %d of 3 settles there are %d body pages, want %d", i+1, n, want)
		}
	}
	wantNoKeys(t, s, messageKeys)
}

func TestRecoveredRecordCanBeAppendedAgain(t *testing.T) {
	s := openDir(t, t.TempDir())
	a, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, a, w, 1, 2)
	s = reopen(t, s)
	a, b := s.Log(a.ID()), s.Log(s.NextID())
	mine := make(map[uint64]*message)
	err := a.Recover(func(r Recovered) error {
		m := &message{head: r.Head, body: r.Body}
		m.Adopt(r.Record, m)
		mine[r.Seq] = m
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pages := len(keys(t, s, "b"))
	b.Append(10, &mine[1].Record, Meta{}) // while its page is there
	barrier(t, s)
	if n := len(keys(t, s, "b")); n != pages {
		t.Errorf("%d body pages instead of %d, the bytes were there already", n, pages)
	}
	a.Settle(1, 2)
	b.Settle(10)
	barrier(t, s)
	wantNoKeys(t, s, messageKeys)
	b.Append(11, &mine[2].Record, Meta{}) // after it has gone
	barrier(t, s)
	s = reopen(t, s)
	wantMessages(t, s.Log(b.ID()), got{11, "", bodyOf(2)})
}

// A page that lost its last reference is kept when it gains one in time.
func TestPageIsReferredToAgainBeforeItsDelete(t *testing.T) {
	g := newGate("commit")
	s := openGated(t, g)
	w := newWaiter()
	a, b := s.Log(s.NextID()), s.Log(s.NextID())
	m := newMessage(w, 1, "", "wanted twice")
	a.Append(1, &m.Record, Meta{})
	w.wait(t, 1)
	g.arm()
	other := newMessage(w, 2, "", "x")
	b.Append(1, &other.Record, Meta{})
	g.catch(t)
	a.Settle(1)
	b.Append(2, &m.Record, Meta{})
	b.Settle(1)
	g.open <- nil
	barrier(t, s)
	if n := len(keys(t, s, "b")); n != 1 {
		t.Errorf("%d body pages, want the one", n)
	}
	s = crash(t, s)
	wantMessages(t, s.Log(b.ID()), got{2, "", "wanted twice"})
}

func TestLargeBodies(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	sizes := []int{0, bodyPageBytes - 4, bodyPageBytes - 3, 10 << 20, 40<<20 + 1, 1, bodyPageBytes * 2}
	want := make(map[uint64][]byte)
	for i, size := range sizes {
		seq := uint64(i + 1)
		body := make([]byte, size)
		for j := range body {
			body[j] = byte(j>>16) ^ byte(j*7) ^ byte(i)
		}
		m := &message{head: []byte("head"), body: body}
		m.Init(m, w, seq)
		l.Append(seq, &m.Record, Meta{})
		want[seq] = body
	}
	w.wait(t, 1, 2, 3, 4, 5, 6, 7)
	// With 4 bytes of head each: 1 + 1 + 2 + 3 + 11 + 1 + 3.
	if n := len(keys(t, s, "b")); n != 22 {
		t.Errorf("%d body pages", n)
	}
	s = reopen(t, s)
	l = s.Log(l.ID())
	err := l.Recover(func(r Recovered) error {
		if string(r.Head) != "head" || !bytes.Equal(r.Body, want[r.Seq]) {
			return fmt.Errorf("message %d of %d bytes came back as %d others", r.Seq, len(want[r.Seq]), len(r.Body))
		}
		delete(want, r.Seq)
		return nil
	})
	if err != nil || len(want) > 0 {
		t.Fatalf("%v; %d are missing", err, len(want))
	}
	l.Settle(1, 2, 3, 4, 5, 6, 7)
	barrier(t, s)
	wantNoKeys(t, s, messageKeys)
}
