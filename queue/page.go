package queue

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/warrenmq/warren/persist"
)

// pageWeight is how much of a backlog is moved out of memory, and back, in one
// go, or less with a small budget: a disk is asked rarely, and a queue that is
// read holds two of these.
const pageWeight = 1 << 20

// entryWeight is what an entry weighs besides its bytes: the entry, its
// Message, a share of the blocks they come from.
const entryWeight = 256

// weigh is about the memory that a waiting message takes, in bytes. One that
// waits in several queues counts in each: all but one may let go of it.
func weigh(m *Message) int64 {
	return entryWeight + int64(len(m.Content)) + int64(len(m.Properties))
}

// page is the summary of entries of one priority that are on disk, in a row.
// Those that the journal holds are read from there; the others were written
// out. Immutable.
type page struct {
	first  uint64 // seq of the first entry
	expiry int64  // when that one expires; 0 is never
	count  int
	bytes  int64 // as the ready order counts them
	level  uint8 // the priority

	journaled seqSet
	// What is known of a journaled entry only here: redelivered is said of all,
	// marks of those that differ.
	redelivered bool
	marks       []persist.Mark

	transient persist.Place // of the others
}

// add notes an entry that the journal holds. For pages in the making.
func (p *page) add(e *Entry, bytes int64) {
	if p.count == 0 {
		p.first, p.expiry, p.level = e.Seq, e.Expiry, e.Priority
	}
	p.count++
	p.bytes += bytes
	if !e.Journaled {
		return
	}
	if p.journaled.count == 0 {
		p.redelivered = e.Redelivered
	}
	p.journaled.add(e.Seq)
	if e.Deliveries > 0 || e.Redelivered != p.redelivered {
		p.marks = append(p.marks, persist.Mark{Seq: e.Seq, Redelivered: e.Redelivered, DeliveryCount: e.Deliveries})
	}
}

// eachMark calls fn for every journaled entry that was handed out before.
func (p *page) eachMark(fn func(persist.Mark)) {
	marks := p.marks
	for _, seq := range p.journaled.append(nil) {
		m := persist.Mark{Seq: seq, Redelivered: p.redelivered}
		if len(marks) > 0 && marks[0].Seq == seq {
			m, marks = marks[0], marks[1:]
		}
		if m.Redelivered || m.DeliveryCount > 0 {
			fn(m)
		}
	}
}

// seqSet is rising sequence numbers, packed: a row without gaps, which is what
// a queue without priorities has, needs no memory of its own.
type seqSet struct {
	first, last uint64
	count       int
	steps       []byte // from each to the next; nil when all are 1
}

func (s *seqSet) add(seq uint64) {
	switch {
	case s.count == 0:
		s.first = seq
	case s.steps == nil && seq == s.last+1:
	default:
		if s.steps == nil {
			s.steps = make([]byte, 0, s.count+blockEntries)
			for range s.count - 1 {
				s.steps = append(s.steps, 1)
			}
		}
		s.steps = binary.AppendUvarint(s.steps, seq-s.last)
	}
	s.last = seq
	s.count++
}

// append appends all numbers to dst.
func (s *seqSet) append(dst []uint64) []uint64 {
	seq, steps := s.first, s.steps
	for i := range s.count {
		if i > 0 && s.steps == nil {
			seq++
		} else if i > 0 {
			step, n := binary.Uvarint(steps)
			seq, steps = seq+step, steps[n:]
		}
		dst = append(dst, seq)
	}
	return dst
}

// appendTransient encodes an entry that no journal holds: seq, expiry,
// deliveries and failures, a byte for redelivered, the priority, the sizes of head and
// body, then these.
func appendTransient(dst []byte, e *Entry) []byte {
	m := e.Message
	dst = binary.AppendUvarint(dst, e.Seq)
	dst = binary.AppendUvarint(dst, uint64(e.Expiry))
	dst = binary.AppendUvarint(dst, uint64(e.Deliveries))
	dst = binary.AppendUvarint(dst, uint64(e.Failures))
	dst = append(dst, redeliveredByte(e.Redelivered), e.Priority)
	dst = binary.AppendUvarint(dst, uint64(m.HeadSize()))
	dst = binary.AppendUvarint(dst, uint64(len(m.Content)))
	return append(m.AppendHead(dst), m.Content...)
}

func redeliveredByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// errTransient says that a page does not hold what appendTransient wrote.
var errTransient = errors.New("a transient page is cut short")

// parseTransient is the inverse of appendTransient, for one entry. head and
// body alias b.
func parseTransient(b []byte) (e Entry, head, body, rest []byte, err error) {
	var numbers [4]uint64
	var sizes [2]uint64
	if b, err = uvarints(b, numbers[:]); err != nil {
		return e, nil, nil, nil, err
	}
	e.Seq, e.Expiry, e.Deliveries, e.Failures = numbers[0], int64(numbers[1]), uint32(numbers[2]), uint32(numbers[3])
	if len(b) < 2 {
		return e, nil, nil, nil, errTransient
	}
	e.Redelivered, e.Priority = b[0] != 0, b[1]
	if b, err = uvarints(b[2:], sizes[:]); err != nil {
		return e, nil, nil, nil, err
	}
	if uint64(len(b)) < sizes[0] || uint64(len(b))-sizes[0] < sizes[1] {
		return e, nil, nil, nil, errTransient
	}
	head, b = b[:sizes[0]], b[sizes[0]:]
	return e, head, b[:sizes[1]], b[sizes[1]:], nil
}

func uvarints(b []byte, into []uint64) (rest []byte, err error) {
	for i := range into {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errTransient
		}
		into[i], b = v, b[n:]
	}
	return b, nil
}

// restorer rebuilds messages that lie together. Their memory comes from
// blocks, and names that repeat are kept once.
type restorer struct {
	arena         Arena
	exchange, key string
}

// message rebuilds a message from its stored head and its body, copying both.
func (r *restorer) message(head, body []byte) (*Message, error) {
	m := r.arena.NewMessage(len(head) + len(body))
	properties, err := r.head(m, head)
	if err != nil {
		return nil, err
	}
	m.Properties, m.Content = r.arena.Copy(properties), r.arena.Copy(body)
	return m, nil
}

// head reads a stored head into m, but for the properties, which it returns.
func (r *restorer) head(m *Message, head []byte) (properties []byte, err error) {
	if len(head) < headFixed+2 {
		return nil, fmt.Errorf("read stored message: head of %d bytes is too short", len(head))
	}
	m.Persistent, m.Dead, m.CCDone = head[0]&headPersistent != 0, head[0]&headDead != 0, head[0]&headCCDone != 0
	m.Priority = head[1]
	m.Expiration = int64(binary.BigEndian.Uint64(head[2:]))
	rest := head[headFixed:]
	for _, s := range []struct{ into, last *string }{{&m.Exchange, &r.exchange}, {&m.RoutingKey, &r.key}} {
		if len(rest) < 1 || len(rest) < 1+int(rest[0]) {
			return nil, fmt.Errorf("read stored message: head ends inside a name")
		}
		name := rest[1 : 1+int(rest[0])]
		if string(name) != *s.last {
			*s.last = string(name)
		}
		*s.into = *s.last
		rest = rest[1+len(name):]
	}
	if head[0]&headBCC != 0 {
		if m.BCC, rest, err = recoveredKeys(rest); err != nil {
			return nil, err
		}
	}
	return rest, nil
}
