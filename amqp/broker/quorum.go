package broker

import (
	"math"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// Quorum queues on one node: what their arguments mean, what is refused, and
// the headers that tell a consumer how often it has met a message.

// quorumOf says how quorum queues behave in a profile.
func quorumOf(p compat.Profile) *queue.Quorum {
	return &queue.Quorum{
		EveryReturnFails: compat.EveryReturnFails.In(p),
		UnlimitedGoLast:  compat.UnlimitedReturnsGoLast.In(p),
		Preempts:         compat.SingleActivePreempted.In(p),
		PropertiesCount:  compat.PropertiesCountAsBytes.In(p),
		DefaultPriority:  compat.QuorumDefaultPriority.In(p),
	}
}

// asQuorum makes the configuration that of a quorum queue.
func asQuorum(p compat.Profile, c *queue.Config) {
	c.Quorum = quorumOf(p)
	c.MaxPriority = compat.QuorumMaxPriority.In(p)
}

// quorumRules adds to r what only a quorum queue's arguments say, and takes
// back what they do not mean there. Arguments were checked, as far as RabbitMQ
// checks them; of one that is given twice the first counts.
func quorumRules(p compat.Profile, r *queue.Rules, args frames.Table) {
	if r.Overflow == queue.RejectPublishAndBury {
		r.Overflow = queue.DropHead
	}
	r.DeliveryLimit = deliveryLimitOf(p, args)
	if n, ok := integerArgument(args, argConsumerTimeout); ok {
		r.ConsumerTimeout = n
	}
	strategy, _ := args.Get(argDeadLetterStrategy)
	r.AtLeastOnce = strategy == "at-least-once" && r.DeadLetters && r.Overflow == queue.RejectPublish
	retryRules(r, args)
}

// deliveryLimitOf reads x-delivery-limit, which takes any value. 3.10.8 takes
// what is no number for more than every number, as Erlang orders its terms;
// 4.3 takes it for absent.
func deliveryLimitOf(p compat.Profile, args frames.Table) int64 {
	_, given := args.Get(argDeliveryLimit)
	n, isInteger := integerArgument(args, argDeliveryLimit)
	switch {
	case isInteger && n >= 0:
		return n
	case isInteger:
		return compat.NegativeDeliveryLimit.In(p)
	case given && compat.AnyDeliveryLimit.In(p):
		return math.MaxInt64
	}
	return compat.DefaultDeliveryLimit.In(p)
}

// retryRules reads x-delayed-retry-*, which take any value: without a valid
// type and a least time nothing is delayed.
func retryRules(r *queue.Rules, args frames.Table) {
	v, _ := args.Get(argRetryType)
	switch v {
	case "all":
		r.Retry = queue.RetryAll
	case "failed":
		r.Retry = queue.RetryFailed
	case "returned":
		r.Retry = queue.RetryReturned
	default:
		r.Retry = queue.RetryAtOnce
	}
	least, ok := integerArgument(args, argRetryMin)
	if !ok || least <= 0 {
		r.Retry = queue.RetryAtOnce
		return
	}
	r.RetryMin, r.RetryMax = least, least
	if most, ok := integerArgument(args, argRetryMax); ok {
		r.RetryMax = max(most, 0)
	}
}

// integerArgument finds an argument that is an integer.
func integerArgument(args frames.Table, name string) (int64, bool) {
	v, _ := args.Get(name)
	return integer(v)
}

// refuseQuorumDelete is the answer to flags that quorum queues do not know.
func refuseQuorumDelete(q *Queue, m *frames.QueueDelete) error {
	if q.Type != typeQuorum {
		return nil
	}
	flag := ""
	switch {
	case m.IfUnused:
		flag = "if-unused"
	case m.IfEmpty:
		flag = "if-empty"
	default:
		return nil
	}
	return frames.Errorf(frames.NotImplemented,
		"cannot delete %s. queue.delete operations with %s flag set are not supported by quorum queues", queueText(q.VHost, q.Name), flag)
}

// refuseQuorumGet: basic.get would pass a single active consumer by.
func (v *VHost) refuseQuorumGet(q *Queue) error {
	if single, _ := q.Arguments.Get(argSingleActive); q.Type != typeQuorum || single != true {
		return nil
	}
	return frames.Errorf(frames.ResourceLocked, compat.SingleActiveGetText.In(v.broker.Profile), queueText(v.Name, q.Name))
}

// CheckQuorumConsume refuses a consumer that a quorum queue cannot serve:
// 3.10.8 those of a channel with a limit for all its consumers.
func (v *VHost) CheckQuorumConsume(q *Queue, globalPrefetch int) error {
	if q.Type != typeQuorum || globalPrefetch == 0 || !compat.QuorumRefusesGlobalQos.In(v.broker.Profile) {
		return nil
	}
	return frames.Errorf(frames.NotImplemented, "%s does not support global qos", queueText(v.Name, q.Name))
}

// ConsumerTimeout reads a consumer's checked x-consumer-timeout, milliseconds;
// negative without one.
func ConsumerTimeout(args frames.Table) int64 {
	if ms, ok := integerArgument(args, argConsumerTimeout); ok {
		return ms
	}
	return -1
}

// EnforcesExclusive says whether an exclusive consumer keeps others out. In
// quorum queues and streams it does not.
func (q *Queue) EnforcesExclusive() bool { return q.Quorum == nil && q.Stream == nil }

// The headers that count.
const (
	headerDeliveryCount = "x-delivery-count"
	headerAcquiredCount = "x-acquired-count"
)

// Counted gives the entry as a client is shown it: a quorum queue adds headers
// that say how often the message came back. got: by basic.get, for which
// 3.10.8 shows them always. e and its message are not changed; without
// anything to add the answer is e itself.
func (q *Queue) Counted(p compat.Profile, e *queue.Entry, got bool) *queue.Entry {
	if q.Quorum == nil || e.Deliveries == 0 && !(got && compat.GetShowsDeliveryCount.In(p)) {
		return e
	}
	properties := propertiesOf(e.Message)
	raw, _ := properties.Headers()
	headers := raw.Decode()
	if compat.AcquiredCount.In(p) {
		headers = set(headers, headerAcquiredCount, int64(e.Deliveries))
	}
	if e.Failures > 0 || !compat.AcquiredCount.In(p) {
		headers = set(headers, headerDeliveryCount, int64(e.Failures))
	}
	m := *e.Message
	m.Properties = properties.AppendWithHeaders(nil, headers)
	counted := *e
	counted.Message = &m
	return &counted
}

// burySurely is bury for x-dead-letter-strategy at-least-once: each message
// moves in a transaction of its own, whole or not at all, and one that nothing
// takes stays in its queue and is tried again. On a goroutine of the pump.
func (v *VHost) burySurely(q *Queue, dl *deadLetter, dead []queue.Dead) {
	var r Router
	var stranded []queue.Dead
	for i := range dead {
		e, routed := v.funeral(&r, q, dl, &dead[i])
		if !routed {
			stranded = append(stranded, dead[i])
			continue
		}
		t := queue.Transaction{
			Enqueues:    []queue.Enqueue{e},
			Settlements: []queue.Settlement{{Queue: q.Queue, Fate: queue.Inter, Entries: []queue.Entry{dead[i].Entry}}},
			Whole:       true,
		}
		if _, err := queue.Commit(t, v.broker.store, nil, 0); err != nil {
			stranded = append(stranded, dead[i]) // ErrRefused: a queue there is full
		}
	}
	if len(stranded) > 0 {
		v.log.Warn("dead letters that nothing takes stay in their queue", "queue", q.Name, "exchange", dl.exchange, "messages", len(stranded))
		q.Strand(stranded)
	}
}
