package amqp

import (
	"fmt"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// blockCause is one reason for which a connection's publishes wait. Values are
// compared: each reason is there once.
type blockCause struct {
	queue *queue.Queue // full, with x-overflow block-publishers
}

// String is the reason that connection.blocked shows.
func (b blockCause) String() string {
	return fmt.Sprintf("queue '%s' in vhost '%s' is full", b.queue.Name, b.queue.VHost)
}

// block adds a cause. The first is told to a client that can take it, with
// connection.blocked. mu is held.
func (c *conn) block(cause blockCause) {
	first := len(c.blocked) == 0
	if c.blocked == nil {
		c.blocked = map[blockCause]struct{}{}
	}
	c.blocked[cause] = struct{}{}
	if first && c.can.blocked && c.state == running {
		c.out.send(nil, 0, &frames.ConnectionBlocked{Reason: cause.String()})
	}
}

// unblock takes a cause away. After the last comes connection.unblocked. mu is
// held.
func (c *conn) unblock(cause blockCause) {
	if _, was := c.blocked[cause]; !was {
		return
	}
	delete(c.blocked, cause)
	if len(c.blocked) == 0 && c.can.blocked && c.state == running {
		c.out.send(nil, 0, &frames.ConnectionUnblocked{})
	}
}
