package stream

import (
	"sort"
	"sync"

	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// shelf is where a stream's chunks lie.
type shelf interface {
	// put takes a chunk that has its offset, in order. now: it is there at once;
	// otherwise done will be called. Called with Log.mu held.
	put(c *chunk, done func(error)) (now bool, err error)
	// putIn is put as part of a group.
	putIn(g *persist.Group, c *chunk, done func(error)) (now bool, err error)
	// at finds the chunk that an offset lies in; nil when there is none (any
	// more). One that r does not want may come without its messages.
	at(offset uint64, r *queue.Reading) (*chunk, error)
	// since finds the first chunk not older than a time among those that begin
	// in from ... to-1, and gives its first offset; to when there is none.
	since(time int64, from, to uint64) (uint64, error)
	// trim deletes the chunks before an offset, freed bytes of them.
	trim(first uint64, freed int64)
}

// memoryShelf keeps chunks in memory.
type memoryShelf struct {
	mu     sync.Mutex
	chunks []*chunk
}

func (s *memoryShelf) put(c *chunk, _ func(error)) (now bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunks = append(s.chunks, c)
	return true, nil
}

func (s *memoryShelf) putIn(_ *persist.Group, c *chunk, done func(error)) (now bool, err error) {
	return s.put(c, done)
}

func (s *memoryShelf) at(offset uint64, _ *queue.Reading) (*chunk, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].next() > offset })
	if i == len(s.chunks) || s.chunks[i].first > offset {
		return nil, nil
	}
	return s.chunks[i], nil
}

func (s *memoryShelf) since(time int64, from, to uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].first >= from && s.chunks[i].time >= time })
	if i == len(s.chunks) {
		return to, nil
	}
	return min(s.chunks[i].first, to), nil
}

func (s *memoryShelf) trim(first uint64, _ int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].first >= first })
	s.chunks = append([]*chunk(nil), s.chunks[i:]...)
}

// storeShelf keeps chunks in the store, recent ones in the cache too.
type storeShelf struct {
	log   *persist.Stream
	id    uint64
	cache *cache
}

func (s *storeShelf) put(c *chunk, done func(error)) (now bool, err error) {
	return false, s.log.Append(c.toStore(), c, done)
}

func (s *storeShelf) putIn(g *persist.Group, c *chunk, done func(error)) (now bool, err error) {
	return false, g.AppendChunk(s.log, c.toStore(), c, done)
}

func (c *chunk) toStore() persist.Chunk {
	return persist.Chunk{First: c.first, Count: uint32(c.count), Summary: c.summary()}
}

func (s *storeShelf) at(offset uint64, r *queue.Reading) (*chunk, error) {
	if c := s.cache.get(s.id, offset); c != nil {
		return c, nil
	}
	c, err := s.read(offset, r)
	if c != nil || err != nil {
		return c, err
	}
	// Not where a chunk begins: the usual case at a consumer's first one only.
	before, found, err := s.log.Before(offset)
	if err != nil || !found || before.First+uint64(before.Count) <= offset {
		return nil, err
	}
	if c := s.cache.get(s.id, before.First); c != nil {
		return c, nil
	}
	return s.read(before.First, r)
}

// read reads the chunk that begins at an offset, for r.
func (s *storeShelf) read(first uint64, r *queue.Reading) (*chunk, error) {
	var skipped *chunk
	stored, found, err := s.log.At(first, func(p persist.Chunk) bool {
		c, err := fromSummary(p)
		if err == nil && r != nil && !c.marks.matches(r) {
			skipped = c
			return false
		}
		return true
	})
	if err != nil || !found || skipped != nil {
		return skipped, err
	}
	c, err := fromStore(&stored)
	if err == nil {
		s.cache.put(s.id, c)
	}
	return c, err
}

// since searches by halves: times never fall from chunk to chunk.
func (s *storeShelf) since(time int64, from, to uint64) (uint64, error) {
	low, high := from, to // chunks before low are older; that at high is not, or is not there
	for low < high {
		p, found, err := s.log.Before(low + (high-low)/2)
		if err != nil {
			return 0, err
		}
		if !found || p.First < low { // trimmed meanwhile
			return low, nil
		}
		c, err := fromSummary(p)
		switch {
		case err != nil:
			return 0, err
		case c.time < time:
			low = c.next()
		default:
			high = c.first
		}
	}
	return min(low, to), nil
}

func (s *storeShelf) trim(first uint64, freed int64) { s.log.Trim(first, freed) }
