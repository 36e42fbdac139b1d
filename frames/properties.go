package frames

import "encoding/binary"

// classBasic is the only class with content.
const classBasic = 60

// Flags of the properties of class basic, in wire order from bit 15 (AMQP 0-9-1 section 1.8.1 and 4.2.6.1).
const (
	FlagContentType     uint16 = 1 << 15
	FlagContentEncoding uint16 = 1 << 14
	FlagHeaders         uint16 = 1 << 13
	FlagDeliveryMode    uint16 = 1 << 12
	FlagPriority        uint16 = 1 << 11
	FlagCorrelationID   uint16 = 1 << 10
	FlagReplyTo         uint16 = 1 << 9
	FlagExpiration      uint16 = 1 << 8
	FlagMessageID       uint16 = 1 << 7
	FlagTimestamp       uint16 = 1 << 6
	FlagType            uint16 = 1 << 5
	FlagUserID          uint16 = 1 << 4
	FlagAppID           uint16 = 1 << 3
	FlagClusterID       uint16 = 1 << 2

	allFlags         = 0xfffc
	flagContinuation = 1 // another word of flags follows: class basic has none
)

// errProperties is what RabbitMQ answers a content header it cannot read with: it crashes, and the close
// says a bare INTERNAL_ERROR that blames no method. It is shared and never changed.
var errProperties = &Error{Code: InternalError, Scope: ScopeConnection}

// ContentHeader is the fixed part of the payload of a header frame, and its properties as sent.
type ContentHeader struct {
	Class, Weight uint16
	BodySize      uint64
	Properties    []byte // flag word and values, borrowed from the payload; for ParseProperties
}

// ParseContentHeader reads the twelve fixed octets. A shorter payload is an *Error, 501 "unknown_frame"
// (verified on RabbitMQ 3.10.8 and 4.3.6, whether or not a header was due).
func ParseContentHeader(payload []byte) (ContentHeader, error) {
	if len(payload) < 12 {
		return ContentHeader{}, unknownFrame(TypeHeader, payload)
	}
	return ContentHeader{
		Class:      binary.BigEndian.Uint16(payload),
		Weight:     binary.BigEndian.Uint16(payload[2:]),
		BodySize:   binary.BigEndian.Uint64(payload[4:]),
		Properties: payload[12:],
	}, nil
}

// Properties is a checked view of the properties of a message as they were sent: what is delivered is these
// bytes, and only what the broker needs is ever looked at. It is a small value, copied freely, that borrows
// the bytes given to ParseProperties; keep those for as long as it is used. Nothing here allocates, except
// where a result is a new slice or struct. The zero value has no properties.
//
// Delivery mode and priority are read at a known offset. Others cost a walk over the short strings before
// them, which is at most eleven additions.
type Properties struct {
	raw   []byte // flag word and values; nil in the zero value
	flags uint16
	mode  uint32 // offset just behind the headers, where delivery mode and priority are
}

// noProperties is the flag word of a message that has none.
var noProperties = []byte{0, 0}

// ParseProperties checks property bytes as a content header carries them, nested headers included. The
// error is always the same *Error: 541 without a text, for values that are cut short or followed by more
// bytes, a malformed headers table, or a flag word that announces another one (verified on RabbitMQ 3.10.8
// and 4.3.6; neither checks the short strings for UTF-8).
//
// One deviation is on purpose: RabbitMQ ignores the continuation bit and stumbles over the second flag word,
// so it lets the bit pass when no word follows. No client sends that, and consumers could not read it.
func ParseProperties(b []byte) (Properties, error) {
	if len(b) < 2 {
		return Properties{}, errProperties
	}
	flags := binary.BigEndian.Uint16(b)
	if flags&flagContinuation != 0 {
		return Properties{}, errProperties
	}
	p := Properties{raw: b, flags: flags & allFlags}
	end := 2
	for flag := FlagContentType; flag >= FlagClusterID; flag >>= 1 {
		if p.flags&flag != 0 {
			start := end
			var ok bool
			if end, ok = propertyEnd(b, start, flag); !ok {
				return Properties{}, errProperties
			}
			if flag == FlagHeaders && !validTable(b[start+4:end], MaxTableDepth) {
				return Properties{}, errProperties
			}
		}
		if flag == FlagHeaders {
			p.mode = uint32(end)
		}
	}
	if end != len(b) {
		return Properties{}, errProperties
	}
	return p, nil
}

// propertyEnd returns where the value of the property at start ends, false when that is past the end of b.
func propertyEnd(b []byte, start int, flag uint16) (end int, ok bool) {
	switch flag {
	case FlagHeaders:
		if len(b)-start < 4 {
			return 0, false
		}
		n := uint64(binary.BigEndian.Uint32(b[start:]))
		if n > uint64(len(b)-start-4) {
			return 0, false
		}
		return start + 4 + int(n), true
	case FlagDeliveryMode, FlagPriority:
		end = start + 1
	case FlagTimestamp:
		end = start + 8
	default:
		if start >= len(b) {
			return 0, false
		}
		end = start + 1 + int(b[start])
	}
	return end, end <= len(b)
}

// Raw returns the flag word and the values as sent; two zero octets for the zero value. The caller must not
// change them.
func (p *Properties) Raw() []byte {
	if p.raw == nil {
		return noProperties
	}
	return p.raw
}

// Has says whether the property of the flag is present. A present property may be empty.
func (p *Properties) Has(flag uint16) bool { return p.flags&flag != 0 }

// span returns where in the raw bytes the property stands, its length octets included; false when absent.
func (p *Properties) span(flag uint16) (start, end int, ok bool) {
	if p.flags&flag == 0 {
		return 0, 0, false
	}
	start, f := 2, FlagContentType
	if flag < FlagHeaders {
		start, f = int(p.mode), FlagDeliveryMode
	}
	for ; f > flag; f >>= 1 {
		if p.flags&f != 0 {
			start, _ = propertyEnd(p.raw, start, f)
		}
	}
	end, _ = propertyEnd(p.raw, start, flag)
	return start, end, true
}

func (p *Properties) shortstr(flag uint16) ([]byte, bool) {
	start, end, ok := p.span(flag)
	if !ok {
		return nil, false
	}
	return p.raw[start+1 : end : end], true
}

// Headers returns the headers table, borrowed; an empty table is present and has no fields.
func (p *Properties) Headers() (RawTable, bool) {
	start, end, ok := p.span(FlagHeaders)
	if !ok {
		return nil, false
	}
	return RawTable(p.raw[start+4 : end : end]), true
}

// DeliveryMode returns the delivery mode: 2 is persistent.
func (p *Properties) DeliveryMode() (uint8, bool) {
	if p.flags&FlagDeliveryMode == 0 {
		return 0, false
	}
	return p.raw[p.mode], true
}

// Priority returns the priority.
func (p *Properties) Priority() (uint8, bool) {
	if p.flags&FlagPriority == 0 {
		return 0, false
	}
	if p.flags&FlagDeliveryMode == 0 {
		return p.raw[p.mode], true
	}
	return p.raw[p.mode+1], true
}

// Timestamp returns the timestamp, seconds since 1970 (UTC) by convention.
func (p *Properties) Timestamp() (uint64, bool) {
	start, _, ok := p.span(FlagTimestamp)
	if !ok {
		return 0, false
	}
	return binary.BigEndian.Uint64(p.raw[start:]), true
}

// ContentType returns the MIME type, borrowed.
func (p *Properties) ContentType() ([]byte, bool) { return p.shortstr(FlagContentType) }

// ContentEncoding returns the MIME encoding, borrowed.
func (p *Properties) ContentEncoding() ([]byte, bool) { return p.shortstr(FlagContentEncoding) }

// CorrelationID returns the correlation id, borrowed.
func (p *Properties) CorrelationID() ([]byte, bool) { return p.shortstr(FlagCorrelationID) }

// ReplyTo returns the address to reply to, borrowed.
func (p *Properties) ReplyTo() ([]byte, bool) { return p.shortstr(FlagReplyTo) }

// Expiration returns the time to live as sent, a number of milliseconds in decimal if it is valid; borrowed.
func (p *Properties) Expiration() ([]byte, bool) { return p.shortstr(FlagExpiration) }

// MessageID returns the message id, borrowed.
func (p *Properties) MessageID() ([]byte, bool) { return p.shortstr(FlagMessageID) }

// Type returns the application's message type, borrowed.
func (p *Properties) Type() ([]byte, bool) { return p.shortstr(FlagType) }

// UserID returns the user id, borrowed.
func (p *Properties) UserID() ([]byte, bool) { return p.shortstr(FlagUserID) }

// AppID returns the application id, borrowed.
func (p *Properties) AppID() ([]byte, bool) { return p.shortstr(FlagAppID) }

// ClusterID returns the cluster id, a leftover of AMQP 0-8; borrowed.
func (p *Properties) ClusterID() ([]byte, bool) { return p.shortstr(FlagClusterID) }

// AppendWithout appends flag word and values to dst, leaving out the property of the flag.
func (p *Properties) AppendWithout(dst []byte, flag uint16) []byte {
	start, end, ok := p.span(flag)
	if !ok {
		return append(dst, p.Raw()...)
	}
	dst = binary.BigEndian.AppendUint16(dst, p.flags&^flag)
	dst = append(dst, p.raw[2:start]...)
	return append(dst, p.raw[end:]...)
}

// AppendWithHeaders appends flag word and values to dst with headers in place of the headers table that was
// or was not there. Empty headers make an empty table; use AppendWithout to have none.
func (p *Properties) AppendWithHeaders(dst []byte, headers Table) []byte {
	if p.raw == nil {
		return headers.Append(append(dst, byte(FlagHeaders>>8), 0))
	}
	start, end, ok := p.span(FlagHeaders)
	if !ok {
		start, end = int(p.mode), int(p.mode)
	}
	dst = binary.BigEndian.AppendUint16(dst, p.flags|FlagHeaders)
	dst = append(dst, p.raw[2:start]...)
	dst = headers.Append(dst)
	return append(dst, p.raw[end:]...)
}
