package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// loadStreams notes which logs are streams. Only Open calls it. The summaries
// themselves are read by Recover.
func (s *Store) loadStreams() error {
	return s.db.View(func(txn *badger.Txn) error {
		for _, prefix := range []byte{prefixStream, prefixChunkData} {
			it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefix}})
			err := s.loadStreamIDs(it, prefix)
			it.Close()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// loadStreamIDs jumps from one stream's keys to the next one's.
func (s *Store) loadStreamIDs(it *badger.Iterator, prefix byte) error {
	for it.Rewind(); it.Valid(); {
		key := it.Item().Key()
		if len(key) < 9 {
			return s.corrupt(key, errors.New("the key is malformed"))
		}
		id := binary.BigEndian.Uint64(key[1:])
		s.Log(id).Stream()
		if id++; id == 0 {
			return nil
		}
		it.Seek(appendIDKey(nil, prefix, id))
	}
	return nil
}

// Recover calls fn with every chunk on disk, in order. For the start, once a
// stream, before its first Append. It checks that the chunks follow each other
// and that their bytes are there, and deletes bytes of chunks whose commit was
// cut off. What is damaged or missing is an ErrCorrupt that names it. fn's
// error ends the walk and is returned.
func (t *Stream) Recover(fn func(c Chunk, size int64) error) error {
	s, id := t.log.store, t.log.id
	r := streamRecovery{t: t, fn: fn}
	err := s.db.View(func(txn *badger.Txn) error {
		parts := txn.NewIterator(badger.IteratorOptions{Prefix: appendIDKey(nil, prefixChunkData, id)})
		defer parts.Close()
		parts.Rewind()
		r.parts = parts
		it := txn.NewIterator(badger.IteratorOptions{Prefix: appendIDKey(nil, prefixStream, id)})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if err := r.item(it.Item()); err != nil {
				return err
			}
		}
		return r.orphansBelow(nil)
	})
	if err != nil {
		return fmt.Errorf("recover stream %d: %w", id, err)
	}
	s.mu.Lock()
	t.first = r.first
	s.liveBytes += r.size
	s.deadBytes = max(0, s.deadBytes-r.size)
	if r.stale {
		s.trim(t)
	}
	s.mu.Unlock()
	s.rouse()
	if len(r.orphans) == 0 {
		return nil
	}
	s.opts.Logger.Info("deleting what a commit that was cut off left of a stream", "dir", s.opts.Dir, "values", len(r.orphans))
	return s.deleteAll(r.orphans)
}

// deleteAll has keys deleted, in bounded commits. The caller holds no lock.
func (s *Store) deleteAll(deletes []rawOp) error {
	for len(deletes) > 0 {
		n := min(len(deletes), clearPages)
		if !s.writeRaw(deletes[:n]) {
			return s.failure()
		}
		deletes = deletes[n:]
	}
	return nil
}

// streamRecovery is the state of Stream.Recover.
type streamRecovery struct {
	t       *Stream
	fn      func(Chunk, int64) error
	parts   *badger.Iterator // over the t keys, next to the summaries
	orphans []rawOp          // t keys that belong to no summary
	first   uint64           // from the head record
	next    uint64           // where the next chunk must begin; 0: anywhere
	size    int64
	stale   bool // chunks below first are left to delete
}

// item takes a key of the stream: the head record, which comes first, or a
// summary.
func (r *streamRecovery) item(item *badger.Item) error {
	s, key := r.t.log.store, item.Key()
	if len(key) == 9 {
		return s.value(item, func(value []byte) error {
			payload, err := openFrame(key, value)
			if err == nil && len(payload) != 8 {
				err = errShort
			}
			if err != nil {
				return s.corrupt(key, err)
			}
			r.first = binary.BigEndian.Uint64(payload)
			return nil
		})
	}
	m, err := s.readSummary(item)
	if err != nil {
		return err
	}
	if m.First < r.first {
		r.stale = true // the sweep behind Trim was cut off; it takes the bytes along
		return nil
	}
	if r.next != 0 && m.First != r.next {
		return s.corrupt(key, fmt.Errorf("it should begin at %d", r.next))
	}
	r.next = m.First + uint64(m.Count)
	if err := r.hasParts(&m); err != nil {
		return err
	}
	r.size += m.size
	return r.fn(m.Chunk, m.size)
}

// hasParts checks that the bytes of a chunk are there.
func (r *streamRecovery) hasParts(m *summary) error {
	for part := range m.parts {
		key := appendPartKey(nil, r.t.log.id, m.First, part)
		if err := r.orphansBelow(key); err != nil {
			return err
		}
		if !r.parts.Valid() || !bytes.Equal(r.parts.Item().Key(), key) {
			return r.t.log.store.corrupt(key, errMissing)
		}
		r.parts.Next()
	}
	return nil
}

// orphansBelow passes over parts that no summary has, up to a key; nil for all
// that are left.
func (r *streamRecovery) orphansBelow(key []byte) error {
	for ; r.parts.Valid(); r.parts.Next() {
		at := r.parts.Item().Key()
		if key != nil && bytes.Compare(at, key) >= 0 {
			return nil
		}
		_, first, _, ok := parsePartKey(at)
		if !ok {
			return r.t.log.store.corrupt(at, errors.New("the key is malformed"))
		}
		if first >= r.first { // others go with what Trim left
			r.orphans = append(r.orphans, rawOp{key: bytes.Clone(at), delete: true})
		} else {
			r.stale = true
		}
	}
	return nil
}

// Trim deletes all chunks that begin before an offset, which must be the first
// of a chunk that is durable. They count as gone with the next commit; their
// space comes back in the background, also over restarts. freed is the sum of
// their sizes as Recover and StoredSize give them.
func (t *Stream) Trim(first uint64, freed int64) {
	s := t.log.store
	key := appendIDKey(nil, prefixStream, t.log.id)
	op := rawOp{key: key, value: appendFrame(nil, key, binary.BigEndian.AppendUint64(nil, first))}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || t.log.dropped || first <= t.first {
		return
	}
	t.first = first
	s.liveBytes -= freed
	if s.deadBytes += freed; s.deadBytes >= valueLogBytes {
		s.rouse()
	}
	b := s.room(1, op.weight(), 0)
	b.raw = append(b.raw, op)
	b.count(1, op.weight())
	s.touched(b, false)
	s.trim(t)
	s.rouse()
}

// StoredSize is the size in bytes that a chunk of these messages has on disk.
func StoredSize(messages int, heads, bodies int64) int64 {
	return heads + bodies + messageOverhead*int64(messages)
}

// trim puts a stream on the list of those with keys to delete. Called with
// Store.mu held.
func (s *Store) trim(t *Stream) {
	if !t.trimming {
		t.trimming = true
		s.trimming = append(s.trimming, t)
	}
}

// streamStep deletes a bounded number of keys of a stream that was dropped or
// trimmed, waits for their commit and says whether there may be more to do. It
// runs on the background goroutine.
func (s *Store) streamStep() bool {
	t, below := s.streamWork()
	if t == nil {
		return false
	}
	dropped := below == nil
	if dropped && !t.settled {
		// Chunks that were on their way when the log was dropped arrive first.
		t.settled, t.cursor = true, nil
		return s.writeRaw(nil)
	}
	deletes, more, err := t.keysBelow(below)
	if err != nil {
		s.opts.Logger.Warn("looking for deleted chunks failed", "dir", s.opts.Dir, "error", err)
		more = false
	}
	if len(deletes) > 0 && !s.writeRaw(deletes) {
		return false
	}
	if more {
		t.cursor = deletes[len(deletes)-1].key
		return true
	}
	t.cursor = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if dropped {
		t.cleared = true
	} else if binary.BigEndian.Uint64(below) == t.first || t.log.dropped {
		t.trimming = false
		s.trimming = s.trimming[1:]
	}
	return true
}

// streamWork picks a stream with keys to delete: those that begin before an
// offset, in key order, or all when below is nil.
func (s *Store) streamWork() (t *Stream, below []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.failure() != nil {
		return nil, nil
	}
	for _, l := range s.dropping {
		if l.stream != nil && !l.stream.cleared {
			return l.stream, nil
		}
	}
	if len(s.trimming) == 0 {
		return nil, nil
	}
	t = s.trimming[0]
	return t, binary.BigEndian.AppendUint64(nil, t.first)
}

// keysBelow lists a bounded number of the stream's keys, from the cursor on:
// summaries, then bytes, so that no summary is ever without its bytes.
func (t *Stream) keysBelow(below []byte) (deletes []rawOp, more bool, err error) {
	s, id := t.log.store, t.log.id
	err = s.db.View(func(txn *badger.Txn) error {
		for _, kind := range []byte{prefixStream, prefixChunkData} {
			prefix := appendIDKey(nil, kind, id)
			if bytes.Compare(t.cursor, prefix) > 0 && !bytes.HasPrefix(t.cursor, prefix) {
				continue // done with these
			}
			it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
			for it.Seek(maxKey(prefix, t.cursor)); it.Valid() && !more; it.Next() {
				key := it.Item().Key()
				if len(key) == 9 && below != nil || bytes.Equal(key, t.cursor) {
					continue // the head record stays as long as the stream
				}
				if below != nil && bytes.Compare(key[9:], below) >= 0 {
					break
				}
				deletes = append(deletes, rawOp{key: bytes.Clone(key), delete: true})
				more = len(deletes) == clearPages
			}
			it.Close()
		}
		return nil
	})
	return deletes, more && err == nil, err
}

func maxKey(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}

// sweepStreams deletes bytes of chunks that are long deleted: a collection can
// bring them back (see doc.go).
func (s *Store) sweepStreams() {
	var deletes []rawOp
	err := s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefixChunkData}})
		defer it.Close()
		for it.Rewind(); it.Valid(); {
			key := it.Item().Key()
			id, first, _, ok := parsePartKey(key)
			if !ok {
				return s.corrupt(key, errors.New("the key is malformed"))
			}
			if begin, live := s.streamBegins(id); live && first >= begin {
				if id++; id == 0 {
					return nil
				}
				it.Seek(appendIDKey(nil, prefixChunkData, id)) // the rest of this one is in use
				continue
			}
			deletes = append(deletes, rawOp{key: bytes.Clone(key), delete: true})
			it.Next()
		}
		return nil
	})
	if err != nil {
		s.opts.Logger.Warn("looking for deleted chunks failed", "dir", s.opts.Dir, "error", err)
		return
	}
	if err := s.deleteAll(deletes); err != nil {
		return // the store has failed, and said so
	}
}

// streamBegins gives the offset from which on a stream's chunks are in use;
// live is false when there is no such stream.
func (s *Store) streamBegins(id uint64) (first uint64, live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[id]
	if l == nil || l.stream == nil {
		return 0, false
	}
	return l.stream.first, true
}
