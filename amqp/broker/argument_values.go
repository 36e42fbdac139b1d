package broker

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// argStreamOffset says where a stream consumer starts.
const argStreamOffset = "x-stream-offset"

// maxDurationMs is the longest time an argument may ask for, ten years of 365 days (RabbitMQ's
// MAX_EXPIRY_TIMER).
const maxDurationMs = 315_360_000_000

// maxPriorityLevels is the highest x-max-priority.
const maxPriorityLevels = 255

// verdict is what a check says of a value: the zero value accepts it.
type verdict struct {
	// reason is the end of the error text, an Erlang term as RabbitMQ prints it.
	reason string
	// crash says that RabbitMQ's channel crashes on the value, which clients see as 541 without text.
	crash bool
}

var accepted verdict

func refused(format string, a ...any) verdict { return verdict{reason: fmt.Sprintf(format, a...)} }

func unacceptableType(v any) verdict { return refused("{unacceptable_type,%s}", frames.TypeName(v)) }

// integer is the one place that says which values are integers: all widths, signed or not, but neither
// timestamps nor floats nor strings of digits (behaviour verified on 3.10.8 and 4.3.6).
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int8:
		return int64(v), true
	case uint8:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int64:
		return v, true
	case frames.LongLong:
		return int64(v), true
	}
	return 0, false
}

func checkInteger(_ compat.Profile, v any, _ frames.Table) verdict {
	if _, ok := integer(v); !ok {
		return refused(`"expected integer, got %s"`, frames.TypeName(v))
	}
	return accepted
}

func checkNonNegative(p compat.Profile, v any, all frames.Table) verdict {
	if bad := checkInteger(p, v, all); bad != accepted {
		return bad
	}
	if n, _ := integer(v); n < 0 {
		return refused("{value_negative,%d}", n)
	}
	return accepted
}

func checkPositive(p compat.Profile, v any, all frames.Table) verdict {
	if bad := checkNonNegative(p, v, all); bad != accepted {
		return bad
	}
	if n, _ := integer(v); n == 0 {
		return refused("{value_zero,0}")
	}
	return accepted
}

func checkMessageTTL(p compat.Profile, v any, all frames.Table) verdict {
	if bad := checkNonNegative(p, v, all); bad != accepted {
		return bad
	}
	if n, _ := integer(v); n > maxDurationMs {
		return refused("{value_too_large,%d}", n)
	}
	return accepted
}

// checkExpires is checkMessageTTL for a time that may not be zero.
func checkExpires(p compat.Profile, v any, all frames.Table) verdict {
	if n, ok := integer(v); ok && n == 0 {
		return refused("{value_zero,0}")
	}
	return checkMessageTTL(p, v, all)
}

func checkMaxPriority(p compat.Profile, v any, all frames.Table) verdict {
	if bad := checkNonNegative(p, v, all); bad != accepted {
		return bad
	}
	if n, _ := integer(v); n > maxPriorityLevels {
		return refused("{max_value_exceeded,%d}", n)
	}
	return accepted
}

func checkQueueVersion(p compat.Profile, v any, all frames.Table) verdict {
	if bad := checkNonNegative(p, v, all); bad != accepted {
		return bad
	}
	n, _ := integer(v)
	if n == 2 || n == 1 && compat.QueueVersion1.In(p) {
		return accepted
	}
	return refused(`"unsupported queue version '%d'"`, n)
}

func checkBool(_ compat.Profile, v any, _ frames.Table) verdict {
	if _, ok := v.(bool); !ok {
		return unacceptableType(v)
	}
	return accepted
}

func checkLongstr(_ compat.Profile, v any, _ frames.Table) verdict {
	if _, ok := v.(string); !ok {
		return unacceptableType(v)
	}
	return accepted
}

func checkDeadLetterRoutingKey(p compat.Profile, v any, all frames.Table) verdict {
	if bad := checkLongstr(p, v, all); bad != accepted {
		return bad
	}
	if _, ok := all.Get(argDeadLetterExchange); !ok {
		return refused("routing_key_but_no_dlx_defined")
	}
	return accepted
}

// oneOf makes a check for a string out of a list.
func oneOf(reason string, values ...string) func(compat.Profile, any, frames.Table) verdict {
	return func(_ compat.Profile, v any, _ frames.Table) verdict {
		s, ok := v.(string)
		switch {
		case !ok:
			return unacceptableType(v)
		case !slices.Contains(values, s):
			return refused("%s", reason)
		}
		return accepted
	}
}

var leaderLocators = oneOf("invalid_queue_locator_arg", "client-local", "balanced", "random", "least-leaders")

func checkLeaderLocator(p compat.Profile, v any, all frames.Table) verdict {
	if v == "min-masters" && compat.LeaderLocatorMinMasters.In(p) {
		return accepted
	}
	return leaderLocators(p, v, all)
}

func checkQueueType(_ compat.Profile, v any, _ frames.Table) verdict {
	s, ok := v.(string)
	if !ok {
		return unacceptableType(v)
	}
	if _, ok := findQueueType(s); !ok {
		return refused("%s", erlangString("unsupported queue type '"+s+"'"))
	}
	return accepted
}

func checkQueueMode(p compat.Profile, v any, _ frames.Table) verdict {
	if !compat.QueueModeValidated.In(p) {
		return accepted
	}
	s, ok := v.(string)
	switch {
	case !ok:
		return unacceptableType(v)
	case s != "default" && s != "lazy":
		return refused("%s", erlangString("unsupported queue mode '"+s+"'"))
	}
	return accepted
}

func checkMaxAge(p compat.Profile, v any, _ frames.Table) verdict {
	s, ok := v.(string)
	if !ok {
		return unacceptableType(v)
	}
	if ageCrashes(p, s) {
		return verdict{crash: true}
	}
	if _, ok := ageMs(s); !ok {
		return refused("invalid_max_age")
	}
	return accepted
}

// checkStreamOffset takes the words, an age, a timestamp and an offset. What else 4.3.6 lets through its
// check kills its channel a moment later, when the stream is opened.
func checkStreamOffset(p compat.Profile, v any, _ frames.Table) verdict {
	if _, ok := integer(v); ok {
		return accepted
	}
	switch v := v.(type) {
	case frames.Timestamp:
		return accepted
	case []byte:
		if offsetWord(string(v)) {
			return accepted
		}
	case string:
		return checkOffsetText(p, v)
	}
	return verdict{crash: true}
}

func offsetWord(s string) bool { return s == "first" || s == "last" || s == "next" }

func checkOffsetText(p compat.Profile, s string) verdict {
	if offsetWord(s) {
		return accepted
	}
	if ageCrashes(p, s) {
		return verdict{crash: true}
	}
	if _, ok := ageMs(s); !ok {
		return refused("{invalid_stream_offset_arg,{longstr,%s}}", frames.ErlangBinary([]byte(s)))
	}
	return accepted
}

// ageCrashes reports an age on which 3.10.8 crashes: one without leading digits.
func ageCrashes(p compat.Profile, s string) bool {
	return !compat.MaxAgeNeedsDigits.In(p) && leadingDigits(s) == ""
}

func leadingDigits(s string) string {
	i := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if i < 0 {
		return s
	}
	return s[:i]
}

// ageUnitMs are the units of x-max-age.
var ageUnitMs = map[string]int64{
	"Y": 365 * 24 * 3600 * 1000, "M": 30 * 24 * 3600 * 1000, "D": 24 * 3600 * 1000,
	"h": 3600 * 1000, "m": 60 * 1000, "s": 1000,
}

// ageMs reads an age such as "7D": digits and a unit. There is no upper bound. As RabbitMQ does it with a
// regular expression, what follows a line feed is ignored.
func ageMs(s string) (*big.Int, bool) {
	digits := leadingDigits(s)
	unit, _, _ := strings.Cut(s[len(digits):], "\n")
	n, ok := new(big.Int).SetString(digits, 10)
	ms, known := ageUnitMs[unit]
	if !ok || !known || n.Sign() == 0 {
		return nil, false
	}
	return n.Mul(n, big.NewInt(ms)), true
}

// erlangEscapes are the letters after the backslash of characters that count as printable.
var erlangEscapes = map[rune]byte{
	'"': '"', '\\': '\\', '\n': 'n', '\r': 'r', '\t': 't', '\v': 'v', '\b': 'b', '\f': 'f', 0x1b: 'e',
}

// erlangString prints a text the way Erlang's ~p prints a list of characters.
func erlangString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		escape, escaped := erlangEscapes[r]
		switch {
		case escaped:
			b.WriteByte('\\')
			b.WriteByte(escape)
		case r >= ' ' && r <= '~' || r >= 0xa0 && r <= 0xff:
			b.WriteRune(r)
		default:
			return characterList(s)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// characterList is how Erlang prints a text with characters that it finds not printable. Beyond Latin-1 this is
// 4.3.6's list, of characters; 3.10.8 lists bytes.
func characterList(s string) string {
	var numbers []string
	for _, r := range s {
		numbers = append(numbers, strconv.Itoa(int(r)))
	}
	return "[" + strings.Join(numbers, ",") + "]"
}
