package conformance

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/amqp/amqptest"
)

// TestStreamReference runs the examples of docs/reference/streams.md, whose blocks of Go must stand in this file as they
// are.
func TestStreamReference(t *testing.T) {
	source, err := os.ReadFile("reference_streams_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/reference/streams.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := []func(*testing.T, administered, *amqp.Channel){exampleStreamOffsets, exampleStreamBytes, exampleStreamAge, exampleStreamFilters}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) != len(examples) {
		t.Fatalf("the page has %d blocks of Go, %d examples belong to it", len(blocks), len(examples))
	}
	for i, b := range blocks {
		b, _, _ = strings.Cut(b, "```\n")
		if b = strings.TrimSuffix("\t"+strings.ReplaceAll(b, "\n", "\n\t"), "\t"); !strings.Contains(string(source), b) {
			t.Errorf("an example is not run:\n%s", b)
		}
		started := amqptest.Start(t)
		conn, ch := dial(t, started.URI())
		succeed(ch.Qos(100, 0, false))
		succeed(ch.Confirm(false))
		examples[i](t, administered{started.Broker(), t, started.URI()}, ch)
		conn.Close()
	}
}

// stream declares a stream.
func stream(ch *amqp.Channel, name string, arguments ...amqp.Table) {
	all := amqp.Table{"x-queue-type": "stream"}
	for _, a := range arguments {
		for k, v := range a {
			all[k] = v
		}
	}
	_, err := ch.QueueDeclare(name, true, false, false, false, all)
	succeed(err)
}

// appendTo publishes to a stream and waits for each confirm, so that each message has a chunk of its own.
func appendTo(ch *amqp.Channel, name string, bodies ...string) {
	for _, b := range bodies {
		appendMessage(ch, name, amqp.Publishing{Body: []byte(b)})
	}
}

func appendFiltered(ch *amqp.Channel, name, value, body string) {
	appendMessage(ch, name, amqp.Publishing{Headers: amqp.Table{"x-stream-filter-value": value}, Body: []byte(body)})
}

func appendMessage(ch *amqp.Channel, name string, m amqp.Publishing) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", name, false, false, m)
	succeed(err)
	_, err = confirm.WaitContext(ctx)
	succeed(err)
}

// reads consumes from a stream, which must deliver these bodies and nothing more before what is published next.
func reads(t *testing.T, ch *amqp.Channel, name string, arguments amqp.Table, bodies ...string) {
	t.Helper()
	deliveries, err := ch.Consume(name, "reader", false, false, false, false, arguments)
	succeed(err)
	for _, want := range bodies {
		select {
		case d := <-deliveries:
			if string(d.Body) != want {
				t.Fatalf("%s delivers %q, want %q", name, d.Body, want)
			}
			succeed(d.Ack(false))
		case <-time.After(patience):
			t.Fatalf("%s does not deliver %q", name, want)
		}
	}
	succeed(ch.Cancel("reader", false))
	for d := range deliveries {
		t.Fatalf("%s delivers %q too", name, d.Body)
	}
}

// numbered makes n bodies of a size.
func numbered(n, size int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, fmt.Sprintf("%0*d", size, i))
	}
	return bodies
}

// atMost demands that some messages are there, and no more than so many.
func atMost(t *testing.T, ch *amqp.Channel, name string, n int) {
	t.Helper()
	q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	succeed(err)
	if q.Messages == 0 || q.Messages > n {
		t.Fatalf("%s has %d messages, want at most %d", name, q.Messages, n)
	}
}

func exampleStreamOffsets(t *testing.T, _ administered, ch *amqp.Channel) {
	stream(ch, "log")
	appendTo(ch, "log", "a", "b", "c")
	reads(t, ch, "log", amqp.Table{"x-stream-offset": "first"}, "a", "b", "c")
	reads(t, ch, "log", amqp.Table{"x-stream-offset": "last"}, "c")
	reads(t, ch, "log", amqp.Table{"x-stream-offset": int64(1)}, "b", "c")
	reads(t, ch, "log", amqp.Table{"x-stream-offset": "1h"}, "a", "b", "c")
	reads(t, ch, "log", amqp.Table{"x-stream-offset": time.Now().Add(-time.Hour)}, "a", "b", "c")
}

func exampleStreamBytes(t *testing.T, _ administered, ch *amqp.Channel) {
	stream(ch, "short", amqp.Table{"x-stream-max-segment-size-bytes": 1000, "x-max-length-bytes": 3000})
	appendTo(ch, "short", numbered(30, 200)...)
	atMost(t, ch, "short", 20)
}

func exampleStreamAge(t *testing.T, b administered, ch *amqp.Channel) {
	stream(ch, "young", amqp.Table{"x-stream-max-segment-size-bytes": 1000, "x-max-age": "1D"})
	appendTo(ch, "young", numbered(20, 200)...)
	b.Clock.Advance(25 * time.Hour)
	atMost(t, ch, "young", 5)
}

func exampleStreamFilters(t *testing.T, _ administered, ch *amqp.Channel) {
	stream(ch, "orders", amqp.Table{"x-stream-filter-size-bytes": 32})
	appendFiltered(ch, "orders", "de", "Berlin")
	appendFiltered(ch, "orders", "fr", "Paris")
	appendTo(ch, "orders", "nowhere")
	reads(t, ch, "orders", amqp.Table{"x-stream-offset": "first", "x-stream-filter": "fr"}, "Paris")
	reads(t, ch, "orders", amqp.Table{"x-stream-offset": "first", "x-stream-filter": []any{"de", "fr"}}, "Berlin", "Paris")
	reads(t, ch, "orders", amqp.Table{"x-stream-offset": "first", "x-stream-filter": "de", "x-stream-match-unfiltered": true}, "Berlin", "nowhere")
}
