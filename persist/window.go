package persist

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"github.com/dgraph-io/badger/v4"
)

// Surveyed is what the index has of a message that is on disk.
type Surveyed struct {
	Seq uint64
	// Head and Body are sizes in bytes.
	Head, Body uint32
	Meta       Meta
	// Redelivered, DeliveryCount and Returns are what Recovered has.
	Redelivered   bool
	DeliveryCount uint32
	Returns       Returns
}

// survey is what Open has found of one log, packed: a backlog of millions is
// looked over once and then forgotten.
type survey struct {
	packed []byte
	last   uint64
}

// add packs one message; seqs must rise.
func (v *survey) add(seq uint64, e *storedEntry) {
	v.packed = binary.AppendUvarint(v.packed, seq-v.last)
	v.packed = binary.AppendUvarint(v.packed, uint64(e.head))
	v.packed = binary.AppendUvarint(v.packed, uint64(e.body))
	v.packed = binary.AppendUvarint(v.packed, uint64(e.meta.Expiry))
	v.packed = append(v.packed, e.meta.Priority, e.meta.Flags)
	v.last = seq
}

// Survey calls fn for every message of the log that was committed before
// Open, in order of seq. It reads nothing: Read does, later. For the start,
// once a log, before its first Append, and instead of Recover.
func (l *Log) Survey(fn func(*Surveyed)) {
	s := l.store
	s.recoverMu.Lock()
	marks := s.marks[l.id]
	found := s.surveys[l.id]
	s.recoverMu.Unlock()
	s.forgetUnrecovered([]*Log{l})
	if found == nil {
		return
	}
	s.mu.Lock()
	counted := l.returns != nil
	s.mu.Unlock()
	found.each(func(m *Surveyed) {
		if s.lossy && l.lost(m.Seq) {
			return
		}
		m.Redelivered, m.DeliveryCount = !s.clean, 0
		if counted {
			m.Returns = l.returnsOf(m.Seq)
		}
		if mark, ok := marks[m.Seq]; ok {
			m.Redelivered, m.DeliveryCount = mark.Redelivered, mark.DeliveryCount
		}
		fn(m)
	})
}

// lost says that Open has dropped a message after it had looked over the
// index, because its bytes are not there.
func (l *Log) lost(seq uint64) bool {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	return !l.holds(seq)
}

// each unpacks all messages.
func (v *survey) each(fn func(*Surveyed)) {
	b := v.packed
	next := func() uint64 {
		n, size := binary.Uvarint(b)
		b = b[size:]
		return n
	}
	var m Surveyed
	for len(b) > 0 {
		m.Seq += next()
		m.Head, m.Body = uint32(next()), uint32(next())
		m.Meta.Expiry = int64(next())
		m.Meta.Priority, m.Meta.Flags = b[0], b[1]
		b = b[2:]
		fn(&m)
	}
}

// Safe says that every append of r is durable or cancelled: its owner need not
// keep the bytes in memory any more, the store has them. Never true after a
// failure.
func (r *Record) Safe() bool { return r.busy.Load() == 0 && !r.lost.Load() }

// StoredMessage is a message read back. Head and Body are borrowed for the
// time of the call.
type StoredMessage struct {
	Seq        uint64
	Meta       Meta
	Head, Body []byte
	// Returns is what SaveReturns was last told of the message.
	Returns Returns
}

// Read calls fn for each of these messages, in order. They must rise, be
// committed, and not be settled before Read returns. It reads from disk, so
// no lock may be held. fn's error ends it and is returned; what cannot be read
// is an ErrCorrupt that names it.
func (l *Log) Read(seqs []uint64, fn func(*StoredMessage) error) error {
	s := l.store
	s.moving.RLock()
	defer s.moving.RUnlock()
	r := windowReader{log: l, fn: fn}
	if err := s.db.View(func(txn *badger.Txn) error { return r.read(txn, seqs) }); err != nil {
		return fmt.Errorf("read messages of queue %d: %w", l.id, err)
	}
	return nil
}

// windowReader is the state of one Read.
type windowReader struct {
	log *Log
	fn  func(*StoredMessage) error
	// counted: some messages of the log have Returns.
	counted bool
	live    []storedEntry
}

// read reads messages an index page at a time.
func (r *windowReader) read(txn *badger.Txn, seqs []uint64) error {
	for len(seqs) > 0 {
		first, end, err := r.pageOf(seqs[0])
		if err != nil {
			return err
		}
		key := appendPageKey(nil, prefixIndex, r.log.id, first)
		entries, err := r.log.store.readEntries(txn, key)
		if err != nil {
			return err
		}
		n := r.choose(entries, first, end, seqs)
		if n == 0 {
			return r.log.store.corrupt(key, fmt.Errorf("message %d is not on it", seqs[0]))
		}
		if err := r.readRuns(txn, first); err != nil {
			return err
		}
		seqs = seqs[n:]
	}
	return nil
}

// pageOf finds the index page that has a message, and the number from which on
// the next page has them. What a page has from there on is settled, and the
// numbers were given again: a start goes on behind the last message that is
// left.
func (r *windowReader) pageOf(seq uint64) (first, end uint64, err error) {
	s := r.log.store
	s.mu.Lock()
	defer s.mu.Unlock()
	r.counted = r.log.returns != nil
	p := r.log.pageOf(seq)
	if p == nil || p.dead || p.batch != nil {
		return 0, 0, fmt.Errorf("message %d is not on disk", seq)
	}
	end = math.MaxUint64
	pages := r.log.pages
	if i := sort.Search(len(pages), func(i int) bool { return pages[i].first > seq }); i < len(pages) {
		end = pages[i].first
	}
	return p.first, end, nil
}

// choose puts those entries of an index page before end into live that are
// asked for, as far as they are the next ones.
func (r *windowReader) choose(entries []storedEntry, first, end uint64, seqs []uint64) (n int) {
	r.live = r.live[:0]
	for i := range entries {
		seq := first + uint64(entries[i].seqOff)
		if n < len(seqs) && seq < end && seq == seqs[n] {
			r.live = append(r.live, entries[i])
			n++
		}
	}
	return n
}

// readRuns reads the bytes of the chosen entries, a run of them on one body
// page at a time.
func (r *windowReader) readRuns(txn *badger.Txn, first uint64) error {
	for live := r.live; len(live) > 0; {
		n := 1
		for n < len(live) && live[n].page == live[0].page {
			n++
		}
		if err := r.readRun(txn, first, live[:n]); err != nil {
			return err
		}
		live = live[n:]
	}
	return nil
}

func (r *windowReader) readRun(txn *badger.Txn, first uint64, run []storedEntry) error {
	s := r.log.store
	page := s.bodyPageOf(run)
	if page.parts > 1 {
		return r.readLarge(txn, page, first, run)
	}
	var inner error
	err := s.readPart(txn, page, 0, func(payload []byte) error {
		for i := range run {
			e := &run[i]
			end := int64(e.off) + e.size()
			if end > int64(len(payload)) {
				return errShort
			}
			if inner = r.hand(first, e, payload[e.off:end]); inner != nil {
				return nil
			}
		}
		return nil
	})
	if inner != nil {
		return inner
	}
	return err
}

// readLarge reads a message that has body pages of its own. The queue may have
// it more than once.
func (r *windowReader) readLarge(txn *badger.Txn, page *bodyPage, first uint64, run []storedEntry) error {
	data := make([]byte, 0, run[0].size())
	for part := range uint64(page.parts) {
		err := r.log.store.readPart(txn, page, part, func(payload []byte) error {
			data = append(data, payload...)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i := range run {
		if int64(len(data)) != run[i].size() {
			return r.log.store.corrupt(appendIDKey(nil, prefixBody, page.id), errShort)
		}
		if err := r.hand(first, &run[i], data); err != nil {
			return err
		}
	}
	return nil
}

// hand gives fn one message.
func (r *windowReader) hand(first uint64, e *storedEntry, data []byte) error {
	m := StoredMessage{Seq: first + uint64(e.seqOff), Meta: e.meta, Head: data[:e.head:e.head], Body: data[e.head:]}
	if r.counted {
		m.Returns = r.log.returnsOf(m.Seq)
	}
	return r.fn(&m)
}

// bodyPageOf gives the body page of a run of entries: the one in memory, which
// knows whether it was verified, or, when it has just been given up, one that
// stands for what the reader's transaction still sees.
func (s *Store) bodyPageOf(run []storedEntry) *bodyPage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if page := s.bodies[run[0].page]; page != nil {
		return page
	}
	return &bodyPage{id: run[0].page, parts: partsOf(run[0].size())} // a large message is alone
}

// Transient keeps pages that need not survive a stop, in the store's folder.
func (s *Store) Transient() *Transient { return s.transient }
