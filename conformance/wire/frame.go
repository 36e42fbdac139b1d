package wire

import "encoding/binary"

// Frame types of AMQP 0-9-1 (specification 4.2.3).
const (
	FrameMethod    = 1
	FrameHeader    = 2
	FrameBody      = 3
	FrameHeartbeat = 8
)

// FrameEnd is the octet that ends each frame.
const FrameEnd = 0xCE

// Frame is one frame as it travels: type, channel, and the payload between the 7-octet head and the end octet.
type Frame struct {
	Type    uint8
	Channel uint16
	Payload []byte
}

// Bytes returns the frame in wire form. The length is that of Payload; nothing is checked, so that invalid frames
// can be built.
func (f Frame) Bytes() []byte {
	b := make([]byte, 7, 8+len(f.Payload))
	b[0] = f.Type
	binary.BigEndian.PutUint16(b[1:], f.Channel)
	binary.BigEndian.PutUint32(b[3:], uint32(len(f.Payload)))
	b = append(b, f.Payload...)
	return append(b, FrameEnd)
}

// MethodFrame returns the frame that carries m on a channel.
func MethodFrame(channel uint16, m Method) Frame {
	return Frame{Type: FrameMethod, Channel: channel, Payload: EncodeMethod(m)}
}

// HeaderFrame returns the content header frame for h.
func HeaderFrame(channel uint16, h Header) Frame {
	return Frame{Type: FrameHeader, Channel: channel, Payload: h.encode()}
}

// BodyFrame returns a content body frame.
func BodyFrame(channel uint16, body []byte) Frame {
	return Frame{Type: FrameBody, Channel: channel, Payload: body}
}
