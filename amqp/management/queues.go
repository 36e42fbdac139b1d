package management

import (
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

func (q *request) queueObject(v *broker.VHost, u *broker.Queue) object {
	n := u.Counts()
	o := object{
		"name": u.Name, "vhost": v.Name, "durable": u.Durable, "auto_delete": u.AutoDelete, "exclusive": u.Owner != nil,
		"arguments": tableJSON(u.Arguments), "type": u.Type, "node": nodeName, "state": "running", "consumers": n.Consumers,
		"messages": n.Ready + n.Unacked, "messages_ready": n.Ready, "messages_unacknowledged": n.Unacked,
		"message_bytes_ready": n.ReadyBytes, "memory": 0, "policy": nameOrNull(u.Policy()), "operator_policy": nameOrNull(u.OperatorPolicy()),
		"consumer_utilisation": 0, "consumer_capacity": 0, "message_stats": messageStats(n.Published, n.Delivered, n.Acked),
		"messages_details": object{"rate": 0.0}, "messages_ready_details": object{"rate": 0.0}, "messages_unacknowledged_details": object{"rate": 0.0},
	}
	o["effective_policy_definition"] = object{}
	if effective := u.EffectivePolicy(); effective != nil {
		o["effective_policy_definition"] = effective
	}
	if s := u.SingleActive(); s != nil {
		o["single_active_consumer_tag"] = s.Tag
	} else {
		o["single_active_consumer_tag"] = nil
	}
	o["exclusive_consumer_tag"] = nil
	return o
}

// nameOrNull is null for no name.
func nameOrNull(name string) any {
	if name == "" {
		return nil
	}
	return name
}

func listQueues(q *request) (any, error) {
	all := []object{}
	for _, v := range q.vhosts() {
		for _, u := range v.Queues() {
			all = append(all, q.queueObject(v, u))
		}
	}
	sortNames(all)
	return q.list(all)
}

func (q *request) queue() (*broker.Queue, error) {
	u, ok := q.vhost.Queue(q.PathValue("queue"))
	if !ok {
		return nil, errNotFound
	}
	return u, nil
}

func getQueue(q *request) (any, error) {
	u, err := q.queue()
	if err != nil {
		return nil, err
	}
	o := q.queueObject(q.vhost, u)
	consumers := []object{}
	for _, d := range q.sessions() {
		if d.User == "" || d.VHost != q.vhost.Name {
			continue
		}
		if any(u.Owner) != nil && d.Name == ownerName(u) {
			o["owner_pid_details"] = object{"name": d.Name, "peer_host": host(d.Peer), "peer_port": port(d.Peer)}
		}
		consumers = append(consumers, consumersOf(&d, func(c *broker.ConsumerDetails) bool { return c.Queue == u })...)
	}
	o["consumer_details"], o["incoming"], o["deliveries"] = consumers, []any{}, []any{}
	return q.one(o)
}

// ownerName is the connection that an exclusive queue belongs to.
func ownerName(u *broker.Queue) string {
	if s, ok := u.Owner.(broker.Session); ok {
		return s.Describe().Name
	}
	return ""
}

func putQueue(q *request) (any, error) {
	o, err := q.object()
	if err != nil {
		return nil, err
	}
	if err := noNulls(o["arguments"]); err != nil {
		return nil, err
	}
	m, err := readQueue(q.PathValue("queue"), o)
	if err != nil {
		return nil, err
	}
	_, existed := q.vhost.Queue(m.Queue)
	return q.declared(existed, func(done func(error)) (bool, error) {
		_, wait, err := q.vhost.DeclareQueue(q.client(), m, done)
		return wait, err
	})
}

// readQueue reads a queue of PUT or of definitions.
func readQueue(name string, o object) (*frames.QueueDeclare, error) {
	m := &frames.QueueDeclare{Queue: name}
	var err error
	if err := booleans(o, []field[bool]{{"durable", &m.Durable}, {"auto_delete", &m.AutoDelete}}); err != nil {
		return nil, err
	}
	m.Arguments, err = jsonTable(o["arguments"])
	return m, err
}

func deleteQueue(q *request) (any, error) {
	u, err := q.queue()
	if err != nil {
		return nil, err
	}
	query := q.URL.Query()
	m := &frames.QueueDelete{Queue: u.Name, IfUnused: query.Get("if-unused") == "true", IfEmpty: query.Get("if-empty") == "true"}
	return nil, q.await(func(done func(error)) (bool, error) {
		_, wait, err := q.vhost.DeleteQueue(q.client(), m, done)
		return wait, err
	})
}

func purgeQueue(q *request) (any, error) {
	u, err := q.queue()
	if err != nil {
		return nil, err
	}
	return nil, q.await(func(done func(error)) (bool, error) {
		_, journaled, err := q.vhost.PurgeQueue(q.client(), u.Name)
		if journaled {
			q.api.broker.Settled(done)
		}
		return journaled, err
	})
}
