package amqp

import (
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

// getWhenLoaded parks the channel while the message that a basic.get is to
// have is read from disk, then does the get again. conn.mu is held.
func (ch *channel) getWhenLoaded(q *broker.Queue, m *frames.BasicGet) error {
	return ch.afterStored(
		func(done func(error)) (wait bool, err error) {
			q.Await(func() { done(nil) })
			return true, nil
		},
		func() error { return at(ch.get(m), frames.BasicGetID) })
}
