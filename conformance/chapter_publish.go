package conformance

import (
	"fmt"
	"strings"

	"github.com/warrenmq/warren/conformance/wire"
)

// publishing gives a case's publish of one message with properties to the default exchange and Q.
func publishing(p wire.Properties) func(*T, *Chan) {
	return func(t *T, ch *Chan) {
		ch.Queue(t.Q)
		ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, p, "body")
	}
}

func publishCases() []Case {
	publish := wire.BasicPublish{}
	const source = "spec basic.publish, behaviour 2.5"
	cases := refusals(Core, []refusal{
		{"publish/immediate", "immediate", source, func(t *T, ch *Chan) {
			ch.PublishWith(wire.BasicPublish{RoutingKey: "k", Immediate: true}, wire.Properties{}, "body")
		}, hard(540, publish, "immediate=true"), closing{}},
		{"publish/exchange-missing", "a missing exchange", source, func(t *T, ch *Chan) { ch.Publish(t.X, "k", "body") },
			soft(404, publish, "no {x}"), closing{}},
		{"publish/exchange-missing-mandatory", "a missing exchange with mandatory: no return", source, func(t *T, ch *Chan) {
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, Mandatory: true}, wire.Properties{}, "body")
		}, soft(404, publish, "no {x}"), closing{}},
		{"publish/internal", "an internal exchange", source, func(t *T, ch *Chan) {
			ch.Call(wire.ExchangeDeclare{Exchange: t.X, Type: "fanout", Internal: true}, wire.ExchangeDeclareOk{})
			ch.Publish(t.X, "k", "body")
		}, soft(403, publish, "cannot publish to internal {x}"), closing{}},
		{"publish/deleted-exchange", "an exchange that has been deleted", source, func(t *T, ch *Chan) {
			ch.Exchange(t.X, "fanout")
			ch.Publish(t.X, "k", "body")
			ch.Call(wire.ExchangeDelete{Exchange: t.X}, wire.ExchangeDeleteOk{})
			ch.Publish(t.X, "k", "body")
		}, soft(404, publish, "no {x}"), closing{}},
	})
	cases = append(cases, refusals(Extension, []refusal{
		{"publish/user-id", "a user-id that is not the login's", "behaviour 2.5", publishing(wire.Properties{UserID: new("bob")}),
			soft(406, publish, "user_id property set to 'bob' but authenticated user was '{me}'"), closing{}},
		{"publish/user-id-empty", "an empty user-id", "behaviour 2.5", publishing(wire.Properties{UserID: new("")}),
			soft(406, publish, "user_id property set to '' but authenticated user was '{me}'"), closing{}},
		{"publish/order-immediate-first", "immediate is looked at before the exchange", "behaviour 2.5", func(t *T, ch *Chan) {
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, Immediate: true}, wire.Properties{}, "body")
		}, hard(540, publish, "immediate=true"), closing{}},
		{"publish/order-exchange-first", "the exchange is looked at before the properties", "behaviour 2.5", func(t *T, ch *Chan) {
			ch.PublishWith(wire.BasicPublish{Exchange: t.X}, wire.Properties{Expiration: new("abc"), UserID: new("bob")}, "body")
		}, soft(404, publish, "no {x}"), closing{}},
		{"publish/order-user-expiration", "user-id comes before expiration under profile 3, after it under 4", "behaviour 2.5",
			publishing(wire.Properties{Expiration: new("abc"), UserID: new("bob")}),
			soft(406, publish, "user_id property set to 'bob' but authenticated user was '{me}'"), soft(406, publish, "invalid expiration 'abc': no_integer")},
	})...)
	for _, mode := range []uint8{0, 3, 255} {
		cases = append(cases, Case{ID: fmt.Sprintf("publish/delivery-mode-%d", mode), Title: fmt.Sprintf("delivery-mode %d: refused under profile 3, echoed under 4", mode),
			Source: "behaviour 0.19", Class: Extension, Run: func(t *T) {
				ch := t.Channel()
				p := wire.Properties{DeliveryMode: &mode}
				publishing(p)(t, ch)
				if t.Four() {
					t.Equal("message", ch.Get(t.Q, true), Got{Tag: 1, Key: t.Q, Properties: p, Body: "body"})
					return
				}
				ch.WantClosing(soft(406, publish, fmt.Sprintf("invalid message: {delivery_mode_unknown,%d}", mode)))
			}})
	}
	return append(cases,
		Case{ID: "publish/16-MiB", Title: "a body of 16 MiB is taken under both profiles", Source: "behaviour 0.5", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			body := strings.Repeat("s", 16<<20)
			ch.Publish("", t.Q, body)
			if got := ch.Get(t.Q, true); got.Body != body {
				t.Fatalf("the body came back otherwise, %d bytes", len(got.Body))
			}
		}},
		Case{ID: "publish/16-MiB-and-one", Title: "a body one byte larger: taken under profile 3, refused under 4 once it is whole", Source: "behaviour 0.5", Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Queue(t.Q)
				body := strings.Repeat("s", 16<<20+1)
				ch.Publish("", t.Q, body)
				if t.Four() {
					ch.WantClosing(soft(406, publish, "message size 16777217 is larger than configured max size 16777216"))
					return
				}
				if got := ch.Get(t.Q, true); got.Body != body {
					t.Fatalf("the body came back otherwise, %d bytes", len(got.Body))
				}
			}},
		Case{ID: "publish/own-user-id", Title: "the login's own user-id passes and is delivered", Source: "behaviour 2.5", Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			p := wire.Properties{UserID: &t.User}
			publishing(p)(t, ch)
			t.Equal("message", ch.Get(t.Q, true), Got{Tag: 1, Key: t.Q, Properties: p, Body: "body"})
		}},
		Case{ID: "publish/impersonator", Title: "the tag impersonator allows any user-id", Source: "behaviour 2.5", Class: Extension, NeedsAdmin: true,
			Run: func(t *T) {
				t.user("impersonator")
				t.permit(".*", ".*", ".*")
				ch := t.ConnectAs(login{user: t.Login, password: "pw"}).Chan(1)
				p := wire.Properties{UserID: new("bob")}
				publishing(p)(t, ch)
				t.Equal("message", ch.Get(t.Q, true), Got{Tag: 1, Key: t.Q, Properties: p, Body: "body"})
			}},
		Case{ID: "publish/default-exchange", Title: "the default exchange routes by queue name", Source: "spec 3.1.3.1", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "body")
			t.Equal("message", ch.Get(t.Q, true), Got{Tag: 1, Key: t.Q, Body: "body"})
		}},
		Case{ID: "publish/unroutable", Title: "an unroutable message without mandatory is dropped in silence", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "direct")
			ch.Publish(t.X, "k", "lost")
			ch.Publish("", t.Q, "lost")
			ch.Quiet()
		}},
		Case{ID: "publish/ticket", Title: "the ticket is ignored", Source: "behaviour 2", Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Ticket: 77, Queue: t.Q, Exclusive: true})
			ch.PublishWith(wire.BasicPublish{Ticket: 99, RoutingKey: t.Q}, wire.Properties{}, "body")
			ch.WantGet(t.Q, "body", 0)
		}},
	)
}

func returnCases() []Case {
	const source = "spec basic.return, behaviour 2.5"
	mandatory := func(x, key string) wire.BasicPublish {
		return wire.BasicPublish{Exchange: x, RoutingKey: key, Mandatory: true}
	}
	return []Case{
		{ID: "return/no-route", Title: "an unroutable mandatory message comes back whole: 312 NO_ROUTE", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "direct")
			p := wire.Properties{MessageID: new("id"), DeliveryMode: new(uint8(2)), Headers: &wire.Table{{Key: "h", Value: "v"}}}
			ch.PublishWith(mandatory(t.X, "k"), p, "body")
			ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Exchange: t.X, Key: "k", Properties: p, Body: "body"})
		}},
		{ID: "return/empty-body", Title: "an unroutable mandatory message without body", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.PublishWith(mandatory("", t.Q), wire.Properties{}, "")
			ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Key: t.Q})
		}},
		{ID: "return/large-body", Title: "a returned body is cut at frame-max like a delivery's", Source: source, Class: Core, Run: func(t *T) {
			ch := t.ConnectAs(login{frameMax: t.smallest()}).Chan(1)
			body := fmt.Sprintf("%050000d", 7)
			ch.PublishWith(mandatory("", t.Q), wire.Properties{}, body)
			ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Key: t.Q, Body: body})
		}},
		{ID: "return/routed", Title: "a mandatory message that routes is not returned", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.PublishWith(mandatory("", t.Q), wire.Properties{}, "body")
			ch.WantCount(t.Q, 1, 0)
		}},
		{ID: "return/before-confirm", Title: "in confirm mode the return precedes the confirm", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Confirm()
			ch.PublishWith(mandatory("", t.Q), wire.Properties{}, "body")
			ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Key: t.Q, Body: "body"})
			ch.Want(wire.BasicAck{DeliveryTag: 1})
		}},
		{ID: "return/alternate-routes", Title: "what an alternate exchange routes is not returned", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Exchange(t.X2, "fanout")
			ch.Bind(t.Q, t.X2, "")
			ch.Exchange(t.X, "direct", wire.Field{Key: "alternate-exchange", Value: t.X2})
			ch.PublishWith(mandatory(t.X, "k"), wire.Properties{}, "body")
			ch.WantCount(t.Q, 1, 0)
		}},
		{ID: "return/alternate-missing", Title: "a missing alternate exchange: returned under the first exchange's name", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Exchange(t.X, "direct", wire.Field{Key: "alternate-exchange", Value: t.X2})
			ch.PublishWith(mandatory(t.X, "k"), wire.Properties{}, "body")
			ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Exchange: t.X, Key: "k", Body: "body"})
		}},
		{ID: "return/alternate-unroutable", Title: "an alternate exchange that routes nowhere: returned under the first exchange's name", Source: source,
			Class: Extension, Run: func(t *T) {
				ch := t.Channel()
				ch.Exchange(t.X2, "fanout")
				ch.Exchange(t.X, "direct", wire.Field{Key: "alternate-exchange", Value: t.X2})
				ch.PublishWith(mandatory(t.X, "k"), wire.Properties{}, "body")
				ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Exchange: t.X, Key: "k", Body: "body"})
			}},
		{ID: "return/order", Title: "returns keep the order of the publishes", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			for _, body := range []string{"a", "b", "c"} {
				ch.PublishWith(mandatory("", t.Q), wire.Properties{}, body)
			}
			for _, body := range []string{"a", "b", "c"} {
				ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Key: t.Q, Body: body})
			}
		}},
	}
}

// expirationCases: the property is a decimal number of milliseconds in a string.
func expirationCases() []Case {
	var rows []refusal
	for _, r := range []struct{ id, value, reason string }{
		{"word", "abc", "no_integer"}, {"empty", "", "no_integer"}, {"negative", "-1", "{value_negative,-1}"},
		{"fraction", "1.5", `{leftover_string,".5"}`}, {"blank-after", "100 ", `{leftover_string," "}`}, {"blank-before", " 100", "no_integer"},
		{"unit", "10s", `{leftover_string,"s"}`}, {"hex", "0x10", `{leftover_string,"x10"}`},
		{"large", "315360000001", "{value_too_large,315360000001}"},
	} {
		rows = append(rows, refusal{"expiration/" + r.id, fmt.Sprintf("expiration %q", r.value), "behaviour 2.5",
			publishing(wire.Properties{Expiration: &r.value}),
			soft(406, wire.BasicPublish{}, "invalid expiration '"+r.value+"': "+r.reason), closing{}})
	}
	cases := refusals(Extension, rows)
	for _, r := range []struct{ sent, four string }{
		{"60000", "60000"}, {"315360000000", "315360000000"}, {"+60000", "60000"}, {"0060000", "60000"},
	} {
		cases = append(cases, Case{ID: "expiration/accepted-" + r.sent, Source: "behaviour 2.5, 3.1", Class: Extension,
			Title: fmt.Sprintf("expiration %q is taken; delivered as it is under profile 3, as a plain number under 4", r.sent), Run: func(t *T) {
				ch := t.Channel()
				publishing(wire.Properties{Expiration: &r.sent})(t, ch)
				want := wire.Properties{Expiration: &r.sent}
				if t.Four() {
					want.Expiration = &r.four
				}
				t.Equal("message", ch.Get(t.Q, true), Got{Tag: 1, Key: t.Q, Properties: want, Body: "body"})
			}})
	}
	return cases
}

// carbonCopyCases: the headers CC and BCC add routing keys.
func carbonCopyCases() []Case {
	const source = "behaviour 2.5"
	headers := func(f ...wire.Field) wire.Properties { return wire.Properties{Headers: (*wire.Table)(&f)} }
	cc := func(keys ...any) wire.Field { return wire.Field{Key: "CC", Value: wire.Array(keys)} }
	bcc := func(keys ...any) wire.Field { return wire.Field{Key: "BCC", Value: wire.Array(keys)} }
	cases := refusals(Extension, []refusal{
		{"cc/not-array", "CC that is no array", source, publishing(headers(wire.Field{Key: "CC", Value: "key"})),
			soft(406, wire.BasicPublish{}, `invalid message: {unacceptable_type_in_header,"CC",longstr}`), closing{}},
		{"cc/bcc-not-array", "BCC that is no array", source, publishing(headers(wire.Field{Key: "BCC", Value: int32(1)})),
			soft(406, wire.BasicPublish{}, `invalid message: {unacceptable_type_in_header,"BCC",signedint}`), closing{}},
	})
	return append(cases,
		Case{ID: "cc/copies", Title: "CC copies to more keys, with the publish key in each, and stays in the headers", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Queue(t.Q2)
			p := headers(cc(t.Q2))
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, p, "body")
			t.Equal("first", ch.Get(t.Q, true), Got{Tag: 1, Key: t.Q, Properties: p, Body: "body"})
			t.Equal("copy", ch.Get(t.Q2, true), Got{Tag: 2, Key: t.Q, Properties: p, Body: "body"})
		}},
		Case{ID: "cc/bcc-removed", Title: "BCC copies too and is taken out of the headers", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Queue(t.Q2)
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, headers(bcc(t.Q2), wire.Field{Key: "h", Value: "v"}), "body")
			left := headers(wire.Field{Key: "h", Value: "v"})
			t.Equal("first", ch.Get(t.Q, true), Got{Tag: 1, Key: t.Q, Properties: left, Body: "body"})
			t.Equal("copy", ch.Get(t.Q2, true), Got{Tag: 2, Key: t.Q, Properties: left, Body: "body"})
		}},
		Case{ID: "cc/bcc-alone", Title: "BCC alone leaves an empty headers table", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.PublishWith(wire.BasicPublish{RoutingKey: "nowhere"}, headers(bcc(t.Q)), "body")
			t.Equal("copy", ch.Get(t.Q, true), Got{Tag: 1, Key: "nowhere", Properties: wire.Properties{Headers: &wire.Table{}}, Body: "body"})
		}},
		Case{ID: "cc/one-copy", Title: "a queue named by key, CC and BCC gets one copy", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, headers(cc(t.Q, t.Q), bcc(t.Q)), "body")
			ch.WantCount(t.Q, 1, 0)
		}},
		Case{ID: "cc/same-exchange", Title: "CC keys go to the exchange of the publish", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Queue(t.Q2)
			ch.Exchange(t.X, "topic")
			ch.Bind(t.Q, t.X, "a.*")
			ch.PublishWith(wire.BasicPublish{Exchange: t.X, RoutingKey: "b"}, headers(cc("a.x", t.Q2)), "body")
			ch.WantCount(t.Q, 1, 0)
			ch.WantCount(t.Q2, 0, 0)
		}},
		Case{ID: "cc/other-items", Title: "items that are no strings are passed over", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.PublishWith(wire.BasicPublish{RoutingKey: "nowhere"}, headers(cc(int32(1), t.Q, wire.Void{})), "body")
			ch.WantCount(t.Q, 1, 0)
		}},
		Case{ID: "cc/mandatory", Title: "a mandatory message that only CC routes is not returned", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.PublishWith(wire.BasicPublish{RoutingKey: "nowhere", Mandatory: true}, headers(cc(t.Q)), "body")
			ch.WantCount(t.Q, 1, 0)
		}},
		Case{ID: "cc/returned", Title: "an unroutable message comes back with CC and without BCC", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.PublishWith(wire.BasicPublish{RoutingKey: "nowhere", Mandatory: true}, headers(cc(t.Q), bcc(t.Q2)), "body")
			ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Key: "nowhere", Properties: headers(cc(t.Q)), Body: "body"})
		}},
		Case{ID: "cc/empty", Title: "CC with an empty array changes nothing", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			p := headers(cc())
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, p, "body")
			t.Equal("message", ch.Get(t.Q, true), Got{Tag: 1, Key: t.Q, Properties: p, Body: "body"})
		}},
		Case{ID: "cc/case", Title: "cc in lower case is a header like others", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.PublishWith(wire.BasicPublish{RoutingKey: "nowhere"}, headers(wire.Field{Key: "cc", Value: wire.Array{t.Q}}), "body")
			ch.WantCount(t.Q, 0, 0)
		}},
	)
}
