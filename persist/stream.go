package persist

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Stream is the messages of one incarnation of a stream queue: chunks that are
// written once, read any number of times and deleted from the front only. Each
// message has an offset, counted from 0; a chunk is known by its first.
//
// A chunk is two kinds of keys. The summary, s queue first, is small and lies
// in the tables; the bytes, t queue first part, may lie in the value log, where
// Badger can bring deleted values back (see doc.go). So what counts is the
// summary: bytes without one are garbage and are swept away.
//
// Methods may be called from any goroutine.
type Stream struct {
	// Immutable.
	log *Log

	// Guarded by Store.mu.
	first    uint64 // chunks below it are gone, or about to be deleted
	trimming bool   // stands in Store.trimming
	cleared  bool   // dropped, and nothing of it is on disk any more

	// Owned by the background goroutine, after Recover.
	settled bool   // dropped, and what was on its way to the disk has arrived
	cursor  []byte // keys up to it are deleted
}

// Chunk is a run of messages with consecutive offsets.
type Chunk struct {
	First uint64 // offset of the first message
	Count uint32 // messages; at least 1
	// Summary is the caller's own, at most MaxSummaryBytes.
	Summary []byte
}

// MaxSummaryBytes is the most that Chunk.Summary may hold: with what the store
// keeps beside it, a summary stays out of the value log.
const MaxSummaryBytes = 512

// ChunkSource gives the messages of a chunk when they are written. What it
// gives must not change until the chunk's done was called.
type ChunkSource interface {
	// Message is number i of the chunk. Its methods are called without the
	// store's lock.
	Message(i int) Payload
	// Size is the number of bytes of all heads and bodies.
	Size() int64
}

// StoredChunk is a chunk read back.
type StoredChunk struct {
	Chunk
	// Data is what EachMessage reads; nil when the caller did not want it.
	Data []byte
}

// chunkAppend is a chunk in a batch or group.
type chunkAppend struct {
	stream *Stream
	chunk  Chunk
	source ChunkSource
	done   func(error)
	parts  uint32
	number uint64 // set when its batch is sealed; see dropLostChunks
}

// messageOverhead is what the bytes of a chunk have for each message besides
// its head and body: the two lengths.
const messageOverhead = 8

// size is the number of bytes under the chunk's t keys.
func (c *chunkAppend) size() int64 {
	return c.source.Size() + messageOverhead*int64(c.chunk.Count)
}

// Stream gives the stream that is kept in this log; the same one each time.
// A log holds a stream or a queue's messages, not both.
func (l *Log) Stream() *Stream {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.openStream()
}

// openStream is Stream with Store.mu held.
func (l *Log) openStream() *Stream {
	if l.stream == nil {
		l.stream = &Stream{log: l}
	}
	return l.stream
}

// Append adds a chunk at the end: First must be where the chunk before ended.
// It joins the open batch and returns; done is called once, on the committer
// goroutine and with no lock held, when the chunk is durable or never will be.
// It must not block. An error means that nothing was taken, and done will not
// be called. On a log that was dropped the chunk vanishes as if it had been
// written.
func (t *Stream) Append(c Chunk, source ChunkSource, done func(error)) error {
	s := t.log.store
	a, err := t.newAppend(c, source, done)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.refusal()
	}
	if err := s.failure(); err != nil {
		return err
	}
	b := s.room(int(a.parts)+1, a.weight(), a.size())
	s.addChunk(b, a)
	s.touched(b, true)
	return nil
}

func (t *Stream) newAppend(c Chunk, source ChunkSource, done func(error)) (*chunkAppend, error) {
	if len(c.Summary) > MaxSummaryBytes {
		return nil, fmt.Errorf("append chunk: summary of %d bytes, at most %d are possible", len(c.Summary), MaxSummaryBytes)
	}
	a := &chunkAppend{stream: t, chunk: c, source: source, done: done}
	a.parts = partsOf(a.size())
	return a, nil
}

// weight is what the keys of a chunk are taken to add to a transaction.
func (c *chunkAppend) weight() int64 {
	return (int64(c.parts)+1)*pageOpBytes + int64(len(c.chunk.Summary)) + min(c.size(), valueThreshold)
}

// addChunk puts a chunk into batch b, the open one. Called with Store.mu held.
func (s *Store) addChunk(b *batch, a *chunkAppend) {
	if a.stream.log.dropped {
		b.dones = append(b.dones, doneFunc{fn: a.done})
		return
	}
	b.chunks = append(b.chunks, a)
	b.bodies += a.size()
	b.count(int(a.parts)+1, a.weight())
	s.weigh(b, a.size())
	s.liveBytes += a.size()
}

// AppendChunk is Stream.Append as part of the group; done is called before the
// group's waiter is told.
func (g *Group) AppendChunk(t *Stream, c Chunk, source ChunkSource, done func(error)) error {
	a, err := t.newAppend(c, source, done)
	if err != nil {
		return err
	}
	g.chunks = append(g.chunks, a)
	return nil
}

// chunkRoom is what a group's chunks need in a batch.
func (g *Group) chunkRoom() (ops int, bytes, bodies int64) {
	for _, a := range g.chunks {
		ops += int(a.parts) + 1
		bytes += a.weight()
		bodies += a.size()
	}
	return ops, bytes, bodies
}

// numberChunks gives the chunks of a batch that is being sealed their numbers.
// Called with Store.mu held.
func (s *Store) numberChunks(b *batch) {
	for _, a := range b.chunks {
		a.number = s.pageIDs.take(1)
	}
}

// tellChunks ends the chunks of a batch that was committed or failed.
func (b *batch) tellChunks(err error) {
	for _, a := range b.chunks {
		a.done(err)
	}
}

// ReleaseAll is Record.Release for many records, so that the confirms of one
// channel go out together; with an error, they will never be durable. s may be
// nil when err is. Entries may be nil.
func (s *Store) ReleaseAll(records []*Record, err error) {
	var n notifier
	for _, r := range records {
		if r == nil {
			continue
		}
		finish := r.leave
		if err != nil {
			finish = r.fail
		}
		if w, ok := finish(s); ok {
			n.stored(w)
		}
	}
	n.flush()
}

// appendPartKey appends t queue first part.
func appendPartKey(dst []byte, queue, first uint64, part uint32) []byte {
	dst = appendPageKey(dst, prefixChunkData, queue, first)
	return binary.BigEndian.AppendUint32(dst, part)
}

// parsePartKey is the inverse of appendPartKey.
func parsePartKey(key []byte) (queue, first uint64, part uint32, ok bool) {
	if len(key) != 21 {
		return 0, 0, 0, false
	}
	return binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:]), binary.BigEndian.Uint32(key[17:]), true
}

// encodeChunks fills w.pages with the bytes of the batch's chunks, writing
// ahead what is too much for one transaction.
func (w *writer) encodeChunks(s *Store, c *committed) error {
	for _, a := range c.batch.chunks {
		e := chunkEncoder{w: w, store: s, a: a}
		if err := e.encode(); err != nil {
			return err
		}
	}
	return nil
}

// chunkEncoder cuts the bytes of a chunk into parts.
type chunkEncoder struct {
	w      *writer
	store  *Store
	a      *chunkAppend
	part   uint32
	key    []byte
	buffer []byte
	head   []byte // scratch
}

func (e *chunkEncoder) encode() error {
	e.begin()
	var lengths [messageOverhead]byte
	for i := range int(e.a.chunk.Count) {
		p := e.a.source.Message(i)
		e.head = p.AppendHead(e.head[:0])
		body := p.Body()
		binary.BigEndian.PutUint32(lengths[:], uint32(len(e.head)))
		binary.BigEndian.PutUint32(lengths[4:], uint32(len(body)))
		for _, b := range [][]byte{lengths[:], e.head, body} {
			if err := e.add(b); err != nil {
				return err
			}
		}
	}
	if e.part+1 != e.a.parts {
		panic("persist: a chunk changed its size while it was stored")
	}
	return e.end()
}

func (e *chunkEncoder) begin() {
	e.key = appendPartKey(nil, e.a.stream.log.id, e.a.chunk.First, e.part)
	e.buffer = e.w.pages.beginValue(min(e.a.size()-int64(e.part)*bodyPageBytes, bodyPageBytes))
}

func (e *chunkEncoder) end() error {
	e.w.pages.end(e.key, e.buffer)
	return e.w.aheadIfLarge(e.store)
}

// add appends bytes, going on in a further part when one is full.
func (e *chunkEncoder) add(b []byte) error {
	for len(b) > 0 {
		room := bodyPageBytes - (len(e.buffer) - 1)
		if room == 0 {
			if err := e.end(); err != nil {
				return err
			}
			e.part++
			e.begin()
			continue
		}
		n := min(room, len(b))
		e.buffer, b = append(e.buffer, b[:n]...), b[n:]
	}
	return nil
}

// encodeSummaries appends the writes that make the batch's chunks count.
func (w *writer) encodeSummaries(c *committed) {
	for _, a := range c.batch.chunks {
		key := w.key(prefixStream, a.stream.log.id, a.chunk.First)
		start := len(w.arena)
		w.arena = beginFrame(w.arena)
		w.arena = binary.BigEndian.AppendUint32(w.arena, a.chunk.Count)
		w.arena = binary.BigEndian.AppendUint32(w.arena, a.parts)
		w.arena = binary.BigEndian.AppendUint64(w.arena, uint64(a.size()))
		w.arena = binary.BigEndian.AppendUint64(w.arena, a.number)
		w.arena = append(w.arena, a.chunk.Summary...)
		w.arena = endFrame(w.arena, start, key)
		w.ops = append(w.ops, rawOp{key: key, value: w.since(start)})
	}
}

// summary is a stored summary, taken apart.
type summary struct {
	Chunk
	parts  uint32
	size   int64
	number uint64
}

// summaryBytes is the store's own part of a summary.
const summaryBytes = 24

// parseSummary reads the summary under a key; its Summary is a copy.
func parseSummary(key, value []byte) (summary, error) {
	_, first, ok := parsePageKey(key)
	payload, err := openFrame(key, value)
	switch {
	case !ok:
		return summary{}, errors.New("the key is malformed")
	case err != nil:
		return summary{}, err
	case len(payload) < summaryBytes:
		return summary{}, errShort
	}
	m := summary{
		Chunk:  Chunk{First: first, Count: binary.BigEndian.Uint32(payload), Summary: append([]byte(nil), payload[summaryBytes:]...)},
		parts:  binary.BigEndian.Uint32(payload[4:]),
		size:   int64(binary.BigEndian.Uint64(payload[8:])),
		number: binary.BigEndian.Uint64(payload[16:]),
	}
	if m.Count == 0 || m.First+uint64(m.Count) < m.First || m.size < 0 || m.parts != partsOf(m.size) {
		return summary{}, fmt.Errorf("a chunk cannot have %d messages in %d bytes and %d parts", m.Count, m.size, m.parts)
	}
	return m, nil
}

// At reads the chunk that begins at an offset. wanted, when not nil, is shown
// the summary and says whether the bytes are to be read. found is false when
// no chunk begins there, or it has been trimmed.
func (t *Stream) At(first uint64, wanted func(Chunk) bool) (c StoredChunk, found bool, err error) {
	s := t.log.store
	err = s.db.View(func(txn *badger.Txn) error {
		key := appendPageKey(nil, prefixStream, t.log.id, first)
		item, err := txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return s.corrupt(key, err)
		}
		m, err := s.readSummary(item)
		if err != nil {
			return err
		}
		found, c.Chunk = true, m.Chunk
		if wanted != nil && !wanted(c.Chunk) {
			return nil
		}
		c.Data, err = t.readData(txn, &m)
		return err
	})
	if err != nil && t.isGone(first) {
		return StoredChunk{}, false, nil // deleted while it was read
	}
	return c, found, err
}

// isGone says whether an offset was trimmed, or the whole stream dropped.
func (t *Stream) isGone(offset uint64) bool {
	s := t.log.store
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.log.dropped || offset < t.first
}

func (s *Store) readSummary(item *badger.Item) (m summary, err error) {
	err = s.value(item, func(value []byte) error {
		var err error
		if m, err = parseSummary(item.Key(), value); err != nil {
			return s.corrupt(item.Key(), err)
		}
		return nil
	})
	return m, err
}

// readData reads the bytes of a chunk.
func (t *Stream) readData(txn *badger.Txn, m *summary) ([]byte, error) {
	s := t.log.store
	data := make([]byte, 0, m.size)
	for part := range m.parts {
		key := appendPartKey(nil, t.log.id, m.First, part)
		item, err := txn.Get(key)
		if err != nil {
			if errors.Is(err, badger.ErrKeyNotFound) {
				err = errMissing
			}
			return nil, s.corrupt(key, err)
		}
		err = s.value(item, func(value []byte) error {
			payload, err := openFrame(key, value)
			if err != nil {
				return s.corrupt(key, err)
			}
			data = append(data, payload...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if int64(len(data)) != m.size {
		return nil, s.corrupt(appendPartKey(nil, t.log.id, m.First, 0), errShort)
	}
	return data, nil
}

// EachMessage calls fn for every message in the bytes of a chunk; head and
// body alias it.
func (c *StoredChunk) EachMessage(fn func(head, body []byte) error) error {
	rest := c.Data
	for range c.Count {
		if len(rest) < messageOverhead {
			return fmt.Errorf("%w: chunk at %d: %w", ErrCorrupt, c.First, errShort)
		}
		head, body := uint64(binary.BigEndian.Uint32(rest)), uint64(binary.BigEndian.Uint32(rest[4:]))
		rest = rest[messageOverhead:]
		if head+body > uint64(len(rest)) {
			return fmt.Errorf("%w: chunk at %d: %w", ErrCorrupt, c.First, errShort)
		}
		if err := fn(rest[:head:head], rest[head:head+body:head+body]); err != nil {
			return err
		}
		rest = rest[head+body:]
	}
	return nil
}

// Before reads the summary of the last chunk that begins at an offset or before
// it; found is false when there is none.
func (t *Stream) Before(offset uint64) (c Chunk, found bool, err error) {
	s := t.log.store
	err = s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Reverse: true, Prefix: appendIDKey(nil, prefixStream, t.log.id)})
		defer it.Close()
		it.Seek(appendPageKey(nil, prefixStream, t.log.id, offset))
		if !it.Valid() || len(it.Item().Key()) != 17 {
			return nil
		}
		m, err := s.readSummary(it.Item())
		found, c = err == nil, m.Chunk
		return err
	})
	return c, found, err
}
