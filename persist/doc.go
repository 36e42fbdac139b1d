// Package persist keeps definitions and messages on disk. It knows bytes and
// ids; what a queue, a priority or a delivery is, its callers know.
//
// What it promises:
//
//   - A message whose Waiter was told Stored with a nil error is there after
//     the process is killed, and with SyncAlways after the machine lost power.
//   - A Group or an Update is there as a whole or not at all.
//   - A settled message does not come back once a Barrier asked for after its
//     Settle was resolved, and in any case not once Options.LazyDelay and one
//     commit have passed.
//   - A message that is settled before its commit leaves no trace on disk.
//   - A message's bytes are written once, however many queues took it.
//   - No call blocks on the disk, except Open, Recover and Close.
//
// How bytes travel:
//
//	Append, Settle, Submit, Update          any goroutine, under Store.mu
//	        |
//	   open batch --- a cap is reached ---> queued batches
//	        |                                    |
//	        +---------------- take --------------+
//	                           |
//	                  seal (under Store.mu): bodies get a place on a body
//	                  page, entries become index pages, changed acks are
//	                  copied out
//	                           |
//	                  one Badger transaction, one sync      committer
//	                           |
//	                  Waiter.Stored ..., Waiter.Flush
//
// The keys (numbers are big-endian, so key order is number order):
//
//	a queue firstSeq           which messages of that index page are settled
//	b page                     the bytes of all messages of one commit
//	c queue seq                how often a message was given back (Log.SaveReturns)
//	d kind vhost name          a definition, or its beginning
//	e kind vhost name piece    the rest of a large definition
//	g number part              redo list of a commit too large for one transaction
//	i queue firstSeq           index page: the messages of a commit for a queue, up to 4 KiB
//	n name                     format version, reserved ids, mark of a clean stop
//	r queue chunk              redelivered marks and delivery counts of a clean stop
//	s queue                    offset from which on a trimmed stream's chunks count
//	s queue first              summary of a chunk of a stream: messages, size, the caller's words
//	t queue first part         the bytes of that chunk
//	x queue                    this queue's messages are to be cleared
//
// Every value carries a checksum over its key and its bytes. A file named
// WARREN beside Badger's says that the folder is a store and in which format;
// the folder transient holds what need not survive a stop (Transient).
//
// Badger keeps values of 4 KiB and more in its value log, apart from the
// sorted tables, and there only bodies, bytes of chunks and redo lists may be. For Badger 4.9.6
// can bring back a deleted value that lay there: rewriting a value log file
// copies a value although a delete of it waits in an upper level of the
// tables; once that delete has been compacted away, the copy is found again.
// A body page that comes back is referred to by nothing and swept away, so are
// the bytes of a chunk, whose summary does not come back; a redo
// list that comes back is known by its number to be done; an index page or a
// definition would be believed. What lies in the tables alone is not affected.
//
// Who owns what: Store.mu guards the batches, logs and pages in memory and is
// the last lock in the broker's order; nothing is called and no disk is touched
// while it is held, except Payload.HeadSize and Payload.Body. The committer
// goroutine owns a batch from the moment it has taken it. One background
// goroutine clears dropped logs, rewrites pages with little left on them
// (rewrite.go) and runs Badger's value log collection. Whoever reads pages from
// disk holds Store.moving for reading, from before it looks at an indexPage
// until it has what it wanted: a rewrite changes pages in memory first.
//
// Badger is used in one way only: one committer, one transaction a batch, no
// write batches, no conflict detection, no Badger expiry, no prefix drops.
package persist
