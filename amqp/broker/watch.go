package broker

import (
	"cmp"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/warrenmq/warren/amqp/broker/resource"
	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// Limits are how much of the machine a node may use before it holds
// publishers.
type Limits struct {
	// Memory is vm_memory_high_watermark; the zero value is no limit.
	Memory resource.Watermark
	// DiskFree is disk_free_limit in bytes: what has to stay free where the
	// store is. It counts as persist.FreeFloor when it is less than that.
	DiskFree uint64
	// SoftMemoryLimit has Go's garbage collector keep the process below the
	// memory limit. It is a setting of the whole process, so only for whoever
	// owns that.
	SoftMemoryLimit bool
}

// Usage is what was measured last, in bytes. Limits that are 0 are none.
type Usage struct {
	MemoryUsed, MemoryLimit, MemoryTotal uint64
	DiskFree, DiskFreeLimit              uint64 // 0 without a store
}

// The times of watching.
const (
	watchInterval    = time.Second
	watchIntervalMin = 100 * time.Millisecond
	// fillRate is how fast, in bytes a second, memory or a disk may become full:
	// it decides how soon to look again when little is left. RabbitMQ's number
	// for disks.
	fillRate = 250 << 20
	// collectShare bounds what collecting garbage for the watch's sake costs:
	// after a collection, so many times its duration without one.
	collectShare = 20
)

// minSoftLimit is the lowest limit given to the garbage collector: below it, it
// would do nothing but collect.
const minSoftLimit = 64 << 20

// watch measures memory and disk and raises alarms.
type watch struct {
	// Immutable.
	b     *Broker
	total uint64 // bytes of memory there are
	used  func() (uint64, error)
	free  func() (uint64, error) // nil: no store
	// collect has the garbage collector give back what it can; limit tells it
	// how much the process should have at most.
	collect func()
	limit   func(bytes int64) int64

	// Guarded by mu, which is held while measuring. Before alarms.mu.
	mu          sync.Mutex
	limits      Limits
	usage       Usage
	low         Resource
	nextCollect time.Time       // connection time
	soft        int64           // what limit was told last
	broken      map[string]bool // measurements that fail, so that each is logged once
	timer       *queue.Timer
}

// Watch begins to measure memory and disk, at once and then every second, more
// often when the disk is nearly full, until Close. To be called once, before
// clients can connect.
func (b *Broker) Watch(l Limits) {
	w := &watch{b: b, limits: l, total: resource.Total(), used: resource.Used, collect: debug.FreeOSMemory, limit: debug.SetMemoryLimit}
	if b.store != nil {
		w.free = b.store.FreeSpace
	}
	w.start()
	u := b.Usage()
	b.log.Info("memory high watermark", "bytes", u.MemoryLimit, "of", u.MemoryTotal)
	if b.store != nil {
		b.log.Info("disk free limit", "bytes", u.DiskFreeLimit, "free", u.DiskFree)
	}
}

// start looks for the first time and makes the watch the broker's.
func (w *watch) start() {
	w.broken = map[string]bool{}
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	// Measuring may take long on a busy machine: not on the clock's goroutine.
	w.timer = w.b.Clock.AfterFunc(queue.ConnectionTime, w.interval(), func() { go w.again() })
	w.b.watch.Store(w)
}

// Usage gives what was measured last; zero when nobody watches.
func (b *Broker) Usage() Usage {
	w := b.watch.Load()
	if w == nil {
		return Usage{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.usage
}

// SetMemoryWatermark changes the memory limit, as `rabbitmqctl
// set_vm_memory_high_watermark` does, and measures at once. Without Watch it
// does nothing.
func (b *Broker) SetMemoryWatermark(m resource.Watermark) {
	b.changeLimits(func(l *Limits) { l.Memory = m })
}

// SetDiskFreeLimit changes the disk limit, as `rabbitmqctl
// set_disk_free_limit` does, and measures at once. Without Watch it does
// nothing.
func (b *Broker) SetDiskFreeLimit(bytes uint64) {
	b.changeLimits(func(l *Limits) { l.DiskFree = bytes })
}

func (b *Broker) changeLimits(change func(*Limits)) {
	w := b.watch.Load()
	if w == nil {
		return
	}
	w.mu.Lock()
	change(&w.limits)
	w.low &^= Memory // the margin of belowAgain is not for other limits
	w.mu.Unlock()
	w.look()
}

// again looks and sets the timer.
func (w *watch) again() {
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Reset(w.interval())
}

// look measures and says what is low.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.low
	w.low = w.lookAtMemory() | w.lookAtDisk()
	// Telling the collector stops the world for a moment.
	if soft := w.softLimit(); w.limits.SoftMemoryLimit && soft != w.soft {
		w.limit(soft)
		w.soft = soft
	}
	if w.low != before {
		w.b.log.Info("resources", "memory_used", w.usage.MemoryUsed, "memory_limit", w.usage.MemoryLimit,
			"disk_free", w.usage.DiskFree, "disk_free_limit", w.usage.DiskFreeLimit)
	}
	w.b.setMeasured(w.low)
}

// lookAtMemory says whether memory is low. mu is held.
//
// Garbage is not use: before the alarm is raised, and while it stands, it is
// collected and the memory given back, as seldom as collectShare says. Without
// that the alarm would stay long after the queues are empty, since a process
// that does nothing collects nothing.
func (w *watch) lookAtMemory() Resource {
	u := &w.usage
	u.MemoryTotal, u.MemoryLimit = w.total, w.limits.Memory.Limit(w.total)
	if u.MemoryUsed = w.measure("memory", w.used); u.MemoryLimit == 0 {
		return 0
	}
	threshold := u.MemoryLimit
	if w.low&Memory != 0 {
		threshold = belowAgain(threshold)
	}
	if u.MemoryUsed > threshold && !w.now().Before(w.nextCollect) {
		start := w.now()
		w.collect()
		w.nextCollect = w.now().Add(collectShare * w.now().Sub(start))
		u.MemoryUsed = w.measure("memory", w.used)
	}
	if u.MemoryUsed > threshold {
		return Memory
	}
	return 0
}

func (w *watch) now() time.Time { return w.b.Clock.ConnectionNow() }

// belowAgain is where memory must be before its alarm is cleared: a little
// under the limit, so that the alarm does not come and go every second.
func belowAgain(limit uint64) uint64 { return limit - limit/20 }

// lookAtDisk says whether the disk is low. mu is held.
func (w *watch) lookAtDisk() Resource {
	if w.free == nil {
		return 0
	}
	w.usage.DiskFreeLimit = max(w.limits.DiskFree, persist.FreeFloor)
	w.usage.DiskFree = w.measure("disk", w.free)
	if !w.broken["disk"] && w.usage.DiskFree < w.usage.DiskFreeLimit {
		return Disk
	}
	return 0
}

// measure logs the first of several failures, which count as 0. mu is held.
func (w *watch) measure(what string, measure func() (uint64, error)) uint64 {
	n, err := measure()
	if err != nil && !w.broken[what] {
		w.b.log.Warn("cannot measure "+what+": no alarm will be raised for it", "error", err)
	}
	w.broken[what] = err != nil
	return n
}

// interval is the time until the next look. What is far from its limit cannot
// be beyond it within a second; where an alarm stands, publishers are held
// already. mu is held.
func (w *watch) interval() time.Duration {
	u := &w.usage
	above := uint64(math.MaxUint64) // bytes until the next alarm
	if w.free != nil && !w.broken["disk"] && w.low&Disk == 0 {
		above = u.DiskFree - min(u.DiskFree, u.DiskFreeLimit)
	}
	if u.MemoryLimit > 0 && w.low&Memory == 0 {
		above = min(above, u.MemoryLimit-min(u.MemoryLimit, u.MemoryUsed))
	}
	soon := float64(above) / (2 * fillRate) * float64(time.Second)
	return time.Duration(min(max(soon, float64(watchIntervalMin)), float64(watchInterval)))
}

// softLimit is the garbage collector's limit: the watermark; while the alarm
// stands halfway from there to all memory, since what fills it then is no
// garbage, and to look for some all the time would only slow consumers down.
// Without a watermark there is none. mu is held.
func (w *watch) softLimit() int64 {
	limit := w.usage.MemoryLimit
	if limit == 0 {
		return math.MaxInt64
	}
	if w.low&Memory != 0 {
		limit += (max(w.total, limit) - limit) / 2
	}
	return int64(min(max(limit, minSoftLimit), math.MaxInt64))
}

// ParseLimits reads the limits of a command line: see resource.ParseWatermark
// and resource.ParseSize. Empty strings are RabbitMQ's defaults, 0.4 and 50 MB.
func ParseLimits(memory, diskFree string) (Limits, error) {
	m, err := resource.ParseWatermark(cmp.Or(memory, "0.4"))
	if err != nil {
		return Limits{}, err
	}
	d, err := resource.ParseSize(cmp.Or(diskFree, "50MB"))
	if err != nil {
		return Limits{}, err
	}
	return Limits{Memory: m, DiskFree: d}, nil
}
