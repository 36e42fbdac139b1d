package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// worker is one client that is busy until the broker dies. It keeps what it
// must know over restarts.
type worker interface {
	// setUp declares what the worker uses; it can be called again after each
	// restart.
	setUp(c *amqp091.Connection) error
	// work goes on until ctx is done or the broker has gone. The connection is
	// the worker's own.
	work(ctx context.Context, c *amqp091.Connection, l *ledger, rnd *rand.Rand) error
}

// errViolated ends a worker that cannot go on because of what it was told; the
// ledger has the reason.
var errViolated = errors.New("a promise was broken")

func declare(c *amqp091.Connection, arguments map[string]amqp091.Table, queues ...string) error {
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	for _, q := range queues {
		if _, err := ch.QueueDeclare(q, true, false, false, false, arguments[q]); err != nil {
			return err
		}
	}
	return nil
}

func persistent(m *message, size int) amqp091.Publishing {
	return amqp091.Publishing{DeliveryMode: amqp091.Persistent, MessageId: m.id, Body: body(m.id, size)}
}

// confirmed publishes with confirms and keeps up to window messages without
// one. Its methods belong to one goroutine; confirms come in on another.
type confirmed struct {
	ch     *amqp091.Channel
	l      *ledger
	queues []string
	window chan struct{}

	mu      sync.Mutex
	waiting map[uint64]*message
	onAck   func(tag uint64)
}

func newConfirmed(ch *amqp091.Channel, l *ledger, window int, queues ...string) (*confirmed, error) {
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	p := &confirmed{ch: ch, l: l, queues: queues, window: make(chan struct{}, window), waiting: map[uint64]*message{}}
	acks := ch.NotifyPublish(make(chan amqp091.Confirmation, window))
	go func() {
		for a := range acks {
			p.mu.Lock()
			m := p.waiting[a.DeliveryTag]
			delete(p.waiting, a.DeliveryTag)
			onAck := p.onAck
			p.mu.Unlock()
			if m != nil && a.Ack {
				l.confirm(m, p.queues...)
			}
			if onAck != nil {
				onAck(a.DeliveryTag)
			}
			<-p.window
		}
	}()
	return p, nil
}

// publish sends a message as soon as the window has room.
func (p *confirmed) publish(ctx context.Context, exchange, key string, m *message, size int) error {
	select {
	case p.window <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	p.l.publish(m, nil, p.queues...)
	p.mu.Lock()
	p.waiting[p.ch.GetNextPublishSeqNo()] = m
	p.mu.Unlock()
	return p.ch.PublishWithContext(ctx, exchange, key, false, false, persistent(m, size))
}

// flush waits for all confirms.
func (p *confirmed) flush(ctx context.Context) error {
	for range cap(p.window) {
		select {
		case p.window <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for range cap(p.window) {
		<-p.window
	}
	return nil
}

// pair publishes to two queues at once. One is consumed in all the ways there
// are, by a consumer that publishes what came of it; the other only grows, and
// is purged now and then.
type pair struct {
	name         string
	in, results  publisher
	queue, other string
	result       string
}

func newPair(l *ledger, name string) *pair {
	p := &pair{
		name: name, in: publisher{name: name}, results: publisher{name: name + ".result"},
		queue: name + ".work", other: name + ".backlog", result: name + ".result",
	}
	for _, q := range []string{p.queue, p.other, p.result} {
		l.family(q, "")
	}
	return p
}

func (p *pair) setUp(c *amqp091.Connection) error {
	if err := declare(c, nil, p.queue, p.other, p.result); err != nil {
		return err
	}
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	if err := ch.ExchangeDeclare(p.name, "fanout", true, false, false, false, nil); err != nil {
		return err
	}
	for _, q := range []string{p.queue, p.other} {
		if err := ch.QueueBind(q, "", p.name, false, nil); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) work(ctx context.Context, c *amqp091.Connection, l *ledger, rnd *rand.Rand) error {
	consumed := make(chan error, 1)
	seed := rnd.Uint64()
	go func() { consumed <- p.consume(ctx, c, l, rand.New(rand.NewPCG(seed, 1))) }()
	err := p.publish(ctx, c, l, rnd)
	return errors.Join(err, <-consumed)
}

func (p *pair) publish(ctx context.Context, c *amqp091.Connection, l *ledger, rnd *rand.Rand) error {
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	out, err := newConfirmed(ch, l, 1+rnd.IntN(200), p.queue, p.other)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := out.publish(ctx, p.name, "", p.in.next(), sizes(rnd)); err != nil {
			return err
		}
		if rnd.IntN(2000) > 0 {
			continue
		}
		if err := out.flush(ctx); err != nil {
			return err
		}
		all := l.purge(p.other)
		if _, err := ch.QueuePurge(p.other, false); err != nil {
			return err
		}
		l.heard(true, all...)
	}
	return ctx.Err()
}

// delivery is one that the consumer has not settled.
type delivery struct {
	amqp091.Delivery
	held *held
}

// consume settles what comes in all the ways there are.
func (p *pair) consume(ctx context.Context, c *amqp091.Connection, l *ledger, rnd *rand.Rand) error {
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(1+rnd.IntN(100), 0, false); err != nil {
		return err
	}
	out, err := newConfirmed(ch, l, 20, p.result)
	if err != nil {
		return err
	}
	in, err := ch.ConsumeWithContext(ctx, p.queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	s := &settler{l: l, ch: ch, rnd: rnd, following: map[uint64][]*held{}}
	out.onAck = s.confirmed
	for n := 1; ; n++ {
		if _, err := s.next(ctx, p.queue, in); err != nil {
			return err
		}
		switch {
		case n%23 == 0:
			err = s.roundTrip()
		case n%17 == 0:
			s.follow(ch.GetNextPublishSeqNo())
			err = out.publish(ctx, "", p.result, p.results.next(), rnd.IntN(500))
		default:
			err = s.settleSome()
		}
		if err != nil {
			return err
		}
	}
}

// settler settles deliveries of one channel in random ways and knows which
// of its acknowledgements the broker has.
type settler struct {
	l   *ledger
	ch  *amqp091.Channel
	rnd *rand.Rand

	unsettled []delivery // by tag

	mu        sync.Mutex
	settled   []*held // acknowledgements sent, not known to have come
	following map[uint64][]*held
}

// next takes the next delivery, which is the last of unsettled then.
func (s *settler) next(ctx context.Context, queue string, in <-chan amqp091.Delivery) (d amqp091.Delivery, err error) {
	ok := false
	select {
	case d, ok = <-in:
	case <-ctx.Done():
		return d, ctx.Err()
	}
	if !ok {
		return d, amqp091.ErrClosed
	}
	h := s.l.hand(queue, d.MessageId, d.Redelivered)
	if h == nil || !whole(d.MessageId, d.Body) {
		return d, fmt.Errorf("delivery %s: %w", d.MessageId, errViolated)
	}
	s.unsettled = append(s.unsettled, delivery{d, h})
	return d, nil
}

// follow notes that a publish of this number comes after all that was
// acknowledged so far.
func (s *settler) follow(tag uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.following[tag] = s.settled
	s.settled = nil
}

// settleSome does one thing to the deliveries it has.
func (s *settler) settleSome() error {
	if len(s.unsettled) == 0 {
		return nil
	}
	i := s.rnd.IntN(len(s.unsettled))
	switch n := s.rnd.IntN(100); {
	case n < 50: // one
		d := s.unsettled[i]
		s.unsettled = append(s.unsettled[:i:i], s.unsettled[i+1:]...)
		s.acknowledge(d.held)
		return d.Ack(false)
	case n < 75: // up to one
		all := make([]*held, 0, i+1)
		for _, d := range s.unsettled[:i+1] {
			all = append(all, d.held)
		}
		last := s.unsettled[i]
		s.unsettled = s.unsettled[i+1:]
		s.acknowledge(all...)
		return last.Ack(true)
	case n < 90: // given back
		d := s.unsettled[i]
		s.unsettled = append(s.unsettled[:i:i], s.unsettled[i+1:]...)
		return d.Nack(false, true)
	}
	return nil
}

func (s *settler) acknowledge(all ...*held) {
	s.l.acknowledge(nil, all...)
	s.mu.Lock()
	s.settled = append(s.settled, all...)
	s.mu.Unlock()
}

// roundTrip makes sure that the broker has what was sent.
func (s *settler) roundTrip() error {
	s.mu.Lock()
	before := s.settled
	s.settled = nil
	s.mu.Unlock()
	if err := s.ch.Qos(1+s.rnd.IntN(100), 0, false); err != nil {
		return err
	}
	s.l.heard(false, before...)
	return nil
}

// confirmed notes that a publish was confirmed, which makes the
// acknowledgements before it firm.
func (s *settler) confirmed(tag uint64) {
	s.mu.Lock()
	before := s.following[tag]
	delete(s.following, tag)
	s.mu.Unlock()
	s.l.heard(true, before...)
}
