package broker

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// rejectHead rejects the next message of a queue.
func (s *session) rejectHead(q *Queue) {
	s.t.Helper()
	e, _, ok, err := q.Get(false)
	if err != nil || !ok {
		s.t.Fatalf("get from %s: %v, %v", q.Name, ok, err)
	}
	q.Reject([]queue.Entry{e})
}

// settledIn waits until a queue has so many messages and nothing is on its way any more.
func settledIn(t *testing.T, q *Queue, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		got := q.Counts().Ready
		if got == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s has %d messages, want %d", q.Name, got, n)
		}
	}
}

// TestDefaultDeadLetterExchange: it takes what dies in queues without a dead-letter exchange of their own, and makes
// no loop.
func TestDefaultDeadLetterExchange(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		b := openBroker(t, p, "")
		s := guest(t, b)
		s.exchange("dead", "fanout", nil)
		s.exchange("own", "fanout", nil)
		plain := s.queue("plain", false, nil)
		dead, own := s.queue("dead", false, nil), s.queue("own", false, nil)
		s.bindQueue("dead", "", "dead", nil)
		s.bindQueue("dead", "", "plain", nil) // a message that died there does not come back
		s.bindQueue("own", "", "own", nil)
		withOwn := s.queue("with-own", false, frames.Table{{Key: "x-dead-letter-exchange", Value: "own"}})
		ofPolicy := s.queue("of-policy", false, nil)
		s.putPolicy(UserPolicy, "p", "^of-policy$", 0, definition{"dead-letter-exchange": "own"})
		name := "dead"
		_, _, err := b.PutVHost("/", VHostSettings{DefaultDeadLetterExchange: &name}, nil)
		s.must(err)

		s.publish("", "plain", "a", frames.PropertyValues{})
		s.rejectHead(plain)
		settledIn(t, dead, 1)
		s.publish("", "with-own", "b", frames.PropertyValues{})
		s.rejectHead(withOwn)
		s.publish("", "of-policy", "c", frames.PropertyValues{})
		s.rejectHead(ofPolicy)
		settledIn(t, own, 2)
		settledIn(t, plain, 0)

		e, _, _, _ := dead.Get(false)
		died := propertiesOf(e.Message)
		headers, _ := died.Headers()
		deaths, _ := headers.Lookup("x-death")
		first := deaths.Decode().(frames.Array)[0].(frames.Table)
		got := map[string]any{}
		for _, key := range []string{"queue", "reason", "exchange"} {
			got[key], _ = first.Get(key)
		}
		if at, ok := first.Get("time"); !ok || at.(frames.Timestamp) == 0 {
			t.Errorf("x-death has no time: %v", first)
		}
		if diff := gocmp.Diff(map[string]any{"queue": "plain", "reason": "rejected", "exchange": ""}, got); diff != "" {
			t.Error(diff)
		}
		// Rejected where dead messages are, it is gone there and goes to neither queue again.
		dead.Reject([]queue.Entry{e})
		s.publish("", "plain", "marker", frames.PropertyValues{})
		s.rejectHead(plain)
		settledIn(t, dead, 1)
		if got := drain(dead); !gocmp.Equal(got, []string{"marker"}) {
			t.Errorf("the queue for dead messages has %v", got)
		}
		off := ""
		_, _, err = b.PutVHost("/", VHostSettings{DefaultDeadLetterExchange: &off}, nil)
		s.must(err)
		if plain.Rules().DeadLetters || !withOwn.Rules().DeadLetters {
			t.Error("switched off, it is off for queues without one of their own only")
		}
	})
}

// TestDefaultDeadLetterOption: the broker's setting is that of virtual hosts which have none.
func TestDefaultDeadLetterOption(t *testing.T) {
	b, err := Open(Options{Logger: discard, DefaultDeadLetterExchange: "all"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	own := "mine"
	for name, s := range map[string]VHostSettings{"a": {}, "b": {DefaultDeadLetterExchange: &own}} {
		if _, _, err := b.PutVHost(name, s, nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"/": "all", "a": "all", "b": "mine"} {
		v, _ := b.VHost(name)
		q, err := v.newQueue(&Client{User: "guest"}, "q", &frames.QueueDeclare{})
		if err == nil && (v.DefaultDeadLetterExchange() != want || !q.Rules().DeadLetters || q.deadLetter.Load().exchange != want) {
			t.Errorf("virtual host %s has %q, want %q", name, v.DefaultDeadLetterExchange(), want)
		}
		if err != nil {
			t.Error(err)
		}
		if reply := v.OpenReply(); reply.Rules().DeadLetters {
			t.Error("a reply queue has a dead-letter exchange")
		}
	}
}
