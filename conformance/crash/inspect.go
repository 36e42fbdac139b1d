package main

import (
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// inspect reads all that a restarted broker has. Its messages stay there.
func inspect(b *child, l *ledger) (s state, err error) {
	c, err := b.dial()
	if err != nil {
		return s, err
	}
	defer c.Close()
	s = state{content: map[string][]found{}, things: map[thing]bool{}}
	for _, f := range l.allFamilies() {
		// The dead leave the queue for the grave, never the other way, so the
		// queue is read first.
		for _, q := range []string{f.queue, f.grave} {
			if q == "" {
				continue
			}
			if s.content[q], err = contentOf(c, q); err != nil {
				return s, fmt.Errorf("read queue %s: %w", q, err)
			}
		}
	}
	for _, t := range l.allThings() {
		if s.things[t], err = exists(c, t); err != nil {
			return s, fmt.Errorf("look for %s %s: %w", t.kind, t.name, err)
		}
	}
	return s, nil
}

// contentOf takes all messages of a queue, in order, on a channel that stays
// open, so that they come back when the connection closes.
func contentOf(c *amqp091.Connection, queue string) (all []found, err error) {
	ch, err := c.Channel()
	if err != nil {
		return nil, err
	}
	// Dead letters may still be on their way into the queue: it has been read
	// when it stays empty.
	for empty := 0; empty < 3; {
		d, ok, err := ch.Get(queue, false)
		if err != nil {
			return nil, err
		}
		if !ok {
			empty++
			time.Sleep(20 * time.Millisecond)
			continue
		}
		empty = 0
		all = append(all, found{d.MessageId, d.Redelivered, !whole(d.MessageId, d.Body)})
	}
	return all, nil
}

// exists says whether a definition is there.
func exists(c *amqp091.Connection, t thing) (bool, error) {
	ch, err := c.Channel()
	if err != nil {
		return false, err
	}
	defer ch.Close()
	switch t.kind {
	case "queue":
		_, err = ch.QueueDeclarePassive(t.name, true, false, false, false, nil)
	case "exchange":
		err = ch.ExchangeDeclarePassive(t.name, "topic", true, false, false, false, nil)
	case "binding":
		return routes(ch, "amq.direct", t.name)
	}
	var refused *amqp091.Error
	if errors.As(err, &refused) && refused.Code == amqp091.NotFound {
		return false, nil
	}
	return err == nil, err
}

// routes says whether a key leads anywhere.
func routes(ch *amqp091.Channel, exchange, key string) (bool, error) {
	returns := ch.NotifyReturn(make(chan amqp091.Return, 1))
	if err := ch.Confirm(false); err != nil {
		return false, err
	}
	confirm, err := ch.PublishWithDeferredConfirm(exchange, key, true, false, amqp091.Publishing{})
	if err != nil {
		return false, err
	}
	if !confirm.Wait() {
		return false, errors.New("a publish was refused")
	}
	select {
	case <-returns: // comes before the confirm
		return false, nil
	default:
		return true, nil
	}
}

// empty acknowledges all that is in the queues, so that the next kill shows
// whether it stays away.
func empty(b *child, l *ledger) error {
	c, err := b.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	for _, f := range l.allFamilies() {
		for _, q := range []string{f.queue, f.grave} {
			if q == "" {
				continue
			}
			if err := emptyQueue(c, l, q); err != nil {
				return fmt.Errorf("empty queue %s: %w", q, err)
			}
		}
	}
	return nil
}

func emptyQueue(c *amqp091.Connection, l *ledger, queue string) error {
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	if err := ch.Tx(); err != nil {
		return err
	}
	var taken []*held
	for {
		d, ok, err := ch.Get(queue, false)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		h := l.hand(queue, d.MessageId, d.Redelivered)
		if h == nil {
			return errViolated
		}
		l.acknowledge(nil, h)
		taken = append(taken, h)
		if err := d.Ack(false); err != nil {
			return err
		}
	}
	if err := ch.TxCommit(); err != nil {
		return err
	}
	l.heard(true, taken...)
	return nil
}
