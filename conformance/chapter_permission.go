package conformance

import "github.com/warrenmq/warren/conformance/wire"

// user creates the case's own user, password "pw", without any permission.
func (t *T) user(tags ...string) {
	t.Must(t.Admin.PutUser(t.Login, "pw", tags...))
	t.Cleanup(func() {
		if err := t.Admin.DeleteUser(t.Login); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

// permit gives the case's user permissions in the virtual host under test.
func (t *T) permit(configure, write, read string) {
	t.Must(t.Admin.SetPermissions(t.Login, t.VHost, configure, write, read))
}

// permissionRow: with these patterns, do something as the case's user on channel ch, after prepare by someone who may
// do everything. verb and thing make the text; an empty verb means it is allowed.
type permissionRow struct {
	id                     string
	configure, write, read string // "{Q}" and such are replaced
	prepare                func(t *T, owner *Chan)
	send                   func(t *T) wire.Method
	verb, thing            string
	ok                     wire.Method // the answer when allowed
}

// withQueues declares Q and X, both shared.
func withQueues(t *T, owner *Chan) {
	owner.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
	owner.DeclareQueue(wire.QueueDeclare{Queue: t.Q2})
	owner.Exchange(t.X, "direct")
	owner.Exchange(t.X2, "direct")
}

func permissionRows() []permissionRow {
	const all = ".*"
	declareX := func(t *T) wire.Method { return wire.ExchangeDeclare{Exchange: t.X, Type: "direct"} }
	declareQ := func(t *T) wire.Method { return wire.QueueDeclare{Queue: t.Q} }
	withAE := func(t *T) wire.Method {
		return wire.ExchangeDeclare{Exchange: t.X, Type: "direct", Arguments: arg("alternate-exchange", t.X2)}
	}
	withDLX := func(t *T) wire.Method {
		return wire.QueueDeclare{Queue: t.Q, Arguments: arg("x-dead-letter-exchange", t.X2)}
	}
	bind := func(t *T) wire.Method { return wire.QueueBind{Queue: t.Q, Exchange: t.X, RoutingKey: "k"} }
	unbind := func(t *T) wire.Method { return wire.QueueUnbind{Queue: t.Q, Exchange: t.X, RoutingKey: "k"} }
	bindX := func(t *T) wire.Method { return wire.ExchangeBind{Destination: t.X2, Source: t.X, RoutingKey: "k"} }
	unbindX := func(t *T) wire.Method { return wire.ExchangeUnbind{Destination: t.X2, Source: t.X, RoutingKey: "k"} }
	return []permissionRow{
		{"exchange-declare", "^$", all, all, nil, declareX, "configure", "{x}", nil},
		{"exchange-declare-allowed", "^{X}$", "^$", "^$", nil, declareX, "", "", wire.ExchangeDeclareOk{}},
		{"exchange-declare-alternate-write", all, "^$", all, nil, withAE, "write", "{x2}", nil},
		{"exchange-declare-alternate-read", all, all, "^$", nil, withAE, "read", "{x}", nil},
		{"exchange-declare-alternate-allowed", "^{X}$", "^{X2}$", "^{X}$", nil, withAE, "", "", wire.ExchangeDeclareOk{}},
		{"exchange-delete", "^$", all, all, withQueues, func(t *T) wire.Method { return wire.ExchangeDelete{Exchange: t.X} }, "configure", "{x}", nil},
		{"queue-declare", "^$", all, all, nil, declareQ, "configure", "{q}", nil},
		{"queue-declare-allowed", "^{Q}$", "^$", "^$", nil, declareQ, "", "", wire.QueueDeclareOk{Queue: "{Q}"}},
		{"queue-declare-existing", "^$", all, all, withQueues, declareQ, "configure", "{q}", nil},
		{"queue-declare-dlx-write", all, "^$", all, nil, withDLX, "write", "{x2}", nil},
		{"queue-declare-dlx-read", all, all, "^$", nil, withDLX, "read", "{q}", nil},
		{"queue-declare-dlx-allowed", "^{Q}$", "^{X2}$", "^{Q}$", nil, withDLX, "", "", wire.QueueDeclareOk{Queue: "{Q}"}},
		{"queue-delete", "^$", all, all, withQueues, func(t *T) wire.Method { return wire.QueueDelete{Queue: t.Q} }, "configure", "{q}", nil},
		{"queue-purge", all, all, "^$", withQueues, func(t *T) wire.Method { return wire.QueuePurge{Queue: t.Q} }, "read", "{q}", nil},
		{"queue-purge-allowed", "^$", "^$", "^{Q}$", withQueues, func(t *T) wire.Method { return wire.QueuePurge{Queue: t.Q} }, "", "", wire.QueuePurgeOk{}},
		{"queue-bind-write", all, "^$", all, withQueues, bind, "write", "{q}", nil},
		{"queue-bind-read", all, all, "^$", withQueues, bind, "read", "{x}", nil},
		{"queue-bind-allowed", "^$", "^{Q}$", "^{X}$", withQueues, bind, "", "", wire.QueueBindOk{}},
		{"queue-unbind-write", all, "^$", all, withQueues, unbind, "write", "{q}", nil},
		{"queue-unbind-read", all, all, "^$", withQueues, unbind, "read", "{x}", nil},
		{"exchange-bind-write", all, "^$", all, withQueues, bindX, "write", "{x2}", nil},
		{"exchange-bind-read", all, all, "^$", withQueues, bindX, "read", "{x}", nil},
		{"exchange-bind-allowed", "^$", "^{X2}$", "^{X}$", withQueues, bindX, "", "", wire.ExchangeBindOk{}},
		{"exchange-unbind-write", all, "^$", all, withQueues, unbindX, "write", "{x2}", nil},
		{"exchange-unbind-read", all, all, "^$", withQueues, unbindX, "read", "{x}", nil},
		{"get", all, all, "^$", withQueues, func(t *T) wire.Method { return wire.BasicGet{Queue: t.Q} }, "read", "{q}", nil},
		{"get-allowed", "^$", "^$", "^{Q}$", withQueues, func(t *T) wire.Method { return wire.BasicGet{Queue: t.Q} }, "", "", wire.BasicGetEmpty{}},
		{"consume", all, all, "^$", withQueues, func(t *T) wire.Method { return wire.BasicConsume{Queue: t.Q} }, "read", "{q}", nil},
		{"unanchored", "{Q}", "^$", "^$", nil, func(t *T) wire.Method { return wire.QueueDeclare{Queue: t.Q + "-and-more"} }, "", "",
			wire.QueueDeclareOk{Queue: "{Q}-and-more"}},
		{"anchored", "^{Q}$", "^$", "^$", nil, func(t *T) wire.Method { return wire.QueueDeclare{Queue: t.Q2} }, "configure", "{q2}", nil},
		{"empty-pattern", "", all, all, nil, declareQ, "configure", "{q}", nil},
	}
}

// refusedText is the 403 text; profile 4 names the permission.
func (t *T) refusedText(verb, thing string) string {
	if t.Four() {
		return verb + " access to " + thing + " refused for user '{U}'"
	}
	return "access to " + thing + " refused for user '{U}'"
}

func (r permissionRow) run(t *T) {
	t.user()
	t.permit(t.Text(r.configure), t.Text(r.write), t.Text(r.read))
	if r.prepare != nil {
		owner := t.Channel()
		r.prepare(t, owner)
	}
	ch := t.ConnectAs(login{user: t.Login, password: "pw"}).Chan(1)
	m := r.send(t)
	ch.Send(m)
	if r.verb != "" {
		ch.WantClosing(soft(403, m, t.refusedText(r.verb, r.thing)))
		return
	}
	if ok, is := r.ok.(wire.QueueDeclareOk); is {
		r.ok = wire.QueueDeclareOk{Queue: t.Text(ok.Queue)}
	}
	ch.Want(r.ok)
}

// restricted opens a channel as the case's own user with patterns.
func (t *T) restricted(configure, write, read string) *Chan {
	t.user()
	t.permit(t.Text(configure), t.Text(write), t.Text(read))
	return t.ConnectAs(login{user: t.Login, password: "pw"}).Chan(1)
}

func permissionCases() []Case {
	const source = "rabbitmq: access control, behaviour 2.9"
	var cases []Case
	for _, r := range permissionRows() {
		cases = append(cases, Case{ID: "permission/" + r.id, Title: r.id, Source: source, Class: Core, NeedsAdmin: true, Run: r.run})
	}
	needsAdmin := func(id, title string, run func(t *T)) Case {
		return Case{ID: "permission/" + id, Title: title, Source: source, Class: Core, NeedsAdmin: true, Run: run}
	}
	publish := wire.BasicPublish{}
	return append(append(cases, topicPermissionCases()...),
		needsAdmin("publish", "publishing needs write on the exchange", func(t *T) {
			t.Channel().Exchange(t.X, "fanout")
			ch := t.restricted(".*", "^$", ".*")
			ch.Publish(t.X, "k", "body")
			ch.WantClosing(soft(403, publish, t.refusedText("write", "{x}")))
		}),
		needsAdmin("publish-allowed", "write on the exchange is all that publishing needs", func(t *T) {
			t.Channel().Exchange(t.X, "fanout")
			ch := t.restricted("^$", "^{X}$", "^$")
			ch.Publish(t.X, "k", "body")
			ch.Quiet()
		}),
		needsAdmin("publish-default", "the default exchange goes by the name amq.default", func(t *T) {
			ch := t.restricted(".*", "^$", ".*")
			ch.Publish("", "k", "body")
			ch.WantClosing(soft(403, publish, t.refusedText("write", "exchange 'amq.default' in vhost '{V}'")))
		}),
		needsAdmin("publish-default-allowed", "write on amq.default lets publish to the default exchange", func(t *T) {
			ch := t.restricted("^$", "^amq\\.default$", "^$")
			ch.Publish("", "k", "body")
			ch.Quiet()
		}),
		needsAdmin("server-named-denied", "an empty pattern denies server-made names too", func(t *T) {
			ch := t.restricted("", ".*", ".*")
			ch.Send(wire.QueueDeclare{Exclusive: true})
			m, ok := ch.next().(wire.ChannelClose)
			if !ok || m.ReplyCode != 403 || m.ClassID != 50 || m.MethodID != 10 {
				t.Fatalf("want 403, got %#v", m)
			}
			ch.Send(wire.ChannelCloseOk{})
		}),
		needsAdmin("server-named-allowed", "a pattern for amq.gen lets server-named queues be declared", func(t *T) {
			t.restricted("^amq\\.gen", "^$", "^$").serverNamed()
		}),
		needsAdmin("passive", "passive declare needs nothing under profile 3, any permission under 4", func(t *T) {
			withQueues(t, t.Channel())
			ch := t.restricted("^$", "^$", "^$")
			if !t.Four() {
				ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Passive: true})
				ch.Call(wire.ExchangeDeclare{Exchange: t.X, Passive: true}, wire.ExchangeDeclareOk{})
				return
			}
			ch.Send(wire.QueueDeclare{Queue: t.Q, Passive: true})
			ch.WantClosing(soft(403, wire.QueueDeclare{}, "configure access to {q} refused for user '{U}'"))
			ch.Send(wire.ExchangeDeclare{Exchange: t.X, Passive: true})
			ch.WantClosing(soft(403, wire.ExchangeDeclare{}, "configure access to {x} refused for user '{U}'"))
		}),
		needsAdmin("passive-missing", "passive declare of what is missing: 404 under profile 3, 403 under 4", func(t *T) {
			ch := t.restricted("^$", "^$", "^$")
			ch.Send(wire.QueueDeclare{Queue: t.Q, Passive: true})
			if t.Four() {
				ch.WantClosing(soft(403, wire.QueueDeclare{}, "configure access to {q} refused for user '{U}'"))
				return
			}
			ch.WantClosing(soft(404, wire.QueueDeclare{}, "no {q}"))
		}),
		needsAdmin("passive-read-suffices", "any one permission lets declare passively", func(t *T) {
			withQueues(t, t.Channel())
			ch := t.restricted("^$", "^{X}$", "^{Q}$")
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Passive: true})
			ch.Call(wire.ExchangeDeclare{Exchange: t.X, Passive: true}, wire.ExchangeDeclareOk{})
		}),
		needsAdmin("live-connection", "a change of permissions leaves live connections open and holds for new ones", func(t *T) {
			ch := t.restricted(".*", ".*", ".*")
			t.permit("^$", "^$", "^$")
			ch.Quiet()
			fresh := t.ConnectAs(login{user: t.Login, password: "pw"}).Chan(1)
			fresh.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true})
			fresh.WantClosing(soft(403, wire.QueueDeclare{}, t.refusedText("configure", "{q}")))
		}),
	)
}

// topicPermissionCases: patterns on the routing keys of one topic exchange.
func topicPermissionCases() []Case {
	const source = "rabbitmq: topic authorisation, behaviour 2.9"
	topic := func(id, title, write, read string, run func(t *T, ch *Chan)) Case {
		return Case{ID: "topic-permission/" + id, Title: title, Source: source, Class: Extension, NeedsAdmin: true, Run: func(t *T) {
			owner := t.Channel()
			owner.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
			owner.Exchange(t.X, "topic")
			owner.Exchange(t.X2, "topic")
			t.user()
			t.permit(".*", ".*", ".*")
			t.Must(t.Admin.SetTopicPermissions(t.Login, t.VHost, t.X, write, read))
			run(t, t.ConnectAs(login{user: t.Login, password: "pw"}).Chan(1))
		}}
	}
	bind := func(t *T, key string) wire.QueueBind {
		return wire.QueueBind{Queue: t.Q, Exchange: t.X, RoutingKey: key}
	}
	return []Case{
		topic("publish", "a key the write pattern refuses", "^a", ".*", func(t *T, ch *Chan) {
			ch.Publish(t.X, "a.x", "in")
			ch.Quiet()
			ch.Publish(t.X, "b.x", "out")
			ch.WantClosing(soft(403, wire.BasicPublish{}, t.refusedText("write", "topic 'b.x' in {x}")))
		}),
		topic("bind", "a key the read pattern refuses", ".*", "^a", func(t *T, ch *Chan) {
			ch.Call(bind(t, "a.x"), wire.QueueBindOk{})
			ch.Send(bind(t, "b.x"))
			ch.WantClosing(soft(403, wire.QueueBind{}, t.refusedText("read", "topic 'b.x' in {x}")))
		}),
		topic("variables", "{username} and {vhost} in a pattern", "^{username}.{vhost}$", ".*", func(t *T, ch *Chan) {
			ch.Publish(t.X, t.Login+"."+t.VHost, "in")
			ch.Quiet()
			ch.Publish(t.X, "other."+t.VHost, "out")
			ch.WantClosing(soft(403, wire.BasicPublish{}, t.refusedText("write", "topic 'other.{V}' in {x}")))
		}),
		topic("other-exchange", "another exchange is free", "^$", "^$", func(t *T, ch *Chan) {
			ch.Publish(t.X2, "b.x", "in")
			ch.Call(wire.QueueBind{Queue: t.Q, Exchange: t.X2, RoutingKey: "b"}, wire.QueueBindOk{})
		}),
	}
}
