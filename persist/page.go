package persist

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sort"
)

// Meta is what the index keeps of a message besides its bytes.
type Meta struct {
	Priority uint8
	// Flags are the caller's own.
	Flags uint8
	// Expiry is a time in Unix milliseconds, 0 for none. The index has 48 bits
	// for it: what lies outside 1 ... 2^48-1 is moved to the nearer end.
	Expiry int64
}

// pageEntries is the most messages on one index page: as many as keep the page
// out of Badger's value log (see doc.go), and the set of settled ones in a word.
const pageEntries = 31

// entryBytes is the size of one encoded index entry:
//
//	 0  4  seq minus the page's first
//	 4  8  body page
//	12  4  offset on it
//	16  4  bytes of the head
//	20  4  bytes of the body
//	24  6  expiry
//	30  1  priority
//	31  1  flags
const entryBytes = 32

// maxExpiry is the latest time that fits an index entry.
const maxExpiry = 1<<48 - 1

// entry is a message of a page that is not sealed yet, or is being committed.
type entry struct {
	seq    uint64
	record *Record
	// page is set when the record's bytes were on a page already when it was
	// appended; the entry then holds a reference.
	page      *bodyPage
	meta      Meta
	cancelled bool
	counted   bool // the record's bytes count towards this entry's batch
}

// indexPage is the messages of one queue in one commit. Its life: open, while
// its batch takes appends (batch is set, entries grow); sealed, from the moment
// the committer takes the batch; dead, when the last message is settled.
// Guarded by Store.mu, except that the committer reads entries of a sealed page
// until its batch is finished.
type indexPage struct {
	log   *Log
	first uint64 // seq of the first entry
	live  int32  // messages neither cancelled nor settled

	batch   *batch  // set while open
	entries []entry // until the batch is finished; only live ones once sealed

	// Compact form, from the seal on. A backlog costs what is here, so the
	// common page, in sequence and on one body page, has neither slice.
	n      int32
	seqs   []uint32    // seq minus first; nil: 0, 1, 2 ...
	body   *bodyPage   // of all entries, when bodies is nil
	bodies []*bodyPage // by position

	acked      uint32 // settled positions, as bits
	dirty      bool   // stands in the open batch's list of changed acks
	ackWritten bool   // an a key exists, or will before this page can be deleted
	dead       bool
}

// find gives the position of seq on a sealed page.
func (p *indexPage) find(seq uint64) (int, bool) {
	off := seq - p.first
	if seq < p.first {
		return 0, false
	}
	if p.seqs == nil {
		return int(off), off < uint64(p.n)
	}
	i := sort.Search(len(p.seqs), func(i int) bool { return uint64(p.seqs[i]) >= off })
	return i, i < len(p.seqs) && uint64(p.seqs[i]) == off
}

// findOpen gives the position of seq among the entries of an open page.
func (p *indexPage) findOpen(seq uint64) (int, bool) {
	i := sort.Search(len(p.entries), func(i int) bool { return p.entries[i].seq >= seq })
	return i, i < len(p.entries) && p.entries[i].seq == seq
}

// bodyAt is the body page of the message at a position.
func (p *indexPage) bodyAt(i int) *bodyPage {
	if p.bodies == nil {
		return p.body
	}
	return p.bodies[i]
}

// isAcked says whether the message at a position is settled.
func (p *indexPage) isAcked(i int) bool { return p.acked&(1<<i) != 0 }

// ack marks a position settled and says whether it was not before.
func (p *indexPage) ack(i int) bool {
	if p.isAcked(i) {
		return false
	}
	p.acked |= 1 << i
	p.live--
	return true
}

// compact gives the page its sealed form from its entries, which are all live
// and placed.
func (p *indexPage) compact() {
	p.first = p.entries[0].seq
	p.n = int32(len(p.entries))
	p.body = p.entries[0].page
	dense, single := true, true
	for i := range p.entries {
		dense = dense && p.entries[i].seq == p.first+uint64(i)
		single = single && p.entries[i].page == p.body
	}
	if !dense {
		p.seqs = make([]uint32, p.n)
		for i := range p.entries {
			p.seqs[i] = uint32(p.entries[i].seq - p.first)
		}
	}
	if !single {
		p.body, p.bodies = nil, make([]*bodyPage, p.n)
		for i := range p.entries {
			p.bodies[i] = p.entries[i].page
		}
	}
}

// appendEntry encodes one index entry.
func appendEntry(dst []byte, first uint64, e *entry) []byte {
	r := e.record
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.seq-first))
	dst = binary.BigEndian.AppendUint64(dst, e.page.id)
	dst = binary.BigEndian.AppendUint32(dst, r.off)
	dst = binary.BigEndian.AppendUint32(dst, r.head)
	dst = binary.BigEndian.AppendUint32(dst, r.body)
	expiry := uint64(e.meta.Expiry)
	dst = binary.BigEndian.AppendUint16(dst, uint16(expiry>>32))
	dst = binary.BigEndian.AppendUint32(dst, uint32(expiry))
	return append(dst, e.meta.Priority, e.meta.Flags)
}

// storedEntry is an index entry as read back.
type storedEntry struct {
	seqOff          uint32
	page            uint64
	off, head, body uint32
	meta            Meta
}

func (e *storedEntry) size() int64 { return int64(e.head) + int64(e.body) }

// parseEntries gives the entries in an index page's payload, checked so far
// that nothing in them can lead astray.
func parseEntries(payload []byte) ([]storedEntry, error) {
	n := len(payload) / entryBytes
	if n == 0 || n > pageEntries || len(payload)%entryBytes != 0 {
		return nil, fmt.Errorf("an index page cannot have %d bytes", len(payload))
	}
	entries := make([]storedEntry, n)
	for i := range entries {
		b := payload[i*entryBytes:]
		e := &entries[i]
		*e = storedEntry{
			seqOff: binary.BigEndian.Uint32(b),
			page:   binary.BigEndian.Uint64(b[4:]),
			off:    binary.BigEndian.Uint32(b[12:]),
			head:   binary.BigEndian.Uint32(b[16:]),
			body:   binary.BigEndian.Uint32(b[20:]),
			meta: Meta{
				Expiry:   int64(binary.BigEndian.Uint16(b[24:]))<<32 | int64(binary.BigEndian.Uint32(b[26:])),
				Priority: b[30],
				Flags:    b[31],
			},
		}
		switch {
		case i == 0 && e.seqOff != 0, i > 0 && e.seqOff <= entries[i-1].seqOff:
			return nil, fmt.Errorf("the messages of an index page are not in order")
		case e.off > 0 && int64(e.off)+e.size() > bodyPageBytes:
			return nil, fmt.Errorf("message %d lies beyond the end of its body page", i)
		}
	}
	return entries, nil
}

// clampExpiry moves a time into what an index entry can hold.
func clampExpiry(ms int64) int64 {
	switch {
	case ms < 0:
		return 1
	case ms > maxExpiry:
		return maxExpiry
	}
	return ms
}

// appendAcks encodes the settled positions of a page: bit i of a 32-bit number
// for position i.
func appendAcks(dst []byte, acked uint32) []byte {
	return binary.BigEndian.AppendUint32(dst, acked)
}

// parseAcks gives the settled positions on a page of n messages.
func parseAcks(payload []byte, n int) (acked uint32, err error) {
	if len(payload) != 4 {
		return 0, errShort
	}
	acked = binary.BigEndian.Uint32(payload)
	if bits.Len32(acked) > n {
		return 0, fmt.Errorf("position %d is settled on a page of %d messages", bits.Len32(acked)-1, n)
	}
	return acked, nil
}
