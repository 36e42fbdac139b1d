package amqptest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/warrenmq/warren/amqp/amqptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// roundTrip declares a durable queue, publishes a persistent message with a
// confirm and gets a message back.
func roundTrip(t *testing.T, uri string, publish bool) string {
	t.Helper()
	conn, err := amqp091.Dial(uri)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if publish {
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		c, err := ch.PublishWithDeferredConfirm("", "q", true, false, amqp091.Publishing{Body: []byte("hello"), DeliveryMode: 2})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := c.WaitContext(context.Background()); err != nil || !ok {
			t.Fatalf("confirm: %v, %v", ok, err)
		}
	}
	d, ok, err := ch.Get("q", false)
	if err != nil || !ok {
		t.Fatalf("get: %v, %v", ok, err)
	}
	return string(d.Body)
}

func TestMemory(t *testing.T) {
	for _, profile := range []int{3, 4} {
		b := amqptest.Start(t, amqptest.Compat(profile), amqptest.VHost("test/host"), amqptest.Login("me", "se:cr/et"))
		if got := roundTrip(t, b.URI(), true); got != "hello" {
			t.Errorf("body %q", got)
		}
	}
}

// TestRestart: a confirmed persistent message outlives the broker.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	b, err := amqptest.Run(amqptest.DataDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	if got := roundTrip(t, b.URI(), true); got != "hello" {
		t.Errorf("body %q", got)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b = amqptest.Start(t, amqptest.DataDir(dir))
	if got := roundTrip(t, b.URI(), false); got != "hello" {
		t.Errorf("body after restart %q", got)
	}
}

func TestUnknownProfile(t *testing.T) {
	if _, err := amqptest.Run(amqptest.Compat(5)); err == nil {
		t.Error("no error for profile 5")
	}
}

// TestDirectReply: a request over amq.rabbitmq.reply-to is answered.
func TestDirectReply(t *testing.T) {
	b := amqptest.Start(t)
	conn, err := amqp091.Dial(b.URI())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := ch.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	requests, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Publish("", requests.Name, true, false, amqp091.Publishing{ReplyTo: "amq.rabbitmq.reply-to", CorrelationId: "1"}); err != nil {
		t.Fatal(err)
	}
	request, ok, err := ch.Get(requests.Name, true)
	if err != nil || !ok || !strings.HasPrefix(request.ReplyTo, "amq.rabbitmq.reply-to.") || request.CorrelationId != "1" {
		t.Fatalf("request %+v, %v, %v", request, ok, err)
	}
	if err := ch.Publish("", request.ReplyTo, true, false, amqp091.Publishing{Body: []byte("answer")}); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; string(a.Body) != "answer" || a.RoutingKey != request.ReplyTo {
		t.Errorf("answer %+v", a)
	}
}

// TestExpiryOverRestart: a message that expired while the broker was down is
// dead-lettered when it is up again, and one that did not expire is there.
func TestExpiryOverRestart(t *testing.T) {
	dir := t.TempDir()
	b, err := amqptest.Run(amqptest.DataDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	ch := openChannel(t, b)
	declare := func(name string, args amqp091.Table) {
		if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	declare("dead", nil)
	declare("q", amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-max-length": 10})
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, expiration := range []string{"1000", "3600000"} {
		c, err := ch.PublishWithDeferredConfirm("", "q", false, false, amqp091.Publishing{DeliveryMode: 2, Expiration: expiration, Body: []byte(expiration)})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := c.WaitContext(t.Context()); err != nil || !ok {
			t.Fatalf("confirm: %v, %v", ok, err)
		}
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b = amqptest.Start(t, amqptest.DataDir(dir))
	b.Clock().Advance(2 * time.Second) // message time went on while it was down
	ch = openChannel(t, b)
	dead, err := ch.Consume("dead", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := <-dead; string(d.Body) != "1000" || d.Headers["x-first-death-reason"] != "expired" {
		t.Errorf("dead letter %q, headers %v", d.Body, d.Headers)
	}
	if d, ok, err := ch.Get("q", true); err != nil || !ok || string(d.Body) != "3600000" {
		t.Errorf("kept %q, %v, %v", d.Body, ok, err)
	}
}

func openChannel(t *testing.T, b *amqptest.Broker) *amqp091.Channel {
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
	return ch
}
