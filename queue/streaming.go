package queue

import (
	"slices"

	"github.com/warrenmq/warren/persist"
)

// Stream is what a queue of type stream has instead of a ready order: a log
// that consumers read, each at its own place, and that acknowledgements leave
// as it is. Package stream has the implementation.
//
// All methods may be called from any goroutine, with the queue's lock held:
// they must not block, wait for the disk or call the queue.
type Stream interface {
	// Append takes a message at the end. Its record, if it has one, is held
	// until the message is safe or never will be.
	Append(m *Message)
	// AppendIn takes messages as part of a group; with no store to put them in
	// they count at once. stored: something was put into the group.
	AppendIn(g *persist.Group, messages []*Message) (stored bool)
	// Attach begins a consumer; nothing is delivered before Resume. Detach ends
	// it: once it returns, nothing is delivered any more.
	Attach(c *Consumer)
	Detach(c *Consumer)
	// Resume says that a consumer can take messages (again).
	Resume(c *Consumer)
	// Settled says that so many deliveries are acknowledged or given back.
	Settled(n int)
	// Close ends the stream: the queue has been deleted.
	Close()
	// Counts adds the stream's figures: Ready, ReadyBytes, Unacked, Delivered.
	Counts(*Counts)
}

// Place is where a consumer of a stream begins.
type Place uint8

// The places, in the words of the x-stream-offset argument.
const (
	Next     Place = iota // with what comes after it
	First                 // with the oldest message there is
	Last                  // with the last chunk
	AtOffset              // with Reading.Offset
	AtTime                // with the first chunk that is not older than Reading.Time
)

// Reading is what a consumer wants of a stream. Immutable.
type Reading struct {
	From Place
	// Offset is the first message wanted; one that is not there yet is waited
	// for, one that is not there any more means the oldest there is.
	Offset uint64
	// Time is in milliseconds since the Unix epoch.
	Time int64
	// Filter, when it is not empty, has only chunks read that may hold a message
	// with one of these filter values or, with Unfiltered, one without any.
	Filter     []string
	Unfiltered bool
}

// append is Publish for a stream.
func (q *Queue) append(m *Message) Outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return Gone
	}
	q.published.Add(1)
	q.Stream.Append(m)
	return Taken
}

// returned is Settle, Requeue and Reject for a stream: whatever the client
// says, it gets credit and the messages stay.
func (q *Queue) returned(entries []Entry) {
	q.acked.Add(uint64(len(entries)))
	q.Stream.Settled(len(entries))
}

// streamAppend is what a transaction appends to one stream.
type streamAppend struct {
	queue    *Queue
	messages []*Message
}

// stream collects a message for a stream.
func (p *placements) stream(q *Queue, m *Message) {
	i := slices.IndexFunc(p.streams, func(s streamAppend) bool { return s.queue == q })
	if i < 0 {
		i = len(p.streams)
		p.streams = append(p.streams, streamAppend{queue: q})
	}
	p.streams[i].messages = append(p.streams[i].messages, m)
}

// appendStreams puts what was collected into the group. All locks are held.
func (p *placements) appendStreams(g *persist.Group) {
	for _, s := range p.streams {
		s.queue.published.Add(uint64(len(s.messages)))
		if s.queue.Stream.AppendIn(g, s.messages) {
			p.journaled = true
		}
	}
}

// RecoverMessage rebuilds a message from the head and body that it gave the
// store; they become the message's.
func RecoverMessage(head, body []byte) (m *Message, err error) {
	m = &Message{Content: body}
	if m.Properties, err = new(restorer).head(m, head); err != nil {
		return nil, err
	}
	return m, nil
}
