package stream

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// TestManyReaders: readers begin anywhere, go at their own speed and leave,
// while messages are appended and segments deleted. Each sees every message
// once, in order, except those that were deleted before it came to them.
func TestManyReaders(t *testing.T) {
	both(t, func(t *testing.T, stored bool) {
		size := persist.StoredSize(1, int64(message("").HeadSize()), 6)
		f := newFixture(t, stored, Config{Retention: Retention{MaxBytes: 2000 * size}, SegmentBytes: 200 * size})
		const messages = 10_000
		var publisher, readers sync.WaitGroup
		stop := make(chan struct{})
		publisher.Go(func() {
			for i := 0; i < messages; i += 50 {
				var batch []*queue.Message
				for j := range 50 {
					batch = append(batch, message(fmt.Sprint("m", i+j)))
				}
				f.publish(batch...)
			}
			close(stop)
		})
		for n := range uint64(8) {
			readers.Go(func() { readUntil(t, f, rand.New(rand.NewPCG(n, 1)), stop) })
		}
		publisher.Wait()
		readers.Wait()
		first, next := f.log.Offsets()
		if next != messages || first == 0 {
			t.Errorf("the stream holds %d to %d", first, next)
		}
		if n := f.q.Counts(); n.Unacked != 0 || n.Consumers != 0 {
			t.Errorf("%d unacknowledged, %d consumers", n.Unacked, n.Consumers)
		}
	})
}

// readUntil runs one reader after another.
func readUntil(t *testing.T, f *fixture, rnd *rand.Rand, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		_, next := f.log.Offsets()
		s := f.consume(1+rnd.IntN(300), &queue.Reading{From: queue.AtOffset, Offset: rnd.Uint64N(next + 1)})
		for range 1 + rnd.IntN(20) {
			s.ack()
			s.pause(rnd.IntN(20))
		}
		f.q.RemoveConsumer(&s.Consumer)
		s.ack()
		for i, at := range s.offsets {
			if s.got[i] != fmt.Sprint("m", at) {
				t.Errorf("offset %d is %q", at, s.got[i])
			}
			if i == 0 || at == s.offsets[i-1]+1 {
				continue
			}
			if first, _ := f.log.Offsets(); at < s.offsets[i-1] || at > first {
				t.Errorf("offset %d after %d, and the oldest is %d", at, s.offsets[i-1], first)
			}
		}
	}
}

// pause waits until so many deliveries are outstanding, or for a moment.
func (s *sink) pause(n int) {
	for range 100 {
		s.mu.Lock()
		enough := len(s.pending) >= n
		s.mu.Unlock()
		if enough {
			return
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// TestLongStreamIsNotInMemory: what a stream of 200,000 messages costs in
// memory, at rest and while it is read from its beginning.
func TestLongStreamIsNotInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 200 MB")
	}
	f := newFixture(t, true, Config{Retention: keep})
	before := heap()
	const messages, bodyBytes = 200_000, 1000
	body := strings.Repeat("b", bodyBytes)
	for i := 0; i < messages; i += 2000 {
		var batch []*queue.Message
		for range 2000 {
			batch = append(batch, message(body))
		}
		f.publish(batch...)
	}
	const most = cacheBytes + 16<<20
	if grown := heap() - before; grown > most {
		t.Errorf("the heap grew by %d bytes while %d were appended", grown, messages*bodyBytes)
	}
	c := &counter{f: f}
	c.Consumer = queue.Consumer{Sink: c, Reading: &queue.Reading{From: queue.First}}
	c.done = make(chan struct{})
	c.all = messages
	if err := f.q.AddConsumer(&c.Consumer); err != nil {
		t.Fatal(err)
	}
	f.q.Resume(&c.Consumer)
	<-c.done
	f.rest()
	if grown := heap() - before; grown > most {
		t.Errorf("the heap grew by %d bytes while %d were read", grown, messages*bodyBytes)
	}
}

// counter is a consumer that takes everything and keeps nothing.
type counter struct {
	queue.Consumer
	f      *fixture
	n, all int
	done   chan struct{}
}

// Deliver implements queue.Sink.
func (c *counter) Deliver(_ *queue.Consumer, e *queue.Entry) bool {
	if e.Seq != uint64(c.n) {
		c.f.t.Errorf("offset %d, want %d", e.Seq, c.n)
	}
	if c.n++; c.n == c.all {
		close(c.done)
	}
	return true
}

// Cancelled implements queue.Sink.
func (c *counter) Cancelled(*queue.Consumer) {}

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
