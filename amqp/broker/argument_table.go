package broker

import (
	"slices"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// The arguments of queues and consumers, as a table: which type of queue knows which argument, and what a
// value has to be. The functions in arguments.go only walk it.
//
// Two orders in it can be seen by clients and follow RabbitMQ: declareChecks and consumeChecks decide which
// of several bad values is reported, and the list of a queue type decides which of several differences a
// redeclaration reports (rabbit_amqqueue:declare_args and consume_args, and the capabilities of each queue
// type; read in 3.10.8 and 4.3.6).

// Names of arguments that more than one place needs.
const (
	argQueueType            = "x-queue-type"
	argDeadLetterExchange   = "x-dead-letter-exchange"
	argDeadLetterRoutingKey = "x-dead-letter-routing-key"
	argMaxPriority          = "x-max-priority"
	argMaxAge               = "x-max-age"
	argQueueMode            = "x-queue-mode"
	argQueueVersion         = "x-queue-version"
	argMasterLocator        = "x-queue-master-locator"
	argLeaderLocator        = "x-queue-leader-locator"
	argSegmentSize          = "x-stream-max-segment-size-bytes"
	argFilterSize           = "x-stream-filter-size-bytes"
	argPriority             = "x-priority"
	argConsumerTimeout      = "x-consumer-timeout"
	argDeliveryLimit        = "x-delivery-limit"
	argDeadLetterStrategy   = "x-dead-letter-strategy"
	argRetryType            = "x-delayed-retry-type"
	argRetryMin             = "x-delayed-retry-min"
	argRetryMax             = "x-delayed-retry-max"
	argSingleActive         = "x-single-active-consumer"
	argAlternateExchange    = "alternate-exchange"
)

// Queue types, as x-queue-type spells them.
const (
	typeClassic = "classic"
	typeQuorum  = "quorum"
	typeStream  = "stream"
)

// knownArgument is an argument in the list of a queue type.
type knownArgument struct {
	name string
	in   *compat.Row[bool] // the profiles that know it; nil for all
}

// queueTypeRow says what one queue type knows.
type queueTypeRow struct {
	name     string // in x-queue-type
	module   string // RabbitMQ's module of the type, which its error texts show
	queue    []knownArgument
	consumer []knownArgument
	// plain types must be durable and neither exclusive nor auto-delete nor named by the server.
	plain bool
}

// known makes a list of arguments that all profiles know.
func known(names ...string) []knownArgument {
	list := make([]knownArgument, len(names))
	for i, name := range names {
		list[i].name = name
	}
	return list
}

// queueTypes has a row per queue type; the first is the default.
var queueTypes = []queueTypeRow{
	{
		name: typeClassic, module: "rabbit_classic_queue",
		queue: with(append(known("x-expires", "x-message-ttl", argDeadLetterExchange, argDeadLetterRoutingKey,
			"x-max-length", "x-max-length-bytes", argMaxPriority, "x-overflow", argQueueMode, argQueueVersion,
			argSingleActive, argQueueType, argMasterLocator),
			knownArgument{argLeaderLocator, &compat.ClassicLeaderLocator}), extraQueueArguments),
		consumer: with(append(known(argPriority),
			knownArgument{"x-cancel-on-ha-failover", &compat.MirrorConsumerArguments},
			knownArgument{"x-credit", &compat.MirrorConsumerArguments}), extraClassicConsumerArguments),
	},
	{
		name: typeQuorum, module: "rabbit_quorum_queue", plain: true,
		queue: append(known(argDeadLetterExchange, argDeadLetterRoutingKey, "x-dead-letter-strategy", "x-expires",
			"x-max-length", "x-max-length-bytes", "x-max-in-memory-length", "x-max-in-memory-bytes", "x-overflow",
			"x-single-active-consumer", argQueueType, "x-quorum-initial-group-size", "x-delivery-limit",
			"x-message-ttl", argLeaderLocator),
			knownArgument{"x-consumer-disconnected-timeout", &compat.QuorumTimeouts},
			knownArgument{argConsumerTimeout, &compat.QuorumTimeouts},
			knownArgument{"x-delayed-retry-type", &compat.DelayedRetry},
			knownArgument{"x-delayed-retry-min", &compat.DelayedRetry},
			knownArgument{"x-delayed-retry-max", &compat.DelayedRetry}),
		consumer: with(append(known(argPriority),
			knownArgument{"x-credit", &compat.MirrorConsumerArguments},
			knownArgument{argConsumerTimeout, &compat.QuorumTimeouts}), extraConsumerArguments),
	},
	{
		name: typeStream, module: "rabbit_stream_queue", plain: true,
		queue: append(known("x-max-length-bytes", argQueueType, argMaxAge, argSegmentSize),
			knownArgument{argFilterSize, &compat.StreamFilters},
			knownArgument{"x-initial-cluster-size", nil},
			knownArgument{argLeaderLocator, nil}),
		consumer: append(known(argStreamOffset),
			knownArgument{"x-credit", &compat.MirrorConsumerArguments},
			knownArgument{"x-stream-filter", &compat.StreamFilters},
			knownArgument{"x-stream-match-unfiltered", &compat.StreamFilters}),
	},
}

// argumentCheck is how the value of one argument is checked.
type argumentCheck struct {
	name string
	// check is given the value and the table it is from.
	check func(p compat.Profile, v any, all frames.Table) verdict
}

// declareChecks lists the checks of queue.declare in the order they are made; arguments that are missing
// here take any value.
var declareChecks = slices.Concat([]argumentCheck{
	{"x-expires", checkExpires},
	{"x-message-ttl", checkMessageTTL},
	{argDeadLetterExchange, checkLongstr},
	{argDeadLetterRoutingKey, checkDeadLetterRoutingKey},
	{"x-dead-letter-strategy", oneOf("invalid_dlx_strategy", "at-most-once", "at-least-once")},
	{"x-max-length", checkNonNegative},
	{"x-max-length-bytes", checkNonNegative},
	{"x-max-in-memory-length", checkNonNegative},
	{"x-max-in-memory-bytes", checkNonNegative},
	{argMaxPriority, checkMaxPriority},
	{argOverflow, checkOverflow},
	{argQueueMode, checkQueueMode},
	{argQueueVersion, checkQueueVersion},
	{argSingleActive, checkBool},
	{argConsumerTimeout, checkNonNegative},
	{"x-consumer-disconnected-timeout", checkNonNegative},
	{"x-quorum-initial-group-size", checkPositive},
	{argMaxAge, checkMaxAge},
	{argSegmentSize, checkNonNegative},
	{argFilterSize, checkNonNegative},
	{"x-initial-cluster-size", checkPositive},
	{argLeaderLocator, checkLeaderLocator},
}, extraDeclareChecks)

// consumeChecks is the same for basic.consume.
var consumeChecks = slices.Concat([]argumentCheck{
	{argPriority, checkInteger},
	{"x-cancel-on-ha-failover", checkBool},
	{argConsumerTimeout, checkNonNegative},
	{argStreamOffset, checkStreamOffset},
}, extraConsumeChecks)

// findQueueType returns the row of a type.
func findQueueType(name string) (*queueTypeRow, bool) {
	for i := range queueTypes {
		if queueTypes[i].name == name {
			return &queueTypes[i], true
		}
	}
	return nil, false
}

// knows reports whether the argument is in the list and known in the profile.
func knows(p compat.Profile, list []knownArgument, name string) bool {
	return slices.ContainsFunc(list, func(a knownArgument) bool {
		return a.name == name && (a.in == nil || a.in.In(p))
	})
}

// ofAnyType reports whether some queue type knows the argument. list picks the list of a type.
func ofAnyType(p compat.Profile, list func(*queueTypeRow) []knownArgument, name string) bool {
	for i := range queueTypes {
		if knows(p, list(&queueTypes[i]), name) {
			return true
		}
	}
	return false
}

func queueArguments(t *queueTypeRow) []knownArgument    { return t.queue }
func consumerArguments(t *queueTypeRow) []knownArgument { return t.consumer }
