package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/warrenmq/warren/persist"
)

// Parameters are how RabbitMQ names settings of a virtual host that have no API of their own: component, name and a
// JSON value. Here two components exist, and both are other things seen from this side: the limits of the virtual
// host and operator policies. (Policies are parameters too, which may not be set as such.) Those of plugins that
// Warren has not are not found, as in a RabbitMQ without the plugin.

// Components and the one name that limits have.
const (
	ComponentLimits           = "vhost-limits"
	ComponentOperatorPolicies = "operator_policy"
	componentPolicies         = "policy"
	parameterLimits           = "limits"
)

// Parameter is one setting of a virtual host.
type Parameter struct {
	VHost     string         `json:"vhost"`
	Component string         `json:"component"`
	Name      string         `json:"name"`
	Value     map[string]any `json:"value"`
}

// Parameters lists the parameters of a virtual host by component and name; nil when there is no such virtual host.
// The values are not to be changed. Any goroutine.
func (b *Broker) Parameters(vhost string) []Parameter {
	v, ok := b.VHost(vhost)
	if !ok {
		return nil
	}
	all := []Parameter{}
	for _, p := range b.Policies(vhost, OperatorPolicy) {
		all = append(all, Parameter{vhost, ComponentOperatorPolicies, p.Name, map[string]any{
			"pattern": p.Pattern, "apply-to": p.ApplyTo, "definition": p.Definition, "priority": p.Priority,
		}})
	}
	if l := *v.limits.Load(); len(l) > 0 {
		value := map[string]any{}
		for name, limit := range l {
			value[name] = limit
		}
		all = append(all, Parameter{vhost, ComponentLimits, parameterLimits, value})
	}
	return all
}

// PutParameter sets a parameter to a value of JSON. created is false when there was one of that name. wait: done will
// be called when it is durable. The error is a *ValidationError or wraps ErrNoVHost. Any goroutine that holds no lock.
func (b *Broker) PutParameter(vhost, component, name string, value any, done func(error)) (created, wait bool, err error) {
	v, err := b.vhostNamed(vhost)
	if err != nil {
		return false, false, err
	}
	p, err := b.readParameter(component, name, value)
	switch {
	case err != nil:
		return false, false, err
	case component == ComponentOperatorPolicies:
		return b.PutPolicy(vhost, OperatorPolicy, p.operator, done)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	created = len(*v.limits.Load()) == 0
	wait, err = v.putLimits(p.limits, done)
	return created && err == nil, wait, err
}

// CheckParameter says what PutParameter would say of the value, and changes nothing. Any goroutine.
func (b *Broker) CheckParameter(component, name string, value any) error {
	_, err := b.readParameter(component, name, value)
	return err
}

// parameterValue is what a parameter comes to, by component.
type parameterValue struct {
	operator Policy
	limits   vhostLimits
}

func (b *Broker) readParameter(component, name string, value any) (p parameterValue, err error) {
	decoded, err := canonical(value)
	if err != nil {
		return p, &ValidationError{err.Error()}
	}
	object, isObject := decoded.(map[string]any)
	if list, isList := decoded.([]any); isList && len(list) == 0 {
		object, isObject = map[string]any{}, true // as in Erlang, where both are the empty list
	}
	switch component {
	case componentPolicies:
		return p, invalid("policies may not be set using this method")
	case ComponentLimits, ComponentOperatorPolicies:
	default:
		return p, validationFailed("component " + component + " not found")
	}
	if !isObject {
		return p, validationFailed(notAList(name, decoded))
	}
	if component == ComponentLimits {
		p.limits, err = readLimitsParameter(name, object)
		return p, err
	}
	p.operator, err = b.readOperatorParameter(name, object)
	return p, err
}

func readLimitsParameter(name string, object map[string]any) (vhostLimits, error) {
	l, lines := checkVHostLimits(name, object)
	switch {
	case len(lines) > 0:
		return nil, validationFailed(lines...)
	case name != parameterLimits: // RabbitMQ answers 500 and keeps it, without effect
		return nil, validationFailed(fmt.Sprintf("%s is not a name of vhost limits, the only one is %s", name, parameterLimits))
	}
	return l, nil
}

func (b *Broker) readOperatorParameter(name string, object map[string]any) (Policy, error) {
	keys := []string{"definition", "pattern", "priority"}
	unknown := maps.Clone(object)
	delete(unknown, "apply-to")
	var lines []string
	for _, k := range keys {
		delete(unknown, k)
		if _, given := object[k]; !given {
			lines = append(lines, fmt.Sprintf("Key %q not found in %s", k, name))
		}
	}
	if len(unknown) > 0 {
		lines = append([]string{unrecognised(unknown, name)}, lines...)
	}
	if len(lines) > 0 {
		return Policy{}, validationFailed(lines...)
	}
	return ParsePolicy(b.Profile, OperatorPolicy, name, object)
}

// DeleteParameter deletes a parameter; existed is false when there is none, also when there is no such component.
// wait and the error are as for PutParameter.
func (b *Broker) DeleteParameter(vhost, component, name string, done func(error)) (existed, wait bool, err error) {
	v, err := b.vhostNamed(vhost)
	if err != nil {
		return false, false, err
	}
	switch {
	case component == ComponentOperatorPolicies:
		return b.DeletePolicy(vhost, OperatorPolicy, name, done)
	case component == componentPolicies && v.policies.Load().index(UserPolicy, name) >= 0:
		return false, false, invalid("policies may not be cleared using this method")
	case component != ComponentLimits || name != parameterLimits:
		return false, false, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(*v.limits.Load()) == 0 {
		return false, false, nil
	}
	wait, err = v.putLimits(noLimits, done)
	return true, wait, err
}

// GlobalParameter is a setting of the whole broker: a name and any JSON value.
type GlobalParameter struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// GlobalParameters lists the global parameters by name. The values are not to be changed. Any goroutine.
func (b *Broker) GlobalParameters() []GlobalParameter {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]GlobalParameter, 0, len(b.globals))
	for name, value := range b.globals {
		all = append(all, GlobalParameter{name, value})
	}
	slices.SortFunc(all, func(x, y GlobalParameter) int { return cmp.Compare(x.Name, y.Name) })
	return all
}

// PutGlobalParameter sets a global parameter to a value of JSON; created is false when there was one. wait: done will
// be called when it is durable. The error is a *ValidationError: the value is not JSON. Any goroutine.
func (b *Broker) PutGlobalParameter(name string, value any, done func(error)) (created, wait bool, err error) {
	decoded, err := canonical(value)
	if err != nil {
		return false, false, &ValidationError{err.Error()}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, had := b.globals[name]
	b.globals[name] = decoded
	b.observe(Event{Step: ParameterSet, Text: name})
	if b.store == nil {
		return !had, false, nil
	}
	b.store.Update([]persist.Definition{{Key: globalKey(name), Value: encodeDefinition(decoded)}}, nil, nil, done)
	return !had, true, nil
}

// DeleteGlobalParameter deletes a global parameter; existed is false when there is none. wait is as for
// PutGlobalParameter. Any goroutine.
func (b *Broker) DeleteGlobalParameter(name string, done func(error)) (existed, wait bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, existed = b.globals[name]; !existed {
		return false, false
	}
	delete(b.globals, name)
	b.observe(Event{Step: ParameterCleared, Text: name})
	if b.store == nil {
		return true, false
	}
	b.store.Update(nil, []persist.Key{globalKey(name)}, nil, done)
	return true, true
}

func globalKey(name string) persist.Key { return persist.Key{Kind: kindGlobal, Name: name} }
