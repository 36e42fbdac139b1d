package frames

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

//go:generate go run ./gen

// MethodID is a class id in the upper and a method id in the lower 16 bits.
type MethodID uint32

// MakeMethodID joins a class and a method id.
func MakeMethodID(class, method uint16) MethodID {
	return MethodID(class)<<16 | MethodID(method)
}

// Class returns the class id.
func (id MethodID) Class() uint16 { return uint16(id >> 16) }

// Method returns the method id within the class.
func (id MethodID) Method() uint16 { return uint16(id) }

// String returns "basic.publish", or the numbers, "99.1", of an unknown method.
func (id MethodID) String() string {
	if name, _ := id.info(); name != "" {
		return name
	}
	return fmt.Sprintf("%d.%d", id.Class(), id.Method())
}

// Known says whether the method exists in AMQP 0-9-1 with RabbitMQ's extensions.
func (id MethodID) Known() bool {
	_, flags := id.info()
	return flags != 0
}

// FromClient says whether a client may send the method. It is false for methods that only a server sends,
// such as queue.declare-ok, which RabbitMQ answers with 503 "unimplemented method".
func (id MethodID) FromClient() bool {
	_, flags := id.info()
	return flags&byClient != 0
}

// HasContent says whether a content header and a body follow the method.
func (id MethodID) HasContent() bool {
	_, flags := id.info()
	return flags&withContent != 0
}

type methodFlags uint8

const (
	byClient methodFlags = 1 << iota
	byServer
	withContent
)

// Method is any of the generated method structs, by pointer.
type Method interface {
	// ID says which method it is.
	ID() MethodID
	// Append appends class id, method id and arguments: the payload of a method frame. Short strings
	// over 255 bytes are cut, so that what follows stays readable.
	Append(dst []byte) []byte
}

// decodable is what every generated struct is.
type decodable interface {
	Method
	Decode(args []byte) error
}

// SplitMethod splits the payload of a method frame into the method and its argument bytes, which stay
// borrowed. A payload too short for the ids is an *Error, 501 "unknown_frame" (verified on RabbitMQ 3.10.8
// and 4.3.6, whatever the channel's state).
func SplitMethod(payload []byte) (MethodID, []byte, error) {
	if len(payload) < 4 {
		return 0, nil, unknownFrame(TypeMethod, payload)
	}
	return MethodID(binary.BigEndian.Uint32(payload)), payload[4:], nil
}

// DecodeMethod decodes the payload of a method frame into a fresh struct of its type; for clients and
// tests, brokers decode into a struct they own. Errors are *Error: as for SplitMethod and the structs'
// Decode, and a reset for an unknown method (behaviour verified on RabbitMQ 3.10.8 and 4.3.6).
func DecodeMethod(payload []byte) (Method, error) {
	id, args, err := SplitMethod(payload)
	if err != nil {
		return nil, err
	}
	m := newMethod(id)
	if m == nil {
		return nil, Reset("unknown method " + id.String())
	}
	if err := m.Decode(args); err != nil {
		return nil, err
	}
	return m, nil
}

// argReader reads the arguments of one method. Reads past the end return zero values and are reported by
// finish, so that generated code needs no check a field.
//
// RabbitMQ first matches the shape of all arguments, then checks strings and tables in field order; hence
// shape errors win over the first field error.
type argReader struct {
	args     []byte // all of them, for the error text
	rest     []byte
	tooShort bool   // ran past the end
	field    *Error // first string or table error
}

// take returns the next n bytes, nil when there are fewer.
func (r *argReader) take(n uint64) []byte {
	if r.tooShort || uint64(len(r.rest)) < n {
		r.tooShort = true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *argReader) octet() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *argReader) short() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *argReader) long() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *argReader) longlong() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *argReader) shortbytes() []byte {
	b := r.take(uint64(r.octet()))
	if !utf8.Valid(b) {
		r.fail(errMalformedUTF8)
	}
	return b
}

func (r *argReader) shortstr() string { return string(r.shortbytes()) }

func (r *argReader) longstr() []byte {
	return append([]byte(nil), r.take(uint64(r.long()))...)
}

func (r *argReader) table() Table {
	b := r.take(uint64(r.long()))
	t, err := ParseTable(b)
	if err != nil {
		r.fail(errMethodTable)
	}
	return t
}

func (r *argReader) fail(e *Error) {
	if r.field == nil {
		r.field = e
	}
}

// The errors of single fields. They are shared and never changed.
var (
	errMalformedUTF8 = &Error{Code: FrameError, Text: "Malformed UTF-8 in shortstr", Scope: ScopeConnection}
	errMethodTable   = Reset("malformed field table in method arguments")
)

// finish reports what went wrong, nil if nothing did.
func (r *argReader) finish(id MethodID) error {
	if r.tooShort || len(r.rest) > 0 {
		return cannotDecode(id, r.args)
	}
	if r.field != nil {
		return r.field
	}
	return nil
}

// cannotDecode is RabbitMQ's error for arguments that do not fit the method, whether short or long. The
// text shows at most as many bytes as a reply-text has room for.
func cannotDecode(id MethodID, args []byte) *Error {
	if len(args) > maxReplyText {
		args = args[:maxReplyText]
	}
	return Errorf(FrameError, "cannot decode %s", erlangNumbers(args)).At(id)
}

// appendShortstr appends a string of at most 255 bytes with its length; the rest of a longer one is cut.
func appendShortstr[T string | []byte](dst []byte, s T) []byte {
	if len(s) > 255 {
		s = s[:255]
	}
	dst = append(dst, byte(len(s)))
	return append(dst, s...)
}

func appendLongstr[T string | []byte](dst []byte, s T) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

// appendBits packs up to eight bits into an octet, the first in bit 0.
func appendBits(dst []byte, bits ...bool) []byte {
	var octet byte
	for i, b := range bits {
		if b {
			octet |= 1 << i
		}
	}
	return append(dst, octet)
}
