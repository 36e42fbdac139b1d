package conformance

import (
	"slices"
	"strings"

	"github.com/warrenmq/warren/conformance/wire"
)

// replyTo is the pseudo-queue of direct reply-to: what is consumed from it are answers to requests of the same channel.
const replyTo = "amq.rabbitmq.reply-to"

// consumeReplies makes a channel's consumer "r" of answers.
func (ch *Chan) consumeReplies() { ch.ConsumeNoAck(replyTo, "r") }

// request publishes a request to Q, gets it there, and gives the name that answers must go to.
func (ch *Chan) request(body string) string {
	ch.Call(wire.QueueDeclare{Queue: ch.t.Q, Exclusive: true}, wire.QueueDeclareOk{Queue: ch.t.Q})
	ch.PublishWith(wire.BasicPublish{RoutingKey: ch.t.Q}, wire.Properties{ReplyTo: new(replyTo), CorrelationID: new("1")}, body)
	got := ch.Get(ch.t.Q, true)
	if got.Properties.ReplyTo == nil || !strings.HasPrefix(*got.Properties.ReplyTo, replyTo+".") || len(*got.Properties.ReplyTo) <= len(replyTo)+1 {
		ch.t.Fatalf("request delivered with properties %+v, want a reply-to of its own", got.Properties)
	}
	ch.t.exactly(got.Properties, wire.Properties{ReplyTo: got.Properties.ReplyTo, CorrelationID: new("1")})
	ch.t.Equal("request", got.Body, body)
	return *got.Properties.ReplyTo
}

// requester gives a channel that consumes answers, and the name of its answers.
func (t *T) requester() (*Chan, string) {
	ch := t.Channel()
	ch.consumeReplies()
	return ch, ch.request("question")
}

// wantAnswer demands an answer, by the key that it was published with, its properties and its body. RabbitMQ 3.10.8
// gives answers a delivery tag without using it up; nobody needs the tag, so it is looked at under profile 4 only.
func (ch *Chan) wantAnswer(tag uint64, key string, p wire.Properties, body string) {
	got := ch.Delivery()
	if !ch.t.Four() {
		got.Tag = tag
	}
	ch.t.Equal("answer", got, Delivery{Consumer: "r", Tag: tag, Key: key, Properties: p, Body: body})
}

func replyCases() []Case {
	return slices.Concat(replyConsumerCases(), replyAnswerCases(), replyNameCases())
}

// replyConsumerCases: who may ask.
func replyConsumerCases() []Case {
	const source = "rabbitmq: direct reply-to, behaviour 5"
	consume, publish := wire.BasicConsume{}, wire.BasicPublish{}
	ask := func(ch *Chan) {
		ch.PublishWith(wire.BasicPublish{RoutingKey: "nowhere"}, wire.Properties{ReplyTo: new(replyTo)}, "question")
	}
	return append(refusals(Extension, []refusal{
		{"reply-to/acknowledging", "a consumer that acknowledges is refused", source, func(t *T, ch *Chan) {
			ch.Send(wire.BasicConsume{Queue: replyTo, ConsumerTag: "r"})
		}, soft(406, consume, "reply consumer cannot acknowledge"), closing{}},
		{"reply-to/second", "a channel has one at most", source, func(t *T, ch *Chan) {
			ch.consumeReplies()
			ch.Send(wire.BasicConsume{Queue: replyTo, ConsumerTag: "other", NoAck: true})
		}, soft(406, consume, "reply consumer already set"), closing{}},
		{"reply-to/second-same-tag", "and that is looked at before the tag", source, func(t *T, ch *Chan) {
			ch.consumeReplies()
			ch.Send(wire.BasicConsume{Queue: replyTo, ConsumerTag: "r", NoAck: true})
		}, soft(406, consume, "reply consumer already set"), closing{}},
		{"reply-to/second-nowait", "with nowait too", source, func(t *T, ch *Chan) {
			ch.Send(wire.BasicConsume{Queue: replyTo, ConsumerTag: "r", NoAck: true, NoWait: true},
				wire.BasicConsume{Queue: replyTo, ConsumerTag: "other", NoAck: true, NoWait: true})
		}, soft(406, consume, "reply consumer already set"), closing{}},
		{"reply-to/no-consumer", "a request without a consumer of answers", source, func(t *T, ch *Chan) { ask(ch) },
			soft(406, publish, "fast reply consumer does not exist"), closing{}},
		{"reply-to/other-channel", "the consumer must be on the channel of the request", source, func(t *T, ch *Chan) {
			ch.Conn.Chan(2).consumeReplies()
			ask(ch)
		}, soft(406, publish, "fast reply consumer does not exist"), closing{}},
		{"reply-to/cancelled", "and must not be cancelled", source, func(t *T, ch *Chan) {
			ch.consumeReplies()
			ch.Call(wire.BasicCancel{ConsumerTag: "r"}, wire.BasicCancelOk{ConsumerTag: "r"})
			ask(ch)
		}, soft(406, publish, "fast reply consumer does not exist"), closing{}},
	}),
		Case{ID: "reply-to/consume", Title: "the consumer needs no queue; exclusive, no-local and arguments do not matter", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Call(wire.BasicConsume{Queue: replyTo, ConsumerTag: "r", NoAck: true, NoLocal: true, Exclusive: true,
				Arguments: wire.Table{{Key: "x-priority", Value: "none"}}}, wire.BasicConsumeOk{ConsumerTag: "r"})
			t.Channel().consumeReplies()
		}},
		Case{ID: "reply-to/consume-tag", Title: "the broker gives a tag when the client gives none", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Send(wire.BasicConsume{Queue: replyTo, NoAck: true})
			m := ch.wantType(wire.BasicConsumeOk{}).(wire.BasicConsumeOk)
			if !strings.HasPrefix(m.ConsumerTag, "amq.ctag-") {
				t.Fatalf("consumer tag %q", m.ConsumerTag)
			}
			ch.Publish("", ch.request("question"), "answer")
			t.Equal("consumer", ch.Delivery().Consumer, m.ConsumerTag)
		}},
		Case{ID: "reply-to/consume-again", Title: "a new consumer after a cancel has a new name; answers to the old one are lost", Source: source, Class: Extension, Run: func(t *T) {
			ch, old := t.requester()
			ch.Call(wire.BasicCancel{ConsumerTag: "r"}, wire.BasicCancelOk{ConsumerTag: "r"})
			ch.consumeReplies()
			name := ch.request("question")
			t.Equal("names equal", name == old, false)
			ch.Publish("", old, "lost")
			ch.Publish("", name, "answer")
			ch.WantBodies("answer")
		}},
		Case{ID: "reply-to/one-name", Title: "all requests of a consumer have one name, which no other consumer has", Source: source, Class: Extension, Run: func(t *T) {
			ch, name := t.requester()
			t.Equal("second name", ch.request("question"), name)
			_, other := t.requesterOn(t.Q2)
			t.Equal("names equal", name == other, false)
		}},
		Case{ID: "reply-to/other-names", Title: "any other reply-to is left alone, one that looks like a name of answers too", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			for _, name := range []string{"", "replies", replyTo + ".", replyTo + ".mine", "AMQ.RABBITMQ.REPLY-TO"} {
				p := wire.Properties{ReplyTo: &name}
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, p, "question")
				t.exactly(ch.Get(t.Q, true).Properties, p)
			}
		}},
		Case{ID: "reply-to/returned", Title: "a request that comes back carries the name too", Source: source, Class: Extension, Run: func(t *T) {
			ch, name := t.requester()
			ch.PublishWith(wire.BasicPublish{RoutingKey: "nowhere", Mandatory: true}, wire.Properties{ReplyTo: new(replyTo)}, "question")
			ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Key: "nowhere", Properties: wire.Properties{ReplyTo: &name}, Body: "question"})
		}},
	)
}

// requesterOn is requester with another request queue.
func (t *T) requesterOn(q string) (*Chan, string) {
	ch := t.Channel()
	ch.consumeReplies()
	ch.Queue(q)
	ch.PublishWith(wire.BasicPublish{RoutingKey: q}, wire.Properties{ReplyTo: new(replyTo)}, "question")
	return ch, *ch.Get(q, true).Properties.ReplyTo
}

// replyAnswerCases: how answers travel.
func replyAnswerCases() []Case {
	const source = "rabbitmq: direct reply-to, behaviour 5"
	return []Case{
		{ID: "reply-to/answer", Title: "an answer comes as a delivery, with the default exchange, the name as key, and its properties", Source: source, Class: Extension,
			Run: func(t *T) {
				ch, name := t.requester()
				p := fullProperties()
				t.Channel().PublishWith(wire.BasicPublish{RoutingKey: name}, p, "answer")
				ch.wantAnswer(2, name, p, "answer")
			}},
		{ID: "reply-to/answer-same-channel", Title: "the requester may answer itself, on the same channel and on another", Source: source, Class: Extension, Run: func(t *T) {
			ch, name := t.requester()
			ch.Publish("", name, "own")
			ch.wantAnswer(2, name, wire.Properties{}, "own")
			ch.Conn.Chan(2).Publish("", name, "other")
			ch.wantAnswer(3, name, wire.Properties{}, "other")
		}},
		{ID: "reply-to/answer-order", Title: "many answers come in order, whatever the prefetch", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Prefetch(1)
			ch.consumeReplies()
			name := ch.request("question")
			var bodies []string
			for i := range 200 {
				bodies = append(bodies, string(rune('a'+i%26)))
			}
			t.Channel().Publish("", name, bodies...)
			ch.WantBodies(bodies...)
		}},
		{ID: "reply-to/answer-large", Title: "a large answer, an empty one", Source: source, Class: Extension, Run: func(t *T) {
			ch, name := t.requester()
			body := strings.Repeat("r", 300_000)
			t.Channel().Publish("", name, body, "")
			ch.WantBodies(body, "")
		}},
		{ID: "reply-to/answer-expiration", Title: "an answer does not expire", Source: source, Class: Extension, Run: func(t *T) {
			ch, name := t.requester()
			ch.PublishWith(wire.BasicPublish{RoutingKey: name}, wire.Properties{Expiration: new("0")}, "answer")
			ch.wantAnswer(2, name, wire.Properties{Expiration: new("0")}, "answer")
		}},
		{ID: "reply-to/answer-asks", Title: "an answer may be a request itself", Source: source, Class: Extension, Run: func(t *T) {
			ch, name := t.requester()
			other, back := t.requesterOn(t.Q2)
			other.PublishWith(wire.BasicPublish{RoutingKey: name}, wire.Properties{ReplyTo: new(replyTo)}, "answer")
			ch.wantAnswer(2, name, wire.Properties{ReplyTo: &back}, "answer")
		}},
		{ID: "reply-to/answer-cc", Title: "CC may name the requester", Source: source, Class: Extension, Run: func(t *T) {
			ch, name := t.requester()
			p := wire.Properties{Headers: &wire.Table{{Key: "CC", Value: wire.Array{name}}}}
			ch.PublishWith(wire.BasicPublish{RoutingKey: "nowhere"}, p, "answer")
			ch.wantAnswer(2, "nowhere", p, "answer")
		}},
		{ID: "reply-to/answer-dead-letter", Title: "a dead letter may be an answer", Source: source, Class: Extension, Run: func(t *T) {
			ch, name := t.requester()
			ch.Queue(t.Q2, deadTo("", name)...)
			ch.Publish("", t.Q2, "a")
			ch.rejectNext(t.Q2)
			got := ch.Delivery()
			t.wantDead(got.Properties, deadHeaders{deaths: []Death{{1, "rejected", t.Q2, "", []string{t.Q2}, ""}}})
			t.Equal("key and body", []string{got.Key, got.Body}, []string{name, "a"})
		}},
		{ID: "reply-to/answer-confirm", Title: "answers are confirmed", Source: source, Class: Extension, Run: func(t *T) {
			ch, name := t.requester()
			other := t.Channel()
			other.Confirm()
			other.Publish("", name, "1", "2")
			other.WantConfirms(1, 2)
			ch.WantBodies("1", "2")
		}},
		{ID: "reply-to/answer-mandatory", Title: "a mandatory answer is delivered; under profile 3 it is returned all the same", Source: "behaviour 0.13", Class: Extension,
			Run: func(t *T) {
				ch, name := t.requester()
				other := t.Channel()
				other.Confirm()
				other.PublishWith(wire.BasicPublish{RoutingKey: name, Mandatory: true}, wire.Properties{}, "answer")
				if !t.Four() {
					other.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Key: name, Body: "answer"})
				}
				other.Want(wire.BasicAck{DeliveryTag: 1})
				ch.wantAnswer(2, name, wire.Properties{}, "answer")
			}},
		{ID: "reply-to/answer-gone", Title: "an answer to one who is gone is confirmed; if mandatory it is returned, under profile 3 only", Source: "behaviour 0.13, 5", Class: Extension,
			Run: func(t *T) {
				ch, name := t.requester()
				ch.Conn.Close()
				other := t.Channel()
				other.Confirm()
				other.Publish("", name, "answer")
				other.Want(wire.BasicAck{DeliveryTag: 1})
				other.PublishWith(wire.BasicPublish{RoutingKey: name, Mandatory: true}, wire.Properties{}, "answer")
				if !t.Four() {
					other.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Key: name, Body: "answer"})
				}
				other.Want(wire.BasicAck{DeliveryTag: 2})
			}},
		{ID: "reply-to/answer-bogus", Title: "a name that nobody ever had is unroutable", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			for _, name := range []string{replyTo, replyTo + ".bogus"} {
				ch.PublishWith(wire.BasicPublish{RoutingKey: name, Mandatory: true}, wire.Properties{}, "answer")
				ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Key: name, Body: "answer"})
			}
		}},
		{ID: "reply-to/answer-other-exchange", Title: "only the default exchange knows the name", Source: source, Class: Extension, Run: func(t *T) {
			ch, name := t.requester()
			ch.PublishWith(wire.BasicPublish{Exchange: "amq.direct", RoutingKey: name, Mandatory: true}, wire.Properties{}, "answer")
			ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Exchange: "amq.direct", Key: name, Body: "answer"})
		}},
		// RabbitMQ 3.10.8 sends such an answer before the commit, and one that is rolled back too.
		{ID: "reply-to/answer-tx", Title: "an answer in a transaction comes at commit", Source: source, Class: Extension, Profiles: []int{Profile4}, Run: func(t *T) {
			ch, name := t.requester()
			tx := t.Channel()
			tx.Call(wire.TxSelect{}, wire.TxSelectOk{})
			tx.Publish("", name, "rolled back")
			tx.rollback()
			tx.Publish("", name, "committed")
			tx.Quiet()
			ch.Quiet()
			tx.commit()
			ch.WantBodies("committed")
		}},
	}
}

// replyNameCases: the name of answers where queue names go. What 3.10.8 says of a name on its own channel is left
// out: it fails there.
func replyNameCases() []Case {
	const source = "rabbitmq: direct reply-to, behaviour 5"
	const volatile = "cannot bind or unbind to a volatile (direct reply-to) queue"
	var cases []Case
	// refused sends a method with the name, on the requester's channel or on one of another connection.
	refused := func(id string, own bool, m func(name string) wire.Method, text string, four closing) {
		cases = append(cases, Case{ID: "reply-to/name-" + id, Title: "the name of answers in " + id, Source: source, Class: Extension, Run: func(t *T) {
			ch, name := t.requester()
			asking := ch
			if !own {
				asking = t.Channel()
			}
			asking.Send(m(name))
			want := soft(404, m(name), strings.ReplaceAll(text, "{name}", name))
			if t.Four() {
				want = four
				want.class, want.method = wire.ID(m(name))
				want.text = strings.ReplaceAll(four.text, "{name}", name)
			}
			asking.WantClosing(want)
		}})
	}
	const missing = "no queue '{name}' in vhost '{V}'"
	bind := func(name string) wire.Method { return wire.QueueBind{Queue: name, Exchange: "amq.direct"} }
	get := func(name string) wire.Method { return wire.BasicGet{Queue: name} }
	consume := func(name string) wire.Method {
		return wire.BasicConsume{Queue: name, ConsumerTag: "thief", NoAck: true}
	}
	refused("bind", false, bind, missing, soft(403, nil, volatile))
	refused("bind-own", true, bind, missing, soft(403, nil, volatile))
	refused("get", false, get, missing, hard(540, nil, "basic.get not supported by volatile queue '{name}' in vhost '{V}'"))
	refused("consume", false, consume, missing, soft(406, nil, "only creator channel may consume from queue '{name}' in vhost '{V}'"))
	refused("consume-own", true, consume, missing, soft(406, nil, "multiple consumers are unsupported for queue '{name}' in vhost '{V}'"))
	cases = append(cases, refusals(Extension, []refusal{
		{"reply-to/bare-get", "basic.get of the pseudo-queue", source, func(t *T, ch *Chan) { ch.Send(wire.BasicGet{Queue: replyTo}) },
			soft(404, wire.BasicGet{}, "no queue '"+replyTo+"' in vhost '{V}'"), closing{}},
		{"reply-to/bare-bind", "binding the pseudo-queue", source, func(t *T, ch *Chan) { ch.Send(wire.QueueBind{Queue: replyTo, Exchange: "amq.direct"}) },
			soft(404, wire.QueueBind{}, "no queue '"+replyTo+"' in vhost '{V}'"), closing{}},
		{"reply-to/bare-purge", "purging the pseudo-queue", source, func(t *T, ch *Chan) { ch.Send(wire.QueuePurge{Queue: replyTo}) },
			soft(404, wire.QueuePurge{}, "no queue '"+replyTo+"' in vhost '{V}'"), closing{}},
		{"reply-to/name-consume-bogus", "consuming a name that nobody has", source, func(t *T, ch *Chan) {
			ch.Send(wire.BasicConsume{Queue: replyTo + ".bogus", NoAck: true})
		}, soft(404, wire.BasicConsume{}, "no queue '"+replyTo+".bogus' in vhost '{V}'"), closing{}},
	})...)
	return append(cases,
		Case{ID: "reply-to/bare-declare", Title: "declaring the pseudo-queue is ok, with a consumer counted; so are deleting and unbinding it", Source: source, Class: Extension,
			Run: func(t *T) {
				ch := t.Channel()
				for _, m := range []wire.QueueDeclare{{}, {Passive: true}, {Durable: true, Exclusive: true}} {
					m.Queue = replyTo
					ch.Conn.SendFrames(wire.MethodFrame(1, m)) // not a queue to be deleted afterwards
					ch.Want(wire.QueueDeclareOk{Queue: replyTo, ConsumerCount: 1})
				}
				ch.Call(wire.QueueDelete{Queue: replyTo}, wire.QueueDeleteOk{})
				ch.Call(wire.QueueUnbind{Queue: replyTo, Exchange: "amq.direct"}, wire.QueueUnbindOk{})
			}},
		Case{ID: "reply-to/name-declare", Title: "declaring the name says whether the requester is there, from any other channel", Source: source, Class: Extension, Run: func(t *T) {
			ch, name := t.requester()
			for _, asking := range []*Chan{t.Channel(), ch.Conn.Chan(2)} {
				for _, m := range []wire.QueueDeclare{{Passive: true}, {}, {Durable: true, Exclusive: true}} {
					m.Queue = name
					asking.Conn.SendFrames(wire.MethodFrame(asking.id, m))
					asking.Want(wire.QueueDeclareOk{Queue: name, ConsumerCount: 1})
				}
			}
			ch.Conn.Close()
			asking := t.Channel()
			asking.Send(wire.QueueDeclare{Queue: name, Passive: true})
			asking.WantClosing(soft(404, wire.QueueDeclare{}, "no queue '"+name+"' in vhost '{V}'"))
			asking.Conn.SendFrames(wire.MethodFrame(1, wire.QueueDeclare{Queue: name}))
			asking.WantClosing(soft(404, wire.QueueDeclare{}, "no queue '"+name+"' in vhost '{V}'"))
		}},
		Case{ID: "reply-to/name-unbind", Title: "unbinding the name: ok under profile 3, refused under 4", Source: source, Class: Extension, Run: func(t *T) {
			_, name := t.requester()
			asking := t.Channel()
			asking.Send(wire.QueueUnbind{Queue: name, Exchange: "amq.direct"})
			if t.Four() {
				asking.WantClosing(soft(403, wire.QueueUnbind{}, volatile))
				return
			}
			asking.Want(wire.QueueUnbindOk{})
		}},
		Case{ID: "reply-to/name-purge", Title: "purging the name: missing under profile 3, ok under 4", Source: source, Class: Extension, Run: func(t *T) {
			_, name := t.requester()
			asking := t.Channel()
			asking.Send(wire.QueuePurge{Queue: name})
			if t.Four() {
				asking.Want(wire.QueuePurgeOk{})
				return
			}
			asking.WantClosing(soft(404, wire.QueuePurge{}, "no queue '"+name+"' in vhost '{V}'"))
		}},
		Case{ID: "reply-to/name-delete", Title: "deleting the name is ok and changes nothing", Source: source, Class: Extension, Run: func(t *T) {
			ch, name := t.requester()
			t.Channel().Call(wire.QueueDelete{Queue: name}, wire.QueueDeleteOk{})
			ch.Publish("", name, "answer")
			ch.WantBodies("answer")
		}},
	)
}
