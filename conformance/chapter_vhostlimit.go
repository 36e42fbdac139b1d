package conformance

import (
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// ownVHost makes a virtual host of the case's own, named Q, in which both users may do everything.
func (t *T) ownVHost() {
	t.Must(t.Admin.CreateVHost(t.Q))
	t.Cleanup(func() {
		if err := t.Admin.DeleteVHost(t.Q); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	t.Must(t.Admin.SetPermissions(t.User, t.Q, ".*", ".*", ".*"))
}

// openRefused opens a connection, which must be refused.
func (t *T) openRefused(l login, text string) {
	c := t.DialStart()
	c.Authenticate(l)
	c.TuneOpen(l)
	c.WantClosing(hard(530, wire.ConnectionOpen{}, text))
}

// openUntilRefused opens connections until one is refused: RabbitMQ counts a connection some time after it has
// opened. It returns those that opened.
func (t *T) openUntilRefused(l login, text string) (open []*Conn) {
	for range 50 {
		c := t.DialStart()
		c.Authenticate(l)
		c.TuneOpen(l)
		switch m := c.Method(0).(type) {
		case wire.ConnectionOpenOk:
			open = append(open, c)
			time.Sleep(100 * time.Millisecond)
		case wire.ConnectionClose:
			t.Equal("refusal", []any{m.ReplyCode, m.ReplyText}, []any{uint16(530), "NOT_ALLOWED - " + t.Text(text)})
			c.Send(0, wire.ConnectionCloseOk{})
			c.WantClosed(patience)
			return open
		default:
			t.Fatalf("connection.open answered with %#v", m)
		}
	}
	t.Fatalf("%d connections are open", len(open))
	return nil
}

// openEventually opens a connection that may be refused for a while after others have closed.
func (t *T) openEventually(l login) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		c := t.DialStart()
		c.Authenticate(l)
		c.TuneOpen(l)
		if _, open := c.Method(0).(wire.ConnectionOpenOk); open {
			return
		}
		c.Send(0, wire.ConnectionCloseOk{})
		c.WantClosed(patience)
	}
	t.Fatalf("no connection opened within %v", patience)
}

func vhostLimitCases() []Case { return append(queueLimitCases(), connectionLimitCases()...) }

// limitCase is a case of limits with a virtual host of its own, named Q.
func limitCase(id, title, source string, run func(t *T)) Case {
	return Case{ID: "limits/" + id, Title: title, Source: source, Class: Extension, NeedsAdmin: true, Run: func(t *T) {
		t.ownVHost()
		run(t)
	}}
}

// queueLimitCases: max-queues of a virtual host.
func queueLimitCases() []Case {
	const source = "behaviour 2.3, 7.3"
	const text = "cannot declare queue '{Q2}': queue limit in vhost '{Q}' (1) is reached"
	limited := func(t *T, limit int) *Chan {
		t.Must(t.Admin.SetVHostLimit(t.Q, "max-queues", limit))
		return t.ConnectAs(login{vhost: t.Q}).Chan(1)
	}
	declare := func(ch *Chan, m wire.QueueDeclare) { ch.Call(m, wire.QueueDeclareOk{Queue: m.Queue}) }
	return []Case{
		limitCase("queues", "max-queues: one more is refused, declaring those there are is not", source, func(t *T) {
			ch := limited(t, 1)
			declare(ch, wire.QueueDeclare{Queue: t.X})
			ch.Send(wire.QueueDeclare{Queue: t.Q2})
			ch.WantClosing(soft(406, wire.QueueDeclare{}, text))
			declare(ch, wire.QueueDeclare{Queue: t.X})
			ch.Call(wire.QueueDeclare{Queue: t.X, Passive: true}, wire.QueueDeclareOk{Queue: t.X})
			ch.Call(wire.QueueDelete{Queue: t.X}, wire.QueueDeleteOk{})
			declare(ch, wire.QueueDeclare{Queue: t.Q2})
		}),
		limitCase("queues-exclusive", "exclusive queues count", source, func(t *T) {
			ch := limited(t, 1)
			declare(ch, wire.QueueDeclare{Queue: t.X, Exclusive: true})
			ch.Send(wire.QueueDeclare{Queue: t.Q2, Exclusive: true})
			ch.WantClosing(soft(406, wire.QueueDeclare{}, text))
		}),
		limitCase("queues-first", "the limit comes before the arguments, but after them in 4.3", source, func(t *T) {
			ch := limited(t, 1)
			declare(ch, wire.QueueDeclare{Queue: t.X})
			value := "invalid arg 'x-message-ttl' for queue '{Q2}' in vhost '{Q}': {value_negative,-1}"
			kind := "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue '{Q2}' in vhost '{Q}'"
			if !t.Four() {
				value, kind = text, text
			}
			ch.Send(wire.QueueDeclare{Queue: t.Q2, Arguments: arg("x-message-ttl", int32(-1))})
			ch.WantClosing(soft(406, wire.QueueDeclare{}, value))
			ch.Send(wire.QueueDeclare{Queue: t.Q2, Arguments: arg("x-dead-letter-exchange", int32(1))})
			ch.WantClosing(soft(406, wire.QueueDeclare{}, kind))
		}),
		limitCase("queues-zero", "0 refuses every queue", source, func(t *T) {
			ch := limited(t, 0)
			ch.Send(wire.QueueDeclare{Queue: t.Q2})
			ch.WantClosing(soft(406, wire.QueueDeclare{}, "cannot declare queue '{Q2}': queue limit in vhost '{Q}' (0) is reached"))
		}),
		limitCase("queues-none", "-1 is no limit; what is there above a new limit stays", source, func(t *T) {
			ch := limited(t, -1)
			declare(ch, wire.QueueDeclare{Queue: t.X})
			declare(ch, wire.QueueDeclare{Queue: t.X2})
			t.Must(t.Admin.SetVHostLimit(t.Q, "max-queues", 1))
			declare(ch, wire.QueueDeclare{Queue: t.X2})
			ch.Send(wire.QueueDeclare{Queue: t.Q2})
			ch.WantClosing(soft(406, wire.QueueDeclare{}, text))
		}),
	}
}

// connectionLimitCases: max-connections of virtual hosts and users, max-channels of users.
func connectionLimitCases() []Case {
	const source = "behaviour 1.6, 7.3"
	const byVHost = "access to vhost '{Q}' refused for user '{me}': connection limit (%) is reached"
	with := func(text, n string) string {
		for i := range text {
			if text[i] == '%' {
				return text[:i] + n + text[i+1:]
			}
		}
		return text
	}
	// mine makes the case's own user with a limit and gives how to log in.
	mine := func(t *T, name string, limit int) login {
		t.user()
		t.Must(t.Admin.SetPermissions(t.Login, t.Q, ".*", ".*", ".*"))
		t.Must(t.Admin.SetUserLimit(t.Login, name, limit))
		return login{user: t.Login, password: "pw", vhost: t.Q}
	}
	return []Case{
		limitCase("vhost-connections", "max-connections of a virtual host; a connection that closes makes room", source, func(t *T) {
			t.Must(t.Admin.SetVHostLimit(t.Q, "max-connections", 2))
			open := t.openUntilRefused(login{vhost: t.Q}, with(byVHost, "2"))
			for _, c := range open {
				c.Close()
				c.Drop()
			}
			t.openEventually(login{vhost: t.Q})
		}),
		limitCase("vhost-connections-zero", "0 refuses everybody", source, func(t *T) {
			t.Must(t.Admin.SetVHostLimit(t.Q, "max-connections", 0))
			t.openRefused(login{vhost: t.Q}, with(byVHost, "0"))
			t.Must(t.Admin.SetVHostLimit(t.Q, "max-connections", -1))
			t.ConnectAs(login{vhost: t.Q})
		}),
		limitCase("user-connections", "max-connections of a user; others may connect", source, func(t *T) {
			l := mine(t, "max-connections", 1)
			open := t.openUntilRefused(l, "connection refused for user '{U}': user connection limit (1) is reached")
			t.ConnectAs(login{vhost: t.Q})
			for _, c := range open {
				c.Close()
				c.Drop()
			}
			t.openEventually(l)
		}),
		limitCase("user-connections-zero", "0 refuses the user", source, func(t *T) {
			l := mine(t, "max-connections", 0)
			t.openRefused(l, "connection refused for user '{U}': user connection limit (0) is reached")
			t.Must(t.Admin.SetUserLimit(t.Login, "max-connections", -1))
			t.ConnectAs(l)
		}),
		limitCase("connections-order", "a missing virtual host comes first, then the limit of the virtual host, of the user, permission last", source, func(t *T) {
			l := mine(t, "max-connections", 0)
			t.Must(t.Admin.SetPermissions(t.Login, t.Q, "^$", "^$", "^$"))
			t.Must(t.Admin.SetVHostLimit(t.Q, "max-connections", 0))
			t.openRefused(login{user: t.Login, password: "pw", vhost: t.X}, "vhost {X} not found")
			t.openRefused(l, "access to vhost '{Q}' refused for user '{U}': connection limit (0) is reached")
			t.Must(t.Admin.SetVHostLimit(t.Q, "max-connections", -1))
			t.openRefused(l, "connection refused for user '{U}': user connection limit (0) is reached")
			t.openRefused(login{user: t.Login, password: "pw", vhost: t.VHost}, "connection refused for user '{U}': user connection limit (0) is reached")
			t.Must(t.Admin.SetUserLimit(t.Login, "max-connections", -1))
			t.openRefused(login{user: t.Login, password: "pw", vhost: t.VHost}, "access to vhost '{V}' refused for user '{U}'")
		}),
		limitCase("user-channels", "max-channels of a user counts all connections; a channel that closes makes room", "behaviour 2.1", func(t *T) {
			l := mine(t, "max-channels", 2)
			text := "number of channels opened for user '{U}' has reached the maximum allowed user limit of (2)"
			if t.Four() {
				text = "number of channels opened for user '{U}' has reached the maximum allowed user limit of 2"
			}
			first := t.ConnectAs(l).Chan(1)
			second := t.ConnectAs(l)
			second.Chan(1)
			time.Sleep(channelsCounted)
			second.Send(2, wire.ChannelOpen{})
			second.WantClosing(hard(530, nil, text))
			first.Quiet()
		}),
		limitCase("user-channels-zero", "0 refuses every channel", "behaviour 2.1", func(t *T) {
			l := mine(t, "max-channels", 0)
			text := "number of channels opened for user '{U}' has reached the maximum allowed user limit of (0)"
			if t.Four() {
				text = "number of channels opened for user '{U}' has reached the maximum allowed user limit of 0"
			}
			c := t.ConnectAs(l)
			c.Send(1, wire.ChannelOpen{})
			c.WantClosing(hard(530, nil, text))
		}),
	}
}

// channelsCounted is how long RabbitMQ may take to count a channel that has opened.
const channelsCounted = time.Second
