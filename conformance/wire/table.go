package wire

import (
	"fmt"
	"math"
)

// Table is a field table with its order kept. Which Go type stands for which type letter (RabbitMQ's reading of
// them, not the PDF's):
//
//	bool t   int8 b    uint8 B   int16 s      uint16 u   int32 I   uint32 i   int64 l   LongLong L
//	float32 f   float64 d   Decimal D   string S   Bytes x   Timestamp T   Table F   Array A   Void V
//
// Raw writes any letter with any bytes; it never comes out of a read.
type Table []Field

// Field is one entry of a [Table].
type Field struct {
	Key   string
	Value any
}

// Get returns the first value under key.
func (t Table) Get(key string) (any, bool) {
	for _, f := range t {
		if f.Key == key {
			return f.Value, true
		}
	}
	return nil, false
}

type (
	// Array is a field array.
	Array []any
	// LongLong is the signed 64-bit integer of letter L; int64 is that of letter l.
	LongLong int64
	// Bytes is a byte array, letter x.
	Bytes []byte
	// Timestamp is in seconds since 1970, letter T.
	Timestamp uint64
	// Void is letter V, which has no bytes.
	Void struct{}
	// Decimal is Value / 10^Scale, letter D.
	Decimal struct {
		Scale uint8
		Value uint32
	}
	// Raw is written as Letter followed by Data.
	Raw struct {
		Letter byte
		Data   []byte
	}
)

// maxDepth bounds the nesting that a read follows.
const maxDepth = 128

func (w *writer) table(t Table) {
	var in writer
	for _, f := range t {
		in.shortstr(f.Key)
		in.value(f.Value)
	}
	w.longstr(string(in.b))
}

func (w *writer) array(a Array) {
	var in writer
	for _, v := range a {
		in.value(v)
	}
	w.longstr(string(in.b))
}

func (w *writer) value(v any) {
	switch v := v.(type) {
	case bool:
		w.octet('t')
		w.octet(map[bool]uint8{true: 1}[v])
	case int8:
		w.octet('b')
		w.octet(uint8(v))
	case uint8:
		w.octet('B')
		w.octet(v)
	case int16:
		w.octet('s')
		w.short(uint16(v))
	case uint16:
		w.octet('u')
		w.short(v)
	case int32:
		w.octet('I')
		w.long(uint32(v))
	case uint32:
		w.octet('i')
		w.long(v)
	case int64:
		w.octet('l')
		w.longlong(uint64(v))
	case LongLong:
		w.octet('L')
		w.longlong(uint64(v))
	default:
		w.otherValue(v)
	}
}

// otherValue writes what is not an integer.
func (w *writer) otherValue(v any) {
	switch v := v.(type) {
	case float32:
		w.octet('f')
		w.long(math.Float32bits(v))
	case float64:
		w.octet('d')
		w.longlong(math.Float64bits(v))
	case Decimal:
		w.octet('D')
		w.octet(v.Scale)
		w.long(v.Value)
	case string:
		w.octet('S')
		w.longstr(v)
	case Bytes:
		w.octet('x')
		w.longstr(string(v))
	case Timestamp:
		w.octet('T')
		w.longlong(uint64(v))
	case Table:
		w.octet('F')
		w.table(v)
	case Array:
		w.octet('A')
		w.array(v)
	case Void:
		w.octet('V')
	case Raw:
		w.octet(v.Letter)
		w.b = append(w.b, v.Data...)
	default:
		panic(fmt.Sprintf("wire: no field type for %T", v))
	}
}

func (r *reader) table(depth int) Table {
	in := reader{b: []byte(r.longstr()), err: r.err}
	t := Table{}
	for in.err == nil && len(in.b) > 0 {
		key := in.shortstr()
		t = append(t, Field{Key: key, Value: in.value(depth + 1)})
	}
	r.err = in.err
	return t
}

func (r *reader) array(depth int) Array {
	in := reader{b: []byte(r.longstr()), err: r.err}
	a := Array{}
	for in.err == nil && len(in.b) > 0 {
		a = append(a, in.value(depth+1))
	}
	r.err = in.err
	return a
}

func (r *reader) value(depth int) any {
	if depth > maxDepth {
		r.err = fmt.Errorf("field nesting above %d", maxDepth)
		return nil
	}
	switch letter := r.octet(); letter {
	case 't':
		return r.octet() != 0
	case 'b':
		return int8(r.octet())
	case 'B':
		return r.octet()
	case 's':
		return int16(r.short())
	case 'u':
		return r.short()
	case 'I':
		return int32(r.long())
	case 'i':
		return r.long()
	case 'l':
		return int64(r.longlong())
	case 'L':
		return LongLong(r.longlong())
	case 'F':
		return r.table(depth)
	case 'A':
		return r.array(depth)
	default:
		return r.scalar(letter)
	}
}

// scalar reads a value that is neither an integer nor nested.
func (r *reader) scalar(letter byte) any {
	switch letter {
	case 'f':
		return math.Float32frombits(r.long())
	case 'd':
		return math.Float64frombits(r.longlong())
	case 'D':
		return Decimal{Scale: r.octet(), Value: r.long()}
	case 'S':
		return r.longstr()
	case 'x':
		return Bytes(r.longstr())
	case 'T':
		return Timestamp(r.longlong())
	case 'V':
		return Void{}
	}
	if r.err == nil {
		r.err = fmt.Errorf("unknown field type %q", letter)
	}
	return nil
}

// EncodeTable returns the entries of t without the leading length, which is the form AMQPLAIN responses have.
func EncodeTable(t Table) []byte {
	var w writer
	w.table(t)
	return w.b[4:]
}
