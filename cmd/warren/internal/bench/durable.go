package bench

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/warrenmq/warren/frames"
)

// durableQueue declares a durable queue for confirmed publishes of in and has
// out, unless it is nil, consume from it with acknowledgement. It goes with its
// consumer, or with removeQueues.
func durableQueue(in, out *client, name string) error {
	d := &frames.QueueDeclare{Queue: name, Durable: true, AutoDelete: out != nil}
	if _, err := in.queue(d); err != nil || out == nil {
		return err
	}
	if _, err := ask[*frames.BasicQosOk](out, 1, &frames.BasicQos{PrefetchCount: 1000}); err != nil {
		return err
	}
	_, err := ask[*frames.BasicConsumeOk](out, 1, &frames.BasicConsume{Queue: name})
	return err
}

// confirming dials a producer with confirms.
func (c *Config) confirming() (*client, error) {
	in, err := dial(c.URI)
	if err != nil {
		return nil, err
	}
	if _, err := ask[*frames.ConfirmSelectOk](in, 1, &frames.ConfirmSelect{}); err != nil {
		in.conn.Close()
		return nil, err
	}
	return in, nil
}

// queueName is a new name for a run's queues, so that runs do not find each
// other's messages.
func queueName() string { return fmt.Sprintf("warren-bench-%d", time.Now().UnixNano()) }

func (c *Config) confirm() (Result, error) {
	in, err := c.confirming()
	if err != nil {
		return Result{}, err
	}
	out, err := dial(c.URI)
	if err != nil {
		in.conn.Close()
		return Result{}, err
	}
	q := queueName()
	if err := durableQueue(in, out, q); err != nil {
		return Result{}, err
	}
	f := newFlow(1000, 1)
	f.beside = newFlow(window, 1)
	block, count := c.block("", []string{q}, [][]byte{properties(2, 0)}, 50)
	go f.beside.consume(out, 100)
	go f.confirms(in)
	go f.produce(in, block, count)
	return c.report(f, in, out)
}

// backlog lets a queue grow.
func (c *Config) backlog() (Result, error) { return c.unconsumed(1) }

// queues has each queue get a message in turn.
func (c *Config) queues() (Result, error) { return c.unconsumed(c.count(1000)) }

// unconsumed publishes to n queues in turn, which nobody consumes from.
func (c *Config) unconsumed(n int) (Result, error) {
	in, err := c.confirming()
	if err != nil {
		return Result{}, err
	}
	name := queueName()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", name, i)
		if err := durableQueue(in, nil, keys[i]); err != nil {
			return Result{}, err
		}
	}
	f := newFlow(1000, 1)
	go f.confirms(in)
	go f.produceInTurn(in, c.blocks(keys))
	r, err := c.report(f, in)
	if err != nil {
		return Result{}, err
	}
	return r, c.removeQueues(keys)
}

// removeQueues deletes queues, with what is in them.
func (c *Config) removeQueues(names []string) error {
	cl, err := dial(c.URI)
	if err != nil {
		return err
	}
	defer cl.conn.Close()
	for _, name := range names {
		if _, err := ask[*frames.QueueDeleteOk](cl, 1, &frames.QueueDelete{Queue: name}); err != nil {
			return err
		}
	}
	return nil
}

// messagesAWrite is how many messages a producer with 1000 in flight writes at
// once.
const messagesAWrite = 50

// blocks encodes a message to each key in turn, messagesAWrite to a block; with
// fewer keys one block has them all, repeated.
func (c *Config) blocks(keys []string) (blocks [][]byte) {
	props := [][]byte{properties(2, 0)}
	if len(keys) <= messagesAWrite {
		block, _ := c.block("", keys, props, messagesAWrite)
		return [][]byte{block}
	}
	body := make([]byte, c.Size)
	for run := range slices.Chunk(keys, messagesAWrite) {
		var block []byte
		for i := range messagesAWrite { // the last one goes on with the first key
			block = appendPublish(block, "", run[i%len(run)], props[0], body)
		}
		blocks = append(blocks, block)
	}
	return blocks
}

// produceInTurn is produce with several blocks of messagesAWrite messages.
func (f *flow) produceInTurn(c *client, blocks [][]byte) {
	for i := 0; !f.stop.Load(); {
		if f.sent-f.done.Load() > f.window-messagesAWrite {
			<-f.room
			continue
		}
		if _, err := c.conn.Write(blocks[i]); err != nil {
			f.fail(err)
			return
		}
		f.sent += messagesAWrite
		i = (i + 1) % len(blocks)
	}
}

// confirmOne publishes and waits for the confirm before the next publish.
func (c *Config) confirmOne() (Result, error) {
	in, err := c.confirming()
	if err != nil {
		return Result{}, err
	}
	q := queueName()
	if err := durableQueue(in, nil, q); err != nil {
		return Result{}, err
	}
	p := &process{c.PID}
	if _, err := c.rounds(in, q, 1, time.Now().Add(c.Warm)); err != nil {
		return Result{}, err
	}
	start, used := time.Now(), p.cpu()
	times, err := c.rounds(in, q, 1, start.Add(c.Duration))
	if err != nil {
		return Result{}, err
	}
	r := roundsResult(times, time.Since(start), p.cpu()-used)
	in.conn.Close()
	return r, c.removeQueues([]string{q})
}

// rounds keeps n publishes in flight until the deadline and gives the time
// from each publish to its confirm.
func (c *Config) rounds(in *client, q string, n int, until time.Time) (times []time.Duration, err error) {
	body := make([]byte, c.Size)
	props := properties(2, 0)
	one := appendPublish(nil, "", q, props, body)
	// Of publish base, base+1, ...; zero: confirmed.
	var sent []time.Time
	inFlight := 0
	if err := in.conn.SetReadDeadline(until.Add(patience)); err != nil {
		return nil, err
	}
	for {
		for ; inFlight < n && time.Now().Before(until); inFlight++ {
			sent = append(sent, time.Now())
			if _, err := in.conn.Write(one); err != nil {
				return nil, err
			}
		}
		if inFlight == 0 {
			return times, nil
		}
		first, last, err := in.nextConfirm()
		if err != nil {
			return nil, err
		}
		now := time.Now()
		for tag := max(first, in.confirmed+1); tag <= last; tag++ {
			if at := &sent[tag-in.confirmed-1]; !at.IsZero() {
				times = append(times, now.Sub(*at))
				*at = time.Time{}
				inFlight--
			}
		}
		for len(sent) > 0 && sent[0].IsZero() {
			sent = sent[1:]
			in.confirmed++
		}
	}
}

// nextConfirm reads a confirm and gives the range it is about; first is 0 for
// everything from the last one on.
func (c *client) nextConfirm() (first, last uint64, err error) {
	for {
		frame, err := c.r.Next()
		if err != nil {
			return 0, 0, err
		}
		if frame.Type != frames.TypeMethod {
			continue
		}
		id, args, err := frames.SplitMethod(frame.Payload)
		var ack frames.BasicAck
		if err != nil || id != frames.BasicAckID || ack.Decode(args) != nil {
			return 0, 0, unexpected(frame.Payload)
		}
		if ack.Multiple {
			return 0, ack.DeliveryTag, nil
		}
		return ack.DeliveryTag, ack.DeliveryTag, nil
	}
}

// roundsResult sums up times to confirm.
func roundsResult(times []time.Duration, took, cpu time.Duration) Result {
	slices.Sort(times)
	n := len(times)
	if n == 0 {
		return Result{}
	}
	return Result{
		Seconds: took.Seconds(), Messages: int64(n), Rate: float64(n) / took.Seconds(), CPUMicros: float64(cpu.Microseconds()) / float64(n),
		P50Micros: float64(times[n/2].Nanoseconds()) / 1000, P99Micros: float64(times[n*99/100].Nanoseconds()) / 1000,
	}
}

// manyInFlight is the confirms in flight of each connection of confirmMany.
const manyInFlight = 10

// confirmMany has many connections publish, each to its own queue and with its
// own consumer.
func (c *Config) confirmMany() (Result, error) {
	n := c.count(100)
	name := queueName()
	beside := newFlow(window, 1)
	producers := make([]*client, n)
	for i := range producers {
		in, err := c.confirming()
		if err != nil {
			return Result{}, err
		}
		out, err := dial(c.URI)
		if err != nil {
			return Result{}, err
		}
		defer in.conn.Close()
		defer out.conn.Close()
		if err := durableQueue(in, out, fmt.Sprintf("%s-%d", name, i)); err != nil {
			return Result{}, err
		}
		go beside.consume(out, manyInFlight)
		producers[i] = in
	}
	defer beside.stop.Store(true)
	round := func(d time.Duration) (times []time.Duration, failed error) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		until := time.Now().Add(d)
		for i, in := range producers {
			wg.Go(func() {
				own, err := c.rounds(in, fmt.Sprintf("%s-%d", name, i), manyInFlight, until)
				mu.Lock()
				defer mu.Unlock()
				if times = append(times, own...); err != nil {
					failed = err
				}
			})
		}
		wg.Wait()
		return times, failed
	}
	if _, err := round(c.Warm); err != nil {
		return Result{}, err
	}
	p := &process{c.PID}
	start, used, before := time.Now(), p.cpu(), beside.done.Load()
	times, err := round(c.Duration)
	if err != nil {
		return Result{}, err
	}
	took := time.Since(start)
	r := roundsResult(times, took, p.cpu()-used)
	r.Consumed = float64(beside.done.Load()-before) / took.Seconds()
	return r, nil
}
