package amqptest_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/amqp/amqptest"
)

// exchangeExamples are the examples of docs/reference/exchanges.md, in its order. Each returns the queues to look at
// and what must be in all of them together.
var exchangeExamples = []func(ch *amqp.Channel) (queues, bodies []string){
	exampleConsistentHash, exampleHashHeader, exampleHashProperty, exampleModulusHash, exampleRandom, exampleRecentHistory, exampleDelayed,
}

// TestExchangeExamples runs the examples of the page in both profiles. Its blocks of Go must stand in this file as they
// are, so that what runs is what the page says.
func TestExchangeExamples(t *testing.T) {
	source, err := os.ReadFile("reference_exchanges_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/reference/exchanges.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) != len(exchangeExamples) {
		t.Errorf("the page has %d blocks of Go, %d examples belong to it", len(blocks), len(exchangeExamples))
	}
	for _, b := range blocks {
		b, _, _ = strings.Cut(b, "```\n")
		lines := "\t" + strings.ReplaceAll(strings.TrimSuffix(b, "\n"), "\n", "\n\t")
		if !strings.Contains(string(source), strings.ReplaceAll(lines, "\n\t\n", "\n\n")) {
			t.Errorf("an example that is not run:\n%s", b)
		}
	}
	for i, example := range exchangeExamples {
		for _, profile := range []int{3, 4} {
			t.Run(fmt.Sprintf("%d/profile%d", i, profile), func(t *testing.T) {
				ch := openChannel(t, amqptest.Start(t, amqptest.Compat(profile)))
				queues, want := example(ch)
				if got := takeAll(t, ch, queues, len(want)); !slices.Equal(got, want) {
					t.Errorf("the queues %v hold %q, want %q", queues, got, want)
				}
			})
		}
	}
}

// takeAll waits for n messages in some queues; of messages that share a queue it keeps the order.
func takeAll(t *testing.T, ch *amqp.Channel, queues []string, n int) (bodies []string) {
	for end := time.Now().Add(20 * time.Second); len(bodies) < n && time.Now().Before(end); {
		for _, q := range queues {
			d, ok, err := ch.Get(q, true)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				bodies = append(bodies, string(d.Body))
			}
		}
	}
	for _, q := range queues {
		if _, more, err := ch.Get(q, true); more || err != nil {
			t.Errorf("queue %s holds more: %v, %v", q, more, err)
		}
	}
	return bodies
}

// check ends an example that went wrong.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

func queue(ch *amqp.Channel, name string) {
	_, err := ch.QueueDeclare(name, false, false, false, false, nil)
	check(err)
}

func publish(ch *amqp.Channel, exchange, key, body string, headers amqp.Table) {
	check(ch.PublishWithContext(context.Background(), exchange, key, false, false, amqp.Publishing{Body: []byte(body), Headers: headers}))
}

func exampleConsistentHash(ch *amqp.Channel) (queues, bodies []string) {
	check(ch.ExchangeDeclare("orders", "x-consistent-hash", true, false, false, false, nil))
	queue(ch, "worker-1")
	queue(ch, "worker-2")
	check(ch.QueueBind("worker-1", "1", "orders", false, nil))
	check(ch.QueueBind("worker-2", "3", "orders", false, nil)) // three times as much

	publish(ch, "orders", "customer-17", "first", nil)
	publish(ch, "orders", "customer-17", "second", nil) // behind "first" in the same queue
	return []string{"worker-1", "worker-2"}, []string{"first", "second"}
}

func exampleHashHeader(ch *amqp.Channel) (queues, bodies []string) {
	check(ch.ExchangeDeclare("by-customer", "x-consistent-hash", true, false, false, false, amqp.Table{
		"hash-header": "customer",
	}))
	queue(ch, "worker-1")
	queue(ch, "worker-2")
	check(ch.QueueBind("worker-1", "1", "by-customer", false, nil))
	check(ch.QueueBind("worker-2", "1", "by-customer", false, nil))

	publish(ch, "by-customer", "order.new", "first", amqp.Table{"customer": 17})
	publish(ch, "by-customer", "order.paid", "second", amqp.Table{"customer": 17}) // the same queue
	return []string{"worker-1", "worker-2"}, []string{"first", "second"}
}

func exampleHashProperty(ch *amqp.Channel) (queues, bodies []string) {
	check(ch.ExchangeDeclare("by-id", "x-consistent-hash", true, false, false, false, amqp.Table{
		"hash-property": "message_id",
	}))
	queue(ch, "worker")
	check(ch.QueueBind("worker", "1", "by-id", false, nil))
	publish(ch, "by-id", "", "one", nil)
	return []string{"worker"}, []string{"one"}
}

func exampleModulusHash(ch *amqp.Channel) (queues, bodies []string) {
	check(ch.ExchangeDeclare("shards", "x-modulus-hash", true, false, false, false, nil))
	queue(ch, "shard-1")
	queue(ch, "shard-2")
	check(ch.QueueBind("shard-1", "", "shards", false, nil))
	check(ch.QueueBind("shard-2", "", "shards", false, nil))

	publish(ch, "shards", "customer-17", "first", nil)
	publish(ch, "shards", "customer-17", "second", nil) // the same queue
	return []string{"shard-1", "shard-2"}, []string{"first", "second"}
}

func exampleRandom(ch *amqp.Channel) (queues, bodies []string) {
	check(ch.ExchangeDeclare("anyone", "x-random", true, false, false, false, nil))
	queue(ch, "worker-1")
	queue(ch, "worker-2")
	check(ch.QueueBind("worker-1", "", "anyone", false, nil))
	check(ch.QueueBind("worker-2", "", "anyone", false, nil))

	publish(ch, "anyone", "", "work", nil) // one of the two gets it
	return []string{"worker-1", "worker-2"}, []string{"work"}
}

func exampleRecentHistory(ch *amqp.Channel) (queues, bodies []string) {
	check(ch.ExchangeDeclare("news", "x-recent-history", true, false, false, false, amqp.Table{
		"x-recent-history-length": 2,
	}))
	publish(ch, "news", "", "monday", nil)
	publish(ch, "news", "", "tuesday", nil)
	publish(ch, "news", "", "a secret", amqp.Table{"x-recent-history-no-store": true})
	publish(ch, "news", "", "wednesday", nil)

	queue(ch, "reader")
	check(ch.QueueBind("reader", "", "news", false, nil)) // "tuesday" and "wednesday" are there
	return []string{"reader"}, []string{"tuesday", "wednesday"}
}

func exampleDelayed(ch *amqp.Channel) (queues, bodies []string) {
	check(ch.ExchangeDeclare("later", "x-delayed-message", true, false, false, false, amqp.Table{
		"x-delayed-type": "direct",
	}))
	queue(ch, "work")
	check(ch.QueueBind("work", "job", "later", false, nil))

	publish(ch, "later", "job", "in a moment", amqp.Table{"x-delay": 200})
	publish(ch, "later", "job", "now", nil)
	return []string{"work"}, []string{"now", "in a moment"}
}
