package broker

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/frames"
)

// The limits that a virtual host may have. A negative value is no limit, 0 refuses everything.
const (
	LimitConnections = "max-connections"
	LimitQueues      = "max-queues"
)

// vhostLimits are the limits of a virtual host by name. Immutable.
type vhostLimits map[string]int64

var noLimits = vhostLimits{}

// get gives a limit; ok is false when there is none.
func (l vhostLimits) get(name string) (limit int64, ok bool) {
	limit, ok = l[name]
	return limit, ok && limit >= 0
}

// checkVHostLimits reads the value of the parameter vhost-limits, an object. The lines are what is wrong, in
// RabbitMQ's words and order.
func checkVHostLimits(parameter string, object map[string]any) (l vhostLimits, lines []string) {
	l = vhostLimits{}
	unknown := maps.Clone(object)
	for _, name := range []string{LimitQueues, LimitConnections} {
		v, given := object[name]
		if !given {
			continue
		}
		delete(unknown, name)
		n, ok := jsonInteger(v)
		if !ok {
			lines = append(lines, notANumber(name, v))
		}
		l[name] = n
	}
	if len(unknown) > 0 {
		lines = append([]string{unrecognised(unknown, parameter)}, lines...)
	}
	return l, lines
}

func unrecognised(terms map[string]any, where string) string {
	const start = "Unrecognised terms "
	return start + erlangPairs(terms, len(start)) + " in " + where
}

// VHostLimits are the limits of a virtual host by name, those below 0 too; the map is the caller's. nil when there is
// no such virtual host. Any goroutine.
func (b *Broker) VHostLimits(vhost string) map[string]int64 {
	v, ok := b.VHost(vhost)
	if !ok {
		return nil
	}
	return maps.Clone(map[string]int64(*v.limits.Load()))
}

// SetVHostLimit sets one limit of a virtual host, LimitConnections or LimitQueues; value is an integer or a number
// of JSON. It holds for what comes: nothing that is there is closed or deleted. wait: done will be called when it is
// durable. The error is a *ValidationError or wraps ErrNoVHost. Any goroutine.
func (b *Broker) SetVHostLimit(vhost, name string, value any, done func(error)) (wait bool, err error) {
	return b.changeVHostLimits(vhost, func(l map[string]any) { l[name] = value }, done)
}

// ClearVHostLimit is SetVHostLimit for no limit; one that is not set, or not known, counts as cleared.
func (b *Broker) ClearVHostLimit(vhost, name string, done func(error)) (wait bool, err error) {
	return b.changeVHostLimits(vhost, func(l map[string]any) { delete(l, name) }, done)
}

// changeVHostLimits changes the limits as an object of JSON.
func (b *Broker) changeVHostLimits(vhost string, change func(map[string]any), done func(error)) (wait bool, err error) {
	v, err := b.vhostNamed(vhost)
	if err != nil {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	object := map[string]any{}
	for name, limit := range *v.limits.Load() {
		object[name] = limit
	}
	change(object)
	decoded, err := canonical(object)
	if err != nil {
		return false, &ValidationError{err.Error()}
	}
	l, lines := checkVHostLimits(parameterLimits, decoded.(map[string]any))
	if len(lines) > 0 {
		return false, validationFailed(lines...)
	}
	return v.putLimits(l, done)
}

// putLimits replaces the limits. mu is held.
func (v *VHost) putLimits(l vhostLimits, done func(error)) (wait bool, err error) {
	if err := v.refuseDeleted(); err != nil {
		return false, err
	}
	e := v.begin()
	v.limits.Store(&l)
	step := ParameterSet
	if len(l) == 0 {
		step = ParameterCleared
		e.remove(kindLimits, "")
	} else {
		e.put(kindLimits, "", l)
	}
	e.event(Event{Step: step, Text: parameterLimits})
	return e.finish(done), nil
}

// ConnectionLimit is how many connections the virtual host may have; ok is false when there is no limit. Any
// goroutine.
func (v *VHost) ConnectionLimit() (limit int64, ok bool) {
	return v.limits.Load().get(LimitConnections)
}

// checkQueueLimit refuses a queue that does not exist yet. mu is held.
func (v *VHost) checkQueueLimit(name string) error {
	limit, ok := v.limits.Load().get(LimitQueues)
	if !ok || int64(v.topology.Load().queues.Len()) < limit {
		return nil
	}
	return frames.Errorf(frames.PreconditionFailed, "cannot declare queue '%s': queue limit in vhost '%s' (%d) is reached", name, v.Name, limit)
}

// checkExchangeLimit refuses an exchange that does not exist yet, by Options.ExchangeLimit. The predeclared ones of
// all virtual hosts count. mu is held: declarations in different virtual hosts at one time may go over the limit by
// as many.
func (v *VHost) checkExchangeLimit(name string) error {
	limit := v.broker.options.ExchangeLimit
	if limit <= 0 {
		return nil
	}
	n := 0
	for _, o := range v.broker.vhosts.Load().All() {
		n += o.topology.Load().exchanges.Len()
	}
	if n < limit {
		return nil
	}
	return frames.Errorf(frames.PreconditionFailed, "cannot declare %s: exchange limit of %d is reached", exchangeText(v.Name, name), limit)
}

// SetUserLimit sets one limit of a user, auth.LimitConnections or auth.LimitChannels; value is an integer or a number
// of JSON. It holds for what comes. wait: done will be called when it is durable. The error is a *ValidationError or
// wraps auth.ErrNoUser. Any goroutine.
func (b *Broker) SetUserLimit(user, name string, value any, done func(error)) (wait bool, err error) {
	n, err := ReadUserLimit(name, value)
	if err != nil {
		return false, err
	}
	return b.changeUser(user, func(u *auth.User) { u.Limits[name] = n }, done)
}

// ReadUserLimit reads a limit as SetUserLimit does and changes nothing; the error is a *ValidationError. Any goroutine.
func ReadUserLimit(name string, value any) (int, error) {
	decoded, err := canonical(value)
	if err != nil {
		return 0, &ValidationError{err.Error()}
	}
	if name != auth.LimitConnections && name != auth.LimitChannels {
		return 0, &ValidationError{unrecognised(map[string]any{name: decoded}, "user-limits")}
	}
	n, ok := jsonInteger(decoded)
	if !ok {
		return 0, &ValidationError{notANumber(name, decoded)}
	}
	return int(n), nil
}

// ClearUserLimit is SetUserLimit for no limit; one that is not set, or not known, counts as cleared.
func (b *Broker) ClearUserLimit(user, name string, done func(error)) (wait bool, err error) {
	return b.changeUser(user, func(u *auth.User) { delete(u.Limits, name) }, done)
}

func (b *Broker) changeUser(name string, change func(*auth.User), done func(error)) (wait bool, err error) {
	if b.store == nil {
		done = nil // the directory would call it at once
	}
	if err := b.Users.ChangeUser(name, change, done); err != nil {
		return false, fmt.Errorf("change limits: %w", err)
	}
	return b.store != nil && done != nil, nil
}

// limitsOfJSON reads stored limits.
func limitsOfJSON(value []byte) (l vhostLimits, err error) {
	if err := json.Unmarshal(value, &l); err != nil {
		return nil, fmt.Errorf("read stored limits: %w", err)
	}
	return l, nil
}

// notAList is RabbitMQ's refusal of a parameter that is no object.
func notAList(parameter string, v any) string {
	start := parameter + " not a list "
	return start + erlangJSON(v, len(start))
}
