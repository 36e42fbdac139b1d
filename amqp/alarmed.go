package amqp

import (
	"sync"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

// alarmed says whether nothing more is to be read after this frame: it is a
// publish's header or body, and an alarm is raised (behaviour 1.11: a
// connection that does not publish is told nothing). mu is held.
func (c *conn) alarmed(f *frames.Frame) bool {
	return f.Type != frames.TypeMethod && c.server.broker.Alarms() != 0 && c.blockByAlarm(f)
}

// blockByAlarm blocks the connection. The frame's message is taken if it is
// complete with it, as in RabbitMQ: an empty body goes through. mu is held.
func (c *conn) blockByAlarm(f *frames.Frame) bool {
	if f.Type != frames.TypeHeader && f.Type != frames.TypeBody || f.Channel == 0 || c.state != running {
		return false
	}
	c.server.alarmed.add(c)
	// Only now is it certain that the end of the alarm will be told.
	now := c.server.broker.Alarms()
	if now == 0 {
		return false
	}
	if c.alarm == 0 {
		c.alarm = now
		c.block(blockCause{low: now})
	}
	return true
}

// waitForAlarm holds the reader while an alarm blocks the connection. It costs
// no goroutine and no timer: the end of the alarm, of the connection or of its
// writer wakes it.
func (c *conn) waitForAlarm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.alarm != 0 && c.state == running && !c.out.isClosed() {
		c.resumed.Wait()
	}
}

// alarmedConns is the connections that an alarm holds, so that its end costs what
// there are of them.
type alarmedConns struct {
	mu    sync.Mutex // comes after a connection's
	conns map[*conn]struct{}
}

func (a *alarmedConns) add(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conns == nil {
		a.conns = map[*conn]struct{}{}
	}
	a.conns[c] = struct{}{}
}

func (a *alarmedConns) remove(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, c)
}

func (a *alarmedConns) take() map[*conn]struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.conns
	a.conns = nil
	return all
}

// alarmsChanged is the broker's word that the set of alarms is another one.
// With the last gone, all connections that wait for that go on.
func (s *Server) alarmsChanged(now broker.Resource) {
	if now != 0 {
		return
	}
	for c := range s.alarmed.take() {
		c.mu.Lock()
		c.unblock(blockCause{low: c.alarm})
		c.alarm = 0
		c.resumed.Broadcast()
		c.mu.Unlock()
	}
}
