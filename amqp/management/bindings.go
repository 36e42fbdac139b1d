package management

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

// binding is one binding as the API shows it, also the implicit one of the
// default exchange.
type binding struct {
	vhost, source, destination, key string
	toQueue                         bool
	arguments                       frames.Table
}

func (b *binding) object() object {
	kind := "exchange"
	if b.toQueue {
		kind = "queue"
	}
	return object{
		"source": b.source, "vhost": b.vhost, "destination": b.destination, "destination_type": kind, "routing_key": b.key,
		"arguments": tableJSON(b.arguments), "properties_key": b.properties(),
	}
}

// properties names a binding among those of its two ends: the routing key, and
// a hash if there are arguments.
func (b *binding) properties() string {
	key := "~"
	if b.key != "" {
		key = escape(b.key)
	}
	if len(b.arguments) == 0 {
		return key
	}
	if b.key == "" {
		key = ""
	}
	sum := sha256.Sum256(b.arguments.Append(nil))
	return key + "~" + base64.RawURLEncoding.EncodeToString(sum[:6])
}

// escape percent-encodes as RabbitMQ does, ~ included, which has a meaning of
// its own here.
func escape(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(s), "+", "%20"), "~", "%7E")
}

// bindings lists those of a virtual host, the implicit ones first, and in
// order.
func bindingsOf(v *broker.VHost) (all []binding) {
	for _, u := range v.Queues() {
		all = append(all, binding{vhost: v.Name, destination: u.Name, key: u.Name, toQueue: true})
	}
	for _, b := range v.Bindings() {
		all = append(all, binding{v.Name, b.Source, b.Destination(), b.Key, b.ToQueue(), b.Arguments})
	}
	slices.SortFunc(all, func(a, b binding) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.destination, b.destination), cmp.Compare(a.key, b.key))
	})
	return all
}

func (q *request) bindings(keep func(*binding) bool) (any, error) {
	all := []object{}
	for _, v := range q.vhosts() {
		for _, b := range bindingsOf(v) {
			if keep(&b) {
				all = append(all, b.object())
			}
		}
	}
	return q.list(all)
}

func listBindings(q *request) (any, error) { return q.bindings(func(*binding) bool { return true }) }

func queueBindings(q *request) (any, error) {
	u, err := q.queue()
	if err != nil {
		return nil, err
	}
	return q.bindings(func(b *binding) bool { return b.toQueue && b.destination == u.Name })
}

func bindingsFrom(q *request) (any, error) {
	name := exchangeName(q.PathValue("exchange")) // which need not exist, as in RabbitMQ
	return q.bindings(func(b *binding) bool { return b.source == name })
}

func bindingsTo(q *request) (any, error) {
	name := exchangeName(q.PathValue("exchange"))
	return q.bindings(func(b *binding) bool { return !b.toQueue && b.destination == name })
}

// ends reads both ends of a binding from the path.
func (q *request) ends() (r broker.BindRequest, err error) {
	r = broker.BindRequest{Source: exchangeName(q.PathValue("source")), Destination: q.PathValue("destination")}
	switch q.PathValue("kind") {
	case "q":
		r.ToQueue = true
	case "e":
		r.Destination = exchangeName(r.Destination)
	default:
		return r, errNotFound
	}
	return r, nil
}

func (q *request) between(r *broker.BindRequest) (all []binding) {
	for _, b := range bindingsOf(q.vhost) {
		if b.source == r.Source && b.destination == r.Destination && b.toQueue == r.ToQueue {
			all = append(all, b)
		}
	}
	return all
}

func bindingsBetween(q *request) (any, error) {
	r, err := q.ends()
	if err != nil {
		return nil, err
	}
	all := []object{}
	for _, b := range q.between(&r) {
		all = append(all, b.object())
	}
	return q.list(all)
}

func addBinding(q *request) (any, error) {
	r, err := q.ends()
	if err != nil {
		return nil, err
	}
	o, err := q.object()
	if err != nil {
		return nil, err
	}
	if err := noNulls(o["arguments"]); err != nil {
		return nil, err
	}
	if r.Key, err = text(o, "routing_key"); err != nil {
		return nil, err
	}
	if r.Arguments, err = jsonTable(o["arguments"]); err != nil {
		return nil, err
	}
	if err := q.await(func(done func(error)) (bool, error) { return q.vhost.Bind(q.client(), r, done) }); err != nil {
		return nil, err
	}
	b := binding{q.vhost.Name, r.Source, r.Destination, r.Key, r.ToQueue, r.Arguments}
	q.header.Set("Location", escape(r.Destination)+"/"+url.PathEscape(b.properties()))
	q.status = http.StatusCreated
	return nil, nil
}

// pathBinding finds the binding that the path names.
func (q *request) pathBinding() (*binding, *broker.BindRequest, error) {
	r, err := q.ends()
	if err != nil {
		return nil, nil, err
	}
	for _, b := range q.between(&r) {
		// The name has an escape of its own, which clients may leave out.
		plain, err := url.PathUnescape(b.properties())
		if given := q.PathValue("props"); b.properties() == given || err == nil && plain == given {
			r.Key, r.Arguments = b.key, b.arguments
			return &b, &r, nil
		}
	}
	return nil, nil, errNotFound
}

func getBinding(q *request) (any, error) {
	b, _, err := q.pathBinding()
	if err != nil {
		return nil, err
	}
	return q.one(b.object())
}

func deleteBinding(q *request) (any, error) {
	_, r, err := q.pathBinding()
	if err != nil {
		return nil, err
	}
	return nil, q.await(func(done func(error)) (bool, error) { return q.vhost.Unbind(q.client(), *r, done) })
}
