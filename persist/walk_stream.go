package persist

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Chunks calls fn for every chunk of every stream that was not dropped or
// trimmed, by log and offset. With data the chunk's bytes are read too. fn's
// error ends the walk and is returned.
func (r *Reader) Chunks(data bool, fn func(log uint64, c StoredChunk, size int64) error) error {
	dropped, err := r.dropped()
	if err != nil {
		return err
	}
	s := r.s
	var head streamHead
	var lost lostChunks
	return s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefixStream}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().KeyCopy(nil)
			if len(key) == 9 {
				if err := s.value(it.Item(), func(value []byte) error { return head.read(s, key, value) }); err != nil {
					return err
				}
				continue
			}
			m, err := s.readSummary(it.Item())
			if err != nil {
				return err
			}
			log := binary.BigEndian.Uint64(key[1:])
			if gone, err := lost.isGone(s, log, it.Item()); err != nil || gone {
				if err != nil {
					return err
				}
				continue
			}
			if dropped[log] || log == head.log && m.First < head.first {
				continue
			}
			c := StoredChunk{Chunk: m.Chunk}
			if data {
				t := Stream{log: &Log{store: s, id: log}}
				if c.Data, err = t.readData(txn, &m); err != nil {
					return err
				}
			}
			if err := fn(log, c, m.size); err != nil {
				return err
			}
		}
		return nil
	})
}

// isGone says whether a chunk was lost with what was not synced, or follows one
// that was. To be asked about all chunks in order.
func (l *lostChunks) isGone(s *Store, log uint64, item *badger.Item) (bool, error) {
	if !s.lossy {
		return false, nil
	}
	if l.s == nil || l.id != log {
		*l = lostChunks{s: s, id: log}
	}
	err := l.item(item)
	return len(l.deletes) > 0, err
}

// streamHead is from which offset on a trimmed stream's chunks count.
type streamHead struct{ log, first uint64 }

func (h *streamHead) read(s *Store, key, value []byte) error {
	payload, err := openFrame(key, value)
	if err == nil {
		err = h.parse(key, payload)
	}
	if err != nil {
		return s.corrupt(key, err)
	}
	return nil
}

func (h *streamHead) parse(key, payload []byte) error {
	log, ok := parseIDKey(key)
	if !ok || len(payload) != 8 {
		return errShort
	}
	h.log, h.first = log, binary.BigEndian.Uint64(payload)
	return nil
}

// Returns calls fn with what Log.SaveReturns has kept, by log and seq; also of
// messages that are gone, which the next start forgets.
func (r *Reader) Returns(fn func(log uint64, n Returns) error) error {
	return r.s.scan([]byte{prefixReturns}, func(key, value []byte) error {
		log, seq, ok := parsePageKey(key)
		if !ok {
			return r.s.corrupt(key, errors.New("the key is malformed"))
		}
		payload, err := openFrame(key, value)
		if err == nil && len(payload) != returnsBytes {
			err = errShort
		}
		if err != nil {
			return r.s.corrupt(key, err)
		}
		return fn(log, Returns{Seq: seq, Total: binary.BigEndian.Uint32(payload), Failed: binary.BigEndian.Uint32(payload[4:])})
	})
}

// streams checks that chunks follow each other, that their bytes are there and
// that these are messages.
func (c *checker) streams() {
	s := c.r.s
	var head streamHead
	var next struct{ log, offset uint64 }
	var lost lostChunks
	c.eachItem([]byte{prefixStream}, func(item *badger.Item, key, payload []byte) error {
		if len(key) == 9 {
			return head.parse(key, payload)
		}
		m, err := parseSummary(key, appendFrame(nil, key, payload))
		if err != nil {
			return err
		}
		log := binary.BigEndian.Uint64(key[1:])
		if gone, err := lost.isGone(s, log, item); err != nil || gone {
			c.checked.Lost += int64(m.Count)
			return err
		}
		c.queues = max(c.queues, log)
		if c.dropped[log] || log == head.log && m.First < head.first {
			return nil
		}
		if log == next.log && m.First != next.offset {
			c.problem(key, fmt.Errorf("the chunk before it ends at %d", next.offset))
		}
		next.log, next.offset = log, m.First+uint64(m.Count)
		c.checked.StreamMessages += int64(m.Count)
		for part := range m.parts {
			delete(c.parts, string(appendPartKey(nil, log, m.First, part)))
		}
		return s.db.View(func(txn *badger.Txn) error {
			t := Stream{log: &Log{store: s, id: log}}
			stored := StoredChunk{Chunk: m.Chunk}
			if stored.Data, err = t.readData(txn, &m); err != nil {
				return err
			}
			return stored.EachMessage(func(_, _ []byte) error { return nil })
		})
	})
	c.checked.Unreferenced += len(c.parts)
}
