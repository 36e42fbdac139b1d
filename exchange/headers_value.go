package exchange

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/warrenmq/warren/frames"
)

// kind is a class of values among which the headers exchange compares.
type kind uint8

const (
	kindVoid     kind = iota // no value; as a condition it asks only for presence
	kindNone                 // a value that equals nothing
	kindBool                 // number is 0 or 1
	kindInteger              // number is the value, from 0 to 2^64-1
	kindNegative             // number is the value as two's complement, from -2^63 to -1
	kindFloat                // number is the bits of a float64
	kindDecimal              // number is scale and value
	kindOctets               // data: a longstr or a byte array
	kindArray                // data: the encoded elements
	kindTable                // data: the encoded fields
	kindEmpty                // an array or table of nothing: to RabbitMQ both are the empty list
)

// value is a field value reduced to what comparing needs. Two values are equal when kind, number and data are, where
// arrays and tables are compared by sameNested.
type value struct {
	kind   kind
	loose  bool // compare floats inside data as numbers; true for all values of a matcher or for none
	number uint64
	data   []byte // borrowed from the message or owned by the condition
}

// rules are the ways of comparing that Options choose among.
type rules struct {
	byValue bool // Options.NumbersByValue
}

// readHeader is read for a header of a message. RabbitMQ 4.3 turns its timestamps into milliseconds on the way, but not
// those of binding arguments; so there no timestamp equals itself, and an integer argument can equal a timestamp a
// thousand times smaller.
func (r rules) readHeader(v frames.RawValue) value {
	if v.Type != 'T' || r.byValue {
		return r.read(v)
	}
	over, ms := bits.Mul64(binary.BigEndian.Uint64(v.Data), 1000)
	if over != 0 {
		return value{kind: kindNone} // Erlang goes on counting; nothing it could be compared with does
	}
	return value{kind: kindInteger, number: ms}
}

// read reduces an encoded value.
func (r rules) read(v frames.RawValue) value {
	switch v.Type {
	case 'S', 'x':
		return value{kind: kindOctets, data: v.Data}
	case 'A', 'F':
		return r.readNested(v)
	case 't':
		if v.Data[0] != 0 {
			return value{kind: kindBool, number: 1}
		}
		return value{kind: kindBool}
	case 'D':
		scale, unscaled := uint64(v.Data[0]), uint64(binary.BigEndian.Uint32(v.Data[1:]))
		return value{kind: kindDecimal, number: scale<<32 | unscaled}
	case 'f', 'd':
		return r.float(readFloat(v))
	case 'V':
		return value{kind: kindVoid}
	}
	return readInteger(v)
}

// readNested reduces an array or a table.
func (r rules) readNested(v frames.RawValue) value {
	switch {
	case len(v.Data) == 0:
		return value{kind: kindEmpty}
	case v.Type == 'A':
		return value{kind: kindArray, loose: r.byValue, data: v.Data}
	}
	return value{kind: kindTable, loose: r.byValue, data: v.Data}
}

// readInteger reduces an integer of any width, or a timestamp.
func readInteger(v frames.RawValue) value {
	switch v.Type {
	case 'b':
		return integer(int64(int8(v.Data[0])))
	case 'B':
		return integer(int64(v.Data[0]))
	case 's':
		return integer(int64(int16(binary.BigEndian.Uint16(v.Data))))
	case 'u':
		return integer(int64(binary.BigEndian.Uint16(v.Data)))
	case 'I':
		return integer(int64(int32(binary.BigEndian.Uint32(v.Data))))
	case 'i':
		return integer(int64(binary.BigEndian.Uint32(v.Data)))
	case 'l', 'L':
		return integer(int64(binary.BigEndian.Uint64(v.Data)))
	case 'T':
		return value{kind: kindInteger, number: binary.BigEndian.Uint64(v.Data)}
	}
	return value{kind: kindNone} // no such type passes the checks of package frames
}

func integer(i int64) value {
	if i < 0 {
		return value{kind: kindNegative, number: uint64(i)}
	}
	return value{kind: kindInteger, number: uint64(i)}
}

// readFloat returns the number in an encoded float of either width.
func readFloat(v frames.RawValue) float64 {
	if v.Type == 'f' {
		return float64(math.Float32frombits(binary.BigEndian.Uint32(v.Data)))
	}
	return math.Float64frombits(binary.BigEndian.Uint64(v.Data))
}

// float reduces a float. By value, one that is a whole number in the range of the integers becomes that integer, and so
// equals it without a comparison across kinds; minus zero becomes 0. Otherwise floats equal floats, and minus zero does
// not equal zero (Erlang tells them apart since OTP 27, which 4.3 requires).
func (r rules) float(f float64) value {
	if r.byValue && f == math.Trunc(f) {
		if f >= 0 && f < 1<<64 {
			return value{kind: kindInteger, number: uint64(f)}
		}
		if f < 0 && f >= -1<<63 {
			return value{kind: kindNegative, number: uint64(int64(f))}
		}
	}
	return value{kind: kindFloat, number: math.Float64bits(f)}
}

// equal compares two values of the same rules.
func (v *value) equal(o *value) bool {
	if v.kind != o.kind || v.number != o.number {
		return false
	}
	switch v.kind {
	case kindNone:
		return false
	case kindOctets:
		return bytes.Equal(v.data, o.data)
	case kindArray:
		return sameNested(frames.RawValue{Type: 'A', Data: v.data}, frames.RawValue{Type: 'A', Data: o.data}, v.loose)
	case kindTable:
		return sameNested(frames.RawValue{Type: 'F', Data: v.data}, frames.RawValue{Type: 'F', Data: o.data}, v.loose)
	}
	return true
}

// sameNested compares values inside arrays and tables, where RabbitMQ keeps the type beside each value: both must agree,
// in order. Its types are those of the decoded form, in which `l` and `L` are one type and a boolean is true for any
// octet but 0. How deep it goes is bounded by frames.MaxTableDepth.
func sameNested(a, b frames.RawValue, loose bool) bool {
	if erlangType(a.Type) != erlangType(b.Type) {
		return false
	}
	if bytes.Equal(a.Data, b.Data) {
		return true
	}
	switch a.Type {
	case 'A':
		return sameElements(a.ArrayIter(), b.ArrayIter(), loose)
	case 'F':
		return sameFields(frames.RawTable(a.Data).Iter(), frames.RawTable(b.Data).Iter(), loose)
	case 't':
		return (a.Data[0] != 0) == (b.Data[0] != 0)
	case 'f', 'd':
		return loose && readFloat(a) == readFloat(b)
	}
	return false
}

func sameElements(a, b frames.ArrayIter, loose bool) bool {
	for a.Next() {
		if !b.Next() || !sameNested(a.Value(), b.Value(), loose) {
			return false
		}
	}
	return !b.Next()
}

func sameFields(a, b frames.TableIter, loose bool) bool {
	for a.Next() {
		if !b.Next() || !bytes.Equal(a.Key(), b.Key()) || !sameNested(a.Value(), b.Value(), loose) {
			return false
		}
	}
	return !b.Next()
}

// erlangType returns one letter for all letters that RabbitMQ decodes to the same type.
func erlangType(letter byte) byte {
	if letter == 'L' {
		return 'l'
	}
	return letter
}
