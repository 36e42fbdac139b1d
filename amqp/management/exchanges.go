package management

import (
	"strings"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

// defaultExchange is the default exchange's name in paths.
const defaultExchange = "amq.default"

func exchangeObject(v *broker.VHost, x *broker.Exchange) object {
	o := object{
		"name": x.Name, "vhost": v.Name, "type": x.Type, "durable": x.Durable, "auto_delete": x.AutoDelete, "internal": x.Internal,
		"arguments": tableJSON(x.Arguments), "user_who_performed_action": "rmq-internal",
	}
	if policy, _, _ := v.ExchangePolicies(x.Name); policy != "" {
		o["policy"] = policy
	}
	return o
}

func listExchanges(q *request) (any, error) {
	all := []object{}
	for _, v := range q.vhosts() {
		for _, x := range v.Exchanges() {
			all = append(all, exchangeObject(v, x))
		}
	}
	sortNames(all)
	return q.list(all)
}

// exchangeName is the name that a path means.
func exchangeName(path string) string {
	if path == defaultExchange {
		return ""
	}
	return path
}

func (q *request) exchange() (*broker.Exchange, error) {
	x, ok := q.vhost.Exchange(exchangeName(q.PathValue("exchange")))
	if !ok {
		return nil, errNotFound
	}
	return x, nil
}

func getExchange(q *request) (any, error) {
	x, err := q.exchange()
	if err != nil {
		return nil, err
	}
	o := exchangeObject(q.vhost, x)
	o["incoming"], o["outgoing"] = []any{}, []any{}
	return q.one(o)
}

func putExchange(q *request) (any, error) {
	o, err := q.object()
	if err != nil {
		return nil, err
	}
	if err := noNulls(o["arguments"]); err != nil {
		return nil, err
	}
	m, err := readExchange(q.PathValue("exchange"), o)
	if err != nil {
		return nil, err
	}
	_, existed := q.vhost.Exchange(m.Exchange)
	return q.declared(existed, func(done func(error)) (bool, error) { return q.vhost.DeclareExchange(q.client(), m, done) })
}

// declared does a declaration. One that is refused for its kind is a bad
// request, whatever a client of AMQP would be told.
func (q *request) declared(existed bool, declare func(done func(error)) (bool, error)) (any, error) {
	if err := q.await(declare); err != nil {
		return nil, err
	}
	return q.created(existed)
}

// readExchange reads an exchange of PUT or of definitions.
func readExchange(name string, o object) (*frames.ExchangeDeclare, error) {
	m := &frames.ExchangeDeclare{Exchange: exchangeName(name), Type: "direct"}
	var err error
	if _, ok := o["type"]; ok {
		if m.Type, err = text(o, "type"); err != nil {
			return nil, err
		}
	}
	if err := booleans(o, []field[bool]{{"durable", &m.Durable}, {"auto_delete", &m.AutoDelete}, {"internal", &m.Internal}}); err != nil {
		return nil, err
	}
	m.Arguments, err = jsonTable(o["arguments"])
	return m, err
}

func deleteExchange(q *request) (any, error) {
	x, err := q.exchange()
	if err != nil {
		return nil, err
	}
	m := &frames.ExchangeDelete{Exchange: x.Name, IfUnused: q.URL.Query().Get("if-unused") == "true"}
	return nil, q.await(func(done func(error)) (bool, error) { return q.vhost.DeleteExchange(q.client(), m, done) })
}

// sortNames orders a listing by virtual host and name.
func sortNames(all []object) {
	sortBy(all, "name", false)
	sortBy(all, "vhost", false)
}

// system says whether an exchange is one of those that every virtual host has.
func system(x *broker.Exchange) bool { return x.Name == "" || strings.HasPrefix(x.Name, "amq.") }
