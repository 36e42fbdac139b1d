package amqp

import (
	"fmt"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// blockCause is one reason for which a connection's publishes wait. Values are
// compared: each reason is there once.
type blockCause struct {
	queue *queue.Queue    // full, with x-overflow block-publishers
	low   broker.Resource // an alarm, if no queue
}

// String is the reason that connection.blocked shows.
func (b blockCause) String() string {
	if b.queue == nil {
		return "low on " + b.low.String()
	}
	return fmt.Sprintf("queue '%s' in vhost '%s' is full", b.queue.Name, b.queue.VHost)
}

// block adds a cause. The first is told to a client that can take it, with
// connection.blocked; later ones, and others in its place, are not told, as in
// RabbitMQ. What is read meanwhile is for whoever blocks to decide. mu is held.
func (c *conn) block(cause blockCause) {
	first := len(c.blocked) == 0
	if c.blocked == nil {
		c.blocked = map[blockCause]struct{}{}
	}
	c.blocked[cause] = struct{}{}
	if !first || c.state != running {
		return
	}
	c.log.Info("connection blocked", "reason", cause.String())
	c.observe(broker.Event{Step: broker.ConnectionBlocked, Text: cause.String()})
	if c.can.blocked {
		c.out.send(nil, 0, &frames.ConnectionBlocked{Reason: cause.String()})
	}
}

// unblock takes a cause away. After the last comes connection.unblocked, ahead
// of all answers to what has waited; a connection that is being closed is told
// nothing. mu is held.
func (c *conn) unblock(cause blockCause) {
	if _, was := c.blocked[cause]; !was {
		return
	}
	delete(c.blocked, cause)
	if len(c.blocked) > 0 || c.state != running {
		return
	}
	c.observe(broker.Event{Step: broker.ConnectionUnblocked})
	if c.can.blocked {
		c.out.send(nil, 0, &frames.ConnectionUnblocked{})
	}
}

// stateName is the connection's state as RabbitMQ lists it: a running one is
// "blocked" while its publishes are held, and "blocking" while an alarm would
// hold them. mu is held.
func (c *conn) stateName() string {
	switch {
	case c.state != running:
	case len(c.blocked) > 0:
		return "blocked"
	case c.server.broker.Alarms() != 0:
		return "blocking"
	}
	return c.state.String()
}
