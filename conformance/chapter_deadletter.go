package conformance

import (
	"slices"
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// short is the time to live of cases that wait for a message to expire.
const short = 150 * time.Millisecond

func deadLetterCases() []Case {
	return slices.Concat(deathReasonCases(), notDeadCases(), deadRoutingCases(), deadContentCases(), deadHeaderCases(), deadRedeliveredCases())
}

// deathReasonCases: what makes a dead letter, and how it looks.
func deathReasonCases() []Case {
	const source = "rabbitmq: dead lettering, behaviour 3.4"
	limit := wire.Field{Key: "x-max-length", Value: int32(1)}
	// one demands the one dead letter there is, body "a".
	one := func(t *T, grave *Chan, d Death) {
		got := grave.Delivery()
		t.wantDead(got.Properties, deadHeaders{deaths: []Death{d}})
		got.Properties = withoutHeaders(got.Properties)
		t.Equal("dead letter", got, Delivery{Consumer: "dead", Tag: 1, Exchange: t.X, Key: t.Q, Body: "a"})
	}
	rejected := func(id, title string, m wire.Method) Case {
		return Case{ID: id, Title: title, Source: source + ", 0.26", Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard()
			ch.Publish("", t.Q, "a")
			ch.Get(t.Q, false)
			ch.Send(m)
			one(t, grave, t.died("rejected"))
			ch.WantEmpty(t.Q)
		}}
	}
	return []Case{
		rejected("dead-letter/reject", "reject without requeue: rejected", wire.BasicReject{DeliveryTag: 1}),
		rejected("dead-letter/nack", "nack without requeue: rejected", wire.BasicNack{DeliveryTag: 1}),
		rejected("dead-letter/nack-all", "nack of all that is outstanding: rejected", wire.BasicNack{Multiple: true}),
		{ID: "dead-letter/consumed", Title: "a delivery to a consumer, rejected", Source: source + ", 0.26", Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard()
			ch.Consume(t.Q, "c")
			ch.Publish("", t.Q, "a")
			ch.WantBodies("a")
			ch.Send(wire.BasicReject{DeliveryTag: 1})
			one(t, grave, t.died("rejected"))
		}},
		{ID: "dead-letter/expired-queue", Title: "x-message-ttl: expired", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(ttl(short))
			ch.Publish("", t.Q, "a")
			one(t, grave, t.died("expired"))
			ch.WantCount(t.Q, 0, 0)
		}},
		{ID: "dead-letter/expired-message", Title: "expiration: expired, and the property becomes original-expiration", Source: source, Class: Extension,
			Run: func(t *T) {
				ch, grave := t.graveyard()
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{Expiration: new("100")}, "a")
				d := t.died("expired")
				d.Expiration = "100"
				one(t, grave, d)
			}},
		{ID: "dead-letter/expired-requeued", Title: "delivered, requeued, then expired: expired", Source: source, Class: Extension,
			Run: func(t *T) {
				ch, grave := t.graveyard(ttl(lease))
				ch.Publish("", t.Q, "a")
				ch.Send(wire.BasicNack{DeliveryTag: ch.Get(t.Q, false).Tag, Requeue: true})
				one(t, grave, t.died("expired"))
			}},
		{ID: "dead-letter/maxlen", Title: "x-max-length: maxlen", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(limit)
			ch.Publish("", t.Q, "a", "b")
			one(t, grave, t.died("maxlen"))
			ch.WantGet(t.Q, "b", 0)
		}},
		{ID: "dead-letter/maxlen-bytes", Title: "x-max-length-bytes: maxlen", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(wire.Field{Key: "x-max-length-bytes", Value: int32(3)})
			ch.Publish("", t.Q, "a", "bcd")
			one(t, grave, t.died("maxlen"))
			ch.WantGet(t.Q, "bcd", 0)
		}},
		{ID: "dead-letter/reject-publish", Title: "overflow reject-publish-dlx: the refused message is the dead letter, maxlen", Source: source + ", 3.2", Class: Extension,
			Run: func(t *T) {
				ch, grave := t.graveyard(limit, wire.Field{Key: "x-overflow", Value: "reject-publish-dlx"})
				ch.Publish("", t.Q, "b", "a")
				one(t, grave, t.died("maxlen"))
				ch.WantGet(t.Q, "b", 0)
			}},
		{ID: "dead-letter/order", Title: "many at once die in their order", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard()
			ch.Publish("", t.Q, "a", "b", "c", "d", "e")
			for range 4 {
				ch.Get(t.Q, false)
			}
			ch.Send(wire.BasicNack{DeliveryTag: 3, Multiple: true}, wire.BasicReject{DeliveryTag: 4})
			grave.WantBodies("a", "b", "c", "d")
			ch.WantGet(t.Q, "e", 0)
		}},
		{ID: "dead-letter/expired-order", Title: "expired messages die in their order", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(ttl(short))
			ch.Publish("", t.Q, "a", "b", "c", "d", "e")
			grave.WantBodies("a", "b", "c", "d", "e")
		}},
		{ID: "dead-letter/tx", Title: "a rejection in a transaction makes a dead letter at commit", Source: source + ", 2.8", Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard()
			ch.Publish("", t.Q, "a")
			ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
			ch.rejectNext(t.Q)
			ch.Quiet()
			grave.Quiet()
			ch.commit()
			one(t, grave, t.died("rejected"))
		}},
		{ID: "dead-letter/confirmed", Title: "the publisher's confirm comes once, whatever the message dies of", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(limit)
			ch.Confirm()
			ch.Publish("", t.Q, "a", "b", "c")
			ch.WantConfirms(1, 3)
			grave.WantBodies("a", "b")
			ch.rejectNext(t.Q)
			grave.WantBodies("c")
		}},
		{ID: "dead-letter/persistent", Title: "durable queues, persistent message", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q2, Durable: true})
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Durable: true, Arguments: deadTo("", t.Q2)})
			ch.ConsumeNoAck(t.Q2, "dead")
			ch.Confirm()
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{DeliveryMode: new(uint8(2))}, "a")
			ch.WantConfirms(1, 1)
			ch.rejectNext(t.Q)
			got := ch.Delivery()
			t.wantDead(got.Properties, deadHeaders{deaths: []Death{t.died("rejected")}})
			t.exactly(withoutHeaders(got.Properties), wire.Properties{DeliveryMode: new(uint8(2))})
		}},
	}
}

// notDeadCases: what makes no dead letter. The marker is one that is rejected afterwards and must come first.
func notDeadCases() []Case {
	const source = "rabbitmq: dead lettering, behaviour 3.4"
	silent := func(id, title string, do func(t *T, ch *Chan), arguments ...wire.Field) Case {
		return Case{ID: id, Title: title, Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard(arguments...)
			do(t, ch)
			ch.Queue(t.Q, fields(deadTo(t.X), arguments)...)
			ch.Publish("", t.Q, "marker")
			for ch.Get(t.Q, false).Body != "marker" {
			}
			ch.Send(wire.BasicNack{Multiple: true})
			grave.WantBodies("marker")
		}}
	}
	return []Case{
		silent("dead-letter/not-acked", "acknowledged messages are not dead letters", func(t *T, ch *Chan) {
			ch.Publish("", t.Q, "a", "b")
			ch.Send(wire.BasicAck{DeliveryTag: ch.Get(t.Q, false).Tag})
			ch.WantGet(t.Q, "b", 0)
		}),
		silent("dead-letter/not-purged", "purged messages are not dead letters", func(t *T, ch *Chan) {
			ch.Publish("", t.Q, "a", "b")
			ch.Call(wire.QueuePurge{Queue: t.Q}, wire.QueuePurgeOk{MessageCount: 2})
		}),
		silent("dead-letter/not-deleted", "messages of a deleted queue are not dead letters", func(t *T, ch *Chan) {
			ch.Publish("", t.Q, "a", "b")
			ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{MessageCount: 2})
		}),
		silent("dead-letter/not-rejected-after-delete", "rejecting a message of a deleted queue makes no dead letter", func(t *T, ch *Chan) {
			ch.Publish("", t.Q, "a")
			tag := ch.Get(t.Q, false).Tag
			ch.Call(wire.QueueDelete{Queue: t.Q}, wire.QueueDeleteOk{})
			ch.Send(wire.BasicReject{DeliveryTag: tag})
			ch.Quiet()
		}),
		silent("dead-letter/not-refused", "overflow reject-publish makes no dead letter", func(t *T, ch *Chan) {
			ch.Publish("", t.Q, "a", "b")
			ch.WantGet(t.Q, "a", 0)
		}, wire.Field{Key: "x-max-length", Value: int32(1)}, wire.Field{Key: "x-overflow", Value: "reject-publish"}),
		{ID: "dead-letter/not-requeued", Title: "requeued messages are not dead letters: by nack, recover, or a channel's close", Source: source, Class: Extension,
			Run: func(t *T) {
				ch, grave := t.graveyard()
				ch.Publish("", t.Q, "a")
				ch.Send(wire.BasicNack{DeliveryTag: ch.Get(t.Q, false).Tag, Requeue: true})
				ch.Get(t.Q, false)
				ch.Call(wire.BasicRecover{Requeue: true}, wire.BasicRecoverOk{})
				ch.Get(t.Q, false)
				ch.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
				ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
				ch.WantCount(t.Q, 1, 0)
				grave.Quiet()
				ch.rejectNext(t.Q)
				grave.WantBodies("a")
			}},
	}
}

// deadRoutingCases: where dead letters go.
func deadRoutingCases() []Case {
	const source = "rabbitmq: dead lettering, behaviour 3.4"
	return []Case{
		{ID: "dead-letter/own-key", Title: "without a key of the queue's the original key routes", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "topic")
			ch.Queue(t.Q, deadTo(t.X)...)
			ch.Queue(t.Q2)
			ch.Bind(t.Q, "amq.topic", t.Key+".#")
			ch.Bind(t.Q2, t.X, t.Key+".a.*")
			ch.Publish("amq.topic", t.Key+".b.1", "stays away")
			ch.Publish("amq.topic", t.Key+".a.1", "a")
			ch.rejectNext(t.Q)
			ch.rejectNext(t.Q)
			ch.ConsumeNoAck(t.Q2, "dead")
			got := ch.Delivery()
			t.wantDead(got.Properties, deadHeaders{deaths: []Death{{1, "rejected", t.Q, "amq.topic", []string{t.Key + ".a.1"}, ""}}})
			t.Equal("exchange, key and body", []string{got.Exchange, got.Key, got.Body}, []string{t.X, t.Key + ".a.1", "a"})
		}},
		{ID: "dead-letter/given-key", Title: "x-dead-letter-routing-key routes, and is the key delivered", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "direct")
			ch.Queue(t.Q, deadTo(t.X, t.Key)...)
			ch.Queue(t.Q2)
			ch.Bind(t.Q2, t.X, t.Key)
			ch.ConsumeNoAck(t.Q2, "dead")
			ch.Publish("", t.Q, "a")
			ch.rejectNext(t.Q)
			got := ch.Delivery()
			t.wantDead(got.Properties, deadHeaders{deaths: []Death{t.died("rejected")}})
			t.Equal("exchange and key", []string{got.Exchange, got.Key}, []string{t.X, t.Key})
		}},
		{ID: "dead-letter/empty-key", Title: "an empty x-dead-letter-routing-key is a key", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "direct")
			ch.Queue(t.Q, deadTo(t.X, "")...)
			ch.Queue(t.Q2)
			ch.Bind(t.Q2, t.X, "")
			ch.ConsumeNoAck(t.Q2, "dead")
			ch.Publish("", t.Q, "a")
			ch.rejectNext(t.Q)
			got := ch.Delivery()
			t.Equal("exchange and key", []string{got.Exchange, got.Key}, []string{t.X, ""})
		}},
		{ID: "dead-letter/default-exchange", Title: "the default exchange takes dead letters, by queue name", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q2)
			ch.Queue(t.Q, deadTo("", t.Q2)...)
			ch.Exchange(t.X, "fanout")
			ch.Bind(t.Q, t.X, "")
			ch.ConsumeNoAck(t.Q2, "dead")
			ch.Publish(t.X, "k", "a")
			ch.rejectNext(t.Q)
			got := ch.Delivery()
			t.wantDead(got.Properties, deadHeaders{deaths: []Death{{1, "rejected", t.Q, t.X, []string{"k"}, ""}}})
			t.Equal("exchange and key", []string{got.Exchange, got.Key}, []string{"", t.Q2})
		}},
		{ID: "dead-letter/several-queues", Title: "every queue that the exchange routes to gets a copy", Source: source, Class: Extension, Run: func(t *T) {
			ch, grave := t.graveyard()
			other := t.Q2 + "-3"
			ch.Queue(other)
			ch.Bind(other, t.X, "")
			ch.ConsumeNoAck(other, "too")
			ch.Publish("", t.Q, "a")
			ch.rejectNext(t.Q)
			grave.WantBodies("a")
			ch.WantBodies("a")
		}},
		{ID: "dead-letter/full-queue", Title: "a dead letter that its new queue refuses vanishes; with reject-publish-dlx it dies there", Source: source, Class: Extension,
			Run: func(t *T) {
				ch, last := t.Channel(), t.Q2+"-3"
				ch.Queue(last)
				ch.Queue(t.Q2, maxLength(1), overflow("reject-publish"))
				ch.Queue(t.Q2+"-dlx", append(deadTo("", last), maxLength(1), overflow("reject-publish-dlx"))...)
				ch.Exchange(t.X, "fanout")
				ch.Bind(t.Q2, t.X, "")
				ch.Bind(t.Q2+"-dlx", t.X, "")
				ch.Queue(t.Q, deadTo(t.X)...)
				ch.ConsumeNoAck(last, "dead")
				ch.Publish("", t.Q, "a", "b")
				ch.Get(t.Q, false)
				ch.Get(t.Q, false)
				ch.Send(wire.BasicNack{Multiple: true})
				got := ch.Delivery()
				t.Equal("body", got.Body, "b")
				t.wantDead(got.Properties, deadHeaders{deaths: []Death{{1, "maxlen", t.Q2 + "-dlx", t.X, []string{t.Q}, ""}, t.died("rejected")}})
				ch.wantReady(t.Q2, "a")
				ch.wantReady(t.Q2+"-dlx", "a")
			}},
		{ID: "dead-letter/missing-exchange", Title: "without the exchange dead letters vanish; once it is there they go to it", Source: source, Class: Extension,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q, deadTo(t.X)...)
				ch.Queue(t.Q2)
				ch.Publish("", t.Q, "lost", "a", "lost too")
				ch.rejectNext(t.Q)
				ch.WantCount(t.Q, 2, 0)
				time.Sleep(300 * time.Millisecond) // nothing tells that a dead letter has gone nowhere
				ch.Exchange(t.X, "fanout")
				ch.Bind(t.Q2, t.X, "")
				ch.ConsumeNoAck(t.Q2, "dead")
				ch.rejectNext(t.Q)
				ch.WantBodies("a")
				ch.Call(wire.ExchangeDelete{Exchange: t.X}, wire.ExchangeDeleteOk{})
				ch.rejectNext(t.Q)
				ch.WantCount(t.Q, 0, 0)
			}},
		{ID: "dead-letter/unroutable", Title: "a dead letter that routes nowhere vanishes, mandatory or not, and the publisher is not told", Source: source, Class: Extension,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Exchange(t.X, "direct")
				ch.Queue(t.Q, deadTo(t.X)...)
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q, Mandatory: true}, wire.Properties{}, "lost")
				ch.rejectNext(t.Q)
				ch.WantCount(t.Q, 0, 0)
			}},
		{ID: "dead-letter/alternate", Title: "an alternate exchange takes what the dead-letter exchange cannot route", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X2, "fanout")
			ch.Exchange(t.X, "direct", wire.Field{Key: "alternate-exchange", Value: t.X2})
			ch.Queue(t.Q, deadTo(t.X)...)
			ch.Queue(t.Q2)
			ch.Bind(t.Q2, t.X2, "")
			ch.ConsumeNoAck(t.Q2, "dead")
			ch.Publish("", t.Q, "a")
			ch.rejectNext(t.Q)
			got := ch.Delivery()
			t.Equal("exchange and body", []string{got.Exchange, got.Body}, []string{t.X, "a"})
		}},
		{ID: "dead-letter/exchange-binding", Title: "a dead letter goes through bindings between exchanges", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "direct")
			ch.Exchange(t.X2, "fanout")
			ch.Call(wire.ExchangeBind{Destination: t.X2, Source: t.X, RoutingKey: t.Q}, wire.ExchangeBindOk{})
			ch.Queue(t.Q, deadTo(t.X)...)
			ch.Queue(t.Q2)
			ch.Bind(t.Q2, t.X2, "")
			ch.ConsumeNoAck(t.Q2, "dead")
			ch.Publish("", t.Q, "a")
			ch.rejectNext(t.Q)
			got := ch.Delivery()
			t.Equal("exchange and body", []string{got.Exchange, got.Body}, []string{t.X, "a"})
		}},
		{ID: "dead-letter/internal", Title: "an internal exchange takes dead letters", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Call(wire.ExchangeDeclare{Exchange: t.X, Type: "fanout", Internal: true}, wire.ExchangeDeclareOk{})
			ch.Queue(t.Q, deadTo(t.X)...)
			ch.Queue(t.Q2)
			ch.Bind(t.Q2, t.X, "")
			ch.ConsumeNoAck(t.Q2, "dead")
			ch.Publish("", t.Q, "a")
			ch.rejectNext(t.Q)
			ch.WantBodies("a")
		}},
		{ID: "dead-letter/headers-exchange", Title: "a headers exchange sees x-first-death headers", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "headers")
			ch.Queue(t.Q, deadTo(t.X)...)
			ch.Queue(t.Q2)
			ch.Bind(t.Q2, t.X, "", wire.Field{Key: "x-match", Value: "all-with-x"}, wire.Field{Key: "x-first-death-reason", Value: "rejected"})
			ch.ConsumeNoAck(t.Q2, "dead")
			ch.Publish("", t.Q, "a")
			ch.rejectNext(t.Q)
			ch.WantBodies("a")
		}},
	}
}
