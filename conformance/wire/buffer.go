package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errShort says that a payload ended inside a value.
var errShort = errors.New("payload ends inside a value")

// writer appends values in network byte order.
type writer struct{ b []byte }

func (w *writer) octet(v uint8)     { w.b = append(w.b, v) }
func (w *writer) short(v uint16)    { w.b = binary.BigEndian.AppendUint16(w.b, v) }
func (w *writer) long(v uint32)     { w.b = binary.BigEndian.AppendUint32(w.b, v) }
func (w *writer) longlong(v uint64) { w.b = binary.BigEndian.AppendUint64(w.b, v) }

// shortstr panics above 255 bytes: that is a mistake in a case, never a broker's.
func (w *writer) shortstr(s string) {
	if len(s) > 255 {
		panic(fmt.Sprintf("wire: shortstr of %d bytes", len(s)))
	}
	w.octet(uint8(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) longstr(s string) {
	w.long(uint32(len(s)))
	w.b = append(w.b, s...)
}

// reader takes values off a payload. The first failure sticks in err and later reads give zero values, so callers
// check once.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.b) {
		r.err = errShort
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) octet() uint8 {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *reader) short() uint16 {
	if v := r.take(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

func (r *reader) long() uint32 {
	if v := r.take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (r *reader) longlong() uint64 {
	if v := r.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (r *reader) shortstr() string { return string(r.take(int(r.octet()))) }
func (r *reader) longstr() string  { return string(r.take(int(r.long()))) }
