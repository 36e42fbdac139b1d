package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Table is a decoded field table. Order, duplicate keys and the exact type of every value are kept; nil and
// empty encode the same.
//
// The Go type of a value is its type on the wire. The letters are those RabbitMQ and its clients use, not
// those of the AMQP 0-9-1 PDF (RabbitMQ's errata page, section "Field types"):
//
//	t bool      b int8    B uint8    s int16       u uint16     I int32       i uint32
//	l int64     L LongLong           f float32     d float64    D Decimal     V nil
//	S string    x []byte             T Timestamp   F Table      A Array
type Table []Field

// Field is one entry of a table. Keys are bytes of at most 255, not checked for UTF-8.
type Field struct {
	Key   string
	Value any // one of the types listed at Table
}

// The value types that Go has no other name for.
type (
	// LongLong is a 64-bit integer sent with the letter L, which RabbitMQ reads like l.
	LongLong int64
	// Timestamp counts seconds since 1970 (UTC).
	Timestamp uint64
	// Array is a list of values of any of the types of a Table.
	Array []any
	// Decimal is Value divided by ten to the power of Scale.
	Decimal struct {
		Scale uint8
		Value uint32
	}
)

// MaxTableDepth is how deep tables and arrays may nest. RabbitMQ has no limit but the frame; this one
// protects the stack and is far above what clients send.
const MaxTableDepth = 256

// ErrMalformedTable reports table bytes that RabbitMQ would not parse either: truncated, an unknown field
// type, a float that is not a finite number; or nesting beyond MaxTableDepth.
var ErrMalformedTable = errors.New("malformed field table")

// Get returns the value of the first field with the key.
func (t Table) Get(key string) (any, bool) {
	for i := range t {
		if t[i].Key == key {
			return t[i].Value, true
		}
	}
	return nil, false
}

// Append appends the table with its 4-byte length. Keys over 255 bytes are cut. A value whose type is not
// listed at Table is a programming error and panics.
func (t Table) Append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = t.AppendContents(dst)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// AppendContents is Append without the length: the form that RawTable views and AMQPLAIN responses have.
func (t Table) AppendContents(dst []byte) []byte {
	for i := range t {
		dst = appendShortstr(dst, t[i].Key)
		dst = appendValue(dst, t[i].Value)
	}
	return dst
}

// appendValue appends the type letter and the value.
func appendValue(dst []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendLongstr(append(dst, 'S'), v)
	case []byte:
		return appendLongstr(append(dst, 'x'), v)
	case Table:
		return v.Append(append(dst, 'F'))
	case Array:
		return v.append(append(dst, 'A'))
	case nil:
		return append(dst, 'V')
	}
	return appendFixedValue(dst, v)
}

func appendFixedValue(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		return append(dst, 't', bit(v, 1))
	case int8:
		return append(dst, 'b', byte(v))
	case uint8:
		return append(dst, 'B', v)
	case int16:
		return binary.BigEndian.AppendUint16(append(dst, 's'), uint16(v))
	case uint16:
		return binary.BigEndian.AppendUint16(append(dst, 'u'), v)
	case int32:
		return binary.BigEndian.AppendUint32(append(dst, 'I'), uint32(v))
	case uint32:
		return binary.BigEndian.AppendUint32(append(dst, 'i'), v)
	case int64:
		return binary.BigEndian.AppendUint64(append(dst, 'l'), uint64(v))
	case LongLong:
		return binary.BigEndian.AppendUint64(append(dst, 'L'), uint64(v))
	case float32:
		return binary.BigEndian.AppendUint32(append(dst, 'f'), math.Float32bits(v))
	case float64:
		return binary.BigEndian.AppendUint64(append(dst, 'd'), math.Float64bits(v))
	case Timestamp:
		return binary.BigEndian.AppendUint64(append(dst, 'T'), uint64(v))
	case Decimal:
		return binary.BigEndian.AppendUint32(append(dst, 'D', v.Scale), v.Value)
	}
	panic(fmt.Sprintf("frames: %T is not a field table value", v))
}

func (a Array) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for _, v := range a {
		dst = appendValue(dst, v)
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// ReadTable decodes a table with its 4-byte length at the start of b and returns what follows it. The
// error is ErrMalformedTable.
func ReadTable(b []byte) (t Table, rest []byte, err error) {
	contents, rest, ok := cutLong(b)
	if !ok {
		return nil, nil, ErrMalformedTable
	}
	if t, err = ParseTable(contents); err != nil {
		return nil, nil, err
	}
	return t, rest, nil
}

// ParseTable decodes the contents of a table without their length. Everything is copied. The error is
// ErrMalformedTable.
func ParseTable(contents []byte) (Table, error) {
	if !validTable(contents, MaxTableDepth) {
		return nil, ErrMalformedTable
	}
	return RawTable(contents).Decode(), nil
}

// SkipTable checks a table with its 4-byte length at the start of b, nested ones too, and returns what
// follows it. It allocates nothing. The error is ErrMalformedTable.
func SkipTable(b []byte) (rest []byte, err error) {
	contents, rest, ok := cutLong(b)
	if !ok || !validTable(contents, MaxTableDepth) {
		return nil, ErrMalformedTable
	}
	return rest, nil
}

// validTable checks the contents of a table that may hold depth-1 further levels.
func validTable(b []byte, depth int) bool {
	if depth == 0 {
		return false
	}
	for len(b) > 0 {
		_, v, rest, ok := cutField(b)
		if !ok || !validNested(v, depth) {
			return false
		}
		b = rest
	}
	return true
}

func validArray(b []byte, depth int) bool {
	if depth == 0 {
		return false
	}
	for len(b) > 0 {
		v, rest, ok := cutValue(b)
		if !ok || !validNested(v, depth) {
			return false
		}
		b = rest
	}
	return true
}

func validNested(v RawValue, depth int) bool {
	switch v.Type {
	case 'F':
		return validTable(v.Data, depth-1)
	case 'A':
		return validArray(v.Data, depth-1)
	}
	return true
}

// cutField splits the first field off the contents of a table.
func cutField(b []byte) (key []byte, v RawValue, rest []byte, ok bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return nil, RawValue{}, nil, false
	}
	key, b = b[1:1+int(b[0])], b[1+int(b[0]):]
	v, rest, ok = cutValue(b)
	return key, v, rest, ok
}

// cutValue splits a type letter and its value off b.
func cutValue(b []byte) (v RawValue, rest []byte, ok bool) {
	if len(b) == 0 {
		return v, nil, false
	}
	v.Type, b = b[0], b[1:]
	var n int
	switch v.Type {
	case 'S', 'x', 'F', 'A':
		v.Data, rest, ok = cutLong(b)
		return v, rest, ok
	case 'V':
		n = 0
	case 't', 'b', 'B':
		n = 1
	case 's', 'u':
		n = 2
	case 'I', 'i', 'f':
		n = 4
	case 'D':
		n = 5
	case 'l', 'L', 'd', 'T':
		n = 8
	default:
		return v, nil, false
	}
	if len(b) < n {
		return v, nil, false
	}
	v.Data = b[:n:n]
	return v, b[n:], v.finite()
}

// finite is false for a float that is infinite or not a number: Erlang has no such values, so RabbitMQ does
// not parse them (verified on the parsers of 3.10.8 and 4.3.6).
func (v RawValue) finite() bool {
	switch v.Type {
	case 'f':
		return binary.BigEndian.Uint32(v.Data)&0x7f80_0000 != 0x7f80_0000
	case 'd':
		return binary.BigEndian.Uint64(v.Data)&0x7ff0_0000_0000_0000 != 0x7ff0_0000_0000_0000
	}
	return true
}

// cutLong splits a 4-byte length and so many bytes off b.
func cutLong(b []byte) (data, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := uint64(binary.BigEndian.Uint32(b))
	b = b[4:]
	if uint64(len(b)) < n {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}

// TypeName returns the name RabbitMQ gives the type of a value in error texts, such as "longstr" or
// "signedint"; "unknown" for a value that cannot be in a table.
func TypeName(v any) string {
	switch v.(type) {
	case string:
		return "longstr"
	case []byte:
		return "binary"
	case Table:
		return "table"
	case Array:
		return "array"
	case nil:
		return "void"
	case bool:
		return "bool"
	case int8:
		return "byte"
	case uint8:
		return "unsignedbyte"
	case int16:
		return "short"
	case uint16:
		return "unsignedshort"
	case int32:
		return "signedint"
	case uint32:
		return "unsignedint"
	case int64, LongLong:
		return "long"
	case float32:
		return "float"
	case float64:
		return "double"
	case Timestamp:
		return "timestamp"
	case Decimal:
		return "decimal"
	}
	return "unknown"
}
