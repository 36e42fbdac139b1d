package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// TestQuorumOverKill: in a quorum queue transient messages and the counts of
// returns are there after SIGKILL.
func TestQuorumOverKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, "--data-dir", dir)
	ch := channel(t, c.dial())
	if _, err := ch.QueueDeclare("q", true, false, false, false, amqp091.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"0", "1", "2", "3"} {
		fillQuorum(t, ch, body)
	}
	for range 2 {
		take(t, ch, "0").Reject(true)
	}
	zero, one := take(t, ch, "0"), take(t, ch, "1")
	one.Nack(false, true)
	if err := zero.Ack(false); err != nil {
		t.Fatal(err)
	}
	fillQuorum(t, ch, "4") // whose confirm says that what came before it on this channel is safe
	c.cmd.Process.Kill()
	c.cmd.Wait()

	ch = channel(t, start(t, "--data-dir", dir).dial())
	for _, want := range []string{"1 1 <nil>", "2 <nil> <nil>", "3 <nil> <nil>", "4 <nil> <nil>"} {
		d := take(t, ch, want[:1])
		if got := fmt.Sprint(string(d.Body), " ", d.Headers["x-acquired-count"], " ", d.Headers["x-delivery-count"]); got != want || !d.Redelivered {
			t.Errorf("after SIGKILL: %s redelivered %v, want %s", got, d.Redelivered, want)
		}
	}
}

// TestQuorumLimitOverKill: what a message was failed with before SIGKILL
// counts to its delivery limit.
func TestQuorumLimitOverKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, "--data-dir", dir)
	ch := channel(t, c.dial())
	args := amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(3)}
	if _, err := ch.QueueDeclare("q", true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
	fillQuorum(t, ch, "a")
	for range 2 {
		take(t, ch, "a").Reject(true)
	}
	fillQuorum(t, ch, "b")
	c.cmd.Process.Kill()
	c.cmd.Wait()

	c = start(t, "--data-dir", dir)
	ch = channel(t, c.dial())
	for n := range int64(2) {
		d := take(t, ch, "a")
		if d.Headers["x-delivery-count"] != 2+n {
			t.Errorf("delivery count %v, want %d", d.Headers["x-delivery-count"], 2+n)
		}
		d.Reject(true)
	}
	take(t, ch, "b")
}

// fillQuorum publishes a confirmed transient message.
func fillQuorum(t *testing.T, ch *amqp091.Channel, body string) {
	t.Helper()
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirm, err := ch.PublishWithDeferredConfirm("", "q", true, false, amqp091.Publishing{DeliveryMode: 1, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := confirm.WaitContext(context.Background()); err != nil || !ok {
		t.Fatalf("confirm: %v, %v", ok, err)
	}
}

// take gets the message that is next, which must be this one.
func take(t *testing.T, ch *amqp091.Channel, body string) amqp091.Delivery {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		d, ok, err := ch.Get("q", false)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			if string(d.Body) != body {
				t.Fatalf("got %s, want %s", d.Body, body)
			}
			return d
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s does not come", body)
	return amqp091.Delivery{}
}
