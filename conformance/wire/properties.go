package wire

import (
	"fmt"
	"reflect"
)

// Properties are the basic class's content properties (specification 1.8.2). A nil field is absent; a pointer to an
// empty value is present and empty, which is a different thing on the wire.
type Properties struct {
	ContentType     *string
	ContentEncoding *string
	Headers         *Table
	DeliveryMode    *uint8
	Priority        *uint8
	CorrelationID   *string
	ReplyTo         *string
	Expiration      *string
	MessageID       *string
	Timestamp       *Timestamp
	Type            *string
	UserID          *string
	AppID           *string
	ClusterID       *string
}

// Header is a content header frame's payload.
type Header struct {
	Class      uint16
	Weight     uint16
	Size       uint64 // of the body that follows, in bytes
	Properties Properties
	// RawProperties, when set, is written in place of flags and Properties. Reading never sets it.
	RawProperties []byte
}

func (h Header) encode() []byte {
	var w writer
	w.short(h.Class)
	w.short(h.Weight)
	w.longlong(h.Size)
	if h.RawProperties != nil {
		return append(w.b, h.RawProperties...)
	}
	return append(w.b, h.Properties.encode()...)
}

// encode gives the flags, then the present values: bit 15 stands for the first field.
func (p Properties) encode() []byte {
	var flags uint16
	var values writer
	v := reflect.ValueOf(p)
	for i := range v.NumField() {
		f := v.Field(i)
		if f.IsNil() {
			continue
		}
		flags |= 1 << (15 - i)
		switch f := f.Interface().(type) {
		case *string:
			values.shortstr(*f)
		case *uint8:
			values.octet(*f)
		case *Table:
			values.table(*f)
		case *Timestamp:
			values.longlong(uint64(*f))
		}
	}
	var w writer
	w.short(flags)
	return append(w.b, values.b...)
}

// DecodeHeader reads a content header payload.
func DecodeHeader(payload []byte) (Header, error) {
	r := reader{b: payload}
	h := Header{Class: r.short(), Weight: r.short(), Size: r.longlong()}
	flags := r.short()
	if flags&3 != 0 {
		return h, fmt.Errorf("property flags %016b use bits that the basic class does not define", flags)
	}
	v := reflect.ValueOf(&h.Properties).Elem()
	for i := range v.NumField() {
		if flags&(1<<(15-i)) == 0 {
			continue
		}
		switch f := v.Field(i).Addr().Interface().(type) {
		case **string:
			*f = new(r.shortstr())
		case **uint8:
			*f = new(r.octet())
		case **Table:
			*f = new(r.table(0))
		case **Timestamp:
			*f = new(Timestamp(r.longlong()))
		}
	}
	return h, r.finish("content header")
}

// finish reports the sticky error, or bytes left over.
func (r *reader) finish(what string) error {
	if r.err != nil {
		return fmt.Errorf("read %s: %w", what, r.err)
	}
	if len(r.b) > 0 {
		return fmt.Errorf("read %s: %d bytes left over", what, len(r.b))
	}
	return nil
}
