package frames

import "encoding/binary"

// AppendRawField appends an encoded field of a table: key, type letter, value.
// The key is at most 255 bytes long.
func AppendRawField(dst, key []byte, v RawValue) []byte {
	dst = append(dst, byte(len(key)))
	dst = append(dst, key...)
	dst = append(dst, v.Type)
	switch v.Type {
	case 'S', 'x', 'F', 'A':
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(v.Data)))
	}
	return append(dst, v.Data...)
}

// AppendWithRawHeaders appends flag word and values to dst with encoded headers
// in place of the headers table that was or was not there. mode, when it is not
// 0, becomes the delivery mode of a message that has none.
func (p *Properties) AppendWithRawHeaders(dst []byte, headers RawTable, mode uint8) []byte {
	raw, behind := p.Raw(), int(p.mode)
	if p.raw == nil {
		behind = len(raw)
	}
	before := behind // where the headers stand, or would
	if start, _, ok := p.span(FlagHeaders); ok {
		before = start
	}
	flags := p.flags | FlagHeaders
	add := mode != 0 && flags&FlagDeliveryMode == 0
	if add {
		flags |= FlagDeliveryMode
	}
	dst = binary.BigEndian.AppendUint16(dst, flags)
	dst = append(dst, raw[2:before]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(headers)))
	dst = append(dst, headers...)
	if add {
		dst = append(dst, mode)
	}
	return append(dst, raw[behind:]...)
}
