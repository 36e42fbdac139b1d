package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// The model: names and bindings in plain maps, and a router that looks at
// every binding.

type modelExchange struct {
	typ       string
	durable   bool
	auto      bool
	alternate string // "" for none
}

type modelQueue struct {
	durable bool
	owner   int // 0 for none, else the session that it is exclusive to
}

type modelBinding struct {
	source, destination, key, args string // args is a name in modelArguments
	toQueue                        bool
}

// modelArguments are the arguments that bindings are drawn from.
var modelArguments = map[string]frames.Table{
	"": nil, "all a": table("x-match", "all", "a", "1"), "any ab": table("x-match", "any", "a", "1", "b", "2"), "b": table("b", "2"),
}

// chooser draws numbers below n: rapid's, or a plain generator where a store
// makes rapid's many rounds too slow.
type chooser func(label string, n int) int

func of[T any](c chooser, label string, from ...T) T { return from[c(label, len(from))] }

// network is a virtual host, sessions of it, and the model.
type network struct {
	t         tester
	b         *Broker
	sessions  [2]*session
	exchanges map[string]modelExchange
	queues    map[string]modelQueue
	bindings  map[modelBinding]bool
}

func newNetwork(t tester, b *Broker) *network {
	n := &network{
		t: t, b: b, exchanges: map[string]modelExchange{}, queues: map[string]modelQueue{}, bindings: map[modelBinding]bool{},
	}
	n.login()
	return n
}

func (n *network) login() { n.sessions = [2]*session{guest(n.t, n.b), guest(n.t, n.b)} }

// expect compares an error with the model's.
func (n *network) expect(what string, err error, want string) {
	n.t.Helper()
	code, _, _ := strings.Cut(errorText(err), " ")
	if code != want {
		n.t.Fatalf("%s: %v, the model says %q", what, err, want)
	}
}

// exchangeName draws an exchange that is there, mostly.
func (n *network) exchangeName(c chooser) string {
	return existing(c, n.exchanges, "x0", "x1", "x2", "x3", "x4", "amq.topic", "amq.fanout")
}

// queueName draws a queue that is there, mostly.
func (n *network) queueName(c chooser) string { return existing(c, n.queues, "q0", "q1", "q2", "q3") }

func existing[V any](c chooser, there map[string]V, names ...string) string {
	if len(there) > 0 && c("existing", 4) > 0 {
		names = slices.Sorted(maps.Keys(there))
	}
	return of(c, "name", names...)
}

func (n *network) isExchange(name string) bool {
	_, ok := n.exchanges[name]
	return ok || strings.HasPrefix(name, "amq.")
}

func (n *network) typeOf(name string) string {
	if typ, ok := strings.CutPrefix(name, "amq."); ok {
		return typ
	}
	return n.exchanges[name].typ
}

func (n *network) declareExchange(c chooser) {
	name := of(c, "exchange", "x0", "x1", "x2", "x3", "x4", "amq.topic", "amq.fanout")
	x := modelExchange{
		typ: of(c, "type", "direct", "fanout", "topic", "headers"), durable: c("durable", 2) == 0, auto: c("auto-delete", 2) == 0,
	}
	m := frames.ExchangeDeclare{Exchange: name, Type: x.typ, Durable: x.durable, AutoDelete: x.auto}
	if c("alternate", 3) == 0 {
		x.alternate = n.exchangeName(c)
		m.Arguments = table("alternate-exchange", x.alternate)
	}
	want := ""
	cur, there := n.exchanges[name]
	switch {
	case strings.HasPrefix(name, "amq."):
		// Redeclared as it is, or refused; the alternate exchange counts.
		if x.typ != n.typeOf(name) || !x.durable || x.auto || x.alternate != "" {
			want = "406"
		}
	case there && cur != x:
		want = "406"
	default:
		n.exchanges[name] = x
	}
	n.expect(fmt.Sprintf("declare %s %+v", name, x), n.sessions[c("session", 2)].declareExchange(m), want)
}

func (n *network) deleteExchange(c chooser) {
	name, ifUnused := n.exchangeName(c), c("if-unused", 2) == 0
	want := ""
	switch {
	case strings.HasPrefix(name, "amq."):
		want = "403"
	case ifUnused && n.isExchange(name) && n.sourceOf(name) > 0:
		want = "406"
	case n.isExchange(name):
		n.dropExchange(name)
	}
	n.expect("delete exchange "+name, n.sessions[0].deleteExchange(frames.ExchangeDelete{Exchange: name, IfUnused: ifUnused}), want)
}

// sourceOf counts the bindings of which an exchange is the source.
func (n *network) sourceOf(name string) (count int) {
	for b := range n.bindings {
		if b.source == name {
			count++
		}
	}
	return count
}

func (n *network) dropExchange(name string) {
	delete(n.exchanges, name)
	n.dropBindings(func(b modelBinding) bool { return b.source == name || !b.toQueue && b.destination == name })
}

// dropBindings removes bindings, and auto-delete exchanges that lose their
// last binding as a source by it, with theirs in turn.
func (n *network) dropBindings(gone func(modelBinding) bool) {
	var sources []string
	for b := range n.bindings {
		if gone(b) {
			delete(n.bindings, b)
			sources = append(sources, b.source)
		}
	}
	for _, name := range sources {
		if x, ok := n.exchanges[name]; ok && x.auto && n.sourceOf(name) == 0 {
			n.dropExchange(name)
		}
	}
}

func (n *network) declareQueue(c chooser) {
	who := c("session", 2)
	name, q := of(c, "queue", "q0", "q1", "q2", "q3"), modelQueue{durable: c("durable", 2) == 0}
	exclusive := c("exclusive", 3) == 0
	if exclusive {
		q.owner = who + 1
	}
	m := frames.QueueDeclare{Queue: name, Durable: q.durable, Exclusive: exclusive}
	q.durable = q.durable && !exclusive // an exclusive queue is not durable, whatever was asked for
	cur, there := n.queues[name]
	want := ""
	switch {
	case there && cur.owner != q.owner:
		want = "405"
	case there && cur != q:
		want = "406"
	default:
		n.queues[name] = q
	}
	_, err := n.sessions[who].declareQueue(m)
	n.expect(fmt.Sprintf("declare %s %+v", name, q), err, want)
}

func (n *network) deleteQueue(c chooser) {
	who, name := c("session", 2), n.queueName(c)
	want := ""
	if q, ok := n.queues[name]; ok && q.owner != 0 && q.owner != who+1 {
		want = "405"
	} else if ok {
		n.dropQueue(name)
	}
	_, err := n.sessions[who].deleteQueue(frames.QueueDelete{Queue: name})
	n.expect("delete queue "+name, err, want)
}

func (n *network) dropQueue(name string) {
	delete(n.queues, name)
	n.dropBindings(func(b modelBinding) bool { return b.toQueue && b.destination == name })
}

// ownerGone ends a connection: its exclusive queues go.
func (n *network) ownerGone(c chooser) {
	who := c("session", 2)
	s := n.sessions[who]
	s.v.OwnerGone(s.c.Owner)
	n.sessions[who] = guest(n.t, n.b)
	for name, q := range n.queues {
		if q.owner == who+1 {
			n.dropQueue(name)
		}
	}
}

// consumerGone is an auto-delete queue that loses its only consumer.
func (n *network) consumerGone(c chooser) {
	name := of(c, "queue", "q0", "q1", "q2", "q3")
	if _, ok := n.queues[name]; ok {
		return
	}
	s := n.sessions[0]
	_, err := s.declareQueue(frames.QueueDeclare{Queue: name, AutoDelete: true, Durable: true})
	n.expect("declare", err, "")
	x := n.exchangeName(c)
	if n.isExchange(x) {
		n.expect("bind", s.bind(BindRequest{Source: x, Destination: name, ToQueue: true}), "")
		n.bindings[modelBinding{source: x, destination: name, toQueue: true}] = true
	}
	q, _ := s.v.Queue(name)
	s.v.ConsumerGone(q) // as the last consumer's channel does
	n.dropQueue(name)
}

// end draws a binding and says what the model thinks of its ends.
func (n *network) binding(c chooser, who int) (b modelBinding, r BindRequest, missing, locked bool) {
	b = modelBinding{source: n.exchangeName(c), toQueue: c("to", 2) == 0, key: of(c, "key", "", "a", "a.b", "*", "#", "q0")}
	b.args = of(c, "arguments", "", "", "all a", "any ab", "b")
	if b.toQueue {
		b.destination = n.queueName(c)
	} else {
		b.destination = n.exchangeName(c)
	}
	q, isQueue := n.queues[b.destination]
	missing = !n.isExchange(b.source) || b.toQueue && !isQueue || !b.toQueue && !n.isExchange(b.destination)
	locked = b.toQueue && q.owner != 0 && q.owner != who+1
	r = BindRequest{Source: b.source, Destination: b.destination, Key: b.key, ToQueue: b.toQueue, Arguments: modelArguments[b.args]}
	return b, r, missing, locked
}

func (n *network) bind(c chooser) {
	who := c("session", 2)
	b, r, missing, locked := n.binding(c, who)
	want := ""
	switch {
	case missing:
		want = "404"
	case locked:
		want = "405"
	default:
		n.bindings[b] = true
	}
	n.expect(fmt.Sprintf("bind %+v", b), n.sessions[who].bind(r), want)
}

func (n *network) unbind(c chooser) {
	who := c("session", 2)
	b, r, _, locked := n.binding(c, who)
	if len(n.bindings) > 0 && c("known", 2) > 0 { // most draws would meet nothing
		all := n.sortedBindings()
		b = all[c("binding", len(all))]
		r = BindRequest{Source: b.source, Destination: b.destination, Key: b.key, ToQueue: b.toQueue, Arguments: modelArguments[b.args]}
		q := n.queues[b.destination]
		locked = b.toQueue && q.owner != 0 && q.owner != who+1
	}
	want := ""
	switch {
	case !n.bindings[b]:
	case locked:
		want = "405"
	default:
		n.dropBindings(func(o modelBinding) bool { return o == b })
	}
	n.expect(fmt.Sprintf("unbind %+v", b), n.sessions[who].unbind(r), want)
}

func (n *network) sortedBindings() []modelBinding {
	var all []modelBinding
	for b := range n.bindings {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b modelBinding) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}

// steps are what can happen. What takes away is rarer than what adds, or
// hardly anything would be there.
func (n *network) steps() map[string]func(chooser) {
	return map[string]func(chooser){
		"declare exchange": n.declareExchange, "delete exchange": rarely(n.deleteExchange),
		"declare queue": n.declareQueue, "delete queue": rarely(n.deleteQueue),
		"owner gone": rarely(n.ownerGone), "consumer gone": n.consumerGone,
		"bind": n.bind, "bind more": n.bind, "bind on": n.bind, "unbind": n.unbind, "publish": n.publish, "publish more": n.publish,
	}
}

func rarely(step func(chooser)) func(chooser) {
	return func(c chooser) {
		if c("rarely", 6) == 0 {
			step(c)
		}
	}
}

// check compares the virtual host with the model, and its parts with each
// other.
func (n *network) check() {
	n.t.Helper()
	v := n.sessions[0].v
	var want, got []string
	for name, x := range n.exchanges {
		want = append(want, fmt.Sprint(name, x))
	}
	for _, x := range v.Exchanges() {
		if x.Name != "" && !strings.HasPrefix(x.Name, "amq.") {
			got = append(got, fmt.Sprint(x.Name, modelExchange{x.Type, x.Durable, x.AutoDelete, x.Alternate}))
		}
	}
	n.same("exchanges", want, got)
	want, got = nil, nil
	for name := range n.queues {
		want = append(want, name)
	}
	for _, q := range v.Queues() {
		got = append(got, q.Name)
		if q.Deleted() {
			n.t.Fatalf("queue %s is deleted and still there", q.Name)
		}
	}
	n.same("queues", want, got)
	n.checkBindings(v)
}

func (n *network) same(what string, want, got []string) {
	n.t.Helper()
	if diff := gocmp.Diff(sorted(want), sorted(got)); diff != "" {
		n.t.Fatalf("%s (-model +virtual host):\n%s", what, diff)
	}
}

func (n *network) checkBindings(v *VHost) {
	n.t.Helper()
	var want, got []string
	for b := range n.bindings {
		want = append(want, fmt.Sprint(b.source, b.toQueue, b.destination, b.key, sortedArguments(modelArguments[b.args])))
	}
	for _, b := range v.Bindings() {
		got = append(got, fmt.Sprint(b.Source, b.ToQueue(), b.Destination(), b.Key, sortedArguments(b.Arguments)))
	}
	n.same("bindings", want, got)

	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.topology.Load()
	fromDestinations := 0
	for d, set := range v.bindings.byDestination {
		fromDestinations += len(set)
		if d.queue != nil {
			if cur, ok := t.queues.Get(d.queue.Name); !ok || cur != d.queue {
				n.t.Fatalf("a binding leads to queue %s, which is not there", d.queue.Name)
			}
		} else if cur, ok := t.exchanges.Get(d.exchange.Name); !ok || cur.Exchange != d.exchange {
			n.t.Fatalf("a binding leads to exchange %s, which is not there", d.exchange.Name)
		}
	}
	if fromDestinations != len(got) {
		n.t.Fatalf("%d bindings by destination, %d by source", fromDestinations, len(got))
	}
	for name, x := range t.exchanges.All() {
		if x.matcher.Len() != len(v.bindings.bySource[name]) {
			n.t.Fatalf("exchange %s matches %d bindings of %d", name, x.matcher.Len(), len(v.bindings.bySource[name]))
		}
	}
	for owner, queues := range v.owned {
		for _, q := range queues {
			if q.Owner != owner || q.Deleted() {
				n.t.Fatalf("queue %s is listed for an owner it does not have", q.Name)
			}
		}
	}
}

func sorted(s []string) []string { slices.Sort(s); return s }

func TestTopologyFollowsModel(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		rapid.Check(t, func(rt *rapid.T) {
			b, err := Open(Options{Profile: p, Logger: discard})
			if err != nil {
				rt.Fatal(err)
			}
			defer func() {
				if err := b.Close(); err != nil {
					rt.Fatal(err)
				}
			}()
			n := newNetwork(rt, b)
			actions := map[string]func(*rapid.T){"": func(*rapid.T) { n.check() }}
			for name, step := range n.steps() {
				actions[name] = func(rt *rapid.T) {
					step(func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(rt, label) })
				}
			}
			rt.Repeat(actions)
		})
	})
}

// The exchange types of the model are all there are.
func TestModelKnowsTheExchangeTypes(t *testing.T) {
	for _, typ := range []string{exchange.TypeDirect, exchange.TypeFanout, exchange.TypeTopic, exchange.TypeHeaders} {
		if _, ok := exchange.New[int](typ, exchange.Options{}); !ok {
			t.Errorf("no exchange type %s", typ)
		}
	}
}
