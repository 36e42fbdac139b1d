package auth

import (
	"errors"
	"testing"
)

func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "anything", true},
		{"", "", true},
		{".*", "", true},
		{"rder", "orders", true},
		{"^rder", "orders", false},
		{"^orders$", "orders", true},
		{"^$", "orders", false},
		{"^$", "", true},
		{`^(?!amq\.).*`, "orders", true},
		{`^(?!amq\.).*`, "amq.gen-1", false},
		{"(?i)ORD", "orders", true},
	} {
		m, err := CompileMatcher(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Match(c.name); got != c.want {
			t.Errorf("pattern %q, name %q: %v", c.pattern, c.name, got)
		}
	}
	var pe *PatternError
	if _, err := CompileMatcher("("); !errors.As(err, &pe) || pe.Reason != "missing )" {
		t.Errorf("pattern (: %v", err)
	}
}
