package bench

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/frames"
)

// drain publishes N messages to a durable queue that nobody reads, waits
// until the broker has them all, and drains it without acknowledgement.
func (c *Config) drain(mode uint8) (Result, error) {
	in, out, err := c.pair()
	if err != nil {
		return Result{}, err
	}
	defer in.conn.Close()
	defer out.conn.Close()
	q := &frames.QueueDeclare{Queue: fmt.Sprintf("warren-bench-%d", time.Now().UnixNano()), Durable: true}
	if _, err := in.queue(q); err != nil {
		return Result{}, err
	}
	n := int64(c.count(1_000_000))
	p := &process{c.PID}
	anon, stop := p.watchAnonymous()
	used := p.cpu()
	r, err := c.pile(in, q, n, mode)
	r.CPUMicros = float64((p.cpu() - used).Microseconds()) / float64(n)
	stop()
	if err != nil {
		return Result{}, err
	}
	r.AnonMiB = float64(anon.Load()) / 1024
	start := time.Now()
	if _, err := ask[*frames.BasicConsumeOk](out, 1, &frames.BasicConsume{Queue: q.Queue, NoAck: true}); err != nil {
		return Result{}, err
	}
	f := newFlow(n, 1)
	go f.consume(out, 0)
	for f.done.Load() < n {
		select {
		case <-f.room:
		case err := <-f.failed:
			return Result{}, fmt.Errorf("after %d deliveries: %w", f.done.Load(), err)
		}
	}
	r.DrainRate = float64(n) / time.Since(start).Seconds()
	f.stop.Store(true)
	time.Sleep(2 * time.Second)
	r.AfterMiB = float64(p.rss()) / 1024
	_, err = ask[*frames.QueueDeleteOk](in, 1, &frames.QueueDelete{Queue: q.Queue})
	return r, err
}

// pile publishes and gives the rates of the whole, the first and the last
// tenth, each until the broker has counted the messages.
func (c *Config) pile(in *client, q *frames.QueueDeclare, n int64, mode uint8) (r Result, err error) {
	block, count := c.block("", []string{q.Queue}, [][]byte{properties(mode, 0)}, int(n))
	tenth := max(n/10/count, 1) * count
	start := time.Now()
	from, sent := start, int64(0)
	for sent < n {
		part := tenth
		if n-sent < 2*tenth {
			part = n - sent
		}
		for done := int64(0); done < part; done += count {
			if left := part - done; left < count {
				block, count = c.block("", []string{q.Queue}, [][]byte{properties(mode, 0)}, int(left))
			}
			if _, err := in.conn.Write(block); err != nil {
				return r, err
			}
		}
		sent += part
		if err := in.awaitCount(q, sent); err != nil {
			return r, err
		}
		r.LastRate = float64(part) / time.Since(from).Seconds()
		if from == start {
			r.FirstRate = r.LastRate
		}
		from = time.Now()
	}
	took := time.Since(start)
	r.Messages, r.Seconds, r.Rate = n, took.Seconds(), float64(n)/took.Seconds()
	return r, nil
}

// awaitCount waits until a queue has so many messages.
func (c *client) awaitCount(q *frames.QueueDeclare, n int64) error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		ok, err := ask[*frames.QueueDeclareOk](c, 1, &frames.QueueDeclare{Queue: q.Queue, Passive: true})
		if err != nil || int64(ok.MessageCount) >= n {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("the queue has %d of %d messages", ok.MessageCount, n)
		}
	}
}

// watchAnonymous keeps the most anonymous memory seen, in KiB.
func (p *process) watchAnonymous() (most *atomic.Int64, stop func()) {
	most = new(atomic.Int64)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			most.Store(max(most.Load(), p.anonymous()))
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return most, func() { close(end); <-ended }
}
