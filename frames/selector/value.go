package selector

// kind is the kind of a value.
type kind uint8

const (
	kindNull    kind = iota // no value; as the result of a condition: unknown
	kindBool                // integer is 0 or 1
	kindInteger             // an exact number, Java's long
	kindFloat               // an approximate number, Java's double
	kindString              // octets
	kindOther               // there is a value, of a type that selectors know nothing of
	kindAny                 // of a node: not known before there is a message
)

// String is the name in error texts.
func (k kind) String() string {
	switch k {
	case kindBool:
		return "a condition"
	case kindInteger, kindFloat:
		return "a number"
	case kindString:
		return "a string"
	}
	return "a value"
}

// value is what a node is worth for one message.
type value struct {
	kind    kind
	integer int64
	float   float64
	octets  []byte // borrowed
}

func ofInteger(i int64) value { return value{kind: kindInteger, integer: i} }
func ofFloat(f float64) value { return value{kind: kindFloat, float: f} }
func ofOctets(b []byte) value { return value{kind: kindString, octets: b} }
func ofString(s string) value { return ofOctets([]byte(s)) }

func ofBool(b bool) value {
	if b {
		return value{kind: kindBool, integer: 1}
	}
	return value{kind: kindBool}
}

// ofUnsigned is an integer if that can hold n.
func ofUnsigned(n uint64) value {
	if n >= 1<<63 {
		return ofFloat(float64(n))
	}
	return ofInteger(int64(n))
}

func (v value) isTrue() bool  { return v.kind == kindBool && v.integer == 1 }
func (v value) isFalse() bool { return v.kind == kindBool && v.integer == 0 }

func (v value) isNumber() bool { return v.kind == kindInteger || v.kind == kindFloat }

// number is a number as a float.
func (v value) number() float64 {
	if v.kind == kindInteger {
		return float64(v.integer)
	}
	return v.float
}
