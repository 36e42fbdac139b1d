package persist

import "encoding/binary"

// idStride is how many ids are reserved on disk at a time.
const idStride = 1 << 16

// counter hands out ids that are never handed out again, also after a crash:
// limit is on disk, or in the open batch, before an id under it can be, and a
// start begins at the limit on disk. Guarded by Store.mu.
type counter struct {
	key         []byte
	next, limit uint64
	raise       bool // the limit is to be raised with the next batch
}

// take hands out n consecutive ids and returns the first.
func (c *counter) take(n uint64) uint64 {
	id := c.next
	c.next += n
	if c.limit-c.next < idStride/2 || c.next > c.limit {
		c.raise = true
	}
	return id
}

// reserve raises the limit in memory and returns the write that makes it so on
// disk. It must go into a batch no later than the first use of the ids.
func (c *counter) reserve() rawOp {
	c.raise = false
	c.limit = c.next + idStride
	return rawOp{key: c.key, value: appendFrame(nil, c.key, binary.BigEndian.AppendUint64(nil, c.limit))}
}

// NextID hands out an id for Log: a new one for each incarnation of a queue.
// Never 0, and never one that was handed out before, also by an earlier run.
func (s *Store) NextID() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.queueIDs.take(1)
	if s.queueIDs.raise {
		// Any use of the id goes into this batch or a later one.
		b := s.room(1, pageOpBytes, 0)
		b.raw = append(b.raw, s.queueIDs.reserve())
		b.count(1, pageOpBytes)
		s.touched(b, false)
	}
	return id
}
