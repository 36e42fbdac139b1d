//go:build unix

package persist

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuTime is what this process has used, user and system.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAppendCommit is publishing with confirms: so many messages of 1 KiB
// in flight, commits as large as that makes them, and every message settled
// once a thousand others came after it.
func BenchmarkAppendCommit(b *testing.B) {
	for _, inFlight := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint("inflight=", inFlight), func(b *testing.B) {
			s := openDir(b, b.TempDir())
			l, w := s.Log(s.NextID()), newCountdown(inFlight)
			body := strings.Repeat("x", 1000)
			b.SetBytes(1024)
			b.ReportAllocs()
			used := cpuTime(b)
			for i := range b.N {
				<-w.tokens
				m := newMessage(w, uint64(i), "twenty-four bytes of head", body)
				l.Append(uint64(i+1), &m.Record, Meta{})
				if i > 1000 {
					l.Settle(uint64(i - 1000))
				}
			}
			barrier(b, s)
			b.ReportMetric(float64((cpuTime(b)-used).Nanoseconds())/float64(b.N), "cpu-ns/op")
			st := s.Stats()
			b.ReportMetric(float64(st.Written)/float64(max(1, st.Commits)), "msg/commit")
		})
	}
}

// BenchmarkAppendSettle is a consumer that keeps up with unconfirmed
// publishing.
func BenchmarkAppendSettle(b *testing.B) {
	s := openDir(b, b.TempDir())
	l := s.Log(s.NextID())
	messages := make([]message, 64)
	for i := range messages {
		messages[i].body = make([]byte, 1000)
	}
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		m := &messages[i%len(messages)]
		m.Init(m, nil, 0)
		l.Append(uint64(i+1), &m.Record, Meta{})
		l.Settle(uint64(i + 1))
	}
	b.StopTimer()
	barrier(b, s)
	st := s.Stats()
	b.ReportMetric(float64(st.Written), "written")
}

// BenchmarkDrain fills a queue with a million messages of 1 KiB, drains it in
// order and looks how long it takes until the disk has its space back, at most
// a minute. Run it with -benchtime 1x.
func BenchmarkDrain(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		s := openDir(b, dir)
		l, w := s.Log(s.NextID()), newCountdown(1000)
		body := strings.Repeat("x", 1000)
		const n = 1_000_000
		for i := uint64(1); i <= n; i++ {
			<-w.tokens
			m := newMessage(w, i, "twenty-four bytes of head", body)
			l.Append(i, &m.Record, Meta{})
		}
		barrier(b, s)
		full := folderSize(b, dir)
		for i := uint64(1); i <= n; i++ {
			l.Settle(i)
			if i%1000 == 0 {
				time.Sleep(10 * time.Microsecond) // a consumer is no faster
			}
		}
		barrier(b, s)
		drained := time.Now()
		for folderSize(b, dir) > 150e6 && time.Since(drained) < time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		b.ReportMetric(float64(full)/1e6, "MB-full")
		b.ReportMetric(time.Since(drained).Seconds(), "s-to-150MB")
		time.Sleep(10 * time.Second)
		b.ReportMetric(float64(folderSize(b, dir))/1e6, "MB-after")
		st := s.Stats()
		b.Logf("%+v", st)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
