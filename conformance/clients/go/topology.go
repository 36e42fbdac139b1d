package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// dial connects under a name of its own; with recovery the library reconnects by
// itself and brings channels, topology and consumers back.
func (r *run) dial(recovery bool) (*amqp.Connection, error) {
	props := amqp.NewConnectionProperties()
	props.SetClientConnectionName("conformance-go")
	config := amqp.Config{Properties: props, Heartbeat: 10 * time.Second}
	if recovery {
		config.Recovery = &amqp.Recovery{ReconnectionConfig: &amqp.ReconnectionConfig{
			MaxRetryCount: 120, RetryInterval: 500 * time.Millisecond,
		}}
	}
	conn, err := amqp.DialConfig(r.uri, config)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	return conn, nil
}

// connect opens the connection and a channel in confirm mode.
func (r *run) connect() error {
	conn, err := r.dial(false)
	if err != nil {
		return err
	}
	r.conn = conn
	caps, ok := conn.Properties["capabilities"].(amqp.Table)
	if !ok {
		return fmt.Errorf("server properties without capabilities: %v", conn.Properties)
	}
	for _, name := range []string{"publisher_confirms", "basic.nack", "consumer_cancel_notify"} {
		if caps[name] != true {
			return fmt.Errorf("capability %s is %v, want true", name, caps[name])
		}
	}
	return r.openChannel()
}

// openChannel replaces the run's channel by a new one in confirm mode.
func (r *run) openChannel() error {
	ch, err := r.conn.Channel()
	if err != nil {
		return fmt.Errorf("open channel: %w", err)
	}
	if err := ch.Confirm(false); err != nil {
		return fmt.Errorf("select confirm mode: %w", err)
	}
	r.ch = ch
	return nil
}

// declare makes a durable exchange and queue, twice, and a queue that the server
// names.
func (r *run) declare() error {
	for range 2 { // the second time the same arguments must be accepted
		if err := r.ch.ExchangeDeclare(r.exchange, "topic", true, false, false, false, nil); err != nil {
			return fmt.Errorf("declare exchange: %w", err)
		}
		q, err := r.ch.QueueDeclare(r.queue, true, false, false, false, nil)
		if err != nil {
			return fmt.Errorf("declare queue: %w", err)
		}
		if q.Name != r.queue || q.Messages != 0 || q.Consumers != 0 {
			return fmt.Errorf("declare-ok says %+v", q)
		}
	}
	q, err := r.ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		return fmt.Errorf("declare server-named queue: %w", err)
	}
	if !strings.HasPrefix(q.Name, "amq.gen-") {
		return fmt.Errorf("server-named queue is called %q", q.Name)
	}
	return nil
}

// bind routes two patterns to the queue, and takes a third one back.
func (r *run) bind() error {
	for _, key := range []string{"order.*.created", "audit.#", "gone.#"} {
		if err := r.ch.QueueBind(r.queue, key, r.exchange, false, nil); err != nil {
			return fmt.Errorf("bind %s: %w", key, err)
		}
	}
	if err := r.ch.QueueUnbind(r.queue, "gone.#", r.exchange, nil); err != nil {
		return fmt.Errorf("unbind: %w", err)
	}
	return nil
}

// depth asks the broker for the ready messages of the run's queue.
func (r *run) depth() (int, error) {
	q, err := r.ch.QueueDeclarePassive(r.queue, true, false, false, false, nil)
	if err != nil {
		return 0, fmt.Errorf("passive declare: %w", err)
	}
	return q.Messages, nil
}

// wantDepth fails unless the queue has n ready messages.
func (r *run) wantDepth(n int) error {
	got, err := r.depth()
	if err != nil {
		return err
	}
	if got != n {
		return fmt.Errorf("queue has %d messages, want %d", got, n)
	}
	return nil
}

// channelError has the broker close a channel for a queue that is not there, and
// goes on with a new channel on the same connection.
func (r *run) channelError() error {
	ch, err := r.conn.Channel()
	if err != nil {
		return fmt.Errorf("open second channel: %w", err)
	}
	_, err = ch.QueueDeclarePassive(r.queue+".absent", true, false, false, false, nil)
	if err := wantAMQPError(err, amqp.NotFound, "NOT_FOUND - no queue '"+r.queue+".absent'"); err != nil {
		return err
	}
	if !ch.IsClosed() || r.conn.IsClosed() || r.ch.IsClosed() {
		return errors.New("want that channel closed, and the connection and its other channel open")
	}
	if err := r.openChannel(); err != nil {
		return fmt.Errorf("after the channel error: %w", err)
	}
	return r.publish(r.queue, []byte("after the error"), r.getBack)
}

// delete removes queue and exchange, and has the broker confirm that they are gone.
func (r *run) delete() error {
	if err := r.publish(r.queue, []byte("left behind"), nil); err != nil {
		return err
	}
	n, err := r.ch.QueueDelete(r.queue, false, false, false)
	if err != nil {
		return fmt.Errorf("delete queue: %w", err)
	}
	if n != 1 {
		return fmt.Errorf("delete-ok counts %d messages, want 1", n)
	}
	if err := r.ch.ExchangeDelete(r.exchange, false, false); err != nil {
		return fmt.Errorf("delete exchange: %w", err)
	}
	err = r.ch.ExchangeDeclarePassive(r.exchange, "topic", true, false, false, false, nil)
	if err := wantAMQPError(err, amqp.NotFound, "NOT_FOUND - no exchange '"+r.exchange+"'"); err != nil {
		return err
	}
	if err := r.conn.Close(); err != nil {
		return fmt.Errorf("close connection: %w", err)
	}
	return nil
}

// wantAMQPError fails unless err is the broker's close with this code, its text
// beginning as given.
func wantAMQPError(err error, code int, text string) error {
	var closed *amqp.Error
	if !errors.As(err, &closed) {
		return fmt.Errorf("got error %v, want %d", err, code)
	}
	if closed.Code != code || !strings.HasPrefix(closed.Reason, text) {
		return fmt.Errorf("got %d %q, want %d %q", closed.Code, closed.Reason, code, text)
	}
	return nil
}
