package persist

import "sort"

// Meta is what the index keeps of a message besides its bytes.
type Meta struct {
	Priority uint8
	// Flags are the caller's own.
	Flags uint8
	// Expiry is a time in Unix milliseconds, 0 for none. The index has 48 bits
	// for it: what lies outside 1 ... 2^48-1 is moved to the nearer end.
	Expiry int64
}

// pageEntries is the most messages on one index page. A page of messages that
// have little in common has fewer, see pageBytes.
const pageEntries = batchSlots

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
	first uint64 // seq of the key; that of the first entry until a rewrite
	live  int32  // messages neither cancelled nor settled

	batch   *batch  // set while open
	entries []entry // until the batch is finished; only live ones once sealed

	// Compact form, from the seal on. A backlog costs what is here, so the
	// common page, in sequence and on one body page, has neither slice.
	n      int32
	seqs   []uint32    // seq minus first; nil: 0, 1, 2 ...
	body   *bodyPage   // of all entries, when bodies is nil
	bodies []*bodyPage // by position

	acked      positions // settled ones
	dirty      bool      // stands in the open batch's list of changed acks
	ackWritten bool      // an a key exists, or will before this page can be deleted
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
func (p *indexPage) isAcked(i int) bool { return p.acked.has(i) }

// ack marks a position settled and says whether it was not before.
func (p *indexPage) ack(i int) bool {
	if p.isAcked(i) {
		return false
	}
	p.acked.add(i, int(p.n))
	p.live--
	return true
}

// compact gives the page its sealed form from its entries, which are all live
// and placed. Called with Store.mu held.
func (p *indexPage) compact(s *Store) {
	p.first = p.entries[0].seq
	p.n = int32(len(p.entries))
	bodies, dense := s.bodyScratch[:0], true
	for i := range p.entries {
		dense = dense && p.entries[i].seq == p.first+uint64(i)
		bodies = append(bodies, p.entries[i].page)
	}
	if !dense {
		p.seqs = make([]uint32, p.n)
		for i := range p.entries {
			p.seqs[i] = uint32(p.entries[i].seq - p.first)
		}
	}
	p.setBodies(bodies)
	clear(bodies)
	s.bodyScratch = bodies[:0]
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
