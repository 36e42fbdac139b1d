// Package queue holds one queue's messages and decides their order: arrival
// or priority, returned messages to their old place, consumers in turn by
// priority and credit. It also has what every timer and every message goes
// through: the Clock and the Message.
//
//	publish ──> Queue.Publish ──┬─> Journal (durable queue, persistent message)
//	                            ├─> Sink.Deliver (a consumer has credit)
//	                            └─> ready order ──> pump ──> Sink.Deliver
//	ack     ──> Queue.Settle ──> Journal
//	nack    ──> Queue.Requeue ──> ready order, at the old place
//
// The package does no I/O but for the Pager, which does it on goroutines of its
// own with no queue's lock held. Queues have a mutex and no goroutine; whoever
// brings work delivers a bounded number of messages, the pump the rest.
//
// Who owns what: an entry that waits belongs to its queue; an entry that was
// delivered and awaits acknowledgement belongs to the sink (a channel), which
// gives it back with Settle or Requeue. A Message is immutable once the first
// queue has it.
//
// Lock order: queue (several: by id), then channel, outbox, store batch.
package queue
