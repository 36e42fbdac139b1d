package broker

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// The delayed message exchange, as the community plugin for RabbitMQ has it
// (its source, releases 3.10 and 4.2). A message with an x-delay header waits
// in the exchange's backlog and is routed when its time has come, with the
// bindings of that moment. Until then it counts as routed to no queue: it is
// returned if mandatory, and an alternate exchange gets it at once.

const (
	argDelayedType = "x-delayed-type"
	headerDelay    = "x-delay"
)

// maxDelay is the longest delay in milliseconds, 49 days; what is longer is
// routed at once. The plugin has it from Erlang's timers.
const maxDelay = math.MaxUint32

// delayedType reads x-delayed-type; false when it is no string.
func delayedType(args frames.Table) (string, bool) {
	switch v, _ := args.Get(argDelayedType); v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// delayOf reads the x-delay header: how many milliseconds a message is to wait,
// 0 for not at all. Integers of any width, floats, cut to whole numbers, and
// strings of digits count. A string that is no number is a connection error
// 541, since the plugin's process ends there.
func delayOf(headers frames.RawTable) (int64, error) {
	v, ok := headers.Lookup(headerDelay)
	if !ok {
		return 0, nil
	}
	ms, err := delayValue(v)
	if err != nil || ms < 0 || ms > maxDelay {
		return 0, err
	}
	return ms, nil
}

// delayValue reads the header's value as it is.
func delayValue(v frames.RawValue) (int64, error) {
	switch v.Type {
	case 'S':
		ms, err := strconv.ParseInt(string(v.Data), 10, 64)
		if numError, ok := err.(*strconv.NumError); ok && numError.Err == strconv.ErrSyntax {
			return 0, crash()
		}
		return ms, nil
	case 'f':
		return wholeDelay(float64(math.Float32frombits(binary.BigEndian.Uint32(v.Data)))), nil
	case 'd':
		return wholeDelay(math.Float64frombits(binary.BigEndian.Uint64(v.Data))), nil
	}
	n, _ := integer(v.Decode())
	return n, nil
}

// wholeDelay cuts a float to an integer; what is far out of range stays there.
func wholeDelay(f float64) int64 {
	return int64(min(max(f, -2*maxDelay), 2*maxDelay))
}

// messageDelay is delayOf for a message that was routed to a backlog.
func messageDelay(m *queue.Message) int64 {
	properties := propertiesOf(m)
	headers, _ := properties.Headers()
	ms, _ := delayOf(headers)
	return ms
}

// release routes messages whose time has come. Their end in the backlog and
// their arrival in queues are one transaction, so that a crash neither loses
// nor doubles them. On the clock's goroutine, or inside Clock.Advance.
func (v *VHost) release(x *Exchange, due []queue.Entry) {
	t := queue.Transaction{Settlements: []queue.Settlement{{Queue: x.delays.queue, Entries: due, Fate: queue.Inter}}}
	var r Router
	for i := range due {
		m := v.released(due[i].Message)
		if queues := v.routeFrom(&r, x, m); len(queues) > 0 {
			t.Enqueues = append(t.Enqueues, queue.Enqueue{Message: m, Queues: slices.Clone(queues)})
		}
	}
	// It cannot fail: queues that are full or gone are left out.
	_, _ = queue.Commit(t, v.broker.store, nil, 0)
}

// released makes the message that is delivered: its x-delay header is negative,
// which tells consumers and keeps it from waiting again at the next delayed
// exchange. The plugin sorts the headers on the way.
func (v *VHost) released(m *queue.Message) *queue.Message {
	properties := propertiesOf(m)
	raw, _ := properties.Headers()
	headers := raw.Decode()
	value, _ := raw.Lookup(headerDelay)
	ms, _ := delayValue(value)
	var negated any = -ms
	if ms <= math.MaxInt32 && !compat.DelayHeaderLong.In(v.broker.Profile) {
		negated = int32(-ms)
	}
	headers = set(headers, headerDelay, negated)
	sortByKey(headers)
	return &queue.Message{
		Exchange: m.Exchange, RoutingKey: m.RoutingKey, Properties: properties.AppendWithHeaders(nil, headers), Content: m.Content,
		Priority: m.Priority, Persistent: m.Persistent, Expiration: m.Expiration, Dead: m.Dead, CCDone: m.CCDone, BCC: m.BCC,
	}
}

// routeFrom routes a message through an exchange, if that is the one of its
// name still, by all the routing keys it was published with. The slice is
// valid until the router's next use.
func (v *VHost) routeFrom(r *Router, x *Exchange, m *queue.Message) []*queue.Queue {
	if cur, ok := v.Exchange(x.Name); !ok || cur != x {
		return nil
	}
	properties := propertiesOf(m)
	raw, _ := properties.Headers()
	keys := append([]string{m.RoutingKey}, m.BCC...)
	if _, copied := raw.Lookup(headerCC); copied {
		keys = append(keys, copiedKeys(m, raw.Decode())...)
	}
	return v.routeByName(r, x.Name, keys, m.Properties)
}

// Delayed is how many messages wait for their time in a delayed exchange; false
// for an exchange of another type.
func (x *Exchange) Delayed() (int, bool) {
	if x.delays == nil {
		return 0, false
	}
	return x.delays.queue.Delayed(), true
}
