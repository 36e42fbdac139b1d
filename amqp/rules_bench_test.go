package amqp

import (
	"syscall"
	"testing"
	"time"

	"github.com/warrenmq/warren/frames"
)

// relayRules are the arguments of a relay's queue that are compared.
var relayRules = map[string][]frames.Field{
	"plain": nil,
	"ttl, max-length and dead letters": {
		{Key: "x-message-ttl", Value: int32(60_000)}, {Key: "x-max-length", Value: int32(1_000_000)},
		{Key: "x-dead-letter-exchange", Value: "amq.fanout"},
	},
	"active consumers":   {{Key: "x-max-active-consumers", Value: int32(1)}},
	"block-publishers":   {{Key: "x-max-length", Value: int32(1_000_000)}, {Key: "x-overflow", Value: "block-publishers"}},
	"priorities":         {{Key: "x-max-priority", Value: int32(9)}},
	"priorities, rising": {{Key: "x-max-priority", Value: int32(9)}, {Key: "x-priority-aging", Value: int32(1000)}},
}

// cpu is the processor time that this process has used: on a busy machine it
// says more than the time that has passed.
func cpu(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRules sends 1 KiB messages through queues with rules, in bursts of
// 500 with acknowledgement.
func BenchmarkRules(b *testing.B) {
	for name, arguments := range relayRules {
		b.Run(name, func(b *testing.B) {
			r := startRelay(b, startSite(b, nil, Options{}).listen(), 1024, true, arguments...)
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				r.run(b)
			}
			b.ReportMetric(float64(b.N*r.count)/b.Elapsed().Seconds(), "messages/s")
			b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N*r.count), "cpu-ns/message")
		})
	}
}

// Rules and priorities cost no allocation a message either.
func TestRulesAllocations(t *testing.T) {
	for name, arguments := range relayRules {
		t.Run(name, func(t *testing.T) {
			s := startSite(t, nil, Options{}).listen()
			if n := startRelay(t, s, 100, true, arguments...).allocations(t, 50); n > 0.5 {
				t.Errorf("%.2f allocations a message", n)
			}
		})
	}
}
