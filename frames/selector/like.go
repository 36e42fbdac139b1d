package selector

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// pattern is a compiled LIKE pattern: the pieces between its percent signs. The first piece stands at the start of the
// value, the last at its end, and each of the others at the first place behind the one before where it fits: if it fits
// later too, what follows has only less room.
type pattern struct {
	pieces []piece // at least one; with only one there is no percent sign
}

// piece is a run of characters without a percent sign.
type piece struct {
	runes []rune // anyRune is an underscore
	plain bool   // no underscore is among them
	// octets are the same as runes in a plain piece.
	octets []byte
}

// anyRune stands for one character, whatever it is. No text decodes to it.
const anyRune rune = -1

// noEscape is the escape character of a pattern that has none.
const noEscape rune = -2

// escapeOf is the character that ESCAPE names; false when it is not one.
func escapeOf(text string, given bool) (rune, bool) {
	if !given {
		return noEscape, true
	}
	r, n := utf8.DecodeRuneInString(text)
	return r, n > 0 && n == len(text)
}

// compilePattern reads a pattern; reason says what is wrong with it.
func compilePattern(text string, escape rune) (p pattern, reason string) {
	if n := utf8.RuneCountInString(text); n > MaxPattern {
		return p, fmt.Sprintf("the pattern has %d characters, at most %d are allowed", n, MaxPattern)
	}
	var run []rune
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			if r != '%' && r != '_' && r != escape {
				return p, "the escape character stands before a character that needs none"
			}
			run, escaped = append(run, r), false
		case r == escape:
			escaped = true
		case r == '%':
			p.pieces, run = append(p.pieces, newPiece(run)), nil
		case r == '_':
			run = append(run, anyRune)
		default:
			run = append(run, r)
		}
	}
	if escaped {
		return p, "the escape character stands at the end of the pattern"
	}
	p.pieces = append(p.pieces, newPiece(run))
	return p, ""
}

func newPiece(runes []rune) piece {
	p := piece{runes: runes, plain: true}
	for _, r := range runes {
		p.plain = p.plain && r != anyRune
	}
	if p.plain {
		p.octets = []byte(string(runes))
	}
	return p
}

// matches says whether the whole of b is like the pattern.
func (p *pattern) matches(b []byte) bool {
	n, ok := p.pieces[0].prefix(b)
	if !ok {
		return false
	}
	b = b[n:]
	if len(p.pieces) == 1 {
		return len(b) == 0
	}
	last := len(p.pieces) - 1
	for i := 1; i < last; i++ {
		if n, ok = p.pieces[i].search(b); !ok {
			return false
		}
		b = b[n:]
	}
	return p.pieces[last].suffix(b)
}

// prefix says whether b begins with the piece, and how many octets of it do.
func (p *piece) prefix(b []byte) (n int, ok bool) {
	if p.plain {
		return len(p.octets), bytes.HasPrefix(b, p.octets)
	}
	for _, want := range p.runes {
		if n == len(b) {
			return 0, false
		}
		r, size := utf8.DecodeRune(b[n:])
		if !isLike(want, r, size) {
			return 0, false
		}
		n += size
	}
	return n, true
}

// search says where the first place of the piece in b ends.
func (p *piece) search(b []byte) (end int, ok bool) {
	if p.plain {
		i := bytes.Index(b, p.octets)
		return i + len(p.octets), i >= 0
	}
	for start := 0; start < len(b); {
		if n, ok := p.prefix(b[start:]); ok {
			return start + n, true
		}
		_, size := utf8.DecodeRune(b[start:])
		start += size
	}
	return 0, false
}

// suffix says whether b ends with the piece.
func (p *piece) suffix(b []byte) bool {
	if p.plain {
		return bytes.HasSuffix(b, p.octets)
	}
	for i := len(p.runes) - 1; i >= 0; i-- {
		r, size := utf8.DecodeLastRune(b)
		if size == 0 || !isLike(p.runes[i], r, size) {
			return false
		}
		b = b[:len(b)-size]
	}
	return true
}

// isLike compares a character of the pattern with one that was decoded from so many octets. An octet that is not UTF-8
// decodes to RuneError and counts as a character, which only an underscore stands for.
func isLike(want, got rune, size int) bool {
	return want == anyRune || want == got && (got != utf8.RuneError || size > 1)
}
