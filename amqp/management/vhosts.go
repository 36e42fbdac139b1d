package management

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/warrenmq/warren/amqp/broker"
)

func (q *request) vhostObject(v *broker.VHost) object {
	var ready, unacked int
	for _, u := range v.Queues() {
		n := u.Counts()
		ready, unacked = ready+n.Ready, unacked+n.Unacked
	}
	settings := v.Settings()
	o := object{
		"name": v.Name, "description": settings.Description, "tags": textsOf(settings.Tags), "default_queue_type": cmp.Or(settings.DefaultQueueType, "undefined"),
		"metadata": q.metadata(settings), "tracing": v.Tracing(), "cluster_state": object{nodeName: "running"},
		"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked,
	}
	if q.api.v4() {
		o["default_queue_type"], o["protected_from_deletion"] = defaultType(settings), false
	}
	return o
}

func textsOf(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

func defaultType(s broker.VHostSettings) string { return cmp.Or(s.DefaultQueueType, "classic") }

// metadata is a virtual host's settings as an object of their own. The default
// dead-letter exchange, which RabbitMQ has not, is there if it was given.
func (q *request) metadata(s broker.VHostSettings) object {
	o := object{"description": s.Description, "tags": textsOf(s.Tags)}
	if q.api.v4() || s.DefaultQueueType != "" {
		o["default_queue_type"] = defaultType(s)
	}
	if s.DefaultDeadLetterExchange != nil {
		o["default_dead_letter_exchange"] = *s.DefaultDeadLetterExchange
	}
	return o
}

// readVHostSettings reads the settings of PUT /vhosts/V or of definitions.
func readVHostSettings(o object) (s broker.VHostSettings, err error) {
	if s.Description, err = text(o, "description"); err != nil {
		return s, err
	}
	if s.DefaultQueueType, err = text(o, "default_queue_type"); err != nil {
		return s, err
	}
	if s.DefaultQueueType == "undefined" {
		s.DefaultQueueType = "" // what 3.10.8 shows
	}
	if o["tags"] != nil {
		if s.Tags, err = readTags(o["tags"]); err != nil {
			return s, err
		}
	}
	if o["default_dead_letter_exchange"] != nil {
		name, err := text(o, "default_dead_letter_exchange")
		s.DefaultDeadLetterExchange = &name
		return s, err
	}
	return s, nil
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
	return q.one(q.vhostObject(v))
}

func putVHost(q *request) (any, error) {
	name := q.PathValue("name")
	o, err := q.object()
	if err != nil {
		return nil, err
	}
	settings, err := readVHostSettings(o)
	if err != nil {
		return nil, err
	}
	if !q.api.v4() {
		settings.DefaultQueueType = "" // 3.10.8 takes it from definitions only
	}
	tracing, err := boolean(o, "tracing")
	if err != nil {
		return nil, err
	}
	added := false
	err = q.await(func(done func(error)) (wait bool, err error) {
		added, wait, err = q.api.broker.PutVHost(name, settings, done)
		return wait, err
	})
	var invalid *broker.ValidationError
	switch {
	case errors.As(err, &invalid):
		return nil, err
	case err != nil:
		return nil, badRequest(fmt.Sprint(err))
	}
	if v, ok := q.api.broker.VHost(name); ok && o["tracing"] != nil {
		v.SetTracing(tracing)
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
