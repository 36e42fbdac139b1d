package stream

import (
	"math"
	"time"
)

// segment is a run of chunks that retention deletes as a whole.
type segment struct {
	first  uint64 // offset of its first message
	last   int64  // time of its last chunk
	bytes  int64
	chunks int
}

// The bounds of a segment, as RabbitMQ's: it is full when it has reached one.
const (
	segmentBytes  = 500_000_000
	segmentChunks = 256_000
)

// Retention says what a stream keeps.
type Retention struct {
	// MaxBytes has the oldest segments deleted as long as all together have
	// more bytes; -1 is no limit.
	MaxBytes int64
	// MaxAge has segments deleted whose last chunk is older, in milliseconds; 0
	// is no limit.
	MaxAge int64
}

// segments are a stream's segments, oldest first. Guarded by Log.mu.
type segments struct {
	list  []segment
	bytes int64
	full  int64 // bytes of a segment
}

// add counts a chunk. rolled: it began a new segment, so retention has work.
func (s *segments) add(c *chunk) (rolled bool) {
	n := len(s.list)
	if n == 0 || s.list[n-1].bytes >= s.full || s.list[n-1].chunks >= segmentChunks {
		s.list = append(s.list, segment{first: c.first})
		rolled = n > 0
		n++
	}
	last := &s.list[n-1]
	last.last = c.time
	last.chunks++
	last.bytes += c.stored()
	s.bytes += c.stored()
	return rolled
}

// expire drops the segments that are not to be kept, never the newest, and
// says how many bytes went with them.
func (s *segments) expire(r Retention, now int64) (freed int64) {
	n := 0
	for n < len(s.list)-1 {
		old := &s.list[n]
		tooMany := r.MaxBytes >= 0 && s.bytes > r.MaxBytes
		tooOld := r.MaxAge > 0 && old.last < now-r.MaxAge
		if !tooMany && !tooOld {
			break
		}
		freed += old.bytes
		s.bytes -= old.bytes
		n++
	}
	s.list = append([]segment(nil), s.list[n:]...)
	return freed
}

// farOff is the longest a timer waits for an expiry, in milliseconds.
const farOff = math.MaxInt64/int64(time.Millisecond) - 1

// nextExpiry is how long it takes until a segment is too old; false when that
// cannot happen as things are.
func (s *segments) nextExpiry(r Retention, now int64) (time.Duration, bool) {
	if r.MaxAge <= 0 || len(s.list) < 2 {
		return 0, false
	}
	wait := r.MaxAge - max(0, now-s.list[0].last)
	return time.Duration(min(max(wait, 0), farOff)+1) * time.Millisecond, true
}
