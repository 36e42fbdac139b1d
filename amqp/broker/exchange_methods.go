package broker

import (
	"strings"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// DeclareExchange does exchange.declare. Checks and their order are
// RabbitMQ's: type, default exchange, permission, name, alternate exchange,
// equivalence. wait: done will be called when the exchange is durable.
func (v *VHost) DeclareExchange(c *Client, m *frames.ExchangeDeclare, done func(error)) (wait bool, err error) {
	name := stripCRLF(m.Exchange)
	if m.Passive {
		return false, v.checkExchangeExists(c, name)
	}
	if !knownExchangeType(v.broker.Profile, m.Type) {
		return false, unknownExchangeType(v.broker.Profile, m.Type)
	}
	if err := refuseDefaultExchange(name); err != nil {
		return false, err
	}
	if err := v.check(c, auth.Exchange, name, auth.Configure); err != nil {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.refuseDeleted(); err != nil {
		return false, err
	}
	e := v.begin()
	if cur, ok := e.next.exchanges.Get(name); ok {
		if err := v.equivalentExchange(cur.Exchange, m); err != nil {
			return false, err
		}
		return v.asBefore(done), nil
	}
	if err := v.checkExchangeLimit(name); err != nil {
		return false, err
	}
	x, err := v.newExchange(c, name, m)
	if err != nil {
		return false, err
	}
	e.addExchange(x)
	return e.finish(done), nil
}

func (v *VHost) newExchange(c *Client, name string, m *frames.ExchangeDeclare) (*Exchange, error) {
	if strings.HasPrefix(name, "amq.") {
		return nil, frames.Errorf(frames.AccessRefused, "exchange name '%s' contains reserved prefix 'amq.*'", name)
	}
	x := &Exchange{
		Name: name, Type: m.Type, Durable: m.Durable, AutoDelete: m.AutoDelete, Internal: m.Internal, Arguments: m.Arguments,
	}
	ae, has, aeErr := alternateExchange(v.Name, name, m.Arguments)
	if aeErr != nil {
		return nil, aeErr
	}
	if has {
		if err := v.check(c, auth.Exchange, name, auth.Read); err != nil {
			return nil, err
		}
		if err := v.check(c, auth.Exchange, ae, auth.Write); err != nil {
			return nil, err
		}
		x.Alternate, x.HasAlternate = ae, true
	}
	return x, orNil(checkExchangeArguments(v.broker.Profile, m.Type, m.Arguments))
}

func (v *VHost) checkExchangeExists(c *Client, name string) error {
	if err := refuseDefaultExchange(name); err != nil {
		return err
	}
	if err := v.checkPassive(c, auth.Exchange, name); err != nil {
		return err
	}
	if _, ok := v.Exchange(name); !ok {
		return noExchange(v.Name, name)
	}
	return nil
}

func (v *VHost) equivalentExchange(x *Exchange, m *frames.ExchangeDeclare) error {
	object := exchangeText(v.Name, x.Name)
	if x.Type != m.Type {
		return inequivalentText("type", object, m.Type, x.Type)
	}
	for _, p := range []struct {
		name          string
		received, cur bool
	}{{"durable", m.Durable, x.Durable}, {"auto_delete", m.AutoDelete, x.AutoDelete}, {"internal", m.Internal, x.Internal}} {
		if p.received != p.cur {
			return inequivalentBool(p.name, object, p.received, p.cur)
		}
	}
	return orNil(equivalentExchangeArguments(v.Name, x.Name, x.Arguments, m.Arguments))
}

// DeleteExchange does exchange.delete; an exchange that is missing counts as
// deleted.
func (v *VHost) DeleteExchange(c *Client, m *frames.ExchangeDelete, done func(error)) (wait bool, err error) {
	name := stripCRLF(m.Exchange)
	if err := refuseDefaultExchange(name); err != nil {
		return false, err
	}
	if strings.HasPrefix(name, "amq.") {
		return false, frames.Errorf(frames.AccessRefused, "deletion of system %s not allowed", exchangeText(v.Name, name))
	}
	if err := v.check(c, auth.Exchange, name, auth.Configure); err != nil {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.begin()
	x, ok := e.next.exchanges.Get(name)
	if !ok {
		return v.asBefore(done), nil
	}
	if m.IfUnused && len(v.bindings.bySource[name]) > 0 {
		return false, frames.Errorf(frames.PreconditionFailed, "%s in use", exchangeText(v.Name, name))
	}
	e.removeExchange(x.Exchange)
	return e.finish(done), nil
}

// BindRequest is queue.bind, queue.unbind, exchange.bind or exchange.unbind.
type BindRequest struct {
	Source, Destination, Key string
	ToQueue                  bool
	Arguments                frames.Table
}

// Bind does queue.bind and exchange.bind; a binding that is there stays as it
// is.
func (v *VHost) Bind(c *Client, r BindRequest, done func(error)) (wait bool, err error) {
	return v.changeBinding(c, r, done, func(e *edit, b *Binding) (changed bool, err error) {
		source, _ := e.next.exchanges.Get(b.Source)
		if err := v.checkBindingTo(source.Exchange, b); err != nil {
			return false, err
		}
		if err := v.checkTopicWildcards(source.routing, b.Key); err != nil {
			return false, err
		}
		// Behind the arguments, as on the wire.
		if q := b.destination.queue; q != nil {
			if err := q.exclusiveTo(c); err != nil {
				return false, err
			}
		}
		if source.history != nil && v.bindings.get(b) == nil {
			if err := v.replay(source.Exchange, b.destination); err != nil {
				return false, err
			}
		}
		return e.addBinding(b), nil
	})
}

// Unbind does queue.unbind and exchange.unbind; a binding, exchange or queue
// that is missing counts as unbound.
func (v *VHost) Unbind(c *Client, r BindRequest, done func(error)) (wait bool, err error) {
	wait, err = v.changeBinding(c, r, done, func(e *edit, b *Binding) (changed bool, err error) {
		cur := v.bindings.get(b)
		if cur == nil {
			return false, nil
		}
		if q := cur.destination.queue; q != nil {
			if err := q.exclusiveTo(c); err != nil {
				return false, err
			}
		}
		e.removeBinding(cur)
		return true, nil
	})
	if fe, ok := err.(*frames.Error); ok && fe.Code == frames.NotFound {
		return v.asBefore(done), nil
	}
	return wait, err
}

// changeBinding does the checks that bind and unbind share, in RabbitMQ's
// order, and then the change.
func (v *VHost) changeBinding(c *Client, r BindRequest, done func(error), change func(*edit, *Binding) (bool, error)) (wait bool, err error) {
	r.Source, r.Destination = stripCRLF(r.Source), stripCRLF(r.Destination)
	if r.ToQueue {
		if err := v.refuseReplyName(r.Destination, frames.AccessRefused, "cannot bind or unbind to a volatile (direct reply-to) queue"); err != nil {
			return false, err
		}
	}
	if err := v.checkBinding(c, &r); err != nil {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.begin()
	if _, ok := e.next.exchanges.Get(r.Source); !ok {
		return false, noExchange(v.Name, r.Source)
	}
	d, err := e.destination(&r)
	if err != nil {
		return false, err
	}
	changed, err := change(e, &Binding{Source: r.Source, Key: r.Key, Arguments: r.Arguments, destination: d})
	switch {
	case err != nil:
		return false, err
	case !changed:
		return v.asBefore(done), nil
	}
	return e.finish(done), nil
}

func (v *VHost) checkBinding(c *Client, r *BindRequest) error {
	kind := auth.Exchange
	if r.ToQueue {
		kind = auth.Queue
	}
	if err := v.check(c, kind, r.Destination, auth.Write); err != nil {
		return err
	}
	if !r.ToQueue {
		if err := refuseDefaultExchange(r.Destination); err != nil {
			return err
		}
	}
	if err := refuseDefaultExchange(r.Source); err != nil {
		return err
	}
	if err := v.check(c, auth.Exchange, r.Source, auth.Read); err != nil {
		return err
	}
	if x, ok := v.Exchange(r.Source); ok && x.Type == "topic" {
		return v.checkTopic(c, r.Source, r.Key, auth.Read)
	}
	return nil
}

// checkTopicWildcards: 4.3 bounds the work of matching a topic pattern by the
// number of its # wildcards.
func (v *VHost) checkTopicWildcards(typ, key string) error {
	most := compat.MaxTopicHashes.In(v.broker.Profile)
	if typ != exchange.TypeTopic || most == 0 {
		return nil
	}
	n := 0
	for word := range strings.SplitSeq(key, ".") {
		if word == "#" {
			n++
		}
	}
	if n <= most {
		return nil
	}
	return frames.Errorf(frames.PreconditionFailed, "Topic binding key '%s' uses %d '#' wildcards, at most %d are allowed", key, n, most)
}

func (e *edit) destination(r *BindRequest) (*destination, error) {
	if !r.ToQueue {
		x, ok := e.next.exchanges.Get(r.Destination)
		if !ok {
			return nil, noExchange(e.v.Name, r.Destination)
		}
		return x.Exchange.destination, nil
	}
	q, ok := e.next.queues.Get(r.Destination)
	if !ok {
		return nil, noQueue(e.v.Name, r.Destination)
	}
	return q.destination, nil
}
