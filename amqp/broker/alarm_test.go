package broker

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/frames/compat"
)

// TestAlarms: what is set by hand and what is measured count together, and
// each is taken back by who set it; watchers hear of changes only.
func TestAlarms(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	var told []Resource
	b.OnAlarm(func(now Resource) {
		if now != b.Alarms() {
			t.Errorf("told %q while the broker says %q", now, b.Alarms())
		}
		told = append(told, now)
	})
	b.SetAlarm(Memory)
	b.SetAlarm(Memory)
	b.setMeasured(Memory)
	b.ClearAlarm(Memory)
	b.SetAlarm(Disk)
	b.setMeasured(0)
	b.ClearAlarm(Memory)
	b.ClearAlarm(Disk)
	b.ClearAlarm(Disk)
	if diff := cmp.Diff([]Resource{Memory, Memory | Disk, Disk, 0}, told); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// TestAlarmNames: RabbitMQ 3.10.8 and 4.3.6 list disk before memory.
func TestAlarmNames(t *testing.T) {
	for r, want := range map[Resource]string{0: "", Memory: "memory", Disk: "disk", Memory | Disk: "disk & memory"} {
		if got := r.String(); got != want {
			t.Errorf("%d is %q, want %q", r, got, want)
		}
	}
}
