package exchange

import (
	"bytes"
	"math/bits"
	"sync"

	"github.com/warrenmq/warren/exchange/immutable"
	"github.com/warrenmq/warren/frames"
)

const (
	inlineHeaders = 16                // messages with up to this many headers are indexed on the stack of Route
	inlineSlots   = 2 * inlineHeaders // see headerIndex.slots
	keptHeaders   = 4096              // an index that grew beyond this is not kept for the next message
)

// headerIndex finds the headers of one message by key. It borrows the message's bytes.
type headerIndex struct {
	// entries holds the headers in its first used places. It is filled by assignment to elements, not by append: a slice
	// assigned through a pointer counts as escaping, and then the array behind it could not be on the stack of Route.
	entries []header
	used    int
	// slots is a hash table with open addressing: place in entries plus one, 0 for none. Its length is a power of two and
	// at least twice that of entries, so that a probe always meets an empty slot. Headers of the same key are met in
	// the order they were added.
	slots []uint32
}

// header is one header of a message.
type header struct {
	hash  immutable.Hash // of key
	key   []byte
	value value
}

// indexPool holds indexes (*headerIndex) for messages with more headers than an index on the stack takes.
var indexPool sync.Pool

// takeIndex returns an empty index with room for n headers.
func takeIndex(n int) *headerIndex {
	x, _ := indexPool.Get().(*headerIndex)
	if x == nil || len(x.entries) < n {
		return &headerIndex{entries: make([]header, n), slots: make([]uint32, 1<<bits.Len(uint(2*n)))}
	}
	return x
}

// giveIndex takes an index back. It lets go of the message's bytes, which the index would otherwise keep in memory.
func giveIndex(x *headerIndex) {
	if len(x.entries) > keptHeaders {
		return
	}
	clear(x.entries[:x.used])
	clear(x.slots)
	x.used = 0
	indexPool.Put(x)
}

// countHeaders returns the number of fields of a table.
func countHeaders(raw frames.RawTable) int {
	n := 0
	for it := raw.Iter(); it.Next(); {
		n++
	}
	return n
}

// fill adds the headers of a message to an empty index that has room for them. When one key comes several times, 3.10
// keeps them all in order and 4.3 keeps the last.
func (x *headerIndex) fill(raw frames.RawTable, r rules) {
	for it := raw.Iter(); it.Next(); {
		h := header{hash: immutable.HashBytes(it.Key()), key: it.Key(), value: r.readHeader(it.Value())}
		i := x.slotOf(h.hash)
		for ; x.slots[i] != 0; i = x.next(i) {
			if old := &x.entries[x.slots[i]-1]; !r.byValue && old.is(h.hash, h.key) {
				*old = h
				break
			}
		}
		if x.slots[i] == 0 {
			x.entries[x.used] = h
			x.used++
			x.slots[i] = uint32(x.used)
		}
	}
}

func (x *headerIndex) slotOf(h immutable.Hash) int { return int(h) & (len(x.slots) - 1) }

func (x *headerIndex) next(slot int) int { return (slot + 1) & (len(x.slots) - 1) }

func (h *header) is(hash immutable.Hash, key []byte) bool {
	return h.hash == hash && bytes.Equal(h.key, key)
}

// holds says whether the message satisfies c.
func (x *headerIndex) holds(c *condition) bool {
	skip := c.nth
	for i := x.slotOf(c.hash); x.slots[i] != 0; i = x.next(i) {
		h := &x.entries[x.slots[i]-1]
		if !h.is(c.hash, c.key) {
			continue
		}
		if skip == 0 {
			return c.value.kind == kindVoid || c.value.equal(&h.value)
		}
		skip--
	}
	return false
}
