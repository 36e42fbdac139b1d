package auth

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
)

// Kinds of definitions this package keeps in the store (Key.Kind).
const (
	KindUser            byte = 'U' // VHost "", Name the user
	KindPermission      byte = 'P' // VHost, Name the user
	KindTopicPermission byte = 'T' // VHost, Name the user's length (uvarint), the user, the exchange
)

// Key names one definition in the store. VHost and Name may hold any bytes.
type Key struct {
	Kind        byte
	VHost, Name string
}

// Entry is a definition with its value, JSON with the keys of definitions.json.
type Entry struct {
	Key
	Value []byte
}

// Store keeps the directory's definitions. The broker adapts its own store to it.
type Store interface {
	// Update writes puts and removes deletes as one atomic change, and calls done (which may be nil) once it is
	// durable or has failed. Update must not wait for the disk, and done must not be called from inside Update: the
	// directory's mutex is held. Changes must become durable in the order of the calls.
	Update(puts []Entry, deletes []Key, done func(error))
}

// Directory holds all users and permissions and is the internal Backend. Its methods may be called from any goroutine;
// those that only look take no lock.
type Directory struct {
	// immutable
	store Store // nil: memory only
	seed  maphash.Seed

	// read by anyone, replaced under mu
	current atomic.Pointer[snapshot]

	// mu makes changes one at a time and puts them into the store in the same order. It is the last lock anyone takes,
	// but for those of the store inside Update.
	mu sync.Mutex
}

var (
	_ Backend    = (*Directory)(nil)
	_ Identifier = (*Directory)(nil)
)

// NewDirectory returns an empty directory; a nil store keeps it in memory only.
func NewDirectory(store Store) *Directory {
	d := &Directory{store: store, seed: maphash.MakeSeed()}
	d.current.Store(&snapshot{version: 1})
	return d
}

// Version grows with each change and is never 0. Whoever keeps the answer of a check reads Version before asking and
// keeps the answer under it. Any goroutine; takes no lock.
func (d *Directory) Version() uint64 { return d.current.Load().version }

// shardCount bounds what a change copies: the map of one shard and the list of shards, not all users.
const shardCount = 256

// snapshot is the state between two changes. Nothing reachable from it is written once it is published.
type snapshot struct {
	version uint64
	shards  [shardCount]map[string]*account // by user name
}

// account is all that is known of one user name.
type account struct {
	user        User
	exists      bool // false: permissions were loaded, their user not (yet)
	permissions map[string]*grant
	topics      map[topicKey]*topicGrant
}

type topicKey struct{ vhost, exchange string }

func (d *Directory) shard(name string) int { return int(maphash.String(d.seed, name) % shardCount) }

// account returns the account of that name, or nil.
func (d *Directory) account(name string) *account {
	return d.current.Load().shards[d.shard(name)][name]
}

// each calls f for every account, in no order.
func (s *snapshot) each(f func(*account)) {
	for _, shard := range s.shards {
		for _, a := range shard {
			f(a)
		}
	}
}

// edit is a change being made: the next snapshot and what goes into the store with it.
type edit struct {
	d       *Directory
	next    snapshot
	own     [shardCount]bool // shards already copied
	puts    []Entry
	deletes []Key
}

// change makes one change. When f returns an error, nothing has happened.
func (d *Directory) change(done func(error), f func(*edit) error) error {
	if err := d.locked(done, f); err != nil {
		return err
	}
	if d.store == nil && done != nil {
		done(nil)
	}
	return nil
}

func (d *Directory) locked(done func(error), f func(*edit) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := &edit{d: d, next: *d.current.Load()}
	if err := f(e); err != nil {
		return err
	}
	e.next.version++
	d.current.Store(&e.next)
	if d.store != nil {
		d.store.Update(e.puts, e.deletes, done)
	}
	return nil
}

func (e *edit) account(name string) *account { return e.next.shards[e.d.shard(name)][name] }

// set replaces the account of that name; nil removes it.
func (e *edit) set(name string, a *account) {
	i := e.d.shard(name)
	if !e.own[i] {
		e.own[i] = true
		if e.next.shards[i] = maps.Clone(e.next.shards[i]); e.next.shards[i] == nil {
			e.next.shards[i] = make(map[string]*account)
		}
	}
	if a == nil {
		delete(e.next.shards[i], name)
		return
	}
	e.next.shards[i][name] = a
}

func (e *edit) put(k Key, value []byte) { e.puts = append(e.puts, Entry{k, value}) }

func (e *edit) delete(k Key) { e.deletes = append(e.deletes, k) }

// deletePermissions removes all permissions of an account from the store.
func (e *edit) deletePermissions(a *account) {
	for _, g := range a.permissions {
		e.delete(g.key())
	}
	for _, g := range a.topics {
		e.delete(g.key())
	}
}

// Load takes one definition found in the store at start. It returns false when the kind is not one of this package's.
// Definitions may come in any order; a permission whose user does not follow has no effect. An error means that the
// stored value is damaged, and names it. Nothing is written to the store.
func (d *Directory) Load(kind byte, vhost, name string, value []byte) (bool, error) {
	key := Key{kind, vhost, name}
	var load func(*edit) error
	switch kind {
	case KindUser:
		load = func(e *edit) error { return e.loadUser(key, value) }
	case KindPermission:
		load = func(e *edit) error { return e.loadPermission(key, value) }
	case KindTopicPermission:
		load = func(e *edit) error { return e.loadTopicPermission(key, value) }
	default:
		return false, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e := &edit{d: d, next: *d.current.Load()}
	if err := load(e); err != nil {
		return true, fmt.Errorf("load definition %c %q in vhost %q: %w", kind, name, vhost, err)
	}
	e.next.version++
	d.current.Store(&e.next)
	return true, nil
}

func (e *edit) loadUser(key Key, value []byte) error {
	var u User
	if err := json.Unmarshal(value, &u); err != nil {
		return err
	}
	if err := u.validate(); err != nil {
		return err
	}
	if (key != Key{Kind: KindUser, Name: u.Name}) {
		return fmt.Errorf("value is of user %q", u.Name)
	}
	next := account{}
	if a := e.account(u.Name); a != nil {
		next = *a
	}
	next.user, next.exists = u, true
	e.set(u.Name, &next)
	return nil
}

func (e *edit) loadPermission(key Key, value []byte) error {
	var p Permission
	if err := json.Unmarshal(value, &p); err != nil {
		return fmt.Errorf("decode permission: %w", err)
	}
	g, err := newGrant(p)
	if err != nil {
		return err
	}
	if g.key() != key {
		return fmt.Errorf("value is of user %q in vhost %q", p.User, p.VHost)
	}
	e.setGrant(g)
	return nil
}

func (e *edit) loadTopicPermission(key Key, value []byte) error {
	var p TopicPermission
	if err := json.Unmarshal(value, &p); err != nil {
		return fmt.Errorf("decode topic permission: %w", err)
	}
	g, err := newTopicGrant(p)
	if err != nil {
		return err
	}
	if g.key() != key {
		return fmt.Errorf("value is of user %q and exchange %q in vhost %q", p.User, p.Exchange, p.VHost)
	}
	e.setTopicGrant(g)
	return nil
}

// topicName is Key.Name of a topic permission: two names joined so that no other pair gives the same.
func topicName(user, exchange string) string {
	b := binary.AppendUvarint(make([]byte, 0, 2+len(user)+len(exchange)), uint64(len(user)))
	b = append(b, user...)
	return string(append(b, exchange...))
}
