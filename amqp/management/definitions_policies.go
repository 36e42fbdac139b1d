package management

import (
	"errors"
	"fmt"
	"maps"

	"github.com/warrenmq/warren/amqp/broker"
)

// settingsOf are the settings of a virtual host of definitions, which may stand in its metadata and beside it. 4.3.6
// goes by the metadata, 3.10.8 by what is beside it.
func (p *plan) settingsOf(o object) object {
	metadata, _ := o["metadata"].(object)
	outer, inner := maps.Clone(o), maps.Clone(metadata)
	if p.api.v4() {
		maps.Copy(outer, inner)
		return outer
	}
	if inner == nil {
		return outer
	}
	maps.Copy(inner, outer)
	return inner
}

// readUserLimits reads the limits of a user of definitions.
func readUserLimits(o object) (map[string]int, error) {
	given, _ := o["limits"].(object)
	limits := map[string]int{}
	for _, name := range sortedKeys(given) {
		n, err := broker.ReadUserLimit(name, given[name])
		if err != nil {
			return nil, err
		}
		limits[name] = n
	}
	return limits, nil
}

func (p *plan) readGlobal(o object) (func() error, error) {
	name, err := text(o, "name")
	if err != nil {
		return nil, err
	}
	value := o["value"]
	return func() error {
		return wait(func(done func(error)) (wait bool, err error) {
			_, wait, err = p.api.broker.PutGlobalParameter(name, value, done)
			return wait, err
		})
	}, nil
}

func (p *plan) readPolicy(o object) (func() error, error) {
	vhost, name, err := p.named(o)
	if err != nil {
		return nil, err
	}
	policy, err := p.parsePolicy(name, o)
	if err != nil {
		where := vhost + "/" + name
		if p.api.v4() {
			where = fmt.Sprintf(`vhost: "%s" key: "%s"`, vhost, name)
		}
		return nil, refusedAt(err, where)
	}
	return p.in(vhost, func(_ *broker.VHost, done func(error)) (wait bool, err error) {
		_, wait, err = p.api.broker.PutPolicy(vhost, broker.UserPolicy, policy, done)
		return wait, err
	}), nil
}

// parsePolicy: a missing key counts as a wrong value here.
func (p *plan) parsePolicy(name string, o object) (broker.Policy, error) {
	if o["pattern"] == nil {
		return broker.Policy{}, &broker.ValidationError{Text: "Validation failed\n\npattern should be a binary but was undefined\n"}
	}
	return broker.ParsePolicy(p.api.broker.Profile, broker.UserPolicy, name, o)
}

func (p *plan) readParameter(o object) (func() error, error) {
	var component, name string
	if err := texts(o, []field[string]{{"component", &component}, {"name", &name}}); err != nil {
		return nil, err
	}
	value := o["value"]
	if err := p.api.broker.CheckParameter(component, name, value); err != nil {
		vhost, _ := o["vhost"].(string)
		if p.vhost != "" {
			vhost = p.vhost
		}
		where := vhost + "/" + component + "/" + name
		if p.api.v4() {
			where = fmt.Sprintf(`vhost: "%s" / component: "%s" / key: "%s"`, vhost, component, name)
		}
		return nil, refusedAt(err, where)
	}
	vhost, err := p.vhostOf(o)
	if err != nil {
		return nil, err
	}
	return p.in(vhost, func(_ *broker.VHost, done func(error)) (wait bool, err error) {
		_, wait, err = p.api.broker.PutParameter(vhost, component, name, value, done)
		return wait, err
	}), nil
}

// refusedAt adds to a refusal which definition it is about, as RabbitMQ does.
func refusedAt(err error, where string) error {
	var invalid *broker.ValidationError
	if errors.As(err, &invalid) {
		return badRequest(invalid.Text + " (" + where + ")")
	}
	return err
}
