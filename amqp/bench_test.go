package amqp

import (
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

// relay is a publisher and a consumer on one server: messages go end to end
// over loopback, in bursts that a read brings together.
type relay struct {
	publisher net.Conn
	burst     []byte // publishes as they are on the wire
	count     int    // of messages in burst
	acks      bool
	consumer  net.Conn
	due       int // octets that a burst's deliveries take
	ack       []byte
	got       []byte
	delivered uint64
}

// relayTag keeps deliveries of one length.
const relayTag = "t"

func startRelay(t testing.TB, s *site, size int, acks bool, arguments ...frames.Field) *relay {
	t.Helper()
	p, c := s.connect().open(1), s.connect().open(1)
	call[*frames.QueueDeclareOk](p, 1, &frames.QueueDeclare{Queue: "q", Arguments: arguments})
	call[*frames.BasicQosOk](c, 1, &frames.BasicQos{PrefetchCount: 2000})
	call[*frames.BasicConsumeOk](c, 1, &frames.BasicConsume{Queue: "q", ConsumerTag: relayTag, NoAck: !acks})
	r := &relay{publisher: p.socket, consumer: c.socket, count: 500, acks: acks}
	body := make([]byte, size)
	for range r.count {
		p.addPublish(1, "q", transient, body)
	}
	r.burst = p.buf
	one := frames.AppendDeliver(nil, 1, relayTag, 1, false, "", "q")
	one = frames.AppendHeaderFrame(one, 1, uint64(size), nil)
	one = frames.AppendBodyFrames(one, 1, body, 131072)
	r.due = len(one) * r.count
	r.got = make([]byte, r.due)
	r.ack = frames.AppendAck(nil, 1, 0, true)
	return r
}

// run sends a burst through; the test's end allocates nothing.
func (r *relay) run(t testing.TB) {
	if _, err := r.publisher.Write(r.burst); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r.consumer, r.got); err != nil {
		t.Fatal(err)
	}
	r.delivered += uint64(r.count)
	if r.acks {
		binary.BigEndian.PutUint64(r.ack[frames.HeaderSize+4:], r.delivered)
		if _, err := r.consumer.Write(r.ack); err != nil {
			t.Fatal(err)
		}
	}
}

// allocations per message of n bursts.
func (r *relay) allocations(t testing.TB, n int) float64 {
	var before, after runtime.MemStats
	for range 10 {
		r.run(t)
	}
	runtime.ReadMemStats(&before)
	for range n {
		r.run(t)
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n*r.count)
}

// TestAllocations: a transient message costs next to no allocation of its own
// on the way from publisher to consumer.
func TestAllocations(t *testing.T) {
	for name, acks := range map[string]bool{"no-ack": false, "acknowledged": true} {
		t.Run(name, func(t *testing.T) {
			s := startSite(t, nil, Options{}).listen()
			// One block of 32 messages and the bodies' blocks are about 0.05 a
			// message; the rest is room for the race detector and a busy machine.
			if n := startRelay(t, s, 100, acks).allocations(t, 50); n > 0.5 {
				t.Errorf("%.2f allocations a message", n)
			} else {
				t.Logf("%.3f allocations a message", n)
			}
		})
	}
}

func benchmarkRelay(b *testing.B, size int, acks bool, listen func(*broker.Hooks)) {
	s := startSite(b, nil, Options{}).listen()
	listen(&s.broker.Hooks)
	r := startRelay(b, s, size, acks)
	b.SetBytes(int64(size * r.count))
	b.ReportAllocs()
	for b.Loop() {
		r.run(b)
	}
	perMessage := float64(b.Elapsed().Nanoseconds()) / float64(b.N*r.count)
	b.ReportMetric(perMessage, "ns/message")
	b.ReportMetric(1e9/perMessage, "messages/s")
}

// BenchmarkRelay's operation is a burst of 500 messages.
func BenchmarkRelay(b *testing.B) {
	nobody := func(*broker.Hooks) {}
	b.Run("100", func(b *testing.B) { benchmarkRelay(b, 100, false, nobody) })
	b.Run("100/acknowledged", func(b *testing.B) { benchmarkRelay(b, 100, true, nobody) })
	b.Run("20000", func(b *testing.B) { benchmarkRelay(b, 20_000, false, nobody) })
}

// BenchmarkHooks compares nobody listening with an observer and an
// interceptor.
func BenchmarkHooks(b *testing.B) {
	b.Run("nobody", func(b *testing.B) { benchmarkRelay(b, 100, true, func(*broker.Hooks) {}) })
	b.Run("observer", func(b *testing.B) {
		benchmarkRelay(b, 100, true, func(h *broker.Hooks) {
			remove, _ := h.AddObserver(observerFunc(func([]broker.Event) {}), 1<<16)
			b.Cleanup(remove)
		})
	})
	b.Run("interceptor", func(b *testing.B) {
		benchmarkRelay(b, 100, true, func(h *broker.Hooks) {
			b.Cleanup(h.AddInterceptor(&rule{match: func(*broker.Event) bool { return false }}))
		})
	})
}

// TestNobodyListens: without hooks a step costs the check and builds no event.
func TestNobodyListens(t *testing.T) {
	s := startSite(t, nil, Options{})
	ch := newChannel(&conn{server: s.server}, 1)
	if n := testing.AllocsPerRun(1000, func() {
		ch.observeMethod(frames.BasicQosID)
		ch.observeConfirm(1, false)
		ch.observePublish(broker.PublishRouted, nil, nil, 0)
		ch.observeSettled(nil, acked)
		if s.broker.Hooks.Intercepting() {
			t.Error("somebody intercepts")
		}
	}); n != 0 {
		t.Errorf("%v allocations for steps that nobody hears of", n)
	}
}

func BenchmarkNobodyListens(b *testing.B) {
	s := startSite(b, nil, Options{})
	ch := newChannel(&conn{server: s.server}, 1)
	b.ReportAllocs()
	for b.Loop() {
		ch.observeMethod(frames.BasicQosID)
	}
}
