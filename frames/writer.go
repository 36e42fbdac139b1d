package frames

import "encoding/binary"

// The functions here append whole frames to a caller's buffer. They keep no state and may run on any
// goroutine; the bytes they append are the caller's. Channel numbers are the caller's concern.

// AppendFrameHeader appends the seven octets in front of a payload of size bytes. The caller appends, or
// writes by reference, the payload and FrameEnd.
func AppendFrameHeader(dst []byte, typ byte, channel uint16, size uint32) []byte {
	dst = append(dst, typ)
	dst = binary.BigEndian.AppendUint16(dst, channel)
	return binary.BigEndian.AppendUint32(dst, size)
}

// closeFrame writes the size of the frame that starts at start and ends it.
func closeFrame(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start+3:], uint32(len(dst)-start-HeaderSize))
	return append(dst, FrameEnd)
}

// openMethod appends a frame header without its size and the method's ids.
func openMethod(dst []byte, channel uint16, id MethodID) []byte {
	dst = AppendFrameHeader(dst, TypeMethod, channel, 0)
	return binary.BigEndian.AppendUint32(dst, uint32(id))
}

// AppendMethodFrame appends a method frame.
func AppendMethodFrame(dst []byte, channel uint16, m Method) []byte {
	start := len(dst)
	dst = AppendFrameHeader(dst, TypeMethod, channel, 0)
	dst = m.Append(dst)
	return closeFrame(dst, start)
}

// AppendHeaderFrame appends a content header frame of class basic. props are property flags and values as
// Properties.Raw returns them; none at all stands for no properties. A header frame is never split, even
// when it is larger than the receiver's frame-max, as in RabbitMQ.
func AppendHeaderFrame(dst []byte, channel uint16, bodySize uint64, props []byte) []byte {
	start := len(dst)
	dst = AppendFrameHeader(dst, TypeHeader, channel, 0)
	dst = append(dst, 0, classBasic, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, bodySize)
	if len(props) == 0 {
		dst = append(dst, 0, 0)
	}
	dst = append(dst, props...)
	return closeFrame(dst, start)
}

// AppendBodyFrames appends body in as many frames as frameMax, which counts the Overhead, demands. An empty
// body has no frames. A frameMax that leaves no room for a payload, as 0 does, means no limit.
func AppendBodyFrames(dst []byte, channel uint16, body []byte, frameMax uint32) []byte {
	room := len(body)
	if frameMax > Overhead {
		room = int(min(uint64(frameMax-Overhead), uint64(len(body))))
	}
	for len(body) > 0 {
		n := min(room, len(body))
		dst = AppendFrameHeader(dst, TypeBody, channel, uint32(n))
		dst = append(dst, body[:n]...)
		dst = append(dst, FrameEnd)
		body = body[n:]
	}
	return dst
}

// AppendHeartbeat appends a heartbeat frame.
func AppendHeartbeat(dst []byte) []byte {
	return append(dst, TypeHeartbeat, 0, 0, 0, 0, 0, 0, FrameEnd)
}

// AppendDeliver appends the method frame of basic.deliver.
func AppendDeliver(dst []byte, channel uint16, consumerTag string, deliveryTag uint64, redelivered bool, exchange, routingKey string) []byte {
	start := len(dst)
	dst = openMethod(dst, channel, BasicDeliverID)
	dst = appendShortstr(dst, consumerTag)
	dst = binary.BigEndian.AppendUint64(dst, deliveryTag)
	dst = append(dst, bit(redelivered, 1))
	dst = appendShortstr(dst, exchange)
	dst = appendShortstr(dst, routingKey)
	return closeFrame(dst, start)
}

// AppendGetOk appends the method frame of basic.get-ok.
func AppendGetOk(dst []byte, channel uint16, deliveryTag uint64, redelivered bool, exchange, routingKey string, messageCount uint32) []byte {
	start := len(dst)
	dst = openMethod(dst, channel, BasicGetOkID)
	dst = binary.BigEndian.AppendUint64(dst, deliveryTag)
	dst = append(dst, bit(redelivered, 1))
	dst = appendShortstr(dst, exchange)
	dst = appendShortstr(dst, routingKey)
	dst = binary.BigEndian.AppendUint32(dst, messageCount)
	return closeFrame(dst, start)
}

// AppendReturn appends the method frame of basic.return.
func AppendReturn(dst []byte, channel uint16, replyCode uint16, replyText, exchange, routingKey string) []byte {
	start := len(dst)
	dst = openMethod(dst, channel, BasicReturnID)
	dst = binary.BigEndian.AppendUint16(dst, replyCode)
	dst = appendShortstr(dst, replyText)
	dst = appendShortstr(dst, exchange)
	dst = appendShortstr(dst, routingKey)
	return closeFrame(dst, start)
}

// AppendAck appends the method frame of basic.ack.
func AppendAck(dst []byte, channel uint16, deliveryTag uint64, multiple bool) []byte {
	start := len(dst)
	dst = openMethod(dst, channel, BasicAckID)
	dst = binary.BigEndian.AppendUint64(dst, deliveryTag)
	dst = append(dst, bit(multiple, 1))
	return closeFrame(dst, start)
}

// AppendNack appends the method frame of basic.nack.
func AppendNack(dst []byte, channel uint16, deliveryTag uint64, multiple, requeue bool) []byte {
	start := len(dst)
	dst = openMethod(dst, channel, BasicNackID)
	dst = binary.BigEndian.AppendUint64(dst, deliveryTag)
	dst = append(dst, bit(multiple, 1)|bit(requeue, 2))
	return closeFrame(dst, start)
}

// bit returns mask if set, else 0.
func bit(set bool, mask byte) byte {
	if set {
		return mask
	}
	return 0
}
