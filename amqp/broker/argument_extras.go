package broker

import (
	"fmt"
	"slices"

	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/frames/selector"
	"github.com/warrenmq/warren/queue"
)

// The arguments that RabbitMQ does not have: what the Sun Message Queue
// promised and AMQP leaves out. They stand behind RabbitMQ's own in every
// list, so that they change nothing of the order in which RabbitMQ's are
// checked and compared. docs/reference has a page for each.

// Names of the arguments.
const (
	argMaxActiveConsumers = "x-max-active-consumers"
	argMaxBackupConsumers = "x-max-backup-consumers"
	argPriorityAging      = "x-priority-aging"
	argFlowThreshold      = "x-flow-threshold"
	argChannelPriority    = "x-channel-priority"
	argOverflow           = "x-overflow"
	argSelector           = exchange.ArgumentSelector
)

// Overflow modes of classic queues that RabbitMQ does not have.
const (
	overflowDropLowest      = "drop-lowest-priority"
	overflowBlockPublishers = "block-publishers"
)

// extraQueueArguments are those of classic queues, extraConsumerArguments
// those of consumers on queues that deliver with credit.
var (
	extraQueueArguments    = known(argMaxActiveConsumers, argMaxBackupConsumers, argPriorityAging)
	extraConsumerArguments = known(argFlowThreshold, argChannelPriority)
)

// extraClassicConsumerArguments are those of consumers on classic queues alone.
var extraClassicConsumerArguments = append(known(argSelector), extraConsumerArguments...)

var extraDeclareChecks = []argumentCheck{
	{argMaxActiveConsumers, checkMaxActive},
	{argMaxBackupConsumers, checkMaxBackup},
	{argPriorityAging, checkPriorityAging},
}

var extraConsumeChecks = []argumentCheck{
	{argFlowThreshold, checkFlowThreshold},
	{argChannelPriority, checkInteger},
	{argSelector, checkSelector},
}

// overflows are RabbitMQ's modes.
var overflows = oneOf("invalid_overflow", "drop-head", "reject-publish", "reject-publish-dlx")

// checkOverflow takes RabbitMQ's modes, and for classic queues Warren's own.
func checkOverflow(p compat.Profile, v any, all frames.Table) verdict {
	if (v == overflowDropLowest || v == overflowBlockPublishers) && queueTypeName(p, all) == typeClassic {
		return accepted
	}
	return overflows(p, v, all)
}

// maxConsumers bounds both limits on consumers, so that their sum is one too.
const maxConsumers = 1 << 30

func checkMaxActive(p compat.Profile, v any, all frames.Table) verdict {
	if bad := checkPositive(p, v, all); bad != accepted {
		return bad
	}
	n, _ := integer(v)
	if n > maxConsumers {
		return refused("{max_value_exceeded,%d}", n)
	}
	if single, _ := all.Get(argSingleActive); single == true && n != 1 {
		return refused("{single_active_consumer,%d}", n)
	}
	return accepted
}

func checkMaxBackup(p compat.Profile, v any, all frames.Table) verdict {
	if bad := checkNonNegative(p, v, all); bad != accepted {
		return bad
	}
	if n, _ := integer(v); n > maxConsumers {
		return refused("{max_value_exceeded,%d}", n)
	}
	if _, ok := all.Get(argMaxActiveConsumers); !ok {
		return refused("backup_consumers_but_no_max_active_defined")
	}
	return accepted
}

// checkPriorityAging takes a period in milliseconds, for a queue that has
// priorities.
func checkPriorityAging(p compat.Profile, v any, all frames.Table) verdict {
	if bad := checkExpires(p, v, all); bad != accepted {
		return bad
	}
	if maxPriority(p, all) == 0 {
		return refused("aging_but_no_max_priority_defined")
	}
	return accepted
}

// maxFlowThreshold is a percentage.
const maxFlowThreshold = 100

func checkFlowThreshold(p compat.Profile, v any, all frames.Table) verdict {
	if bad := checkPositive(p, v, all); bad != accepted {
		return bad
	}
	if n, _ := integer(v); n > maxFlowThreshold {
		return refused("{max_value_exceeded,%d}", n)
	}
	return accepted
}

// extraRules reads the checked arguments of a queue that concern its rules.
func extraRules(args frames.Table, r *queue.Rules) {
	if v, ok := args.Get(argMaxActiveConsumers); ok {
		n, _ := integer(v)
		r.MaxActive, r.MaxBackup = int(n), -1
	}
	if v, ok := args.Get(argMaxBackupConsumers); ok {
		n, _ := integer(v)
		r.MaxBackup = int(n)
	}
}

// priorityAging is a queue's x-priority-aging in milliseconds a level; 0
// without.
func priorityAging(args frames.Table) int64 {
	v, _ := args.Get(argPriorityAging)
	n, _ := integer(v)
	return n
}

// checkSelector takes a JMS selector.
func checkSelector(_ compat.Profile, v any, _ frames.Table) verdict {
	text, ok := v.(string)
	if !ok {
		return unacceptableType(v)
	}
	if _, err := selector.Compile(text); err != nil {
		return refused("%v", err)
	}
	return accepted
}

// SelectorOf compiles the selector in checked arguments of a basic.consume; nil without one, and for queues whose
// consumers have none. Any goroutine.
func SelectorOf(q *Queue, args frames.Table) *selector.Selector {
	v, ok := args.Get(argSelector)
	if !ok || q.Type != typeClassic {
		return nil
	}
	text, _ := v.(string)
	s, err := selector.Compile(text)
	if err != nil {
		panic(fmt.Sprintf("broker: selector that was checked: %v", err))
	}
	return s
}

// ConsumerCredit is what the arguments of a basic.consume say of the
// consumer's share in its channel's credit.
type ConsumerCredit struct {
	// FlowThreshold is the percentage of its prefetch limit down to which
	// unacknowledged deliveries have to fall before a consumer that reached the
	// limit gets more; 100 is AMQP's own behaviour.
	FlowThreshold int
	// Ranked says that the consumer has an x-channel-priority, which Rank is.
	Ranked bool
	Rank   int64
}

// CreditOf reads checked arguments of a basic.consume. Any goroutine.
func CreditOf(args frames.Table) ConsumerCredit {
	c := ConsumerCredit{FlowThreshold: maxFlowThreshold}
	if len(args) == 0 {
		return c
	}
	if v, ok := args.Get(argFlowThreshold); ok {
		if n, ok := integer(v); ok && n >= 1 && n <= maxFlowThreshold {
			c.FlowThreshold = int(n)
		}
	}
	v, _ := args.Get(argChannelPriority)
	c.Rank, c.Ranked = integer(v)
	return c
}

// consumersFull is the 403 of one consumer too many.
func consumersFull(vhost, name string, e *queue.FullError) *frames.Error {
	return frames.Errorf(frames.AccessRefused, "%s has reached its limits of %d active and %d backup consumers", queueText(vhost, name), e.Active, e.Backup)
}

// with returns a list with more arguments behind it.
func with(list, more []knownArgument) []knownArgument { return slices.Concat(list, more) }
