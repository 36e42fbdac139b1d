package amqp

import (
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

// exchangeDeclare does exchange.declare.
func (ch *channel) exchangeDeclare(m *frames.ExchangeDeclare) error {
	return ch.afterStored(
		func(done func(error)) (bool, error) { return ch.c.vhost.DeclareExchange(&ch.c.client, m, done) },
		func() error { return ch.replyUnless(m.NoWait, &frames.ExchangeDeclareOk{}) })
}

// exchangeDelete does exchange.delete.
func (ch *channel) exchangeDelete(m *frames.ExchangeDelete) error {
	return ch.afterStored(
		func(done func(error)) (bool, error) { return ch.c.vhost.DeleteExchange(&ch.c.client, m, done) },
		func() error { return ch.replyUnless(m.NoWait, &frames.ExchangeDeleteOk{}) })
}

// bind runs a change of bindings and answers with ok.
func (ch *channel) bind(change func(*broker.Client, broker.BindRequest, func(error)) (bool, error), r broker.BindRequest, noWait bool, ok frames.Method) error {
	return ch.afterStored(
		func(done func(error)) (bool, error) { return change(&ch.c.client, r, done) },
		func() error { return ch.replyUnless(noWait, ok) })
}

// exchangeBind does exchange.bind.
func (ch *channel) exchangeBind(m *frames.ExchangeBind) error {
	r := broker.BindRequest{Source: m.Source, Destination: m.Destination, Key: m.RoutingKey, Arguments: m.Arguments}
	return ch.bind(ch.c.vhost.Bind, r, m.NoWait, &frames.ExchangeBindOk{})
}

// exchangeUnbind does exchange.unbind.
func (ch *channel) exchangeUnbind(m *frames.ExchangeUnbind) error {
	r := broker.BindRequest{Source: m.Source, Destination: m.Destination, Key: m.RoutingKey, Arguments: m.Arguments}
	return ch.bind(ch.c.vhost.Unbind, r, m.NoWait, &frames.ExchangeUnbindOk{})
}

// queueBind does queue.bind.
func (ch *channel) queueBind(m *frames.QueueBind) error {
	r, err := ch.queueBinding(m.Queue, m.Exchange, m.RoutingKey, m.Arguments)
	if err != nil {
		return err
	}
	return ch.bind(ch.c.vhost.Bind, r, m.NoWait, &frames.QueueBindOk{})
}

// queueUnbind does queue.unbind, which has no nowait.
func (ch *channel) queueUnbind(m *frames.QueueUnbind) error {
	r, err := ch.queueBinding(m.Queue, m.Exchange, m.RoutingKey, m.Arguments)
	if err != nil {
		return err
	}
	return ch.bind(ch.c.vhost.Unbind, r, false, &frames.QueueUnbindOk{})
}

// queueBinding resolves the empty queue name; an empty routing key with it
// becomes the queue's name.
func (ch *channel) queueBinding(queue, exchange, key string, args frames.Table) (broker.BindRequest, error) {
	name, err := ch.queueName(queue)
	if queue == "" && key == "" {
		key = name
	}
	return broker.BindRequest{Source: exchange, Destination: name, ToQueue: true, Key: key, Arguments: args}, err
}

// queueDeclare does queue.declare.
func (ch *channel) queueDeclare(m *frames.QueueDeclare) error {
	var r broker.DeclareResult
	return ch.afterStored(
		func(done func(error)) (wait bool, err error) {
			r, wait, err = ch.c.vhost.DeclareQueue(&ch.c.client, m, done)
			if err == nil {
				ch.lastQueue = r.Queue
			}
			return wait, err
		},
		func() error {
			return ch.replyUnless(m.NoWait, &frames.QueueDeclareOk{Queue: r.Queue, MessageCount: r.Messages, ConsumerCount: r.Consumers})
		})
}

// queueDelete does queue.delete.
func (ch *channel) queueDelete(m *frames.QueueDelete) error {
	name, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	m.Queue = name
	var count uint32
	return ch.afterStored(
		func(done func(error)) (wait bool, err error) {
			count, wait, err = ch.c.vhost.DeleteQueue(&ch.c.client, m, done)
			return wait, err
		},
		func() error { return ch.replyUnless(m.NoWait, &frames.QueueDeleteOk{MessageCount: count}) })
}

// queuePurge does queue.purge.
func (ch *channel) queuePurge(m *frames.QueuePurge) error {
	name, err := ch.queueName(m.Queue)
	if err != nil {
		return err
	}
	var count uint32
	return ch.afterStored(
		func(func(error)) (wait bool, err error) {
			count, wait, err = ch.c.vhost.PurgeQueue(&ch.c.client, name)
			if wait {
				ch.c.server.broker.Store().Barrier(ch.parked, 0)
			}
			return wait, err
		},
		func() error { return ch.replyUnless(m.NoWait, &frames.QueuePurgeOk{MessageCount: count}) })
}
