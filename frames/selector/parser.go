package selector

// parser turns tokens into nodes, by recursive descent over the grammar in doc.go.
type parser struct {
	lexer
	tok   token // the next one
	depth int
	terms int
}

// parse reads a whole selector; nil for an empty one.
func (p *parser) parse() (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.tok.kind == tokenEnd {
		return nil, nil
	}
	start := p.tok.start
	n, err := p.or()
	if err == nil && p.tok.kind != tokenEnd {
		err = p.fault(p.tok.start, "unexpected %v", &p.tok)
	}
	if err == nil {
		err = p.want(n, kindBool, start)
	}
	if err != nil {
		return nil, err // of the type error: a nil *Error would not be nil
	}
	return n, nil
}

func (p *parser) advance() (err *Error) {
	p.tok, err = p.next()
	return err
}

// sees says whether the next token is this sign or keyword.
func (p *parser) sees(text string) bool {
	return (p.tok.kind == tokenSign || p.tok.kind == tokenKeyword) && p.tok.text == text
}

// accept reads the sign or keyword if it is next.
func (p *parser) accept(text string) (bool, *Error) {
	if !p.sees(text) {
		return false, nil
	}
	return true, p.advance()
}

// expect reads the sign or keyword, which must be next.
func (p *parser) expect(text string) *Error {
	if !p.sees(text) {
		return p.fault(p.tok.start, "expected %s, found %v", text, &p.tok)
	}
	return p.advance()
}

// want refuses a part that can never have the kind which its place asks for. What a header holds is not known before
// there is a message.
func (p *parser) want(n node, k kind, start int) *Error {
	if got := n.kind(); got != kindAny && got != k && !(k == kindFloat && got == kindInteger) {
		return p.fault(start, "expected %s, found %s", k, got)
	}
	return nil
}

// deeper counts one level of nesting; the caller takes it back.
func (p *parser) deeper() *Error {
	if p.depth++; p.depth > MaxDepth {
		return p.fault(p.tok.start, "more than %d levels inside each other", MaxDepth)
	}
	return nil
}

// term counts a name or literal.
func (p *parser) term() *Error {
	if p.terms++; p.terms > MaxTerms {
		return p.fault(p.tok.start, "more than %d names and literals", MaxTerms)
	}
	return nil
}

func (p *parser) or() (node, *Error)  { return p.list("OR", (*parser).and) }
func (p *parser) and() (node, *Error) { return p.list("AND", (*parser).not) }

// list reads one part, or several with the keyword between them.
func (p *parser) list(keyword string, part func(*parser) (node, *Error)) (node, *Error) {
	var all []node
	for {
		start := p.tok.start
		n, err := part(p)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
		if len(all) > 1 || p.sees(keyword) {
			if err := p.want(n, kindBool, start); err != nil {
				return nil, err
			}
		}
		if more, err := p.accept(keyword); err != nil {
			return nil, err
		} else if !more {
			break
		}
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return &junction{parts: all, decides: keyword == "OR"}, nil
}

func (p *parser) not() (node, *Error) {
	if !p.sees("NOT") {
		return p.test()
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	if err := p.advance(); err != nil {
		return nil, err
	}
	start := p.tok.start
	n, err := p.not()
	if err != nil {
		return nil, err
	}
	return &negation{n}, p.want(n, kindBool, start)
}

// comparisons are the operators, by their sign.
var comparisons = map[string]operator{"=": equal, "<>": unequal, "<": less, "<=": lessOrEqual, ">": greater, ">=": greaterOrEqual}

func (p *parser) test() (node, *Error) {
	start := p.tok.start
	left, err := p.sum()
	if err != nil {
		return nil, err
	}
	if op, ok := comparisons[p.tok.text]; ok && p.tok.kind == tokenSign {
		return p.comparison(left, op, start)
	}
	if is, err := p.accept("IS"); err != nil {
		return nil, err
	} else if is {
		return p.isNull(left, start)
	}
	not, err := p.accept("NOT")
	if err != nil {
		return nil, err
	}
	n, err := p.ranged(left, start)
	switch {
	case err != nil:
		return nil, err
	case n == nil && not:
		return nil, p.fault(p.tok.start, "expected BETWEEN, IN or LIKE, found %v", &p.tok)
	case n == nil:
		return left, nil
	case not:
		return &negation{n}, nil
	}
	return n, nil
}

// ranged reads what begins with BETWEEN, IN or LIKE; nil when none of them is next.
func (p *parser) ranged(left node, start int) (node, *Error) {
	for _, form := range []struct {
		keyword string
		read    func(*parser, node, int) (node, *Error)
	}{{"BETWEEN", (*parser).between}, {"IN", (*parser).in}, {"LIKE", (*parser).like}} {
		if is, err := p.accept(form.keyword); err != nil {
			return nil, err
		} else if is {
			return form.read(p, left, start)
		}
	}
	return nil, nil
}

func (p *parser) comparison(left node, op operator, start int) (node, *Error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	rightStart := p.tok.start
	right, err := p.sum()
	if err != nil {
		return nil, err
	}
	if op != equal && op != unequal { // strings and booleans have no order (JMS 1.1 section 3.8.1.1)
		if err := p.want(left, kindFloat, start); err != nil {
			return nil, err
		}
		return &comparison{op, left, right}, p.want(right, kindFloat, rightStart)
	}
	k := left.kind()
	if k == kindInteger {
		k = kindFloat
	}
	if k != kindAny {
		if err := p.want(right, k, rightStart); err != nil {
			return nil, err
		}
	}
	return &comparison{op, left, right}, nil
}

func (p *parser) between(left node, start int) (node, *Error) {
	if err := p.want(left, kindFloat, start); err != nil {
		return nil, err
	}
	low, err := p.number()
	if err != nil {
		return nil, err
	}
	if err := p.expect("AND"); err != nil {
		return nil, err
	}
	high, err := p.number()
	if err != nil {
		return nil, err
	}
	return &between{left, low, high}, nil
}

// number reads a sum that can be a number.
func (p *parser) number() (node, *Error) {
	start := p.tok.start
	n, err := p.sum()
	if err != nil {
		return nil, err
	}
	return n, p.want(n, kindFloat, start)
}

// named refuses what has to be a name and is none.
func (p *parser) named(n node, what string, start int) *Error {
	if _, ok := n.(*name); !ok {
		return p.fault(start, "%s wants a name before it", what)
	}
	return nil
}

func (p *parser) isNull(left node, start int) (node, *Error) {
	if err := p.named(left, "IS", start); err != nil {
		return nil, err
	}
	not, err := p.accept("NOT")
	if err != nil {
		return nil, err
	}
	return &isNull{left, not}, p.expect("NULL")
}

func (p *parser) in(left node, start int) (node, *Error) {
	if err := p.named(left, "IN", start); err != nil {
		return nil, err
	}
	if err := p.want(left, kindString, start); err != nil {
		return nil, err
	}
	if err := p.expect("("); err != nil {
		return nil, err
	}
	n := &membership{of: left, set: map[string]struct{}{}}
	for {
		s, err := p.str()
		if err != nil {
			return nil, err
		}
		n.set[s] = struct{}{}
		if more, err := p.accept(","); err != nil {
			return nil, err
		} else if !more {
			return n, p.expect(")")
		}
	}
}

// str reads a string literal.
func (p *parser) str() (string, *Error) {
	if p.tok.kind != tokenString {
		return "", p.fault(p.tok.start, "expected a string, found %v", &p.tok)
	}
	if err := p.term(); err != nil {
		return "", err
	}
	s := p.tok.text
	return s, p.advance()
}

func (p *parser) like(left node, start int) (node, *Error) {
	if err := p.named(left, "LIKE", start); err != nil {
		return nil, err
	}
	if err := p.want(left, kindString, start); err != nil {
		return nil, err
	}
	at := p.tok.start
	text, err := p.str()
	if err != nil {
		return nil, err
	}
	escape, escapeAt := "", p.tok.start
	has, err := p.accept("ESCAPE")
	if err == nil && has {
		escapeAt = p.tok.start
		escape, err = p.str()
	}
	if err != nil {
		return nil, err
	}
	mark, ok := escapeOf(escape, has)
	if !ok {
		return nil, p.fault(escapeAt, "ESCAPE wants one character")
	}
	pat, reason := compilePattern(text, mark)
	if reason != "" {
		return nil, p.fault(at, "%s", reason)
	}
	return &like{left, pat}, nil
}

func (p *parser) sum() (node, *Error)     { return p.arithmetic("+", "-", (*parser).product) }
func (p *parser) product() (node, *Error) { return p.arithmetic("*", "/", (*parser).sign) }

// arithmetic reads parts with one of two operators between them, from left to right.
func (p *parser) arithmetic(first, second string, part func(*parser) (node, *Error)) (node, *Error) {
	start := p.tok.start
	left, err := part(p)
	if err != nil || !p.sees(first) && !p.sees(second) {
		return left, err
	}
	if err := p.want(left, kindFloat, start); err != nil {
		return nil, err
	}
	sum := &arithmetic{first: left}
	for p.sees(first) || p.sees(second) {
		op := p.tok.text[0]
		if err := p.advance(); err != nil {
			return nil, err
		}
		at := p.tok.start
		n, err := part(p)
		if err != nil {
			return nil, err
		}
		if err := p.want(n, kindFloat, at); err != nil {
			return nil, err
		}
		sum.rest = append(sum.rest, step{op, n})
	}
	return sum, nil
}

func (p *parser) sign() (node, *Error) {
	minus := p.sees("-")
	if !minus && !p.sees("+") {
		return p.operand(false)
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	if err := p.advance(); err != nil {
		return nil, err
	}
	if minus && p.tok.kind == tokenInteger {
		return p.operand(true)
	}
	start := p.tok.start
	n, err := p.sign()
	if err != nil {
		return nil, err
	}
	return &signed{n, minus}, p.want(n, kindFloat, start)
}

// operand reads a literal, a name or a part in parentheses. minus belongs to an integer literal that is next: the
// least integer cannot be written without.
func (p *parser) operand(minus bool) (node, *Error) {
	t := p.tok
	if p.sees("(") {
		return p.parentheses()
	}
	if err := p.term(); err != nil {
		return nil, err
	}
	var n node
	switch {
	case t.kind == tokenString:
		n = &literal{ofString(t.text)}
	case t.kind == tokenInteger && t.number == 1<<63 && !minus:
		return nil, p.fault(t.start, "number is too large")
	case t.kind == tokenInteger && minus:
		n = &literal{ofInteger(-int64(t.number))}
	case t.kind == tokenInteger:
		n = &literal{ofInteger(int64(t.number))}
	case t.kind == tokenFloat:
		n = &literal{ofFloat(t.float)}
	case p.sees("TRUE"), p.sees("FALSE"):
		n = &literal{ofBool(t.text == "TRUE")}
	case t.kind == tokenQuoted:
		n = header(t.text)
	case t.kind == tokenName:
		found, reason := nameOf(t.text)
		if reason != "" {
			return nil, p.fault(t.start, "%s", reason)
		}
		n = found
	default:
		return nil, p.fault(t.start, "expected a name or a value, found %v", &t)
	}
	return n, p.advance()
}

func (p *parser) parentheses() (node, *Error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	return n, p.expect(")")
}
