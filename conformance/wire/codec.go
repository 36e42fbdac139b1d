package wire

import (
	"encoding/binary"
	"fmt"
	"reflect"
)

// Method is one of the method structs of this package, by value. Their fields stand in the specification's order and
// have one Go type each: uint8 octet, uint16 short, uint32 long, uint64 longlong, string shortstr, LongStr longstr,
// bool bit, Table table. Neighbouring bits share octets, the first in the lowest bit.
type Method any

// LongStr is a string with a 32-bit length.
type LongStr string

var (
	idByType = map[reflect.Type]uint32{}
	typeByID = map[uint32]reflect.Type{}
)

func init() {
	for _, m := range methods {
		t := reflect.TypeOf(m.zero)
		id := uint32(m.class)<<16 | uint32(m.method)
		idByType[t], typeByID[id] = id, t
	}
}

// ID returns the class and method id of m. It panics when m is not a method struct of this package.
func ID(m Method) (class, method uint16) {
	id, ok := idByType[reflect.TypeOf(m)]
	if !ok {
		panic(fmt.Sprintf("wire: %T is not a method", m))
	}
	return uint16(id >> 16), uint16(id)
}

// EncodeMethod returns a method frame's payload: class id, method id, arguments.
func EncodeMethod(m Method) []byte {
	var w writer
	class, method := ID(m)
	w.short(class)
	w.short(method)
	v := reflect.ValueOf(m)
	bit := 0 // how many bits the last octet holds; 0 when the next bit starts a new one
	for i := range v.NumField() {
		if b, ok := v.Field(i).Interface().(bool); ok {
			if bit == 0 {
				w.octet(0)
			}
			if b {
				w.b[len(w.b)-1] |= 1 << bit
			}
			bit = (bit + 1) % 8
			continue
		}
		bit = 0
		w.argument(v.Field(i).Interface())
	}
	return w.b
}

func (w *writer) argument(v any) {
	switch v := v.(type) {
	case uint8:
		w.octet(v)
	case uint16:
		w.short(v)
	case uint32:
		w.long(v)
	case uint64:
		w.longlong(v)
	case string:
		w.shortstr(v)
	case LongStr:
		w.longstr(string(v))
	case Table:
		w.table(v)
	default:
		panic(fmt.Sprintf("wire: no argument type for %T", v))
	}
}

// DecodeMethod reads a method frame's payload.
func DecodeMethod(payload []byte) (Method, error) {
	if len(payload) < 4 {
		return nil, errShort
	}
	id := binary.BigEndian.Uint32(payload)
	t, ok := typeByID[id]
	if !ok {
		return nil, fmt.Errorf("unknown method (%d,%d)", id>>16, id&0xffff)
	}
	r := reader{b: payload[4:]}
	v := reflect.New(t).Elem()
	bit, bits := 0, uint8(0)
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() == reflect.Bool {
			if bit == 0 {
				bits = r.octet()
			}
			f.SetBool(bits&(1<<bit) != 0)
			bit = (bit + 1) % 8
			continue
		}
		bit = 0
		r.argument(f)
	}
	return v.Interface(), r.finish(t.Name())
}

func (r *reader) argument(f reflect.Value) {
	switch f.Interface().(type) {
	case uint8:
		f.SetUint(uint64(r.octet()))
	case uint16:
		f.SetUint(uint64(r.short()))
	case uint32:
		f.SetUint(uint64(r.long()))
	case uint64:
		f.SetUint(r.longlong())
	case string:
		f.SetString(r.shortstr())
	case LongStr:
		f.SetString(r.longstr())
	case Table:
		f.Set(reflect.ValueOf(r.table(0)))
	}
}
