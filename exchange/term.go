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

// erlangFloat prints the shortest digits that read back as f, with the point Erlang always writes.
func erlangFloat(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	mantissa, exponent, scientific := strings.Cut(s, "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	if !scientific {
		return mantissa
	}
	return mantissa + "e" + strings.TrimPrefix(exponent, "+")
}
