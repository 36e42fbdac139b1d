package broker

import (
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// The default dead-letter exchange of a virtual host takes what dies in queues that name no dead-letter exchange,
// neither by argument nor by policy. It is off unless set. What it gets is marked as every dead letter is: x-death
// with queue, reason, time and count. It never makes a loop: over it, a message goes to no queue that it died in
// before, whatever the reason; so a message that is rejected in the queue for dead messages is gone, as it would be
// without the setting.

// withFallback is the set with another default dead-letter exchange.
func (s *policySet) withFallback(name string) *policySet {
	next := *s
	next.fallback = name
	return &next
}

// diedIn says whether a dead letter tells of a death in the queue called target.
func diedIn(dead *queue.Message, target string) bool {
	properties := propertiesOf(dead)
	headers, _ := properties.Headers()
	deaths, _ := headers.Lookup(headerDeath)
	for it := deaths.ArrayIter(); it.Next(); {
		where, _ := frames.RawTable(it.Value().Data).Lookup("queue")
		if where.Type == 'S' && string(where.Data) == target {
			return true
		}
	}
	return false
}
