// Command hostile connects many clients that misbehave to a broker, keeps
// them there, and measures what they cost: memory of the broker's process and
// the round trip of an honest client meanwhile. It is for a broker on this
// machine only; its run is bounded in clients and time.
//
//	go run ./conformance/hostile -addr 127.0.0.1:5672 -pid PID [-clients 1000] [-for 20s]
//
// The kinds, in equal parts: silent after the TCP connect, one byte of the
// protocol header a second, half a frame after the handshake, consuming
// without reading, thousands of basic.get without reading; and, ten in all,
// 2,047 channels each.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/frames"
)

var (
	addr    = flag.String("addr", "127.0.0.1:5672", "broker, on a loopback address")
	pid     = flag.Int("pid", 0, "the broker's process, for its memory")
	clients = flag.Int("clients", 1000, "hostile clients, at most 2000")
	span    = flag.Duration("for", 20*time.Second, "how long to measure, at most 2 minutes")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

// report is the one line of output.
type report struct {
	Clients       int     `json:"clients"`
	IdleMiB       float64 `json:"idle_mib"`
	PeakMiB       float64 `json:"peak_mib"`
	CostMiB       float64 `json:"cost_mib"`
	RoundTrips    int     `json:"round_trips"`
	P50Micros     int64   `json:"p50_us"`
	P99Micros     int64   `json:"p99_us"`
	AloneP99      int64   `json:"alone_p99_us"`
	HostileErrors int     `json:"hostile_connect_errors"`
}

func run() error {
	if a, err := netip.ParseAddrPort(*addr); err != nil || !a.Addr().IsLoopback() {
		return fmt.Errorf("%q is not a loopback address with a port", *addr)
	}
	n := min(*clients, 2000)
	honest, err := dialHonest()
	if err != nil {
		return err
	}
	defer honest.close()
	if err := honest.load(); err != nil {
		return err
	}
	alone, err := honest.measure(min(*span, 5*time.Second), nil)
	if err != nil {
		return fmt.Errorf("honest client alone: %w", err)
	}
	r := report{Clients: n, IdleMiB: memory(), AloneP99: percentile(alone, 99)}
	crowd := newCrowd(n)
	defer crowd.close()
	if err := honest.flood(); err != nil {
		return err
	}
	r.PeakMiB = r.IdleMiB
	times, err := honest.measure(min(*span, 2*time.Minute), func() { r.PeakMiB = max(r.PeakMiB, memory()) })
	if err != nil {
		return fmt.Errorf("honest client among hostile ones: %w", err)
	}
	r.CostMiB = r.PeakMiB - r.IdleMiB
	r.RoundTrips, r.P50Micros, r.P99Micros = len(times), percentile(times, 50), percentile(times, 99)
	r.HostileErrors = crowd.errors
	return json.NewEncoder(os.Stdout).Encode(r)
}

// memory is the resident memory of the broker's process in MiB; 0 without a
// pid or where there is no /proc.
func memory() float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", *pid))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kib, _ := strconv.Atoi(f[1])
			return float64(kib) / 1024
		}
	}
	return 0
}

func percentile(times []time.Duration, p int) int64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)*p/100, len(times)-1)].Microseconds()
}

// honestClient publishes to a queue and consumes from it.
type honestClient struct {
	conn *amqp091.Connection
	ch   *amqp091.Channel
	in   <-chan amqp091.Delivery
}

func dialHonest() (*honestClient, error) {
	conn, err := amqp091.Dial("amqp://guest:guest@" + *addr + "/")
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if _, err := ch.QueueDeclare("honest", false, true, true, false, nil); err != nil {
		return nil, err
	}
	in, err := ch.Consume("honest", "", true, true, false, false, nil)
	return &honestClient{conn, ch, in}, err
}

// load fills the queue that the hostile clients read from, with messages that
// the broker keeps in memory once however often they are asked for.
func (h *honestClient) load() error {
	if _, err := h.ch.QueueDeclare("bait", false, false, false, false, nil); err != nil {
		return err
	}
	if err := h.ch.ExchangeDeclare("bait", "fanout", false, false, false, false, nil); err != nil {
		return err
	}
	body := make([]byte, 1024)
	for range 10_000 {
		if err := h.ch.Publish("", "bait", false, false, amqp091.Publishing{Body: body}); err != nil {
			return err
		}
	}
	return nil
}

// flood gives each blind consumer's queue 2,000 messages of 1 KiB.
func (h *honestClient) flood() error {
	body := make([]byte, 1024)
	for range 2000 {
		if err := h.ch.Publish("bait", "", false, false, amqp091.Publishing{Body: body}); err != nil {
			return err
		}
	}
	return nil
}

func (h *honestClient) close() {
	_, _ = h.ch.QueueDelete("bait", false, false, false)
	_ = h.ch.ExchangeDelete("bait", false, false)
	h.conn.Close()
}

// measure does round trips, a few hundred a second, for a time.
func (h *honestClient) measure(span time.Duration, each func()) ([]time.Duration, error) {
	var times []time.Duration
	end := time.Now().Add(span)
	for time.Now().Before(end) {
		start := time.Now()
		if err := h.ch.Publish("", "honest", false, false, amqp091.Publishing{Body: []byte("ping")}); err != nil {
			return nil, err
		}
		select {
		case _, ok := <-h.in:
			if !ok {
				return nil, fmt.Errorf("the broker closed the honest client's channel")
			}
		case <-time.After(30 * time.Second):
			return nil, fmt.Errorf("no delivery within 30 s")
		}
		times = append(times, time.Since(start))
		if each != nil && len(times)%50 == 0 {
			each()
		}
		time.Sleep(2 * time.Millisecond)
	}
	return times, nil
}

// crowd holds the hostile connections.
type crowd struct {
	mu     sync.Mutex
	conns  []net.Conn
	errors int
	done   chan struct{}
}

func newCrowd(n int) *crowd {
	c := &crowd{done: make(chan struct{})}
	kinds := []func(net.Conn) error{c.silent, c.drip, c.halfFrame, c.consumeBlind, c.getBlind}
	var wait sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range n {
		kind := kinds[i%len(kinds)]
		if i < 10 {
			kind = c.manyChannels
		}
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			c.join(kind)
		})
	}
	wait.Wait()
	return c
}

func (c *crowd) join(kind func(net.Conn) error) {
	conn, err := net.Dial("tcp", *addr)
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
		err = kind(conn)
	}
	if err != nil {
		c.mu.Lock()
		c.errors++
		c.mu.Unlock()
	}
}

func (c *crowd) close() {
	close(c.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
}

func (c *crowd) silent(net.Conn) error { return nil }

// drip sends one byte a second.
func (c *crowd) drip(conn net.Conn) error {
	go func() {
		for _, b := range []byte("AMQP\x00\x00\x09\x01") {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
			select {
			case <-c.done:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	return nil
}

// handshake opens a connection by hand and reads no more than it must.
func handshake(conn net.Conn) error {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4096)
	}
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	defer conn.SetDeadline(time.Time{})
	if _, err := conn.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return err
	}
	r := frames.NewReader(conn)
	r.SetLimit(8192)
	steps := [][]frames.Method{
		{&frames.ConnectionStartOk{Mechanism: "PLAIN", Response: []byte("\x00guest\x00guest"), Locale: "en_US"}},
		{&frames.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072}, &frames.ConnectionOpen{VirtualHost: "/"}},
		nil,
	}
	for _, answer := range steps {
		if _, err := r.Next(); err != nil {
			return err
		}
		if err := send(conn, 0, answer...); err != nil {
			return err
		}
	}
	return nil
}

func send(conn net.Conn, channel uint16, methods ...frames.Method) error {
	var b []byte
	for _, m := range methods {
		b = frames.AppendMethodFrame(b, channel, m)
	}
	_, err := conn.Write(b)
	return err
}

func (c *crowd) halfFrame(conn net.Conn) error {
	if err := handshake(conn); err != nil {
		return err
	}
	_, err := conn.Write([]byte{1, 0, 1, 0, 1, 0, 0, 'x'})
	return err
}

// consumeBlind consumes from a queue of its own, which is flooded later, and
// never reads.
func (c *crowd) consumeBlind(conn net.Conn) error {
	if err := handshake(conn); err != nil {
		return err
	}
	return send(conn, 1,
		&frames.ChannelOpen{},
		&frames.QueueDeclare{Exclusive: true, AutoDelete: true},
		&frames.QueueBind{Exchange: "bait", NoWait: true},
		&frames.BasicConsume{NoAck: true, NoWait: true})
}

// getBlind asks for messages and never reads them.
func (c *crowd) getBlind(conn net.Conn) error {
	if err := handshake(conn); err != nil {
		return err
	}
	if err := send(conn, 1, &frames.ChannelOpen{}); err != nil {
		return err
	}
	var b []byte
	for range 5000 {
		b = frames.AppendMethodFrame(b, 1, &frames.BasicGet{Queue: "bait", NoAck: false})
	}
	go conn.Write(b) // as above
	return nil
}

func (c *crowd) manyChannels(conn net.Conn) error {
	if err := handshake(conn); err != nil {
		return err
	}
	var b []byte
	for id := 1; id <= 2047; id++ {
		b = frames.AppendMethodFrame(b, uint16(id), &frames.ChannelOpen{})
	}
	_, err := conn.Write(b)
	return err
}
