package amqp

import (
	"crypto/tls"
	"net"
	"syscall"
)

// unsentLimit is how many bytes the kernel holds that it has not sent yet,
// because the peer does not read. What is in there cannot be overtaken by a
// control frame.
const unsentLimit = 32 << 10

// tcpNotSentLowat is TCP_NOTSENT_LOWAT of linux/tcp.h, which package syscall
// does not name.
const tcpNotSentLowat = 25

// limitUnsent bounds the kernel's backlog for a socket. Sockets that are not
// TCP have none of this.
func limitUnsent(socket net.Conn) {
	if t, ok := socket.(*tls.Conn); ok {
		socket = t.NetConn()
	}
	tcp, ok := socket.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // the socket has gone; reading it will say so
	}
	_ = raw.Control(func(fd uintptr) {
		// Best effort: without it the bound before a control frame is larger.
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, unsentLimit)
	})
}
