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
	if s.management == off {
		return nil
	}
	l, err := net.Listen("tcp", s.management)
	if errors.Is(err, syscall.EADDRINUSE) && !s.managementAsked {
		n.log.Warn("the management port is taken; going on without the management API", "address", s.management)
		return nil
	}
	if err != nil {
		return fmt.Errorf("listen for management: %w", err)
	}
	n.ready["management"] = dialable(l.Addr())
	n.listensOn("http", l.Addr())
	api := management.New(management.Options{
		Broker: n.broker, Logger: n.log, Version: version, LoopbackUsers: s.loopbackUsers,
		Listeners: func() []management.Listener { return n.listeners },
	})
	n.web = &http.Server{Handler: api, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout}
	n.log.Info(fmt.Sprintf("Management plugin: HTTP (non-TLS) listener started on port %d", l.Addr().(*net.TCPAddr).Port))
	go func() {
		if err := n.web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.failed <- err
		}
	}()
	return nil
}

// listensOn notes a listener for the management API.
func (n *node) listensOn(protocol string, a net.Addr) {
	if tcp, ok := a.(*net.TCPAddr); ok {
		n.listeners = append(n.listeners, management.Listener{Protocol: protocol, IP: tcp.IP.String(), Port: tcp.Port})
	}
}
