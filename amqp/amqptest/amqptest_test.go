package amqptest_test

import (
	"context"
	"testing"

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
