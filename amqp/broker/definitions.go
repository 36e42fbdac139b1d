package broker

import (
	"encoding/json"
	"fmt"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// Kinds of definitions in the store; package auth has more.
const (
	kindVHost    = 'V'
	kindExchange = 'X'
	kindQueue    = 'Q'
	kindBinding  = 'B'
	kindSetUp    = 'S' // no name: the defaults were made

	kindPolicy         = 'Y'
	kindOperatorPolicy = 'O'
	kindLimits         = 'L' // no name: those of the virtual host
	kindGlobal         = 'G' // no virtual host
)

// The stored forms. Names are bytes, not text, since AMQP names may hold
// anything; arguments are wire bytes, which keep every type and the order.
type (
	vhostDefinition struct {
		Name string `json:"name"`
		VHostSettings
	}
	storedExchange struct {
		Name       []byte `json:"name"`
		Type       string `json:"type"`
		Durable    bool   `json:"durable"`
		AutoDelete bool   `json:"auto_delete"`
		Internal   bool   `json:"internal"`
		Arguments  []byte `json:"arguments"`
		// The ids of the logs of its backlogs; 0 for none.
		Delays  uint64 `json:"delays,omitempty"`
		History uint64 `json:"history,omitempty"`
	}
	storedQueue struct {
		Name        []byte `json:"name"`
		ID          uint64 `json:"id"`
		Type        string `json:"type"`
		AutoDelete  bool   `json:"auto_delete"`
		MaxPriority int    `json:"max_priority"`
		Arguments   []byte `json:"arguments"`
	}
	storedBinding struct {
		Source      []byte `json:"source"`
		Destination []byte `json:"destination"`
		ToQueue     bool   `json:"to_queue"`
		Key         []byte `json:"key"`
		Arguments   []byte `json:"arguments"`
	}
)

func exchangeDefinition(x *Exchange) storedExchange {
	return storedExchange{
		[]byte(x.Name), x.Type, x.Durable, x.AutoDelete, x.Internal, x.Arguments.Append(nil), x.delays.id(), x.history.id(),
	}
}

func queueDefinition(q *Queue) storedQueue {
	return storedQueue{[]byte(q.Name), q.ID, q.Type, q.AutoDelete, q.MaxPriority, q.Arguments.Append(nil)}
}

func bindingDefinition(b *Binding) storedBinding {
	return storedBinding{[]byte(b.Source), []byte(b.Destination()), b.ToQueue(), []byte(b.Key), b.Arguments.Append(nil)}
}

// encodeDefinition: the stored forms are plain structs, which cannot fail.
func encodeDefinition(value any) []byte {
	b, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("broker: encode %T: %v", value, err))
	}
	return b
}

// recovery is the state of Broker.recover.
type recovery struct {
	b        *Broker
	bindings []persist.Definition // last, when both ends are there
	queues   []*Queue
	backlogs []*backlog
	vhosts   map[string]*VHost
	stale    []persist.Key // definitions that this profile does not keep
	setUp    bool
}

// recover loads definitions and messages. setUp: the defaults were made.
func (b *Broker) recover() (setUp bool, err error) {
	r := &recovery{b: b, vhosts: map[string]*VHost{}}
	if err := b.store.Definitions(r.definition); err != nil {
		return false, fmt.Errorf("recover definitions: %w", err)
	}
	r.applyPolicies()
	for _, d := range r.bindings {
		if err := r.binding(d); err != nil {
			return false, fmt.Errorf("recover binding in vhost %q: %w", d.VHost, err)
		}
	}
	for _, q := range r.queues {
		if q.Type == typeStream {
			err = q.recoverStream()
		} else {
			err = q.Recover(b.store.Log(q.ID), !b.store.CleanStart())
		}
		if err != nil {
			return false, err
		}
	}
	for _, l := range r.backlogs {
		if err := l.recover(b); err != nil {
			return false, err
		}
	}
	r.dropOrphans()
	r.complete()
	return r.setUp, nil
}

func (r *recovery) definition(d persist.Definition) error {
	var err error
	switch d.Kind {
	case kindSetUp:
		r.setUp = true
	case kindVHost:
		err = r.settings(d)
	case kindExchange:
		err = r.exchange(d)
	case kindQueue:
		err = r.queue(d)
	case kindBinding:
		r.bindings = append(r.bindings, d)
	case kindPolicy, kindOperatorPolicy:
		err = r.policy(d)
	case kindLimits:
		err = r.limits(d)
	case kindGlobal:
		err = r.global(d)
	default:
		var known bool
		known, err = r.b.Users.Load(d.Kind, d.VHost, d.Name, d.Value)
		if err == nil && !known {
			err = fmt.Errorf("unknown kind")
		}
	}
	if err != nil {
		return fmt.Errorf("definition of kind %q, name %q, vhost %q: %w", d.Kind, d.Name, d.VHost, err)
	}
	return nil
}

// vhost finds or makes a virtual host: definitions come in the order of their
// keys, not of what needs what.
func (r *recovery) vhost(name string) *VHost {
	v := r.vhosts[name]
	if v == nil {
		v = newVHost(r.b, name)
		r.vhosts[name] = v
	}
	return v
}

// change edits a virtual host without writing anything back.
func (r *recovery) change(name string, edit func(v *VHost, e *edit) error) error {
	v := r.vhost(name)
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.begin()
	if err := edit(v, e); err != nil {
		return err
	}
	next := e.next
	v.topology.Store(&next)
	return nil
}

func (r *recovery) exchange(d persist.Definition) error {
	var s storedExchange
	args, err := decodeDefinition(d.Value, &s, &s.Arguments)
	if err != nil {
		return err
	}
	if !isExchangeType(s.Type) {
		return fmt.Errorf("exchange type %q is not known to this version", s.Type)
	}
	if !s.Durable && !transientExchangesSurvive.In(r.b.Profile) {
		r.stale = append(r.stale, d.Key)
		return nil
	}
	return r.change(d.VHost, func(v *VHost, e *edit) error {
		x := &Exchange{Name: string(s.Name), Type: s.Type, Durable: s.Durable, AutoDelete: s.AutoDelete, Internal: s.Internal, Arguments: args}
		if ae, has, err := alternateExchange(v.Name, x.Name, args); err == nil && has {
			x.Alternate, x.HasAlternate = ae, true
		}
		x.delays, x.history = &backlog{number: s.Delays}, &backlog{number: s.History}
		e.addExchange(x)
		for _, l := range []*backlog{x.delays, x.history} {
			if l != nil {
				r.backlogs = append(r.backlogs, l)
			}
		}
		return nil
	})
}

func (r *recovery) queue(d persist.Definition) error {
	var s storedQueue
	args, err := decodeDefinition(d.Value, &s, &s.Arguments)
	if err != nil {
		return err
	}
	return r.change(d.VHost, func(v *VHost, e *edit) error {
		q := v.makeQueue(queue.Config{
			VHost: v.Name, Name: string(s.Name), Durable: true, AutoDelete: s.AutoDelete, Arguments: args, MaxPriority: s.MaxPriority,
		}, s.Type, s.ID)
		e.addQueue(q)
		r.queues = append(r.queues, q)
		return nil
	})
}

func (r *recovery) binding(d persist.Definition) error {
	var s storedBinding
	args, err := decodeDefinition(d.Value, &s, &s.Arguments)
	if err != nil {
		return err
	}
	return r.change(d.VHost, func(v *VHost, e *edit) error {
		to := BindRequest{Destination: string(s.Destination), ToQueue: s.ToQueue}
		dest, err := e.destination(&to)
		if _, ok := e.next.exchanges.Get(string(s.Source)); !ok || err != nil {
			if len(r.stale) == 0 {
				return fmt.Errorf("an end of the binding from %q to %q is missing", s.Source, s.Destination)
			}
			r.stale = append(r.stale, d.Key) // of an exchange that is stale
			return nil
		}
		e.addBinding(&Binding{Source: string(s.Source), Key: string(s.Key), Arguments: args, destination: dest})
		return nil
	})
}

// dropOrphans clears logs whose queue has no definition, which nothing here
// leaves behind, and definitions that are stale.
func (r *recovery) dropOrphans() {
	known := map[uint64]bool{}
	for _, q := range r.queues {
		known[q.ID] = true
	}
	for _, l := range r.backlogs {
		known[l.number] = true
	}
	var orphans []*persist.Log
	for _, id := range r.b.store.Logs() {
		if !known[id] {
			orphans = append(orphans, r.b.store.Log(id))
		}
	}
	if len(orphans) > 0 {
		r.b.log.Warn("dropping messages of queues that have no definition", "queues", len(orphans))
	}
	if len(orphans)+len(r.stale) > 0 {
		r.b.store.Update(nil, r.stale, orphans, nil)
	}
}

// complete adds predeclared exchanges that a newer version has and makes the
// virtual hosts visible.
func (r *recovery) complete() {
	next := *r.b.vhosts.Load()
	for name, v := range r.vhosts {
		v.mu.Lock()
		e := v.begin()
		v.predeclare(e)
		e.finish(nil)
		v.mu.Unlock()
		next = next.Set(name, v)
	}
	r.b.vhosts.Store(&next)
	for _, q := range r.queues {
		q.Start()
	}
	for _, l := range r.backlogs {
		l.queue.Start()
	}
}

func decodeDefinition(value []byte, into any, arguments *[]byte) (frames.Table, error) {
	if err := json.Unmarshal(value, into); err != nil {
		return nil, fmt.Errorf("read stored definition: %w", err)
	}
	t, _, err := frames.ReadTable(*arguments)
	if err != nil {
		return nil, fmt.Errorf("read stored arguments: %w", err)
	}
	return t, nil
}

// userStore keeps users and permissions beside the definitions.
func (b *Broker) userStore() auth.Store {
	if b.store == nil {
		return nil
	}
	return userStore{b.store}
}

type userStore struct{ store *persist.Store }

// Update implements auth.Store.
func (s userStore) Update(puts []auth.Entry, deletes []auth.Key, done func(error)) {
	definitions := make([]persist.Definition, len(puts))
	for i, e := range puts {
		definitions[i] = persist.Definition{Key: persist.Key(e.Key), Value: e.Value}
	}
	keys := make([]persist.Key, len(deletes))
	for i, k := range deletes {
		keys[i] = persist.Key(k)
	}
	s.store.Update(definitions, keys, nil, done)
}
