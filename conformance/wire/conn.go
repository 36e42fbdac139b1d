package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Header091 is the protocol header that opens an AMQP 0-9-1 connection.
const Header091 = "AMQP\x00\x00\x09\x01"

// MaxPayload bounds what ReadFrame takes in one frame, in bytes. No broker under test negotiates more.
const MaxPayload = 32 << 20

var (
	// ErrClosed says that the peer has ended the connection, by FIN or by reset.
	ErrClosed = errors.New("connection closed by peer")
	// ErrTimeout says that nothing complete arrived in the time allowed.
	ErrTimeout = errors.New("timed out")
)

// Conn is a TCP connection that reads and writes frames. It negotiates nothing by itself. One goroutine at a time.
type Conn struct {
	nc net.Conn
	br *bufio.Reader
}

// Dial connects to a host:port within the limit.
func Dial(addr string, limit time.Duration) (*Conn, error) {
	nc, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return nil, fmt.Errorf("dial broker: %w", err)
	}
	return NewConn(nc), nil
}

// NewConn takes over a connection that is open, of either side.
func NewConn(nc net.Conn) *Conn { return &Conn{nc: nc, br: bufio.NewReaderSize(nc, 64<<10)} }

// Close drops the connection without any AMQP goodbye.
func (c *Conn) Close() { c.nc.Close() }

// Write sends bytes as they are, within the limit.
func (c *Conn) Write(b []byte, limit time.Duration) error {
	c.nc.SetWriteDeadline(time.Now().Add(limit))
	_, err := c.nc.Write(b)
	return sortError(err)
}

// ReadBytes reads exactly n bytes, as a reply to a protocol header may need.
func (c *Conn) ReadBytes(n int, limit time.Duration) ([]byte, error) {
	c.nc.SetReadDeadline(time.Now().Add(limit))
	b := make([]byte, n)
	got, err := io.ReadFull(c.br, b)
	return b[:got], sortError(err)
}

// ReadFrame returns the next frame; its payload is the caller's. A timeout inside a frame loses that frame, so a
// connection is not to be read further after [ErrTimeout] unless it was idle.
func (c *Conn) ReadFrame(limit time.Duration) (Frame, error) {
	c.nc.SetReadDeadline(time.Now().Add(limit))
	var head [7]byte
	if _, err := io.ReadFull(c.br, head[:]); err != nil {
		return Frame{}, sortError(err)
	}
	size := binary.BigEndian.Uint32(head[3:])
	if size > MaxPayload {
		return Frame{}, fmt.Errorf("frame of %d bytes is above this client's bound", size)
	}
	b := make([]byte, size+1)
	if _, err := io.ReadFull(c.br, b); err != nil {
		return Frame{}, sortError(err)
	}
	if b[size] != FrameEnd {
		return Frame{}, fmt.Errorf("frame ends with octet %#x", b[size])
	}
	return Frame{Type: head[0], Channel: binary.BigEndian.Uint16(head[1:]), Payload: b[:size:size]}, nil
}

// sortError maps the many faces of an ended connection to ErrClosed and deadlines to ErrTimeout.
func sortError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ErrClosed
	}
	return err
}
