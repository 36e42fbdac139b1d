package main

import (
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// restartRecovery leaves a persistent message behind and restarts the broker. The
// library must bring back a consumer on an exclusive queue, which went with its
// connection, and a plain new connection must find the message and its binding.
func (r *run) restartRecovery() error {
	if err := r.publishTo(r.exchange, "audit.restart", amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: "m-3", Headers: amqp.Table{"n": int64(1)}, Body: []byte("survivor"),
	}, true); err != nil {
		return err
	}
	conn, err := r.dial(true)
	if err != nil {
		return err
	}
	deliveries, err := r.subscribeExclusive(conn)
	if err != nil {
		return err
	}
	states := make(chan *amqp.StateChanged, 64)
	conn.NotifyStateChange(states)
	lost := r.conn.NotifyClose(make(chan *amqp.Error, 1))
	if err := r.restartBroker(); err != nil {
		return err
	}
	if err := awaitRecovered(states); err != nil {
		return err
	}
	select {
	case <-lost:
	case <-time.After(patience):
		return errors.New("the connection without recovery outlived the restart")
	}
	if r.conn, err = r.dial(false); err != nil {
		return fmt.Errorf("after the restart: %w", err)
	}
	if err := r.openChannel(); err != nil {
		return fmt.Errorf("after the restart: %w", err)
	}
	if err := r.publishTo(r.exchange, "order.x.created", amqp.Publishing{Body: []byte("routed")}, true); err != nil {
		return err
	}
	d, err := next(deliveries)
	if err != nil {
		return fmt.Errorf("recovered consumer: %w", err)
	}
	if string(d.Body) != "routed" {
		return fmt.Errorf("the recovered consumer got %q", d.Body)
	}
	if err := conn.Close(); err != nil {
		return fmt.Errorf("close the recovered connection: %w", err)
	}
	return r.survivor()
}

// subscribeExclusive consumes from a queue that only this connection may use, bound
// to the run's exchange.
func (r *run) subscribeExclusive(conn *amqp.Connection) (<-chan amqp.Delivery, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	q, err := ch.QueueDeclare(r.queue+".exclusive", false, true, true, false, nil)
	if err != nil {
		return nil, fmt.Errorf("declare exclusive queue: %w", err)
	}
	if err := ch.QueueBind(q.Name, "order.x.created", r.exchange, false, nil); err != nil {
		return nil, fmt.Errorf("bind exclusive queue: %w", err)
	}
	deliveries, err := ch.Consume(q.Name, "", true, true, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("consume: %w", err)
	}
	return deliveries, nil
}

// survivor takes the message of before the restart and the one that the durable
// binding routed after it.
func (r *run) survivor() error {
	d, ok, err := r.ch.Get(r.queue, true)
	if err != nil || !ok {
		return fmt.Errorf("get the persistent message: found %v, error %v", ok, err)
	}
	if string(d.Body) != "survivor" || d.MessageId != "m-3" || d.Headers["n"] != int64(1) ||
		d.DeliveryMode != amqp.Persistent || d.RoutingKey != "audit.restart" {
		return fmt.Errorf("after the restart the message is %+v", d)
	}
	return r.getBack([]byte("routed"))
}

// awaitRecovered waits until the connection has gone and come back.
func awaitRecovered(states <-chan *amqp.StateChanged) error {
	limit := time.After(patience)
	for {
		select {
		case s, ok := <-states:
			if !ok {
				return errors.New("the library gave recovery up")
			}
			if s.From == amqp.StateReconnecting && s.To == amqp.StateOpen {
				return nil
			}
			if s.To == amqp.StateClosed {
				return fmt.Errorf("the library gave recovery up: %w", s.Err)
			}
		case <-limit:
			return fmt.Errorf("no recovery %v after the restart", patience)
		}
	}
}
