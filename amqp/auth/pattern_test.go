package auth

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern string
		allows  string // names, separated by blanks; _ is the empty name
		denies  string
	}{
		{"", "_", "a amq.gen-xyz amq.default"},
		{"^$", "_", "a"},
		{".*", "_ a a\nb", ""},
		{"^.*", "_ a a\nb", ""},
		{".*$", "_ a a\nb", ""},
		{"^.*$", "_ a", "a\nb"},
		{"r", "r order xr", "_ a R"},
		{"^r", "r row", "order"},
		{"^(a|b)-", "a-1 b-", "c- xa-"},
		{"^amq\\.", "amq.topic", "amqxtopic"},
		{"[a-c]$", "xa c", "cd _"},
		{"(?i)ORDER", "order Orders", "ordr"},
		{"^é$", "é", "e"},
		{"^.$", "é x", "xx _"},
		{"^x{3}$", "xxx", "xx xxxx"},
		{`^\Qa.b\E$`, "a.b", "axb"},
		{"^a$", "a", "a\n"}, // PCRE lets $ stand before a final line feed
		// lookahead at the start of an anchored pattern
		{`^(?!amq\.).*`, "_ a xamq.y", "amq. amq.topic"},
		{`^(?!amq\.|secret).*$`, "a xsecret", "amq.x secret secrets"},
		{`^(?!a)(?!b)`, "_ c", "a b ab"},
		{`^(?=.*x)(?!y).*z$`, "xz axz", "z yxz x"},
		{`^(?!x$)`, "_ xx", "x"},
		{`^(?!(a|b)c)[a-z]+$`, "ad bd a", "ac bc bcd A"},
		{`^(?![)|(]).`, "a", ") | ( _"},
		{`^(?![]]).`, "a", "] _"},
		{`^(?![^]]).`, "]", "a _"},
		{`^(?![[:digit:]]).`, "a", "1"},
		{`^(?!\)).`, "a", ")"},
		{`^(?!a)(b|c)$`, "b c", "a d"},
		{"^" + strings.Repeat("(?!a)", maxLookaheads), "b _", "a"},
		{`^(?!a|)`, "", "_ a b"}, // nothing is always ahead
	} {
		p, err := compile(c.pattern)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		check := func(names string, want bool) {
			for name := range strings.SplitSeq(names, " ") {
				if names == "" {
					return
				}
				if name == "_" {
					name = ""
				}
				if got := p.match(name); got != want {
					t.Errorf("%q matches %q: %v, want %v", c.pattern, name, got, want)
				}
			}
		}
		check(c.allows, true)
		check(c.denies, false)
	}
}

func TestPatternsRefused(t *testing.T) {
	for _, c := range []struct {
		pattern, reason string
		offset          int
		unsupported     bool
	}{
		// Reasons and offsets as 3.10.8 answered PUT /api/permissions with.
		{"(", "missing )", 1, false},
		{"[a", "missing terminating ] for character class", 2, false},
		{"*", "nothing to repeat", 0, false},
		{")", "unmatched parentheses", 0, false},
		{"(a)b)[)]", "unmatched parentheses", 4, false},
		{`\`, `\ at end of pattern`, 1, false},
		// What PCRE takes and RE2 does not.
		{"(?!x).*", "not supported", 0, true},
		{"x(?!y)", "not supported", 1, true},
		{"^x(?=y)", "not supported", 2, true},
		{"(?<=a)b", "not supported", 0, true},
		{"(?<!a)b", "not supported", 0, true},
		{"^((?!x).)*$", "not supported", 2, true},
		{"^(?!a)b|c", "not supported", 1, true}, // the assertion holds for one alternative only
		{"^(?!a", "not supported", 1, true},
		{`^(?!\Qa)b`, "not supported", 1, true},
		{"^(?!a)(?>b)", "not supported", 1, true},
		{"^(?!(?!a))", "not supported", 1, true},
		{`(a)\1`, "not supported", 3, true},
		{"(?>a)", "not supported", 0, true},
		{"a++", "not supported", 1, true},
		{"a{2000}", "not supported", 1, true},
		{"^" + strings.Repeat("(?!a)", maxLookaheads+1), "not supported", 1, true},
		{strings.Repeat("a", MaxPatternSize+1), "larger than", MaxPatternSize, false},
	} {
		_, err := compile(c.pattern)
		var pe *PatternError
		if !errors.As(err, &pe) {
			t.Errorf("%.20q: error %v, want a PatternError", c.pattern, err)
			continue
		}
		if !strings.Contains(pe.Reason, c.reason) || pe.Offset != c.offset || pe.Unsupported != c.unsupported {
			t.Errorf("%.20q: %+v, want %+v", c.pattern, pe, c)
		}
		if len(pe.Error()) > 1000 || strings.Contains(pe.Error(), "regexp/syntax") {
			t.Errorf("%.20q: unfit for an answer: %.200s", c.pattern, pe)
		}
	}
}

func TestTopicPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, user, vhost, key string
		want                      bool
	}{
		{"^{username}[.]", "bob", "/", "bob.x", true},
		{"^{username}[.]", "bob", "/", "rob.x", false},
		{"^{vhost}-{username}$", "u", "v", "v-u", true},
		{"{username}|{username}x", "u", "v", "ux", true},
		{"^{username}$", "a.b", "/", "a.b", true},
		{"^{username}$", "a.b", "/", "aZb", false}, // quoted, as in 4.3.6
		{"^{username}$", ".*", "/", "any", false},
		{"^{username}$", "(", "/", "(", true},
		{"^{username}$", "{vhost}", "v", "{vhost}", true},
		{"^{username}$", "{vhost}", "v", "v", false},
		{"^{client_id}$", "u", "v", "{client_id}", true}, // not known here: as it stands
		{"^{Username}$", "u", "v", "{Username}", true},
		{"", "u", "v", "", true},
		{"", "u", "v", "a", false},
		{"^(?!{username}).", "bob", "/", "bobby", false},
		{"^(?!{username}).", `\Q`, "/", "bobby", true},
	} {
		p, err := compileFor(c.pattern, c.user, c.vhost)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if got := p.match(c.key); got != c.want {
			t.Errorf("%+v: match = %v", c, got)
		}
	}
	_, err := compileFor("({username}", "someone with a long name", "/")
	var pe *PatternError
	if !errors.As(err, &pe) || pe.Pattern != "({username}" || pe.Offset > len(pe.Pattern) {
		t.Errorf("a bad topic pattern gives %v, want a PatternError about what was given", err)
	}
}

// The scanner behind lookahead must agree with what the compiler makes of a group: whatever text the assertion holds,
// the pattern allows exactly the names that the rest allows and the assertion's own pattern does not.
func TestLookaheadProperty(t *testing.T) {
	atom := rapid.SampledFrom([]string{"a", "b", "c", ".", "[ab]", "[^a]", "[]a]", `\)`, `\(`, `[)]`, "(?:ab)", "(a|b)", "a|b", "a*", "(b|c)+", "$"})
	rapid.Check(t, func(t *rapid.T) {
		assertion := strings.Join(rapid.SliceOfN(atom, 0, 4).Draw(t, "assertion"), "")
		rest := strings.Join(rapid.SliceOfN(atom, 0, 3).Draw(t, "rest"), "")
		name := rapid.StringOfN(rapid.RuneFrom([]rune("abc()]")), 0, 6, -1).Draw(t, "name")
		p, err := compile("^(?!" + assertion + ")(?:" + rest + ")")
		if err != nil {
			t.Fatal(err)
		}
		ahead, err := compile("^(?:" + assertion + ")")
		if err != nil {
			t.Fatal(err)
		}
		behind, err := compile("^(?:" + rest + ")")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.match(name), behind.match(name) && !ahead.match(name); got != want {
			t.Errorf("^(?!%s)(?:%s) matches %q: %v, want %v", assertion, rest, name, got, want)
		}
	})
}

// Were this done by backtracking, the test would not end.
func TestPatternLinear(t *testing.T) {
	p, err := compile("^(a+)+$")
	if err != nil {
		t.Fatal(err)
	}
	if p.match(strings.Repeat("a", 254) + "b") {
		t.Error("matched")
	}
}

func FuzzPattern(f *testing.F) {
	f.Add("^(?!amq\\.).*", "amq.topic")
	f.Add("^(?=[[:alpha:])(?!\\Q", "x")
	f.Add("[^]", "x")
	f.Fuzz(func(t *testing.T, source, name string) {
		p, err := compile(source)
		var pe *PatternError
		switch {
		case err == nil:
			p.match(name)
		case !errors.As(err, &pe):
			t.Errorf("error is no PatternError: %v", err)
		case pe.Offset < 0 || pe.Offset > len(source):
			t.Errorf("offset %d of %q", pe.Offset, source)
		}
	})
}
