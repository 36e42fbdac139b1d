package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// errMissing says that something refers to a value that is not there.
var errMissing = errors.New("it is missing")

// scan calls fn for every key with a prefix, in order. key and value are
// borrowed for the call.
func (s *Store) scan(prefix []byte, fn func(key, value []byte) error) error {
	return s.scanKeys(prefix, func(item *badger.Item) error {
		return s.value(item, func(value []byte) error { return fn(item.Key(), value) })
	})
}

// scanKeys is scan for callers that may not need the value.
func (s *Store) scanKeys(prefix []byte, fn func(item *badger.Item) error) error {
	return s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if err := fn(it.Item()); err != nil {
				return err
			}
		}
		return nil
	})
}

// value lends an item's value to fn. An error of fn comes back as it is, one
// of reading says what could not be read.
func (s *Store) value(item *badger.Item, fn func(value []byte) error) error {
	var inner error
	called := false
	err := item.Value(func(value []byte) error {
		called = true
		inner = fn(value)
		return nil
	})
	if inner != nil {
		return inner
	}
	if err == nil && !called {
		err = errMissing
	}
	if err != nil {
		return s.corrupt(item.Key(), err)
	}
	return nil
}

// get lends the payload of a key's value to fn, or says that there is none.
func (s *Store) get(key []byte, fn func(payload []byte) error) (found bool, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return s.corrupt(key, err)
		}
		found = true
		return s.value(item, func(value []byte) error {
			payload, err := openFrame(key, value)
			if err != nil {
				return s.corrupt(key, err)
			}
			return fn(payload)
		})
	})
	return found, err
}

func (s *Store) has(key []byte) (bool, error) {
	return s.get(key, func([]byte) error { return nil })
}

// number reads a counter.
func (s *Store) number(key []byte) (n uint64, found bool, err error) {
	found, err = s.get(key, func(payload []byte) error {
		if len(payload) != 8 {
			return s.corrupt(key, errShort)
		}
		n = binary.BigEndian.Uint64(payload)
		return nil
	})
	return n, found, err
}

func (s *Store) isEmpty() (bool, error) {
	empty := true
	err := s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		it.Rewind()
		empty = !it.Valid()
		return nil
	})
	return empty, err
}

// finishRedo does the rest of a commit that was too large for one transaction
// and cut off by a crash. Lists that were done already may be found again,
// because their values lie in the value log; their numbers tell.
func (s *Store) finishRedo() error {
	done, _, err := s.number(counterRedo)
	if err != nil {
		return err
	}
	s.writer.redone = done
	var list []byte
	var parts, stale []rawOp
	err = s.scan([]byte{prefixRedo}, func(key, value []byte) error {
		number, part, ok := parseRedoKey(key)
		switch payload, err := openFrame(key, value); {
		case err != nil:
			return s.corrupt(key, err)
		case ok && number <= done:
			stale = append(stale, rawOp{key: bytes.Clone(key), delete: true})
		case !ok || number != done+1 || int(part) != len(parts):
			return s.corrupt(key, fmt.Errorf("it is out of order: %d lists are done", done))
		default:
			parts = append(parts, rawOp{key: bytes.Clone(key)})
			list = append(list, payload...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.writer.inPieces(s, stale); err != nil || len(parts) == 0 {
		return err
	}
	ops, err := parseRedo(list)
	if err != nil {
		return s.corrupt(parts[0].key, err)
	}
	s.opts.Logger.Info("finishing a large commit of the last run", "dir", s.opts.Dir, "writes", len(ops))
	return s.writer.applyRedo(s, ops, parts)
}

// loadMarks reads the marks of a clean stop and returns the deletes of all
// there are.
func (s *Store) loadMarks() (deletes []rawOp, err error) {
	err = s.scan([]byte{prefixMarks}, func(key, value []byte) error {
		payload, err := openFrame(key, value)
		if err == nil && (len(key) != 13 || len(payload)%markBytes != 0) {
			err = errShort
		}
		if err != nil {
			return s.corrupt(key, err)
		}
		deletes = append(deletes, rawOp{key: bytes.Clone(key), delete: true})
		if !s.clean {
			return nil
		}
		queue := binary.BigEndian.Uint64(key[1:])
		if s.marks[queue] == nil {
			s.marks[queue] = make(map[uint64]Mark)
		}
		for ; len(payload) > 0; payload = payload[markBytes:] {
			m := Mark{
				Seq:           binary.BigEndian.Uint64(payload),
				DeliveryCount: binary.BigEndian.Uint32(payload[8:]),
				Redelivered:   payload[12] != 0,
			}
			s.marks[queue][m.Seq] = m
		}
		return nil
	})
	return deletes, err
}

// loader rebuilds the pages in memory.
type loader struct {
	store  *Store
	bodies map[uint64]*bodyPage // by first id
	owners map[*bodyPage]uint64 // first queue found to refer to it
	live   map[*bodyPage]int64  // bytes of messages that are not settled
}

// load reads all index pages and acks, counts references to body pages, and
// returns the deletes of body pages that nothing refers to. Only Open calls it;
// no lock is needed yet.
func (s *Store) load() (orphans []rawOp, err error) {
	err = s.scan([]byte{prefixDrop}, func(key, _ []byte) error {
		id, ok := parseIDKey(key)
		if !ok {
			return s.corrupt(key, errShort)
		}
		l := s.Log(id)
		l.dropped = true
		s.dropping = append(s.dropping, l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.loadStreams(); err != nil {
		return nil, err
	}
	if s.lossy {
		if err := s.dropLostChunks(); err != nil {
			return nil, err
		}
	}
	ld := &loader{store: s, bodies: make(map[uint64]*bodyPage), owners: make(map[*bodyPage]uint64), live: make(map[*bodyPage]int64)}
	if err := ld.loadIndex(); err != nil {
		return nil, err
	}
	stale, err := s.loadReturns()
	if err != nil {
		return nil, err
	}
	orphans, err = ld.loadBodies()
	return append(stale, orphans...), err
}

// loadIndex reads index pages and their acks, which lie in the same order.
func (ld *loader) loadIndex() error {
	s := ld.store
	return s.db.View(func(txn *badger.Txn) error {
		acks := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefixAck}})
		defer acks.Close()
		acks.Rewind()
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefixIndex}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().Key()
			for acks.Valid() && bytes.Compare(acks.Item().Key()[1:], key[1:]) < 0 {
				if err := ld.strayAcks(acks.Item()); err != nil {
					return err
				}
				acks.Next()
			}
			var p *indexPage
			var entries []storedEntry
			err := s.value(it.Item(), func(value []byte) (err error) {
				p, entries, err = ld.newPage(key, value)
				return err
			})
			if err != nil {
				return err
			}
			if acks.Valid() && bytes.Equal(acks.Item().Key()[1:], key[1:]) {
				if err := ld.loadAcks(p, acks.Item()); err != nil {
					return err
				}
				acks.Next()
			}
			ld.link(p, entries)
		}
		for ; acks.Valid(); acks.Next() {
			if err := ld.strayAcks(acks.Item()); err != nil {
				return err
			}
		}
		return nil
	})
}

// strayAcks is about acks without an index page: damage, unless the latter was
// lost with what was not synced.
func (ld *loader) strayAcks(item *badger.Item) error {
	if !ld.store.lossy {
		return ld.store.corrupt(item.Key(), errors.New("the index page is missing"))
	}
	ld.store.open.raw = append(ld.store.open.raw, rawOp{key: item.KeyCopy(nil), delete: true})
	return nil
}

// newPage makes the page of an i key and puts it into its log.
func (ld *loader) newPage(key, value []byte) (*indexPage, []storedEntry, error) {
	s := ld.store
	queue, first, ok := parsePageKey(key)
	if !ok {
		return nil, nil, s.corrupt(key, errors.New("the key is malformed"))
	}
	payload, err := openFrame(key, value)
	if err != nil {
		return nil, nil, s.corrupt(key, err)
	}
	entries, err := parseEntries(payload)
	if err != nil {
		return nil, nil, s.corrupt(key, err)
	}
	if first >= math.MaxUint64-uint64(entries[len(entries)-1].seqOff) {
		return nil, nil, s.corrupt(key, errors.New("the sequence numbers are too high"))
	}
	l := s.Log(queue)
	if !l.dropped {
		s.unrecovered[queue] = struct{}{}
	}
	p := &indexPage{log: l, first: first, n: int32(len(entries)), live: int32(len(entries))}
	if int(entries[len(entries)-1].seqOff) != len(entries)-1 {
		p.seqs = make([]uint32, len(entries))
		for i := range entries {
			p.seqs[i] = entries[i].seqOff
		}
	}
	l.pages = append(l.pages, p)
	return p, entries, nil
}

// loadAcks marks the settled messages of a page.
func (ld *loader) loadAcks(p *indexPage, item *badger.Item) error {
	return ld.store.value(item, func(value []byte) error {
		payload, err := openFrame(item.Key(), value)
		if err == nil {
			p.acked, err = parseAcks(payload, int(p.n))
		}
		if err != nil {
			return ld.store.corrupt(item.Key(), err)
		}
		p.live -= int32(p.acked.count())
		p.ackWritten = true
		return nil
	})
}

// link counts the references of a page's live messages to body pages.
func (ld *loader) link(p *indexPage, entries []storedEntry) {
	s := ld.store
	s.counts.indexPages++
	if p.live == 0 { // deleted with the commit that settled the last; but harmless
		p.log.bury(p, s.open)
		return
	}
	single := true
	var last *bodyPage
	found := ld.surveyOf(p.log)
	for i := range entries {
		if p.isAcked(i) {
			continue
		}
		seq := p.first + uint64(entries[i].seqOff)
		p.log.next = seq + 1
		found.add(seq, &entries[i])
		page := ld.body(&entries[i])
		page.refer()
		page.usedBy(p)
		ld.live[page] += entries[i].size()
		if !p.log.dropped {
			if owner, ok := ld.owners[page]; !ok {
				ld.owners[page] = p.log.id
			} else if owner != p.log.id {
				s.shared[page] = true
			}
		}
		single = single && (last == nil || last == page)
		last = page
	}
	if p.body = last; single {
		return
	}
	p.body, p.bodies = nil, make([]*bodyPage, len(entries))
	for i := range entries {
		if !p.isAcked(i) {
			p.bodies[i] = ld.body(&entries[i])
		}
	}
}

// surveyOf gives the survey of a log; of one that was dropped it is thrown
// away.
func (ld *loader) surveyOf(l *Log) *survey {
	if l.dropped {
		return new(survey)
	}
	found := ld.store.surveys[l.id]
	if found == nil {
		found = new(survey)
		ld.store.surveys[l.id] = found
	}
	return found
}

// body gives the body page that an entry refers to.
func (ld *loader) body(e *storedEntry) *bodyPage {
	page := ld.bodies[e.page]
	if page == nil {
		page = &bodyPage{id: e.page, parts: 1}
		ld.bodies[e.page] = page
	}
	if e.off == 0 {
		page.parts = max(page.parts, partsOf(e.size()))
	}
	return page
}

// loadBodies checks that every body page that is referred to is there, and
// returns the deletes of the others.
func (ld *loader) loadBodies() (orphans []rawOp, err error) {
	s := ld.store
	for _, page := range ld.bodies {
		s.register(page)
	}
	missing := maps.Clone(s.bodies)
	err = s.scanKeys([]byte{prefixBody}, func(item *badger.Item) error {
		id, ok := parseIDKey(item.Key())
		if !ok {
			return s.corrupt(item.Key(), errors.New("the key is malformed"))
		}
		if page := s.bodies[id]; page != nil {
			page.size += max(0, item.ValueSize()-frameOverhead)
			delete(missing, id)
		} else {
			orphans = append(orphans, rawOp{key: item.KeyCopy(nil), delete: true})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if s.lossy {
		if err := s.dropLost(missing); err != nil {
			return nil, err
		}
	} else if len(missing) > 0 {
		id := slices.Min(slices.Collect(maps.Keys(missing)))
		return nil, s.corrupt(appendIDKey(nil, prefixBody, id), fmt.Errorf("%w, with %d other pages that messages refer to", errMissing, len(missing)-1))
	}
	for _, page := range ld.bodies {
		s.livePages++
		s.liveBytes += page.size
		if sparsePart*ld.live[page] <= page.size { // how many there were is not known
			page.total = sparsePart * page.refs
			s.noteSparse(page)
		}
	}
	// What earlier runs left dead is looked for like what dies in this one.
	s.deadBytes = max(0, valueLogSize(s.opts.Dir)-s.liveBytes)
	return orphans, nil
}
