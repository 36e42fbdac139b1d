package broker

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/exchange/immutable"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
	streams "github.com/warrenmq/warren/queue/stream"
)

// Options are what a broker is opened with.
type Options struct {
	// Store keeps durable things; nil keeps everything in memory. The broker
	// closes it.
	Store *persist.Store
	// Profile is the RabbitMQ version followed; zero is compat.V4.
	Profile compat.Profile
	// Clock is the source of all time; nil makes one.
	Clock *queue.Clock
	// DefaultUser, DefaultPassword and DefaultVHost exist from the first start
	// on a new store; zero values are guest, guest and "/".
	DefaultUser, DefaultPassword, DefaultVHost string
	// MaxMessageSize is the largest body in bytes; 0 is the profile's default.
	MaxMessageSize uint64
	// DefaultQueueType is that of virtual hosts which name none, in profile 4; ""
	// is classic.
	DefaultQueueType string
	// DefaultDeadLetterExchange is that of virtual hosts which name none: it
	// takes what dies in queues without a dead-letter exchange. "" is none.
	DefaultDeadLetterExchange string
	// ExchangeLimit is the most exchanges there may be, the predeclared ones of
	// all virtual hosts included; 0 is no limit (cluster_exchange_limit).
	ExchangeLimit int
	// BodyBudget is how many bytes of waiting messages stay in memory, all
	// queues together; what is beyond goes to disk. 0 is
	// queue.DefaultBodyBudget; without a Store nothing leaves memory.
	BodyBudget int64
	// Logger takes the broker's log; nil is slog.Default.
	Logger *slog.Logger
}

func (o *Options) fill() {
	o.Profile = cmp.Or(o.Profile, compat.V4)
	o.DefaultUser = cmp.Or(o.DefaultUser, "guest")
	o.DefaultPassword = cmp.Or(o.DefaultPassword, "guest")
	o.DefaultVHost = cmp.Or(o.DefaultVHost, "/")
	o.MaxMessageSize = cmp.Or(o.MaxMessageSize, compat.MaxMessageSize.In(o.Profile))
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = queue.NewClock()
	}
}

// Broker is the whole of the virtual hosts, users and messages. Methods may
// be called from any goroutine.
type Broker struct {
	// Immutable.
	Profile        compat.Profile
	Clock          *queue.Clock
	Auth           auth.Backend
	Users          *auth.Directory
	MaxMessageSize uint64
	Hooks          Hooks
	store          *persist.Store
	pump           *queue.Pump
	streams        *streams.Host
	pager          *queue.Pager // nil without a store
	log            *slog.Logger
	options        Options
	opened         time.Time // connection time
	alarms         alarms
	watch          atomic.Pointer[watch] // nil: nobody measures

	nextID atomic.Uint64 // ids of queues that are in no store

	mu     sync.Mutex // changes of vhosts and globals
	vhosts atomic.Pointer[immutable.Map[*VHost]]

	globals map[string]any // global parameters, by name; guarded by mu

	sessionMu sync.Mutex
	sessions  map[Session]struct{}

	totals totals
}

// Open makes a broker and recovers what the store holds. On a store that was
// never set up to the end it makes the default user and virtual host. After an
// error the store is still the caller's.
func Open(o Options) (*Broker, error) {
	o.fill()
	b := &Broker{
		Profile: o.Profile, Clock: o.Clock, MaxMessageSize: o.MaxMessageSize,
		store: o.Store, pump: queue.NewPump(), log: o.Logger, options: o, sessions: map[Session]struct{}{},
		globals: map[string]any{},
	}
	b.streams = streams.NewHost(streams.Options{
		Store: o.Store, Clock: o.Clock, AddDeliveryMode: compat.StreamDeliveryMode.In(o.Profile), Logger: o.Logger,
	})
	b.opened = b.Clock.ConnectionNow()
	b.vhosts.Store(new(immutable.Map[*VHost]))
	b.nextID.Store(1 << 63) // above every id of the store
	b.Users = auth.NewDirectory(b.userStore())
	b.Auth = b.Users
	setUp := false
	if b.store != nil {
		b.pager = queue.NewPager(o.BodyBudget, b.store.Transient(), o.Clock, o.Logger)
		var err error
		if setUp, err = b.recover(); err != nil {
			b.pager.Close()
			return nil, err
		}
	}
	if !setUp {
		if err := b.firstStart(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// firstStart makes the default virtual host and user and notes that they were
// made: a process killed before does it again, and what an operator deletes
// later stays deleted. The store commits in order, so waiting for the note is
// waiting for all of it.
func (b *Broker) firstStart() error {
	vhost, user := b.options.DefaultVHost, b.options.DefaultUser
	if _, _, err := b.AddVHost(vhost, nil); err != nil {
		return err
	}
	hash := auth.HashPassword(b.options.DefaultPassword)
	if err := b.Users.PutUser(auth.User{Name: user, PasswordHash: hash, Tags: []string{"administrator"}}, nil); err != nil {
		return err
	}
	if err := b.Users.PutPermission(auth.Permission{User: user, VHost: vhost, Configure: ".*", Write: ".*", Read: ".*"}, nil); err != nil {
		return err
	}
	return b.await(func(done func(error)) (bool, error) {
		if b.store == nil {
			return false, nil
		}
		b.store.Update([]persist.Definition{{Key: persist.Key{Kind: kindSetUp}}}, nil, nil, done)
		return true, nil
	})
}

// await runs a change and waits for the store.
func (b *Broker) await(change func(done func(error)) (wait bool, err error)) error {
	stored := make(chan error, 1)
	wait, err := change(func(err error) { stored <- err })
	if err != nil || !wait {
		return err
	}
	return <-stored
}

// Close stops deliveries beyond those under way, notes in the store which
// messages were handed out, and closes it. Connections must be gone.
func (b *Broker) Close() error {
	for _, v := range b.VHosts() {
		v.SetTracing(false)
	}
	b.pump.Close()
	b.streams.Close()
	b.Clock.Stop()
	if b.store == nil {
		return nil
	}
	b.pager.Close()
	for _, v := range b.VHosts() {
		for _, q := range v.Queues() {
			if marks := q.Marks(); len(marks) > 0 {
				b.store.Log(q.ID).SaveMarks(marks)
			}
		}
	}
	return b.store.Close()
}

// VHost finds a virtual host.
func (b *Broker) VHost(name string) (*VHost, bool) { return b.vhosts.Load().Get(name) }

// VHosts lists the virtual hosts by name.
func (b *Broker) VHosts() []*VHost {
	var all []*VHost
	for _, v := range b.vhosts.Load().All() {
		all = append(all, v)
	}
	slices.SortFunc(all, func(x, y *VHost) int { return cmp.Compare(x.Name, y.Name) })
	return all
}

// AddVHost makes a virtual host with its predeclared exchanges; added is false
// when there was one. wait: done will be called when it is durable.
func (b *Broker) AddVHost(name string, done func(error)) (added, wait bool, err error) {
	return b.addVHost(name, VHostSettings{}, done)
}

// addVHost is AddVHost with settings.
func (b *Broker) addVHost(name string, s VHostSettings, done func(error)) (added, wait bool, err error) {
	if len(name) > 255 {
		return false, false, fmt.Errorf("add vhost: name of %d bytes is longer than 255", len(name))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.VHost(name); ok {
		return false, false, nil
	}
	v := newVHost(b, name)
	v.settings.Store(&s)
	v.policies.Store(noPolicies.withFallback(s.fallback(b)))
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.begin()
	e.put(kindVHost, "", vhostDefinition{name, s})
	v.predeclare(e)
	wait = e.finish(done)
	next := b.vhosts.Load().Set(name, v)
	b.vhosts.Store(&next)
	return true, wait, nil
}

// RemoveVHost deletes a virtual host with all it holds and closes its
// connections; false when there is none. wait: as for AddVHost.
func (b *Broker) RemoveVHost(name string, done func(error)) (removed, wait bool) {
	v := b.takeVHost(name)
	if v == nil {
		return false, false
	}
	v.SetTracing(false)
	b.Users.DropVHost(name, nil)
	wait = v.removeAll(done)
	b.CloseSessions(func(i SessionInfo) bool { return i.VHost == name }, fmt.Sprintf("vhost '%s' is deleted", name))
	return true, wait
}

// takeVHost makes a virtual host unknown.
func (b *Broker) takeVHost(name string) *VHost {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, ok := b.VHost(name)
	if !ok {
		return nil
	}
	next := b.vhosts.Load().Delete(name)
	b.vhosts.Store(&next)
	return v
}

func (v *VHost) removeAll(done func(error)) (wait bool) {
	v.mu.Lock()
	v.deleted = true
	queues := v.Queues()
	v.mu.Unlock()
	for _, q := range queues {
		_, _ = q.Delete(false, false) // ErrDeleted: gone already is as good
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.begin()
	for _, q := range queues {
		e.removeQueue(q)
	}
	for _, x := range v.Exchanges() {
		if cur, ok := e.next.exchanges.Get(x.Name); ok && cur.Exchange == x {
			e.removeExchange(x)
		}
	}
	v.forgetPolicies(e)
	e.remove(kindVHost, "")
	return e.finish(done)
}

func (b *Broker) nextQueueID(durable bool) uint64 {
	if durable && b.store != nil {
		return b.store.NextID()
	}
	return b.nextID.Add(1)
}

// Store is the broker's store; nil when everything is in memory.
func (b *Broker) Store() *persist.Store { return b.store }

// Pump is where connections leave work that nobody should wait for.
func (b *Broker) Pump() *queue.Pump { return b.pump }

// Pager keeps the backlogs within their budget; nil when everything is in
// memory.
func (b *Broker) Pager() *queue.Pager { return b.pager }

func (b *Broker) observe(e Event) {
	if b.Hooks.Observing() {
		e.At = b.Clock.Now()
		b.Hooks.Emit(&e)
	}
}

// OpenVHost does the checks of connection.open.
func (b *Broker) OpenVHost(user, name string) (*VHost, error) {
	v, ok := b.VHost(name)
	if !ok {
		return nil, frames.Errorf(frames.NotAllowed, "vhost %s not found", name)
	}
	if !b.Auth.VHostAccess(user, name) {
		return nil, frames.Errorf(frames.NotAllowed, "access to vhost '%s' refused for user '%s'", name, user)
	}
	return v, nil
}
