package amqp

import (
	"errors"
	"time"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// readProtocolHeader reads the first eight bytes and starts the handshake. A
// header of another protocol is answered with the one that is spoken here.
func (c *conn) readProtocolHeader() error {
	header, n, err := c.reader.ReadProtocolHeader()
	if err != nil && n == 0 {
		return err
	}
	if err != nil || !c.accepts(header) {
		_, _ = c.socket.Write([]byte("AMQP\x00\x00\x09\x01"))
		resetSocket(c.socket)
		return errors.New("foreign protocol header")
	}
	minor := byte(9)
	if header == [8]byte{'A', 'M', 'Q', 'P', 1, 1, 8, 0} {
		minor = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peer = peer(c.socket)
	c.state = starting
	start := &frames.ConnectionStart{
		VersionMinor: minor, ServerProperties: c.server.properties,
		Mechanisms: []byte(auth.Names(auth.Offered(c.server.mechanisms, c.peer))), Locales: []byte("en_US"),
	}
	if minor == 0 {
		start.VersionMajor = 8
	}
	c.out.send(nil, 0, start)
	return nil
}

// accepts knows the headers of 0-9-1, of 0-9 and, as 3.10.8 does, of 0-8,
// which are all served as 0-9-1.
func (c *conn) accepts(h [8]byte) bool {
	switch h {
	case [8]byte{'A', 'M', 'Q', 'P', 0, 0, 9, 1}, [8]byte{'A', 'M', 'Q', 'P', 1, 1, 0, 9}:
		return true
	case [8]byte{'A', 'M', 'Q', 'P', 1, 1, 8, 0}:
		return compat.OldProtocolHeader.In(c.server.broker.Profile)
	}
	return false
}

// connectionFrame takes a frame on channel 0. mu is held.
func (c *conn) connectionFrame(f frames.Frame) error {
	if f.Type != frames.TypeMethod {
		return errNotMethod()
	}
	m, err := frames.DecodeMethod(f.Payload)
	if err != nil {
		return err
	}
	return c.connectionMethod(m)
}

// connectionMethod is the connection's state machine: which method is legal
// in which state. mu is held.
func (c *conn) connectionMethod(m frames.Method) error {
	switch m := m.(type) {
	case *frames.ConnectionStartOk:
		if c.state == starting {
			return c.startOk(m)
		}
	case *frames.ConnectionTuneOk:
		if c.state == tuning {
			return c.tuneOk(m)
		}
	case *frames.ConnectionOpen:
		if c.state == opening {
			c.open(m)
			return nil
		}
	case *frames.ConnectionClose:
		if c.state == running {
			c.closedByClient()
			return nil
		}
	case *frames.ConnectionUpdateSecret:
		if c.state == running {
			// The internal users' directory has nothing to check it against,
			// as in RabbitMQ.
			c.out.send(nil, 0, &frames.ConnectionUpdateSecretOk{})
			return nil
		}
	}
	return frames.Errorf(frames.ChannelError, "unexpected method in connection state %s", c.state).At(m.ID())
}

func (s connState) String() string {
	return [...]string{"starting", "tuning", "opening", "running", "closing", "silent", "closed"}[s]
}

// startOk logs in. mu is held.
func (c *conn) startOk(m *frames.ConnectionStartOk) error {
	c.readCapabilities(m.ClientProperties)
	mechanism, ok := auth.Find(auth.Offered(c.server.mechanisms, c.peer), m.Mechanism)
	if !ok {
		return frames.Errorf(frames.CommandInvalid, "unknown authentication mechanism '%s'", m.Mechanism)
	}
	user, err := mechanism.Respond(m.Response, c.peer)
	if errors.Is(err, auth.ErrMalformed) {
		return frames.Errorf(frames.SyntaxError, "%v", err)
	}
	if err != nil {
		c.log.Warn("login refused", "user", user, "mechanism", m.Mechanism, "error", err)
		return c.refuseLogin(m.Mechanism)
	}
	c.client.User = user
	c.mechanism = m.Mechanism
	c.properties = m.ClientProperties.Append(nil)
	c.state = tuning
	o := &c.server.options
	c.out.send(nil, 0, &frames.ConnectionTune{ChannelMax: o.ChannelMax, FrameMax: o.FrameMax, Heartbeat: o.Heartbeat})
	return nil
}

// refuseLogin tells a client that can take it; others are kept waiting.
func (c *conn) refuseLogin(mechanism string) error {
	r := auth.LoginRefused(mechanism)
	if !c.can.authenticationFailureClose {
		return frames.Errorf(r.Code, "%s", r.Text)
	}
	c.closeWith(frames.Errorf(r.Code, "%s", r.Text), refusedLinger)
	return nil
}

func (c *conn) readCapabilities(properties frames.Table) {
	if name, ok := properties.Get("connection_name"); ok {
		if s, ok := name.(string); ok {
			c.log = c.log.With("name", s)
		}
	}
	v, _ := properties.Get("capabilities")
	table, _ := v.(frames.Table)
	can := func(name string) bool {
		v, _ := table.Get(name)
		on, _ := v.(bool)
		return on
	}
	c.can = capabilities{can("consumer_cancel_notify"), can("connection.blocked"), can("authentication_failure_close")}
}

// tuneOk checks what the client chose. mu is held.
func (c *conn) tuneOk(m *frames.ConnectionTuneOk) error {
	o := &c.server.options
	switch {
	case m.FrameMax < minFrameMax:
		return frames.Errorf(frames.NotAllowed, "negotiated frame_max = %d is lower than the minimum allowed value (%d)", m.FrameMax, minFrameMax)
	case m.FrameMax > o.FrameMax:
		return frames.Errorf(frames.NotAllowed, "negotiated frame_max = %d is higher than the maximum allowed value (%d)", m.FrameMax, o.FrameMax)
	case m.ChannelMax == 0, m.ChannelMax > o.ChannelMax:
		return frames.Errorf(frames.NotAllowed, "negotiated channel_max = %d is higher than the maximum allowed value (%d)", m.ChannelMax, o.ChannelMax)
	}
	c.channelMax = m.ChannelMax
	c.out.frameMax.Store(m.FrameMax)
	c.reader.SetLimit(m.FrameMax)
	c.heartbeat = time.Duration(m.Heartbeat) * time.Second
	c.startHeartbeats(c.heartbeat)
	c.state = opening
	return nil
}

// open does connection.open; what it refuses is told to the client. mu is
// held.
func (c *conn) open(m *frames.ConnectionOpen) {
	v, err := c.server.openVHost(c.client.User, m.VirtualHost)
	var fe *frames.Error
	if errors.As(err, &fe) {
		c.log.Warn("connection.open refused", "vhost", m.VirtualHost, "user", c.client.User, "error", fe)
		c.closeWith(fe.At(m.ID()), c.closeWait())
		return
	}
	c.vhost, c.counted = v, true
	c.stopHandshakeTimer()
	c.state = running
	c.connectedAt = c.server.broker.Clock.ConnectionNow()
	c.channels = make(map[uint16]*channel)
	c.info.Store(&broker.SessionInfo{Name: c.name, User: c.client.User, VHost: v.Name})
	c.server.broker.Attach(c)
	if h := &c.server.broker.Hooks; h.Intercepting() && !c.interceptOpen() {
		return
	}
	c.opened()
}

// opened answers connection.open. mu is held.
func (c *conn) opened() {
	if c.state != running {
		return
	}
	c.log.Info("connection opened", "user", c.client.User, "vhost", c.vhost.Name)
	c.observe(broker.Event{Step: broker.ConnectionOpened})
	c.out.send(nil, 0, &frames.ConnectionOpenOk{})
}

// interceptOpen asks the interceptors; false: the answer is theirs. mu is
// held.
func (c *conn) interceptOpen() bool {
	e := broker.Event{Step: broker.ConnectionOpened}
	c.describe(&e)
	switch v := c.server.broker.Hooks.Intercept(&e); v.Action {
	case broker.Refuse:
		c.closeWith(frames.Errorf(v.Code, "%s", v.Text).At(frames.ConnectionOpenID), c.closeWait())
	case broker.Close:
		c.end()
		resetSocket(c.socket)
	case broker.Delay:
		c.after(v.Wait, func() {
			go func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.opened()
			}()
		})
	case broker.Drop:
	default:
		return true
	}
	return false
}

// stopHandshakeTimer: it is the first that was set. mu is held.
func (c *conn) stopHandshakeTimer() {
	c.timers[0].Stop()
}

// closedByClient does connection.close: everything of the connection is gone
// before close-ok is sent. mu is held.
func (c *conn) closedByClient() {
	if len(c.holdings) > 0 {
		c.closeHeld()
		return
	}
	c.endChannels()
	c.out.sendLast(&frames.ConnectionCloseOk{})
	c.finish()
}
