package broker

import (
	"cmp"
	"slices"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// deathReason is why a queue dead-lettered a message.
type deathReason uint8

// The reasons.
const (
	rejected      deathReason = iota // basic.reject or basic.nack without requeue
	expired                          // its time to live ended
	maxlen                           // the queue's length limit
	deliveryLimit                    // a quorum queue's limit of deliveries
)

// String gives RabbitMQ's word, as x-death shows it.
func (r deathReason) String() string {
	switch r {
	case rejected:
		return "rejected"
	case expired:
		return "expired"
	case maxlen:
		return "maxlen"
	case deliveryLimit:
		return "delivery_limit"
	}
	return "unknown"
}

// death describes one dead-lettering.
type death struct {
	// Queue is the queue the message died in.
	Queue  string
	Reason deathReason
	// At is message time, seconds since 1970 (UTC).
	At int64
	// Exchange is the dead-letter exchange.
	Exchange string
	// Key is the queue's x-dead-letter-routing-key; HasKey says that it has one.
	Key    string
	HasKey bool
}

// buried makes the message that is published to the dead-letter exchange, and
// the routing keys to route it by. It has the old one's body, and properties
// that tell of the death. m is not changed.
func buried(p compat.Profile, m *queue.Message, d death) (dead *queue.Message, keys []string) {
	properties, err := frames.ParseProperties(m.Properties)
	if err != nil {
		panic("broker: message with malformed properties: " + err.Error())
	}
	values := properties.Values()
	entry := frames.Table{
		{Key: "count", Value: int64(1)},
		{Key: "reason", Value: d.Reason.String()},
		{Key: "queue", Value: d.Queue},
		{Key: "time", Value: frames.Timestamp(d.At)},
		{Key: "exchange", Value: m.Exchange},
		{Key: "routing-keys", Value: frames.Array{m.RoutingKey}},
	}
	values.Headers = append(values.Headers, frames.Field{Key: "x-death", Value: frames.Array{entry}})
	slices.SortStableFunc(values.Headers, func(a, b frames.Field) int { return cmp.Compare(a.Key, b.Key) })
	values.Flags = values.Flags&^frames.FlagExpiration | frames.FlagHeaders
	dead = &queue.Message{
		Exchange: d.Exchange, RoutingKey: m.RoutingKey, Properties: values.Append(nil), Content: m.Content,
		Priority: m.Priority, Persistent: m.Persistent, Expiration: -1,
	}
	if d.HasKey {
		dead.RoutingKey = d.Key
	}
	return dead, []string{dead.RoutingKey}
}

// deathCycle says whether a message that died for reason must not go to the
// queue called queue: it was there before, and no consumer has rejected it
// since. dead is what buried made.
func deathCycle(p compat.Profile, dead *queue.Message, reason deathReason, queue string) bool {
	if reason == rejected {
		return false
	}
	properties, _ := frames.ParseProperties(dead.Properties)
	headers, _ := properties.Headers()
	deaths, _ := headers.Lookup("x-death")
	for it := deaths.ArrayIter(); it.Next(); {
		if it.Value().Type != 'F' {
			return false
		}
		entry := frames.RawTable(it.Value().Data)
		if why, _ := entry.Lookup("reason"); string(why.Data) == "rejected" {
			return false
		}
		if where, _ := entry.Lookup("queue"); string(where.Data) == queue {
			return true
		}
	}
	return false
}
