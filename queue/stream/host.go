package stream

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// Options are what a Host is made with.
type Options struct {
	// Store keeps chunks; nil keeps them in memory.
	Store *persist.Store
	// Clock is message time.
	Clock *queue.Clock
	// AddDeliveryMode has messages without delivery mode delivered with 1, as
	// RabbitMQ 4.3 does.
	AddDeliveryMode bool
	// Logger takes what an operator should know; nil is slog.Default.
	Logger *slog.Logger
}

// Host is what the streams of one broker share: the store, the goroutines that
// write and read, and the cache. Methods may be called from any goroutine.
type Host struct {
	// Immutable.
	store *persist.Store
	clock *queue.Clock
	log   *slog.Logger
	mode  uint8 // delivery mode for messages without; 0: none
	cache *cache
	// Neither pump is the broker's: readers wait for the disk. Nor does the
	// writing of chunks wait behind readers.
	writing, reading *queue.Pump

	mu   sync.Mutex
	logs map[*Log]struct{} // those that are open
}

// NewHost makes a host. To be closed before the store is.
func NewHost(o Options) *Host {
	h := &Host{store: o.Store, clock: o.Clock, log: o.Logger, cache: newCache(cacheBytes), writing: queue.NewPump(), reading: queue.NewPump(), logs: map[*Log]struct{}{}}
	if h.log == nil {
		h.log = slog.Default()
	}
	if o.AddDeliveryMode {
		h.mode = modeTransient
	}
	return h
}

// Config is what a stream is declared with.
type Config struct {
	// ID is the queue's incarnation id.
	ID uint64
	// Stored has the stream kept in the store, when there is one.
	Stored    bool
	Retention Retention
	// SegmentBytes is the size from which a segment is full; 0 is 500 MB.
	SegmentBytes int64
	// FilterBytes is the size of each chunk's set of filter values, at most 255;
	// 0 is 16, -1 is none: filters match everything.
	FilterBytes int
}

// Open makes the log of a stream. One that the store may have needs Recover
// before it is used.
func (h *Host) Open(c Config) *Log {
	l := &Log{host: h, id: c.ID, readers: map[*queue.Consumer]*reader{}}
	l.configure(c)
	l.shelf = &memoryShelf{}
	if c.Stored && h.store != nil {
		l.shelf = &storeShelf{log: h.store.Log(c.ID).Stream(), id: c.ID, cache: h.cache}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.logs[l] = struct{}{}
	return l
}

// Recover finds out what the store has of the stream. At the start, before
// anything else is done with it.
func (l *Log) Recover() error {
	s, ok := l.shelf.(*storeShelf)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := s.log.Recover(l.recovered); err != nil {
		return err
	}
	l.expire()
	return nil
}

// recovered counts a chunk that is on disk. mu is held.
func (l *Log) recovered(p persist.Chunk, size int64) error {
	c, err := fromSummary(p)
	if err != nil {
		return fmt.Errorf("recover stream %d: %w", l.id, err)
	}
	c.body = size - persist.StoredSize(c.count, 0, 0)
	l.segments.add(c)
	l.last, l.lastTime = c.first, c.time
	l.sealed, l.committed = c.next(), c.next()
	return nil
}

// forget takes a log out that has been deleted.
func (h *Host) forget(l *Log) {
	h.mu.Lock()
	delete(h.logs, l)
	h.mu.Unlock()
	h.cache.forget(l.id)
}

// Close ends deliveries and hands to the store what it has not got yet.
func (h *Host) Close() {
	h.reading.Close()
	h.writing.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.logs {
		l.Run()
	}
}
