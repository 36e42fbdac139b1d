package selector

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/warrenmq/warren/frames"
)

// View is a message as selectors see it. Its headers are sorted by name the first time that a selector asks for one, and
// then found by bisection, however many selectors ask. The zero value is a message without properties. It is for one
// goroutine, and borrows the bytes of the message until Reset.
type View struct {
	properties frames.Properties
	sorted     bool
	headers    []field // scratch: in the order of their names once sorted
}

// field is a header.
type field struct {
	key   []byte
	value frames.RawValue
}

// keptFields is how many headers a view keeps memory for.
const keptFields = 1024

// Reset turns v to another message, and lets go of the one before.
func (v *View) Reset(p frames.Properties) {
	v.properties = p
	if !v.sorted {
		return
	}
	v.sorted = false
	if cap(v.headers) > keptFields {
		v.headers = nil
	}
	clear(v.headers)
	v.headers = v.headers[:0]
}

// header is what a header holds. Of several with the same name the first counts.
func (v *View) header(key []byte) value {
	if !v.sorted {
		v.sort()
	}
	i, ok := slices.BinarySearchFunc(v.headers, key, func(f field, key []byte) int { return bytes.Compare(f.key, key) })
	if !ok {
		return value{}
	}
	return read(v.headers[i].value)
}

// sort collects the headers. BinarySearchFunc finds the first of equals, and the sort leaves them in their order.
func (v *View) sort() {
	v.sorted = true
	table, _ := v.properties.Headers()
	for it := table.Iter(); it.Next(); {
		v.headers = append(v.headers, field{it.Key(), it.Value()})
	}
	slices.SortStableFunc(v.headers, func(a, b field) int { return bytes.Compare(a.key, b.key) })
}

// read is what a value of a table is worth: integers of all widths are exact numbers, timestamps too, in seconds; floats
// and decimals are approximate ones; void is no value. Byte arrays, arrays and tables are there, and equal nothing.
func read(v frames.RawValue) value {
	b := v.Data
	switch v.Type {
	case 'S':
		return ofOctets(b)
	case 't':
		return ofBool(b[0] != 0)
	case 'f':
		return ofFloat(float64(math.Float32frombits(binary.BigEndian.Uint32(b))))
	case 'd':
		return ofFloat(math.Float64frombits(binary.BigEndian.Uint64(b)))
	case 'D':
		return readDecimal(b[0], binary.BigEndian.Uint32(b[1:]))
	case 'V':
		return value{}
	}
	return readInteger(v)
}

// readDecimal divides by a power of ten, which is exact up to 10^22.
func readDecimal(scale uint8, unscaled uint32) value {
	if scale == 0 {
		return ofInteger(int64(unscaled))
	}
	return ofFloat(float64(unscaled) / math.Pow10(int(scale)))
}

func readInteger(v frames.RawValue) value {
	b := v.Data
	switch v.Type {
	case 'b':
		return ofInteger(int64(int8(b[0])))
	case 'B':
		return ofInteger(int64(b[0]))
	case 's':
		return ofInteger(int64(int16(binary.BigEndian.Uint16(b))))
	case 'u':
		return ofInteger(int64(binary.BigEndian.Uint16(b)))
	case 'I':
		return ofInteger(int64(int32(binary.BigEndian.Uint32(b))))
	case 'i':
		return ofInteger(int64(binary.BigEndian.Uint32(b)))
	case 'l', 'L':
		return ofInteger(int64(binary.BigEndian.Uint64(b)))
	case 'T':
		return ofUnsigned(binary.BigEndian.Uint64(b))
	}
	return value{kind: kindOther}
}
