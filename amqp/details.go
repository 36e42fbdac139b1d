package amqp

import (
	"cmp"
	"slices"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

// Details implements broker.Session.
func (c *conn) Details() broker.SessionDetails {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := broker.SessionDetails{
		SessionInfo: c.Describe(), State: c.stateName(), Mechanism: c.mechanism,
		Peer: c.socket.RemoteAddr(), Local: c.socket.LocalAddr(), TLS: c.peer.TLS,
		ChannelMax: int(c.channelMax), FrameMax: c.out.frameMax.Load(), Heartbeat: c.heartbeat, ConnectedAt: c.connectedAt,
		Received: c.reader.BytesRead(), Sent: c.out.written.Load(),
	}
	// Append wrote them; they can be read.
	d.ClientProperties, _, _ = frames.ReadTable(c.properties)
	for _, ch := range c.channels {
		if !ch.closing {
			d.Channels = append(d.Channels, ch.details())
		}
	}
	slices.SortFunc(d.Channels, func(a, b broker.ChannelDetails) int { return cmp.Compare(a.Number, b.Number) })
	return d
}

// details are what the management API shows of the channel. conn.mu is held.
func (ch *channel) details() broker.ChannelDetails {
	d := broker.ChannelDetails{Number: ch.id, Confirm: ch.confirming, Transactional: ch.tx != nil, Prefetch: ch.prefetch}
	if ch.tx != nil {
		d.Uncommitted = len(ch.tx.publishes)
		for _, h := range ch.tx.held {
			d.UncommittedAcks += len(h.items)
		}
	}
	ch.mu.Lock()
	d.GlobalPrefetch, d.Unacknowledged, d.Unconfirmed = ch.globalPrefetch, ch.unacked.count(), ch.confirms.outstanding()
	consumers := make([]*consumer, 0, len(ch.consumers))
	for _, c := range ch.consumers {
		consumers = append(consumers, c)
	}
	ch.mu.Unlock()
	slices.SortFunc(consumers, func(a, b *consumer) int { return cmp.Compare(a.Tag, b.Tag) })
	for _, c := range consumers { // asking the queue takes its lock, which comes before the channel's
		d.Consumers = append(d.Consumers, broker.ConsumerDetails{
			Tag: c.Tag, Queue: c.q, NoAck: c.NoAck, Exclusive: c.Exclusive, Prefetch: c.prefetch, Arguments: c.Arguments,
			Active: c.q.Serves(&c.Consumer),
		})
	}
	return d
}

// outstanding is how many publishes are neither confirmed nor refused.
func (t *confirms) outstanding() (n int) {
	for seq := t.base; seq < t.next; seq++ {
		if s := *t.at(seq); s == unresolved || s == guarded {
			n++
		}
	}
	return n
}
