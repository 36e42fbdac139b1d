package selector

import (
	"fmt"
	"unicode/utf8"
)

// Bounds of what Compile takes. They are far above what people write.
const (
	MaxLength  = 8192 // of the text, in bytes
	MaxDepth   = 64   // of parentheses, NOT and signs inside each other
	MaxTerms   = 1024 // names and literals
	MaxPattern = 256  // of a LIKE pattern, in characters
)

// Error says why a text is no selector.
type Error struct {
	// Position is where, in characters from 1; one more than there are means the end.
	Position int
	// Reason is the fault, in words.
	Reason string
}

// Error gives the place and the fault.
func (e *Error) Error() string { return fmt.Sprintf("position %d: %s", e.Position, e.Reason) }

// Selector is a compiled selector. Immutable.
type Selector struct {
	text string
	root node // nil matches everything
}

// Compile reads a selector. The error is an *Error. Any goroutine.
func Compile(text string) (*Selector, error) {
	if len(text) > MaxLength {
		return nil, &Error{1, fmt.Sprintf("the selector has %d bytes, at most %d are allowed", len(text), MaxLength)}
	}
	if !utf8.ValidString(text) {
		return nil, &Error{1, "the selector is not UTF-8"}
	}
	p := parser{lexer: lexer{text: text}}
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	return &Selector{text: text, root: root}, nil
}

// String returns the text that was compiled.
func (s *Selector) String() string { return s.text }

// Match says whether the selector is true of the message in v; neither false nor unknown is. On v's goroutine.
func (s *Selector) Match(v *View) bool {
	return s.root == nil || s.root.eval(v).isTrue()
}
