package management

import "github.com/warrenmq/warren/amqp/broker"

// resourceNames are the resources in the words of health checks, in
// RabbitMQ's order (verified on 3.10.8 and 4.3.6).
var resourceNames = []struct {
	resource broker.Resource
	name     string
}{{broker.Disk, "disk space"}, {broker.Memory, "memory"}}

// alarmCheck is the health check "alarms", or "local-alarms"; where says whose
// alarms it speaks of.
func (q *request) alarmCheck(where string) (any, error) {
	now := q.api.broker.Alarms()
	if now == 0 {
		return healthy(q)
	}
	var list []object
	for _, n := range resourceNames {
		if now&n.resource != 0 {
			list = append(list, object{"node": nodeName, "resource": n.name})
		}
	}
	return q.unhealthy(object{"status": "failed", "reason": "There are alarms in effect " + where, "alarms": list})
}

// addUsage adds to a node what was measured and what is low.
func addUsage(o object, b *broker.Broker) {
	now, u := b.Alarms(), b.Usage()
	o["mem_alarm"], o["disk_free_alarm"] = now&broker.Memory != 0, now&broker.Disk != 0
	o["mem_limit"], o["disk_free"], o["disk_free_limit"] = u.MemoryLimit, u.DiskFree, u.DiskFreeLimit
	if u.MemoryUsed > 0 { // as the alarm counts it
		o["mem_used"] = u.MemoryUsed
	}
}
