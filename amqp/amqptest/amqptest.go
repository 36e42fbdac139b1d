// Package amqptest runs a broker inside a Go test: in memory, on a port the
// kernel picks, gone when the test ends.
//
//	func TestOrders(t *testing.T) {
//		b := amqptest.Start(t)
//		conn, err := amqp091.Dial(b.URI())
//		...
//	}
package amqptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// Broker is a running broker. Methods may be called from any goroutine.
type Broker struct {
	broker *broker.Broker
	server *amqp.Server
	addr   net.Addr
	user   string
	pass   string
	vhost  string

	web     *http.Server // nil without the option Management
	webAddr net.Addr
}

// settings are what options change.
type settings struct {
	broker broker.Options
	server amqp.Options
	dir    string
	listen string

	management bool
}

// Option changes how Start sets the broker up.
type Option func(*settings)

// Compat has the broker behave as RabbitMQ 3.10.8 (3) or 4.3.6 (4, the
// default).
func Compat(profile int) Option {
	return func(s *settings) { s.broker.Profile = compat.Profile(profile) }
}

// DataDir keeps durable things in dir, so that a broker started on it later
// finds them. Without it nothing is on disk.
func DataDir(dir string) Option { return func(s *settings) { s.dir = dir } }

// BodyBudget is how many bytes of waiting messages stay in memory; more goes
// to disk, if there is a DataDir.
func BodyBudget(bytes int64) Option {
	return func(s *settings) { s.broker.BodyBudget = bytes }
}

// Listen takes connections on an address instead of a free port of 127.0.0.1.
func Listen(address string) Option { return func(s *settings) { s.listen = address } }

// Login makes the administrator another than guest, guest.
func Login(user, password string) Option {
	return func(s *settings) { s.broker.DefaultUser, s.broker.DefaultPassword = user, password }
}

// VHost makes the virtual host another than "/".
func VHost(name string) Option { return func(s *settings) { s.broker.DefaultVHost = name } }

// ConsumerTimeout is how long a client may take to acknowledge a delivery:
// see amqp.Options.
func ConsumerTimeout(d time.Duration) Option {
	return func(s *settings) { s.server.ConsumerTimeout = d }
}

// MaxMessageSize limits bodies to so many bytes.
func MaxMessageSize(bytes uint64) Option {
	return func(s *settings) { s.broker.MaxMessageSize = bytes }
}

// MaxUnacked limits what a connection may have unacknowledged on all its
// channels to n deliveries.
func MaxUnacked(n int) Option { return func(s *settings) { s.server.MaxUnacked = n } }

// Logger takes the broker's log, which is dropped otherwise.
func Logger(l *slog.Logger) Option {
	return func(s *settings) { s.broker.Logger, s.server.Logger = l, l }
}

// Heartbeat is the interval in seconds that the broker proposes.
func Heartbeat(seconds uint16) Option {
	return func(s *settings) { s.server.Heartbeat = seconds }
}

// Start runs a broker until the test and its subtests have ended. It fails
// the test if it cannot.
func Start(t testing.TB, options ...Option) *Broker {
	t.Helper()
	b, err := Run(options...)
	if err != nil {
		t.Fatalf("start broker: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stop broker: %v", err)
		}
	})
	return b
}

// Run is Start for programs that have no testing.TB at hand, such as TestMain;
// the caller calls Stop.
func Run(options ...Option) (*Broker, error) {
	s := &settings{listen: "127.0.0.1:0"}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	s.broker.Logger, s.server.Logger = quiet, quiet
	s.broker.DefaultUser, s.broker.DefaultPassword, s.broker.DefaultVHost = "guest", "guest", "/"
	for _, o := range options {
		o(s)
	}
	if p := s.broker.Profile; p != 0 && p != compat.V3 && p != compat.V4 {
		return nil, fmt.Errorf("compatibility profile %d is neither 3 nor 4", p)
	}
	return s.run()
}

func (s *settings) run() (*Broker, error) {
	if s.dir != "" {
		store, err := persist.Open(persist.Options{Dir: s.dir, Logger: s.broker.Logger})
		if err != nil {
			return nil, err
		}
		s.broker.Store = store
	}
	br, err := broker.Open(s.broker)
	if err != nil {
		return nil, err
	}
	s.server.Broker = br
	b := &Broker{
		broker: br, server: amqp.NewServer(s.server),
		user: s.broker.DefaultUser, pass: s.broker.DefaultPassword, vhost: s.broker.DefaultVHost,
	}
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), br.Close())
	}
	b.addr = l.Addr()
	if s.management {
		if err := b.serveManagement(s); err != nil {
			return nil, errors.Join(err, l.Close(), br.Close())
		}
	}
	go b.server.Serve(l) // ends with Stop
	return b, nil
}

// stopGrace is how long clients have to answer connection.close.
const stopGrace = 2 * time.Second

// Stop closes all connections as a broker that shuts down does, and the
// store. Calling it again does nothing.
func (b *Broker) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	var err error
	if b.web != nil {
		err = b.web.Close()
	}
	b.server.Shutdown(ctx)
	return errors.Join(err, b.broker.Close())
}

// Addr is the address clients connect to, HOST:PORT.
func (b *Broker) Addr() string { return b.addr.String() }

// URI is what client libraries connect with: administrator, address and
// virtual host.
func (b *Broker) URI() string {
	u := url.URL{Scheme: "amqp", User: url.UserPassword(b.user, b.pass), Host: b.Addr(), Path: "/" + b.vhost}
	u.RawPath = "/" + url.PathEscape(b.vhost)
	return u.String()
}

// Hooks is where observers and interceptors are installed.
func (b *Broker) Hooks() *broker.Hooks { return &b.broker.Hooks }

// Broker is the broker itself: virtual hosts, users, counts.
func (b *Broker) Broker() *broker.Broker { return b.broker }

// Clock is the broker's clock; Advance moves message time.
func (b *Broker) Clock() *queue.Clock { return b.broker.Clock }
