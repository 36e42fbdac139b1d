// Package stream is the log behind queues of type stream: messages under
// offsets from 0 on, appended at the end, read by any number of consumers each
// at its own place, and deleted from the front by age or size.
//
//	publish ──> Log.Append ──> open chunk ──> Log.Run (pump) ──> shelf ──> store
//	                                                              │
//	Sink.Deliver <── reader.Run (pump) <── cache, shelf <─────────┴── committed
//
// A chunk is what one turn of writing takes along: while the store works on
// one commit, what is published meanwhile gathers for the next. Chunks are the
// grain of everything that is not an offset: "last", a timestamp and a filter
// all mean whole chunks. Readers see a chunk when it is durable, and its
// messages' publishers are told then.
//
// Chunks lie on a shelf: in the store, from where they are read again, or in
// memory when the broker has no store. With a store, memory holds what awaits
// its commit, a cache of recent chunks that all streams share, and the chunk
// that each reader is at.
//
// Segments are runs of chunks of a size that the queue's arguments give.
// Retention deletes whole segments, never the newest.
//
// Who owns what: Log.mu guards the open chunk, offsets and segments; reader.mu
// guards one consumer's place. Chunks are immutable once they are committed.
//
// Lock order: queue, reader, channel, outbox; and queue, log, store batch. A
// log's and a reader's mutex are never held together, nor any across I/O.
package stream
