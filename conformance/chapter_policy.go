package conformance

import (
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// settings is the definition of a policy.
type settings map[string]any

// policy puts a policy for the queue or exchange of exactly this name, to be deleted after the case. Its name is that
// of the object with the suffix.
func (t *T) policy(object, suffix string, priority int, d settings) {
	t.putPolicy(Policy{Name: object + suffix, Pattern: "^" + object + "$", ApplyTo: "all", Priority: priority, Definition: d})
}

func (t *T) putPolicy(p Policy) {
	t.Must(t.Admin.PutPolicy(t.VHost, p))
	t.Cleanup(func() { t.dropPolicy(p.Name) })
}

func (t *T) dropPolicy(name string) {
	if err := t.Admin.DeletePolicy(t.VHost, name); err != nil {
		t.Errorf("delete policy: %v", err)
	}
}

// operatorPolicy is policy for an operator policy on a queue.
func (t *T) operatorPolicy(object string, d settings) {
	p := Policy{Name: object + "-op", Pattern: "^" + object + "$", ApplyTo: "queues", Definition: d}
	t.Must(t.Admin.PutOperatorPolicy(t.VHost, p))
	t.Cleanup(func() { t.dropOperatorPolicy(p.Name) })
}

func (t *T) dropOperatorPolicy(name string) {
	if err := t.Admin.DeleteOperatorPolicy(t.VHost, name); err != nil {
		t.Errorf("delete operator policy: %v", err)
	}
}

// sent publishes bodies to a queue and waits until they are there.
func (ch *Chan) sent(q string, bodies ...string) {
	for _, b := range bodies {
		ch.Confirmed(func(other *Chan) { other.Publish("", q, b) })
	}
}

func policyCases() []Case {
	return append(append(append(policyMatchCases(), policyMergeCases()...), policyDeathCases()...), policyTimeCases()...)
}

// policyCase makes a case that has one connection's channel.
func policyCase(id, title string, class Class, run func(t *T, ch *Chan)) Case {
	return Case{ID: "policy/" + id, Title: title, Source: "rabbitmq: policies, behaviour 7.6", Class: class, NeedsAdmin: true,
		Run: func(t *T) { run(t, t.Channel()) }}
}

// policyMatchCases: which policy a queue has, and from when on.
func policyMatchCases() []Case {
	one := func(id, title string, run func(t *T, ch *Chan)) Case { return policyCase(id, title, Extension, run) }
	return []Case{
		one("existing", "a policy holds for a queue that is there: it is trimmed at once", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.sent(t.Q, "a", "b", "c", "d")
			t.policy(t.Q, "", 0, settings{"max-length": 2})
			ch.WantCount(t.Q, 2, 0)
			ch.wantReady(t.Q, "c", "d")
		}),
		one("existing-bytes", "the same by bytes", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.sent(t.Q, "aaa", "b", "cc")
			t.policy(t.Q, "", 0, settings{"max-length-bytes": 3})
			ch.WantCount(t.Q, 2, 0)
			ch.wantReady(t.Q, "b", "cc")
		}),
		one("before", "a policy that was there before holds for a queue that is declared", func(t *T, ch *Chan) {
			t.policy(t.Q, "", 0, settings{"max-length": 1})
			ch.Queue(t.Q)
			ch.sent(t.Q, "a", "b")
			ch.wantReady(t.Q, "b")
		}),
		one("exclusive", "exclusive queues have policies too", func(t *T, ch *Chan) {
			t.policy(t.Q, "", 0, settings{"max-length": 1})
			ch.Call(wire.QueueDeclare{Queue: t.Q, Exclusive: true}, wire.QueueDeclareOk{Queue: t.Q})
			ch.sent(t.Q, "a", "b")
			ch.wantReady(t.Q, "b")
		}),
		one("changed", "a change holds at once", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			t.policy(t.Q, "", 0, settings{"max-length": 3})
			ch.sent(t.Q, "a", "b", "c", "d")
			ch.WantCount(t.Q, 3, 0)
			t.policy(t.Q, "", 0, settings{"max-length": 1})
			ch.WantCount(t.Q, 1, 0)
			ch.wantReady(t.Q, "d")
		}),
		one("deleted", "a policy that is deleted holds no more", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			t.policy(t.Q, "", 0, settings{"max-length": 1})
			ch.sent(t.Q, "a", "b")
			t.dropPolicy(t.Q)
			ch.sent(t.Q, "c")
			ch.wantReady(t.Q, "b", "c")
		}),
		one("priority", "the policy of the highest priority counts, alone: nothing is merged", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			t.policy(t.Q, "-low", 1, settings{"max-length": 1})
			t.policy(t.Q, "-high", 2, settings{"max-length-bytes": 100})
			t.policy(t.Q, "-negative", -1, settings{"max-length": 0})
			ch.sent(t.Q, "a", "b")
			ch.WantCount(t.Q, 2, 0)
			t.dropPolicy(t.Q + "-high")
			ch.WantCount(t.Q, 1, 0)
			ch.wantReady(t.Q, "b")
		}),
		one("pattern", "the pattern is found anywhere in the name", func(t *T, ch *Chan) {
			ch.Queue(t.Q + "-one")
			ch.Queue(t.Q2 + "-one")
			t.putPolicy(Policy{Name: t.Q, Pattern: t.Q[1:] + "-o", ApplyTo: "queues", Definition: settings{"max-length": 0}})
			ch.sent(t.Q+"-one", "a")
			ch.sent(t.Q2+"-one", "a")
			ch.WantEmpty(t.Q + "-one")
			ch.wantReady(t.Q2+"-one", "a")
		}),
		one("apply-to", "a policy for exchanges is none for queues", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			t.putPolicy(Policy{Name: t.Q, Pattern: "^" + t.Q, ApplyTo: "exchanges", Priority: 9, Definition: settings{"max-length": 0}})
			t.putPolicy(Policy{Name: t.Q2, Pattern: "^" + t.Q, ApplyTo: "queues", Priority: 1, Definition: settings{"max-length": 2}})
			ch.sent(t.Q, "a", "b", "c")
			ch.wantReady(t.Q, "b", "c")
		}),
		{ID: "policy/apply-to-type", Title: "a policy may be for one type of queue", Source: "rabbitmq: policies, behaviour 7.6", Class: Extension,
			NeedsAdmin: true, Profiles: []int{Profile4}, Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q)
				for i, to := range []string{"classic_queues", "quorum_queues", "streams"} {
					d := settings{"max-length-bytes": i + 1}
					t.putPolicy(Policy{Name: t.Q + to, Pattern: "^" + t.Q, ApplyTo: to, Priority: i, Definition: d})
				}
				ch.sent(t.Q, "a", "b", "c")
				ch.wantReady(t.Q, "c")
			}},
		one("unfit", "a policy with a key that the type of queue cannot have is not for it, whatever its other keys", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			t.policy(t.Q, "-high", 2, settings{"max-length": 1, "delivery-limit": 3})
			t.policy(t.Q, "-low", 1, settings{"max-length": 2})
			ch.sent(t.Q, "a", "b", "c")
			ch.wantReady(t.Q, "b", "c")
		}),
		one("equivalence", "policies have no part in the equivalence of declarations", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			t.policy(t.Q, "", 0, settings{"max-length": 5, "message-ttl": 600_000, "dead-letter-exchange": "x"})
			ch.Queue(t.Q)
			ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true, Arguments: wire.Table{maxLength(5)}})
			ch.WantClosing(soft(406, wire.QueueDeclare{}, "inequivalent arg 'x-max-length' for {q}: received the value '5' of type 'long' but current is none"))
		}),
	}
}

// policyMergeCases: policies with arguments and with operator policies.
func policyMergeCases() []Case {
	// keeps: with arguments, a policy and an operator policy, of a to e these stay.
	keeps := func(id, title, stay string, arguments []wire.Field, policy, operator settings) Case {
		return policyCase(id, title, Extension, func(t *T, ch *Chan) {
			ch.Queue(t.Q, arguments...)
			if policy != nil {
				t.policy(t.Q, "", 0, policy)
			}
			if operator != nil {
				t.operatorPolicy(t.Q, operator)
			}
			ch.sent(t.Q, "a", "b", "c", "d", "e")
			bodies := []string{}
			for _, b := range stay {
				bodies = append(bodies, string(b))
			}
			ch.wantReady(t.Q, bodies...)
		})
	}
	args := func(f ...wire.Field) []wire.Field { return f }
	cases := []Case{
		keeps("argument-lesser", "of two lengths the lesser counts: the argument's", "de", args(maxLength(2)), settings{"max-length": 3}, nil),
		keeps("argument-greater", "of two lengths the lesser counts: the policy's", "cde", args(maxLength(4)), settings{"max-length": 3}, nil),
		keeps("argument-bytes", "the same of bytes", "de", args(maxBytes(4)), settings{"max-length-bytes": 2}, nil),
		keeps("argument-other", "different keys add up", "de", args(maxLength(3)), settings{"max-length-bytes": 2}, nil),
		keeps("argument-overflow", "of two overflow modes the argument's counts", "de", args(overflow("drop-head")),
			settings{"overflow": "reject-publish", "max-length": 2}, nil),
		keeps("operator", "an operator policy without a policy", "de", nil, nil, settings{"max-length": 2}),
		keeps("operator-lesser", "with a policy the lesser counts", "de", nil, settings{"max-length": 3}, settings{"max-length": 2}),
		keeps("operator-greater", "also when it is the policy's", "de", nil, settings{"max-length": 2}, settings{"max-length": 3}),
		keeps("operator-other", "different keys add up", "de", nil, settings{"max-length": 3}, settings{"max-length-bytes": 2}),
		keeps("operator-argument", "and with the argument", "e", args(maxLength(1)), settings{"max-length": 3}, settings{"max-length": 2}),
		policyCase("overflow", "an overflow mode by policy: basic.nack", Extension, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			t.policy(t.Q, "", 0, settings{"max-length": 2, "overflow": "reject-publish"})
			ch.Confirm()
			ch.Publish("", t.Q, "a", "b", "c")
			ch.WantSettled(3, 3)
			ch.wantReady(t.Q, "a", "b")
		}),
		policyCase("overflow-changed", "with drop-head again what is too much goes", Extension, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.sent(t.Q, "a", "b", "c")
			t.policy(t.Q, "", 0, settings{"max-length": 5, "overflow": "reject-publish"})
			t.policy(t.Q, "", 0, settings{"max-length": 2, "overflow": "reject-publish"})
			ch.WantCount(t.Q, 3, 0)
			t.policy(t.Q, "", 0, settings{"max-length": 1})
			ch.WantCount(t.Q, 1, 0)
			ch.wantReady(t.Q, "c")
		}),
		policyCase("overflow-first", "a queue that is given a length and reject-publish at once is trimmed first", Extension, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.sent(t.Q, "a", "b", "c")
			t.policy(t.Q, "", 0, settings{"max-length": 2, "overflow": "reject-publish"})
			ch.WantCount(t.Q, 2, 0)
			ch.Confirm()
			ch.Publish("", t.Q, "d")
			ch.WantSettled(1, 1)
			ch.wantReady(t.Q, "b", "c")
		}),
		policyCase("operator-deleted", "an operator policy that is deleted holds no more", Extension, func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			t.operatorPolicy(t.Q, settings{"max-length": 1})
			ch.sent(t.Q, "a", "b")
			t.dropOperatorPolicy(t.Q + "-op")
			// 3.10.8 has the queue told some time later.
			for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(getInterval) {
				ch.sent(t.Q, "c")
				ch.Send(wire.QueueDeclare{Queue: t.Q, Passive: true})
				if n := ch.wantType(wire.QueueDeclareOk{}).(wire.QueueDeclareOk).MessageCount; n > 1 {
					return
				}
			}
			t.Fatalf("the queue is limited still after %v", patience)
		}),
	}
	// quorum declares a quorum queue that goes after the case.
	quorum := func(t *T, ch *Chan, arguments ...wire.Field) {
		all := append(wire.Table{{Key: "x-queue-type", Value: "quorum"}}, arguments...)
		ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Durable: true, Arguments: all})
	}
	cases = append(cases,
		policyCase("quorum-overflow", "on quorum queues the overflow mode of the policy counts", Extension, func(t *T, ch *Chan) {
			t.policy(t.Q, "", 0, settings{"overflow": "drop-head"})
			quorum(t, ch, maxLength(2), overflow("reject-publish"))
			ch.sent(t.Q, "a", "b", "c", "d", "e")
			ch.WantCount(t.Q, 2, 0)
			ch.wantReady(t.Q, "d", "e")
		}),
		policyCase("quorum-delivery-limit", "of two delivery limits the lesser counts", Extension, func(t *T, ch *Chan) {
			t.policy(t.Q, "", 0, settings{"delivery-limit": 1})
			quorum(t, ch, wire.Field{Key: "x-delivery-limit", Value: int32(5)})
			ch.sent(t.Q, "a")
			for range 2 {
				ch.Send(wire.BasicReject{DeliveryTag: ch.Get(t.Q, false).Tag, Requeue: true})
			}
			ch.WantCount(t.Q, 0, 0)
		}),
	)
	four := policyCase("operator-overflow", "of two overflow modes the operator's counts", Extension, func(t *T, ch *Chan) {
		ch.Queue(t.Q)
		t.policy(t.Q, "", 0, settings{"max-length": 2, "overflow": "drop-head"})
		t.operatorPolicy(t.Q, settings{"overflow": "reject-publish"})
		ch.Confirm()
		ch.Publish("", t.Q, "a", "b", "c")
		ch.WantSettled(3, 3)
		ch.wantReady(t.Q, "a", "b")
	})
	four.Profiles = []int{Profile4}
	return append(cases, four)
}

// policyDeathCases: exchanges by policy, dead-letter and alternate.
func policyDeathCases() []Case {
	one := func(id, title string, run func(t *T, ch *Chan)) Case { return policyCase(id, title, Extension, run) }
	// grave declares Q2 bound to the fanout exchange X.
	grave := func(t *T, ch *Chan) {
		ch.Exchange(t.X, "fanout")
		ch.Queue(t.Q2)
		ch.Bind(t.Q2, t.X, "")
	}
	return []Case{
		one("dead-letter", "a dead-letter exchange by policy, for messages that were there before too", func(t *T, ch *Chan) {
			grave(t, ch)
			ch.Queue(t.Q)
			ch.sent(t.Q, "a")
			t.policy(t.Q, "", 0, settings{"dead-letter-exchange": t.X})
			ch.rejectNext(t.Q)
			got := ch.AwaitGet(t.Q2)
			t.Equal("dead letter", []string{got.Body, got.Exchange, got.Key}, []string{"a", t.X, t.Q})
			t.wantDead(got.Properties, deadHeaders{deaths: []Death{t.died("rejected")}})
		}),
		one("dead-letter-maxlen", "what a policy's length drops goes to the dead-letter exchange of the argument", func(t *T, ch *Chan) {
			ch, dead := t.graveyard()
			ch.sent(t.Q, "a", "b", "c")
			t.policy(t.Q, "", 0, settings{"max-length": 1})
			got := dead.Delivery()
			t.wantDead(got.Properties, deadHeaders{deaths: []Death{t.died("maxlen")}})
			t.Equal("dead letter", got.Body, "a")
			dead.WantBodies("b")
			ch.wantReady(t.Q, "c")
		}),
		one("dead-letter-key", "and a routing key", func(t *T, ch *Chan) {
			grave(t, ch)
			ch.Queue(t.Q)
			t.policy(t.Q, "", 0, settings{"dead-letter-exchange": t.X, "dead-letter-routing-key": "other"})
			ch.sent(t.Q, "a")
			ch.rejectNext(t.Q)
			t.Equal("routing key", ch.AwaitGet(t.Q2).Key, "other")
		}),
		one("dead-letter-argument", "the argument counts more", func(t *T, ch *Chan) {
			grave(t, ch)
			ch.Queue(t.Q, deadTo(t.X)...)
			t.policy(t.Q, "", 0, settings{"dead-letter-exchange": "nowhere"})
			ch.sent(t.Q, "a")
			ch.rejectNext(t.Q)
			t.Equal("dead letter", ch.AwaitGet(t.Q2).Body, "a")
		}),
		one("dead-letter-mixed", "exchange of the argument, key of the policy", func(t *T, ch *Chan) {
			grave(t, ch)
			ch.Queue(t.Q, deadTo(t.X)...)
			t.policy(t.Q, "", 0, settings{"dead-letter-routing-key": "other"})
			ch.sent(t.Q, "a")
			ch.rejectNext(t.Q)
			t.Equal("routing key", ch.AwaitGet(t.Q2).Key, "other")
		}),
		one("dead-letter-deleted", "without the policy dead messages are gone", func(t *T, ch *Chan) {
			grave(t, ch)
			ch.Queue(t.Q)
			t.policy(t.Q, "", 0, settings{"dead-letter-exchange": t.X})
			ch.sent(t.Q, "a", "b")
			ch.rejectNext(t.Q)
			t.Equal("dead letter", ch.AwaitGet(t.Q2).Body, "a")
			t.dropPolicy(t.Q)
			ch.rejectNext(t.Q)
			ch.WantCount(t.Q, 0, 0)
			ch.WantEmpty(t.Q2)
		}),
		one("alternate", "an alternate exchange by policy, while it is there", func(t *T, ch *Chan) {
			ch.Exchange(t.X2, "direct")
			grave(t, ch)
			t.policy(t.X2, "", 0, settings{"alternate-exchange": t.X})
			publish := wire.BasicPublish{Exchange: t.X2, RoutingKey: "k", Mandatory: true}
			ch.PublishWith(publish, wire.Properties{}, "a")
			t.Equal("message", ch.AwaitGet(t.Q2).Body, "a")
			t.dropPolicy(t.X2)
			ch.PublishWith(publish, wire.Properties{}, "b")
			ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Exchange: t.X2, Key: "k", Body: "b"})
			ch.WantEmpty(t.Q2)
		}),
		one("alternate-before", "a policy that was there before, and a binding made meanwhile", func(t *T, ch *Chan) {
			t.policy(t.X2, "", 0, settings{"alternate-exchange": t.X})
			ch.Exchange(t.X2, "direct")
			grave(t, ch)
			ch.Queue(t.Q)
			ch.Bind(t.Q, t.X2, "bound")
			ch.Publish(t.X2, "k", "a")
			ch.Publish(t.X2, "bound", "b")
			t.Equal("message", ch.AwaitGet(t.Q2).Body, "a")
			t.Equal("message", ch.AwaitGet(t.Q).Body, "b")
			ch.WantEmpty(t.Q2)
		}),
		one("alternate-argument", "the argument counts more", func(t *T, ch *Chan) {
			grave(t, ch)
			t.policy(t.X2, "", 0, settings{"alternate-exchange": "nowhere"})
			ch.Exchange(t.X2, "direct", wire.Field{Key: "alternate-exchange", Value: t.X})
			ch.Publish(t.X2, "k", "a")
			t.Equal("message", ch.AwaitGet(t.Q2).Body, "a")
		}),
	}
}

// policyTimeCases: time to live and expiry by policy.
func policyTimeCases() []Case {
	timed := func(id, title string, run func(t *T, ch *Chan)) Case { return policyCase(id, title, Timing, run) }
	// 3.10.8 stops its timer with the policy: there such a message goes when something else happens in the queue.
	after := timed("ttl-after", "also when the policy has gone", func(t *T, ch *Chan) {
		ch.Queue(t.Q)
		t.policy(t.Q, "", 0, settings{"message-ttl": 800})
		ch.sent(t.Q, "a")
		t.dropPolicy(t.Q)
		ch.sent(t.Q, "b")
		ch.outlive(time.Second)
		ch.wantReady(t.Q, "b")
	})
	after.Profiles = []int{Profile4}
	return []Case{
		after,
		timed("ttl", "a time to live by policy", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			t.policy(t.Q, "", 0, settings{"message-ttl": 300})
			ch.sent(t.Q, "a")
			ch.outlive(400 * time.Millisecond)
			ch.WantEmpty(t.Q)
		}),
		timed("ttl-lesser", "the lesser of policy, argument and expiration counts", func(t *T, ch *Chan) {
			ch.Queue(t.Q, ttl(time.Hour))
			ch.Queue(t.Q2, ttl(300*time.Millisecond))
			t.policy(t.Q, "", 0, settings{"message-ttl": 300})
			t.policy(t.Q2, "", 0, settings{"message-ttl": 3_600_000})
			ch.sent(t.Q, "a")
			ch.sent(t.Q2, "a")
			ch.outlive(400 * time.Millisecond)
			ch.WantEmpty(t.Q)
			ch.WantEmpty(t.Q2)
		}),
		timed("ttl-zero", "message-ttl 0: gone unless a consumer waits", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			t.policy(t.Q, "", 0, settings{"message-ttl": 0})
			ch.sent(t.Q, "a")
			ch.WantEmpty(t.Q)
			ch.Prefetch(5)
			ch.Consume(t.Q, "c")
			ch.Publish("", t.Q, "b")
			ch.WantBodies("b")
		}),
		timed("ttl-before", "messages keep the time to live that they came with", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.sent(t.Q, "a")
			t.policy(t.Q, "", 0, settings{"message-ttl": 200})
			ch.sent(t.Q, "b")
			ch.outlive(600 * time.Millisecond)
			ch.WantGet(t.Q, "a", 0)
			ch.WantEmpty(t.Q)
		}),
		timed("expires", "a queue that is there goes when it is unused for the policy's time", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.sent(t.Q, "a")
			t.policy(t.Q, "", 0, settings{"expires": 500})
			ch.whileThere(t.Q, nil)
		}),
		timed("expires-lesser", "the lesser of policy and argument counts", func(t *T, ch *Chan) {
			ch.Queue(t.Q, expires(time.Hour))
			t.policy(t.Q, "", 0, settings{"expires": 500})
			ch.whileThere(t.Q, nil)
		}),
		timed("expires-deleted", "without the policy it stays", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			t.policy(t.Q, "", 0, settings{"expires": 1500})
			t.dropPolicy(t.Q)
			ch.outlive(2 * time.Second)
			ch.wantThere(t.Q)
		}),
		timed("expires-consumer", "a consumer keeps it", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Consume(t.Q, "c")
			t.policy(t.Q, "", 0, settings{"expires": 500})
			ch.outlive(time.Second)
			ch.Call(wire.QueueDeclare{Queue: t.Q, Passive: true}, wire.QueueDeclareOk{Queue: t.Q, ConsumerCount: 1})
			ch.Call(wire.BasicCancel{ConsumerTag: "c"}, wire.BasicCancelOk{ConsumerTag: "c"})
			ch.whileThere(t.Q, nil)
		}),
	}
}
