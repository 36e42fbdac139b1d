package broker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/amqp/broker/resource"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/persist"
)

// machine is what a test says there is. Owned by the test, which looks itself.
type machine struct {
	*watch
	memory, garbage uint64
	disk            uint64
	diskError       error
	collections     int
	softLimits      []int64
}

const mib = 1 << 20

// newMachine has a broker watch a machine of 1000 MiB of memory.
func newMachine(t *testing.T, b *Broker, l Limits) *machine {
	t.Helper()
	m := &machine{disk: 10_000 * mib}
	m.watch = &watch{
		b: b, limits: l, total: 1000 * mib,
		used: func() (uint64, error) { return m.memory + m.garbage, nil },
		free: func() (uint64, error) { return m.disk, m.diskError },
		collect: func() {
			m.garbage = 0
			m.collections++
			time.Sleep(time.Millisecond)
		},
		limit: func(n int64) int64 { m.softLimits = append(m.softLimits, n); return 0 },
	}
	return m
}

// TestMemoryWatch: the alarm is raised above the limit, cleared clearly below
// it, and garbage does not count.
func TestMemoryWatch(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	m := newMachine(t, b, Limits{Memory: resource.Watermark{Fraction: 0.4}})
	m.start()
	for _, step := range []struct {
		memory, garbage uint64
		low             Resource
	}{
		{400, 0, 0},
		{300, 300, 0}, // garbage
		{401, 0, Memory},
		{399, 0, Memory}, // not clearly below
		{381, 0, Memory},
		{379, 0, 0},
		{399, 0, 0},
		{500, 0, Memory},
		{100, 450, 0}, // garbage of what was consumed
	} {
		m.memory, m.garbage = step.memory*mib, step.garbage*mib
		m.nextCollect = time.Time{}
		m.look()
		if got := b.Alarms(); got != step.low {
			t.Errorf("%+v: %q is low", step, got)
		}
		if got := b.Usage(); got.MemoryLimit != 400*mib || got.MemoryUsed > (step.memory+step.garbage)*mib {
			t.Errorf("%+v: usage %+v", step, got)
		}
	}
}

// TestMemoryWatchCollectsSeldom: garbage is looked for a twentieth of the time
// at most.
func TestMemoryWatchCollectsSeldom(t *testing.T) {
	m := newMachine(t, openBroker(t, compat.V4, ""), Limits{Memory: resource.Watermark{Bytes: 100 * mib}})
	m.memory = 200 * mib
	m.start()
	start := time.Now()
	for time.Since(start) < 200*time.Millisecond {
		m.look()
	}
	if most := int(time.Since(start)/(collectShare*time.Millisecond)) + 2; m.collections == 0 || m.collections > most {
		t.Errorf("%d collections, want 1 to %d", m.collections, most)
	}
}

// TestSoftMemoryLimit: the collector hears of the watermark once, of more while
// the alarm stands, and never of almost nothing.
func TestSoftMemoryLimit(t *testing.T) {
	m := newMachine(t, openBroker(t, compat.V4, ""), Limits{Memory: resource.Watermark{Bytes: 400 * mib}, SoftMemoryLimit: true})
	m.start()
	m.look()
	m.memory = 500 * mib
	m.look()
	m.look()
	m.memory = 0
	m.look()
	m.b.SetMemoryWatermark(resource.Watermark{Bytes: 1})
	m.b.SetMemoryWatermark(resource.Watermark{})
	want := []int64{400 * mib, 700 * mib, 400 * mib, minSoftLimit, 1<<63 - 1}
	if diff := cmp.Diff(want, m.softLimits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// TestDiskWatch: the floor counts when the configured limit is lower; a disk
// that cannot be asked raises nothing.
func TestDiskWatch(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	m := newMachine(t, b, Limits{DiskFree: 50e6})
	m.start()
	look := func(free uint64, err error, want Resource) {
		t.Helper()
		m.disk, m.diskError = free, err
		m.look()
		if got := b.Alarms(); got != want {
			t.Errorf("%d bytes free, %v: %q is low", free, err, got)
		}
	}
	look(persist.FreeFloor, nil, 0)
	look(persist.FreeFloor-1, nil, Disk)
	look(0, nil, Disk)
	look(0, errors.New("gone"), 0)
	look(0, nil, Disk)
	look(persist.FreeFloor, nil, 0)
	b.SetDiskFreeLimit(1000 * mib)
	look(999*mib, nil, Disk)
	b.SetDiskFreeLimit(0)
	look(999*mib, nil, 0)
	if got := b.Usage(); got.DiskFree != 999*mib || got.DiskFreeLimit != persist.FreeFloor {
		t.Errorf("usage %+v", got)
	}
}

// TestWatchLimits: new limits count at once; no limit is none.
func TestWatchLimits(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	b.SetMemoryWatermark(resource.Watermark{Bytes: 1}) // nobody watches
	b.SetDiskFreeLimit(1 << 60)
	m := newMachine(t, b, Limits{})
	m.memory = 900 * mib
	m.start()
	if b.Alarms() != 0 {
		t.Errorf("%q is low without a limit", b.Alarms())
	}
	b.SetMemoryWatermark(resource.Watermark{Fraction: 1e-9})
	if b.Alarms() != Memory {
		t.Errorf("%q is low", b.Alarms())
	}
	b.SetMemoryWatermark(resource.Watermark{Fraction: 0.9})
	if b.Alarms() != 0 {
		t.Errorf("%q is low at the limit itself", b.Alarms())
	}
}

// TestWatchInterval: every second; sooner when the disk could be full before.
func TestWatchInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBroker(t, compat.V4, "")
		m := newMachine(t, b, Limits{Memory: resource.Watermark{Bytes: 1000 * mib}})
		looks := 0
		free := m.free
		m.free = func() (uint64, error) { looks++; return free() }
		m.start()
		count := func(disk, memory uint64) int {
			m.mu.Lock()
			m.disk, m.memory, looks = disk, memory, 0
			m.mu.Unlock()
			time.Sleep(10*time.Second + 50*time.Millisecond)
			m.mu.Lock()
			defer m.mu.Unlock()
			return looks
		}
		if n := count(persist.FreeFloor+10_000*mib, 0); n != 10 {
			t.Errorf("%d looks in 10 s", n)
		}
		if n := count(persist.FreeFloor+100*mib, 0); n < 40 || n > 52 {
			t.Errorf("%d looks in 10 s with 100 MiB to go, want one every 0.2 s", n)
		}
		if n := count(persist.FreeFloor, 0); n < 90 || n > 102 {
			t.Errorf("%d looks in 10 s at the limit, want one every 0.1 s", n)
		}
		if n := count(persist.FreeFloor+10_000*mib, 950*mib); n < 90 || n > 102 {
			t.Errorf("%d looks in 10 s with 50 MiB of memory to go, want one every 0.1 s", n)
		}
		if n := count(0, 1200*mib); n < 10 || n > 12 {
			t.Errorf("%d looks in 10 s while both alarms stand", n)
		}
	})
}

// TestRealWatch measures this machine.
func TestRealWatch(t *testing.T) {
	b := openBroker(t, compat.V4, t.TempDir())
	b.Watch(Limits{Memory: resource.Watermark{Fraction: 1}, DiskFree: 1})
	u := b.Usage()
	if u.MemoryUsed == 0 || u.MemoryTotal < u.MemoryUsed || u.DiskFree == 0 || u.DiskFreeLimit == 0 {
		t.Errorf("usage %+v", u)
	}
	b.SetMemoryWatermark(resource.Watermark{Bytes: 1})
	if b.Alarms()&Memory == 0 {
		t.Error("a limit of one byte raises no alarm")
	}
	b.SetDiskFreeLimit(1 << 62)
	if b.Alarms() != Memory|Disk {
		t.Errorf("%q is low", b.Alarms())
	}
}

func TestParseLimits(t *testing.T) {
	got, err := ParseLimits("", "")
	want := Limits{Memory: resource.Watermark{Fraction: 0.4}, DiskFree: 50e6}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("defaults: %v\n%s", err, diff)
	}
	for _, bad := range [][2]string{{"2.0", ""}, {"", "much"}} {
		if _, err := ParseLimits(bad[0], bad[1]); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
