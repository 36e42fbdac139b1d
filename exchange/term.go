package exchange

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/frames"
)

// erlangTerm prints a field value the way RabbitMQ's error texts show one, which is how Erlang prints the term it
// decodes the value to: <<"text">>, 5, true, undefined for void, [{longstr,<<"a">>}] for an array.
func erlangTerm(v any) string {
	switch v := v.(type) {
	case nil:
		return "undefined"
	case string:
		return frames.ErlangBinary([]byte(v))
	case []byte:
		return frames.ErlangBinary(v)
	case float32:
		return erlangFloat(float64(v))
	case float64:
		return erlangFloat(v)
	case frames.Decimal:
		return fmt.Sprintf("{%d,%d}", v.Scale, v.Value)
	case frames.Array:
		terms := make([]string, len(v))
		for i, e := range v {
			terms[i] = "{" + frames.TypeName(e) + "," + erlangTerm(e) + "}"
		}
		return "[" + strings.Join(terms, ",") + "]"
	case frames.Table:
		terms := make([]string, len(v))
		for i, f := range v {
			terms[i] = "{" + erlangTerm(f.Key) + "," + frames.TypeName(f.Value) + "," + erlangTerm(f.Value) + "}"
		}
		return "[" + strings.Join(terms, ",") + "]"
	}
	return fmt.Sprint(v) // bool and the integers read the same in both languages
}

// erlangFloat prints the shortest digits that read back as f: plain or with an exponent, whichever is shorter, plain when
// both are as long, and always with the point that makes it a float to Erlang.
func erlangFloat(f float64) string {
	plain := withPoint(strconv.FormatFloat(f, 'f', -1, 64))
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	power, _ := strconv.Atoi(exponent) // digits and a sign, by construction
	scientific := withPoint(mantissa) + "e" + strconv.Itoa(power)
	if len(scientific) < len(plain) {
		return scientific
	}
	return plain
}

// withPoint appends a fraction to a number that has none.
func withPoint(s string) string {
	if strings.Contains(s, ".") {
		return s
	}
	return s + ".0"
}
