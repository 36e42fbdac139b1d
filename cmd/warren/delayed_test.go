package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// TestKillWhileMessagesWait kills the broker while confirmed messages wait in a
// delayed exchange, fall due and fire, again and again: in the end every one
// has come once, those of the last start in the order of their times.
func TestKillWhileMessagesWait(t *testing.T) {
	t.Parallel()
	const messages, kills = 300, 4
	dir := t.TempDir()
	c := start(t, "--data-dir", dir)
	ch := channel(t, c.dial())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(ch.ExchangeDeclare("x", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "fanout"}))
	_, err := ch.QueueDeclare("q", true, false, false, false, nil)
	must(err)
	must(ch.QueueBind("q", "", "x", false, nil))
	must(ch.Confirm(false))
	var confirms []*amqp091.DeferredConfirmation
	for i := range messages {
		confirm, err := ch.PublishWithDeferredConfirm("x", "", false, false, amqp091.Publishing{
			DeliveryMode: 2, Body: fmt.Appendf(nil, "%03d", i), Headers: amqp091.Table{"x-delay": int32(500 + 5*i)},
		})
		must(err)
		confirms = append(confirms, confirm)
	}
	for _, confirm := range confirms {
		if ok, err := confirm.WaitContext(context.Background()); err != nil || !ok {
			t.Fatalf("confirm: %v, %v", ok, err)
		}
	}
	for range kills {
		time.Sleep(300 * time.Millisecond)
		c.cmd.Process.Kill()
		c.cmd.Wait()
		c = start(t, "--data-dir", dir)
	}
	var got []string
	deliveries, err := channel(t, c.dial()).Consume("q", "", true, false, false, false, nil)
	must(err)
	for timeout := time.After(30 * time.Second); len(got) < messages; {
		select {
		case d := <-deliveries:
			if delay, ok := d.Headers["x-delay"].(int64); !ok || delay >= 0 {
				t.Errorf("message %s has x-delay %v", d.Body, d.Headers["x-delay"])
			}
			got = append(got, string(d.Body))
		case <-timeout:
			t.Fatalf("%d of %d messages came: %v", len(got), messages, got)
		}
	}
	if !slices.IsSorted(got) || len(slices.Compact(got)) != messages {
		t.Errorf("messages came twice or out of order: %v", got)
	}
}
