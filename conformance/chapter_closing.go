package conformance

import (
	"errors"
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

func closingCases() []Case {
	const source = "spec 2.2.4, behaviour 1.9"
	return []Case{
		{ID: "closing/client", Title: "connection.close is answered with close-ok", Source: source, Class: Core, Run: func(t *T) {
			t.Connect().Close()
		}},
		{ID: "closing/client-stays", Title: "after close-ok the broker ends TCP itself if the client does not", Source: source, Class: Timing, Run: func(t *T) {
			c := t.ConnectAs(login{heartbeat: 2})
			c.Close()
			c.WantClosed(12 * time.Second)
		}},
		{ID: "closing/exclusive-queues-first", Title: "exclusive queues are gone before close-ok", Source: source, Class: Core, Difference: "exclusive-gone",
			Run: func(t *T) {
				a, b := t.Connect(), t.Connect()
				a.Chan(1).Queue(t.Q)
				a.Close()
				if t.Four() && !t.Differs() {
					b.eventuallyUnlocked()
					return
				}
				ch := b.Chan(1)
				ch.Send(wire.QueueDeclare{Queue: t.Q, Passive: true})
				ch.WantClosing(soft(404, wire.QueueDeclare{}, "no {q}"))
			}},
		{ID: "closing/lost-exclusive-queue", Title: "exclusive queues of a lost connection are deleted", Source: "behaviour 2.3", Class: Core, Run: lostExclusive},
		{ID: "closing/lost-requeues", Title: "a lost connection's unacknowledged messages are redelivered", Source: "behaviour 2.6", Class: Core, Run: func(t *T) {
			a, b := t.Channel(), t.Channel()
			b.DeclareQueue(wire.QueueDeclare{Queue: t.Q, AutoDelete: true})
			b.Publish("", t.Q, "body")
			b.WantCount(t.Q, 1, 0)
			a.Get(t.Q, false)
			b.Consume(t.Q, "heir")
			b.Quiet()
			a.Drop()
			b.WantDelivery(Delivery{Consumer: "heir", Tag: 1, Redelivered: true, Key: t.Q, Body: "body"})
		}},
		{ID: "closing/error-requeues", Title: "a connection error requeues what is unacknowledged on all its channels", Source: "behaviour 2.6", Class: Core,
			Run: func(t *T) {
				c, heir := t.Connect(), t.Channel()
				one, two := c.Chan(1), c.Chan(2)
				heir.DeclareQueue(wire.QueueDeclare{Queue: t.Q})
				heir.Publish("", t.Q, "a", "b")
				heir.WantCount(t.Q, 2, 0)
				one.Get(t.Q, false)
				two.Get(t.Q, false)
				one.Send(wire.ChannelFlow{})
				c.WantClosing(hard(540, wire.ChannelFlow{}, "active=false"))
				heir.WantCount(t.Q, 2, 0)
				t.Equal("message", heir.Get(t.Q, true), Got{Tag: 1, Redelivered: true, Key: t.Q, Left: 1, Body: "a"})
			}},
		{ID: "closing/unfinished-content", Title: "content that is unfinished when the connection ends is not published", Source: "spec 4.2.6", Class: Core,
			Run: func(t *T) {
				a, b := t.Channel(), t.Channel()
				b.Queue(t.Q)
				frames := a.ContentFrames(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{}, "whole")
				frames = append(frames, a.ContentFrames(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{}, "half")[:2]...)
				a.SendFrames(frames...)
				a.Conn.Close()
				b.WantGet(t.Q, "whole", 0)
			}},
		{ID: "closing/deaf-after-error", Title: "after a connection.close from the broker all but close and close-ok is ignored", Source: source, Class: Core,
			Run: func(t *T) {
				ch := t.Channel()
				ch.Send(wire.ChannelFlow{})
				ch.Conn.Want(0, wire.ConnectionClose{ReplyCode: 540, ReplyText: "NOT_IMPLEMENTED - active=false", ClassID: 20, MethodID: 20})
				ch.Send(wire.QueueDeclare{Queue: t.Q, Exclusive: true}, wire.ChannelFlow{Active: true})
				ch.Conn.Send(0, wire.ConnectionCloseOk{})
				ch.WantClosed(patience)
			}},
		{ID: "closing/crossing", Title: "a client's close that crosses the broker's is answered", Source: source, Class: Core, Run: func(t *T) {
			c := t.Connect()
			c.Send(0, wire.ConnectionOpen{VirtualHost: t.VHost}, wire.ConnectionClose{ReplyCode: 200})
			c.Want(0, wire.ConnectionClose{ReplyCode: 504, ReplyText: "CHANNEL_ERROR - unexpected method in connection state running",
				ClassID: 10, MethodID: 40})
			c.Want(0, wire.ConnectionCloseOk{})
			c.Drop()
		}},
		{ID: "closing/unanswered", Title: "a broker's close that stays unanswered ends after the heartbeat time", Source: source, Class: Timing, Run: unanswered},
		{ID: "closing/user-deleted", Title: "deleting a user closes his connections with 320", Source: source, Class: Extension, NeedsAdmin: true, Run: func(t *T) {
			t.user()
			t.permit(".*", ".*", ".*")
			c := t.ConnectAs(login{user: t.Login, password: "pw"})
			t.Must(t.Admin.DeleteUser(t.Login))
			c.WantClosing(hard(320, nil, "user '{U}' is deleted"))
		}},
		{ID: "closing/vhost-deleted", Title: "deleting a virtual host cancels its consumers and closes its connections with 320", Source: source,
			Class: Extension, NeedsAdmin: true, Run: vhostDeleted},
		{ID: "closing/management", Title: "closed through the management API: 320 with the reason given", Source: source, Class: Management,
			Run: func(t *T) { closedOutside(t, "maintenance at {Q}", "maintenance at {Q}") }},
		{ID: "closing/management-no-reason", Title: "closed through the management API without a reason", Source: source, Class: Management,
			Run: func(t *T) { closedOutside(t, "", "Closed via management plugin") }},
	}
}

func lostExclusive(t *T) {
	a, b := t.Connect(), t.Connect()
	a.Chan(1).Queue(t.Q)
	a.Drop()
	b.eventuallyUnlocked()
}

// eventuallyUnlocked demands that Q, another connection's exclusive queue, goes. It asks again and again, each time on
// a fresh channel, since the broker notices a loss in its own time; while the queue lives the answer is 405.
func (c *Conn) eventuallyUnlocked() {
	gone := wire.ChannelClose{ReplyCode: 404, ReplyText: c.t.Text("NOT_FOUND - no {q}"), ClassID: 50, MethodID: 10}
	for end := time.Now().Add(countPatience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		ch := c.Chan(1)
		ch.Send(wire.QueueDeclare{Queue: c.t.Q, Passive: true})
		m := ch.next()
		ch.Send(wire.ChannelCloseOk{})
		if m == wire.Method(gone) {
			return
		}
		if closed, ok := m.(wire.ChannelClose); !ok || closed.ReplyCode != 405 {
			c.t.Fatalf("passive declare answered with %#v", m)
		}
	}
	c.t.Fatalf("the queue is still there")
}

// unanswered: with a heartbeat of 2 s the broker waits as long for close-ok, then resets. The limits are wide; the
// point is that it neither waits for ever nor resets at once.
func unanswered(t *T) {
	c := t.ConnectAs(login{heartbeat: 2})
	ch := c.Chan(1)
	ch.Send(wire.ChannelFlow{})
	c.Want(0, wire.ConnectionClose{ReplyCode: 540, ReplyText: "NOT_IMPLEMENTED - active=false", ClassID: 20, MethodID: 20})
	start := time.Now()
	c.WantClosed(12 * time.Second)
	if d := time.Since(start); d < time.Second {
		t.Fatalf("ended after only %v", d)
	}
}

// vhostDeleted: the text is that of a deleted or of a stopped virtual host, as RabbitMQ happens to notice first; the
// TCP connection then ends with or without an answer.
func vhostDeleted(t *T) {
	t.Must(t.Admin.CreateVHost(t.Q))
	deleted := false
	t.Cleanup(func() {
		if !deleted {
			t.Must(t.Admin.DeleteVHost(t.Q))
		}
	})
	t.Must(t.Admin.SetPermissions(t.User, t.Q, ".*", ".*", ".*"))
	c := t.ConnectAs(login{vhost: t.Q})
	ch := c.Chan(1)
	ch.Queue(t.Q2)
	ch.Consume(t.Q2, "tag")
	t.Must(t.Admin.DeleteVHost(t.Q))
	deleted = true
	c.WantNext(1, wire.BasicCancel{ConsumerTag: "tag", NoWait: true})
	m, ok := c.Method(0).(wire.ConnectionClose)
	if !ok || m.ReplyCode != 320 || m.ReplyText != t.Text("CONNECTION_FORCED - vhost '{Q}' is deleted") &&
		m.ReplyText != t.Text("CONNECTION_FORCED - vhost '{Q}' is down") {
		t.Fatalf("want 320, got %#v", m)
	}
	c.Send(0, wire.ConnectionCloseOk{})
	c.WantClosed(patience)
}

func closedOutside(t *T, reason, text string) {
	closer, ok := t.Admin.(ConnectionCloser)
	if !ok {
		t.Fatalf("the administrator %T cannot close connections", t.Admin)
	}
	t.user("management")
	t.permit(".*", ".*", ".*")
	c := t.ConnectAs(login{user: t.Login, password: "pw"})
	t.Must(closer.CloseConnection(t.Login, t.Text(reason)))
	c.WantClosing(hard(320, nil, text))
}

func heartbeatCases() []Case {
	const source = "spec 4.2.7, behaviour 1.7"
	return []Case{
		{ID: "heartbeat/sent", Title: "an idle broker sends a heartbeat each half interval", Source: source, Class: Timing, Run: heartbeatSent},
		{ID: "heartbeat/silent-client", Title: "a silent client is dropped after two to three intervals, without connection.close", Source: source, Class: Timing,
			Run: func(t *T) {
				c := t.ConnectAs(login{heartbeat: 1})
				start := time.Now()
				c.WantClosed(10 * time.Second)
				if d := time.Since(start); d < 1500*time.Millisecond || d > 6*time.Second {
					t.Fatalf("ended after %v", d)
				}
			}},
		{ID: "heartbeat/beating-client", Title: "heartbeats keep a client alive that says nothing else", Source: source, Class: Timing, Run: func(t *T) {
			keptAlive(t, func(c *Conn) { c.SendFrames(wire.Frame{Type: wire.FrameHeartbeat}) })
		}},
		{ID: "heartbeat/any-traffic", Title: "any traffic keeps a client alive", Source: source, Class: Timing, Run: func(t *T) {
			keptAlive(t, func(c *Conn) {
				c.Send(1, wire.ChannelFlow{Active: true})
				c.Want(1, wire.ChannelFlowOk{Active: true})
			})
		}},
		{ID: "heartbeat/none", Title: "heartbeat 0: no heartbeat comes and silence is borne", Source: source, Class: Timing, Run: func(t *T) {
			c := t.Connect()
			if f, err := c.w.ReadFrame(4 * time.Second); !errors.Is(err, wire.ErrTimeout) {
				t.Fatalf("in four seconds of silence: %s, error %v", describe(f), err)
			}
		}},
	}
}

// heartbeatSent demands four heartbeats at an interval of 2 s and allows 2.5 to 7 s for what RabbitMQ does in 4.
func heartbeatSent(t *T) {
	c := t.ConnectAs(login{heartbeat: 2})
	start := time.Now()
	for n := range 4 {
		f, err := c.w.ReadFrame(patience)
		t.Must(err)
		t.Equal("heartbeat", []any{f.Type, f.Channel, len(f.Payload)}, []any{uint8(wire.FrameHeartbeat), uint16(0), 0})
		c.SendFrames(wire.Frame{Type: wire.FrameHeartbeat})
		if d := time.Since(start); n == 3 && (d < 2500*time.Millisecond || d > 7*time.Second) {
			t.Fatalf("four heartbeats in %v", d)
		}
	}
}

// keptAlive talks for 5 s at a heartbeat of 1 s.
func keptAlive(t *T, talk func(c *Conn)) {
	c := t.ConnectAs(login{heartbeat: 1})
	c.Chan(1)
	for range 10 {
		time.Sleep(500 * time.Millisecond)
		talk(c)
	}
}
