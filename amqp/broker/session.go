package broker

import (
	"fmt"

	"github.com/warrenmq/warren/frames"
)

// Session is a client's connection as the broker sees it.
type Session interface {
	// Describe tells who it is. It must not block.
	Describe() SessionInfo
	// Details tells all there is to show. It may wait for the handlers of the
	// connection, and must not be called with a lock of the broker held.
	Details() SessionDetails
	// Close closes it from the server's side with a reply code and text. Called
	// with no lock of the broker held.
	Close(code uint16, text string)
}

// SessionInfo describes a session.
type SessionInfo struct {
	Name        string // "HOST:PORT -> HOST:PORT"
	User, VHost string
}

// Attach makes an open connection known; Detach forgets it.
func (b *Broker) Attach(s Session) {
	b.sessionMu.Lock()
	defer b.sessionMu.Unlock()
	b.sessions[s] = struct{}{}
}

// Detach forgets a connection; one that is not known is ignored.
func (b *Broker) Detach(s Session) {
	b.sessionMu.Lock()
	defer b.sessionMu.Unlock()
	delete(b.sessions, s)
}

// Sessions lists the open connections, in no order.
func (b *Broker) Sessions() []Session {
	b.sessionMu.Lock()
	defer b.sessionMu.Unlock()
	all := make([]Session, 0, len(b.sessions))
	for s := range b.sessions {
		all = append(all, s)
	}
	return all
}

// CloseSessions closes the connections that match, with 320 and a text, and
// says how many there were.
func (b *Broker) CloseSessions(match func(SessionInfo) bool, text string) int {
	n := 0
	for _, s := range b.Sessions() {
		if match(s.Describe()) {
			s.Close(frames.ConnectionForced, text)
			n++
		}
	}
	return n
}

// DeleteUser deletes a user and closes its connections; false when there is
// none. wait: done will be called when it is durable.
func (b *Broker) DeleteUser(name string, done func(error)) (existed, wait bool) {
	if !b.Users.DeleteUser(name, done) {
		return false, false
	}
	b.CloseSessions(func(i SessionInfo) bool { return i.User == name }, fmt.Sprintf("user '%s' is deleted", name))
	return true, b.store != nil
}
