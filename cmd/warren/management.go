package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/warrenmq/warren/amqp/management"
)

// The times within which a client of the API must have sent its request's
// headers, and must ask for something again.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// serveManagement starts the management API.
func (s *serveConfig) serveManagement(n *node) error {
	l, err := n.listenWeb("management", s.management, s.managementAsked)
	if l == nil || err != nil {
		return err
	}
	n.listensOn("http", l.Addr())
	n.serveWeb(l, management.New(management.Options{
		Broker: n.broker, Logger: n.log, Version: version, LoopbackUsers: s.loopbackUsers,
		Listeners: func() []management.Listener { return n.listeners },
	}))
	n.log.Info(fmt.Sprintf("Management plugin: HTTP (non-TLS) listener started on port %d", l.Addr().(*net.TCPAddr).Port))
	return nil
}

// servePrometheus starts the listener that Prometheus asks.
func (s *serveConfig) servePrometheus(n *node) error {
	l, err := n.listenWeb("prometheus", s.prometheus, s.prometheusAsked)
	if l == nil || err != nil {
		return err
	}
	n.listensOn("http/prometheus", l.Addr())
	n.serveWeb(l, management.NewMetrics(n.broker))
	n.log.Info(fmt.Sprintf("Prometheus metrics: HTTP (non-TLS) listener started on port %d", l.Addr().(*net.TCPAddr).Port))
	return nil
}

// listenWeb listens for HTTP. nil without an error: it is off, or the address,
// which nobody asked for, is taken.
func (n *node) listenWeb(what, address string, asked bool) (net.Listener, error) {
	if address == off {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) && !asked {
		n.log.Warn("the port is taken; going on without it", "what", what, "address", address)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", what, err)
	}
	n.ready[what] = dialable(l.Addr())
	return l, nil
}

// serveWeb serves HTTP until the node stops.
func (n *node) serveWeb(l net.Listener, h http.Handler) {
	web := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout}
	n.web = append(n.web, web)
	go func() {
		if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.failed <- err
		}
	}()
}

// listensOn notes a listener for the management API.
func (n *node) listensOn(protocol string, a net.Addr) {
	if tcp, ok := a.(*net.TCPAddr); ok {
		n.listeners = append(n.listeners, management.Listener{Protocol: protocol, IP: tcp.IP.String(), Port: tcp.Port})
	}
}
