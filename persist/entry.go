package persist

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The payload of an index page is the number of its messages and, for each, a
// byte that says what differs from what the message before leads one to
// expect, then that, in the order of the bits. Numbers are varints. Before the
// first message all is 0. A message of an even stream takes one byte.
const (
	differsSeq      = 1 << iota // how many sequence numbers are left out, before the first as well
	differsPlace                // not right behind the message before: body page minus that one's (signed), offset
	differsHead                 // bytes of the head
	differsBody                 // bytes of the body
	differsExpiry               // minus that of the message before (signed)
	differsPriority             // one byte
	differsFlags                // one byte
	differsUnknown
)

// maxEntryBytes is the most bytes that one message takes.
const maxEntryBytes = 1 + 5 + 10 + 5 + 5 + 5 + 7 + 1 + 1

// pageBytes is the most bytes of entries on an index page, which has to stay
// out of Badger's value log (see doc.go).
const pageBytes = valueThreshold - 1 - frameOverhead - binary.MaxVarintLen16

// storedEntry is an index entry as it is on disk.
type storedEntry struct {
	seqOff          uint32 // seq minus that of the page's key
	page            uint64
	off, head, body uint32
	meta            Meta
}

func (e *storedEntry) size() int64 { return int64(e.head) + int64(e.body) }

// end is where a message that follows on the same body page begins.
func (e *storedEntry) end() uint32 { return e.off + e.head + e.body }

// pageEncoder encodes the messages of one index page after another.
type pageEncoder struct {
	last storedEntry
	n    int
	buf  []byte // of this page
}

// begin starts a page.
func (c *pageEncoder) begin() { c.last, c.n, c.buf = storedEntry{}, 0, c.buf[:0] }

// full says that another message might not fit.
func (c *pageEncoder) full() bool {
	return c.n == pageEntries || len(c.buf)+maxEntryBytes > pageBytes
}

// add appends a message.
func (c *pageEncoder) add(e storedEntry) {
	last, at := &c.last, len(c.buf)
	differs := byte(0)
	buf := append(c.buf, 0)
	next := uint32(0)
	if c.n > 0 {
		next = last.seqOff + 1
	}
	if e.seqOff != next {
		differs |= differsSeq
		buf = binary.AppendUvarint(buf, uint64(e.seqOff-next))
	}
	if e.page != last.page || e.off != last.end() {
		differs |= differsPlace
		buf = binary.AppendVarint(buf, int64(e.page-last.page))
		buf = binary.AppendUvarint(buf, uint64(e.off))
	}
	if e.head != last.head {
		differs |= differsHead
		buf = binary.AppendUvarint(buf, uint64(e.head))
	}
	if e.body != last.body {
		differs |= differsBody
		buf = binary.AppendUvarint(buf, uint64(e.body))
	}
	if e.meta.Expiry != last.meta.Expiry {
		differs |= differsExpiry
		buf = binary.AppendVarint(buf, e.meta.Expiry-last.meta.Expiry)
	}
	if e.meta.Priority != last.meta.Priority {
		differs |= differsPriority
		buf = append(buf, e.meta.Priority)
	}
	if e.meta.Flags != last.meta.Flags {
		differs |= differsFlags
		buf = append(buf, e.meta.Flags)
	}
	buf[at] = differs
	c.last, c.buf = e, buf
	c.n++
}

// appendTo appends the page's payload.
func (c *pageEncoder) appendTo(dst []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(c.n)), c.buf...)
}

// payloadReader takes numbers off a payload.
type payloadReader struct {
	rest []byte
	bad  bool
}

func (r *payloadReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *payloadReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *payloadReader) byte() byte {
	if len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// uint32 is uvarint for what must not be larger.
func (r *payloadReader) uint32() uint32 {
	v := r.uvarint()
	r.bad = r.bad || v > math.MaxUint32
	return uint32(v)
}

// parseEntries gives the entries in an index page's payload, checked so far
// that nothing in them can lead astray.
func parseEntries(payload []byte) ([]storedEntry, error) {
	r := payloadReader{rest: payload}
	n := r.uvarint()
	if r.bad || n == 0 || n > pageEntries || n > uint64(len(r.rest)) {
		return nil, fmt.Errorf("an index page cannot have %d messages in %d bytes", n, len(payload))
	}
	entries := make([]storedEntry, n)
	last := storedEntry{}
	for i := range entries {
		e := &entries[i]
		if err := r.entry(e, &last, i); err != nil {
			return nil, err
		}
		last = *e
	}
	if len(r.rest) > 0 {
		return nil, fmt.Errorf("an index page of %d messages has %d bytes too many", n, len(r.rest))
	}
	return entries, nil
}

// entry reads the entry at position i, which follows last.
func (r *payloadReader) entry(e, last *storedEntry, i int) error {
	differs := r.byte()
	*e = *last
	seq, off := uint64(0), uint64(last.off)+uint64(last.head)+uint64(last.body)
	if i > 0 {
		seq = uint64(last.seqOff) + 1
	}
	if differs&differsSeq != 0 {
		seq += uint64(r.uint32())
	}
	if differs&differsPlace != 0 {
		e.page += uint64(r.varint())
		off = uint64(r.uint32())
	}
	if differs&differsHead != 0 {
		e.head = r.uint32()
	}
	if differs&differsBody != 0 {
		e.body = r.uint32()
	}
	if differs&differsExpiry != 0 {
		e.meta.Expiry += r.varint()
	}
	if differs&differsPriority != 0 {
		e.meta.Priority = r.byte()
	}
	if differs&differsFlags != 0 {
		e.meta.Flags = r.byte()
	}
	e.seqOff, e.off = uint32(seq), uint32(off)
	switch {
	case r.bad:
		return errShort
	case differs&differsUnknown != 0, e.meta.Expiry < 0, e.meta.Expiry > maxExpiry:
		return fmt.Errorf("message %d of an index page is malformed", i)
	case seq > math.MaxUint32:
		return fmt.Errorf("the messages of an index page are not in order")
	case off > 0 && off+uint64(e.size()) > bodyPageBytes:
		return fmt.Errorf("message %d lies beyond the end of its body page", i)
	case e.size() > MaxRecordBytes:
		return fmt.Errorf("message %d of an index page has %d bytes", i, e.size())
	}
	return nil
}
