package management

import (
	"errors"
	"net/http"
	"strings"

	"github.com/warrenmq/warren/amqp/broker"
)

// policyRoutes makes the handlers of one kind of policy.
type policyRoutes struct{ kind broker.PolicyKind }

func policyObject(vhost string, p broker.Policy) object {
	return object{
		"vhost": vhost, "name": p.Name, "pattern": p.Pattern, "apply-to": p.ApplyTo, "definition": p.Definition, "priority": p.Priority,
	}
}

// list lists the policies of the virtual hosts that the user may use. Those that a user may only look at, with the
// tag monitoring, are left out, as in RabbitMQ.
func (r policyRoutes) list(q *request) (any, error) {
	all := []object{}
	for _, v := range q.usableVHosts() {
		for _, p := range q.api.broker.Policies(v.Name, r.kind) {
			all = append(all, policyObject(v.Name, p))
		}
	}
	return q.list(all)
}

func (r policyRoutes) get(q *request) (any, error) {
	for _, p := range q.api.broker.Policies(q.vhost.Name, r.kind) {
		if p.Name == q.PathValue("policy") {
			return q.one(policyObject(q.vhost.Name, p))
		}
	}
	return nil, errNotFound
}

func (r policyRoutes) put(q *request) (any, error) {
	o, err := q.object()
	if err != nil {
		return nil, err
	}
	p, err := broker.ParsePolicy(q.api.broker.Profile, r.kind, q.PathValue("policy"), o)
	if err != nil {
		return nil, r.refusal(q, err)
	}
	created := false
	err = q.await(func(done func(error)) (wait bool, err error) {
		created, wait, err = q.api.broker.PutPolicy(q.vhost.Name, r.kind, p, done)
		return wait, err
	})
	if err != nil {
		return nil, r.refusal(q, err)
	}
	return q.created(!created)
}

func (r policyRoutes) delete(q *request) (any, error) {
	return q.removed(func(done func(error)) (existed, wait bool, err error) {
		return q.api.broker.DeletePolicy(q.vhost.Name, r.kind, q.PathValue("policy"), done)
	})
}

// htmlEscapes are those of 3.10.8, which writes the refusal of a policy, but not that of an operator policy, for its
// own page.
var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (r policyRoutes) refusal(q *request, err error) error {
	var invalid *broker.ValidationError
	if r.kind == broker.UserPolicy && !q.api.v4() && errors.As(err, &invalid) {
		return badRequest(htmlEscapes.Replace(invalid.Text))
	}
	return err
}

// removed waits for a deletion in the broker; 404 when there was nothing.
func (q *request) removed(remove func(done func(error)) (existed, wait bool, err error)) (any, error) {
	existed := false
	err := q.await(func(done func(error)) (wait bool, err error) {
		existed, wait, err = remove(done)
		return wait, err
	})
	if err == nil && !existed {
		return nil, errNotFound
	}
	return nil, err
}

// noVHost is the answer to a change in a virtual host that does not exist.
var noVHost = &failure{http.StatusNotFound, "not_found", "vhost_not_found"}
