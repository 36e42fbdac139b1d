package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// bank works in transactions over two queues: it puts each message into both,
// takes messages out, and commits or rolls back.
type bank struct {
	name   string
	in     publisher
	queues [2]string
	count  int
}

func newBank(l *ledger, name string) *bank {
	b := &bank{name: name, in: publisher{name: name}, queues: [2]string{name + ".1", name + ".2"}}
	for _, q := range b.queues {
		l.family(q, "")
	}
	return b
}

func (b *bank) setUp(c *amqp091.Connection) error { return declare(c, nil, b.queues[:]...) }

func (b *bank) work(ctx context.Context, c *amqp091.Connection, l *ledger, rnd *rand.Rand) error {
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	if err := ch.Tx(); err != nil {
		return err
	}
	var pending []delivery
	for ctx.Err() == nil {
		if pending, err = b.transaction(ctx, ch, l, rnd, pending); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// transaction does one. pending are deliveries whose acknowledgement an
// earlier one rolled back.
func (b *bank) transaction(ctx context.Context, ch *amqp091.Channel, l *ledger, rnd *rand.Rand, pending []delivery) ([]delivery, error) {
	b.count++
	tx := l.begin(fmt.Sprintf("transaction %d of %s", b.count, b.name))
	var put []*message
	for range 1 + rnd.IntN(8) {
		m := b.in.next()
		l.publish(m, tx, b.queues[:]...)
		put = append(put, m)
		for _, q := range b.queues {
			if err := ch.PublishWithContext(ctx, "", q, false, false, persistent(m, sizes(rnd))); err != nil {
				return nil, err
			}
		}
	}
	for range rnd.IntN(6) {
		q := b.queues[rnd.IntN(2)]
		d, ok, err := ch.Get(q, false)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		h := l.hand(q, d.MessageId, d.Redelivered)
		if h == nil || !whole(d.MessageId, d.Body) {
			return nil, fmt.Errorf("get of %s: %w", d.MessageId, errViolated)
		}
		pending = append(pending, delivery{d, h})
	}
	var taken []*held
	for _, d := range pending {
		taken = append(taken, d.held)
		l.acknowledge(tx, d.held)
		if err := d.Ack(false); err != nil {
			return nil, err
		}
	}
	if rnd.IntN(5) == 0 {
		if err := ch.TxRollback(); err != nil {
			return nil, err
		}
		l.unacknowledge(taken...)
		return pending, nil
	}
	l.now(tx, asked)
	if err := ch.TxCommit(); err != nil {
		return nil, err
	}
	l.now(tx, told)
	for _, m := range put {
		l.confirm(m, b.queues[:]...)
	}
	l.heard(true, taken...)
	return nil, nil
}

// morgue publishes to a queue whose messages die, by a consumer that rejects
// them or by their age, and takes some of the dead out.
type morgue struct {
	in           publisher
	queue, grave string
	aging        bool
}

func newMorgue(l *ledger, name string, aging bool) *morgue {
	m := &morgue{in: publisher{name: name}, queue: name, grave: name + ".dead", aging: aging}
	l.family(m.queue, m.grave)
	return m
}

func (m *morgue) setUp(c *amqp091.Connection) error {
	args := amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": m.grave}
	if m.aging {
		args["x-message-ttl"] = 30
	}
	return declare(c, map[string]amqp091.Table{m.queue: args}, m.queue, m.grave)
}

func (m *morgue) work(ctx context.Context, c *amqp091.Connection, l *ledger, rnd *rand.Rand) error {
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	out, err := newConfirmed(ch, l, 1+rnd.IntN(50), m.queue)
	if err != nil {
		return err
	}
	done := make(chan error, 2)
	seed := rnd.Uint64()
	go func() { done <- m.undertake(ctx, c, l, rand.New(rand.NewPCG(seed, 2)), m.grave, false) }()
	if m.aging {
		done <- nil
	} else {
		go func() { done <- m.undertake(ctx, c, l, rand.New(rand.NewPCG(seed, 3)), m.queue, true) }()
	}
	for err == nil && ctx.Err() == nil {
		err = out.publish(ctx, "", m.queue, m.in.next(), sizes(rnd))
	}
	for range 2 {
		if e := <-done; err == nil {
			err = e
		}
	}
	return err
}

// undertake consumes one of the two queues: rejects most, or acknowledges
// most.
func (m *morgue) undertake(ctx context.Context, c *amqp091.Connection, l *ledger, rnd *rand.Rand, queue string, reject bool) error {
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(20, 0, false); err != nil {
		return err
	}
	in, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	s := &settler{l: l, ch: ch, rnd: rnd, following: map[uint64][]*held{}}
	for n := 1; ; n++ {
		d, err := s.next(ctx, queue, in)
		if err != nil {
			return err
		}
		if reject && rnd.IntN(3) > 0 {
			last := len(s.unsettled) - 1
			s.unsettled = s.unsettled[:last]
			err = d.Reject(false)
		} else {
			err = s.settleSome()
		}
		if err == nil && n%19 == 0 {
			err = s.roundTrip()
		}
		if err != nil {
			return err
		}
	}
}

// clerk makes and deletes queues, exchanges and bindings.
type clerk struct {
	name  string
	count int
	there []thing
}

// sinkOf is the queue that a clerk's bindings lead to.
func (k *clerk) sinkOf() string { return k.name + ".sink" }

func (k *clerk) setUp(c *amqp091.Connection) error {
	args := amqp091.Table{"x-max-length": 1}
	return declare(c, map[string]amqp091.Table{k.sinkOf(): args}, k.sinkOf())
}

func (k *clerk) work(ctx context.Context, c *amqp091.Connection, l *ledger, rnd *rand.Rand) error {
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if n := len(k.there); n > 0 && rnd.IntN(100) < 10+n {
			i := rnd.IntN(n)
			t := k.there[i]
			k.there = append(k.there[:i:i], k.there[i+1:]...)
			l.define(t, false, false)
			if err := k.remove(ch, t); err != nil {
				return err
			}
			l.define(t, false, true)
			continue
		}
		k.count++
		t := thing{[]string{"queue", "exchange", "binding"}[rnd.IntN(3)], fmt.Sprintf("%s.%d", k.name, k.count)}
		l.define(t, true, false)
		if err := k.add(ch, t); err != nil {
			return err
		}
		l.define(t, true, true)
		k.there = append(k.there, t)
	}
	return ctx.Err()
}

func (k *clerk) add(ch *amqp091.Channel, t thing) error {
	switch t.kind {
	case "queue":
		_, err := ch.QueueDeclare(t.name, true, false, false, false, nil)
		return err
	case "exchange":
		return ch.ExchangeDeclare(t.name, "topic", true, false, false, false, nil)
	}
	return ch.QueueBind(k.sinkOf(), t.name, "amq.direct", false, nil)
}

func (k *clerk) remove(ch *amqp091.Channel, t thing) error {
	switch t.kind {
	case "queue":
		_, err := ch.QueueDelete(t.name, false, false, false)
		return err
	case "exchange":
		return ch.ExchangeDelete(t.name, false, false)
	}
	return ch.QueueUnbind(k.sinkOf(), t.name, "amq.direct", nil)
}
