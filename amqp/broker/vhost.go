package broker

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/exchange/immutable"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/persist"
)

// VHost is a virtual host: exchanges, queues and bindings of their own.
// Methods may be called from any goroutine.
type VHost struct {
	// Immutable.
	Name   string
	broker *Broker
	log    *slog.Logger

	topology atomic.Pointer[topology]
	replies  atomic.Pointer[immutable.Map[*Queue]] // reply queues by name
	policies atomic.Pointer[policySet]
	settings atomic.Pointer[VHostSettings]
	limits   atomic.Pointer[vhostLimits]
	trace    atomic.Pointer[trace] // nil while the firehose is off; written under traceMu
	traceMu  sync.Mutex

	// unstored counts the durable changes that are on their way to the disk.
	unstored atomic.Int64

	// policyMu: one change of policies at a time, until all queues have it.
	// Before mu.
	policyMu sync.Mutex

	mu sync.Mutex // one change of the topology at a time

	// Guarded by mu.
	bindings bindingSet
	owned    map[any][]*Queue // exclusive queues by the connection that owns them
	deleted  bool             // nothing may be declared any more
}

func newVHost(b *Broker, name string) *VHost {
	v := &VHost{Name: name, broker: b, log: b.log.With("vhost", name), bindings: newBindingSet(), owned: map[any][]*Queue{}}
	v.topology.Store(&topology{})
	v.policies.Store(noPolicies.withFallback(b.options.DefaultDeadLetterExchange))
	v.settings.Store(&VHostSettings{})
	v.limits.Store(&noLimits)
	v.setReplies(immutable.Map[*Queue]{})
	return v
}

// Client is who asks the broker for something: a user on a connection.
type Client struct {
	User string
	// Owner identifies the connection: its exclusive queues belong to it. A
	// pointer.
	Owner any
	// Connection names it in events.
	Connection string
	// Internal is the broker itself, for instance when it imports definitions:
	// it may do everything.
	Internal bool
}

// edit is a change of the topology in the making: the next snapshot, and what
// of it goes to the store. mu is held from begin to finish.
type edit struct {
	v       *VHost
	next    topology
	puts    []persist.Definition
	deletes []persist.Key
	logs    []*persist.Log
	events  []Event
	gone    []string // exchanges that were removed
	added   int      // queues
	removed []*Queue
}

func (v *VHost) begin() *edit {
	return &edit{v: v, next: *v.topology.Load()}
}

// finish makes the edit what everybody sees and hands it to the store. wait:
// done will be called, with the store's error or nil, when it is durable.
func (e *edit) finish(done func(error)) (wait bool) {
	next := e.next
	e.v.topology.Store(&next)
	e.v.broker.totals.edited(e.added, e.removed)
	for i := range e.events {
		e.v.broker.Hooks.Emit(&e.events[i])
	}
	wait = e.save(done)
	for _, name := range e.gone {
		e.v.broker.Users.DropExchange(e.v.Name, name, nil)
	}
	return wait
}

// save hands the edit to the store.
func (e *edit) save(done func(error)) (wait bool) {
	if e.v.broker.store == nil || len(e.puts)+len(e.deletes)+len(e.logs) == 0 {
		return false
	}
	e.v.unstored.Add(1)
	e.v.broker.store.Update(e.puts, e.deletes, e.logs, func(err error) {
		e.v.unstored.Add(-1)
		if done != nil {
			done(err)
		}
	})
	return true
}

// asBefore is the end of a method that found everything as it should be. The
// change that made it so may still be on its way to the disk, and the -ok of
// this method promises no less than the one of that: wait says that done will
// be called when it has arrived.
func (v *VHost) asBefore(done func(error)) (wait bool) {
	if v.unstored.Load() == 0 || done == nil {
		return false
	}
	v.broker.store.Barrier(&afterBarrier{done}, 0)
	return true
}

// afterBarrier is a persist.Waiter of one call; a pointer to it, because a
// waiter has to be comparable and a func is not.
type afterBarrier struct{ done func(error) }

// Stored implements persist.Waiter.
func (a *afterBarrier) Stored(_ uint64, err error) { a.done(err) }

// Flush implements persist.Waiter.
func (a *afterBarrier) Flush() {}

// refuseDeleted keeps a connection that has not been closed yet from making
// things in a virtual host that has gone: they would be back with it after a
// restart. mu is held.
func (v *VHost) refuseDeleted() error {
	if v.deleted {
		return frames.Errorf(frames.ConnectionForced, "vhost '%s' is deleted", v.Name)
	}
	return nil
}

// put and remove keep or forget a definition, when there is a store.
func (e *edit) put(kind byte, name string, value any) {
	if e.v.broker.store == nil {
		return
	}
	e.puts = append(e.puts, persist.Definition{
		Key:   persist.Key{Kind: kind, VHost: e.v.Name, Name: name},
		Value: encodeDefinition(value),
	})
}

func (e *edit) remove(kind byte, name string) {
	if e.v.broker.store != nil {
		e.deletes = append(e.deletes, persist.Key{Kind: kind, VHost: e.v.Name, Name: name})
	}
}

// event records what happened, if anybody listens.
func (e *edit) event(ev Event) {
	if !e.v.broker.Hooks.Observing() {
		return
	}
	ev.VHost, ev.At = e.v.Name, e.v.broker.Clock.Now()
	e.events = append(e.events, ev)
}

// addExchange puts a new exchange into the edit. Its type is known.
func (e *edit) addExchange(x *Exchange) {
	x.destination = &destination{exchange: x}
	e.v.equip(x)
	m, _ := exchange.New[*destination](x.routing, e.v.broker.matcherOptions(x))
	e.next.exchanges = e.next.exchanges.Set(x.Name, e.v.exchangeNode(x, m))
	if e.v.keepsExchange(x) {
		e.put(kindExchange, x.Name, exchangeDefinition(x))
	}
	e.event(Event{Step: ExchangeDeclared, Exchange: x.Name})
}

// keepsExchange says whether an exchange outlives a restart.
func (v *VHost) keepsExchange(x *Exchange) bool {
	return x.Durable || transientExchangesSurvive.In(v.broker.Profile)
}

// addBinding puts a binding into the edit; false when it was there.
func (e *edit) addBinding(b *Binding) bool {
	if e.v.bindings.get(b) != nil {
		return false
	}
	source, _ := e.next.exchanges.Get(b.Source)
	b.stored = e.v.keepsExchange(source.Exchange) && e.v.keepsDestination(b.destination)
	e.v.bindings.add(b)
	e.rematch(source, source.matcher.Bind(b.matched()))
	if b.stored {
		e.put(kindBinding, b.storedName(), bindingDefinition(b))
	}
	e.event(b.event(BindingAdded))
	return true
}

func (v *VHost) keepsDestination(d *destination) bool {
	if d.queue != nil {
		return d.queue.stored
	}
	return v.keepsExchange(d.exchange)
}

func (b *Binding) matched() exchange.Binding[*destination] {
	m := exchange.Binding[*destination]{Destination: b.destination, Key: b.Key, Arguments: b.Arguments, Name: "exchange/" + b.Destination()}
	if b.ToQueue() {
		m.Name = "queue/" + b.Destination()
	}
	return m
}

func (b *Binding) event(s Step) Event {
	ev := Event{Step: s, Exchange: b.Source, RoutingKey: b.Key}
	if b.ToQueue() {
		ev.Queue = b.Destination()
	} else {
		ev.Text = b.Destination()
	}
	return ev
}

func (e *edit) rematch(x *exchangeNode, m exchange.Matcher[*destination]) {
	e.next.exchanges = e.next.exchanges.Set(x.Name, x.rematched(m))
}

// removeBinding takes a binding out, and its source with it if that is
// auto-delete and this was its last binding as a source.
func (e *edit) removeBinding(b *Binding) {
	e.v.bindings.remove(b)
	if b.stored {
		e.remove(kindBinding, b.storedName())
	}
	e.event(b.event(BindingRemoved))
	source, ok := e.next.exchanges.Get(b.Source)
	if !ok {
		return // going itself
	}
	e.rematch(source, source.matcher.Unbind(b.matched()))
	if source.AutoDelete && len(e.v.bindings.bySource[b.Source]) == 0 {
		e.removeExchange(source.Exchange)
	}
}

// removeExchange takes an exchange and all its bindings out.
func (e *edit) removeExchange(x *Exchange) {
	e.next.exchanges = e.next.exchanges.Delete(x.Name)
	if e.v.keepsExchange(x) {
		e.remove(kindExchange, x.Name)
	}
	e.dropBacklogs(x)
	e.removeBindings(e.v.bindings.bySource[x.Name])
	e.removeBindings(e.v.bindings.byDestination[x.destination])
	if compat.TopicPermissionsGoWithExchange.In(e.v.broker.Profile) && !e.v.deleted {
		e.gone = append(e.gone, x.Name)
	}
	e.event(Event{Step: ExchangeDeleted, Exchange: x.Name})
}

func (e *edit) removeBindings(set map[string]*Binding) {
	all := make([]*Binding, 0, len(set))
	for _, b := range set {
		all = append(all, b)
	}
	for _, b := range all {
		if e.v.bindings.get(b) == b {
			e.removeBinding(b)
		}
	}
}

// removeQueue takes a queue, which has been deleted itself, and all its
// bindings out; false when somebody did before.
func (e *edit) removeQueue(q *Queue) bool {
	if cur, ok := e.next.queues.Get(q.Name); !ok || cur != q {
		return false
	}
	e.next.queues = e.next.queues.Delete(q.Name)
	e.removed = append(e.removed, q)
	e.removeBindings(e.v.bindings.byDestination[q.destination])
	if q.Owner != nil {
		e.v.disown(q)
	}
	if q.stored {
		e.remove(kindQueue, q.Name)
	}
	if q.Durable && e.v.broker.store != nil {
		e.logs = append(e.logs, e.v.broker.store.Log(q.ID))
	}
	e.event(Event{Step: QueueDeleted, Queue: q.Name})
	return true
}

func (v *VHost) disown(q *Queue) {
	left := slices.DeleteFunc(v.owned[q.Owner], func(o *Queue) bool { return o == q })
	if len(left) == 0 {
		delete(v.owned, q.Owner)
		return
	}
	v.owned[q.Owner] = left
}

// OwnerGone deletes the exclusive queues of a connection that has ended. It
// returns when nobody can see them any more.
func (v *VHost) OwnerGone(owner any) {
	v.mu.Lock()
	mine := v.owned[owner]
	delete(v.owned, owner)
	v.mu.Unlock()
	if len(mine) == 0 {
		return
	}
	for _, q := range mine {
		_, _ = q.Delete(false, false) // ErrDeleted: gone already is as good
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.begin()
	for _, q := range mine {
		e.removeQueue(q)
	}
	e.finish(nil)
}

// dropQueue takes a queue that has been deleted out of the topology.
func (v *VHost) dropQueue(q *Queue, done func(error)) (wait bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.drop(q, done)
}

// drop is dropQueue with mu held.
func (v *VHost) drop(q *Queue, done func(error)) (wait bool) {
	e := v.begin()
	if !e.removeQueue(q) {
		return v.asBefore(done)
	}
	return e.finish(done)
}

// ConsumerGone is to be called when a queue said that its last consumer has
// gone (queue.Queue.RemoveConsumer): it deletes the auto-delete queue.
func (v *VHost) ConsumerGone(q *Queue) {
	switch {
	case !q.DeleteIfAbandoned():
	case q.Type == volatileType:
		v.closeReply(q)
	default:
		v.dropQueue(q, nil)
	}
}

// Queue finds a queue.
func (v *VHost) Queue(name string) (*Queue, bool) { return v.topology.Load().queues.Get(name) }

// Exchange finds an exchange.
func (v *VHost) Exchange(name string) (*Exchange, bool) {
	x, ok := v.topology.Load().exchanges.Get(name)
	if !ok {
		return nil, false
	}
	return x.Exchange, true
}

// Queues lists the queues of the moment.
func (v *VHost) Queues() []*Queue {
	t := v.topology.Load()
	all := make([]*Queue, 0, t.queues.Len())
	for _, q := range t.queues.All() {
		all = append(all, q)
	}
	return all
}

// Exchanges lists the exchanges of the moment.
func (v *VHost) Exchanges() []*Exchange {
	t := v.topology.Load()
	all := make([]*Exchange, 0, t.exchanges.Len())
	for _, x := range t.exchanges.All() {
		all = append(all, x.Exchange)
	}
	return all
}

// Bindings lists the bindings of the moment, without the implicit ones of the
// default exchange.
func (v *VHost) Bindings() []*Binding {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []*Binding
	for _, set := range v.bindings.bySource {
		for _, b := range set {
			all = append(all, b)
		}
	}
	return all
}

// predeclare makes the exchanges every virtual host has.
func (v *VHost) predeclare(e *edit) {
	for _, x := range []Exchange{
		{Name: "", Type: "direct"}, {Name: "amq.direct", Type: "direct"}, {Name: "amq.fanout", Type: "fanout"},
		{Name: "amq.topic", Type: "topic"}, {Name: "amq.headers", Type: "headers"}, {Name: "amq.match", Type: "headers"},
		{Name: "amq.rabbitmq.trace", Type: "topic", Internal: true},
	} {
		v.predeclareOne(e, x)
	}
	if v.Name == v.broker.options.DefaultVHost && logExchange.In(v.broker.Profile) {
		v.predeclareOne(e, Exchange{Name: "amq.rabbitmq.log", Type: "topic", Internal: true})
	}
}

func (v *VHost) predeclareOne(e *edit, x Exchange) {
	if _, ok := e.next.exchanges.Get(x.Name); !ok {
		x.Durable = true
		e.addExchange(&x)
	}
}
