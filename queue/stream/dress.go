package stream

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/warrenmq/warren/frames"
)

// offsetHeader stands in every delivery from a stream: the message's offset,
// of type l.
const offsetHeader = "x-stream-offset"

// modeTransient is the delivery mode that 4.3 adds to a message without one.
const modeTransient = 1

// dressed are a message's properties with the offset among the headers, which
// are sorted by key then; an offset that the publisher sent is replaced
// (verified on RabbitMQ 3.10.8 and 4.3.6). mode as for
// frames.Properties.AppendWithRawHeaders.
func dressed(properties []byte, offset uint64, mode uint8) []byte {
	p, err := frames.ParseProperties(properties)
	if err != nil {
		return properties // no publisher can send such
	}
	headers, _ := p.Headers()
	fields := offsetFields(headers, offset)
	return p.AppendWithRawHeaders(make([]byte, 0, len(properties)+len(fields)+5), fields, mode)
}

// offsetFields are the fields of a headers table with the offset added.
func offsetFields(headers frames.RawTable, offset uint64) frames.RawTable {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], offset)
	type field struct {
		key   []byte
		value frames.RawValue
	}
	fields := append(make([]field, 0, 8), field{[]byte(offsetHeader), frames.RawValue{Type: 'l', Data: number[:]}})
	for it := headers.Iter(); it.Next(); {
		if string(it.Key()) != offsetHeader {
			fields = append(fields, field{it.Key(), it.Value()})
		}
	}
	slices.SortStableFunc(fields, func(a, b field) int { return bytes.Compare(a.key, b.key) })
	out := make([]byte, 0, len(headers)+len(offsetHeader)+10)
	for _, f := range fields {
		out = frames.AppendRawField(out, f.key, f.value)
	}
	return out
}
