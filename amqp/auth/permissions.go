package auth

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Permission is what a user may do in a virtual host: three patterns on the names of queues and exchanges (see the
// package comment). Having one at all is what lets the user connect to the virtual host.
type Permission struct {
	User      string `json:"user"`
	VHost     string `json:"vhost"`
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

// TopicPermission narrows what a user may do with one topic exchange: patterns on the routing keys it publishes with
// (Write) and binds with (Read). {username} and {vhost} in them stand for the names.
type TopicPermission struct {
	User     string `json:"user"`
	VHost    string `json:"vhost"`
	Exchange string `json:"exchange"`
	Write    string `json:"write"`
	Read     string `json:"read"`
}

// errUnchanged ends an edit that found nothing to do. It does not leave the package.
var errUnchanged = errors.New("nothing to change")

// grant is a permission ready for use.
type grant struct {
	Permission
	configure, write, read pattern
}

func newGrant(p Permission) (*grant, error) {
	if err := validNames(p.User, p.VHost); err != nil {
		return nil, err
	}
	g := &grant{Permission: p}
	for _, c := range []struct {
		source string
		into   *pattern
	}{{p.Configure, &g.configure}, {p.Write, &g.write}, {p.Read, &g.read}} {
		var err error
		if *c.into, err = compile(c.source); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *grant) key() Key { return Key{Kind: KindPermission, VHost: g.VHost, Name: g.User} }

// topicGrant is a topic permission ready for use.
type topicGrant struct {
	TopicPermission
	write, read pattern
}

func newTopicGrant(p TopicPermission) (*topicGrant, error) {
	if err := validNames(p.User, p.VHost, p.Exchange); err != nil {
		return nil, err
	}
	g := &topicGrant{TopicPermission: p}
	var err error
	if g.write, err = compileFor(p.Write, p.User, p.VHost); err != nil {
		return nil, err
	}
	if g.read, err = compileFor(p.Read, p.User, p.VHost); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *topicGrant) key() Key {
	return Key{Kind: KindTopicPermission, VHost: g.VHost, Name: topicName(g.User, g.Exchange)}
}

// PutPermission gives the user these permissions in the virtual host, in place of those it had there. Whether the
// virtual host exists is the caller's to know. Errors: *PatternError, ErrNoUser, ErrBadName. Goroutines and done are
// as for PutUser.
func (d *Directory) PutPermission(p Permission, done func(error)) error {
	g, err := newGrant(p)
	if err != nil {
		return fmt.Errorf("put permission: %w", err)
	}
	value, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode permission: %w", err)
	}
	return d.change(done, func(e *edit) error {
		if a := e.account(p.User); a == nil || !a.exists {
			return fmt.Errorf("put permission of user %q: %w", p.User, ErrNoUser)
		}
		e.put(g.key(), value)
		e.setGrant(g)
		return nil
	})
}

// DeletePermission takes the user's permissions in the virtual host away and reports whether there were any. Topic
// permissions stay. done is as for DeleteUser.
func (d *Directory) DeletePermission(user, vhost string, done func(error)) (existed bool) {
	err := d.change(done, func(e *edit) error {
		a := e.account(user)
		if a == nil || a.permissions[vhost] == nil {
			return errUnchanged
		}
		e.drop(a, user, func(g *grant) bool { return g.VHost == vhost }, nil)
		return nil
	})
	return err == nil
}

// Permission returns the user's permissions in the virtual host. Any goroutine; takes no lock.
func (d *Directory) Permission(user, vhost string) (Permission, bool) {
	if g := d.grant(user, vhost); g != nil {
		return g.Permission, true
	}
	return Permission{}, false
}

// Permissions returns all permissions, by virtual host and user. Any goroutine; takes no lock.
func (d *Directory) Permissions() []Permission {
	var all []Permission
	d.current.Load().each(func(a *account) {
		if !a.exists {
			return
		}
		for _, g := range a.permissions {
			all = append(all, g.Permission)
		}
	})
	slices.SortFunc(all, func(a, b Permission) int {
		return cmp.Or(strings.Compare(a.VHost, b.VHost), strings.Compare(a.User, b.User))
	})
	return all
}

// PutTopicPermission sets the user's topic permission for the exchange, in place of the one it had. Whether virtual
// host and exchange exist is the caller's to know. Errors and done are as for PutPermission.
func (d *Directory) PutTopicPermission(p TopicPermission, done func(error)) error {
	g, err := newTopicGrant(p)
	if err != nil {
		return fmt.Errorf("put topic permission: %w", err)
	}
	value, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode topic permission: %w", err)
	}
	return d.change(done, func(e *edit) error {
		if a := e.account(p.User); a == nil || !a.exists {
			return fmt.Errorf("put topic permission of user %q: %w", p.User, ErrNoUser)
		}
		e.put(g.key(), value)
		e.setTopicGrant(g)
		return nil
	})
}

// DeleteTopicPermission removes the user's topic permission for one exchange, which allows it all routing keys there,
// and reports whether there was one. done is as for DeleteUser.
func (d *Directory) DeleteTopicPermission(user, vhost, exchange string, done func(error)) (existed bool) {
	return d.deleteTopics(user, done, func(g *topicGrant) bool { return g.VHost == vhost && g.Exchange == exchange })
}

// DeleteTopicPermissions removes the user's topic permissions for all exchanges of the virtual host and reports
// whether there were any. done is as for DeleteUser.
func (d *Directory) DeleteTopicPermissions(user, vhost string, done func(error)) (existed bool) {
	return d.deleteTopics(user, done, func(g *topicGrant) bool { return g.VHost == vhost })
}

func (d *Directory) deleteTopics(user string, done func(error), is func(*topicGrant) bool) bool {
	err := d.change(done, func(e *edit) error {
		if a := e.account(user); a == nil || !e.drop(a, user, nil, is) {
			return errUnchanged
		}
		return nil
	})
	return err == nil
}

// TopicPermission returns the user's topic permission for the exchange. Any goroutine; takes no lock.
func (d *Directory) TopicPermission(user, vhost, exchange string) (TopicPermission, bool) {
	if g := d.topicGrant(user, vhost, exchange); g != nil {
		return g.TopicPermission, true
	}
	return TopicPermission{}, false
}

// TopicPermissions returns all topic permissions, by virtual host, user and exchange. Any goroutine; takes no lock.
func (d *Directory) TopicPermissions() []TopicPermission {
	var all []TopicPermission
	d.current.Load().each(func(a *account) {
		if !a.exists {
			return
		}
		for _, g := range a.topics {
			all = append(all, g.TopicPermission)
		}
	})
	slices.SortFunc(all, func(a, b TopicPermission) int {
		return cmp.Or(strings.Compare(a.VHost, b.VHost), strings.Compare(a.User, b.User),
			strings.Compare(a.Exchange, b.Exchange))
	})
	return all
}

// DropVHost removes all permissions and topic permissions in a virtual host that was deleted, in one change, and
// reports whether there were any. done is as for DeleteUser.
func (d *Directory) DropVHost(vhost string, done func(error)) (existed bool) {
	return d.dropEverywhere(done,
		func(g *grant) bool { return g.VHost == vhost },
		func(g *topicGrant) bool { return g.VHost == vhost })
}

// DropExchange removes all topic permissions for an exchange that was deleted, as RabbitMQ 4.3 does (3.10 keeps them),
// and reports whether there were any. done is as for DeleteUser.
func (d *Directory) DropExchange(vhost, exchange string, done func(error)) (existed bool) {
	return d.dropEverywhere(done, nil,
		func(g *topicGrant) bool { return g.VHost == vhost && g.Exchange == exchange })
}

func (d *Directory) dropEverywhere(done func(error), is func(*grant) bool, isTopic func(*topicGrant) bool) bool {
	err := d.change(done, func(e *edit) error {
		before := e.next // the shards as they were: drop replaces maps, it never writes to these
		dropped := false
		before.eachNamed(func(name string, a *account) {
			dropped = e.drop(a, name, is, isTopic) || dropped
		})
		if !dropped {
			return errUnchanged
		}
		return nil
	})
	return err == nil
}

// eachNamed calls f for every account with the name it is under, in no order.
func (s *snapshot) eachNamed(f func(string, *account)) {
	for _, shard := range s.shards {
		for name, a := range shard {
			f(name, a)
		}
	}
}

// drop removes the chosen permissions of one account, from the store too, and reports whether there were any. A nil
// function chooses none.
func (e *edit) drop(a *account, name string, is func(*grant) bool, isTopic func(*topicGrant) bool) bool {
	next := *a
	before := len(e.deletes)
	if is != nil {
		next.permissions = maps.Clone(a.permissions)
		for vhost, g := range a.permissions {
			if is(g) {
				e.delete(g.key())
				delete(next.permissions, vhost)
			}
		}
	}
	if isTopic != nil {
		next.topics = maps.Clone(a.topics)
		for key, g := range a.topics {
			if isTopic(g) {
				e.delete(g.key())
				delete(next.topics, key)
			}
		}
	}
	if len(e.deletes) == before {
		return false
	}
	e.set(name, &next)
	return true
}

// setGrant makes g visible, under an account without a user if need be (Load).
func (e *edit) setGrant(g *grant) {
	next := account{}
	if a := e.account(g.User); a != nil {
		next = *a
	}
	if next.permissions = maps.Clone(next.permissions); next.permissions == nil {
		next.permissions = make(map[string]*grant)
	}
	next.permissions[g.VHost] = g
	e.set(g.User, &next)
}

// setTopicGrant is setGrant for a topic permission.
func (e *edit) setTopicGrant(g *topicGrant) {
	next := account{}
	if a := e.account(g.User); a != nil {
		next = *a
	}
	if next.topics = maps.Clone(next.topics); next.topics == nil {
		next.topics = make(map[topicKey]*topicGrant)
	}
	next.topics[topicKey{g.VHost, g.Exchange}] = g
	e.set(g.User, &next)
}
