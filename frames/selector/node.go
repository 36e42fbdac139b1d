package selector

import "bytes"

// node is a part of a compiled selector. Immutable. Where a condition is asked for, anything but a boolean counts as
// unknown.
type node interface {
	// eval is what the part is worth for a message.
	eval(v *View) value
	// kind is the kind that every value of the part has if it has any; kindAny when only the message can tell.
	kind() kind
}

type (
	// literal is a constant.
	literal struct{ value value }
	// junction is AND, or OR for which true decides.
	junction struct {
		parts   []node
		decides bool
	}
	// negation is NOT.
	negation struct{ of node }
	// comparison compares two values.
	comparison struct {
		op          operator
		left, right node
	}
	// between is BETWEEN: both ends are inside.
	between struct{ of, low, high node }
	// membership is IN.
	membership struct {
		of  node
		set map[string]struct{}
	}
	// like is LIKE.
	like struct {
		of      node
		pattern pattern
	}
	// isNull is IS NULL, or IS NOT NULL.
	isNull struct {
		of  node
		not bool
	}
	// arithmetic is a sum or a product, reckoned from left to right.
	arithmetic struct {
		first node
		rest  []step
	}
	// step is one operator (+ - * /) with what is to its right.
	step struct {
		op byte
		by node
	}
	// signed is a number with a sign.
	signed struct {
		of    node
		minus bool
	}
)

func (n *literal) kind() kind    { return n.value.kind }
func (n *junction) kind() kind   { return kindBool }
func (n *negation) kind() kind   { return kindBool }
func (n *comparison) kind() kind { return kindBool }
func (n *between) kind() kind    { return kindBool }
func (n *membership) kind() kind { return kindBool }
func (n *like) kind() kind       { return kindBool }
func (n *isNull) kind() kind     { return kindBool }
func (n *arithmetic) kind() kind { return kindFloat }
func (n *signed) kind() kind     { return kindFloat }

func (n *literal) eval(*View) value { return n.value }

// eval by the tables of JMS 1.1 section 3.8.1.2: one part that decides is enough, else one that is unknown makes the
// whole unknown.
func (n *junction) eval(v *View) value {
	result := ofBool(!n.decides)
	for _, part := range n.parts {
		switch got := part.eval(v); {
		case got.kind != kindBool:
			result = value{}
		case got.isTrue() == n.decides:
			return got
		}
	}
	return result
}

func (n *negation) eval(v *View) value {
	return not(n.of.eval(v))
}

func not(v value) value {
	if v.kind != kindBool {
		return value{}
	}
	return ofBool(v.integer == 0)
}

func (n *comparison) eval(v *View) value {
	return compare(n.op, n.left.eval(v), n.right.eval(v))
}

// eval is low <= of AND of <= high.
func (n *between) eval(v *View) value {
	of := n.of.eval(v)
	low := compare(greaterOrEqual, of, n.low.eval(v))
	if low.isFalse() {
		return low
	}
	high := compare(lessOrEqual, of, n.high.eval(v))
	if high.isFalse() || low.kind == kindBool {
		return high
	}
	return low
}

// eval is unknown for a missing value; one that is not a string equals no string.
func (n *membership) eval(v *View) value {
	of := n.of.eval(v)
	if of.kind == kindNull {
		return of
	}
	_, found := n.set[string(of.octets)]
	return ofBool(found && of.kind == kindString)
}

// eval is unknown for a missing value; one that is not a string is like none.
func (n *like) eval(v *View) value {
	of := n.of.eval(v)
	if of.kind == kindNull {
		return of
	}
	return ofBool(of.kind == kindString && n.pattern.matches(of.octets))
}

func (n *isNull) eval(v *View) value {
	return ofBool((n.of.eval(v).kind == kindNull) != n.not)
}

func (n *arithmetic) eval(v *View) value {
	sum := n.first.eval(v)
	for i := range n.rest {
		sum = reckon(n.rest[i].op, sum, n.rest[i].by.eval(v))
		if sum.kind == kindNull {
			break
		}
	}
	return sum
}

func (n *signed) eval(v *View) value {
	switch of := n.of.eval(v); {
	case !of.isNumber():
		return value{}
	case !n.minus:
		return of
	case of.kind == kindInteger:
		return ofInteger(-of.integer)
	default:
		return ofFloat(-of.float)
	}
}

// reckon does arithmetic as Java does: integers wrap around and divide towards zero, a float on one side makes both
// floats. With a value that is missing or is no number, and for an integer divided by zero, the result is missing.
func reckon(op byte, a, b value) value {
	if !a.isNumber() || !b.isNumber() {
		return value{}
	}
	if a.kind == kindInteger && b.kind == kindInteger {
		return reckonIntegers(op, a.integer, b.integer)
	}
	switch x, y := a.number(), b.number(); op {
	case '+':
		return ofFloat(x + y)
	case '-':
		return ofFloat(x - y)
	case '*':
		return ofFloat(x * y)
	default:
		return ofFloat(x / y)
	}
}

func reckonIntegers(op byte, a, b int64) value {
	switch op {
	case '+':
		return ofInteger(a + b)
	case '-':
		return ofInteger(a - b)
	case '*':
		return ofInteger(a * b)
	}
	if b == 0 {
		return value{}
	}
	return ofInteger(a / b)
}

// operator is a comparison.
type operator uint8

const (
	equal operator = iota
	unequal
	less
	lessOrEqual
	greater
	greaterOrEqual
)

// compare is unknown when a value is missing, false when the values are not of like types or have no order (JMS 1.1
// section 3.8.1.1): `a <> 1` is not true of a string.
func compare(op operator, a, b value) value {
	switch {
	case a.kind == kindNull || b.kind == kindNull:
		return value{}
	case a.kind == kindInteger && b.kind == kindInteger:
		return ofBool(ordered(op, a.integer, b.integer))
	case a.isNumber() && b.isNumber():
		return ofBool(ordered(op, a.number(), b.number()))
	case a.kind != b.kind || op != equal && op != unequal || a.kind == kindOther:
		return ofBool(false)
	}
	same := a.integer == b.integer && bytes.Equal(a.octets, b.octets)
	return ofBool(same == (op == equal))
}

func ordered[N int64 | float64](op operator, a, b N) bool {
	switch op {
	case equal:
		return a == b
	case unequal:
		return a != b
	case less:
		return a < b
	case lessOrEqual:
		return a <= b
	case greater:
		return a > b
	}
	return a >= b
}
