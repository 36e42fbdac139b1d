// Package bench is the load generator of warren bench: it drives any AMQP
// 0-9-1 broker over raw sockets, so that it costs little beside the broker, and
// reports rates, latencies and, given the broker's process, CPU time a message.
package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/warrenmq/warren/frames"
)

// Config is one run.
type Config struct {
	URI      string
	Scenario string
	Size     int           // body bytes
	Duration time.Duration // measured
	Warm     time.Duration // before that
	N        int           // queues, bindings or connections, by scenario; 0 is its default
	PID      int           // of the broker; 0 reports no CPU and memory
	Exec     []string      // coldstart: the broker's command
}

// Result is what a run measured. Fields that the scenario does not have are
// zero and left out.
type Result struct {
	Scenario   string  `json:"scenario"`
	Size       int     `json:"size,omitempty"`
	Seconds    float64 `json:"seconds,omitempty"`
	Messages   int64   `json:"messages,omitempty"`
	Rate       float64 `json:"rate,omitempty"`     // messages a second: delivered, or confirmed
	Consumed   float64 `json:"consumed,omitempty"` // messages a second delivered, where Rate counts confirms
	CPUMicros  float64 `json:"cpu_us,omitempty"`   // of the broker, user and system, a message
	P50Micros  float64 `json:"p50_us,omitempty"`
	P99Micros  float64 `json:"p99_us,omitempty"`
	KiBPerConn float64 `json:"kib_per_connection,omitempty"`
	FirstRate  float64 `json:"first_rate,omitempty"` // publishes a second of the first tenth of a backlog
	LastRate   float64 `json:"last_rate,omitempty"`  // of the last tenth
	DrainRate  float64 `json:"drain_rate,omitempty"` // deliveries a second of the backlog
	AnonMiB    float64 `json:"anon_mib,omitempty"`   // the broker's own memory, at most, while the backlog grew
	AfterMiB   float64 `json:"after_mib,omitempty"`  // its resident memory 2 s after the drain
	OpenMillis float64 `json:"open_ms,omitempty"`    // start of the process to connection.open-ok
}

// scenario is a row of the table of scenarios.
type scenario struct {
	name, what string
	run        func(*Config) (Result, error)
}

var scenarios = []scenario{
	{"autoack", "transient, one producer, one consumer without acknowledgement", func(c *Config) (Result, error) { return c.pipe(0, nil, [][]byte{properties(1, 0)}) }},
	{"ack", "the same with manual acknowledgement, multiple each 100, prefetch 1000", func(c *Config) (Result, error) { return c.pipe(100, nil, [][]byte{properties(1, 0)}) }},
	{"priority", "x-max-priority 10, priorities mixed", (*Config).priority},
	{"fanout", "fanout exchange to N queues with a consumer each (10)", (*Config).fanout},
	{"topic", "N wildcard bindings (1000) on 100 queues, consumed", (*Config).topic},
	{"confirm", "persistent messages to a durable queue, confirms with 1000 in flight, an acknowledging consumer beside", (*Config).confirm},
	{"confirmone", "the same with one confirm at a time and no consumer: time from publish to confirm", (*Config).confirmOne},
	{"confirmmany", "N connections (100) with a queue and a consumer each, 10 confirms in flight each", (*Config).confirmMany},
	{"backlog", "persistent messages to a durable queue without a consumer, confirms with 1000 in flight", (*Config).backlog},
	{"queues", "N durable queues (1000), a persistent message to each in turn, confirms with 1000 in flight, no consumer", (*Config).queues},
	{"drain", "N transient messages (1000000) published to a durable queue without a consumer, then consumed without acknowledgement", func(c *Config) (Result, error) { return c.drain(1) }},
	{"drainpersistent", "the same with persistent messages", func(c *Config) (Result, error) { return c.drain(2) }},
	{"latency", "publish to deliver at 1000 messages a second", (*Config).latency},
	{"connections", "N idle connections (1000) with a channel each", (*Config).connections},
	{"coldstart", "start of the command after -- to connection.open-ok", (*Config).coldstart},
}

// Scenarios describes the scenarios, a line each.
func Scenarios() string {
	var b strings.Builder
	for _, s := range scenarios {
		fmt.Fprintf(&b, "  %-16s %s\n", s.name, s.what)
	}
	return b.String()
}

// Run does one run.
func Run(c Config) (Result, error) {
	if c.Size < 0 || c.Size > 16<<20 {
		return Result{}, fmt.Errorf("body size %d is not between 0 and 16 MiB", c.Size)
	}
	for _, s := range scenarios {
		if s.name == c.Scenario {
			r, err := s.run(&c)
			r.Scenario, r.Size = c.Scenario, c.Size
			return r, err
		}
	}
	return Result{}, fmt.Errorf("unknown scenario %q; there are:\n%s", c.Scenario, Scenarios())
}

func (c *Config) count(most int) int {
	if c.N > 0 {
		return c.N
	}
	return most
}

// blockBytes is about how much a producer writes at once.
const blockBytes = 64 << 10

// block encodes messages until they fill a write, taking keys and properties
// in turn.
func (c *Config) block(exchange string, keys []string, props [][]byte, most int) (block []byte, count int64) {
	body := make([]byte, c.Size)
	for i := 0; len(block) < blockBytes && i < most || i == 0; i++ {
		block = appendPublish(block, exchange, keys[i%len(keys)], props[i%len(props)], body)
		count++
	}
	return block, count
}

// report turns what a flow measured into a result.
func (c *Config) report(f *flow, clients ...*client) (Result, error) {
	n, took, cpu, err := f.measure(c.Warm, c.Duration, &process{c.PID})
	f.stop.Store(true)
	if f.beside != nil {
		f.beside.stop.Store(true)
	}
	for _, cl := range clients {
		cl.conn.Close()
	}
	if err != nil {
		return Result{}, err
	}
	if n == 0 {
		return Result{}, errors.New("no message came through in the time measured")
	}
	return Result{
		Seconds: took.Seconds(), Messages: n, Rate: float64(n) / took.Seconds(), CPUMicros: float64(cpu.Microseconds()) / float64(n),
		Consumed: float64(f.consumed) / took.Seconds(),
	}, nil
}

// window is the most messages in flight where nothing else bounds them.
const window = 20_000

// pipe is one producer, one queue, one consumer.
func (c *Config) pipe(ackEvery int, args frames.Table, props [][]byte) (Result, error) {
	in, out, err := c.pair()
	if err != nil {
		return Result{}, err
	}
	q, err := out.queue(&frames.QueueDeclare{Exclusive: true, AutoDelete: true, Arguments: args})
	if err == nil && ackEvery > 0 {
		_, err = ask[*frames.BasicQosOk](out, 1, &frames.BasicQos{PrefetchCount: 1000})
	}
	if err == nil {
		_, err = ask[*frames.BasicConsumeOk](out, 1, &frames.BasicConsume{Queue: q, NoAck: ackEvery == 0})
	}
	if err != nil {
		return Result{}, err
	}
	f := newFlow(window, 1)
	block, count := c.block("", []string{q}, props, window/4)
	go f.consume(out, ackEvery)
	go f.produce(in, block, count)
	return c.report(f, in, out)
}

// pair dials a producer and a consumer.
func (c *Config) pair() (in, out *client, err error) {
	if in, err = dial(c.URI); err != nil {
		return nil, nil, err
	}
	if out, err = dial(c.URI); err != nil {
		in.conn.Close()
		return nil, nil, err
	}
	return in, out, nil
}

func (c *Config) priority() (Result, error) {
	var props [][]byte
	for p := range uint8(11) {
		props = append(props, properties(1, p*7%11))
	}
	return c.pipe(0, frames.Table{{Key: "x-max-priority", Value: int32(10)}}, props)
}

func (c *Config) fanout() (Result, error) {
	in, err := dial(c.URI)
	if err != nil {
		return Result{}, err
	}
	exchange := "warren-bench-fanout"
	if _, err := ask[*frames.ExchangeDeclareOk](in, 1, &frames.ExchangeDeclare{Exchange: exchange, Type: "fanout", AutoDelete: true}); err != nil {
		return Result{}, err
	}
	n := c.count(10)
	f := newFlow(window/int64(n), int64(n))
	clients := []*client{in}
	for range n {
		out, err := c.bound(exchange, []string{""})
		if err != nil {
			return Result{}, err
		}
		clients = append(clients, out)
		go f.consume(out, 0)
	}
	block, count := c.block(exchange, []string{""}, [][]byte{properties(1, 0)}, window/n/4)
	go f.produce(in, block, count)
	return c.report(f, clients...)
}

// bound dials a consumer of a new queue bound with some keys.
func (c *Config) bound(exchange string, keys []string) (*client, error) {
	out, err := dial(c.URI)
	if err != nil {
		return nil, err
	}
	return out, out.bind(exchange, keys)
}

// bind declares a queue, binds it and consumes from it.
func (c *client) bind(exchange string, keys []string) error {
	q, err := c.queue(&frames.QueueDeclare{Exclusive: true, AutoDelete: true})
	if err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := ask[*frames.QueueBindOk](c, 1, &frames.QueueBind{Queue: q, Exchange: exchange, RoutingKey: key}); err != nil {
			return err
		}
	}
	_, err = ask[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: q, NoAck: true})
	return err
}

// topic: queue i gets every binding whose number is i modulo 100, of the forms
// kN.*.#, *.kN.# and #.kN.z; each key published matches one binding of the
// first form.
func (c *Config) topic() (Result, error) {
	in, out, err := c.pair()
	if err != nil {
		return Result{}, err
	}
	exchange := "warren-bench-topic"
	if _, err := ask[*frames.ExchangeDeclareOk](in, 1, &frames.ExchangeDeclare{Exchange: exchange, Type: "topic", AutoDelete: true}); err != nil {
		return Result{}, err
	}
	n, queues := c.count(1000), 100
	bindings, keys := make([][]string, queues), make([]string, 0, n)
	for i := range n {
		form := [...]string{"k%d.*.#", "*.k%d.#", "#.k%d.z"}[i%3]
		bindings[i%queues] = append(bindings[i%queues], fmt.Sprintf(form, i))
		if i%3 == 0 {
			keys = append(keys, fmt.Sprintf("k%d.x.y", i))
		}
	}
	for _, keys := range bindings {
		if len(keys) == 0 {
			continue
		}
		if err := out.bind(exchange, keys); err != nil {
			return Result{}, err
		}
	}
	f := newFlow(window, 1)
	block, count := c.block(exchange, keys, [][]byte{properties(1, 0)}, window/4)
	go f.consume(out, 0)
	go f.produce(in, block, count)
	return c.report(f, in, out)
}

// latency stamps each message and paces them.
func (c *Config) latency() (Result, error) {
	in, out, err := c.pair()
	if err != nil {
		return Result{}, err
	}
	defer in.conn.Close()
	defer out.conn.Close()
	q, err := out.queue(&frames.QueueDeclare{Exclusive: true, AutoDelete: true})
	if err != nil {
		return Result{}, err
	}
	if _, err := ask[*frames.BasicConsumeOk](out, 1, &frames.BasicConsume{Queue: q, NoAck: true}); err != nil {
		return Result{}, err
	}
	p := &process{c.PID}
	n := int(c.Duration.Seconds() * 1000)
	start, used := time.Now(), p.cpu()
	failed := make(chan error, 1)
	go func() { failed <- c.pace(in, q, n, start) }()
	times, err := stamps(out, n, start)
	if err != nil {
		return Result{}, err
	}
	if err := <-failed; err != nil {
		return Result{}, err
	}
	took := time.Since(start)
	slices.Sort(times)
	return Result{
		Seconds: took.Seconds(), Messages: int64(n), Rate: float64(n) / took.Seconds(), CPUMicros: float64((p.cpu() - used).Microseconds()) / float64(n),
		P50Micros: float64(times[n/2].Nanoseconds()) / 1000, P99Micros: float64(times[n*99/100].Nanoseconds()) / 1000,
	}, nil
}

// pace publishes a message each millisecond, stamped with the time since
// start.
func (c *Config) pace(in *client, q string, n int, start time.Time) error {
	body := make([]byte, max(c.Size, 8))
	props := properties(1, 0)
	var b []byte
	for i := range n {
		time.Sleep(time.Until(start.Add(time.Duration(i) * time.Millisecond)))
		binary.BigEndian.PutUint64(body, uint64(time.Since(start)))
		b = appendPublish(b[:0], "", q, props, body)
		if _, err := in.conn.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// stamps reads n stamped messages and says how long each took.
func stamps(out *client, n int, start time.Time) ([]time.Duration, error) {
	times := make([]time.Duration, 0, n)
	if err := out.conn.SetReadDeadline(start.Add(time.Duration(n)*time.Millisecond + patience)); err != nil {
		return nil, err
	}
	for len(times) < n {
		f, err := out.r.Next()
		if err != nil {
			return nil, err
		}
		if f.Type == frames.TypeBody {
			times = append(times, time.Since(start)-time.Duration(binary.BigEndian.Uint64(f.Payload)))
		}
	}
	return times, nil
}

func (c *Config) connections() (Result, error) {
	p := &process{c.PID}
	n := c.count(1000)
	before, start := p.rss(), time.Now()
	for range n {
		cl, err := dial(c.URI)
		if err != nil {
			return Result{}, err
		}
		defer cl.conn.Close()
	}
	took := time.Since(start)
	r := Result{Seconds: took.Seconds(), Messages: int64(n), Rate: float64(n) / took.Seconds()}
	if c.PID != 0 {
		r.KiBPerConn = float64(p.rss()-before) / float64(n)
	}
	return r, nil
}

// coldstart starts the broker and connects as soon as it can.
func (c *Config) coldstart() (Result, error) {
	if len(c.Exec) == 0 {
		return Result{}, errors.New("coldstart needs the broker's command after --")
	}
	cmd := exec.Command(c.Exec[0], c.Exec[1:]...)
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return Result{}, fmt.Errorf("start the broker: %w", err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for {
		cl, err := dial(c.URI)
		if err == nil {
			took := time.Since(start)
			cl.conn.Close()
			return Result{OpenMillis: float64(took.Microseconds()) / 1000}, nil
		}
		if time.Since(start) > patience {
			return Result{}, err
		}
		time.Sleep(time.Millisecond)
	}
}
