package amqp

import "github.com/warrenmq/warren/frames"

// refuseStreams is the error for returning deliveries when one of them is a
// stream's, which keeps its messages anyway. Only 3.10.8 refuses it.
func (ch *channel) refuseStreams(items []unackedItem) error {
	for i := range items {
		if q := items[i].q; q.Stream != nil {
			if err := q.RejectRefused(ch.c.server.broker.Profile); err != nil {
				return err
			}
		}
	}
	return nil
}

// recoverRefused is the error for basic.recover while a stream's deliveries
// are outstanding, which kills the channel of 3.10.8 (verified).
func (ch *channel) recoverRefused(items []unackedItem) error {
	if ch.refuseStreams(items) == nil {
		return nil
	}
	return frames.Errorf(frames.InternalError, "")
}
