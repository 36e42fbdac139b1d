package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/amqp/amqptest"
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames/compat"
)

// quorumExample is one block of Go of a page, in order.
type quorumExample struct {
	only int // the profile it is for; 0: both
	run  func(t *testing.T, b *broker.Broker, conn *amqp.Connection, ch *amqp.Channel)
}

var quorumPages = map[string][]quorumExample{
	"quorum-queues.md": {
		{0, exampleReturns}, {0, exampleDeliveryLimit}, {0, exampleQuorumPriorities}, {0, exampleQuorumOverflow}, {0, exampleQuorumSingle},
		{0, exampleAtLeastOnce}, {Profile4, exampleDelayedRetry}, {0, exampleQuorumExpires},
	},
	"consumer-timeout.md": {{Profile4, exampleConsumerTimeout}},
}

// TestQuorumReference runs the examples of the pages. The blocks of Go of a page must stand in this file as they are.
func TestQuorumReference(t *testing.T) {
	source, err := os.ReadFile("reference_quorum_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for page, examples := range quorumPages {
		text, err := os.ReadFile(filepath.Join("../docs/reference", page))
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(text), "```go\n")[1:]
		if len(blocks) != len(examples) {
			t.Fatalf("%s has %d blocks of Go, %d examples belong to it", page, len(blocks), len(examples))
		}
		for i, b := range blocks {
			b, _, _ = strings.Cut(b, "```\n")
			if b = "\t" + strings.ReplaceAll(strings.TrimSuffix(b, "\n"), "\n", "\n\t") + "\n"; !strings.Contains(string(source), b) {
				t.Errorf("%s has an example that is not run:\n%s", page, b)
			}
			for _, profile := range []int{Profile3, Profile4} {
				if only := examples[i].only; only != 0 && only != profile {
					continue
				}
				t.Run(fmt.Sprint(page, "/", i+1, "/", profile), func(t *testing.T) {
					b := amqptest.Start(t, amqptest.Compat(profile))
					conn, ch := dial(t, b.URI())
					defer conn.Close()
					examples[i].run(t, b.Broker(), conn, ch)
				})
			}
		}
	}
}

func declareWith(ch *amqp.Channel, queue string, args amqp.Table) {
	_, err := ch.QueueDeclare(queue, true, false, false, false, args)
	succeed(err)
}

func sendPriority(ch *amqp.Channel, queue string, priority uint8, body string) {
	succeed(ch.PublishWithContext(context.Background(), "", queue, false, false, amqp.Publishing{Priority: priority, Body: []byte(body)}))
}

// next takes the next message, to be acknowledged, which must be this one.
func next(t *testing.T, ch *amqp.Channel, queue, body string) amqp.Delivery {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		d, ok, err := ch.Get(queue, false)
		succeed(err)
		if ok {
			equal(t, string(d.Body), body)
			return d
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not come", body)
		}
	}
}

func consume(ch *amqp.Channel, queue string, args amqp.Table) <-chan amqp.Delivery {
	deliveries, err := ch.Consume(queue, "", false, false, false, false, args)
	succeed(err)
	return deliveries
}

// taken publishes a message and says whether it was confirmed.
func taken(ch *amqp.Channel, queue string) bool {
	c, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{})
	succeed(err)
	ok, err := c.WaitContext(context.Background())
	succeed(err)
	return ok
}

// settled returns when the broker has done what the channel has asked for.
func settled(ch *amqp.Channel) { succeed(ch.Qos(0, 0, false)) }

func nothing(t *testing.T, ch *amqp.Channel, queue string) {
	t.Helper()
	if _, ok, err := ch.Get(queue, true); ok || err != nil {
		t.Errorf("%s has something: %v, %v", queue, ok, err)
	}
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// byProfile is what is to be expected of a broker.
func byProfile[T any](b *broker.Broker, three, four T) T {
	if b.Profile == compat.V3 {
		return three
	}
	return four
}

func exampleReturns(t *testing.T, _ *broker.Broker, _ *amqp.Connection, ch *amqp.Channel) {
	declareWith(ch, "jobs", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 10})
	send(ch, "jobs", "one", "two")
	succeed(next(t, ch, "jobs", "one").Reject(true))
	again := next(t, ch, "jobs", "one")
	equal(t, again.Headers["x-delivery-count"], int64(1))
	succeed(again.Ack(false))
}

func exampleDeliveryLimit(t *testing.T, _ *broker.Broker, _ *amqp.Connection, ch *amqp.Channel) {
	declareWith(ch, "dead", amqp.Table{})
	declareWith(ch, "jobs", amqp.Table{
		"x-queue-type": "quorum", "x-delivery-limit": 1,
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead",
	})
	send(ch, "jobs", "poison")
	succeed(next(t, ch, "jobs", "poison").Reject(true))
	succeed(next(t, ch, "jobs", "poison").Reject(true))
	receive(t, ch, "dead", "poison")
}

func exampleQuorumPriorities(t *testing.T, b *broker.Broker, _ *amqp.Connection, ch *amqp.Channel) {
	declareWith(ch, "jobs", amqp.Table{"x-queue-type": "quorum"})
	sendPriority(ch, "jobs", 1, "low")
	sendPriority(ch, "jobs", 9, "high")
	receive(t, ch, "jobs", byProfile(b, []string{"low", "high"}, []string{"high", "low"})...)
}

func exampleQuorumOverflow(t *testing.T, _ *broker.Broker, _ *amqp.Connection, ch *amqp.Channel) {
	declareWith(ch, "jobs", amqp.Table{"x-queue-type": "quorum", "x-max-length": 2, "x-overflow": "reject-publish"})
	succeed(ch.Confirm(false))
	equal(t, []bool{taken(ch, "jobs"), taken(ch, "jobs"), taken(ch, "jobs"), taken(ch, "jobs")}, []bool{true, true, true, false})
}

func exampleQuorumSingle(_ *testing.T, b *broker.Broker, _ *amqp.Connection, ch *amqp.Channel) {
	declareWith(ch, "jobs", amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": true})
	first := consume(ch, "jobs", amqp.Table{"x-priority": 1})
	second := consume(ch, "jobs", amqp.Table{"x-priority": 5})
	send(ch, "jobs", "one")
	succeed((<-byProfile(b, first, second)).Ack(false))
}

func exampleAtLeastOnce(t *testing.T, b *broker.Broker, _ *amqp.Connection, ch *amqp.Channel) {
	declareWith(ch, "jobs", amqp.Table{
		"x-queue-type": "quorum", "x-overflow": "reject-publish", "x-max-length": 100,
		"x-dead-letter-exchange": "graves", "x-dead-letter-strategy": "at-least-once",
	})
	send(ch, "jobs", "one")
	succeed(next(t, ch, "jobs", "one").Reject(false))
	settled(ch)
	exchange(ch, "graves", "fanout")
	declareWith(ch, "dead", amqp.Table{})
	bind(ch, "dead", "graves")
	b.Clock.Advance(11 * time.Second)
	receive(t, ch, "dead", "one")
}

func exampleDelayedRetry(t *testing.T, b *broker.Broker, _ *amqp.Connection, ch *amqp.Channel) {
	declareWith(ch, "jobs", amqp.Table{
		"x-queue-type": "quorum", "x-delayed-retry-type": "failed", "x-delayed-retry-min": 60_000, "x-delayed-retry-max": 600_000,
	})
	send(ch, "jobs", "one")
	succeed(next(t, ch, "jobs", "one").Reject(true))
	settled(ch)
	nothing(t, ch, "jobs")
	b.Clock.Advance(61 * time.Second)
	receive(t, ch, "jobs", "one")
}

func exampleQuorumExpires(t *testing.T, b *broker.Broker, _ *amqp.Connection, ch *amqp.Channel) {
	declareWith(ch, "jobs", amqp.Table{"x-queue-type": "quorum", "x-expires": 600})
	b.Clock.Advance(6 * time.Second)
	gone(t, ch, "jobs")
}

func exampleConsumerTimeout(t *testing.T, b *broker.Broker, conn *amqp.Connection, ch *amqp.Channel) {
	declareWith(ch, "jobs", amqp.Table{"x-queue-type": "quorum", "x-consumer-timeout": 600_000})
	cancelled := ch.NotifyCancel(make(chan string, 1))
	deliveries := consume(ch, "jobs", amqp.Table{"x-consumer-timeout": 60_000})
	send(ch, "jobs", "one")
	<-deliveries
	b.Clock.Advance(61 * time.Second)
	<-cancelled
	other, err := conn.Channel()
	succeed(err)
	equal(t, next(t, other, "jobs", "one").Redelivered, true)
}
