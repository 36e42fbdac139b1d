package broker

import (
	"math"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// equivalentQueueArguments compares the arguments of a queue.declare with those that the existing queue was
// declared with: only the arguments that its type knows count, and the first that differs, in the order of
// the type's list, is reported with 406. current are the stored arguments of queueSpec, received those of the
// method, after withDefaultQueueType when the virtual host has a default type. Any goroutine.
func equivalentQueueArguments(p compat.Profile, vhost, name string, current, received frames.Table) *frames.Error {
	object := queueText(vhost, name)
	for _, a := range storedType(p, current).queue {
		if a.in != nil && !a.in.In(p) {
			continue
		}
		c, r := lookup(p, current, a.name), lookup(p, received, a.name)
		if err := equivalentArgument(a.name, object, c, r); err != nil {
			return err
		}
	}
	return nil
}

// equivalentExchangeArguments is the same for an exchange, where only alternate-exchange counts. Any
// goroutine.
func equivalentExchangeArguments(vhost, name string, current, received frames.Table) *frames.Error {
	c, r := plainLookup(current, argAlternateExchange), plainLookup(received, argAlternateExchange)
	return equivalentArgument(argAlternateExchange, exchangeText(vhost, name), c, r)
}

// inequivalentBool compares a property of an existing queue or exchange with the one a declaration asks for,
// and returns the 406 when they differ. object is a queueText or exchangeText. Any goroutine.
func inequivalentBool(arg, object string, received, current bool) *frames.Error {
	return inequivalentText(arg, object, strconv.FormatBool(received), strconv.FormatBool(current))
}

// inequivalentText is inequivalentBool for the type of an exchange. Any goroutine.
func inequivalentText(arg, object, received, current string) *frames.Error {
	if received == current {
		return nil
	}
	return inequivalent(arg, object, "'"+received+"'", "'"+current+"'")
}

func inequivalent(arg, object, received, current string) *frames.Error {
	return frames.Errorf(frames.PreconditionFailed, "inequivalent arg '%s' for %s: received %s but current is %s", arg, object, received, current)
}

// argument is an argument that may be absent.
type argument struct {
	value any
	given bool
}

func plainLookup(args frames.Table, name string) argument {
	v, given := args.Get(name)
	return argument{v, given}
}

// lookup finds an argument of a queue in the form it is compared in.
func lookup(p compat.Profile, args frames.Table, name string) argument {
	a := plainLookup(args, name)
	switch name {
	case argQueueType:
		if !a.given && compat.QueueTypeShownAgainstDefault.In(p) {
			return argument{queueTypes[0].name, true}
		}
	case argMaxAge:
		if s, ok := a.value.(string); ok && compat.MaxAgeByDuration.In(p) {
			if ms, ok := ageMs(s); ok {
				return argument{ms.String(), true}
			}
		}
	}
	return a
}

// equivalentArgument compares one argument of a declaration with the current one. No type and x-queue-type
// classic are the same.
func equivalentArgument(name, object string, current, received argument) *frames.Error {
	if current.given && received.given {
		if sameValue(current.value, received.value) {
			return nil
		}
		if printCrashes(current.value) || printCrashes(received.value) {
			return crash()
		}
		return inequivalent(name, object, quoted(received.value), quoted(current.value))
	}
	if current.given == received.given {
		return nil
	}
	if name == argQueueType && (current.value == typeClassic || received.value == typeClassic) {
		return nil
	}
	return inequivalent(name, object, described(received), described(current))
}

// described prints one side when the other is absent.
func described(a argument) string {
	if !a.given {
		return "none"
	}
	return "the value '" + displayed(a.value) + "' of type '" + frames.TypeName(a.value) + "'"
}

// quoted prints one side when both are there. The value of a void is Erlang's word for "not there".
func quoted(v any) string {
	if v == nil {
		return "none"
	}
	return "'" + displayed(v) + "'"
}

// printCrashes reports the values on which RabbitMQ crashes when it prints a difference: it takes the pair
// that makes a decimal for a pair of type and value.
func printCrashes(v any) bool {
	_, is := v.(frames.Decimal)
	return is
}

// displayed prints a value as it stands between the quotes. Texts and bytes stand as they are, but for what
// is not UTF-8 and so could not be in a reply-text.
func displayed(v any) string {
	switch v := v.(type) {
	case string:
		return strings.ToValidUTF8(v, "\uFFFD")
	case []byte:
		return strings.ToValidUTF8(string(v), "\uFFFD")
	}
	return erlangTerm(v)
}

// sameValue says whether two values count as equal. RabbitMQ first compares values of one class - integers,
// floats - whatever their widths, and failing that takes them apart from their types; so the type matters
// only where it makes another Erlang term: 1 is the timestamp 1 but not 1.0, and a longstr is a byte array
// of the same bytes (rabbit_misc:assert_args_equivalence1). Inside tables and arrays types have to match.
func sameValue(a, b any) bool {
	if x, ok := wholeNumber(a); ok {
		y, ok := wholeNumber(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case string:
		return sameText(a, b)
	case []byte:
		return sameText(string(a), b)
	case float32:
		return sameFloat(float64(a), b)
	case float64:
		return sameFloat(a, b)
	}
	return sameTerm(a, b)
}

// number is an integer of any kind: negative tells those apart whose bits are the same.
type number struct {
	bits     uint64
	negative bool
}

// wholeNumber returns integers and timestamps.
func wholeNumber(v any) (number, bool) {
	if t, ok := v.(frames.Timestamp); ok {
		return number{uint64(t), false}, true
	}
	n, ok := integer(v)
	return number{uint64(n), n < 0}, ok
}

func sameText(a string, b any) bool {
	switch b := b.(type) {
	case string:
		return a == b
	case []byte:
		return a == string(b)
	}
	return false
}

func sameFloat(a float64, b any) bool {
	switch b := b.(type) {
	case float32:
		return a == float64(b)
	case float64:
		return a == b
	}
	return false
}

// sameTerm compares values with their types, as nested ones are.
func sameTerm(a, b any) bool {
	if frames.TypeName(a) != frames.TypeName(b) {
		return false
	}
	switch a := a.(type) {
	case frames.Table:
		return sameTable(a, b.(frames.Table))
	case frames.Array:
		return sameArray(a, b.(frames.Array))
	case bool, nil, frames.Decimal:
		return a == b
	}
	return sameValue(a, b)
}

func sameTable(a, b frames.Table) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || !sameTerm(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

func sameArray(a, b frames.Array) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameTerm(a[i], b[i]) {
			return false
		}
	}
	return true
}

// erlangTerm prints a value as Erlang's ~p prints the term that RabbitMQ keeps for it.
func erlangTerm(v any) string {
	if n, ok := integer(v); ok {
		return strconv.FormatInt(n, 10)
	}
	switch v := v.(type) {
	case string:
		return frames.ErlangBinary([]byte(v))
	case []byte:
		return frames.ErlangBinary(v)
	case bool:
		return strconv.FormatBool(v)
	case frames.Timestamp:
		return strconv.FormatUint(uint64(v), 10)
	case float32:
		return erlangFloat(float64(v))
	case float64:
		return erlangFloat(v)
	case frames.Decimal:
		return "{" + strconv.Itoa(int(v.Scale)) + "," + strconv.FormatUint(uint64(v.Value), 10) + "}"
	case frames.Table:
		terms := make([]string, len(v))
		for i, f := range v {
			terms[i] = "{" + frames.ErlangBinary([]byte(f.Key)) + "," + frames.TypeName(f.Value) + "," + erlangTerm(f.Value) + "}"
		}
		return "[" + strings.Join(terms, ",") + "]"
	case frames.Array:
		terms := make([]string, len(v))
		for i, e := range v {
			terms[i] = "{" + frames.TypeName(e) + "," + erlangTerm(e) + "}"
		}
		return "[" + strings.Join(terms, ",") + "]"
	}
	return "undefined"
}

// erlangExactIntegers is the bound from which Erlang prints floats with an exponent only: above it not every
// whole number is a float.
const erlangExactIntegers = 1 << 53

// erlangFloat prints a float as Erlang does: the fewest digits that read back the same, with at least one
// after the point, and with an exponent where that is shorter.
func erlangFloat(f float64) string {
	plain := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(plain, ".") {
		plain += ".0"
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	scientific := mantissa + "e" + strconv.Itoa(n)
	if math.Abs(f) >= erlangExactIntegers || len(scientific) < len(plain) {
		return scientific
	}
	return plain
}
