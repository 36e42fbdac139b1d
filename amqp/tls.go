package amqp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/warrenmq/warren/amqp/auth"
)

func loadAuthorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load TLS authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("load TLS authorities: %s holds no PEM certificate", file)
	}
	return pool, nil
}

// peer is what SASL mechanisms may know of a connection. For TLS the handshake
// has been done.
func peer(socket net.Conn) auth.ConnInfo {
	var info auth.ConnInfo
	if a, err := netip.ParseAddrPort(socket.RemoteAddr().String()); err == nil {
		info.PeerLoopback = auth.IsLoopback(a.Addr())
	}
	if t, ok := socket.(*tls.Conn); ok {
		info.TLS = true
		if chains := t.ConnectionState().VerifiedChains; len(chains) > 0 {
			info.PeerCertificates = chains[0]
		}
	}
	return info
}

// lingerer is a TCP connection, also under TLS.
type lingerer interface{ SetLinger(sec int) error }

// resetSocket drops a connection as RabbitMQ does: a TCP reset, no FIN.
func resetSocket(socket net.Conn) {
	inner := socket
	if t, ok := socket.(*tls.Conn); ok {
		inner = t.NetConn()
	}
	if l, ok := inner.(lingerer); ok {
		// Best effort: without it the peer sees an ordinary end of stream.
		_ = l.SetLinger(0)
	}
	inner.Close()
}

// retryAccept says whether accepting may work again soon: the process is out
// of descriptors, or the peer went away.
func retryAccept(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
