package frames

import (
	"encoding/binary"
	"math"
)

// RawTable is a view of the contents of an encoded table, without the 4-byte length. Looking things up in it
// copies and allocates nothing. The bytes should have been checked, by SkipTable or ParseProperties;
// iteration over others ends at the first malformed field.
type RawTable []byte

// Iter returns an iterator that stands before the first field.
func (t RawTable) Iter() TableIter { return TableIter{rest: t} }

// Lookup returns the value of the first field with the key.
func (t RawTable) Lookup(key string) (RawValue, bool) {
	for it := t.Iter(); it.Next(); {
		if string(it.key) == key {
			return it.value, true
		}
	}
	return RawValue{}, false
}

// Decode copies the table out.
func (t RawTable) Decode() Table {
	var out Table
	for it := t.Iter(); it.Next(); {
		out = append(out, Field{Key: string(it.key), Value: it.value.Decode()})
	}
	return out
}

// TableIter walks over the fields of a RawTable.
type TableIter struct {
	rest  []byte
	key   []byte
	value RawValue
}

// Next moves to the next field and says whether there is one.
func (it *TableIter) Next() bool {
	var ok bool
	it.key, it.value, it.rest, ok = cutField(it.rest)
	return ok
}

// Key returns the key of the current field, borrowed.
func (it *TableIter) Key() []byte { return it.key }

// Value returns the value of the current field, borrowed.
func (it *TableIter) Value() RawValue { return it.value }

// RawValue is an encoded value: its type letter and its bytes, borrowed; for S, x, A and F without their
// length.
type RawValue struct {
	Type byte
	Data []byte
}

// Decode copies the value out, as one of the types listed at Table. Booleans are true for any octet but 0.
func (v RawValue) Decode() any {
	switch v.Type {
	case 'S':
		return string(v.Data)
	case 'x':
		return append([]byte{}, v.Data...)
	case 'F':
		return RawTable(v.Data).Decode()
	case 'A':
		return v.decodeArray()
	case 'V':
		return nil
	}
	return v.decodeFixed()
}

func (v RawValue) decodeFixed() any {
	switch v.Type {
	case 't':
		return v.Data[0] != 0
	case 'b':
		return int8(v.Data[0])
	case 'B':
		return v.Data[0]
	case 's':
		return int16(binary.BigEndian.Uint16(v.Data))
	case 'u':
		return binary.BigEndian.Uint16(v.Data)
	case 'I':
		return int32(binary.BigEndian.Uint32(v.Data))
	case 'i':
		return binary.BigEndian.Uint32(v.Data)
	case 'l':
		return int64(binary.BigEndian.Uint64(v.Data))
	case 'L':
		return LongLong(binary.BigEndian.Uint64(v.Data))
	case 'f':
		return math.Float32frombits(binary.BigEndian.Uint32(v.Data))
	case 'd':
		return math.Float64frombits(binary.BigEndian.Uint64(v.Data))
	case 'T':
		return Timestamp(binary.BigEndian.Uint64(v.Data))
	case 'D':
		return Decimal{Scale: v.Data[0], Value: binary.BigEndian.Uint32(v.Data[1:])}
	}
	return nil
}

func (v RawValue) decodeArray() Array {
	out := Array{}
	for it := v.ArrayIter(); it.Next(); {
		out = append(out, it.value.Decode())
	}
	return out
}

// ArrayIter returns an iterator over the elements of an array; over nothing for any other type.
func (v RawValue) ArrayIter() ArrayIter {
	if v.Type != 'A' {
		return ArrayIter{}
	}
	return ArrayIter{rest: v.Data}
}

// ArrayIter walks over the elements of an encoded array.
type ArrayIter struct {
	rest  []byte
	value RawValue
}

// Next moves to the next element and says whether there is one.
func (it *ArrayIter) Next() bool {
	var ok bool
	it.value, it.rest, ok = cutValue(it.rest)
	return ok
}

// Value returns the current element, borrowed.
func (it *ArrayIter) Value() RawValue { return it.value }
