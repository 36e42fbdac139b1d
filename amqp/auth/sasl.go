package auth

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ErrMalformed is what errors.Is finds when a mechanism's response cannot be read. RabbitMQ then resets the socket
// after a while and sends no method.
var ErrMalformed = errors.New("malformed SASL response")

// ConnInfo is what a mechanism may know of the connection.
type ConnInfo struct {
	PeerLoopback bool // see IsLoopback
	TLS          bool
	// PeerCertificates is the client's verified chain, its own certificate first: an element of VerifiedChains of
	// crypto/tls, never its PeerCertificates, which a client may have made up.
	PeerCertificates []*x509.Certificate
}

// Mechanism is one way to log in. It is immutable and used by all connections at once.
type Mechanism interface {
	// Name as in connection.start and start-ok; the case matters.
	Name() string
	// Respond takes the response of start-ok and returns the user who is now logged in. The error is ErrMalformed
	// (reset the socket) or ErrRefused (answer LoginRefused), each perhaps wrapped, or, when the backend could not
	// tell, another one, which is treated as a refusal. user is set with a refusal too, where the response named one,
	// for the log. response is not kept.
	Respond(response []byte, c ConnInfo) (user string, err error)
}

// offerer is a Mechanism that is not for every connection.
type offerer interface{ offers(c ConnInfo) bool }

// MechanismOptions says which mechanisms there are. The zero value is RabbitMQ 3's default.
type MechanismOptions struct {
	// Anonymous offers ANONYMOUS (profile 4), which logs in as AnonymousUser with AnonymousPass, "" meaning guest.
	Anonymous                    bool
	AnonymousUser, AnonymousPass string
	// LoopbackUsers may log in over loopback only. Empty: guest. To have none, name the single user "none".
	LoopbackUsers []string
	// External offers EXTERNAL on TLS connections, if the backend is an Identifier.
	External bool
	// CertLoginFrom is the source of EXTERNAL's user name. "" is CertDistinguishedName.
	CertLoginFrom string
}

// Mechanisms returns the mechanisms in the order in which they are offered.
func Mechanisms(b Backend, o MechanismOptions) []Mechanism {
	rule := NewLoopbackRule(o.LoopbackUsers)
	ms := []Mechanism{plain{b, rule}, amqplain{b, rule}}
	if o.Anonymous {
		user, pass := o.AnonymousUser, o.AnonymousPass
		if user == "" {
			user = "guest"
		}
		if pass == "" {
			pass = "guest"
		}
		ms = append(ms, anonymous{b, rule, user, pass})
	}
	if id, ok := b.(Identifier); ok && o.External {
		ms = append(ms, external{id, rule, o.CertLoginFrom})
	}
	return ms
}

// Offered returns those of ms that this connection may use: EXTERNAL needs TLS. As in RabbitMQ it is offered to a
// client without a certificate too, who is then told that the login was refused rather than that there is no such
// mechanism.
func Offered(ms []Mechanism, c ConnInfo) []Mechanism {
	return slices.DeleteFunc(slices.Clone(ms), func(m Mechanism) bool {
		o, ok := m.(offerer)
		return ok && !o.offers(c)
	})
}

// Names returns the mechanisms field of connection.start.
func Names(ms []Mechanism) string {
	names := make([]string, len(ms))
	for i, m := range ms {
		names[i] = m.Name()
	}
	return strings.Join(names, " ")
}

// Find returns the mechanism a client chose. A client that chose none of those offered is cut off as one with a
// malformed response.
func Find(ms []Mechanism, name string) (Mechanism, bool) {
	for _, m := range ms {
		if m.Name() == name {
			return m, true
		}
	}
	return nil, false
}

// LoopbackRule knows the users who may log in over loopback only. The zero value knows none.
type LoopbackRule struct{ users map[string]struct{} }

// NewLoopbackRule makes a rule of the setting loopback_users: empty means guest, the single user "none" nobody.
func NewLoopbackRule(users []string) LoopbackRule {
	switch {
	case len(users) == 0:
		users = []string{"guest"}
	case len(users) == 1 && users[0] == "none":
		users = nil
	}
	set := make(map[string]struct{}, len(users))
	for _, u := range users {
		set[u] = struct{}{}
	}
	return LoopbackRule{set}
}

// Allows reports whether the user may log in from such a peer. Ask after the password was right, so that the answer
// tells a stranger nothing. The management API follows the same rule.
func (r LoopbackRule) Allows(user string, peerLoopback bool) bool {
	_, bound := r.users[user]
	return peerLoopback || !bound
}

// check is Allows as the last step of a mechanism.
func (r LoopbackRule) check(user string, c ConnInfo) error {
	if !r.Allows(user, c.PeerLoopback) {
		return fmt.Errorf("user '%s' can only connect via localhost: %w", user, ErrRefused)
	}
	return nil
}

// IsLoopback reports whether addr is of this machine's loopback: 127.0.0.0/8, ::1, or the former mapped into IPv6.
func IsLoopback(addr netip.Addr) bool { return addr.Unmap().IsLoopback() }

// login is what all mechanisms with a password do once they have read it.
func login(b Backend, rule LoopbackRule, user, password string, c ConnInfo) (string, error) {
	if err := b.Authenticate(user, password); err != nil {
		return user, err
	}
	return user, rule.check(user, c)
}

// plain is PLAIN (RFC 4616) as RabbitMQ reads it: NUL user NUL password, nothing before and no NUL in either. A
// client that sends an authorization identity is cut off there, so here too.
type plain struct {
	backend Backend
	rule    LoopbackRule
}

// Name implements Mechanism.
func (plain) Name() string { return "PLAIN" }

// Respond implements Mechanism.
func (m plain) Respond(response []byte, c ConnInfo) (string, error) {
	user, password, err := parsePlain(response)
	if err != nil {
		return "", err
	}
	return login(m.backend, m.rule, user, password, c)
}

func parsePlain(response []byte) (user, password string, err error) {
	parts := bytes.SplitN(response, []byte{0}, 4)
	if len(parts) != 3 || len(parts[0]) != 0 {
		return "", "", fmt.Errorf("%w: PLAIN is NUL, user, NUL, password", ErrMalformed)
	}
	return string(parts[1]), string(parts[2]), nil
}

// anonymous is ANONYMOUS (RFC 4505): whatever trace the client sends is ignored and it becomes the configured user.
type anonymous struct {
	backend    Backend
	rule       LoopbackRule
	user, pass string
}

// Name implements Mechanism.
func (anonymous) Name() string { return "ANONYMOUS" }

// Respond implements Mechanism.
func (m anonymous) Respond(_ []byte, c ConnInfo) (string, error) {
	return login(m.backend, m.rule, m.user, m.pass, c)
}
