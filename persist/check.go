package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/dgraph-io/badger/v4"
)

// Checked is what Reader.Check has looked at.
type Checked struct {
	Definitions, IndexPages, BodyPages int
	// Messages counts those that are not settled, per log; Bytes those of all
	// body pages.
	Messages, Bytes int64
	// Lost counts messages that were lost because they had not been synced when
	// the machine stopped, under another policy than SyncAlways. The next start
	// drops them.
	Lost int64
	// StreamMessages counts the messages of all streams.
	StreamMessages int64
	// Unreferenced counts body pages that no message needs. They are no damage:
	// the next start deletes them.
	Unreferenced int
}

// checker collects what has to fit together.
type checker struct {
	r       *Reader
	report  func(problem error)
	checked Checked

	bodies  map[uint64]int64 // payload bytes by body page
	needed  map[uint64]bool  // body pages that messages refer to
	acks    map[pageName][]byte
	pieces  map[string]bool // continuation keys of definitions not asked for yet
	queues  uint64          // highest queue id
	pages   uint64          // highest body page id
	parts   map[string]bool // keys of bytes of chunks that no summary has named yet
	dropped map[uint64]bool
}

// pageName is the key of an index page or of its acks.
type pageName struct{ queue, first uint64 }

// Check reads everything, verifies each checksum and that what belongs together
// is there: definitions with their continuations, acks with their index page,
// messages with their bytes, ids with the counters they came from. Each problem
// is reported once, with the name of what is damaged; then it goes on.
// definition, when not nil, is asked about each definition that can be read;
// its error is a problem too.
func (r *Reader) Check(definition func(Definition) error, report func(problem error)) Checked {
	c := &checker{
		r: r, report: report, bodies: make(map[uint64]int64), needed: make(map[uint64]bool),
		acks: make(map[pageName][]byte), pieces: make(map[string]bool), dropped: make(map[uint64]bool), parts: make(map[string]bool),
	}
	c.definitions(definition)
	c.keys()
	c.index()
	c.streams()
	c.rest()
	return c.checked
}

// problem reports damage of a key's value.
func (c *checker) problem(key []byte, err error) {
	if !c.r.s.lossy || !c.mayBeLost(key) {
		c.report(fmt.Errorf("%s: %w", keyName(key), err))
	}
}

// mayBeLost says whether damage of a key is what an unsynced store may have
// after the machine stopped: the next start drops it.
func (c *checker) mayBeLost(key []byte) bool {
	switch key[0] {
	case prefixBody:
		id, ok := parseIDKey(key)
		return ok && id >= c.r.s.syncedTo
	case prefixChunkData, prefixAck:
		return true
	}
	return bytes.Equal(key, counterPage) || bytes.Equal(key, counterQueue)
}

// each calls fn for every key with a prefix, with the payload of its value, or
// reports why it cannot be read. Payloads are borrowed.
func (c *checker) each(prefix []byte, fn func(key, payload []byte) error) {
	c.eachItem(prefix, func(_ *badger.Item, key, payload []byte) error { return fn(key, payload) })
}

func (c *checker) eachItem(prefix []byte, fn func(item *badger.Item, key, payload []byte) error) {
	err := c.r.s.scanKeys(prefix, func(item *badger.Item) error {
		key := item.KeyCopy(nil)
		if err := c.value(item, key, fn); err != nil {
			c.problem(key, err)
		}
		return nil
	})
	if err != nil {
		c.report(fmt.Errorf("read keys that begin with %q: %w", prefix, err))
	}
}

func (c *checker) value(item *badger.Item, key []byte, fn func(item *badger.Item, key, payload []byte) error) (err error) {
	defer func() {
		// Badger trusts the places in its value log that its tables name.
		if r := recover(); r != nil {
			err = fmt.Errorf("the value log cannot be read: %v", r)
		}
	}()
	called := false
	var inner error
	err = item.Value(func(value []byte) error {
		called = true
		var payload []byte
		if payload, inner = openFrame(key, value); inner == nil {
			inner = fn(item, key, payload)
		}
		return nil
	})
	switch {
	case inner != nil:
		return inner
	case err == nil && !called:
		return errMissing
	}
	return err
}

// definitions reads definitions with their continuations.
func (c *checker) definitions(check func(Definition) error) {
	c.each([]byte{prefixPiece}, func(key, _ []byte) error {
		if _, _, ok := definitionOf(key); !ok {
			return errors.New("the key is malformed")
		}
		c.pieces[string(key)] = true
		return nil
	})
	c.each([]byte{prefixDef}, func(key, payload []byte) error {
		c.checked.Definitions++
		k, ok := parseKey(key)
		if !ok {
			return errors.New("the key is malformed")
		}
		if len(payload) < 4 {
			return errShort
		}
		size := int(binary.BigEndian.Uint32(payload))
		whole := append([]byte(nil), payload[4:]...)
		for n := 1; len(whole) < size; n++ {
			piece := appendPieceKey(nil, key, n)
			delete(c.pieces, string(piece))
			found, err := c.r.s.get(piece, func(payload []byte) error {
				whole = append(whole, payload...)
				return nil
			})
			if err != nil {
				return err
			}
			if !found {
				return fmt.Errorf("continuation %d is missing", n)
			}
		}
		if len(whole) != size {
			return errShort
		}
		if check == nil {
			return nil
		}
		return check(Definition{Key: k, Value: whole})
	})
	for piece := range c.pieces {
		c.problem([]byte(piece), errors.New("no definition goes on there"))
	}
}

// keys verifies all that is neither a definition nor an index page.
func (c *checker) keys() {
	c.each(nil, func(key, payload []byte) error {
		switch key[0] {
		case prefixDef, prefixPiece, prefixIndex, prefixStream: // read elsewhere
			return nil
		case prefixBody:
			id, ok := parseIDKey(key)
			if !ok {
				return errors.New("the key is malformed")
			}
			c.bodies[id] = int64(len(payload))
			c.pages = max(c.pages, id)
			c.checked.BodyPages++
			c.checked.Bytes += int64(len(payload))
		case prefixAck:
			queue, first, ok := parsePageKey(key)
			if !ok {
				return errors.New("the key is malformed")
			}
			c.acks[pageName{queue, first}] = append([]byte(nil), payload...)
		case prefixDrop:
			id, ok := parseIDKey(key)
			if !ok {
				return errors.New("the key is malformed")
			}
			c.dropped[id] = true
		case prefixReturns:
			if _, _, ok := parsePageKey(key); !ok || len(payload) != returnsBytes {
				return errShort
			}
		case prefixChunkData:
			if _, _, _, ok := parsePartKey(key); !ok {
				return errors.New("the key is malformed")
			}
			c.parts[string(key)] = true
			c.checked.Bytes += int64(len(payload))
		case prefixMarks:
			if len(key) != 13 || len(payload)%markBytes != 0 {
				return errShort
			}
		case prefixRedo:
			if _, _, ok := parseRedoKey(key); !ok {
				return errors.New("the key is malformed")
			}
		case prefixCounter:
		default:
			return errors.New("no such key is written by this version")
		}
		return nil
	})
}

// index reads index pages and asks for what they refer to.
func (c *checker) index() {
	s := c.r.s
	err := s.scanKeys([]byte{prefixIndex}, func(item *badger.Item) error {
		key := item.KeyCopy(nil)
		c.checked.IndexPages++
		err := s.value(item, func(value []byte) error {
			v, err := c.r.openPage(key, value)
			if err == nil {
				err = c.page(key, v)
			}
			return err
		})
		if err != nil {
			c.problem(key, err)
		}
		return nil
	})
	if err != nil {
		c.report(fmt.Errorf("read index pages: %w", err))
	}
}

// page checks one index page.
func (c *checker) page(key []byte, v *storedPage) (err error) {
	c.queues = max(c.queues, v.queue)
	name := pageName{v.queue, v.first}
	if payload, ok := c.acks[name]; ok {
		delete(c.acks, name)
		if v.settled, err = openAcks(payload, len(v.entries)); err != nil {
			c.problem(appendPageKey(nil, prefixAck, v.queue, v.first), err)
			return nil
		}
	}
	for i := range v.entries {
		e := &v.entries[i]
		if v.settled(i) {
			continue
		}
		if lost, err := c.r.isLost(e); err != nil || lost {
			c.checked.Lost++
			if err != nil {
				return err
			}
			continue
		}
		if !c.dropped[v.queue] {
			c.checked.Messages++
		}
		if err := c.bytes(e); err != nil {
			return fmt.Errorf("message %d: %w", v.first+uint64(e.seqOff), err)
		}
	}
	return nil
}

// bytes checks that a message's bytes are there.
func (c *checker) bytes(e *storedEntry) error {
	have := int64(0)
	for part := range uint64(partsOf(e.size())) {
		id := e.page + part
		size, ok := c.bodies[id]
		if !ok {
			return fmt.Errorf("body page %d is missing or cannot be read", id)
		}
		c.needed[id] = true
		have += size
	}
	if int64(e.off)+e.size() > have {
		return fmt.Errorf("it lies beyond the end of body page %d", e.page)
	}
	return nil
}

// rest is what only shows when everything has been read.
func (c *checker) rest() {
	for name := range c.acks {
		c.problem(appendPageKey(nil, prefixAck, name.queue, name.first), errors.New("the index page is missing"))
	}
	for id := range c.bodies {
		if !c.needed[id] {
			c.checked.Unreferenced++
		}
	}
	for _, count := range []struct {
		key    []byte
		most   uint64
		things string
	}{{counterPage, c.pages, "body page"}, {counterQueue, c.queues, "queue"}} {
		n, found, err := c.r.s.number(count.key)
		switch {
		case err != nil: // reported with the keys
		case !found:
			c.problem(count.key, errMissing)
		case n <= count.most:
			c.problem(count.key, fmt.Errorf("it says %d, but there is a %s %d", n, count.things, count.most))
		}
	}
}

// Space is what fills a store.
type Space struct {
	IndexPages, BodyPages int
	// BodyBytes is the bytes on body pages and of chunks, LiveBytes those of messages that
	// are not settled, counted once however many logs have them. The rest is
	// dead and given back when its page or its value log file is.
	BodyBytes, LiveBytes int64
	// DiskBytes is what the files of the folder take.
	DiskBytes int64
}

// Space measures the store without reading bodies.
func (r *Reader) Space() (sp Space, err error) {
	s := r.s
	for _, prefix := range []byte{prefixBody, prefixChunkData} {
		err := s.scanKeys([]byte{prefix}, func(item *badger.Item) error {
			sp.BodyPages++
			sp.BodyBytes += max(0, item.ValueSize()-frameOverhead)
			return nil
		})
		if err != nil {
			return sp, err
		}
	}
	if err := r.pages(func(*storedPage) error { sp.IndexPages++; return nil }); err != nil {
		return sp, err
	}
	seen := make(map[Address]bool)
	err = r.Index(func(m Indexed) error {
		if m.Shared {
			if seen[m.Address] {
				return nil
			}
			seen[m.Address] = true
		}
		sp.LiveBytes += int64(m.Address.size)
		return nil
	})
	if err != nil {
		return sp, err
	}
	err = r.Chunks(false, func(_ uint64, _ StoredChunk, size int64) error {
		sp.LiveBytes += size
		return nil
	})
	if err != nil {
		return sp, err
	}
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil {
		return sp, fmt.Errorf("measure %s: %w", s.opts.Dir, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			sp.DiskBytes += diskBytes(info)
		}
	}
	return sp, nil
}

// diskBytes is what a file takes on the disk, or its size where that is not
// known.
func diskBytes(info os.FileInfo) int64 {
	if n := blocksOf(info); n > 0 {
		return n
	}
	return info.Size()
}
