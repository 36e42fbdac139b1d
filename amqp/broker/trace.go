package broker

import (
	"math"
	"slices"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// The firehose: while a virtual host is traced, each message that is published
// in it and each that is delivered goes once more, wrapped, to the exchange
// amq.rabbitmq.trace, under the key publish.EXCHANGE or deliver.QUEUE. It is an
// observer like any other: what it publishes comes a moment later, never holds
// anybody up, and is dropped when it falls too far behind.

// traceExchange is predeclared in every virtual host.
const traceExchange = "amq.rabbitmq.trace"

// NodeName is what stands where RabbitMQ shows the name of an Erlang node.
const NodeName = "warren@localhost"

// traceBuffer is how many events may wait to be traced.
const traceBuffer = 1 << 14

// trace is a virtual host's tracing while it is on.
type trace struct {
	v       *VHost
	router  Router
	remove  func()
	dropped func() uint64
}

// SetTracing turns the firehose on or off. It is not kept over a restart, as in
// RabbitMQ. Off: it returns when what happened before has been traced. Any
// goroutine but that of an observer.
func (v *VHost) SetTracing(on bool) {
	v.traceMu.Lock()
	defer v.traceMu.Unlock()
	t := v.trace.Load()
	switch {
	case on && t == nil:
		t = &trace{v: v}
		v.trace.Store(t)
		t.remove, t.dropped = v.broker.Hooks.AddObserver(t, traceBuffer)
	case !on && t != nil:
		v.trace.Store(nil)
		t.remove()
		if n := t.dropped(); n > 0 {
			v.log.Warn("the firehose was too slow for some events", "dropped", n)
		}
	}
}

// Tracing says whether the firehose is on: events of publishes carry the names
// of the queues then, and the message even if nobody gets it.
func (v *VHost) Tracing() bool { return v.trace.Load() != nil }

// Observe implements Observer.
func (t *trace) Observe(events []Event) {
	for i := range events {
		e := &events[i]
		if e.Message == nil || e.VHost != t.v.Name || e.Message.Exchange == traceExchange {
			continue
		}
		switch e.Step {
		case PublishRouted:
			t.publish(e, "publish."+e.Message.Exchange)
		case DeliverySent:
			t.publish(e, "deliver."+e.Queue)
		}
	}
}

// publish wraps an event's message, if anybody listens to its key.
func (t *trace) publish(e *Event, key string) {
	key = key[:min(len(key), math.MaxUint8)]
	queues := t.v.routeByName(&t.router, traceExchange, []string{key}, nil)
	if len(queues) == 0 {
		return
	}
	properties := frames.PropertyValues{Flags: frames.FlagHeaders, Headers: t.headers(e)}
	m := &queue.Message{
		Exchange: traceExchange, RoutingKey: key, Properties: properties.Append(nil), Content: e.Message.Content, Expiration: -1,
	}
	for _, q := range queues {
		q.Publish(m)
	}
}

// headers tell of an event what RabbitMQ 3.10.8 and 4.3.6 tell.
func (t *trace) headers(e *Event) frames.Table {
	properties := propertiesOf(e.Message)
	raw, _ := properties.Headers()
	keys := frames.Array{e.Message.RoutingKey}
	for _, key := range append(copiedKeys(e.Message, raw.Decode()), e.Message.BCC...) {
		keys = append(keys, key)
	}
	headers := frames.Table{
		{Key: "exchange_name", Value: e.Message.Exchange},
		{Key: "routing_keys", Value: keys},
		{Key: "properties", Value: tracedProperties(properties.Values())},
		{Key: "node", Value: NodeName},
	}
	if e.Step == DeliverySent {
		redelivered := int32(0)
		if e.Redelivered {
			redelivered = 1
		}
		headers = append(headers, frames.Field{Key: "redelivered", Value: redelivered})
	}
	headers = append(headers,
		frames.Field{Key: "vhost", Value: e.VHost},
		frames.Field{Key: "connection", Value: e.Connection},
		frames.Field{Key: "channel", Value: int32(e.Channel)},
		frames.Field{Key: "user", Value: e.User})
	if e.Step == PublishRouted {
		headers = append(headers, frames.Field{Key: "routed_queues", Value: routedQueues(e, keys)})
	}
	if compat.TraceHeadersSorted.In(t.v.broker.Profile) {
		sortByKey(headers)
	}
	return headers
}

// routedQueues are the queues a publish was routed to; for the default exchange
// those it names, be they there or not (verified on 3.10.8 and 4.3.6).
func routedQueues(e *Event, keys frames.Array) frames.Array {
	if e.Message.Exchange == "" {
		return keys
	}
	routed := make(frames.Array, len(e.Routed))
	for i, name := range e.Routed {
		routed[i] = name
	}
	return routed
}

// tracedProperties lists properties by name, the last first. Numbers are 32 bits
// wide: of a timestamp, the upper half is lost, as in RabbitMQ.
func tracedProperties(v frames.PropertyValues) frames.Table {
	var all frames.Table
	for _, p := range []struct {
		flag  uint16
		name  string
		value any
	}{
		{frames.FlagClusterID, "cluster_id", v.ClusterID}, {frames.FlagAppID, "app_id", v.AppID},
		{frames.FlagUserID, "user_id", v.UserID}, {frames.FlagType, "type", v.Type},
		{frames.FlagTimestamp, "timestamp", int32(v.Timestamp)}, {frames.FlagMessageID, "message_id", v.MessageID},
		{frames.FlagExpiration, "expiration", v.Expiration}, {frames.FlagReplyTo, "reply_to", v.ReplyTo},
		{frames.FlagCorrelationID, "correlation_id", v.CorrelationID}, {frames.FlagPriority, "priority", int32(v.Priority)},
		{frames.FlagDeliveryMode, "delivery_mode", int32(v.DeliveryMode)}, {frames.FlagHeaders, "headers", v.Headers},
		{frames.FlagContentEncoding, "content_encoding", v.ContentEncoding}, {frames.FlagContentType, "content_type", v.ContentType},
	} {
		if v.Flags&p.flag != 0 {
			all = append(all, frames.Field{Key: p.name, Value: p.value})
		}
	}
	return all
}

// VisibleQueues lists the names of the queues of a route that clients can see,
// in order.
func VisibleQueues(queues []*queue.Queue) []string {
	names := make([]string, 0, len(queues))
	for _, q := range queues {
		if !hidden(q) {
			names = append(names, q.Name)
		}
	}
	slices.Sort(names)
	return names
}

// CountVisible is how many queues VisibleQueues would list.
func CountVisible(queues []*queue.Queue) (n int) {
	for _, q := range queues {
		if !hidden(q) {
			n++
		}
	}
	return n
}
