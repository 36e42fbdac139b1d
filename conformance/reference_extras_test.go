package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/amqp/amqptest"
)

// referencePages are the pages of docs/reference whose examples are the functions below, with the function of each
// block of Go in turn.
var referencePages = map[string][]func(*testing.T, *amqp.Connection, *amqp.Channel){
	"active-consumers.md":      {exampleActiveConsumers},
	"overflow.md":              {exampleDropLowestPriority, exampleBlockPublishers},
	"flow-threshold.md":        {exampleFlowThreshold},
	"channel-priority.md":      {exampleChannelPriority},
	"priority-aging.md":        {examplePriorityAging},
	"durable-subscriptions.md": {exampleDurableSubscription},
	"transactions.md":          {exampleTransaction},
	"selectors.md":             {exampleSelectorOnBinding, exampleSelectorOnConsumer},
	"queue-arguments.md": {
		exampleDeadLetter, exampleQueueExpiry, exampleDropHead, exampleRejectPublish, examplePriorities, exampleConsumerPriority,
		exampleSingleActive,
	},
}

// TestReferenceExamples runs the examples of the reference in both profiles. A page's blocks of Go must stand in
// these files as they are, so that what runs is what the page says.
func TestReferenceExamples(t *testing.T) {
	var source []byte
	for _, name := range []string{"reference_extras_test.go", "reference_selectors_test.go", "reference_arguments_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	for page, examples := range referencePages {
		text, err := os.ReadFile(filepath.Join("../docs/reference", page))
		if err != nil {
			t.Fatal(err)
		}
		blocks := goBlocks(string(text))
		if len(blocks) != len(examples) {
			t.Errorf("%s has %d blocks of Go, %d examples belong to it", page, len(blocks), len(examples))
		}
		for _, b := range blocks {
			if !strings.Contains(string(source), indented(b)) {
				t.Errorf("%s has an example that is not run:\n%s", page, b)
			}
		}
		for i, example := range examples {
			for _, profile := range []int{Profile3, Profile4} {
				t.Run(fmt.Sprintf("%s/%d/profile%d", page, i, profile), func(t *testing.T) {
					conn, err := amqp.Dial(amqptest.Start(t, amqptest.Compat(profile)).URI())
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
					ch, err := conn.Channel()
					if err != nil {
						t.Fatal(err)
					}
					example(t, conn, ch)
				})
			}
		}
	}
}

// goBlocks are the blocks of Go of a page.
func goBlocks(page string) (blocks []string) {
	for {
		_, rest, found := strings.Cut(page, "```go\n")
		if !found {
			return blocks
		}
		block, rest, _ := strings.Cut(rest, "```\n")
		blocks, page = append(blocks, block), rest
	}
}

// indented is a block as the body of a function.
func indented(block string) string {
	var b strings.Builder
	for line := range strings.Lines(block) {
		if line != "\n" {
			b.WriteByte('\t')
		}
		b.WriteString(line)
	}
	return b.String()
}

// check ends an example that went wrong.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// publish publishes a body to a queue; the answer of passive declares tells that it is there.
func publish(ch *amqp.Channel, queue, body string, priority uint8) {
	check(ch.PublishWithContext(context.Background(), "", queue, false, false, amqp.Publishing{Body: []byte(body), Priority: priority}))
}

// take reads so many deliveries and gives their bodies.
func take(t *testing.T, deliveries <-chan amqp.Delivery, n int) (bodies []string, last amqp.Delivery) {
	t.Helper()
	for range n {
		select {
		case d := <-deliveries:
			bodies, last = append(bodies, string(d.Body)), d
		case <-time.After(patience):
			t.Fatalf("after %v nothing comes", bodies)
		}
	}
	return bodies, last
}

// want compares the bodies of an example.
func want(t *testing.T, got []string, bodies ...string) {
	t.Helper()
	if !slices.Equal(got, bodies) {
		t.Fatalf("got %v, want %v", got, bodies)
	}
}

// drained gets all of a queue.
func drained(ch *amqp.Channel, queue string) (bodies []string) {
	for {
		d, ok, err := ch.Get(queue, true)
		check(err)
		if !ok {
			return bodies
		}
		bodies = append(bodies, string(d.Body))
	}
}

// wantRefusal demands a channel error.
func wantRefusal(t *testing.T, err error, code int) {
	t.Helper()
	var e *amqp.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("%v, want %d", err, code)
	}
}

func exampleActiveConsumers(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	_, err := ch.QueueDeclare("jobs", false, false, false, false, amqp.Table{
		"x-max-active-consumers": 2,
		"x-max-backup-consumers": 1,
	})
	check(err)
	first, err := ch.Consume("jobs", "first", true, false, false, false, nil)
	check(err)
	second, err := ch.Consume("jobs", "second", true, false, false, false, nil)
	check(err)
	backup, err := ch.Consume("jobs", "backup", true, false, false, false, nil)
	check(err)

	check(ch.Cancel("first", false)) // "backup" receives from now on

	publish(ch, "jobs", "1", 0)
	publish(ch, "jobs", "2", 0)
	one, _ := take(t, second, 1)
	two, _ := take(t, backup, 1)
	want(t, append(one, two...), "1", "2")
	if d, ok := <-first; ok {
		t.Errorf("the cancelled one got %s", d.Body)
	}
	_, err = ch.Consume("jobs", "third", true, false, false, false, nil)
	check(err)
	_, err = ch.Consume("jobs", "fourth", true, false, false, false, nil)
	wantRefusal(t, err, amqp.AccessRefused)
}

func exampleDropLowestPriority(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	_, err := ch.QueueDeclare("alerts", false, false, false, false, amqp.Table{
		"x-max-priority": 5,
		"x-max-length":   2,
		"x-overflow":     "drop-lowest-priority",
	})
	check(err)
	publish(ch, "alerts", "urgent", 5)
	publish(ch, "alerts", "minor", 1)
	publish(ch, "alerts", "normal", 3) // "minor" goes

	want(t, drained(ch, "alerts"), "urgent", "normal")
}

func exampleBlockPublishers(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	blockings := conn.NotifyBlocked(make(chan amqp.Blocking, 2))
	_, err := ch.QueueDeclare("work", false, false, false, false, amqp.Table{
		"x-max-length": 1,
		"x-overflow":   "block-publishers",
	})
	check(err)
	publish(ch, "work", "1", 0)
	publish(ch, "work", "2", 0) // waits until "1" has been taken

	blocked := <-blockings // {true "queue 'work' in vhost '/' is full"}

	if !blocked.Active || blocked.Reason != "queue 'work' in vhost '/' is full" {
		t.Errorf("%+v", blocked)
	}
	d, _, err := ch.Get("work", true)
	check(err)
	if string(d.Body) != "1" {
		t.Errorf("got %s", d.Body)
	}
	if b := <-blockings; b.Active {
		t.Errorf("%+v", b)
	}
	want(t, drained(ch, "work"), "2")
}

func exampleFlowThreshold(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	_, err := ch.QueueDeclare("bulk", false, false, false, false, nil)
	check(err)
	for i := range 12 {
		publish(ch, "bulk", fmt.Sprint(i), 0)
	}
	check(ch.Qos(10, 0, false))
	batches, err := ch.Consume("bulk", "", false, false, false, false, amqp.Table{
		"x-flow-threshold": 20, // after 10 deliveries: nothing until at most 2 are unacknowledged
	})
	check(err)

	_, tenth := take(t, batches, 10)
	check(ch.Ack(7, true)) // 3 are left
	check(ch.Flow(true))
	if len(batches) != 0 {
		t.Errorf("%d deliveries above the threshold", len(batches))
	}
	check(tenth.Ack(true))
	rest, _ := take(t, batches, 2)
	want(t, rest, "10", "11")
}

func exampleChannelPriority(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	for _, queue := range []string{"express", "standard"} {
		_, err := ch.QueueDeclare(queue, false, false, false, false, nil)
		check(err)
	}
	check(ch.Qos(1, 0, true)) // one job at a time, from whichever queue
	express, err := ch.Consume("express", "", false, false, false, false, amqp.Table{"x-channel-priority": 2})
	check(err)
	standard, err := ch.Consume("standard", "", false, false, false, false, amqp.Table{"x-channel-priority": 1})
	check(err)

	publish(ch, "standard", "s1", 0)
	publish(ch, "standard", "s2", 0)
	got, d := take(t, standard, 1)
	publish(ch, "express", "e1", 0)
	publish(ch, "express", "e2", 0)
	for _, queue := range []<-chan amqp.Delivery{express, express, standard} {
		check(d.Ack(false))
		var bodies []string
		bodies, d = take(t, queue, 1)
		got = append(got, bodies...)
	}
	want(t, got, "s1", "e1", "e2", "s2")
}

func examplePriorityAging(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	_, err := ch.QueueDeclare("tickets", false, false, false, false, amqp.Table{
		"x-max-priority":   3,
		"x-priority-aging": 100, // one level in 100 ms
	})
	check(err)
	publish(ch, "tickets", "low, but older", 1)
	time.Sleep(250 * time.Millisecond)
	publish(ch, "tickets", "high, but new", 3)

	want(t, drained(ch, "tickets"), "low, but older", "high, but new")
}

func exampleDurableSubscription(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	check(ch.ExchangeDeclare("news", "topic", true, false, false, false, nil))
	subscription, err := ch.QueueDeclare("news.reader-7", true, false, false, false, nil)
	check(err)
	check(ch.QueueBind(subscription.Name, "sport.#", "news", false, nil))
	articles, err := ch.Consume(subscription.Name, "reader-7", false, true, false, false, nil) // exclusive
	check(err)

	send := func(body string) {
		check(ch.PublishWithContext(context.Background(), "news", "sport.chess", false, false, amqp.Publishing{Body: []byte(body)}))
	}
	send("1")
	got, d := take(t, articles, 1)
	check(d.Ack(false))
	other, err := conn.Channel()
	check(err)
	_, err = other.Consume(subscription.Name, "intruder", false, true, false, false, nil)
	wantRefusal(t, err, amqp.AccessRefused)
	check(ch.Cancel("reader-7", false)) // away
	send("2")
	articles, err = ch.Consume(subscription.Name, "reader-7", false, true, false, false, nil)
	check(err)
	more, _ := take(t, articles, 1)
	want(t, append(got, more...), "1", "2")
}

func exampleTransaction(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	for _, queue := range []string{"orders", "invoices", "archive"} {
		_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
		check(err)
	}
	publish(ch, "orders", "order 1", 0)
	check(ch.Tx())
	order, _, err := ch.Get("orders", false)
	check(err)
	publish(ch, "invoices", "invoice of "+string(order.Body), 0)
	publish(ch, "archive", string(order.Body), 0)
	check(order.Ack(false))
	check(ch.TxCommit()) // both messages are there and the order is gone, or nothing has happened

	want(t, append(append(drained(ch, "orders"), drained(ch, "invoices")...), drained(ch, "archive")...), "invoice of order 1", "order 1")
}
