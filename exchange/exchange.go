package exchange

import "github.com/warrenmq/warren/frames"

// The exchange types that New knows, as clients name them in exchange.declare.
const (
	TypeDirect  = "direct"
	TypeFanout  = "fanout"
	TypeTopic   = "topic"
	TypeHeaders = "headers"

	TypeConsistentHash = "x-consistent-hash"
	TypeModulusHash    = "x-modulus-hash"
	TypeRandom         = "x-random"
	TypeLocalRandom    = "x-local-random"
)

// Message is what routing reads of a published message. All fields are borrowed for the length of one Route call. It is
// for one goroutine.
type Message struct {
	RoutingKey []byte             // as published; at most 255 octets when it came over AMQP
	Headers    frames.RawTable    // the headers property, validated; nil when the message has none
	Properties *frames.Properties // for a hash on a property, and for selectors; nil when the message has none

	selected *selection // nil until a selector is evaluated; see Done
}

// Binding ties a destination to an exchange. Its identity is all three fields: two bindings that differ in the key or in
// an argument are two bindings, and removing one leaves the other. Arguments are compared as AMQP tables: the order of
// the keys at the top level does not matter, values must agree in type and value. (RabbitMQ sorts the top level and
// compares the rest as it is; `l` and `L` are one type to it.)
type Binding[D comparable] struct {
	Destination D
	Key         string
	Arguments   frames.Table // nil and empty are the same
	// Name belongs to the destination and is no part of the identity. The types that choose one destination by a hash
	// tell destinations apart by it, so that the choice is the same after a restart; the others do not read it.
	Name string
}

// Matcher is one version of an exchange's bindings. All methods may be called from any goroutine at any time.
type Matcher[D comparable] interface {
	// Bind returns a matcher that also has b; the receiver itself if b is there already. It keeps the strings of b but
	// no part of b.Arguments. Arguments that ValidateBinding refuses must not get here.
	Bind(b Binding[D]) Matcher[D]
	// Unbind returns a matcher without b; the receiver itself if b is not there.
	Unbind(b Binding[D]) Matcher[D]
	// Route appends the destinations whose bindings match m to dst and returns it. A destination appears more than once
	// when several of its bindings match; the order means nothing. It keeps nothing of m beyond m.Done and allocates
	// only when dst has to grow.
	Route(dst []D, m *Message) []D
	// Len returns the number of bindings.
	Len() int
}

// Options are the rules that differ between brokers this one can stand in for.
type Options struct {
	// NumbersByValue makes the headers exchange compare as RabbitMQ 3.10 does: 1 equals 1.0, a timestamp equals an
	// integer, and of two headers with the same key the first counts. Otherwise it compares as 4.3 does: integers equal
	// integers and floats equal floats of any width, a timestamp header counts as its milliseconds, and of two headers
	// with the same key the last counts.
	NumbersByValue bool
	// Arguments are those the exchange was declared with.
	Arguments frames.Table
	// Random gives 64 random bits to the types that choose at random. Any goroutine may call it. Nil chooses always the
	// first binding.
	Random func() uint64
	// MaxWeight is the highest weight of a binding to a consistent hash exchange; 0 is no bound.
	MaxWeight int64
}

// New returns an empty matcher of the type named typ; false when there is no such type.
func New[D comparable](typ string, o Options) (Matcher[D], bool) {
	switch typ {
	case TypeDirect:
		return &direct[D]{}, true
	case TypeFanout:
		return &fanout[D]{}, true
	case TypeTopic:
		return newTopic[D](), true
	case TypeHeaders:
		return &headers[D]{rules: rules{byValue: o.NumbersByValue}}, true
	case TypeConsistentHash:
		return &consistentHash[D]{from: hashSourceOf(o.Arguments)}, true
	case TypeModulusHash:
		return &chooser[D]{choose: byKey}, true
	case TypeRandom, TypeLocalRandom:
		return &chooser[D]{choose: atRandom(o.Random)}, true
	}
	return nil, false
}

// Traits say what a type's routes depend on.
type Traits struct {
	// KeyDecides: the same routing key leads to the same destinations as long as the matcher is the same.
	KeyDecides bool
	// ChoosesOne: a message goes to one destination, however many routing keys it has.
	ChoosesOne bool
}

// TraitsOf gives the traits of an exchange of a type and with arguments that New takes.
func TraitsOf(typ string, args frames.Table) Traits {
	switch typ {
	case TypeHeaders:
		return Traits{}
	case TypeConsistentHash:
		return Traits{KeyDecides: hashSourceOf(args).what == hashKey, ChoosesOne: true}
	case TypeModulusHash:
		return Traits{KeyDecides: true, ChoosesOne: true}
	case TypeRandom, TypeLocalRandom:
		return Traits{ChoosesOne: true}
	}
	return Traits{KeyDecides: true}
}

// ValidateArguments checks the arguments of a new exchange of type typ. The error has RabbitMQ's code and text and no
// class and method; nil when there is nothing to object to.
func ValidateArguments(typ string, args frames.Table) *frames.Error {
	if typ == TypeConsistentHash {
		return validateHashSource(args)
	}
	return nil
}

// ValidateBinding checks the key and the arguments of a binding to an exchange of type typ before Bind. The error is a
// channel error 406 without class and method, with RabbitMQ's text; nil when there is nothing to object to.
func ValidateBinding(typ, key string, args frames.Table, o Options) *frames.Error {
	if err := validateSelector(typ, args); err != nil {
		return err
	}
	switch typ {
	case TypeHeaders:
		return validateHeaders(args)
	case TypeConsistentHash:
		return validateWeight(key, o.MaxWeight)
	case TypeLocalRandom:
		if key != "" {
			return frames.Errorf(frames.PreconditionFailed, "Non empty binding '%s' key not permitted", key)
		}
	}
	return nil
}
