package frames

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// Frame types and sizes (AMQP 0-9-1 sections 2.3.5 and 4.2.3).
const (
	TypeMethod    = 1
	TypeHeader    = 2
	TypeBody      = 3
	TypeHeartbeat = 8

	FrameEnd   = 0xCE // the octet behind every payload
	HeaderSize = 7    // type, channel and payload size
	Overhead   = 8    // HeaderSize and FrameEnd; a frame-max counts it
)

// MaxPayload bounds a payload when the peers agreed on no limit: 64 MiB.
const MaxPayload = 64 << 20

const (
	restSize    = 4 << 10  // buffer of an idle connection
	loadSize    = 64 << 10 // buffer of a busy one
	quietReads  = 4        // so many small reads in a row make a buffer shrink again
	emptyReads  = 100      // so many reads of nothing mean a broken source
	initialMax  = 4096     // payload limit until SetLimit: AMQP's frame-min-size
	growthSteps = 2        // factor by which a buffer over loadSize grows while its frame comes in
)

// Frame is one frame as it was read. Frames are not checked beyond size and end octet: type and channel may
// be anything.
type Frame struct {
	Type    byte
	Channel uint16
	Payload []byte // borrowed from the Reader, valid until its next Next
}

// Reader cuts a byte stream into frames. It reads as much as the source has and its buffer holds, so one
// read may serve many frames.
//
// All methods but BytesRead belong to one goroutine.
type Reader struct {
	// immutable
	src io.Reader

	// owned by the reading goroutine
	buf     []byte
	r, w    int    // buf[r:w] is read and not yet returned
	limit   uint32 // payload size beyond which a frame is refused
	quiet   int    // small reads into an empty buffer in a row
	brim    bool   // the last read filled the buffer
	broken  *Error // set once the stream is lost
	pending error  // came together with bytes; reported when those are used up

	// atomic, read from any goroutine
	bytes atomic.Uint64
}

// loadBuffers keeps buffers of loadSize between bursts. Connections take turns in being busy.
var loadBuffers = sync.Pool{New: func() any { return new([loadSize]byte) }}

// NewReader returns a Reader of src with the payload limit of 4096 that holds until tune-ok; see SetLimit.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, buf: make([]byte, restSize), limit: initialMax}
}

// SetLimit refuses payloads over frameMax octets from the next frame on, which is a slack of 8 over what a
// frame-max means, as RabbitMQ allows (behaviour verified with 4097 octets on a limit of 4096). 0 means no
// limit but MaxPayload.
func (r *Reader) SetLimit(frameMax uint32) {
	if frameMax == 0 || frameMax > MaxPayload {
		frameMax = MaxPayload
	}
	r.limit = frameMax
}

// BytesRead returns how many bytes came in so far. Any goroutine may ask, as heartbeat supervision does.
func (r *Reader) BytesRead() uint64 { return r.bytes.Load() }

// Next returns the next frame. Its payload is valid until the following call.
//
// Errors of the source are returned as they are: io.EOF between frames, io.ErrUnexpectedEOF inside one.
// After a deadline the reader goes on where it was. A payload over the limit or a wrong end octet is an
// *Error with code 501 and the text RabbitMQ sends; the stream is lost then, and every later call returns
// the same error.
func (r *Reader) Next() (Frame, error) {
	if r.broken != nil {
		return Frame{}, r.broken
	}
	if err := r.fill(HeaderSize); err != nil {
		return Frame{}, err
	}
	head := r.buf[r.r:]
	f := Frame{Type: head[0], Channel: binary.BigEndian.Uint16(head[1:])}
	size := binary.BigEndian.Uint32(head[3:])
	if size > r.limit {
		return Frame{}, r.lose(f, fmt.Sprintf("{frame_too_large,%d,%d}", size, int64(r.limit)-Overhead))
	}
	whole := Overhead + int(size)
	if err := r.fill(whole); err != nil {
		return Frame{}, err
	}
	end := r.r + whole - 1
	f.Payload = r.buf[r.r+HeaderSize : end : end]
	if r.buf[end] != FrameEnd {
		return Frame{}, r.lose(f, fmt.Sprintf("{invalid_frame_end_marker,%d}", r.buf[end]))
	}
	r.r += whole
	return f, nil
}

// lose makes the error after which no frame can be found any more.
func (r *Reader) lose(f Frame, reason string) error {
	r.broken = Errorf(FrameError, "%s", FrameErrorText(f, reason))
	return r.broken
}

// Buffered says whether Next would return without reading from the source, so that a caller with replies to
// flush can do so before it blocks.
func (r *Reader) Buffered() bool {
	if r.broken != nil {
		return true
	}
	if r.w-r.r < HeaderSize {
		return false
	}
	size := binary.BigEndian.Uint32(r.buf[r.r+3:])
	return size > r.limit || r.w-r.r >= Overhead+int(size)
}

// ReadProtocolHeader reads the eight octets a client starts with, and nothing of what follows them is lost.
// Before a whole header came it returns what there is, its length and the error: io.EOF, or
// io.ErrUnexpectedEOF after the first octet, or whatever the source says.
func (r *Reader) ReadProtocolHeader() (header [8]byte, n int, err error) {
	err = r.fill(len(header))
	n = copy(header[:], r.buf[r.r:r.w])
	if err == nil {
		r.r += n
	}
	return header, n, err
}

// fill reads until n bytes are in the buffer.
func (r *Reader) fill(n int) error {
	for r.w-r.r < n {
		if r.pending != nil {
			return r.sourceError()
		}
		r.makeRoom(n)
		if err := r.read(); err != nil {
			return err
		}
	}
	return nil
}

// sourceError returns the error that ended the bytes, once.
func (r *Reader) sourceError() error {
	err := r.pending
	r.pending = nil
	if err == io.EOF && r.w > r.r {
		return io.ErrUnexpectedEOF
	}
	return err
}

// read makes one read that brings bytes or an error.
func (r *Reader) read() error {
	for range emptyReads {
		n, err := r.src.Read(r.buf[r.w:])
		if n < 0 || n > len(r.buf)-r.w {
			return fmt.Errorf("read frames: source returned an impossible count of %d", n)
		}
		if n > 0 {
			r.note(n)
			r.pending = err
			return nil
		}
		if err != nil {
			r.pending = err
			return r.sourceError()
		}
	}
	return io.ErrNoProgress
}

// note counts n bytes just read and judges by them how busy the connection is.
func (r *Reader) note(n int) {
	switch {
	case n > restSize/2:
		r.quiet = 0
	case r.r == r.w:
		r.quiet++
	}
	r.w += n
	r.brim = r.w == len(r.buf)
	r.bytes.Add(uint64(n))
}

// makeRoom sees to it that there is room to read, and that a frame of n bytes that starts at r.r can be
// finished in the end.
//
// A buffer of restSize that a read filled to the brim is replaced by one of loadSize. Frames beyond that
// get a buffer of their size, but only as their bytes come in: a peer that announces a large frame has to
// send half of it before we allocate the other half. quietReads small reads lead back to restSize.
func (r *Reader) makeRoom(n int) {
	if r.r == r.w {
		r.r, r.w = 0, 0
		if r.quiet >= quietReads && len(r.buf) > restSize {
			r.resize(restSize)
		}
	}
	switch {
	case len(r.buf) < loadSize && (n > len(r.buf) || r.brim):
		r.resize(loadSize)
	case r.w == len(r.buf) && r.r == 0:
		r.resize(min(n, growthSteps*len(r.buf)))
	case r.r+min(n, len(r.buf)) > len(r.buf):
		r.move(r.buf)
	}
}

// resize moves what is unread to a buffer of the size.
func (r *Reader) resize(size int) {
	old := r.buf
	if size == loadSize {
		r.move(loadBuffers.Get().(*[loadSize]byte)[:])
	} else {
		r.move(make([]byte, size))
	}
	if len(old) == loadSize {
		loadBuffers.Put((*[loadSize]byte)(old))
	}
	r.quiet, r.brim = 0, false
}

// move copies what is unread to the start of a buffer and goes on with that.
func (r *Reader) move(to []byte) {
	r.w = copy(to, r.buf[r.r:r.w])
	r.r, r.buf = 0, to
}
