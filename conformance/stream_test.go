package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp/amqptest"
	"github.com/warrenmq/warren/amqp/broker"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// TestStreamsInMemory runs the chapter on streams on a Warren that has no
// store.
func TestStreamsInMemory(t *testing.T) {
	for _, profile := range []int{Profile3, Profile4} {
		b := amqptest.Start(t, amqptest.Compat(profile))
		target, err := ParseTarget(b.URI())
		if err != nil {
			t.Fatal(err)
		}
		target.Profile, target.Warren = profile, true
		for _, c := range streamCases() {
			if !c.In(profile) {
				continue
			}
			for _, f := range Run(target, c).Failures {
				t.Errorf("profile %d, %s: %s\n%s", profile, c.ID, c.Title, f)
			}
		}
	}
}

// streamClient is a client of one stream, through a library that knows nothing
// of streams.
type streamClient struct {
	t  *testing.T
	ch *amqp091.Channel
}

func dialStream(t *testing.T, b *amqptest.Broker) *streamClient {
	t.Helper()
	conn, err := amqp091.Dial(b.URI())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	c := &streamClient{t, ch}
	c.must(ch.Qos(100, 0, false))
	c.must(ch.Confirm(false))
	return c
}

func (c *streamClient) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *streamClient) declare() amqp091.Queue {
	c.t.Helper()
	q, err := c.ch.QueueDeclare("s", true, false, false, false, amqp091.Table{"x-queue-type": "stream"})
	c.must(err)
	return q
}

// publish waits for the confirm.
func (c *streamClient) publish(body string) {
	c.t.Helper()
	confirm, err := c.ch.PublishWithDeferredConfirm("amq.fanout", "", false, false, amqp091.Publishing{Body: []byte(body)})
	c.must(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
		c.t.Fatalf("publish: acked %v, error %v", acked, err)
	}
}

// read reads n bodies from an offset, acknowledging each.
func (c *streamClient) read(from any, n int) string {
	c.t.Helper()
	deliveries, err := c.ch.Consume("s", "reader", false, false, false, false, amqp091.Table{"x-stream-offset": from})
	c.must(err)
	var got []string
	for len(got) < n {
		select {
		case d := <-deliveries:
			got = append(got, fmt.Sprint(d.Headers["x-stream-offset"], ":", string(d.Body)))
			c.must(d.Ack(false))
		case <-time.After(patience):
			c.t.Fatalf("got %q", got)
		}
	}
	c.must(c.ch.Cancel("reader", false))
	return strings.Join(got, " ")
}

// TestStreamOverRestarts: a stream, its bindings and its messages, transient
// ones too, outlive the broker, and offsets go on; one that was deleted does
// not come back.
func TestStreamOverRestarts(t *testing.T) {
	dir := t.TempDir()
	run := func(do func(c *streamClient)) {
		b, err := amqptest.Run(amqptest.DataDir(dir))
		if err != nil {
			t.Fatal(err)
		}
		do(dialStream(t, b))
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	run(func(c *streamClient) {
		c.declare()
		c.must(c.ch.QueueBind("s", "", "amq.fanout", false, nil))
		c.publish("a")
		c.publish("b")
	})
	run(func(c *streamClient) {
		if q := c.declare(); q.Messages != 2 {
			t.Errorf("%d messages after a restart, want 2", q.Messages)
		}
		c.publish("c")
		if got := c.read(int64(1), 2); got != "1:b 2:c" {
			t.Errorf("read %q", got)
		}
		if n, err := c.ch.QueueDelete("s", false, false, false); n != 0 || err != nil {
			t.Errorf("delete: %d, %v", n, err)
		}
	})
	run(func(c *streamClient) {
		if q := c.declare(); q.Messages != 0 {
			t.Errorf("a deleted stream is back with %d messages", q.Messages)
		}
		c.must(c.ch.QueueBind("s", "", "amq.fanout", false, nil))
		c.publish("d")
		if got := c.read("first", 1); got != "0:d" {
			t.Errorf("read %q", got)
		}
	})
}

// TestStreamPolicies: a policy's limits hold for a stream that is there, at
// once, and end with the policy; arguments bow to it.
func TestStreamPolicies(t *testing.T) {
	b := amqptest.Start(t, amqptest.DataDir(t.TempDir()))
	c := dialStream(t, b)
	_, err := c.ch.QueueDeclare("s", true, false, false, false, amqp091.Table{"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 500})
	c.must(err)
	c.must(c.ch.QueueBind("s", "", "amq.fanout", false, nil))
	count := func() int {
		q, err := c.ch.QueueDeclarePassive("s", true, false, false, false, nil)
		c.must(err)
		return q.Messages
	}
	fill := func() {
		for range 40 {
			c.publish(strings.Repeat("x", 100))
		}
	}
	fill()
	if n := count(); n != 40 {
		t.Fatalf("%d messages without a limit, want 40", n)
	}
	a := administered{b.Broker(), t, b.URI()}
	a.Put("p", "s", map[string]any{"max-length-bytes": 1500})
	if n := count(); n < 5 || n > 15 {
		t.Errorf("%d messages with the policy", n)
	}
	if _, _, err := a.DeletePolicy("/", broker.UserPolicy, "p", nil); err != nil {
		t.Fatal(err)
	}
	before := count()
	fill()
	if n := count(); n != before+40 {
		t.Errorf("%d messages after the policy has gone, want %d", n, before+40)
	}
}
