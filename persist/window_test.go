package persist

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// windowed is a message with all that a window has of it.
type windowed struct {
	Message got
	Meta    Meta
}

// checkWindows compares what a log's survey and its windows say, of all
// messages and of some, with what Recover will. Before Recover.
func checkWindows(t fataler, l *Log) {
	t.Helper()
	s := l.store
	var want []windowed
	for _, p := range l.pages {
		messages, err := s.readPage(p)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for _, m := range messages {
			want = append(want, windowed{got{m.Seq, string(m.Head), string(m.Body)}, m.Meta})
		}
	}
	var surveyed []Surveyed
	if found := s.surveys[l.id]; found != nil {
		found.each(func(m *Surveyed) {
			if !s.lossy || !l.lost(m.Seq) {
				surveyed = append(surveyed, *m)
			}
		})
	}
	if len(surveyed) != len(want) {
		t.Fatalf("the survey of log %d has %d messages, there are %d", l.id, len(surveyed), len(want))
	}
	for i, m := range surveyed {
		w := want[i]
		if m.Seq != w.Message.Seq || m.Meta != w.Meta || int(m.Head) != len(w.Message.Head) || int(m.Body) != len(w.Message.Body) {
			t.Fatalf("the survey of log %d says %+v of %.80v", l.id, m, w)
		}
	}
	for range 3 {
		checkWindow(t, l, want)
		want = sample(want)
	}
}

// checkWindow reads these messages.
func checkWindow(t fataler, l *Log, want []windowed) {
	t.Helper()
	var seqs []uint64
	for _, m := range want {
		seqs = append(seqs, m.Message.Seq)
	}
	var found []windowed
	err := l.Read(seqs, func(m *StoredMessage) error {
		found = append(found, windowed{got{m.Seq, string(m.Head), string(m.Body)}, m.Meta})
		return nil
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Fatalf("window of log %d (-want +got):\n%.1000s", l.id, diff)
	}
}

// sample takes about half.
func sample[T any](all []T) (some []T) {
	for _, v := range all {
		if rand.IntN(2) == 0 {
			some = append(some, v)
		}
	}
	return some
}

func TestWindowsOfOneLog(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	large := strings.Repeat("large", bodyPageBytes/5+100)
	for i := range uint64(200) {
		body := fmt.Sprint("body ", i)
		if i%50 == 7 {
			body = large
		}
		m := newMessage(w, i, "head", body)
		l.Append(3*i+1, &m.Record, Meta{Priority: uint8(i % 7), Flags: uint8(i % 3), Expiry: int64(i) << 30})
		if i%37 == 0 {
			barrier(t, s)
			if !m.Safe() {
				t.Fatal("a record is not safe after its commit")
			}
		}
	}
	barrier(t, s)
	for i := range uint64(200) {
		if i%3 == 0 {
			l.Settle(3*i + 1)
		}
	}
	barrier(t, s)
	s = reopen(t, s)
	l = s.Log(l.ID())
	checkWindows(t, l)
	l.SaveMarks([]Mark{{Seq: 4, Redelivered: true, DeliveryCount: 3}})
	s = reopen(t, s)
	l = s.Log(l.ID())
	n := 0
	l.Survey(func(m *Surveyed) {
		n++
		if marked := m.Seq == 4; m.Redelivered != marked || (m.DeliveryCount == 3) != marked {
			t.Errorf("mark of message %d: %v, %d", m.Seq, m.Redelivered, m.DeliveryCount)
		}
	})
	if n != 133 {
		t.Fatalf("survey of %d messages", n)
	}
	if len(s.surveys)+len(s.marks)+len(s.unrecovered) != 0 {
		t.Error("what a survey gave is still kept")
	}
	stopHere := errors.New("stop here")
	if err := l.Read([]uint64{4, 7}, func(*StoredMessage) error { return stopHere }); !errors.Is(err, stopHere) {
		t.Errorf("the caller's error came back as %v", err)
	}
	for _, seq := range []uint64{1, 2, 4 + 3*1000} { // settled, never there, not yet
		if err := l.Read([]uint64{seq}, func(m *StoredMessage) error { return nil }); seq != 1 && err == nil {
			t.Errorf("message %d was read", seq)
		}
	}
}

func TestRecordIsNotSafeBeforeItsCommit(t *testing.T) {
	s := openDir(t, t.TempDir())
	l := s.Log(s.NextID())
	m := newMessage(nil, 0, "head", "body")
	m.Hold()
	l.Append(1, &m.Record, Meta{})
	if m.Safe() {
		t.Error("safe before the commit")
	}
	barrier(t, s)
	if m.Safe() {
		t.Error("safe while another append may follow")
	}
	m.Release(s)
	if !m.Safe() {
		t.Error("not safe after commit and release")
	}
	abandon(t, s)
	lost := newMessage(nil, 0, "head", "body")
	l.Append(2, &lost.Record, Meta{})
	if lost.Safe() {
		t.Error("a record that is lost is safe")
	}
}

// Windows are read while messages before them are settled and their pages go.
func TestWindowsWhileOthersSettle(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, l, w, 1, 2000)
	var wg sync.WaitGroup
	defer wg.Wait()
	for from := uint64(1); from+100 <= 2000; from += 100 {
		var seqs []uint64
		for i := range uint64(100) {
			seqs = append(seqs, from+i)
		}
		n := 0
		if err := l.Read(seqs, func(m *StoredMessage) error {
			if m.Seq != seqs[n] {
				return fmt.Errorf("message %d in place of %d", m.Seq, seqs[n])
			}
			n++
			return nil
		}); err != nil || n != len(seqs) {
			t.Fatalf("%d of %d messages: %v", n, len(seqs), err)
		}
		wg.Go(func() { l.Settle(seqs...) })
	}
}

// Numbers are given again after a start when the last messages were settled;
// the old page still has the settled ones.
func TestWindowsOfReusedNumbers(t *testing.T) {
	s := openDir(t, t.TempDir())
	l := s.Log(s.NextID())
	add := func(from, to uint64, body string) {
		g := new(Group)
		for seq := from; seq <= to; seq++ {
			m := newMessage(nil, 0, "head", fmt.Sprint(body, seq))
			g.Append(l, seq, &m.Record, Meta{})
		}
		s.Submit(g, nil, 0)
		barrier(t, s)
	}
	add(1, 20, "old ")
	for seq := uint64(11); seq <= 20; seq++ {
		l.Settle(seq)
	}
	barrier(t, s)
	s = reopen(t, s)
	l = s.Log(l.ID())
	l.Survey(func(*Surveyed) {})
	add(11, 15, "new ")
	add(16, 18, "newer ")
	check := func() {
		t.Helper()
		var want []windowed
		for seq := uint64(1); seq <= 18; seq++ {
			body := fmt.Sprint("old ", seq)
			if seq > 15 {
				body = fmt.Sprint("newer ", seq)
			} else if seq > 10 {
				body = fmt.Sprint("new ", seq)
			}
			want = append(want, windowed{Message: got{seq, "head", body}})
		}
		for range 5 {
			checkWindow(t, l, want)
			want = sample(want)
		}
	}
	check()
	s = reopen(t, s)
	l = s.Log(l.ID())
	checkWindows(t, l)
	check()
}
