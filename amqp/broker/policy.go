package broker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/frames/compat"
)

// PolicyKind tells policies from operator policies, which have names of their own and are merged with them.
type PolicyKind uint8

// The kinds.
const (
	UserPolicy PolicyKind = iota
	OperatorPolicy
)

func (k PolicyKind) definition() byte {
	if k == OperatorPolicy {
		return kindOperatorPolicy
	}
	return kindPolicy
}

// What a policy applies to (Policy.ApplyTo). The last three are for profile 4.
const (
	ApplyToAll       = "all"
	ApplyToQueues    = "queues"
	ApplyToExchanges = "exchanges"
	ApplyToClassic   = "classic_queues"
	ApplyToQuorum    = "quorum_queues"
	ApplyToStreams   = "streams"
)

// Policy gives optional arguments to all queues and exchanges whose name its pattern is found in. Of several that
// match, the one with the highest priority counts alone. One that the broker has handed out is not to be changed.
type Policy struct {
	Name string
	// Pattern is a regular expression, not anchored; the language is that of permissions.
	Pattern string
	// ApplyTo is one of the ApplyTo constants; "" is ApplyToAll.
	ApplyTo string
	// Definition has the keys of a policy, as they are in JSON. Numbers handed out by the broker are json.Number.
	Definition map[string]any
	// Priority: RabbitMQ takes any number, also one with a fraction.
	Priority float64
}

// policyJSON is a Policy in the store.
type policyJSON struct {
	Name       string         `json:"name"`
	Pattern    string         `json:"pattern"`
	ApplyTo    string         `json:"apply-to"`
	Definition map[string]any `json:"definition"`
	Priority   float64        `json:"priority"`
}

// boundPolicy is a policy ready to be asked. Immutable.
type boundPolicy struct {
	Policy
	matcher *auth.Matcher
	unfit   typeSet // types of queue that a key of it is not for
}

// policySet is all policies of a virtual host at one time. Immutable.
type policySet struct {
	kinds [2][]*boundPolicy // by kind; highest priority first, and by name
	// fallback is the dead-letter exchange of queues that name none; "" is none.
	fallback string
}

var noPolicies = new(policySet)

// ErrNoVHost: there is no virtual host of that name.
var ErrNoVHost = errors.New("no such virtual host")

// vhostNamed finds the virtual host that a change is for.
func (b *Broker) vhostNamed(name string) (*VHost, error) {
	v, ok := b.VHost(name)
	if !ok {
		return nil, fmt.Errorf("virtual host %q: %w", name, ErrNoVHost)
	}
	return v, nil
}

// Policies lists the policies of a virtual host by name; nil when there is no such virtual host. Any goroutine.
func (b *Broker) Policies(vhost string, kind PolicyKind) []Policy {
	v, ok := b.VHost(vhost)
	if !ok {
		return nil
	}
	set := v.policies.Load()
	all := make([]Policy, 0, len(set.kinds[kind]))
	for _, p := range set.kinds[kind] {
		all = append(all, p.Policy)
	}
	slices.SortFunc(all, func(x, y Policy) int { return cmp.Compare(x.Name, y.Name) })
	return all
}

// PutPolicy creates a policy, or replaces the one of its name, and applies it to what there is before it returns:
// queues and exchanges have it then, also those that are declared meanwhile. created is false when it replaced one.
// wait: done will be called with the store's error or nil when it is durable. The error is a *ValidationError, with
// RabbitMQ's text, or wraps ErrNoVHost. Any goroutine that holds no lock; changes of one virtual host's policies come
// one after the other.
func (b *Broker) PutPolicy(vhost string, kind PolicyKind, p Policy, done func(error)) (created, wait bool, err error) {
	v, err := b.vhostNamed(vhost)
	if err != nil {
		return false, false, err
	}
	bound, err := b.checkPolicy(kind, p)
	if err != nil {
		return false, false, err
	}
	created, wait, err = v.putPolicy(kind, bound, done)
	if err == nil {
		b.observe(Event{Step: PolicySet, VHost: vhost, Text: p.Name})
	}
	return created, wait, err
}

// DeletePolicy deletes a policy and takes it off what had it; existed is false when there is none. wait and the
// error are as for PutPolicy.
func (b *Broker) DeletePolicy(vhost string, kind PolicyKind, name string, done func(error)) (existed, wait bool, err error) {
	v, err := b.vhostNamed(vhost)
	if err != nil {
		return false, false, err
	}
	existed, wait, err = v.deletePolicy(kind, name, done)
	if existed {
		b.observe(Event{Step: PolicyCleared, VHost: vhost, Text: name})
	}
	return existed, wait, err
}

// checkPolicy makes a policy ready.
func (b *Broker) checkPolicy(kind PolicyKind, p Policy) (*boundPolicy, error) {
	document := map[string]any{"pattern": p.Pattern, "definition": p.Definition, "priority": p.Priority}
	if p.Definition == nil {
		document["definition"] = map[string]any{}
	}
	if p.ApplyTo != "" {
		document["apply-to"] = p.ApplyTo
	}
	parsed, err := ParsePolicy(b.Profile, kind, p.Name, document)
	if err != nil {
		return nil, err
	}
	return bindPolicy(b.Profile, parsed)
}

// bindPolicy compiles a checked policy.
func bindPolicy(profile compat.Profile, p Policy) (*boundPolicy, error) {
	m, err := auth.CompileMatcher(p.Pattern)
	if err != nil {
		return nil, fmt.Errorf("compile pattern of policy %q: %w", p.Name, err)
	}
	bound := &boundPolicy{Policy: p, matcher: m}
	for i := range policyKeys {
		if _, given := p.Definition[policyKeys[i].name]; given {
			bound.unfit |= policyKeys[i].unfit(profile)
		}
	}
	return bound, nil
}

// putPolicy is PutPolicy of a checked policy.
func (v *VHost) putPolicy(kind PolicyKind, p *boundPolicy, done func(error)) (created, wait bool, err error) {
	v.policyMu.Lock()
	defer v.policyMu.Unlock()
	cur := v.policies.Load()
	i := cur.index(kind, p.Name)
	next := cur.without(kind, i).with(kind, p)
	wait, err = v.changePolicies(next, func(e *edit) { e.put(kind.definition(), p.Name, policyJSON(p.Policy)) }, done)
	return i < 0, wait, err
}

func (v *VHost) deletePolicy(kind PolicyKind, name string, done func(error)) (existed, wait bool, err error) {
	v.policyMu.Lock()
	defer v.policyMu.Unlock()
	cur := v.policies.Load()
	i := cur.index(kind, name)
	if i < 0 {
		return false, false, nil
	}
	wait, err = v.changePolicies(cur.without(kind, i), func(e *edit) { e.remove(kind.definition(), name) }, done)
	return true, wait, err
}

func (s *policySet) index(kind PolicyKind, name string) int {
	return slices.IndexFunc(s.kinds[kind], func(p *boundPolicy) bool { return p.Name == name })
}

// without is the set without the policy at an index; -1 is none.
func (s *policySet) without(kind PolicyKind, i int) *policySet {
	next := *s
	if i >= 0 {
		next.kinds[kind] = slices.Delete(slices.Clone(s.kinds[kind]), i, i+1)
	}
	return &next
}

// with is the set with one more policy, in its place.
func (s *policySet) with(kind PolicyKind, p *boundPolicy) *policySet {
	next := *s
	i, _ := slices.BinarySearchFunc(s.kinds[kind], p, byPriority)
	next.kinds[kind] = slices.Insert(slices.Clone(s.kinds[kind]), i, p)
	return &next
}

// byPriority: of equal priority the first by name counts, as it happens to be in RabbitMQ.
func byPriority(a, b *boundPolicy) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
}

// forQueue is the policy of a kind that a queue has; nil is none.
func (s *policySet) forQueue(kind PolicyKind, name, queueType string) *boundPolicy {
	for _, p := range s.kinds[kind] {
		if p.unfit&setOf(queueType) == 0 && p.appliesToQueues(queueType) && p.matcher.Match(name) {
			return p
		}
	}
	return nil
}

func (p *boundPolicy) appliesToQueues(queueType string) bool {
	switch p.ApplyTo {
	case ApplyToAll, ApplyToQueues:
		return true
	case ApplyToClassic:
		return queueType == typeClassic
	case ApplyToQuorum:
		return queueType == typeQuorum
	case ApplyToStreams:
		return queueType == typeStream
	}
	return false
}

// forExchange is forQueue for an exchange.
func (s *policySet) forExchange(kind PolicyKind, name string) *boundPolicy {
	for _, p := range s.kinds[kind] {
		if (p.ApplyTo == ApplyToAll || p.ApplyTo == ApplyToExchanges) && p.matcher.Match(name) {
			return p
		}
	}
	return nil
}

// applied is the policies that a queue or exchange has. Immutable.
type applied struct {
	policy, operator *boundPolicy
	definition       map[string]any // of both, merged; nil when there are none
}

var noneApplied = new(applied)

// applying merges the two policies of a queue or exchange.
func applying(policy, operator *boundPolicy) *applied {
	if policy == nil && operator == nil {
		return noneApplied
	}
	a := &applied{policy: policy, operator: operator, definition: map[string]any{}}
	if policy != nil {
		maps.Copy(a.definition, policy.Definition)
	}
	if operator == nil {
		return a
	}
	for key, v := range operator.Definition {
		if mine, both := a.definition[key]; both {
			v = mergeOperator(key, mine, v)
		}
		a.definition[key] = v
	}
	return a
}

func mergeOperator(key string, policy, operator any) any {
	i := slices.IndexFunc(policyKeys, func(k policyKey) bool { return k.name == key })
	if i < 0 || policyKeys[i].both == nil {
		return operator
	}
	return policyKeys[i].both(policy, operator)
}

func (a *applied) policyName() string {
	if a.policy == nil {
		return ""
	}
	return a.policy.Name
}

func (a *applied) operatorName() string {
	if a.operator == nil {
		return ""
	}
	return a.operator.Name
}

// Policy is the name of the policy that the queue has; "" is none. Any goroutine, as for the other two.
func (q *Queue) Policy() string { return q.applied.Load().policyName() }

// OperatorPolicy is the name of the operator policy that the queue has; "" is none.
func (q *Queue) OperatorPolicy() string { return q.applied.Load().operatorName() }

// EffectivePolicy is the definition of the queue's policy merged with that of its operator policy, without the
// queue's own arguments; empty when it has neither. Not to be changed. Numbers are json.Number.
func (q *Queue) EffectivePolicy() map[string]any { return q.applied.Load().definition }

// EffectiveArguments are the queue's own arguments merged with its policies: what its rules are made of. Not to be
// changed. Policies' values stand under the arguments' names, numbers as int64.
func (q *Queue) EffectiveArguments() map[string]any {
	effective := map[string]any{}
	for _, f := range slices.Backward(effectiveArguments(q.Type, q.Arguments, q.EffectivePolicy())) {
		effective[f.Key] = f.Value
	}
	return effective
}

// canonical is a value as it comes out of JSON, with numbers as they were written: a copy that nobody else has.
func canonical(v any) (any, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode as JSON: %w", err)
	}
	return decodeJSON(encoded)
}
