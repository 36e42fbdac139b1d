package broker

import (
	"strings"
	"sync"
	"sync/atomic"
)

// Resource is what a node can run short of. A set of resources is their sum.
type Resource uint8

// The resources. While an alarm is raised for one of them, connections that
// publish are blocked.
const (
	Disk Resource = 1 << iota
	Memory
)

// resourceNames are in the order in which RabbitMQ lists them (verified on
// 3.10.8 and 4.3.6).
var resourceNames = []struct {
	resource Resource
	name     string
}{{Disk, "disk"}, {Memory, "memory"}}

// String lists the resources as connection.blocked does: "memory", "disk",
// "disk & memory"; "" for none.
func (r Resource) String() string {
	var names []string
	for _, n := range resourceNames {
		if r&n.resource != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, " & ")
}

// alarms is which resources are low, and who wants to know.
type alarms struct {
	raised atomic.Uint32 // what Alarms gives

	// mu is held while watchers are told, so that they are told in order. It
	// comes before every lock of a connection.
	mu       sync.Mutex
	byHand   Resource
	measured Resource
	watchers []func(now Resource)
}

// Alarms is the set of resources that are low. It is one atomic load.
func (b *Broker) Alarms() Resource { return Resource(b.alarms.raised.Load()) }

// SetAlarm raises alarms by hand, as `rabbitmqctl eval
// rabbit_alarm:set_alarm(...)` does, until ClearAlarm. When it returns, the
// next content frame of any connection blocks it. Not to be called with a
// connection's lock held, nor by a watcher.
func (b *Broker) SetAlarm(r Resource) {
	b.changeAlarms(func(a *alarms) { a.byHand |= r })
}

// ClearAlarm takes back what SetAlarm raised. When it returns, connections
// that no alarm holds any more are unblocked. What the node itself measures to
// be low stays raised: clearing that would not make room.
func (b *Broker) ClearAlarm(r Resource) {
	b.changeAlarms(func(a *alarms) { a.byHand &^= r })
}

// setMeasured says what measuring has found to be low.
func (b *Broker) setMeasured(r Resource) {
	b.changeAlarms(func(a *alarms) { a.measured = r })
}

// OnAlarm has fn told whenever the set of resources that are low changes, one
// call at a time. fn must not change alarms. It stays for the broker's life.
func (b *Broker) OnAlarm(fn func(now Resource)) {
	b.alarms.mu.Lock()
	defer b.alarms.mu.Unlock()
	b.alarms.watchers = append(b.alarms.watchers, fn)
}

func (b *Broker) changeAlarms(change func(*alarms)) {
	a := &b.alarms
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.byHand | a.measured
	change(a)
	now := a.byHand | a.measured
	if now == before {
		return
	}
	a.raised.Store(uint32(now))
	b.logAlarms(before, now)
	for _, tell := range a.watchers {
		tell(now)
	}
}

// logAlarms puts what changed into the log and tells observers.
func (b *Broker) logAlarms(before, now Resource) {
	for _, n := range resourceNames {
		switch {
		case now&^before&n.resource != 0:
			b.log.Warn(n.name + " alarm set: publishers are blocked until it is cleared")
			b.observe(Event{Step: AlarmSet, Text: n.name})
		case before&^now&n.resource != 0:
			b.log.Warn(n.name + " alarm cleared")
			b.observe(Event{Step: AlarmCleared, Text: n.name})
		}
	}
}
