package amqptest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/warrenmq/warren/amqp/management"
)

// Management serves RabbitMQ's HTTP API too, on a free port of 127.0.0.1: see
// Broker.ManagementURL.
func Management() Option { return func(s *settings) { s.management = true } }

// serveManagement starts the HTTP API.
func (b *Broker) serveManagement(s *settings) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for management: %w", err)
	}
	b.webAddr = l.Addr()
	listeners := []management.Listener{listener("amqp", b.addr), listener("http", b.webAddr)}
	b.web = &http.Server{Handler: management.New(management.Options{
		Broker: b.broker, Logger: s.broker.Logger, Version: "test", LoopbackUsers: s.server.LoopbackUsers,
		Listeners: func() []management.Listener { return listeners },
	})}
	go func() {
		if err := b.web.Serve(l); !errors.Is(err, http.ErrServerClosed) { // ends with Stop
			s.broker.Logger.Error("management API ended", "error", err)
		}
	}()
	return nil
}

func listener(protocol string, a net.Addr) management.Listener {
	m := management.Listener{Protocol: protocol}
	if tcp, ok := a.(*net.TCPAddr); ok {
		m.IP, m.Port = tcp.IP.String(), tcp.Port
	}
	return m
}

// ManagementURL is where the HTTP API is, http://USER:PASSWORD@HOST:PORT, with
// the administrator; "" without the option Management.
func (b *Broker) ManagementURL() string {
	if b.webAddr == nil {
		return ""
	}
	u := url.URL{Scheme: "http", User: url.UserPassword(b.user, b.pass), Host: b.webAddr.String()}
	return u.String()
}
