package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warrenmq/warren/conformance/wire"
)

const (
	traceSource = "behaviour 4 (amq.rabbitmq.trace)"
	traceKind   = "amq.rabbitmq.trace"
)

// traced gives a channel in a virtual host of its own that is traced, with t.Q2 bound to everything the firehose says.
func (t *T) traced() *Chan {
	tracer, ok := t.Admin.(Tracer)
	if !ok {
		t.Fatalf("the administrator cannot turn the firehose on")
	}
	t.Must(t.Admin.CreateVHost(t.Q))
	t.Cleanup(func() { t.Must(t.Admin.DeleteVHost(t.Q)) })
	t.Must(tracer.SetTracing(t.Q, true))
	ch := t.ConnectAs(login{vhost: t.Q}).Chan(1)
	ch.Queue(t.Q2)
	ch.Bind(t.Q2, traceKind, "#")
	return ch
}

// wantTraced demands the next message of the firehose: key, body, and headers but for the node's and the connection's
// names, which must be there.
func (ch *Chan) wantTraced(key, body string, want wire.Table) {
	g := ch.AwaitGet(ch.t.Q2)
	ch.t.Equal("firehose", []any{g.Exchange, g.Key, g.Redelivered, g.Body}, []any{traceKind, key, false, body})
	var got wire.Table
	for _, f := range *g.Properties.Headers {
		if name, _ := f.Value.(string); f.Key == "node" || f.Key == "connection" {
			ch.t.Equal(f.Key+" is named", name != "", true)
			f.Value = "somebody"
		}
		got = append(got, f)
	}
	g.Properties.Headers = nil
	ch.t.Equal("properties", g.Properties, wire.Properties{})
	if ch.t.Four() {
		slices.SortFunc(want, func(a, b wire.Field) int { return strings.Compare(a.Key, b.Key) })
	}
	ch.t.Equal("headers", got, want)
}

func traceCases() []Case {
	kase := func(id, title string, run func(t *T, ch *Chan)) Case {
		return Case{ID: "trace/" + id, Title: title, Source: traceSource, Class: Management, Run: func(t *T) { run(t, t.traced()) }}
	}
	// about is what stands before and behind the fields that a case is about.
	publish := func(t *T, exchange string, keys wire.Array, properties wire.Table, routed ...any) wire.Table {
		return table("exchange_name", exchange, "routing_keys", keys, "properties", properties, "node", "somebody",
			"vhost", t.Q, "connection", "somebody", "channel", int32(1), "user", t.User, "routed_queues", wire.Array(routed))
	}
	deliver := func(t *T, exchange string, keys wire.Array, properties wire.Table, redelivered int32) wire.Table {
		return table("exchange_name", exchange, "routing_keys", keys, "properties", properties, "node", "somebody",
			"redelivered", redelivered, "vhost", t.Q, "connection", "somebody", "channel", int32(1), "user", t.User)
	}
	return []Case{
		kase("get", "a publish and a get", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "body")
			ch.wantTraced("publish.", "body", publish(t, "", wire.Array{t.Q}, table(), t.Q))
			ch.AwaitGet(t.Q)
			ch.wantTraced("deliver."+t.Q, "body", deliver(t, "", wire.Array{t.Q}, table(), 0))
			ch.WantEmpty(t.Q2)
		}),
		kase("consumer", "a delivery, and one that is redelivered", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Consume(t.Q, "c")
			ch.Publish("", t.Q, "body")
			d := ch.Delivery()
			ch.Send(wire.BasicReject{DeliveryTag: d.Tag, Requeue: true})
			t.Equal("redelivered", ch.Delivery().Redelivered, true)
			ch.Call(wire.BasicCancel{ConsumerTag: "c"}, wire.BasicCancelOk{ConsumerTag: "c"})
			ch.wantTraced("publish.", "body", publish(t, "", wire.Array{t.Q}, table(), t.Q))
			ch.wantTraced("deliver."+t.Q, "body", deliver(t, "", wire.Array{t.Q}, table(), 0))
			ch.wantTraced("deliver."+t.Q, "body", deliver(t, "", wire.Array{t.Q}, table(), 1))
		}),
		kase("properties", "all properties, the last first, numbers 32 bits wide", func(t *T, ch *Chan) {
			p := wire.Properties{
				ContentType: ptrTo("text/plain"), ContentEncoding: ptrTo("utf8"), Headers: ptr(table("a", "s", "b", true, "z", int64(5))),
				DeliveryMode: ptrTo(uint8(2)), Priority: ptrTo(uint8(7)), CorrelationID: ptrTo("c1"), ReplyTo: ptrTo("r1"), Expiration: ptrTo("60000"),
				MessageID: ptrTo("m1"), Timestamp: ptrTo(wire.Timestamp(1<<32 + 5)), Type: ptrTo("t1"), UserID: ptrTo(t.User), AppID: ptrTo("a1"),
				ClusterID: ptrTo("cl"),
			}
			ch.PublishWith(wire.BasicPublish{Exchange: "amq.topic", RoutingKey: "a.b"}, p, "body")
			ch.wantTraced("publish.amq.topic", "body", publish(t, "amq.topic", wire.Array{"a.b"}, table(
				"cluster_id", "cl", "app_id", "a1", "user_id", t.User, "type", "t1", "timestamp", int32(5), "message_id", "m1",
				"expiration", "60000", "reply_to", "r1", "correlation_id", "c1", "priority", int32(7), "delivery_mode", int32(2),
				"headers", table("a", "s", "b", true, "z", int64(5)), "content_encoding", "utf8", "content_type", "text/plain")))
		}),
		kase("routed", "all keys and all queues are named", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Queue(t.X)
			ch.Bind(t.Q, "amq.direct", "a")
			ch.Bind(t.X, "amq.direct", "b")
			p := wire.Properties{Headers: ptr(table("CC", wire.Array{"b", "c"}))}
			ch.PublishWith(wire.BasicPublish{Exchange: "amq.direct", RoutingKey: "a"}, p, "body")
			g := ch.AwaitGet(t.Q2)
			t.Equal("key", g.Key, "publish.amq.direct")
			for _, f := range *g.Properties.Headers {
				switch f.Key {
				case "routing_keys":
					t.Equal(f.Key, f.Value, wire.Array{"a", "b", "c"})
				case "routed_queues":
					t.Equal("number of queues", len(f.Value.(wire.Array)), 2)
				}
			}
		}),
		kase("unroutable", "a message that nobody gets is traced; the default exchange says where it was to go", func(t *T, ch *Chan) {
			ch.Publish("", "nowhere", "body")
			ch.wantTraced("publish.", "body", publish(t, "", wire.Array{"nowhere"}, table(), "nowhere"))
			ch.Publish("amq.direct", "nowhere", "body")
			ch.wantTraced("publish.amq.direct", "body", publish(t, "amq.direct", wire.Array{"nowhere"}, table()))
		}),
		kase("not-itself", "what the firehose delivers is not traced", func(t *T, ch *Chan) {
			ch.Publish("", "nowhere", "one", "two")
			for _, body := range []string{"one", "two"} {
				ch.wantTraced("publish.", body, publish(t, "", wire.Array{"nowhere"}, table(), "nowhere"))
			}
			ch.WantEmpty(t.Q2)
		}),
		kase("keys", "a binding chooses by exchange or by queue", func(t *T, ch *Chan) {
			ch.Queue(t.Q)
			ch.Call(wire.QueueUnbind{Queue: t.Q2, Exchange: traceKind, RoutingKey: "#"}, wire.QueueUnbindOk{})
			ch.Bind(t.Q2, traceKind, "deliver."+t.Q)
			ch.Publish("", t.Q, "body")
			ch.AwaitGet(t.Q)
			t.Equal("key", ch.AwaitGet(t.Q2).Key, "deliver."+t.Q)
			ch.WantEmpty(t.Q2)
		}),
		kase("off", "turned off, nothing is traced", func(t *T, ch *Chan) {
			ch.Publish("", "nowhere", "traced")
			t.Equal("body", ch.AwaitGet(t.Q2).Body, "traced")
			t.Must(t.Admin.(Tracer).SetTracing(t.Q, false))
			late := t.ConnectAs(login{vhost: t.Q}).Chan(1)
			late.Confirm()
			late.Publish("", "nowhere", "untraced")
			late.WantConfirms(1, 1)
			ch.WantEmpty(t.Q2)
		}),
		{ID: "trace/internal", Title: fmt.Sprintf("nobody publishes to %s", traceKind), Source: traceSource, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Publish(traceKind, "k", "body")
			ch.WantClosing(soft(403, wire.BasicPublish{}, "cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '{V}'"))
		}},
	}
}
