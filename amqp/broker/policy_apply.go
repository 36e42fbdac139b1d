package broker

import (
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// How policies get to queues and exchanges. The set of a virtual host is one immutable value behind an atomic
// pointer. Whoever makes a queue or an exchange holds the virtual host's mutex and takes the set of the moment. A
// change of policies publishes the next set and then goes once through that mutex: what was made with the old set is
// in the topology by then, and what comes later is made with the new one. So the queues can be given their new rules
// with no lock of the virtual host held, however many there are.

// exchangesAtOnce is how many exchanges are given their policies before others may change the topology.
const exchangesAtOnce = 256

// changePolicies makes next the set of the virtual host, stores the change and applies it. policyMu is held.
func (v *VHost) changePolicies(next *policySet, store func(*edit), done func(error)) (wait bool, err error) {
	v.mu.Lock()
	if err := v.refuseDeleted(); err != nil {
		v.mu.Unlock()
		return false, err
	}
	v.policies.Store(next)
	e := v.begin()
	store(e)
	wait = e.finish(done)
	queues, exchanges := v.Queues(), v.Exchanges()
	v.mu.Unlock()
	for _, q := range queues {
		v.applyToQueue(q, next)
	}
	for len(exchanges) > 0 {
		n := min(len(exchanges), exchangesAtOnce)
		v.applyToExchanges(exchanges[:n])
		exchanges = exchanges[n:]
	}
	return wait, nil
}

// applyToQueue gives a queue the rules that follow from a set of policies. policyMu is held, or the queue is not in
// use yet.
func (v *VHost) applyToQueue(q *Queue, set *policySet) {
	a := set.ofQueue(q.Name, q.Type)
	rules, dl := effectiveRules(v.broker.Profile, q.Type, q.Arguments, a, set)
	q.applied.Store(a)
	if dl != nil {
		// Without one the last stays, for what has died already.
		q.deadLetter.Store(dl)
	}
	q.applyToStream(v.broker.Profile)
	if rules != q.Rules() {
		q.SetRules(rules)
	}
}

func (s *policySet) ofQueue(name, queueType string) *applied {
	return applying(s.forQueue(UserPolicy, name, queueType), s.forQueue(OperatorPolicy, name, queueType))
}

func (s *policySet) ofExchange(name string) *applied {
	return applying(s.forExchange(UserPolicy, name), s.forExchange(OperatorPolicy, name))
}

// effectiveRules are the rules and the dead-letter exchange of a queue with these arguments and policies.
func effectiveRules(p compat.Profile, queueType string, args frames.Table, a *applied, set *policySet) (queue.Rules, *deadLetter) {
	if queueType == typeStream {
		return queue.NoRules(), nil
	}
	effective := effectiveArguments(queueType, args, a.definition)
	rules, dl := rulesOf(effective)
	if queueType == typeQuorum {
		quorumRules(p, &rules, effective)
	}
	if dl == nil && set.fallback != "" && queueType != volatileType {
		dl = &deadLetter{exchange: set.fallback, fallback: true}
		rules.DeadLetters = true
	}
	return rules, dl
}

// applyToExchanges gives some exchanges the policies of the moment.
func (v *VHost) applyToExchanges(some []*Exchange) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.deleted {
		return
	}
	e, changed := v.begin(), false
	for _, x := range some {
		node, ok := e.next.exchanges.Get(x.Name)
		if !ok {
			continue
		}
		next := v.exchangeNode(node.Exchange, node.matcher)
		if next.applied.policy != node.applied.policy || next.applied.operator != node.applied.operator {
			e.next.exchanges = e.next.exchanges.Set(x.Name, next)
			changed = true
		}
	}
	if changed {
		e.finish(nil)
	}
}

// firstPolicies gives a queue in the making the policies of the moment and returns its rules. mu is held, unless
// nobody can change policies yet; a reply queue has none.
func (v *VHost) firstPolicies(q *Queue, config *queue.Config) queue.Rules {
	if q.Type == volatileType {
		q.applied.Store(noneApplied)
		rules, _ := rulesOf(config.Arguments)
		return rules
	}
	set := v.policies.Load()
	a := set.ofQueue(config.Name, q.Type)
	rules, dl := effectiveRules(v.broker.Profile, q.Type, config.Arguments, a, set)
	q.applied.Store(a)
	q.deadLetter.Store(dl)
	return rules
}

// exchangeNode makes a node with the policies of the moment. mu is held.
func (v *VHost) exchangeNode(x *Exchange, m exchange.Matcher[*destination]) *exchangeNode {
	n := &exchangeNode{Exchange: x, matcher: m, alternate: x.Alternate, applied: v.policies.Load().ofExchange(x.Name), selects: exchange.Selects(m)}
	if !x.HasAlternate {
		n.alternate, _ = n.applied.definition[keyAlternateExchange].(string)
	}
	return n
}

// rematched is the node with another routing table.
func (n *exchangeNode) rematched(m exchange.Matcher[*destination]) *exchangeNode {
	next := *n
	next.matcher, next.selects = m, exchange.Selects(m)
	return &next
}

// ExchangePolicies is what policies an exchange has: the names of its policy and its operator policy, "" for none, and
// their definition merged, which is not to be changed. Any goroutine.
func (v *VHost) ExchangePolicies(name string) (policy, operator string, effective map[string]any) {
	node, ok := v.topology.Load().exchanges.Get(name)
	if !ok {
		return "", "", nil
	}
	return node.applied.policyName(), node.applied.operatorName(), node.applied.definition
}

// forgetPolicies takes policies and limits of a virtual host that goes out of the store. mu is held.
func (v *VHost) forgetPolicies(e *edit) {
	set := v.policies.Load()
	for _, kind := range []PolicyKind{UserPolicy, OperatorPolicy} {
		for _, p := range set.kinds[kind] {
			e.remove(kind.definition(), p.Name)
		}
	}
	if len(*v.limits.Load()) > 0 {
		e.remove(kindLimits, "")
	}
}
