package selector

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/warrenmq/warren/frames"
	"pgregory.net/rapid"
)

// The model: a random expression is made as text and as a function over a Go map at once, by the words of the JMS text
// and with none of the package's code. Numbers are small, so that floats are exact and nothing wraps around.

// truth is one of the three values of a condition.
type truth int

const (
	no truth = iota
	unknown
	yes
)

func of(b bool) truth {
	if b {
		return yes
	}
	return no
}

type headers map[string]any // string, bool, float64; missing: NULL

// condition and operand are a text with its meaning.
type (
	condition struct {
		text string
		eval func(headers) truth
	}
	operand struct {
		text string
		eval func(headers) any // nil: NULL
	}
)

var modelNames = []string{"s", "n", "f", "b", "missing"}

func genCondition(t *rapid.T, depth int) condition {
	choice := rapid.IntRange(0, 7).Draw(t, "condition")
	if depth == 0 && choice < 3 {
		choice += 3
	}
	switch choice {
	case 0, 1:
		a, b := genCondition(t, depth-1), genCondition(t, depth-1)
		if choice == 0 {
			return condition{"(" + a.text + ") AND (" + b.text + ")", func(h headers) truth { return min(a.eval(h), b.eval(h)) }}
		}
		return condition{"(" + a.text + ") or (" + b.text + ")", func(h headers) truth { return max(a.eval(h), b.eval(h)) }}
	case 2:
		a := genCondition(t, depth-1)
		return condition{"Not (" + a.text + ")", func(h headers) truth { return yes - a.eval(h) }}
	case 3:
		return genNull(t)
	case 4:
		return genBetween(t)
	case 5:
		return genLike(t)
	case 6:
		return genIn(t)
	}
	return genComparison(t)
}

func negated(t *rapid.T, text string, eval func(headers) truth) (string, func(headers) truth) {
	if !rapid.Bool().Draw(t, "not") {
		return text, eval
	}
	return "NOT " + text, func(h headers) truth { return yes - eval(h) }
}

func genNull(t *rapid.T) condition {
	name := rapid.SampledFrom(modelNames).Draw(t, "name")
	want, text := rapid.Bool().Draw(t, "null"), " IS NULL"
	if !want {
		text = " IS NOT NULL"
	}
	return condition{name + text, func(h headers) truth { return of((h[name] == nil) == want) }}
}

func genIn(t *rapid.T) condition {
	name := rapid.SampledFrom([]string{"s", "n", "b", "missing"}).Draw(t, "name")
	set := rapid.SliceOfN(rapid.StringMatching(`[ab]{0,2}`), 1, 3).Draw(t, "set")
	text, eval := negated(t, "IN ('"+strings.Join(set, "', '")+"')", func(h headers) truth {
		if h[name] == nil {
			return unknown
		}
		s, ok := h[name].(string)
		return of(ok && strings.Contains("|"+strings.Join(set, "|")+"|", "|"+s+"|"))
	})
	return condition{name + " " + text, eval}
}

func genLike(t *rapid.T) condition {
	name := rapid.SampledFrom([]string{"s", "s", "n", "missing"}).Draw(t, "name")
	pattern := rapid.StringMatching(`[abü%_]{0,5}`).Draw(t, "pattern")
	expression := regexp.MustCompile("(?s)^" + strings.NewReplacer("%", ".*", "_", ".").Replace(pattern) + "$")
	text, eval := negated(t, "LIKE '"+pattern+"'", func(h headers) truth {
		if h[name] == nil {
			return unknown
		}
		s, ok := h[name].(string)
		return of(ok && expression.MatchString(s))
	})
	return condition{name + " " + text, eval}
}

func genOperand(t *rapid.T, depth int) operand {
	choice := rapid.IntRange(0, 4).Draw(t, "operand")
	if depth == 0 && choice > 1 {
		choice -= 2
	}
	if choice == 0 {
		n := rapid.IntRange(-4, 4).Draw(t, "number")
		return operand{fmt.Sprintf("%d.0", n), func(headers) any { return float64(n) }}
	}
	if choice < 3 {
		name := rapid.SampledFrom(modelNames).Draw(t, "name")
		return operand{name, func(h headers) any { return h[name] }}
	}
	a, b := genOperand(t, depth-1), genOperand(t, depth-1)
	op := rapid.SampledFrom([]string{"+", "-", "*"}).Draw(t, "operator")
	return operand{"(" + a.text + op + b.text + ")", func(h headers) any {
		x, ok := a.eval(h).(float64)
		y, also := b.eval(h).(float64)
		switch {
		case !ok || !also:
			return nil
		case op == "+":
			return x + y
		case op == "-":
			return x - y
		}
		return x * y
	}}
}

func order(op string, a, b any) truth {
	if a == nil || b == nil {
		return unknown
	}
	x, ok := a.(float64)
	y, also := b.(float64)
	if !ok || !also {
		same := fmt.Sprintf("%T", a) == fmt.Sprintf("%T", b)
		return of(same && (op == "=" && a == b || op == "<>" && a != b))
	}
	return of(map[string]bool{"=": x == y, "<>": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[op])
}

func genComparison(t *rapid.T) condition {
	a, b := genOperand(t, 2), genOperand(t, 2)
	op := rapid.SampledFrom([]string{"=", "<>", "<", "<=", ">", ">="}).Draw(t, "operator")
	return condition{a.text + op + b.text, func(h headers) truth { return order(op, a.eval(h), b.eval(h)) }}
}

func genBetween(t *rapid.T) condition {
	a, low, high := genOperand(t, 1), genOperand(t, 1), genOperand(t, 1)
	text, eval := negated(t, "BETWEEN "+low.text+" AND "+high.text, func(h headers) truth {
		return min(order(">=", a.eval(h), low.eval(h)), order("<=", a.eval(h), high.eval(h)))
	})
	return condition{a.text + " " + text, eval}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genCondition(t, 3)
		s, err := Compile(c.text)
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		for range 4 {
			h := headers{
				"s": rapid.StringMatching(`[abü]{0,4}`).Draw(t, "s"), "n": float64(rapid.IntRange(-4, 4).Draw(t, "n")),
				"f": float64(rapid.IntRange(-8, 8).Draw(t, "f")) / 2, "b": rapid.Bool().Draw(t, "b"),
			}
			table := frames.Table{{Key: "s", Value: h["s"]}, {Key: "f", Value: h["f"]}, {Key: "n", Value: int16(h["n"].(float64))}, {Key: "b", Value: h["b"]}}
			values := frames.PropertyValues{Flags: frames.FlagHeaders, Headers: table}
			p, err := frames.ParseProperties(values.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			var v View
			v.Reset(p)
			if got, want := s.Match(&v), c.eval(h) == yes; got != want {
				t.Fatalf("%s of %v: %v, want %v", c.text, h, got, want)
			}
		}
	})
}

// FuzzCompile: whatever the text is, there is a selector that answers, or an error with a place inside the text.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		"", "a = 1", `color LIKE 'r\_%' ESCAPE '\' AND NOT (b BETWEEN -1 AND +2.5e3)`, `"x-y" IN ('a','b''c') OR JMSPriority > 0x1F / 2`,
		"properties.type IS NOT NULL", "((((a", "a NOT IN (", "-9223372036854775808 = a", "1e", "'", "ü.ö = .5f",
	} {
		f.Add(seed)
	}
	p := message(f, sample)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Compile(text)
		if err != nil {
			if e := err.(*Error); e.Position < 1 || e.Position > len([]rune(text))+1 || e.Reason == "" {
				t.Fatalf("%q: %+v", text, e)
			}
			return
		}
		var v View
		v.Reset(p)
		if first := s.Match(&v); first != s.Match(&v) {
			t.Fatalf("%q: two answers", text)
		}
		again, err := Compile("(" + text + "\n)")
		if err == nil && again.Match(&v) != s.Match(&v) {
			t.Fatalf("%q: parentheses change it", text)
		}
	})
}
