package auth

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// MaxPatternSize is the largest permission pattern accepted, in bytes. Whoever sets permissions is trusted, but a pattern
// of this size made of nothing but x{1000} already takes some seconds and 100 MB to compile.
const MaxPatternSize = 16 << 10

// maxLookaheads bounds the assertions in one pattern.
const maxLookaheads = 16

// PatternError says why a permission pattern was refused.
type PatternError struct {
	Pattern string // as it was given
	Reason  string // in the words of PCRE where it has some for this
	Offset  int    // in bytes, where the reading of the pattern ended; the pattern's size if not known better
	// Unsupported: PCRE might accept the pattern, but it uses what only a backtracking matcher can do.
	Unsupported bool
}

// Error names the pattern and the reason.
func (e *PatternError) Error() string {
	return fmt.Sprintf("invalid regular expression %q at offset %d: %s", e.Pattern, e.Offset, e.Reason)
}

// pattern is a compiled permission pattern. Its zero value matches the empty name only, as ^$ does.
type pattern struct {
	all  bool // matches every name, without a look
	look []lookahead
	rest *regexp.Regexp // nil and not all: ^$
}

// lookahead is one assertion at the start of an anchored pattern.
type lookahead struct {
	re   *regexp.Regexp // anchored
	want bool           // (?=...) true, (?!...) false
}

// match reports whether the pattern allows the name.
func (p *pattern) match(name string) bool {
	if p.all {
		return true
	}
	if p.rest == nil {
		return name == ""
	}
	for _, l := range p.look {
		if l.re.MatchString(name) != l.want {
			return false
		}
	}
	return p.rest.MatchString(name)
}

// compile reads a permission pattern. The error is a *PatternError.
func compile(source string) (pattern, error) {
	switch source {
	case "", "^$":
		return pattern{}, nil
	case ".*", "^.*", ".*$": // each of them has a match, if an empty one, in any name
		return pattern{all: true}, nil
	}
	if len(source) > MaxPatternSize {
		return pattern{}, &PatternError{Pattern: source[:64] + "...", Offset: MaxPatternSize,
			Reason: fmt.Sprintf("larger than %d bytes", MaxPatternSize)}
	}
	re, err := regexp.Compile(source)
	if err == nil {
		return pattern{rest: re}, nil
	}
	if p, ok := compileLookahead(source); ok {
		return p, nil
	}
	return pattern{}, patternError(source, err)
}

// compileFor reads a pattern of a topic permission, with the names of its user and virtual host put in. They are known
// when the permission is set, so that matching has nothing left to expand.
func compileFor(source, user, vhost string) (pattern, error) {
	expanded := strings.NewReplacer(
		"{username}", regexp.QuoteMeta(user), "{vhost}", regexp.QuoteMeta(vhost)).Replace(source)
	p, err := compile(expanded)
	var pe *PatternError
	if errors.As(err, &pe) && len(source) <= MaxPatternSize {
		pe.Pattern, pe.Offset = source, min(pe.Offset, len(source))
	}
	return p, err
}

// compileLookahead reads ^ followed by lookahead assertions and a rest without look-around or a top-level alternative.
// An assertion at the start of an anchored pattern is asked about the whole name, so each is a pattern of its own, and
// the name must satisfy all of them: no backtracking is needed for that.
func compileLookahead(source string) (pattern, bool) {
	rest, anchored := strings.CutPrefix(source, "^")
	if !anchored {
		return pattern{}, false
	}
	var p pattern
	for strings.HasPrefix(rest, "(?!") || strings.HasPrefix(rest, "(?=") {
		end := groupEnd(rest)
		if end < 0 || len(p.look) == maxLookaheads {
			return pattern{}, false
		}
		re, err := regexp.Compile(`\A(?:` + rest[3:end] + `)`)
		if err != nil {
			return pattern{}, false
		}
		p.look = append(p.look, lookahead{re: re, want: rest[2] == '='})
		rest = rest[end+1:]
	}
	if len(p.look) == 0 || hasAlternative(rest) {
		return pattern{}, false
	}
	var err error
	p.rest, err = regexp.Compile(`\A(?:` + rest + `)`)
	return p, err == nil
}

// groupEnd returns the index of the parenthesis that closes the one s begins with, or -1.
func groupEnd(s string) int {
	end := -1
	scan(s, func(i, depth int) bool {
		if s[i] == ')' && depth == 0 {
			end = i
			return false
		}
		return true
	})
	return end
}

// hasAlternative reports whether s has a | outside all groups, or cannot be read.
func hasAlternative(s string) bool {
	found := false
	ok := scan(s, func(i, depth int) bool {
		found = found || s[i] == '|' && depth == 0
		return true
	})
	return found || !ok
}

// scan calls f for each byte of a pattern that stands neither in a character class nor behind a backslash, with the
// number of groups open after it, until f returns false. It returns false for a pattern it cannot follow: an unclosed
// class, more groups closed than opened, or \Q, which changes what all that follows means.
func scan(s string, f func(i, depth int) bool) bool {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i == len(s) || s[i] == 'Q' {
				return false
			}
			continue
		case '[':
			if i = classEnd(s, i); i < 0 {
				return false
			}
			continue
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return false
			}
		}
		if !f(i, depth) {
			return true
		}
	}
	return depth == 0
}

// classEnd returns the index of the bracket that closes the character class at s[i], or -1.
func classEnd(s string, i int) int {
	i++
	if i < len(s) && s[i] == '^' {
		i++
	}
	for first := true; i < len(s); i, first = i+1, false {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '[' && i+1 < len(s) && s[i+1] == ':':
			end := strings.Index(s[i:], ":]")
			if end < 0 {
				return -1
			}
			i += end + 1
		case s[i] == ']' && !first:
			return i
		}
	}
	return -1
}

// patternError puts an error of regexp into PCRE's words, which is what the management API of RabbitMQ answers with.
func patternError(source string, err error) *PatternError {
	pe := &PatternError{Pattern: source, Offset: len(source), Reason: err.Error()}
	var se *syntax.Error
	if !errors.As(err, &se) {
		return pe
	}
	pe.Reason = se.Code.String()
	if strings.HasPrefix(se.Expr, "(?<=") || strings.HasPrefix(se.Expr, "(?<!") { // read as the name of a group
		se = &syntax.Error{Code: syntax.ErrInvalidPerlOp, Expr: se.Expr[:len("(?<=")]}
	}
	switch se.Code {
	case syntax.ErrMissingParen:
		pe.Reason = "missing )"
	case syntax.ErrUnexpectedParen:
		pe.Reason = "unmatched parentheses"
		pe.Offset = max(0, groupEnd("("+source)-1)
	case syntax.ErrMissingBracket:
		pe.Reason = "missing terminating ] for character class"
	case syntax.ErrTrailingBackslash:
		pe.Reason = `\ at end of pattern`
	case syntax.ErrMissingRepeatArgument:
		pe.Reason = "nothing to repeat"
		pe.Offset = max(0, strings.Index(source, se.Expr))
	case syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidRepeatOp, syntax.ErrInvalidRepeatSize:
		pe.Unsupported = true
		pe.Offset = max(0, strings.Index(source, se.Expr))
		pe.Reason = fmt.Sprintf("%s %q; not supported are look-around (other than lookahead at the very start, ^(?!...)), "+
			"back-references, atomic groups, possessive quantifiers and counts above 1000", se.Code, se.Expr)
	}
	return pe
}
