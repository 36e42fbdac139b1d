package stream

import (
	"container/list"
	"sync"
)

// cache holds chunks that were committed or read a short while ago, of all
// streams together, so that consumers at the end of a stream, or close to each
// other, cost one read. The least recently used go first. Any goroutine; its
// mutex is a leaf.
type cache struct {
	mu    sync.Mutex
	most  int64
	bytes int64
	order list.List // of *cached, the most recently used in front
	byKey map[cacheKey]*list.Element
}

type cacheKey struct{ stream, first uint64 }

type cached struct {
	key   cacheKey
	chunk *chunk
	bytes int64
}

// cacheBytes is what a host's cache holds.
const cacheBytes = 32 << 20

func newCache(most int64) *cache { return &cache{most: most, byKey: map[cacheKey]*list.Element{}} }

// get finds a chunk; nil when it is not there.
func (c *cache) get(stream, first uint64) *chunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[cacheKey{stream, first}]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).chunk
}

// put adds a chunk. One that would take more than a quarter of the cache is
// not kept.
func (c *cache) put(stream uint64, ch *chunk) {
	n := ch.memory()
	if n > c.most/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cacheKey{stream, ch.first}
	if c.byKey[key] != nil {
		return
	}
	c.byKey[key] = c.order.PushFront(&cached{key, ch, n})
	c.bytes += n
	for c.bytes > c.most {
		c.drop(c.order.Back())
	}
}

// drop takes an element out. mu is held.
func (c *cache) drop(e *list.Element) {
	old := c.order.Remove(e).(*cached)
	delete(c.byKey, old.key)
	c.bytes -= old.bytes
}

// forget takes a stream's chunks out: the stream has been deleted.
func (c *cache) forget(stream uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*cached).key.stream == stream {
			c.drop(e)
		}
		e = next
	}
}
