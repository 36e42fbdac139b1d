package broker

import (
	"cmp"
	"slices"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// VHostSettings are what a virtual host is made with, and what PutVHost changes. One that the broker has handed out
// is not to be changed.
type VHostSettings struct {
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	// DefaultQueueType is the type of queues that are declared without one: classic, quorum or stream; "" is classic.
	// Profile 3 takes anything and has no use for it.
	DefaultQueueType string `json:"default_queue_type,omitempty"`
	// DefaultDeadLetterExchange takes what dies in queues without a dead-letter exchange of their own; it need not
	// exist. nil is the broker's setting (Options.DefaultDeadLetterExchange), "" is none.
	DefaultDeadLetterExchange *string `json:"default_dead_letter_exchange,omitempty"`
}

// Check is RabbitMQ's validation, which PutVHost does too; the error is a *ValidationError. Any goroutine.
func (s *VHostSettings) Check(p compat.Profile) error {
	if !compat.VHostQueueType.In(p) || s.DefaultQueueType == "" || s.DefaultQueueType == "undefined" {
		return nil
	}
	if _, ok := findQueueType(s.DefaultQueueType); !ok {
		return invalid("%s is not a valid queue type", s.DefaultQueueType)
	}
	return nil
}

func (s *VHostSettings) clone() *VHostSettings {
	next := *s
	next.Tags = slices.Clone(s.Tags)
	if s.DefaultDeadLetterExchange != nil {
		name := *s.DefaultDeadLetterExchange
		next.DefaultDeadLetterExchange = &name
	}
	return &next
}

// fallback is the default dead-letter exchange that the settings come to.
func (s *VHostSettings) fallback(b *Broker) string {
	if s.DefaultDeadLetterExchange == nil {
		return b.options.DefaultDeadLetterExchange
	}
	return *s.DefaultDeadLetterExchange
}

// Settings are the virtual host's settings of the moment. Any goroutine.
func (v *VHost) Settings() VHostSettings { return *v.settings.Load() }

// DefaultDeadLetterExchange is the exchange that takes what dies in queues without one of their own; "" is none. Any
// goroutine.
func (v *VHost) DefaultDeadLetterExchange() string { return v.policies.Load().fallback }

// PutVHost makes a virtual host with settings, or gives the one there is these settings, all of them, and applies
// them at once. added and wait are as for AddVHost; the error is a *ValidationError or what AddVHost returns. Any
// goroutine that holds no lock.
func (b *Broker) PutVHost(name string, s VHostSettings, done func(error)) (added, wait bool, err error) {
	if err := s.Check(b.Profile); err != nil {
		return false, false, err
	}
	s = *s.clone()
	for {
		added, wait, err = b.addVHost(name, s, done)
		if added || err != nil {
			return added, wait, err
		}
		if v, ok := b.VHost(name); ok {
			wait, err = v.putSettings(s, done)
			return false, wait, err
		}
	}
}

// putSettings replaces the settings of a virtual host.
func (v *VHost) putSettings(s VHostSettings, done func(error)) (wait bool, err error) {
	v.policyMu.Lock()
	defer v.policyMu.Unlock()
	next := v.policies.Load().withFallback(s.fallback(v.broker))
	return v.changePolicies(next, func(e *edit) {
		v.settings.Store(&s)
		e.put(kindVHost, "", vhostDefinition{v.Name, s})
	}, done)
}

// withDefaultType is a queue.declare with the default type of the virtual host among its arguments.
func (v *VHost) withDefaultType(m *frames.QueueDeclare) *frames.QueueDeclare {
	p, typ := v.broker.Profile, cmp.Or(v.settings.Load().DefaultQueueType, v.broker.options.DefaultQueueType)
	if typ == "" || !compat.VHostQueueType.In(p) {
		return m
	}
	typed := *m
	typed.Arguments = withDefaultQueueType(p, typ, m.Durable, m.Exclusive, m.AutoDelete, m.Arguments)
	return &typed
}
