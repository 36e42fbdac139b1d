package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// TestHistoryOverARestart: 4.3 keeps it in its database, 3.10.8 in memory. Here
// persistent messages of a durable exchange are what lasts.
func TestHistoryOverARestart(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		dir := t.TempDir()
		b := openBroker(t, p, dir)
		s := guest(t, b)
		s.exchange("x", "x-recent-history", table("x-recent-history-length", int32(3)))
		for i := range 5 {
			s.publish("x", "k", fmt.Sprint("m", i), lasting(frames.PropertyValues{}))
		}
		want := []string{"m2", "m3", "m4"}
		if p == compat.V3 {
			want = nil
		}
		for i, open := range []func() *Broker{
			func() *Broker { return openBroker(t, p, copyFolder(t, dir)) },
			func() *Broker { return reopen(t, b, p, dir) },
		} {
			s := guest(t, open())
			q := s.queue("q", true, nil)
			s.bindQueue("x", "", "q", nil)
			if diff := gocmp.Diff(want, drain(q)); diff != "" {
				t.Errorf("start %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

// TestHistoryOverAProfileChange: what profile 4 has written, profile 3 does not
// bring back, nor does profile 4 after it.
func TestHistoryOverAProfileChange(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	s := guest(t, b)
	s.exchange("x", "x-recent-history", nil)
	s.publish("x", "k", "old", lasting(frames.PropertyValues{}))
	for i, p := range []compat.Profile{compat.V3, compat.V4} {
		b = reopen(t, b, p, dir)
		s = guest(t, b)
		s.publish("x", "k", fmt.Sprint("new ", i), lasting(frames.PropertyValues{}))
		q := s.queue(fmt.Sprint("q", i), false, nil)
		s.bindQueue("x", "", q.Name, nil)
		if got := drain(q); !slices.Equal(got, []string{fmt.Sprint("new ", i)}) {
			t.Errorf("profile %s: %v", p, got)
		}
	}
}

// TestReplayIsDurable: what a durable queue got at its binding is there after a
// kill, and is a message of its own to the store.
func TestReplayIsDurable(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	s := guest(t, b)
	s.exchange("x", "x-recent-history", table("x-recent-history-length", int32(2)))
	s.publish("x", "k", "m", lasting(frames.PropertyValues{}))
	for i := range 3 {
		q := s.queue(fmt.Sprint("q", i), true, nil)
		s.bindQueue("x", "", q.Name, nil)
	}
	s.must(s.deleteExchange(frames.ExchangeDelete{Exchange: "x"}))
	killed := guest(t, openBroker(t, compat.V4, copyFolder(t, dir)))
	for i := range 3 {
		q, _ := killed.v.Queue(fmt.Sprint("q", i))
		if got := drain(q); !slices.Equal(got, []string{"m"}) {
			t.Errorf("%s after a kill: %v", q.Name, got)
		}
	}
}

// TestHistoryDoesNotExpire: a message's time to live is for queues.
func TestHistoryDoesNotExpire(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	s := guest(t, b)
	s.exchange("x", "x-recent-history", nil)
	s.publish("x", "k", "m", frames.PropertyValues{Flags: frames.FlagExpiration, Expiration: "1000"})
	b.Clock.Advance(time.Hour)
	q := s.queue("q", false, nil)
	s.bindQueue("x", "", "q", nil)
	if got := q.Counts().Ready; got != 1 {
		t.Fatalf("%d messages replayed, want 1", got)
	}
	b.Clock.Advance(time.Second)
	if got := q.Counts().Ready; got != 0 {
		t.Error("it lives on in the queue")
	}
}

// TestDelayedHistory: both kinds of backlog in one exchange; what waits is
// remembered when it fires.
func TestDelayedHistory(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	s := guest(t, b)
	x := s.delayedExchange("x", "x-recent-history")
	s.publish("x", "k", "later", delay(int32(1000)))
	s.publish("x", "k", "now", frames.PropertyValues{})
	replayed := func(name string) []string {
		q := s.queue(name, false, nil)
		s.bindQueue("x", "", name, nil)
		return drain(q)
	}
	if got := replayed("q1"); !slices.Equal(got, []string{"now"}) {
		t.Errorf("before: %v", got)
	}
	b.Clock.Advance(time.Second)
	if got := replayed("q2"); !slices.Equal(got, []string{"now", "later"}) || waiting(t, x) != 0 {
		t.Errorf("after: %v, %d wait", got, waiting(t, x))
	}
}

// TestLocalRandomTakesClassicQueues (texts verified on 4.3.6).
func TestLocalRandomTakesClassicQueues(t *testing.T) {
	s := guest(t, openBroker(t, compat.V4, ""))
	s.exchange("x", "x-local-random", nil)
	x, _ := s.v.Exchange("x")
	for typ, want := range map[string]string{
		"classic": "", "quorum": "406 Queue type rabbit_quorum_queue not valid for this exchange type",
		"stream": "406 Queue type rabbit_stream_queue not valid for this exchange type",
	} {
		err := s.v.checkBindingTo(x, &Binding{Source: "x", destination: &destination{queue: &Queue{Type: typ}}})
		if got := errorText(err); got != want {
			t.Errorf("%s: %q, want %q", typ, got, want)
		}
	}
}
