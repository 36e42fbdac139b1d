package conformance

import (
	"slices"
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

func quorumCases() []Case {
	return slices.Concat(quorumDeclareCases(), quorumOrderCases(), quorumCountCases(), quorumLimitCases(), quorumFullCases(),
		quorumSingleCases(), quorumRetryCases(), quorumExpiresCases(), quorumPolicyCases())
}

func quorumDeclareCases() []Case {
	const source = "behaviour 2.3, 2.4, 2.6, 8.1"
	refused := func(flag string) string {
		return "cannot delete {q}. queue.delete operations with " + flag + " flag set are not supported by quorum queues"
	}
	deletion := func(m wire.QueueDelete) func(t *T, ch *Chan) {
		return func(t *T, ch *Chan) {
			ch.Quorum(t.Q)
			m.Queue = t.Q
			ch.Send(m)
		}
	}
	cases := refusals(Extension, []refusal{
		{"quorum/delete-unused", "delete if-unused", source, deletion(wire.QueueDelete{IfUnused: true}), hard(540, wire.QueueDelete{}, refused("if-unused")), closing{}},
		{"quorum/delete-empty", "delete if-empty", source, deletion(wire.QueueDelete{IfEmpty: true}), hard(540, wire.QueueDelete{}, refused("if-empty")), closing{}},
		{"quorum/delete-both", "delete if-unused and if-empty: the former is named", source, deletion(wire.QueueDelete{IfUnused: true, IfEmpty: true}),
			hard(540, wire.QueueDelete{}, refused("if-unused")), closing{}},
		{"quorum/single-get", "basic.get beside single active consumers", source, func(t *T, ch *Chan) {
			ch.Quorum(t.Q, singleActive)
			ch.Send(wire.BasicGet{Queue: t.Q})
		}, soft(405, wire.BasicGet{}, "cannot obtain access to locked {q}. basic.get operations are not supported by quorum queues with single active consumer"),
			soft(405, wire.BasicGet{}, "cannot obtain access to locked {q}. basic.get operations are not supported by <<\"quorum\">> queues with single active consumer")},
	})
	return append(cases,
		Case{ID: "quorum/declare", Title: "a quorum queue is declared, again, and passively", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q)
			ch.Quorum(t.Q)
			ch.Put(t.Q, "a")
			ch.WantCount(t.Q, 1, 0)
		}},
		Case{ID: "quorum/purge", Title: "a purge counts what is ready", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q)
			ch.Put(t.Q, "a", "b", "c")
			ch.Get(t.Q, false)
			ch.Call(wire.QueuePurge{Queue: t.Q}, wire.QueuePurgeOk{MessageCount: 2})
			ch.Send(wire.BasicNack{DeliveryTag: 1, Requeue: true})
			ch.WantCount(t.Q, 1, 0)
		}},
		Case{ID: "quorum/delete", Title: "a delete counts what is ready and cancels consumers", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q)
			other := t.Channel()
			other.Prefetch(1)
			other.Consume(t.Q, "c")
			ch.Put(t.Q, "a", "b", "c")
			other.WantBodies("a")
			ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{MessageCount: 2})
			other.WantCancelled("c")
		}},
		Case{ID: "quorum/exclusive-consume", Title: "an exclusive consumer keeps nobody out", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q)
			ch.Call(wire.BasicConsume{Queue: t.Q, ConsumerTag: "a", Exclusive: true}, wire.BasicConsumeOk{ConsumerTag: "a"})
			ch.Call(wire.BasicConsume{Queue: t.Q, ConsumerTag: "b", Exclusive: true}, wire.BasicConsumeOk{ConsumerTag: "b"})
			ch.Consume(t.Q, "c")
			ch.WantCount(t.Q, 0, 3)
		}},
		Case{ID: "quorum/global-qos", Title: "a channel with global qos: 540 under 3, accepted under 4", Source: source + ", 0.9", Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q)
			ch.Call(wire.BasicQos{PrefetchCount: 3, Global: true}, wire.BasicQosOk{})
			if t.Four() {
				ch.Consume(t.Q, "c")
				ch.Put(t.Q, "a")
				ch.WantBodies("a")
				return
			}
			ch.Send(wire.BasicConsume{Queue: t.Q, ConsumerTag: "c"})
			ch.WantClosing(hard(540, wire.BasicConsume{}, "{q} does not support global qos"))
		}},
		Case{ID: "quorum/global-qos-lifted", Title: "a later qos that is not global lifts it", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q)
			ch.Call(wire.BasicQos{PrefetchCount: 3, Global: true}, wire.BasicQosOk{})
			ch.Prefetch(1)
			ch.Consume(t.Q, "c")
			ch.Put(t.Q, "a")
			ch.WantBodies("a")
		}},
	)
}

// fullQuorum declares Q with a limit that refuses, and gives a channel in confirm mode and a function that publishes
// and says whether it was taken.
func fullQuorum(t *T, limit wire.Field) (ch *Chan, publish func() bool) {
	ch = t.Channel()
	ch.Quorum(t.Q, limit, wire.Field{Key: "x-overflow", Value: "reject-publish"})
	ch.Confirm()
	return ch, func() bool {
		ch.Publish("", t.Q, "12345")
		_, taken := ch.next().(wire.BasicAck)
		return taken
	}
}

func quorumFullCases() []Case {
	const source = "behaviour 3.2, 8.1"
	maxLength := func(n int32) wire.Field { return wire.Field{Key: "x-max-length", Value: n} }
	published := func(t *T, publish func() bool, want ...bool) {
		var got []bool
		for range want {
			got = append(got, publish())
		}
		t.Equal("taken", got, want)
	}
	return []Case{
		{ID: "quorum/full-one-more", Title: "reject-publish takes one more than the limit", Source: source, Class: Extension, Run: func(t *T) {
			ch, publish := fullQuorum(t, maxLength(2))
			published(t, publish, true, true, true, false, false)
			ch.WantCount(t.Q, 3, 0)
		}},
		{ID: "quorum/full-room-again", Title: "and takes more only when it is down to four fifths", Source: source, Class: Extension, Run: func(t *T) {
			ch, publish := fullQuorum(t, maxLength(10))
			published(t, publish, true, true, true, true, true, true, true, true, true, true, true, false)
			taker := t.Channel()
			for n, want := range []bool{false, false, true} {
				taker.Get(t.Q, true)
				taker.WantCount(t.Q, uint32(10-n), 0)
				published(t, publish, want)
			}
			ch.WantCount(t.Q, 9, 0)
		}},
		{ID: "quorum/full-zero", Title: "a limit of 0 takes one", Source: source, Class: Extension, Run: func(t *T) {
			_, publish := fullQuorum(t, maxLength(0))
			published(t, publish, true, false, false)
		}},
		{ID: "quorum/full-bytes", Title: "bytes are those of bodies under 3; under 4 those of properties count too", Source: source, Class: Extension, Run: func(t *T) {
			_, publish := fullQuorum(t, wire.Field{Key: "x-max-length-bytes", Value: int32(10)})
			published(t, publish, true, true, !t.Four(), false)
		}},
		{ID: "quorum/drop-head", Title: "drop-head drops the oldest", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q, maxLength(2))
			ch.Put(t.Q, "1", "2", "3", "4")
			ch.WantOrder(t.Q, "3", "4")
		}},
		{ID: "quorum/drop-head-priority", Title: "drop-head drops the head: under 4 the highest priority", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q, maxLength(2))
			ch.putPriorities(t.Q, 1, 5, 3, 4)
			if t.Four() {
				ch.WantOrder(t.Q, "3", "1")
			} else {
				ch.WantOrder(t.Q, "3", "4")
			}
		}},
		{ID: "quorum/reject-publish-dlx", Title: "reject-publish-dlx is drop-head", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q2)
			ch.Quorum(t.Q, maxLength(2), wire.Field{Key: "x-overflow", Value: "reject-publish-dlx"},
				wire.Field{Key: "x-dead-letter-exchange", Value: ""}, wire.Field{Key: "x-dead-letter-routing-key", Value: t.Q2})
			ch.Put(t.Q, "1", "2", "3")
			t.Equal("dead", ch.AwaitGet(t.Q2).Body, "1")
			ch.WantOrder(t.Q, "2", "3")
		}},
		{ID: "quorum/requeue-overfills", Title: "requeueing into a full queue drops the head", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q, maxLength(2))
			ch.Put(t.Q, "0", "1")
			ch.Get(t.Q, false)
			ch.Get(t.Q, false)
			ch.Put(t.Q, "2", "3")
			ch.Send(wire.BasicNack{DeliveryTag: 1, Requeue: true})
			ch.Quiet()
			ch.Send(wire.BasicNack{DeliveryTag: 2, Requeue: true})
			ch.WantCount(t.Q, 2, 0)
			if t.Four() {
				ch.WantOrder(t.Q, "2", "3")
			} else {
				ch.WantOrder(t.Q, "0", "1")
			}
		}},
	}
}

func quorumSingleCases() []Case {
	const source = "behaviour 5, rabbitmq 3.10.8 and 4.3.6"
	return []Case{
		{ID: "quorum/single-later-higher", Title: "a later consumer of higher priority takes an idle one's place under 4", Source: source, Class: Extension, Run: func(t *T) {
			a := t.Channel()
			high := t.Channel()
			a.Quorum(t.Q, singleActive)
			a.Consume(t.Q, "a")
			high.Consume(t.Q, "h", byPriority(10))
			a.Put(t.Q, "1")
			if t.Four() {
				high.WantBodies("1")
				a.Quiet()
				high.Send(wire.BasicAck{DeliveryTag: 1})
				high.Quiet()
			} else {
				a.WantBodies("1")
				high.Quiet()
				a.Send(wire.BasicAck{DeliveryTag: 1})
				a.Quiet()
			}
		}},
		{ID: "quorum/single-busy", Title: "under 4 a busy one gets no more, and makes way when its messages are settled", Source: source, Class: Extension,
			Profiles: []int{Profile4}, Run: func(t *T) {
				a := t.Channel()
				high := t.Channel()
				a.Quorum(t.Q, singleActive)
				a.Consume(t.Q, "a")
				a.Put(t.Q, "1", "2")
				a.WantBodies("1", "2")
				high.Consume(t.Q, "h", byPriority(10))
				a.Put(t.Q, "3")
				a.Send(wire.BasicAck{DeliveryTag: 1})
				a.Quiet()
				high.Quiet()
				a.Send(wire.BasicAck{DeliveryTag: 2})
				high.WantBodies("3")
				a.Quiet()
				high.Send(wire.BasicAck{DeliveryTag: 1})
				high.Quiet()
			}},
		{ID: "quorum/single-rival-gone", Title: "when the one it would make way for is gone, it goes on", Source: source, Class: Extension,
			Profiles: []int{Profile4}, Run: func(t *T) {
				a := t.Channel()
				high := t.Channel()
				a.Quorum(t.Q, singleActive)
				a.Consume(t.Q, "a")
				a.Put(t.Q, "1")
				a.WantBodies("1")
				high.Consume(t.Q, "h", byPriority(10))
				a.Put(t.Q, "2")
				high.Call(wire.BasicCancel{ConsumerTag: "h"}, wire.BasicCancelOk{ConsumerTag: "h"})
				a.Send(wire.BasicAck{DeliveryTag: 1})
				a.WantBodies("2")
				a.Send(wire.BasicAck{DeliveryTag: 2})
				a.Quiet()
			}},
		{ID: "quorum/single-successor", Title: "the next is the oldest under 3, the one of highest priority under 4", Source: source, Class: Extension, Run: func(t *T) {
			a, b, high := t.Channel(), t.Channel(), t.Channel()
			a.Quorum(t.Q, singleActive)
			a.Consume(t.Q, "a", byPriority(20))
			b.Consume(t.Q, "b")
			high.Consume(t.Q, "h", byPriority(10))
			a.Call(wire.BasicCancel{ConsumerTag: "a"}, wire.BasicCancelOk{ConsumerTag: "a"})
			a.Put(t.Q, "1")
			next := b
			if t.Four() {
				next = high
			}
			next.WantBodies("1")
			next.Send(wire.BasicAck{DeliveryTag: 1})
			next.Quiet()
		}},
		{ID: "quorum/single-exclusive", Title: "an exclusive consumer is not refused", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q, singleActive)
			ch.Call(wire.BasicConsume{Queue: t.Q, ConsumerTag: "a", Exclusive: true}, wire.BasicConsumeOk{ConsumerTag: "a"})
			ch.Consume(t.Q, "b")
		}},
	}
}

// retry are the arguments x-delayed-retry-*, in milliseconds.
func retry(kind string, least, most int32) []wire.Field {
	return []wire.Field{{Key: "x-delayed-retry-type", Value: kind}, {Key: "x-delayed-retry-min", Value: least}, {Key: "x-delayed-retry-max", Value: most}}
}

// quorumRetry is a case of delayed retries: the message comes back by m; each time it must be there again no sooner
// than these milliseconds later, and not much later.
func quorumRetry(id, title string, arguments []wire.Field, back func(tag uint64) wire.Method, delays ...int) Case {
	return Case{ID: "quorum/retry-" + id, Title: title, Source: "behaviour 8.1, delayed retry", Class: Timing, Profiles: []int{Profile4}, Run: func(t *T) {
		ch := t.Channel()
		ch.Quorum(t.Q, arguments...)
		ch.Consume(t.Q, "c")
		ch.Put(t.Q, "a")
		d := ch.Delivery()
		for _, ms := range delays {
			start := time.Now()
			ch.Send(back(d.Tag))
			d = ch.Delivery()
			took := time.Since(start)
			if least := time.Duration(ms) * time.Millisecond; took < least-10*time.Millisecond || ms == 0 && took > retryLeast*time.Millisecond {
				t.Errorf("came back after %v, want %v", took, least)
			}
		}
	}}
}

// retryLeast is the shortest delay of the cases.
const retryLeast = 300

func quorumRetryCases() []Case {
	reject := func(tag uint64) wire.Method { return wire.BasicReject{DeliveryTag: tag, Requeue: true} }
	nack := func(tag uint64) wire.Method { return wire.BasicNack{DeliveryTag: tag, Requeue: true} }
	return []Case{
		quorumRetry("all-reject", "all, rejected: the delay grows with each up to the most", retry("all", retryLeast, 700), reject, 300, 600, 700),
		quorumRetry("all-nack", "all, given back: it does not grow", retry("all", retryLeast, 700), nack, 300, 300, 300),
		quorumRetry("failed-reject", "failed, rejected: delayed", retry("failed", retryLeast, 700), reject, 300, 600),
		quorumRetry("failed-nack", "failed, given back: at once", retry("failed", retryLeast, 700), nack, 0, 0),
		quorumRetry("returned-nack", "returned, given back: delayed", retry("returned", retryLeast, 700), nack, 300, 300),
		quorumRetry("returned-reject", "returned, rejected: at once", retry("returned", retryLeast, 700), reject, 0, 0),
		quorumRetry("disabled", "disabled: at once", retry("disabled", retryLeast, 700), reject, 0, 0),
		quorumRetry("no-most", "without a most the delay does not grow", retry("all", retryLeast, 0)[:2], reject, 300, 300),
		quorumRetry("most-below", "a most below the least counts", retry("all", 60_000, retryLeast), reject, 300, 300),
		quorumRetry("no-least", "without a least nothing is delayed", []wire.Field{{Key: "x-delayed-retry-type", Value: "all"}}, reject, 0),
		{ID: "quorum/retry-not-ready", Title: "a delayed message is not counted as ready, is purged with the others, and otherwise comes before them",
			Source: "rabbitmq 4.3.6", Class: Timing, Profiles: []int{Profile4}, Run: func(t *T) {
				ch := t.Channel()
				ch.Quorum(t.Q, retry("all", 2*retryLeast, 2*retryLeast)...)
				ch.Put(t.Q, "a", "b")
				ch.Send(wire.BasicReject{DeliveryTag: ch.Get(t.Q, false).Tag, Requeue: true})
				ch.WantCount(t.Q, 1, 0)
				ch.WantCount(t.Q, 2, 0)
				ch.WantOrder(t.Q, "a", "b")
				ch.Put(t.Q, "c")
				ch.Send(wire.BasicReject{DeliveryTag: ch.Get(t.Q, false).Tag, Requeue: true})
				ch.Quiet()
				ch.Call(wire.QueuePurge{Queue: t.Q}, wire.QueuePurgeOk{MessageCount: 1})
				ch.Put(t.Q, "d")
				time.Sleep(3 * retryLeast * time.Millisecond)
				ch.WantOrder(t.Q, "d")
			}},
	}
}

func quorumExpiresCases() []Case {
	// expiring is a case about x-expires of 2 s, which RabbitMQ looks at every 5 s, with something done every 400 ms:
	// gone says that the queue goes.
	expiring := func(id, title string, gone bool, touch func(t *T, ch *Chan, n int)) Case {
		return Case{ID: "quorum/expires-" + id, Title: title, Source: "rabbitmq 3.10.8 and 4.3.6, behaviour 3.1", Class: Timing, Run: func(t *T) {
			ch := t.Channel()
			ch.Quorum(t.Q, wire.Field{Key: "x-expires", Value: int32(2000)})
			for n := range 20 {
				time.Sleep(400 * time.Millisecond)
				touch(t, ch, n)
			}
			if !gone {
				ch.WantCount(t.Q, 0, 0)
				return
			}
			ch.Send(wire.QueueDeclare{Queue: t.Q, Passive: true})
			ch.WantClosing(soft(404, wire.QueueDeclare{}, "no {q}"))
		}}
	}
	return []Case{
		expiring("untouched", "an unused queue goes", true, func(*T, *Chan, int) {}),
		expiring("publish", "publishing is no use", true, func(t *T, ch *Chan, n int) {
			if n < 10 { // not while it goes: 3.10.8 then closes the connection
				ch.Publish("", t.Q, "a")
			}
		}),
		expiring("passive", "a passive declare is no use", true, func(t *T, ch *Chan, _ int) {
			ch.Send(wire.QueueDeclare{Queue: t.Q, Passive: true})
			if m, gone := ch.next().(wire.ChannelClose); gone {
				ch.Send(wire.ChannelCloseOk{})
				ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
				t.Equal("code", m.ReplyCode, uint16(404))
			}
		}),
		expiring("redeclare", "a declare is a use", false, func(t *T, ch *Chan, _ int) {
			ch.Quorum(t.Q, wire.Field{Key: "x-expires", Value: int32(2000)})
		}),
		expiring("get", "basic.get is a use", false, func(t *T, ch *Chan, _ int) { ch.WantEmpty(t.Q) }),
	}
}

// quorumPolicyCases: what policies say of quorum queues holds at once, and beside arguments the lesser counts.
func quorumPolicyCases() []Case {
	kase := func(id, title string, class Class, profiles []int, run func(t *T, ch *Chan)) Case {
		return Case{ID: "quorum/policy-" + id, Title: title, Source: "rabbitmq: policies, behaviour 7.6, 8.1", Class: class, Profiles: profiles,
			NeedsAdmin: true, Run: func(t *T) { run(t, t.Channel()) }}
	}
	four := []int{Profile4}
	// deaths demands how many deliveries it takes until the message "a" is dead-lettered to Q2.
	deaths := func(t *T, ch *Chan, deliveries int) {
		ch.Consume(t.Q, "c")
		ch.Put(t.Q, "a")
		for range deliveries {
			ch.Send(wire.BasicReject{DeliveryTag: ch.Delivery().Tag, Requeue: true})
		}
		t.Equal("dead", ch.AwaitGet(t.Q2).Body, "a")
		ch.Quiet()
	}
	bury := func(t *T) []wire.Field {
		return []wire.Field{{Key: "x-dead-letter-exchange", Value: ""}, {Key: "x-dead-letter-routing-key", Value: t.Q2}}
	}
	return []Case{
		kase("limit", "delivery-limit", Extension, nil, func(t *T, ch *Chan) {
			ch.Queue(t.Q2)
			ch.Quorum(t.Q, bury(t)...)
			t.policy(t.Q, "", 0, settings{"delivery-limit": 1})
			time.Sleep(policyDelay)
			deaths(t, ch, 2)
		}),
		kase("limit-lesser", "delivery-limit beside a greater argument", Extension, nil, func(t *T, ch *Chan) {
			t.policy(t.Q, "", 0, settings{"delivery-limit": 1})
			time.Sleep(policyDelay)
			ch.Queue(t.Q2)
			ch.Quorum(t.Q, append(bury(t), limited(int32(5)))...)
			deaths(t, ch, 2)
		}),
		kase("timeout", "consumer-timeout", Timing, four, func(t *T, ch *Chan) {
			t.policy(t.Q, "", 0, settings{"consumer-timeout": shortTimeout})
			time.Sleep(policyDelay)
			ch.Quorum(t.Q)
			ch.Consume(t.Q, "c")
			ch.Put(t.Q, "a")
			ch.came("a", 0)
			ch.WantCancelled("c")
		}),
		kase("timeout-lesser", "consumer-timeout beside a greater argument", Timing, four, func(t *T, ch *Chan) {
			t.policy(t.Q, "", 0, settings{"consumer-timeout": shortTimeout})
			time.Sleep(policyDelay)
			ch.Quorum(t.Q, consumerTimeout(600_000))
			ch.Consume(t.Q, "c")
			ch.Put(t.Q, "a")
			ch.came("a", 0)
			ch.WantCancelled("c")
		}),
		kase("retry", "delayed-retry-*", Timing, four, func(t *T, ch *Chan) {
			ch.Quorum(t.Q)
			t.policy(t.Q, "", 0, settings{"delayed-retry-type": "all", "delayed-retry-min": retryLeast, "delayed-retry-max": retryLeast})
			time.Sleep(policyDelay)
			ch.Consume(t.Q, "c")
			ch.Put(t.Q, "a")
			start := time.Now()
			ch.Send(wire.BasicReject{DeliveryTag: ch.Delivery().Tag, Requeue: true})
			ch.came("a", 1)
			if took := time.Since(start); took < retryLeast*time.Millisecond {
				t.Errorf("came back after %v", took)
			}
		}),
	}
}

// policyDelay is how long RabbitMQ may take to tell its queues of a policy.
const policyDelay = 300 * time.Millisecond
