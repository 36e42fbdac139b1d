package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// filler publishes persistent messages, some unconfirmed at any time, until it
// is told to stop.
type filler struct {
	t         *testing.T
	ch        *amqp091.Channel
	conn      *amqp091.Connection
	blocked   chan amqp091.Blocking
	confirmed atomic.Int64
	stop      atomic.Bool
	ended     chan struct{}
}

const (
	fillBody   = 16 << 10
	fillWindow = 50
)

// fill publishes to a queue of its own.
func (c *child) fill(queue string) *filler {
	c.t.Helper()
	conn := c.dial()
	ch, err := conn.Channel()
	if err != nil {
		c.t.Fatal(err)
	}
	f := &filler{t: c.t, ch: ch, conn: conn, blocked: conn.NotifyBlocked(make(chan amqp091.Blocking, 100)), ended: make(chan struct{})}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		c.t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		c.t.Fatal(err)
	}
	go f.run(queue)
	return f
}

func (f *filler) run(queue string) {
	defer close(f.ended)
	body := make([]byte, fillBody)
	var pending []*amqp091.DeferredConfirmation
	settle := func(keep int) bool {
		for len(pending) > keep {
			select {
			case <-pending[0].Done():
			case <-time.After(100 * time.Millisecond):
				if f.stop.Load() {
					return false
				}
				continue
			}
			if !pending[0].Acked() {
				return false // the connection has gone
			}
			f.confirmed.Add(1)
			pending = pending[1:]
		}
		return true
	}
	for n := 0; !f.stop.Load(); n++ {
		c, err := f.ch.PublishWithDeferredConfirm("", queue, false, false, amqp091.Publishing{
			DeliveryMode: amqp091.Persistent, MessageId: fmt.Sprint(n), Body: body,
		})
		if err != nil {
			return
		}
		if pending = append(pending, c); !settle(fillWindow) {
			return
		}
	}
	settle(0)
}

// wantBlocking waits for connection.blocked or unblocked.
func (f *filler) wantBlocking(active bool, reason string) {
	f.t.Helper()
	select {
	case b := <-f.blocked:
		if b.Active != active || b.Reason != reason {
			f.t.Fatalf("got %+v, want active %v, reason %q", b, active, reason)
		}
	case <-time.After(90 * time.Second):
		f.t.Fatalf("never blocked: %v", active)
	}
}

// drain takes n messages, in order from first on.
func (c *child) drain(queue string, first, n int) {
	c.t.Helper()
	conn := c.dial()
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := ch.Qos(100, 0, false); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	deliveries, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := first; i < first+n; i++ {
		select {
		case d, ok := <-deliveries:
			if !ok || d.MessageId != fmt.Sprint(i) || len(d.Body) != fillBody {
				c.t.Fatalf("got message %q of %d bytes, want %d", d.MessageId, len(d.Body), i)
			}
			if err := d.Ack(false); err != nil {
				c.t.Fatal(err)
			}
		case <-time.After(30 * time.Second):
			c.t.Fatalf("message %d does not come", i)
		}
	}
}
