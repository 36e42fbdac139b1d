package persist

import (
	"bytes"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// dropLostChunks ends each stream before the first chunk that was lost with
// what was not synced (see lost.go): its bytes cannot be read, or the chunk
// before it is not there. Which chunks that can be, their numbers tell, which
// come out of the same count as those of body pages. For Open, before it notes
// that everything is synced: a start that is cut off is done again as it was.
func (s *Store) dropLostChunks() error {
	messages := uint64(0)
	for _, l := range s.logs {
		if l.stream == nil || l.dropped {
			continue
		}
		lost := lostChunks{s: s, id: l.id}
		if err := s.scanKeys(appendIDKey(nil, prefixStream, l.id), lost.item); err != nil {
			return err
		}
		messages += lost.messages
		// From the last to the first, so that what is left has no gap.
		slices.Reverse(lost.deletes)
		if err := s.writer.inPieces(s, lost.deletes); err != nil {
			return err
		}
	}
	if messages > 0 {
		s.opts.Logger.Warn("messages of streams are lost that were not synced before the machine or the process stopped; sync policy always loses none",
			"dir", s.opts.Dir, "messages", messages)
	}
	return nil
}

// lostChunks looks through the summaries of one stream.
type lostChunks struct {
	s        *Store
	id       uint64
	next     uint64 // where the next chunk must begin; 0: anywhere
	deletes  []rawOp
	messages uint64
}

func (l *lostChunks) item(item *badger.Item) error {
	if len(item.Key()) == 9 {
		return nil // the head record
	}
	m, err := l.s.readSummary(item)
	if err != nil {
		return err
	}
	if len(l.deletes) == 0 && m.number >= l.s.syncedTo {
		whole, err := l.isWhole(&m)
		if err != nil {
			return err
		}
		if whole && (l.next == 0 || l.next == m.First) {
			l.next = m.First + uint64(m.Count)
			return nil
		}
	} else if len(l.deletes) == 0 {
		l.next = m.First + uint64(m.Count)
		return nil
	}
	l.deletes = append(l.deletes, rawOp{key: bytes.Clone(item.Key()), delete: true})
	l.messages += uint64(m.Count)
	return nil
}

// isWhole says whether the bytes of a chunk are there.
func (l *lostChunks) isWhole(m *summary) (bool, error) {
	for part := range m.parts {
		key := appendPartKey(nil, l.id, m.First, part)
		if found, err := l.s.hasKey(key); err != nil || !found {
			return false, err
		}
		if ok, err := l.s.isReadable(key); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// hasKey says whether there is a key, whatever its value.
func (s *Store) hasKey(key []byte) (found bool, err error) {
	err = s.scanKeys(key, func(item *badger.Item) error {
		found = found || bytes.Equal(item.Key(), key)
		return nil
	})
	return found, err
}
