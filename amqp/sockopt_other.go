//go:build !linux

package amqp

import (
	"crypto/tls"
	"net"
)

// limitUnsent bounds the kernel's backlog for a socket by its send buffer:
// coarser than what Linux offers, but everywhere.
func limitUnsent(socket net.Conn) {
	if t, ok := socket.(*tls.Conn); ok {
		socket = t.NetConn()
	}
	if tcp, ok := socket.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(128 << 10)
	}
}
