package broker

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// TestQuorumRules: what arguments mean; those that RabbitMQ does not check may
// be of any kind (verified on 3.10.8 and 4.3.6).
func TestQuorumRules(t *testing.T) {
	rules := func(change func(r *queue.Rules)) queue.Rules {
		r := queue.NoRules()
		if change != nil {
			change(&r)
		}
		return r
	}
	limit := func(n int64) func(*queue.Rules) { return func(r *queue.Rules) { r.DeliveryLimit = n } }
	for _, test := range []struct {
		args   frames.Table
		v3, v4 func(*queue.Rules) // v4 beside the default limit
	}{
		{nil, nil, nil},
		{table("x-delivery-limit", int32(7)), limit(7), limit(7)},
		{table("x-delivery-limit", int32(0)), limit(0), limit(0)},
		{table("x-delivery-limit", int64(-9)), limit(0), limit(-1)},
		{table("x-delivery-limit", "3"), limit(math.MaxInt64), nil},
		{table("x-delivery-limit", 1.5), limit(math.MaxInt64), nil},
		{table("x-overflow", "reject-publish-dlx"), nil, nil},
		{table("x-consumer-timeout", int32(5)), func(r *queue.Rules) { r.ConsumerTimeout = 5 }, func(r *queue.Rules) { r.ConsumerTimeout = 5 }},
		{table("x-delayed-retry-type", "all", "x-delayed-retry-min", int32(5)), retried(queue.RetryAll, 5, 5), retried(queue.RetryAll, 5, 5)},
		{table("x-delayed-retry-type", "failed", "x-delayed-retry-min", int32(5), "x-delayed-retry-max", int32(9)),
			retried(queue.RetryFailed, 5, 9), retried(queue.RetryFailed, 5, 9)},
		{table("x-delayed-retry-type", "returned", "x-delayed-retry-min", int32(5), "x-delayed-retry-max", int32(2)),
			retried(queue.RetryReturned, 5, 2), retried(queue.RetryReturned, 5, 2)},
		{table("x-delayed-retry-type", "bogus", "x-delayed-retry-min", int32(5)), retried(0, 5, 5), retried(0, 5, 5)},
		{table("x-delayed-retry-type", "all", "x-delayed-retry-min", "5"), nil, nil},
		{table("x-delayed-retry-type", "all", "x-delayed-retry-min", int32(-1)), nil, nil},
	} {
		both(t, func(t *testing.T, p compat.Profile) {
			want := rules(test.v3)
			if p == compat.V4 {
				want = rules(func(r *queue.Rules) {
					r.DeliveryLimit = 20
					if test.v4 != nil {
						test.v4(r)
					}
				})
			}
			got, _ := rulesOf(test.args)
			quorumRules(p, &got, test.args)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", test.args, diff)
			}
		})
	}
}

func retried(kind queue.RetryType, least, most int64) func(*queue.Rules) {
	return func(r *queue.Rules) { r.Retry, r.RetryMin, r.RetryMax = kind, least, most }
}

// sureQueue declares a quorum queue that dead-letters at least once to "dlx",
// and gives it one message that a consumer then rejects.
func sureQueue(t *testing.T, s *session) *Queue {
	t.Helper()
	args := table("x-queue-type", "quorum", "x-overflow", "reject-publish", "x-max-length", int32(1),
		"x-dead-letter-exchange", "dlx", "x-dead-letter-strategy", "at-least-once")
	if _, err := s.declareQueue(frames.QueueDeclare{Queue: "q", Durable: true, Arguments: args}); err != nil {
		t.Fatal(err)
	}
	q, _ := s.v.Queue("q")
	m := &queue.Message{RoutingKey: "k", Properties: []byte{0, 0}, Content: []byte("a"), Expiration: -1}
	m.Track(nil, 0)
	q.Publish(m)
	e, _, _, _ := q.Get(false)
	q.Reject([]queue.Entry{e})
	return q
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 20 s: %s", what)
		}
	}
}

// TestDeadLetterAtLeastOnce: a dead message that nothing takes stays in its
// queue, also over a crash, and goes when something does; meanwhile it counts
// to the limit.
func TestDeadLetterAtLeastOnce(t *testing.T) {
	b := openBroker(t, compat.V4, t.TempDir())
	s := guest(t, b)
	q := sureQueue(t, s)
	eventually(t, "the message is stranded", func() bool { return q.Stranded() == 1 })
	if n := q.Counts(); n.Ready != 0 || n.Unacked != 0 {
		t.Errorf("stranded, and %+v", n)
	}
	for i, want := range []queue.Outcome{queue.Taken, queue.Refused} {
		m := &queue.Message{RoutingKey: "q", Properties: []byte{0, 0}, Expiration: -1}
		m.Track(nil, 0)
		if got := q.Publish(m); got != want {
			t.Errorf("publish %d beside it: %v, want %v", i, got, want)
		}
	}
	if err := s.declareExchange(frames.ExchangeDeclare{Exchange: "dlx", Type: "fanout"}); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(11 * time.Second) // the exchange is there, and routes it nowhere
	eventually(t, "it is stranded again", func() bool { return q.Stranded() == 1 })

	full := table("x-max-length", int32(0), "x-overflow", "reject-publish")
	if _, err := s.declareQueue(frames.QueueDeclare{Queue: "dead", Durable: true, Arguments: full}); err != nil {
		t.Fatal(err)
	}
	bindDead := func(name string) {
		t.Helper()
		if err := s.stored(func(done func(error)) (bool, error) {
			return s.v.Bind(s.c, BindRequest{Source: "dlx", Destination: name, ToQueue: true}, done)
		}); err != nil {
			t.Fatal(err)
		}
	}
	bindDead("dead")
	b.Clock.Advance(11 * time.Second) // the queue there is full
	eventually(t, "it is stranded once more", func() bool { return q.Stranded() == 1 })

	if _, err := s.deleteQueue(frames.QueueDelete{Queue: "dead"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.declareQueue(frames.QueueDeclare{Queue: "dead2", Durable: true}); err != nil {
		t.Fatal(err)
	}
	bindDead("dead2")
	b.Clock.Advance(11 * time.Second)
	dead, _ := s.v.Queue("dead2")
	eventually(t, "it is dead-lettered", func() bool { return dead.Counts().Ready == 1 && q.Stranded() == 0 })
}

// TestDeadLetterAtMostOnce: without a mode that refuses, the strategy falls
// back to dropping what nothing takes.
func TestDeadLetterAtMostOnce(t *testing.T) {
	for _, overflow := range []string{"drop-head", "reject-publish-dlx"} {
		r, _ := rulesOf(table("x-dead-letter-exchange", "x", "x-overflow", overflow))
		quorumRules(compat.V4, &r, table("x-dead-letter-exchange", "x", "x-overflow", overflow, "x-dead-letter-strategy", "at-least-once"))
		if r.AtLeastOnce {
			t.Errorf("at least once with %s", overflow)
		}
	}
}

// TestQuorumSurvivesRestart: transient messages, their priorities and counts
// are there after a clean stop, in the profile that the broker has then.
func TestQuorumSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	s := guest(t, b)
	if _, err := s.declareQueue(frames.QueueDeclare{Queue: "q", Durable: true, Arguments: table("x-queue-type", "quorum")}); err != nil {
		t.Fatal(err)
	}
	q, _ := s.v.Queue("q")
	for _, priority := range []byte{1, 9, 5} {
		m := &queue.Message{RoutingKey: "q", Priority: priority, Properties: []byte{0x08, 0, priority}, Content: []byte{priority}, Expiration: -1}
		m.Track(nil, 0)
		q.Publish(m)
	}
	e, _, _ := getNow(q, false)
	q.Return([]queue.Entry{e}, queue.Failed)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, run := range []struct {
		profile compat.Profile
		order   []byte
	}{{compat.V4, []byte{9, 5, 1}}, {compat.V3, []byte{1, 9, 5}}} {
		b = openBroker(t, run.profile, dir)
		q, _ := guest(t, b).v.Queue("q")
		var got []queue.Entry
		for range 3 {
			e, _, ok := getNow(q, false)
			if !ok {
				t.Fatal("a message is missing")
			}
			got = append(got, e)
		}
		for i, e := range got {
			nine := e.Message.Content[0] == 9
			if e.Message.Content[0] != run.order[i] || (e.Failures == 1) != nine || e.Redelivered != nine {
				t.Errorf("profile %v: message %d is %v, failed %d times, redelivered %v", run.profile, i, e.Message.Content, e.Failures, e.Redelivered)
			}
		}
		if err := b.Close(); err != nil { // what is unacknowledged is there again
			t.Fatal(err)
		}
	}
}
