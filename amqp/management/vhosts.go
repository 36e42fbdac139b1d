package management

import (
	"fmt"

	"github.com/warrenmq/warren/amqp/broker"
)

func (q *request) vhostObject(v *broker.VHost) object {
	var ready, unacked int
	for _, u := range v.Queues() {
		n := u.Counts()
		ready, unacked = ready+n.Ready, unacked+n.Unacked
	}
	o := object{
		"name": v.Name, "description": "", "tags": []string{}, "default_queue_type": "undefined",
		"metadata": object{"description": "", "tags": []string{}}, "tracing": false, "cluster_state": object{nodeName: "running"},
		"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked,
	}
	if q.api.v4() {
		o["default_queue_type"], o["protected_from_deletion"] = "classic", false
		o["metadata"] = object{"description": "", "tags": []string{}, "default_queue_type": "classic"}
	}
	return o
}

func listVHosts(q *request) (any, error) {
	all := []object{}
	for _, v := range q.vhosts() {
		all = append(all, q.vhostObject(v))
	}
	return q.list(all)
}

// namedVHost finds the virtual host that is the object of the request, for
// those who may administer it.
func (q *request) namedVHost() (*broker.VHost, error) {
	v, ok := q.api.broker.VHost(q.PathValue("name"))
	if !ok {
		return nil, errNotFound
	}
	return v, nil
}

func getVHost(q *request) (any, error) {
	v, err := q.namedVHost()
	if err != nil {
		return nil, err
	}
	if !q.is("monitoring") && !q.api.broker.Auth.VHostAccess(q.user.Name, v.Name) {
		return nil, notAuthorised("User not authorised to access virtual host")
	}
	return q.one(q.vhostObject(v))
}

func putVHost(q *request) (any, error) {
	name := q.PathValue("name")
	if _, err := q.object(); err != nil {
		return nil, err
	}
	added := false
	err := q.await(func(done func(error)) (wait bool, err error) {
		added, wait, err = q.api.broker.AddVHost(name, done)
		return wait, err
	})
	if err != nil {
		return nil, badRequest(fmt.Sprint(err))
	}
	if added {
		if err := q.grantAll(name); err != nil {
			return nil, err
		}
	}
	return q.created(!added)
}

func deleteVHost(q *request) (any, error) {
	removed := false
	err := q.await(func(done func(error)) (wait bool, err error) {
		removed, wait = q.api.broker.RemoveVHost(q.PathValue("name"), done)
		return wait, nil
	})
	if err == nil && !removed {
		return nil, errNotFound
	}
	return nil, err
}
