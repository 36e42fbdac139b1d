package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/frames"
)

// JSON values as the texts of RabbitMQ show them: as the Erlang terms that its JSON decoder makes of them, laid out
// by Erlang's pretty printer.

// decodeJSON reads one JSON value and keeps numbers as they were written.
func decodeJSON(encoded []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode JSON: more than one value")
	}
	return v, nil
}

// jsonInteger reads a number that is written without fraction and exponent; one beyond 64 bits is the nearest that is
// not.
func jsonInteger(v any) (int64, bool) {
	number, ok := v.(json.Number)
	if !ok {
		return integer(v)
	}
	n, ok := new(big.Int).SetString(string(number), 10)
	switch {
	case !ok:
		return 0, false
	case n.IsInt64():
		return n.Int64(), true
	case n.Sign() < 0:
		return math.MinInt64, true
	}
	return math.MaxInt64, true
}

// jsonFloat reads any number.
func jsonFloat(v any) (float64, bool) {
	number, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(number), 64)
	if errors.Is(err, strconv.ErrRange) {
		return math.Copysign(math.MaxFloat64, f), true
	}
	return f, err == nil
}

// erlangWidth is the line length of Erlang's pretty printer.
const erlangWidth = 80

// erlangJSON prints a value of decodeJSON that stands at a column, counted from 0, of its line.
func erlangJSON(v any, column int) string { return termOf(v).print(column) }

// erlangPairs prints an object as a list of pairs, which is how RabbitMQ keeps the outermost one.
func erlangPairs(object map[string]any, column int) string { return pairsOf(object).print(column) }

// erlangTuple prints a tuple of terms that are printed already.
func erlangTuple(column int, terms ...string) string {
	t := layout{open: "{", end: "}"}
	for _, text := range terms {
		t.items = append(t.items, layout{text: text})
	}
	return t.print(column)
}

// layout is an Erlang term to be printed: a text, or items between brackets.
type layout struct {
	text      string
	open, end string
	items     []layout
}

func termOf(v any) layout {
	switch v := v.(type) {
	case nil:
		return layout{text: "null"}
	case bool:
		return layout{text: strconv.FormatBool(v)}
	case string:
		return layout{text: erlangText(v)}
	case json.Number:
		return layout{text: erlangNumber(v)}
	case []any:
		return listOf(v)
	case map[string]any:
		t := layout{open: "#{", end: "}"}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			// Longer associations are broken behind the arrow; none that is so long is known.
			t.items = append(t.items, layout{text: erlangText(key) + " => " + termOf(v[key]).line()})
		}
		return t
	}
	return layout{text: fmt.Sprint(v)}
}

// listOf: a list of characters is printed as a string.
func listOf(list []any) layout {
	t := layout{open: "[", end: "]"}
	var text strings.Builder
	for _, e := range list {
		t.items = append(t.items, termOf(e))
		if n, ok := jsonInteger(e); ok && (n >= ' ' && n <= '~' || n >= 0xa0 && n <= 0xff || n >= '\b' && n <= '\r' || n == 0x1b) {
			text.WriteRune(rune(n))
		}
	}
	if s := text.String(); len(list) > 0 && len([]rune(s)) == len(list) {
		return layout{text: erlangString(s)}
	}
	return t
}

func pairsOf(object map[string]any) layout {
	t := layout{open: "[", end: "]"}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		pair := layout{open: "{", end: "}", items: []layout{{text: erlangText(key)}, termOf(object[key])}}
		t.items = append(t.items, pair)
	}
	return t
}

// erlangText prints a binary: as text if each of its bytes could be a character of Latin-1.
func erlangText(s string) string {
	var text strings.Builder
	for i := range len(s) {
		escape, escaped := erlangEscapes[rune(s[i])]
		switch {
		case escaped:
			text.WriteByte('\\')
			text.WriteByte(escape)
		case s[i] >= ' ' && s[i] <= '~' || s[i] >= 0xa0:
			text.WriteByte(s[i])
		default:
			return frames.ErlangBinary([]byte(s))
		}
	}
	if s == "" {
		return "<<>>"
	}
	return `<<"` + text.String() + `">>`
}

func erlangNumber(n json.Number) string {
	if whole, ok := new(big.Int).SetString(string(n), 10); ok {
		return whole.String()
	}
	f, _ := strconv.ParseFloat(string(n), 64)
	return erlangFloat(f)
}

// line prints a term on one line.
func (t layout) line() string {
	if t.open == "" {
		return t.text
	}
	parts := make([]string, len(t.items))
	for i := range t.items {
		parts[i] = t.items[i].line()
	}
	return t.open + strings.Join(parts, ",") + t.end
}

// print prints a term on one line if that has room behind column, else an item a line.
func (t layout) print(column int) string {
	line := t.line()
	if t.open == "" || column+1+len([]rune(line)) < erlangWidth {
		return line
	}
	column += len(t.open)
	parts := make([]string, len(t.items))
	for i, item := range t.items {
		parts[i] = item.print(column)
	}
	return t.open + strings.Join(parts, ",\n"+strings.Repeat(" ", column)) + t.end
}
