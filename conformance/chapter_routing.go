package conformance

import (
	"fmt"

	"github.com/warrenmq/warren/conformance/wire"
)

// routes demands which of some keys one binding lets through: each key is published with itself as body.
func routes(t *T, kind, binding string, through, not []string) {
	ch := t.Channel()
	ch.Queue(t.Q)
	ch.Exchange(t.X, kind)
	ch.Bind(t.Q, t.X, binding)
	for _, keys := range [][]string{not, through, not} {
		for _, k := range keys {
			ch.Publish(t.X, k, k)
		}
	}
	ch.WantCount(t.Q, uint32(len(through)), 0)
	for i, k := range through {
		t.Equal("message", ch.Get(t.Q, true), Got{Tag: uint64(i + 1), Exchange: t.X, Key: k, Left: uint32(len(through) - 1 - i), Body: k})
	}
}

func directCases() []Case {
	return []Case{
		{ID: "routing/direct", Title: "direct: the key must be the same", Source: "spec 3.1.3.1", Class: Core, Run: func(t *T) {
			routes(t, "direct", "a.b", []string{"a.b"}, []string{"", "a", "A.B", "a.b.", "a.*", "#"})
		}},
		{ID: "routing/direct-pattern", Title: "direct: # and * are letters", Source: "spec 3.1.3.1", Class: Core, Run: func(t *T) {
			routes(t, "direct", "#", []string{"#"}, []string{"", "a", "*"})
		}},
		{ID: "routing/direct-empty", Title: "direct: the empty key is a key", Source: "spec 3.1.3.1", Class: Core, Run: func(t *T) {
			routes(t, "direct", "", []string{""}, []string{"a"})
		}},
		{ID: "routing/fanout", Title: "fanout: keys are ignored", Source: "spec 3.1.3.2", Class: Core, Run: func(t *T) {
			routes(t, "fanout", "k", []string{"", "k", "other"}, nil)
		}},
		{ID: "routing/fanout-all", Title: "fanout: one copy for each queue, one for a queue bound twice", Source: "spec 3.1.3.2", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Queue(t.Q2)
			ch.Exchange(t.X, "fanout")
			ch.Bind(t.Q, t.X, "a")
			ch.Bind(t.Q, t.X, "b")
			ch.Bind(t.Q2, t.X, "")
			ch.Publish(t.X, "k", "body")
			ch.WantCount(t.Q, 1, 0)
			ch.WantCount(t.Q2, 1, 0)
		}},
		{ID: "routing/direct-several", Title: "direct: every queue bound with the key gets a copy", Source: "spec 3.1.3.1", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Queue(t.Q2)
			for _, q := range []string{t.Q, t.Q2} {
				ch.Bind(q, "amq.direct", t.Key)
			}
			ch.Publish("amq.direct", t.Key, "body")
			ch.WantCount(t.Q, 1, 0)
			ch.WantCount(t.Q2, 1, 0)
		}},
	}
}

// topicRows are bindings with keys they let through and keys they do not.
var topicRows = []struct {
	binding      string
	through, not []string
}{
	{"#", []string{"", "a", "a.b", "..", ".", "a.b.c.d"}, nil},
	{"*", []string{"a", "ab"}, []string{"", "a.b", "."}},
	{"", []string{""}, []string{"a", "."}},
	{"*.*", []string{".", "a.", ".a", "a.b"}, []string{"a", "", "a.b.c"}},
	{"#.#", []string{"", "a", "a.b"}, nil},
	{"#.*", []string{"a", "a.b", "."}, []string{""}},
	{"*.#", []string{"a", "a.b", "."}, []string{""}},
	{"a.#", []string{"a", "a.b", "a."}, []string{"ab", "b", "b.a"}},
	{"#.a", []string{"a", "b.a", ".a", "c.b.a"}, []string{"ba", "a.b", "a."}},
	{"a.#.b", []string{"a.b", "a.c.b", "a.c.d.b"}, []string{"a", "b", "a.b.c"}},
	{"a..b", []string{"a..b"}, []string{"a.b", "a.x.b"}},
	{"a.*.b", []string{"a..b", "a.x.b"}, []string{"a.b", "a.x.y.b"}},
	{"#.b.#", []string{"b", "a.b", "b.a", "a.b.c"}, []string{"a", "bb", ""}},
	{"a*", []string{"a*"}, []string{"a", "ab"}},
	{"a#.b", []string{"a#.b"}, []string{"a.b", "ax.b"}},
	{"A.b", []string{"A.b"}, []string{"a.b", "A.B"}},
	{"*.b.*", []string{"a.b.c", ".b."}, []string{"b", "a.b", "b.c"}},
	{"#.*.#", []string{"a", "a.b", "."}, []string{""}},
	{"a.#.#.b", []string{"a.b", "a.x.b", "a.x.y.b"}, []string{"a", "b"}},
	{"*.#.*", []string{"a.b", "a.b.c", "."}, []string{"a", ""}},
	{"quick.orange.rabbit", []string{"quick.orange.rabbit"}, []string{"quick.orange", "quick.orange.rabbit.male", "quick.orange.fox"}},
	{"ключ.*", []string{"ключ.ж"}, []string{"ключ", "ключ.a.b"}},
}

func topicCases() []Case {
	var cases []Case
	for _, r := range topicRows {
		cases = append(cases, Case{ID: fmt.Sprintf("topic/%q", r.binding), Title: fmt.Sprintf("topic binding %q", r.binding),
			Source: "spec 3.1.3.3, behaviour 4", Class: Core, Run: func(t *T) { routes(t, "topic", r.binding, r.through, r.not) }})
	}
	return append(cases,
		Case{ID: "topic/unbind", Title: "an unbound pattern lets nothing through, others still do", Source: "spec 3.1.3.3", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X, "topic")
			for _, b := range []string{"a.*", "a.#", "*.b"} {
				ch.Bind(t.Q, t.X, b)
			}
			ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, RoutingKey: "a.#"}, wire.QueueUnbindOk{})
			ch.Publish(t.X, "a.b.c", "lost")
			ch.WantCount(t.Q, 0, 0)
			ch.Publish(t.X, "a.c", "one")
			ch.Call(wire.QueueUnbind{Queue: t.Q, Exchange: t.X, RoutingKey: "a.*"}, wire.QueueUnbindOk{})
			ch.Publish(t.X, "a.c", "lost")
			ch.Publish(t.X, "a.b", "two")
			ch.WantCount(t.Q, 2, 0)
		}},
		Case{ID: "topic/several-queues", Title: "patterns that share a beginning, for several queues", Source: "spec 3.1.3.3", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Queue(t.Q2)
			ch.Exchange(t.X, "topic")
			ch.Bind(t.Q, t.X, "a.b.*")
			ch.Bind(t.Q2, t.X, "a.b.#")
			ch.Publish(t.X, "a.b", "q2 only")
			ch.Publish(t.X, "a.b.c", "both")
			ch.WantCount(t.Q, 1, 0)
			ch.WantCount(t.Q2, 2, 0)
		}},
		Case{ID: "topic/amq.topic", Title: "amq.topic is a topic exchange", Source: "spec 3.1.3.3", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Bind(t.Q, "amq.topic", t.Key+".*")
			ch.Publish("amq.topic", t.Key+".x", "in")
			ch.Publish("amq.topic", t.Key, "out")
			ch.WantGet(t.Q, "in", 0)
		}},
	)
}

func alternateCases() []Case {
	const source = "rabbitmq: alternate exchanges, behaviour 4"
	alternate := func(x string) wire.Field { return wire.Field{Key: "alternate-exchange", Value: x} }
	return []Case{
		{ID: "alternate/unroutable", Title: "what routes nowhere goes to the alternate, under its first name and key", Source: source, Class: Extension,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q)
				ch.Queue(t.Q2)
				ch.Exchange(t.X2, "fanout")
				ch.Bind(t.Q2, t.X2, "")
				ch.Exchange(t.X, "direct", alternate(t.X2))
				ch.Bind(t.Q, t.X, "k")
				ch.Publish(t.X, "k", "routed")
				ch.Publish(t.X, "other", "stray")
				ch.WantGet(t.Q, "routed", 0)
				t.Equal("stray", ch.Get(t.Q2, true), Got{Tag: 2, Exchange: t.X, Key: "other", Body: "stray"})
			}},
		{ID: "alternate/chain", Title: "alternates chain", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			last := t.X + "-last"
			ch.Exchange(last, "fanout")
			ch.Bind(t.Q, last, "")
			ch.Exchange(t.X2, "direct", alternate(last))
			ch.Exchange(t.X, "direct", alternate(t.X2))
			ch.Publish(t.X, "k", "body")
			ch.WantGet(t.Q, "body", 0)
		}},
		{ID: "alternate/loop", Title: "a loop of alternates ends: the message is unroutable", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "direct", alternate(t.X2))
			ch.Exchange(t.X2, "direct", alternate(t.X))
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: "k", Mandatory: true}, wire.Properties{}, "body")
			ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Exchange: t.X, Key: "k", Body: "body"})
		}},
		{ID: "alternate/default-exchange", Title: "an alternate's own kind decides: direct by the first key", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X2, "direct")
			ch.Bind(t.Q, t.X2, "k")
			ch.Exchange(t.X, "direct", alternate(t.X2))
			ch.Publish(t.X, "k", "in")
			ch.Publish(t.X, "other", "lost")
			ch.WantGet(t.Q, "in", 0)
		}},
		{ID: "alternate/inner", Title: "an exchange reached through a binding uses its own alternate", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			inner := t.X + "-inner"
			ch.Exchange(t.X2, "fanout")
			ch.Bind(t.Q, t.X2, "")
			ch.Exchange(inner, "direct", alternate(t.X2))
			ch.Exchange(t.X, "fanout")
			ch.bindExchange(inner, t.X, "")
			ch.Publish(t.X, "k", "body")
			ch.WantGet(t.Q, "body", 0)
		}},
		{ID: "alternate/internal", Title: "an internal exchange may be bound to and be an alternate", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Call(wire.ExchangeDeclare{Exchange: t.X2, Type: "fanout", Internal: true}, wire.ExchangeDeclareOk{})
			ch.Bind(t.Q, t.X2, "")
			ch.Exchange(t.X, "topic", alternate(t.X2))
			ch.bindExchange(t.X2, t.X, "bound")
			ch.Publish(t.X, "bound", "one")
			ch.Publish(t.X, "stray", "two")
			ch.WantGet(t.Q, "one", 1)
			ch.WantGet(t.Q, "two", 0)
		}},
	}
}
