package conformance

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Target is the broker under test. Immutable once handed to Run; any number of cases share it.
type Target struct {
	Addr     string // host:port of the AMQP listener
	User     string // may do anything in VHost
	Password string
	VHost    string
	Profile  int   // Profile3 or Profile4
	Warren   bool  // judge by Differences where a case has one
	Admin    Admin // nil: cases that need one cannot run
}

// Admin administers the broker under test, out of band. All methods return when the change holds for connections
// opened afterwards. Any goroutine may call them.
type Admin interface {
	CreateVHost(name string) error
	DeleteVHost(name string) error
	// PutUser creates or changes a user. Tags are those of the management API, such as "impersonator".
	PutUser(name, password string, tags ...string) error
	DeleteUser(name string) error
	// SetPermissions takes the three regular expressions of a user in a virtual host.
	SetPermissions(user, vhost, configure, write, read string) error
	SetTopicPermissions(user, vhost, exchange, write, read string) error
	PutPolicy(vhost string, p Policy) error
	DeletePolicy(vhost, name string) error
	PutOperatorPolicy(vhost string, p Policy) error
	DeleteOperatorPolicy(vhost, name string) error
	// SetVHostLimit and SetUserLimit set one limit, such as "max-connections"; a negative value is none.
	SetVHostLimit(vhost, name string, value int) error
	SetUserLimit(user, name string, value int) error
}

// Policy is a policy or operator policy, as the management API takes it.
type Policy struct {
	Name       string         `json:"-"`
	Pattern    string         `json:"pattern"`
	ApplyTo    string         `json:"apply-to"`
	Priority   int            `json:"priority"`
	Definition map[string]any `json:"definition"`
}

// ConnectionCloser is an Admin that can also close connections from outside; class Management asks for it.
type ConnectionCloser interface {
	// CloseConnection closes the connection of a user, who must have exactly one. An empty reason means none.
	CloseConnection(user, reason string) error
}

// Tracer is an Admin that can turn a virtual host's firehose on and off; class Management asks for it.
type Tracer interface {
	// SetTracing returns when the change holds for connections opened afterwards.
	SetTracing(vhost string, on bool) error
}

// ParseTarget reads an AMQP URI, amqp://user:password@host:port/vhost, with RabbitMQ's defaults for what is absent.
// Profile, Warren and Admin are left for the caller.
func ParseTarget(uri string) (Target, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return Target{}, fmt.Errorf("parse broker address: %w", err)
	}
	if u.Scheme != "amqp" || u.Hostname() == "" {
		return Target{}, fmt.Errorf("parse broker address %q: want amqp://host", uri)
	}
	t := Target{User: "guest", Password: "guest", VHost: "/"}
	port := u.Port()
	if port == "" {
		port = "5672"
	}
	t.Addr = net.JoinHostPort(u.Hostname(), port)
	if u.User != nil {
		t.User = u.User.Username()
		t.Password, _ = u.User.Password()
	}
	if v := strings.TrimPrefix(u.Path, "/"); v != "" {
		t.VHost = v
	}
	return t, nil
}

// patience is how long a case waits for a frame that must come. It is generous because a busy machine is no fault of
// the broker's; a passing case never waits it out.
const patience = 20 * time.Second

// countPatience is how long a queue's counts may take to become what they must be.
const countPatience = 5 * time.Second
