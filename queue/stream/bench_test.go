package stream

import (
	"strings"
	"testing"

	"github.com/warrenmq/warren/queue"
)

// BenchmarkAppend is what a message of 1 KiB costs from the publish to its
// place on the shelf.
func BenchmarkAppend(b *testing.B) {
	for name, stored := range map[string]bool{"store": true, "memory": false} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, stored, Config{Retention: Retention{MaxBytes: 64 << 20}, SegmentBytes: 8 << 20})
			body := strings.Repeat("b", 1024)
			b.SetBytes(1024)
			b.ReportAllocs()
			for n := 0; n < b.N; n += 1000 {
				for range 1000 {
					f.q.Publish(message(body))
				}
				f.rest()
			}
		})
	}
}

// BenchmarkRead is what a message of 1 KiB costs from the shelf to a consumer,
// with chunks that are in no cache.
func BenchmarkRead(b *testing.B) {
	f := newFixture(b, true, Config{Retention: keep})
	body := strings.Repeat("b", 1024)
	for range 100 {
		for range 1000 {
			f.q.Publish(message(body))
		}
		f.rest()
	}
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += 100_000 {
		c := &counter{f: f, all: min(b.N-n, 100_000), done: make(chan struct{})}
		c.Consumer = queue.Consumer{Sink: c, Reading: &queue.Reading{From: queue.First}}
		if err := f.q.AddConsumer(&c.Consumer); err != nil {
			b.Fatal(err)
		}
		f.q.Resume(&c.Consumer)
		<-c.done
		f.q.RemoveConsumer(&c.Consumer)
	}
}
