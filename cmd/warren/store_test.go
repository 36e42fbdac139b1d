package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// TestSyncPolicies: messages survive a kill under each of them, also when the
// environment names it.
func TestSyncPolicies(t *testing.T) {
	for _, policy := range []string{"always", "interval", "never"} {
		t.Run(policy, func(t *testing.T) {
			dir := t.TempDir()
			c := start(t, "--data-dir", dir, "--sync", policy)
			fill(t, channel(t, c.dial()), 100)
			c.cmd.Process.Kill()
			c.cmd.Wait()
			t.Setenv("WARREN_SYNC", policy)
			c = start(t, "--data-dir", dir)
			if bodies, _ := drained(t, channel(t, c.dial())); len(bodies) != 100 || bodies[99] != "99" {
				t.Errorf("%d messages: %v", len(bodies), bodies)
			}
		})
	}
	out, err := command("serve", "--memory", "--sync", "sometimes").CombinedOutput()
	if err == nil || !strings.Contains(string(out), `unknown sync policy "sometimes": give always, interval or never`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFailedWrite: a broker whose folder is taken away from under it ends, says
// why and where last of all, and confirms nothing from then on.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, "--data-dir", dir)
	ch := channel(t, c.dial())
	fill(t, ch, 1)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	// Until the store has to open its next file.
	body := bytes.Repeat([]byte("x"), 3000)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	nacked := false
	for ctx.Err() == nil {
		confirm, err := ch.PublishWithDeferredConfirm("", "q", true, false, amqp091.Publishing{DeliveryMode: 2, Body: body})
		if err != nil {
			break
		}
		ok, err := confirm.WaitContext(ctx)
		if err != nil {
			break
		}
		if nacked && ok {
			t.Error("a confirm after a message that could not be stored")
		}
		nacked = nacked || !ok
	}
	ended := make(chan error, 1)
	go func() { ended <- c.cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the broker ended as if all were well")
		}
	case <-ctx.Done():
		t.Fatalf("the broker goes on\n%s", c.output())
	}
	lines := strings.Split(strings.TrimSpace(c.output()), "\n")
	last := lines[len(lines)-1]
	if !strings.Contains(last, "store in "+dir) || !strings.Contains(last, "has failed") || !strings.Contains(last, "no such file or directory") {
		t.Errorf("last line: %s\n%s", last, c.output())
	}
}
