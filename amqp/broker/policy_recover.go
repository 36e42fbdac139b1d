package broker

import (
	"encoding/json"
	"fmt"

	"github.com/warrenmq/warren/persist"
)

// What recovery does for policies and their kin: policy, limits, settings and global take stored definitions, which
// come in no useful order; applyPolicies, once all are there, applies them.

func (r *recovery) policy(d persist.Definition) error {
	kind := UserPolicy
	if d.Kind == kindOperatorPolicy {
		kind = OperatorPolicy
	}
	decoded, err := decodeJSON(d.Value)
	if err != nil {
		return err
	}
	var s policyJSON
	if err := json.Unmarshal(d.Value, &s); err != nil {
		return fmt.Errorf("read stored policy: %w", err)
	}
	object, _ := decoded.(map[string]any)
	s.Definition, _ = object["definition"].(map[string]any) // with numbers as they were written
	bound, err := bindPolicy(r.b.Profile, Policy(s))
	if err != nil {
		return err
	}
	v := r.vhost(d.VHost)
	v.policies.Store(v.policies.Load().with(kind, bound))
	return nil
}

func (r *recovery) limits(d persist.Definition) error {
	l, err := limitsOfJSON(d.Value)
	if err == nil {
		r.vhost(d.VHost).limits.Store(&l)
	}
	return err
}

func (r *recovery) settings(d persist.Definition) error {
	var s vhostDefinition
	if err := json.Unmarshal(d.Value, &s); err != nil {
		return fmt.Errorf("read stored virtual host: %w", err)
	}
	v := r.vhost(d.VHost)
	v.settings.Store(&s.VHostSettings)
	v.policies.Store(v.policies.Load().withFallback(s.fallback(r.b)))
	return nil
}

func (r *recovery) global(d persist.Definition) error {
	value, err := decodeJSON(d.Value)
	if err == nil {
		r.b.globals[d.Name] = value
	}
	return err
}

func (r *recovery) applyPolicies() {
	for _, v := range r.vhosts {
		set := v.policies.Load()
		for _, q := range v.Queues() {
			v.applyToQueue(q, set)
		}
		v.applyToExchanges(v.Exchanges())
	}
}
