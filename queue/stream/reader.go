package stream

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/warrenmq/warren/queue"
)

// The bounds of a reader's turn.
const (
	turnMessages = 256 // delivered
	turnSkips    = 64  // chunks passed over by a filter
)

// reader is one consumer's place in a log. Each turn is a task of the host's
// pump: it delivers until the consumer has no credit or the log has no more,
// and reads chunks with no lock held.
type reader struct {
	// Immutable.
	log      *Log
	consumer *queue.Consumer
	reading  *queue.Reading

	state atomic.Uint32 // resting, running, or running with a kick to heed

	waits bool // in Log.waiting; guarded by Log.mu

	// Owned by the turn.
	next  uint64 // offset to deliver next
	seeks bool   // next is still to be found by Reading.Time, up to end
	end   uint64
	chunk *chunk // where next is, or nil

	mu     sync.Mutex // held while delivering
	closed bool       // nothing is delivered any more; guarded by mu
	entry  queue.Entry
}

// errLost says that the chunk of an offset that should be there is not.
var errLost = errors.New("a chunk is missing")

// The states of a reader.
const (
	resting = iota
	running // the pump has it as a task
	again   // and it was kicked since the turn began
)

// everything is what a consumer reads that does not say.
var everything = &queue.Reading{From: queue.Next}

// Attach implements queue.Stream.
func (l *Log) Attach(c *queue.Consumer) {
	r := &reader{log: l, consumer: c, reading: c.Reading}
	if r.reading == nil {
		r.reading = everything
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	switch r.end = l.committed; r.reading.From {
	case queue.Next:
		r.next = l.committed
	case queue.First:
		r.next = l.begins()
	case queue.Last:
		r.next = max(l.last, l.begins())
	case queue.AtOffset:
		r.next = max(r.reading.Offset, l.begins())
	case queue.AtTime:
		r.next, r.seeks = l.begins(), true
	}
	l.readers[c] = r
}

// Detach implements queue.Stream.
func (l *Log) Detach(c *queue.Consumer) {
	l.mu.Lock()
	r := l.readers[c]
	delete(l.readers, c)
	if r != nil && r.waits {
		for i, w := range l.waiting {
			if w == r {
				l.waiting[i] = l.waiting[len(l.waiting)-1]
				l.waiting[len(l.waiting)-1] = nil
				l.waiting = l.waiting[:len(l.waiting)-1]
				break
			}
		}
	}
	l.mu.Unlock()
	if r != nil {
		r.close()
	}
}

// Resume implements queue.Stream.
func (l *Log) Resume(c *queue.Consumer) {
	l.mu.Lock()
	r := l.readers[c]
	l.mu.Unlock()
	if r != nil {
		r.kick()
	}
}

// close returns when nothing is delivered any more.
func (r *reader) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

func (r *reader) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// kick has the pump give the reader a turn.
func (r *reader) kick() {
	for {
		switch r.state.Load() {
		case resting:
			if r.state.CompareAndSwap(resting, running) {
				r.log.host.reading.Schedule(r)
				return
			}
		case running:
			if r.state.CompareAndSwap(running, again) {
				return
			}
		default:
			return
		}
	}
}

// Run implements queue.Task: one turn.
func (r *reader) Run() (more bool) {
	if r.turn() {
		return true
	}
	if r.state.CompareAndSwap(running, resting) {
		return false
	}
	r.state.Store(running)
	return true
}

// turn delivers a bounded number of messages. True: there is more to do at
// once.
func (r *reader) turn() bool {
	if r.isClosed() {
		return false
	}
	if r.chunk == nil || r.next >= r.chunk.next() {
		found, err := r.advance()
		if err != nil {
			r.fail(err)
			return false
		}
		if !found && r.chunk == nil {
			r.idle()
			return false
		}
		if !found {
			return true
		}
	}
	return r.deliver()
}

// idle says that the consumer has read everything, to whom it may concern.
func (r *reader) idle() {
	if r.consumer.Idler == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.consumer.Idler.Idle(r.consumer)
	}
}

// advance finds the chunk that next is in. found false: r.chunk is nil at the
// end of the log, where the reader waits now, and else a chunk that the filter
// passed over.
func (r *reader) advance() (found bool, err error) {
	if r.seeks {
		if r.next, err = r.log.shelf.since(r.reading.Time, r.next, r.end); err != nil {
			return false, err
		}
		r.seeks = false
	}
	for range turnSkips {
		if r.chunk, err = r.log.find(r); r.chunk == nil || err != nil {
			return false, err
		}
		r.next = max(r.next, r.chunk.first)
		if r.chunk.marks.matches(r.reading) {
			return true, nil
		}
		r.next = r.chunk.next()
	}
	return false, nil
}

// find reads the chunk that a reader is at; nil: there is none yet, and the
// reader is kicked when there is.
func (l *Log) find(r *reader) (*chunk, error) {
	for {
		l.mu.Lock()
		r.next = max(r.next, l.begins()) // retention may have overtaken it
		if r.next >= l.committed {
			if !r.waits && !l.closed {
				r.waits = true
				l.waiting = append(l.waiting, r)
			}
			l.mu.Unlock()
			return nil, nil
		}
		l.mu.Unlock()
		c, err := l.shelf.at(r.next, r.reading)
		if c != nil || err != nil {
			return c, err
		}
		l.mu.Lock()
		lost, closed := r.next >= l.begins(), l.closed
		l.mu.Unlock()
		if closed {
			return nil, nil
		}
		if lost {
			return nil, errLost
		}
	}
}

// deliver offers the chunk's messages. True: the consumer took all it was
// offered.
func (r *reader) deliver() (more bool) {
	messages := r.chunk.deliverable(r.log.host)
	taken := 0
	r.mu.Lock()
	for more = !r.closed; more && taken < turnMessages && r.next < r.chunk.next(); {
		r.entry = queue.Entry{Message: messages[r.next-r.chunk.first], Seq: r.next}
		if more = r.consumer.Sink.Deliver(r.consumer, &r.entry); more {
			r.next++
			taken++
		}
	}
	r.entry = queue.Entry{}
	r.mu.Unlock()
	l := r.log
	l.mu.Lock()
	l.unacked += taken
	l.delivered += uint64(taken)
	l.mu.Unlock()
	return more
}

// fail ends a consumer whose stream cannot be read: it is told that the queue
// is not there for it any more.
func (r *reader) fail(err error) {
	r.log.host.log.Error("a stream cannot be read; its consumer is cancelled", "stream", r.log.id, "offset", r.next, "error", err)
	r.mu.Lock()
	closed := r.closed
	r.closed = true
	r.mu.Unlock()
	if !closed {
		r.consumer.Sink.Cancelled(r.consumer)
	}
}
