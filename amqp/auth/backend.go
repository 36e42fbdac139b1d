package auth

import (
	"errors"
	"fmt"
	"slices"
)

// ErrRefused is what errors.Is finds in every refused login: unknown user, wrong password, user bound to loopback. The
// text around it is for the log; the client is told LoginRefused.
var ErrRefused = errors.New("login refused")

// Access is a kind of permission.
type Access uint8

// The three kinds of access; behaviour per method is in RabbitMQ's access control table.
const (
	Configure Access = iota
	Write
	Read
)

// String returns the word used in refusals and in the management API.
func (a Access) String() string {
	switch a {
	case Configure:
		return "configure"
	case Write:
		return "write"
	case Read:
		return "read"
	}
	return fmt.Sprintf("access(%d)", uint8(a))
}

// Kind is a kind of resource.
type Kind uint8

// The kinds of resources.
const (
	Queue Kind = iota
	Exchange
	Topic // asked about with CheckTopic only
)

// String returns the word used in refusals.
func (k Kind) String() string {
	switch k {
	case Queue:
		return "queue"
	case Exchange:
		return "exchange"
	case Topic:
		return "topic"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// defaultExchange is the name under which the exchange with the empty name is checked and named in refusals.
const defaultExchange = "amq.default"

// Resource is what a check is about.
type Resource struct {
	Kind Kind
	Name string
}

// checkedName is the name patterns are matched against.
func (r Resource) checkedName() string {
	if r.Kind == Exchange && r.Name == "" {
		return defaultExchange
	}
	return r.Name
}

// Backend is what the broker asks. All methods may be called from any goroutine, on the path of every method and
// message, so the internal one takes no lock; one that asks another server caches.
type Backend interface {
	// Authenticate checks a password. The error is ErrRefused or wraps it when the user may not log in; any other
	// error means that the backend could not tell.
	Authenticate(user, password string) error
	// VHostAccess reports whether the user may connect to the virtual host (connection.open).
	VHostAccess(user, vhost string) bool
	// Check reports whether the user may have this access to a queue or exchange. The default exchange is checked
	// under the name amq.default. It is false for a Topic, which has a method of its own.
	Check(user, vhost string, r Resource, p Access) bool
	// CheckTopic reports whether the user may publish to (Write) or bind to (Read) the topic exchange with this
	// routing key. It is true when the user has no topic permission for that exchange. It comes on top of Check.
	CheckTopic(user, vhost, exchange, routingKey string, p Access) bool
	// Version grows when answers may have changed; it is read before an answer that is kept.
	Version() uint64
	// Tags returns the user's tags, as a copy.
	Tags(user string) []string
}

// Identifier is what a Backend can do beside, where clients prove who they are by other means (EXTERNAL).
type Identifier interface {
	// Identify checks that a user proven by other means may log in; errors are as for Authenticate.
	Identify(user string) error
}

// Authenticate implements Backend: the user exists and the password is its own. An empty password never is.
func (d *Directory) Authenticate(user, password string) error {
	hash, algorithm := noHash, AlgorithmSHA256
	a := d.account(user)
	if a != nil && a.exists && a.user.PasswordHash != "" {
		hash, algorithm = a.user.PasswordHash, a.user.HashingAlgorithm
	}
	// For an unknown user a hash is computed all the same, so that time does not tell which names exist.
	if !VerifyPassword(hash, algorithm, password) {
		return fmt.Errorf("user '%s' - invalid credentials: %w", user, ErrRefused)
	}
	return nil
}

// Identify implements Identifier: the user exists, whether or not it has a password.
func (d *Directory) Identify(user string) error {
	if a := d.account(user); a == nil || !a.exists {
		return fmt.Errorf("user '%s' does not exist: %w", user, ErrRefused)
	}
	return nil
}

// VHostAccess implements Backend: the user has a permission, of whatever content, in the virtual host.
func (d *Directory) VHostAccess(user, vhost string) bool { return d.grant(user, vhost) != nil }

// Check implements Backend.
func (d *Directory) Check(user, vhost string, r Resource, p Access) bool {
	g := d.grant(user, vhost)
	if g == nil || r.Kind != Queue && r.Kind != Exchange {
		return false
	}
	switch p {
	case Configure:
		return g.configure.match(r.checkedName())
	case Write:
		return g.write.match(r.checkedName())
	case Read:
		return g.read.match(r.checkedName())
	}
	return false
}

// CheckTopic implements Backend.
func (d *Directory) CheckTopic(user, vhost, exchange, routingKey string, p Access) bool {
	g := d.topicGrant(user, vhost, exchange)
	if g == nil {
		return true
	}
	switch p {
	case Write:
		return g.write.match(routingKey)
	case Read:
		return g.read.match(routingKey)
	}
	return false
}

// Tags implements Backend.
func (d *Directory) Tags(user string) []string {
	if a := d.account(user); a != nil && a.exists {
		return slices.Clone(a.user.Tags)
	}
	return nil
}

// grant returns the permission of an existing user, or nil.
func (d *Directory) grant(user, vhost string) *grant {
	if a := d.account(user); a != nil && a.exists {
		return a.permissions[vhost]
	}
	return nil
}

// topicGrant returns the topic permission of an existing user, or nil.
func (d *Directory) topicGrant(user, vhost, exchange string) *topicGrant {
	if a := d.account(user); a != nil && a.exists {
		return a.topics[topicKey{vhost, exchange}]
	}
	return nil
}
