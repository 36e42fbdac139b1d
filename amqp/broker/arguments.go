package broker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// queueSpec is what the arguments of a queue.declare ask for.
type queueSpec struct {
	Type        string // classic, quorum or stream
	MaxPriority int    // 0 to 255; 0: no priorities
	// Arguments are those to store and show: under profile 4 with x-queue-type added when the client gave
	// none.
	Arguments frames.Table
}

// checkQueueArguments checks what queue.declare says of a queue that does not exist yet: section "Queue
// arguments" of RabbitMQ's behaviour, in RabbitMQ's order. The type comes first, then the values of the
// arguments that this type knows, then arguments that only other types know, then what the type demands of
// the queue itself. Arguments that no type knows are kept and ignored. When one key is there twice the first
// counts.
//
// The caller has done deadLetterExchange before, and withDefaultQueueType when the virtual host has a
// default type. Errors are 406 of the channel, but 541 of the connection where RabbitMQ's channel crashes.
// args is not changed. Any goroutine.
func checkQueueArguments(p compat.Profile, vhost, name string, durable, exclusive, autoDelete bool, args frames.Table) (queueSpec, *frames.Error) {
	object := queueText(vhost, name)
	args = withDefaultQueueType(p, "", durable, exclusive, autoDelete, args)
	row, err := declaredType(p, object, args)
	if err != nil {
		return queueSpec{}, err
	}
	if err := checkValues(p, object, declareChecks, row.queue, args); err != nil {
		return queueSpec{}, err
	}
	if err := refuseForeign(p, object, row, queueArguments, args); err != nil {
		return queueSpec{}, err
	}
	if err := checkPlain(row, object, durable, exclusive, autoDelete); err != nil {
		return queueSpec{}, err
	}
	if err := checkOfType(p, row, exclusive, args); err != nil {
		return queueSpec{}, err
	}
	return queueSpec{Type: row.name, MaxPriority: maxPriority(p, args), Arguments: args}, nil
}

// withDefaultQueueType adds x-queue-type to the arguments of a queue.declare where RabbitMQ does, so that
// the type is stored and compared like one that the client gave. defaultType is the default of the virtual
// host, "" or "undefined" when it has none. A queue that the default type cannot be stays classic. Adding the
// type also sorts the arguments by key, which clients can see in which of several foreign arguments is
// refused (rabbit_misc:set_table_value).
//
// An empty type (4.3.6 takes it for the default) is replaced by the default of the virtual host. RabbitMQ
// stores it empty, and so refuses to redeclare such a queue by the name of the type that it has.
//
// args is not changed. Any goroutine.
func withDefaultQueueType(p compat.Profile, defaultType string, durable, exclusive, autoDelete bool, args frames.Table) frames.Table {
	row, hasDefault := findQueueType(defaultType)
	if given, ok := args.Get(argQueueType); ok {
		if hasDefault && row.plain && namesDefault(p, given) {
			return withQueueType(args, row.name)
		}
		return args
	}
	if hasDefault && !(row.plain && (!durable || exclusive || autoDelete)) {
		return withQueueType(args, row.name)
	}
	if compat.QueueTypeInjected.In(p) {
		return withQueueType(args, queueTypes[0].name)
	}
	return args
}

// withQueueType returns a sorted copy of the arguments with the type in them.
func withQueueType(args frames.Table, name string) frames.Table {
	typed := make(frames.Table, 0, len(args)+1)
	for _, f := range args {
		if f.Key != argQueueType {
			typed = append(typed, f)
		}
	}
	typed = append(typed, frames.Field{Key: argQueueType, Value: name})
	slices.SortStableFunc(typed, func(a, b frames.Field) int { return strings.Compare(a.Key, b.Key) })
	return typed
}

// namesDefault reports a type that stands for the default one.
func namesDefault(p compat.Profile, v any) bool {
	return compat.EmptyQueueTypeIsDefault.In(p) && (v == "" || v == "undefined")
}

// serverNameAllowed refuses a queue.declare without a name for the types whose queues need one. RabbitMQ asks
// before any other check of the arguments, so it meets types that do not exist, and handles them in its own
// way. Errors as in checkQueueArguments. Any goroutine.
func serverNameAllowed(p compat.Profile, args frames.Table) *frames.Error {
	switch v := queueTypeName(p, args).(type) {
	case string:
		return serverNameOfType(p, v)
	case []byte:
		return serverNameOfType(p, string(v))
	case bool:
		return serverNameOfType(p, strconv.FormatBool(v))
	case nil:
		if compat.UnknownTypeRefused.In(p) {
			return nil // checkQueueArguments refuses it
		}
	}
	return crash()
}

func serverNameOfType(p compat.Profile, name string) *frames.Error {
	row, ok := findQueueType(name)
	switch {
	case !ok && compat.UnknownTypeRefused.In(p):
		return frames.Errorf(frames.PreconditionFailed, "unknown queue type '%s'", displayed(name))
	case !ok:
		return crash()
	case row.plain:
		return frames.Errorf(frames.PreconditionFailed, "Cannot declare a server-named queue for type %s", row.module)
	}
	return nil
}

// queueTypeName returns what the arguments say the type is, which need not be a type.
func queueTypeName(p compat.Profile, args frames.Table) any {
	v, given := args.Get(argQueueType)
	if !given || namesDefault(p, v) {
		return queueTypes[0].name
	}
	return v
}

// declaredType finds the row of the type that the arguments ask for.
func declaredType(p compat.Profile, object string, args frames.Table) (*queueTypeRow, *frames.Error) {
	v := queueTypeName(p, args)
	if err := checkQueueType(p, v, args).err(argQueueType, object); err != nil {
		return nil, err
	}
	row, _ := findQueueType(v.(string))
	return row, nil
}

// storedType finds the row of an existing queue from its stored arguments.
func storedType(p compat.Profile, args frames.Table) *queueTypeRow {
	name, _ := queueTypeName(p, args).(string)
	if row, ok := findQueueType(name); ok {
		return row
	}
	return &queueTypes[0]
}

// checkValues runs those checks whose argument is there and in the list of the type.
func checkValues(p compat.Profile, object string, checks []argumentCheck, list []knownArgument, args frames.Table) *frames.Error {
	for _, c := range checks {
		v, given := args.Get(c.name)
		if !given || !knows(p, list, c.name) {
			continue
		}
		if err := c.check(p, v, args).err(c.name, object); err != nil {
			return err
		}
	}
	return nil
}

// refuseForeign refuses the first argument that only other types of queue know.
func refuseForeign(p compat.Profile, object string, row *queueTypeRow, list func(*queueTypeRow) []knownArgument, args frames.Table) *frames.Error {
	for i := range args {
		key := args[i].Key
		if !knows(p, list(row), key) && ofAnyType(p, list, key) {
			return frames.Errorf(frames.PreconditionFailed, "invalid arg '%s' for %s of queue type %s", key, object, row.module)
		}
	}
	return nil
}

// checkPlain refuses the properties that quorum queues and streams cannot have.
func checkPlain(row *queueTypeRow, object string, durable, exclusive, autoDelete bool) *frames.Error {
	var property string
	switch {
	case !row.plain:
		return nil
	case autoDelete:
		property = "auto-delete"
	case exclusive:
		property = "exclusive-owner"
	case !durable:
		property = "non-durable"
	default:
		return nil
	}
	return frames.Errorf(frames.PreconditionFailed, "invalid property '%s' for %s", property, object)
}

// Bounds that only a stream's own declaration checks, with texts of their own.
const (
	maxSegmentSizeBytes = 3_000_000_000
	minFilterSizeBytes  = 16
	maxFilterSizeBytes  = 255
)

// checkOfType makes the checks that RabbitMQ leaves to the queue type, after all others.
func checkOfType(p compat.Profile, row *queueTypeRow, exclusive bool, args frames.Table) *frames.Error {
	switch row.name {
	case typeStream:
		return checkStreamSizes(p, args)
	case typeClassic:
		return checkMasterLocator(p, exclusive, args)
	}
	return nil
}

func checkStreamSizes(p compat.Profile, args frames.Table) *frames.Error {
	if v, given := args.Get(argSegmentSize); given {
		if n, _ := integer(v); n > maxSegmentSizeBytes {
			return frames.Errorf(frames.PreconditionFailed, "Exceeded max value for %s", argSegmentSize)
		}
	}
	if v, given := args.Get(argFilterSize); given && compat.StreamFilters.In(p) {
		if n, _ := integer(v); n < minFilterSizeBytes || n > maxFilterSizeBytes {
			return frames.Errorf(frames.PreconditionFailed, "Invalid value for %s", argFilterSize)
		}
	}
	return nil
}

// masterLocatorDenied is 4.3.6's answer to x-queue-master-locator; a reply-text has room for most of it.
const masterLocatorDenied = "Feature `queue_master_locator` is deprecated.\n" +
	"By default, this feature is not permitted anymore.\n" +
	"The feature will be removed from a future major RabbitMQ version, regardless of the configuration; " +
	"actual version to be determined.\n" +
	"To continue using this feature when it is not permitted by default, set the following parameter in your configuration:\n" +
	"    \"deprecated_features.permit.queue_master_locator = true\""

// checkMasterLocator checks x-queue-master-locator. On one node it has nothing to choose, but 3.10.8
// crashes on a name it does not know, unless the queue is exclusive and so has to be where its owner is.
func checkMasterLocator(p compat.Profile, exclusive bool, args frames.Table) *frames.Error {
	v, given := args.Get(argMasterLocator)
	switch {
	case !given:
		return nil
	case !compat.MasterLocator.In(p):
		return frames.Errorf(frames.InternalError, masterLocatorDenied)
	case exclusive:
		return nil
	}
	for _, strategy := range []string{"min-masters", "client-local", "random"} {
		if sameText(strategy, v) {
			return nil
		}
	}
	return crash()
}

// crash is how clients see a crash of RabbitMQ's channel: 541 without text, which blames no method (class and
// method 0 in the close).
func crash() *frames.Error { return frames.Errorf(frames.InternalError, "") }

// err turns a verdict on an argument into an error, nil when it accepts.
func (v verdict) err(arg, object string) *frames.Error {
	switch {
	case v == accepted:
		return nil
	case v.crash:
		return crash()
	}
	return frames.Errorf(frames.PreconditionFailed, "invalid arg '%s' for %s: %s", arg, object, v.reason)
}

// maxPriority returns the x-max-priority of checked arguments; 4.3.6 takes 0 as 1.
func maxPriority(p compat.Profile, args frames.Table) int {
	v, given := args.Get(argMaxPriority)
	n, _ := integer(v)
	if given && n == 0 && compat.MinPriorities.In(p) {
		return 1
	}
	return int(n)
}

// deadLetterExchange returns the dead-letter exchange that a queue.declare names; ok is false without one.
// Unlike in the other arguments a wrong type is found while checking permissions, hence the text of its own
// (rabbit_channel's queue.declare). Any goroutine.
func deadLetterExchange(vhost, name string, args frames.Table) (dlx string, ok bool, err *frames.Error) {
	return exchangeArgument(argDeadLetterExchange, queueText(vhost, name), args)
}

// alternateExchange is deadLetterExchange for the alternate exchange of an exchange.declare.
func alternateExchange(vhost, name string, args frames.Table) (ae string, ok bool, err *frames.Error) {
	return exchangeArgument(argAlternateExchange, exchangeText(vhost, name), args)
}

func exchangeArgument(arg, object string, args frames.Table) (name string, ok bool, err *frames.Error) {
	v, given := args.Get(arg)
	if !given {
		return "", false, nil
	}
	if name, ok = v.(string); !ok {
		return "", false, frames.Errorf(frames.PreconditionFailed, "invalid type '%s' for arg '%s' in %s", frames.TypeName(v), arg, object)
	}
	return name, true, nil
}

// checkConsumeArguments checks the arguments of a basic.consume against the type of its queue (classic,
// quorum or stream) and returns x-priority, 0 without one. Errors as in checkQueueArguments. Any goroutine.
func checkConsumeArguments(p compat.Profile, vhost, queue, queueType string, args frames.Table) (priority int, err *frames.Error) {
	object := queueText(vhost, queue)
	row, ok := findQueueType(queueType)
	if !ok {
		panic(fmt.Sprintf("broker: queue type %q", queueType))
	}
	if err := checkValues(p, object, consumeChecks, row.consumer, args); err != nil {
		return 0, err
	}
	if err := refuseForeign(p, object, row, consumerArguments, args); err != nil {
		return 0, err
	}
	v, _ := args.Get(argPriority)
	n, _ := integer(v)
	return int(n), nil
}
