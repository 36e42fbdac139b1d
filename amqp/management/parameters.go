package management

import (
	"github.com/warrenmq/warren/amqp/broker"
)

// componentPolicies is the component under which policies are seen as parameters; they are listed only when it is
// asked for by name.
const componentPolicies = "policy"

// parametersOf lists the parameters of a virtual host, those of one component if it is not "".
func (q *request) parametersOf(vhost, component string) []object {
	all := []object{}
	if component == componentPolicies {
		for _, p := range q.api.broker.Policies(vhost, broker.UserPolicy) {
			all = append(all, object{"vhost": vhost, "component": component, "name": p.Name, "value": object{
				"pattern": p.Pattern, "definition": p.Definition, "priority": p.Priority, "apply-to": p.ApplyTo,
			}})
		}
		return all
	}
	for _, p := range q.api.broker.Parameters(vhost) {
		if component == "" || p.Component == component {
			all = append(all, object{"vhost": vhost, "component": p.Component, "name": p.Name, "value": p.Value})
		}
	}
	return all
}

func listParameters(q *request) (any, error) {
	all := []object{}
	for _, v := range q.usableVHosts() {
		all = append(all, q.parametersOf(v.Name, q.PathValue("component"))...)
	}
	return q.list(all)
}

func getParameter(q *request) (any, error) {
	for _, p := range q.parametersOf(q.vhost.Name, q.PathValue("component")) {
		if p["name"] == q.PathValue("parameter") {
			return q.one(p)
		}
	}
	return nil, errNotFound
}

func putParameter(q *request) (any, error) {
	value, err := q.limitValue()
	if err != nil {
		return nil, err
	}
	created := false
	err = q.await(func(done func(error)) (wait bool, err error) {
		created, wait, err = q.api.broker.PutParameter(q.vhost.Name, q.PathValue("component"), q.PathValue("parameter"), value, done)
		return wait, err
	})
	if err != nil {
		return nil, err
	}
	return q.created(!created)
}

func deleteParameter(q *request) (any, error) {
	return q.removed(func(done func(error)) (existed, wait bool, err error) {
		return q.api.broker.DeleteParameter(q.vhost.Name, q.PathValue("component"), q.PathValue("parameter"), done)
	})
}

func (q *request) globalObjects() []object {
	all := []object{}
	for _, p := range q.api.broker.GlobalParameters() {
		all = append(all, object{"name": p.Name, "value": p.Value})
	}
	return all
}

func listGlobals(q *request) (any, error) { return q.list(q.globalObjects()) }

func getGlobal(q *request) (any, error) {
	for _, p := range q.globalObjects() {
		if p["name"] == q.PathValue("parameter") {
			return q.one(p)
		}
	}
	return nil, errNotFound
}

func putGlobal(q *request) (any, error) {
	value, err := q.limitValue()
	if err != nil {
		return nil, err
	}
	created := false
	err = q.await(func(done func(error)) (wait bool, err error) {
		created, wait, err = q.api.broker.PutGlobalParameter(q.PathValue("parameter"), value, done)
		return wait, err
	})
	if err != nil {
		return nil, err
	}
	return q.created(!created)
}

func deleteGlobal(q *request) (any, error) {
	return q.removed(func(done func(error)) (existed, wait bool, err error) {
		existed, wait = q.api.broker.DeleteGlobalParameter(q.PathValue("parameter"), done)
		return existed, wait, nil
	})
}

// parameterClusterName is the global parameter that has the cluster's name.
const parameterClusterName = "cluster_name"

// clusterNameOf is the cluster's name; nodeName as long as it has none of its own.
func (a *API) clusterNameOf() string {
	for _, p := range a.broker.GlobalParameters() {
		if name, ok := p.Value.(string); ok && p.Name == parameterClusterName {
			return name
		}
	}
	return nodeName
}

func clusterName(q *request) (any, error) { return object{"name": q.api.clusterNameOf()}, nil }

func putClusterName(q *request) (any, error) {
	o, err := q.object()
	if err != nil {
		return nil, err
	}
	if err := needs(o, "name"); err != nil {
		return nil, err
	}
	name, err := text(o, "name")
	if err != nil {
		return nil, err
	}
	return nil, q.await(func(done func(error)) (wait bool, err error) {
		_, wait, err = q.api.broker.PutGlobalParameter(parameterClusterName, name, done)
		return wait, err
	})
}
