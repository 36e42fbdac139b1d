package selector

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is what a token is; keywords and signs are told apart by their text.
type tokenKind uint8

const (
	tokenEnd     tokenKind = iota
	tokenSign              // one of = <> < <= > >= + - * / ( ) ,
	tokenKeyword           // text is in upper case
	tokenName              // text is the name
	tokenQuoted            // a name in double quotes: always a header
	tokenString            // text is the value
	tokenInteger           // number is the magnitude, up to 2^63
	tokenFloat             // float is the value
)

// token is one word of a selector.
type token struct {
	kind   tokenKind
	text   string
	number uint64
	float  float64
	start  int // offset in bytes
}

// String is how an error text shows the token.
func (t *token) String() string {
	switch t.kind {
	case tokenEnd:
		return "the end"
	case tokenString:
		return "a string"
	case tokenInteger, tokenFloat:
		return "a number"
	case tokenQuoted:
		return "a name in quotes"
	case tokenName:
		return "name " + t.text
	}
	return t.text
}

// keywords are the words that cannot be names (JMS 1.1 section 3.8.1.1), in upper case.
var keywords = map[string]bool{
	"AND": true, "BETWEEN": true, "ESCAPE": true, "FALSE": true, "IN": true, "IS": true, "LIKE": true, "NOT": true,
	"NULL": true, "OR": true, "TRUE": true,
}

// longestKeyword is how long the longest of them is.
const longestKeyword = len("BETWEEN")

// lexer cuts a text into tokens.
type lexer struct {
	text string
	at   int // offset of what has not been read
}

// fault makes the error of something at an offset.
func (l *lexer) fault(offset int, format string, args ...any) *Error {
	return &Error{Position: utf8.RuneCountInString(l.text[:offset]) + 1, Reason: fmt.Sprintf(format, args...)}
}

// next reads one token.
func (l *lexer) next() (token, *Error) {
	l.at += len(l.text[l.at:]) - len(strings.TrimLeft(l.text[l.at:], " \t\r\n\f"))
	rest := l.text[l.at:]
	t := token{start: l.at}
	if rest == "" {
		return t, nil
	}
	switch c := rest[0]; {
	case c == '\'':
		t.kind = tokenString
		return l.quoted(t, '\'')
	case c == '"':
		t.kind = tokenQuoted
		return l.quoted(t, '"')
	case isDigit(c), c == '.' && len(rest) > 1 && isDigit(rest[1]):
		return l.number(t)
	}
	if n := signLength(rest); n > 0 {
		t.kind, t.text = tokenSign, rest[:n]
		l.at += n
		return t, nil
	}
	return l.word(t)
}

// signLength is how long the sign at the start of s is; 0 when there is none.
func signLength(s string) int {
	if strings.HasPrefix(s, "<>") || strings.HasPrefix(s, "<=") || strings.HasPrefix(s, ">=") {
		return 2
	}
	if strings.IndexByte("=<>+-*/(),", s[0]) >= 0 {
		return 1
	}
	return 0
}

// quoted reads what stands between two marks; a mark inside is doubled.
func (l *lexer) quoted(t token, mark byte) (token, *Error) {
	var b strings.Builder
	for i := l.at + 1; i < len(l.text); i++ {
		if l.text[i] != mark {
			b.WriteByte(l.text[i])
			continue
		}
		if i+1 < len(l.text) && l.text[i+1] == mark {
			b.WriteByte(mark)
			i++
			continue
		}
		t.text, l.at = b.String(), i+1
		if t.kind == tokenQuoted && t.text == "" {
			return t, l.fault(t.start, "a name in quotes is empty")
		}
		return t, nil
	}
	return t, l.fault(t.start, "no closing %c", mark)
}

// word reads a keyword or a name: a Java identifier (JMS 1.1 section 3.8.1.1), in which dots may stand too.
func (l *lexer) word(t token) (token, *Error) {
	end := l.at
	for i, r := range l.text[l.at:] {
		if !isNameStart(r) && (i == 0 || !isNamePart(r)) {
			break
		}
		end = l.at + i + utf8.RuneLen(r)
	}
	if end == l.at {
		r, _ := utf8.DecodeRuneInString(l.text[l.at:])
		return t, l.fault(l.at, "unexpected character %q", r)
	}
	t.kind, t.text = tokenName, l.text[l.at:end]
	if len(t.text) <= longestKeyword {
		if upper := strings.ToUpper(t.text); keywords[upper] {
			t.kind, t.text = tokenKeyword, upper
		}
	}
	l.at = end
	return t, nil
}

// isNameStart and isNamePart are Java's identifiers (java.lang.Character), and the dot that Java has not. A byte that is
// not UTF-8 is never part of a name.
func isNameStart(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.In(r, unicode.Nl, unicode.Sc, unicode.Pc))
}

func isNamePart(r rune) bool {
	return r == '.' || r != utf8.RuneError && unicode.In(r, unicode.Nd, unicode.Mn, unicode.Mc)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// number reads a literal by Java's rules (JMS 1.1 section 3.8.1.1): an integer is decimal, hexadecimal behind 0x, octal
// behind 0, and may end in L; anything with a point, an exponent or an F or D at its end is a float.
func (l *lexer) number(t token) (token, *Error) {
	end := l.at
	exponent := false // the last character was e of a decimal number
	hex := strings.HasPrefix(l.text[l.at:], "0x") || strings.HasPrefix(l.text[l.at:], "0X")
	for ; end < len(l.text); end++ {
		c := l.text[end]
		if !isDigit(c) && !isLetter(c) && c != '.' && c != '_' && !(exponent && (c == '+' || c == '-')) {
			break
		}
		exponent = !hex && (c == 'e' || c == 'E')
	}
	text := l.text[l.at:end]
	l.at = end
	if hex || !strings.ContainsAny(text, ".eEfFdD") {
		return l.integer(t, text)
	}
	digits := strings.TrimRight(text, "fFdD")
	f, err := strconv.ParseFloat(digits, 64)
	if len(text)-len(digits) > 1 || strings.ContainsAny(digits, "_xXpPnNiI") || err != nil {
		return t, l.fault(t.start, "%s is not a number, or one that is too large", brief(text))
	}
	t.kind, t.float = tokenFloat, f
	return t, nil
}

func (l *lexer) integer(t token, text string) (token, *Error) {
	digits := text
	if last := text[len(text)-1]; last == 'l' || last == 'L' {
		digits = text[:len(text)-1]
	}
	base := 10
	switch {
	case len(digits) > 1 && (digits[1] == 'x' || digits[1] == 'X'):
		base, digits = 16, digits[2:]
	case len(digits) > 1 && digits[0] == '0':
		base, digits = 8, digits[1:]
	}
	n, err := strconv.ParseUint(digits, base, 64)
	if err != nil || n > 1<<63 {
		return t, l.fault(t.start, "%s is not a number, or one that is too large", brief(text))
	}
	t.kind, t.number = tokenInteger, n
	return t, nil
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// brief cuts what an error text quotes.
func brief(s string) string {
	if len(s) > 24 {
		return s[:24] + "..."
	}
	return s
}
