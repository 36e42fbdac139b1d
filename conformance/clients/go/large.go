package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// pattern makes a body that differs from itself at each shift up to 251 bytes, so
// that a lost, doubled or swapped frame shows.
func pattern(size int) []byte {
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(i % 251)
	}
	return body
}

// body12MiB sends a body of many frames there and back.
func (r *run) body12MiB() error {
	return r.publish(r.queue, pattern(12<<20), r.getBack)
}

// body20MiB exceeds the 16 MiB that RabbitMQ 4 takes by default and stays under
// the 128 MiB of RabbitMQ 3.
func (r *run) body20MiB() error {
	body := pattern(20 << 20)
	if !r.profile4 {
		return r.publish(r.queue, body, r.getBack)
	}
	ch, err := r.conn.Channel()
	if err != nil {
		return fmt.Errorf("open second channel: %w", err)
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := ch.PublishWithContext(ctx, "", r.queue, false, false, amqp.Publishing{Body: body}); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	select {
	case got := <-closed:
		if got == nil {
			return errors.New("channel closed without the broker's reason")
		}
		text := fmt.Sprintf("PRECONDITION_FAILED - message size %d is larger than configured max size %d", len(body), 16<<20)
		if err := wantAMQPError(got, amqp.PreconditionFailed, text); err != nil {
			return err
		}
	case <-time.After(patience):
		return errors.New("the oversized message closed no channel")
	}
	return r.wantDepth(0) // the first channel and the connection still work
}
