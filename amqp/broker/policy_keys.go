package broker

import (
	"math"
	"slices"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// The keys of policies, as a table: what a value has to be, who knows the key, which types of queue cannot have it,
// and how a policy's value meets that of an operator policy and that of a queue's own argument. Asked of RabbitMQ
// 3.10.8 and 4.3.6 key by key (policy_validate_test.go has the answers).

// typeSet is a set of queue types.
type typeSet uint8

const (
	ofClassic typeSet = 1 << iota
	ofQuorum
	ofStream
)

// setOf is the set with one type in it.
func setOf(queueType string) typeSet {
	switch queueType {
	case typeQuorum:
		return ofQuorum
	case typeStream:
		return ofStream
	}
	return ofClassic
}

// profileSet says which profiles know a key.
type profileSet uint8

const (
	in3 profileSet = 1 << iota
	in4
)

func (s profileSet) has(p compat.Profile) bool {
	if p == compat.V3 {
		return s&in3 != 0
	}
	return s&in4 != 0
}

// policyKey is a row of the table.
type policyKey struct {
	name string
	// user and operator say in which profiles policies and operator policies may have the key.
	user, operator profileSet
	// unfit3 and unfit4 are the types of queue that cannot have the key. A policy with such a key is not for them at
	// all, whatever other keys it has.
	unfit3, unfit4 typeSet
	// valid says whether a value will do; what is the end of the text when it does not.
	valid func(v any) bool
	what  string
	// both merges the value of a policy with that of an operator policy; nil takes the operator's.
	both func(policy, operator any) any
	// policyWins are the types on which a policy counts more than the queue's own argument. On others the argument
	// does, unless both is lesser: then the lesser counts.
	policyWins typeSet
}

const (
	butQuorum = ofClassic | ofStream
	butStream = ofClassic | ofQuorum
)

// policyKeys are the keys in the order of their names, which is the order in which RabbitMQ checks them.
var policyKeys = []policyKey{
	{name: keyAlternateExchange, user: in3 | in4, valid: isText, what: "is not a valid alternate exchange name"},
	{name: "consumer-disconnected-timeout", user: in4, valid: atLeast(0), what: "is not a valid consumer disconnected timeout"},
	{name: "consumer-timeout", user: in4, valid: atLeast(0), what: "is not a valid consumer timeout", both: lesser},
	{name: "dead-letter-exchange", user: in3 | in4, unfit3: ofStream, unfit4: ofStream, valid: isText,
		what: "is not a valid dead letter exchange name"},
	{name: "dead-letter-routing-key", user: in3 | in4, unfit3: ofStream, unfit4: ofStream, valid: isText,
		what: "is not a valid dead letter routing key"},
	{name: "dead-letter-strategy", user: in3 | in4, unfit3: butQuorum, unfit4: butQuorum, valid: among("at-most-once", "at-least-once"),
		what: "is not a valid dead letter strategy"},
	{name: "delivery-limit", user: in3 | in4, operator: in3 | in4, unfit3: butQuorum, unfit4: butQuorum, valid: isInteger,
		what: "is not a valid delivery limit", both: lesserLimit},
	{name: "expires", user: in3 | in4, operator: in3 | in4, unfit3: ofStream, unfit4: ofStream, valid: atLeast(1),
		what: "is not a valid queue expiry", both: lesser, policyWins: ofQuorum},
	{name: "initial-cluster-size", user: in3 | in4, unfit3: butStream, unfit4: butStream, valid: atLeast(0), what: "is not a valid cluster size"},
	{name: "max-age", user: in3 | in4, unfit3: butStream, unfit4: butStream, valid: isAge, what: "is not a valid max age", policyWins: ofStream},
	{name: "max-in-memory-bytes", user: in3 | in4, operator: in3 | in4, unfit3: ofStream, unfit4: butQuorum, valid: atLeast(0),
		what: "is not a valid maximum memory in bytes", both: lesser},
	{name: "max-in-memory-length", user: in3 | in4, operator: in3 | in4, unfit3: ofStream, unfit4: butQuorum, valid: atLeast(0),
		what: "is not a valid maximum memory in bytes", both: lesser},
	{name: "max-length", user: in3 | in4, operator: in3 | in4, unfit3: ofStream, unfit4: ofStream, valid: atLeast(0),
		what: "is not a valid maximum length", both: lesser},
	{name: "max-length-bytes", user: in3 | in4, operator: in3 | in4, valid: atLeast(0), what: "is not a valid maximum length in bytes",
		both: lesser, policyWins: ofStream},
	{name: "message-ttl", user: in3 | in4, operator: in3 | in4, unfit3: ofStream, unfit4: ofStream, valid: atLeast(0),
		what: "is not a valid message TTL", both: lesser},
	{name: "overflow", user: in3 | in4, operator: in4, unfit3: ofStream, unfit4: ofStream,
		valid: among("drop-head", "reject-publish", "reject-publish-dlx"), what: "is not a valid overflow value", policyWins: ofQuorum},
	{name: "queue-leader-locator", user: in3 | in4, unfit3: ofClassic,
		valid: among("client-local", "balanced", "random", "least-leaders"), what: "is not a valid queue leader locator value"},
	{name: "queue-mode", user: in3 | in4, unfit3: ofQuorum | ofStream, unfit4: ofQuorum | ofStream, valid: among("default", "lazy"),
		what: "is not a valid queue-mode value"},
	{name: "queue-version", user: in3 | in4, operator: in4, valid: between(1, 2), what: "is not a valid queue-version value"},
	{name: "stream-filter-size-bytes", user: in4, valid: between(minFilterSizeBytes, maxFilterSizeBytes),
		what: "is not a valid filter size. Valid range is 16-255", policyWins: ofStream},
	{name: "stream-max-segment-size-bytes", user: in3 | in4, unfit3: butStream, unfit4: butStream, valid: between(0, maxSegmentSizeBytes),
		what: "is not a valid segment size", policyWins: ofStream},
	// From here on other parts of RabbitMQ check, after all the others.
	{name: "delayed-retry-max", user: in4, operator: in4, valid: atLeast(1),
		what: "is not a valid delayed retry maximum delay. Must be a positive integer", both: lesser},
	{name: "delayed-retry-min", user: in4, operator: in4, valid: atLeast(1),
		what: "is not a valid delayed retry minimum delay. Must be a positive integer", both: greater},
	{name: "delayed-retry-type", user: in4, operator: in4, valid: among("all", "failed", "returned", "disabled"),
		what: "is not a valid delayed retry type. Must be one of: all, failed, returned, disabled"},
	{name: "target-group-size", user: in4, operator: in4, unfit4: butQuorum, valid: atLeast(1), what: "is not a valid qq target count value", both: greater},
	{name: "queue-master-locator", user: in3, unfit3: ofQuorum | ofStream, valid: among("min-masters", "client-local", "random"),
		what: "invalid queue-master-locator value"},
	{name: "ha-mode", user: in3, unfit3: ofQuorum | ofStream},
	{name: "ha-params", user: in3, unfit3: ofQuorum | ofStream},
	{name: "ha-promote-on-failure", user: in3, unfit3: ofQuorum | ofStream},
	{name: "ha-promote-on-shutdown", user: in3, unfit3: ofQuorum | ofStream},
	{name: "ha-sync-batch-size", user: in3},
	{name: "ha-sync-mode", user: in3, unfit3: ofQuorum | ofStream},
	{name: "routing-key", user: in3 | in4},
	{name: "shards-per-node", user: in3 | in4},
}

const (
	keyAlternateExchange  = "alternate-exchange"
	keyQueueMasterLocator = "queue-master-locator"
)

// findPolicyKey returns the row of a key that a kind of policy may have in a profile.
func findPolicyKey(p compat.Profile, kind PolicyKind, name string) *policyKey {
	i := slices.IndexFunc(policyKeys, func(k policyKey) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	k := &policyKeys[i]
	known := k.user
	if kind == OperatorPolicy {
		known = k.operator
	}
	if !known.has(p) {
		return nil
	}
	return k
}

// unfit is which types of queue cannot have the key.
func (k *policyKey) unfit(p compat.Profile) typeSet {
	if p == compat.V3 {
		return k.unfit3
	}
	return k.unfit4
}

// argument is the name of the queue argument that means the same.
func (k *policyKey) argument() string { return "x-" + k.name }

// own merges the value of a policy with a queue's own argument.
func (k *policyKey) own(queueType string, policy, argument any) any {
	switch {
	case k.policyWins&setOf(queueType) != 0:
		return policy
	case k.both == nil:
		return argument
	}
	if _, ok := integer(argument); !ok {
		return argument // 4.3 takes any value for x-delivery-limit
	}
	return k.both(policy, argument)
}

func isText(v any) bool {
	_, ok := v.(string)
	return ok
}

func isInteger(v any) bool {
	_, ok := jsonInteger(v)
	return ok
}

func atLeast(least int64) func(any) bool { return between(least, math.MaxInt64) }

func between(least, most int64) func(any) bool {
	return func(v any) bool {
		n, ok := jsonInteger(v)
		return ok && n >= least && n <= most
	}
}

func among(values ...string) func(any) bool {
	return func(v any) bool {
		s, ok := v.(string)
		return ok && slices.Contains(values, s)
	}
}

func isAge(v any) bool {
	s, ok := v.(string)
	if !ok {
		return false
	}
	_, ok = ageMs(s)
	return ok
}

// lesser, greater and lesserLimit merge two numbers of policies or arguments.
func lesser(a, b any) any {
	if x, y := wholePolicyNumber(a), wholePolicyNumber(b); x < y {
		return a
	}
	return b
}

func greater(a, b any) any {
	if x, y := wholePolicyNumber(a), wholePolicyNumber(b); x > y {
		return a
	}
	return b
}

// lesserLimit is lesser where a negative number is no limit.
func lesserLimit(a, b any) any {
	if wholePolicyNumber(a) < 0 || wholePolicyNumber(b) < 0 {
		return greater(a, b)
	}
	return lesser(a, b)
}

// wholePolicyNumber reads a number of a policy or of an argument.
func wholePolicyNumber(v any) int64 {
	if n, ok := integer(v); ok {
		return n
	}
	n, _ := jsonInteger(v)
	return n
}

// queueArgument is a policy's value in the form of a queue argument: text, or an integer that no timer overflows.
func (k *policyKey) queueArgument(v any) any {
	n, ok := jsonInteger(v)
	if !ok {
		return v
	}
	if k.name == "message-ttl" || k.name == "expires" {
		n = min(n, maxDurationMs)
	}
	return n
}

// effectiveArguments are a queue's arguments with those that its policies add or change, and so what its rules are
// made of. args is not changed.
func effectiveArguments(queueType string, args frames.Table, definition map[string]any) frames.Table {
	if len(definition) == 0 {
		return args
	}
	merged := slices.Clone(args)
	for i := range policyKeys {
		k := &policyKeys[i]
		v, given := definition[k.name]
		if !given || k.name == keyAlternateExchange {
			continue
		}
		v = k.queueArgument(v)
		at := slices.IndexFunc(merged, func(f frames.Field) bool { return f.Key == k.argument() })
		if at < 0 {
			merged = append(merged, frames.Field{Key: k.argument(), Value: v})
			continue
		}
		merged[at].Value = k.own(queueType, v, merged[at].Value)
	}
	return merged
}
