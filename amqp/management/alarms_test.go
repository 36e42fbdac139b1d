package management_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/amqp/broker/resource"
	"github.com/warrenmq/warren/amqp/management"
	"github.com/warrenmq/warren/frames/compat"
)

// TestAlarms: health checks fail with RabbitMQ's words while something is low
// (seen on 3.10.8 and 4.3.6, whose keys come in another order), and the node
// says what.
func TestAlarms(t *testing.T) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	b, err := broker.Open(broker.Options{Profile: compat.V4, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(management.New(management.Options{Broker: b, Logger: quiet, Version: "test"}))
	defer func() {
		s.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	b.Watch(broker.Limits{Memory: resource.Watermark{Bytes: 1 << 40}})
	const low = `[{"node":"warren@localhost","resource":"disk space"},{"node":"warren@localhost","resource":"memory"}]`
	for _, alarmed := range []bool{false, true, false} {
		wantStatus, want := 200, map[string]string{"alarms": `{"status":"ok"}`, "local-alarms": `{"status":"ok"}`}
		if b.ClearAlarm(broker.Memory | broker.Disk); alarmed {
			b.SetAlarm(broker.Memory | broker.Disk)
			wantStatus = 503
			want["alarms"] = `{"alarms":` + low + `,"reason":"There are alarms in effect in the cluster","status":"failed"}`
			want["local-alarms"] = `{"alarms":` + low + `,"reason":"There are alarms in effect on the node","status":"failed"}`
		}
		for check, body := range want {
			if status, got, _ := call(t, s, "guest:guest", "GET", "/health/checks/"+check, ""); status != wantStatus || got != body {
				t.Errorf("%s: %d %s, want %d %s", check, status, got, wantStatus, body)
			}
		}
		_, text, _ := call(t, s, "guest:guest", "GET", "/nodes/warren@localhost", "")
		var node struct {
			Memory bool   `json:"mem_alarm"`
			Disk   bool   `json:"disk_free_alarm"`
			Used   uint64 `json:"mem_used"`
			Limit  uint64 `json:"mem_limit"`
		}
		if err := json.Unmarshal([]byte(text), &node); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]any{alarmed, alarmed, true, uint64(1 << 40)}, []any{node.Memory, node.Disk, node.Used > 0, node.Limit}); diff != "" {
			t.Errorf("node (-want +got):\n%s", diff)
		}
	}
}
