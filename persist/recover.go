package persist

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// Recovered is a message found on disk. Head, Body and Record are the caller's
// from then on.
type Recovered struct {
	Seq        uint64
	Meta       Meta
	Head, Body []byte
	// Redelivered is set when a mark says so, and for every message when the
	// last stop was not a clean one. DeliveryCount is a mark's.
	Redelivered   bool
	DeliveryCount uint32
	// Returns is what SaveReturns was last told of the message.
	Returns Returns
	// Record is shared by all queues whose message has the same bytes: equal
	// pointers, the same message. It can be appended to further logs; callers
	// that embed a Record take it over with Adopt.
	Record *Record
}

// storedRecord is a record read back, its own payload.
type storedRecord struct {
	Record
	headBytes, bodyBytes []byte
}

func (r *storedRecord) HeadSize() int                { return len(r.headBytes) }
func (r *storedRecord) AppendHead(dst []byte) []byte { return append(dst, r.headBytes...) }
func (r *storedRecord) Body() []byte                 { return r.bodyBytes }

// place is where a message's bytes are. The size is part of it because an empty
// message lies where the next one begins.
type place struct {
	page *bodyPage
	off  uint32
	size int64
}

// Logs gives the ids of the logs that have messages on disk, in order, without
// those that were dropped. For the start, so that the caller can drop logs that
// no queue belongs to.
func (s *Store) Logs() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []uint64
	for id, l := range s.logs {
		if (len(l.pages) > 0 || l.stream != nil) && !l.dropped {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Recover calls fn for every message of the log that was committed before, in
// order of seq. For the start, once a log, before its first Append; logs may
// recover in parallel. fn may call Settle. Its error ends the walk and is
// returned; what cannot be read is an ErrCorrupt that names it.
func (l *Log) Recover(fn func(Recovered) error) error {
	s := l.store
	s.mu.Lock()
	pages := slices.Clone(l.pages)
	s.mu.Unlock()
	s.recoverMu.Lock()
	marks := s.marks[l.id]
	delete(s.marks, l.id)
	s.recoverMu.Unlock()
	for _, p := range pages {
		messages, err := s.readPage(p)
		if err != nil {
			return fmt.Errorf("recover queue %d: %w", l.id, err)
		}
		for _, m := range messages {
			m.Redelivered = !s.clean
			m.Returns = l.returnsOf(m.Seq)
			if mark, ok := marks[m.Seq]; ok {
				m.Redelivered, m.DeliveryCount = mark.Redelivered, mark.DeliveryCount
			}
			if err := fn(m); err != nil {
				return err
			}
		}
	}
	s.forgetUnrecovered([]*Log{l})
	return nil
}

// forgetUnrecovered notes that these logs will not be recovered any more. With
// the last, what was kept to give shared messages one record goes.
func (s *Store) forgetUnrecovered(logs []*Log) {
	s.recoverMu.Lock()
	defer s.recoverMu.Unlock()
	for _, l := range logs {
		delete(s.unrecovered, l.id)
		delete(s.marks, l.id)
		delete(s.surveys, l.id)
	}
	if len(s.unrecovered) == 0 {
		s.shared, s.records = nil, nil
	}
}

// pageView is what readPage needs of an index page, copied under Store.mu.
type pageView struct {
	p      *indexPage
	first  uint64
	n      int
	acked  positions
	body   *bodyPage
	bodies []*bodyPage
}

// readPage reads the live messages of an index page with their bytes.
func (s *Store) readPage(p *indexPage) ([]Recovered, error) {
	s.moving.RLock()
	defer s.moving.RUnlock()
	s.mu.Lock()
	if p.dead || p.batch != nil || p.log.dropped {
		s.mu.Unlock()
		return nil, nil
	}
	v := pageView{p: p, first: p.first, n: int(p.n), acked: p.acked.clone(), body: p.body, bodies: p.bodies}
	s.mu.Unlock()

	var messages []Recovered
	err := s.db.View(func(txn *badger.Txn) error {
		key := appendPageKey(nil, prefixIndex, p.log.id, v.first)
		entries, err := s.readEntries(txn, key)
		if err == nil && len(entries) != v.n {
			err = s.corrupt(key, fmt.Errorf("it has %d messages instead of %d", len(entries), v.n))
		}
		if err == nil {
			messages, err = s.readMessages(txn, &v, entries)
		}
		return err
	})
	if err != nil {
		s.mu.Lock()
		dead := p.dead
		s.mu.Unlock()
		if dead { // settled while it was read, by another goroutine
			return nil, nil
		}
		return nil, err
	}
	return messages, nil
}

// readEntries reads an index page.
func (s *Store) readEntries(txn *badger.Txn, key []byte) (entries []storedEntry, err error) {
	item, err := txn.Get(key)
	if err != nil {
		if errors.Is(err, badger.ErrKeyNotFound) {
			err = errMissing
		}
		return nil, s.corrupt(key, err)
	}
	err = s.value(item, func(value []byte) error {
		payload, err := openFrame(key, value)
		if err == nil {
			entries, err = parseEntries(payload)
		}
		if err != nil {
			return s.corrupt(key, err)
		}
		return nil
	})
	return entries, err
}

// readMessages reads the bytes of a page's live messages, a run of messages on
// one body page at a time.
func (s *Store) readMessages(txn *badger.Txn, v *pageView, entries []storedEntry) ([]Recovered, error) {
	messages := make([]Recovered, 0, len(entries))
	live := entries[:0:0]
	pages := make([]*bodyPage, 0, len(entries))
	for i := range entries {
		if v.acked.has(i) {
			continue
		}
		page := v.body
		if v.bodies != nil {
			page = v.bodies[i]
		}
		live, pages = append(live, entries[i]), append(pages, page)
	}
	for from := 0; from < len(live); {
		to := from + 1
		for to < len(live) && pages[to] == pages[from] {
			to++
		}
		run := live[from:to]
		err := s.readBodies(txn, pages[from], run, func(e *storedEntry, data []byte) {
			r := s.recordOf(pages[from], e, data)
			messages = append(messages, Recovered{
				Seq:    v.first + uint64(e.seqOff),
				Meta:   e.meta,
				Head:   r.headBytes,
				Body:   r.bodyBytes,
				Record: &r.Record,
			})
		})
		if err != nil {
			return nil, err
		}
		from = to
	}
	return messages, nil
}

// recordOf gives the record of a message, the same one for all queues. When
// another queue came first, that one's bytes are what both share.
func (s *Store) recordOf(page *bodyPage, e *storedEntry, data []byte) *storedRecord {
	fresh := func() *storedRecord {
		r := &storedRecord{headBytes: data[:e.head:e.head], bodyBytes: data[e.head:]}
		r.Init(r, nil, 0)
		r.lieAt(page, e.off, e.head, e.body)
		return r
	}
	at := place{page, e.off, e.size()}
	s.recoverMu.Lock()
	defer s.recoverMu.Unlock()
	if !s.shared[page] {
		return fresh()
	}
	r := s.records[at]
	if r == nil {
		r = fresh()
		s.records[at] = r
	}
	return r
}

// readBodies lends fn each message of a run on one body page, in memory of its
// own.
func (s *Store) readBodies(txn *badger.Txn, page *bodyPage, run []storedEntry, fn func(*storedEntry, []byte)) error {
	if page.parts > 1 {
		data := make([]byte, 0, run[0].size())
		for part := range uint64(page.parts) {
			err := s.readPart(txn, page, part, func(payload []byte) error {
				data = append(data, payload...)
				return nil
			})
			if err != nil {
				return err
			}
		}
		for i := range run { // several when one queue has the message more than once
			if int64(len(data)) != run[i].size() {
				return s.corrupt(appendIDKey(nil, prefixBody, page.id), errShort)
			}
			fn(&run[i], data)
		}
		return nil
	}
	return s.readPart(txn, page, 0, func(payload []byte) error {
		for i := range run {
			e := &run[i]
			end := int64(e.off) + e.size()
			if end > int64(len(payload)) {
				return errShort
			}
			fn(e, append(make([]byte, 0, e.size()), payload[e.off:end]...))
		}
		return nil
	})
}

// readPart lends fn one part of a body page.
func (s *Store) readPart(txn *badger.Txn, page *bodyPage, part uint64, fn func([]byte) error) error {
	key := appendIDKey(nil, prefixBody, page.id+part)
	item, err := txn.Get(key)
	if err != nil {
		if errors.Is(err, badger.ErrKeyNotFound) {
			err = errMissing
		}
		return s.corrupt(key, err)
	}
	return s.value(item, func(value []byte) error {
		open := openFrame
		if page.verified.Load() {
			open = func(_, value []byte) ([]byte, error) { return peelFrame(value) }
		}
		payload, err := open(key, value)
		if err == nil {
			err = fn(payload)
		}
		if err != nil {
			return s.corrupt(key, err)
		}
		if page.parts == 1 {
			page.verified.Store(true)
		}
		return nil
	})
}
