package bench

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp/amqptest"
)

// TestScenarios: every scenario measures something on a broker of this
// process.
func TestScenarios(t *testing.T) {
	b := amqptest.Start(t)
	for _, s := range scenarios {
		if s.name == "coldstart" {
			continue // TestColdstart
		}
		t.Run(s.name, func(t *testing.T) {
			r, err := Run(Config{
				URI: b.URI(), Scenario: s.name, Size: 100, Duration: 100 * time.Millisecond, Warm: 10 * time.Millisecond,
				N: map[string]int{"topic": 60, "connections": 20, "confirmmany": 5, "queues": 120, "drain": 5000, "drainpersistent": 5000}[s.name], PID: os.Getpid(),
			})
			if err != nil {
				t.Fatal(err)
			}
			if r.Messages == 0 || r.Rate == 0 || s.name == "latency" && r.P50Micros == 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestColdstart connects to a broker that is there already: the command is
// only started and ended.
func TestColdstart(t *testing.T) {
	b := amqptest.Start(t)
	r, err := Run(Config{URI: b.URI(), Scenario: "coldstart", Exec: []string{os.Args[0], "-test.run", "^$"}})
	if err != nil || r.OpenMillis <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestErrors(t *testing.T) {
	b := amqptest.Start(t)
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{URI: b.URI(), Scenario: "bogus"}, `unknown scenario "bogus"`},
		{Config{URI: b.URI(), Scenario: "autoack", Size: -1}, "body size -1"},
		{Config{URI: "http://x", Scenario: "autoack"}, "must look like amqp://"},
		{Config{URI: "amqp://127.0.0.1:1", Scenario: "ack"}, "connection refused"},
		{Config{URI: strings.Replace(b.URI(), "/%2F", "/none", 1), Scenario: "ack"}, "530"},
		{Config{URI: b.URI(), Scenario: "coldstart"}, "needs the broker's command"},
	} {
		if _, err := Run(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
}
