package amqp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// minFrameMax is the smallest frame-max a client may ask for, bytes; the
// spec's. RabbitMQ 4.3 wants 8192; Warren permits 4096 in both profiles.
const minFrameMax = 4096

// Options are what a server is made with. Zero values are RabbitMQ's defaults.
type Options struct {
	Broker *broker.Broker
	Logger *slog.Logger
	// ChannelMax and FrameMax (bytes) bound what a client may negotiate;
	// Heartbeat is what connection.tune proposes, in seconds.
	ChannelMax uint16
	FrameMax   uint32
	Heartbeat  uint16
	// ConnectionMax, ChannelMaxPerNode and ConsumerMaxPerChannel bound how many
	// there may be; 0 is no bound.
	ConnectionMax, ChannelMaxPerNode, ConsumerMaxPerChannel int
	// HandshakeTimeout ends connections that have not opened a virtual host.
	HandshakeTimeout time.Duration
	// ConsumerTimeout is how long a client may take to acknowledge a delivery,
	// where queue and consumer do not say; 0 is RabbitMQ's 30 minutes, negative
	// is for ever. By message time, in milliseconds.
	ConsumerTimeout time.Duration
	// LoopbackUsers may log in over loopback only; nil is guest, a single
	// "none" is nobody.
	LoopbackUsers []string
	// CertLoginFrom is the source of the user name for SASL EXTERNAL: see
	// auth.MechanismOptions.
	CertLoginFrom string
	// MaxUnacked bounds the deliveries to consumers that a connection has not
	// acknowledged yet, on all its channels together; 0 is no limit.
	MaxUnacked int
	// Version is Warren's own version, shown in server-properties.
	Version string
}

func (o *Options) fill() {
	o.ChannelMax = cmp.Or(o.ChannelMax, 2047)
	o.FrameMax = max(cmp.Or(o.FrameMax, 131072), minFrameMax)
	o.Heartbeat = cmp.Or(o.Heartbeat, 60)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, 10*time.Second)
	o.ConsumerTimeout = cmp.Or(o.ConsumerTimeout, 30*time.Minute)
	o.Version = cmp.Or(o.Version, "dev")
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// Server accepts connections for one broker. Methods may be called from any
// goroutine.
type Server struct {
	// Immutable.
	broker     *broker.Broker
	options    Options
	log        *slog.Logger
	mechanisms []auth.Mechanism
	properties frames.Table
	budget     budget
	late       late
	watch      vigil
	alarmed    alarmedConns

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	closed    bool
	gone      sync.WaitGroup // connections and listeners
	census    census         // what limits are about
}

// NewServer makes a server.
func NewServer(o Options) *Server {
	o.fill()
	s := &Server{
		broker: o.Broker, options: o, log: o.Logger,
		listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{},
		census: newCensus(),
	}
	s.mechanisms = auth.Mechanisms(o.Broker.Auth, auth.MechanismOptions{
		Anonymous: compat.Anonymous.In(o.Broker.Profile), LoopbackUsers: o.LoopbackUsers,
		External: true, CertLoginFrom: o.CertLoginFrom,
	})
	s.properties = s.serverProperties()
	o.Broker.OnAlarm(s.alarmsChanged)
	return s
}

// serverProperties are those of connection.start. Client libraries branch on
// product and version, which therefore are RabbitMQ's; Warren's own name and
// version stand in further keys.
func (s *Server) serverProperties() frames.Table {
	p := s.broker.Profile
	capabilities := frames.Table{}
	for _, name := range []string{
		"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "connection.blocked",
		"consumer_priorities", "authentication_failure_close", "per_consumer_qos", "direct_reply_to",
	} {
		capabilities = append(capabilities, frames.Field{Key: name, Value: true})
	}
	return frames.Table{
		{Key: "capabilities", Value: capabilities},
		{Key: "cluster_name", Value: "warren@localhost"},
		{Key: "copyright", Value: compat.Copyright.In(p)},
		{Key: "information", Value: "Licensed under the MIT license. Warren speaks as RabbitMQ " + compat.Version.In(p) + "."},
		{Key: "platform", Value: compat.Platform.In(p)},
		{Key: "product", Value: "RabbitMQ"},
		{Key: "version", Value: compat.Version.In(p)},
		{Key: "warren", Value: "Warren"},
		{Key: "warren_version", Value: s.options.Version},
	}
}

// ErrClosed is what Serve returns after Shutdown.
var ErrClosed = errors.New("server is closed")

// Serve accepts connections until Shutdown, which closes l. A TLS listener
// (tls.NewListener) makes TLS connections.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		l.Close()
		return ErrClosed
	}
	s.listeners[l] = struct{}{}
	s.gone.Add(1)
	s.mu.Unlock()
	defer s.gone.Done()
	for {
		socket, err := l.Accept()
		if err != nil {
			if s.isClosed() {
				return ErrClosed
			}
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				continue
			}
			if retryAccept(err) {
				s.log.Error("cannot accept connections for a moment", "error", err)
				s.pause(50 * time.Millisecond)
				continue
			}
			return fmt.Errorf("accept connections: %w", err)
		}
		s.take(socket)
	}
}

// pause waits on the broker's clock.
func (s *Server) pause(d time.Duration) {
	woken := make(chan struct{})
	s.after(d, func() { close(woken) })
	<-woken
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// take starts a connection's reader.
func (s *Server) take(socket net.Conn) {
	c := newConn(s, socket)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		socket.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.gone.Add(1)
	go c.run()
}

// left is called when a connection has ended.
func (s *Server) left(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.gone.Done()
}

// Shutdown closes the listeners and every connection with 320, waits until
// they have gone or ctx ends, and then resets those that are left.
func (s *Server) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.Close(frames.ConnectionForced, "broker forced connection closure with reason 'shutdown'")
	}
	all := make(chan struct{})
	go func() { s.gone.Wait(); close(all) }()
	select {
	case <-all:
		return
	case <-ctx.Done():
	}
	for _, c := range conns {
		c.reset()
	}
	<-all
}

// Connections is how many connections there are, in whatever state.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// TLSConfig is a server configuration with the certificate files; caFile, if
// not empty, holds the authorities whose client certificates are accepted, as
// SASL EXTERNAL needs.
func TLSConfig(certFile, keyFile, caFile string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load TLS certificate %s and key %s: %w", certFile, keyFile, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pool, err := loadAuthorities(caFile)
		if err != nil {
			return nil, err
		}
		c.ClientCAs, c.ClientAuth = pool, tls.VerifyClientCertIfGiven
	}
	return c, nil
}
