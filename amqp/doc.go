// Package amqp speaks AMQP 0-9-1 with clients: listeners, connections,
// channels, confirms and transactions. What the methods do to exchanges,
// queues and messages is package broker's.
//
//	socket ──> reader goroutine ──> conn.handle ──> dispatch table ──> channel handler
//	                                                                      │
//	socket <── writer goroutine <── outbox <── replies, confirms ─────────┤
//	                                   └─────── deliveries <── queues <───┘
//
// One reader goroutine a connection reads, decodes in place and runs the
// handlers. Handlers hold conn.mu, which the reader takes once for all frames
// that one read brought; whatever else acts for a connection (an answer that
// waited for the disk, a shutdown, a timer) takes it too. No goroutine a
// channel, no Go channel a frame. The writer goroutine exists only while there
// is something to write.
//
// A method whose answer must wait for a commit parks its channel, with the
// frames that follow on it; the reader goes on with the other channels.
//
// Handlers return errors; conn.fail is the one place where an error becomes
// channel.close, connection.close or a reset socket. "Not legal in this
// state" is decided in conn.handleMethod, conn.connectionMethod and
// conn.channelMethod alone.
//
// Lock order: conn.mu, then a queue, then channel.mu, then outbox.mu, then the
// store's batch. Deliveries come from under queue locks and take channel.mu and
// outbox.mu only.
package amqp
