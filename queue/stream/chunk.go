package stream

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// The bounds of a chunk. A message larger than chunkBytes has one of its own.
// Small, because every reader may hold one in memory.
const (
	chunkBytes    = 256 << 10
	chunkMessages = 1024
)

// chunk is a run of messages. It is filled under Log.mu, then given an offset
// and never changed, except that dress is done once.
type chunk struct {
	first uint64 // offset of the first message; set when it is sealed
	time  int64  // milliseconds of message time when it was sealed
	count int
	heads int64 // bytes of the messages' heads
	body  int64 // bytes of their bodies
	marks filterSet

	raw     []*queue.Message  // as published; nil once dressed
	records []*persist.Record // of their publishers, until they are told

	dressed  sync.Once
	messages []*queue.Message // as delivered
}

// next is the offset behind the chunk.
func (c *chunk) next() uint64 { return c.first + uint64(c.count) }

// stored is the size of the chunk on disk; retention counts it also when there
// is no disk.
func (c *chunk) stored() int64 { return persist.StoredSize(c.count, c.heads, c.body) }

// memory is about what the chunk takes in memory.
func (c *chunk) memory() int64 { return c.stored() + messageMemory*int64(c.count) }

// messageMemory is about what a message takes besides its bytes.
const messageMemory = 320

// fits says whether a message of this size may still join.
func (c *chunk) fits(size int64) bool {
	return c.count == 0 || c.count < chunkMessages && c.stored()+size <= chunkBytes
}

// add appends a message.
func (c *chunk) add(m *queue.Message, head, body int64) {
	c.raw = append(c.raw, m)
	c.count++
	c.heads += head
	c.body += body
}

// Message implements persist.ChunkSource.
func (c *chunk) Message(i int) persist.Payload { return c.raw[i] }

// Size implements persist.ChunkSource.
func (c *chunk) Size() int64 { return c.heads + c.body }

// deliverable gives the messages as consumers get them: with the offset in a
// header. Done once, by whoever reads the chunk first.
func (c *chunk) deliverable(h *Host) []*queue.Message {
	c.dressed.Do(func() {
		slab := make([]queue.Message, c.count)
		c.messages = make([]*queue.Message, c.count)
		for i, m := range c.raw {
			d := &slab[i]
			d.Exchange, d.RoutingKey, d.Content = m.Exchange, m.RoutingKey, m.Content
			d.Priority, d.Persistent, d.Expiration = m.Priority, m.Persistent, m.Expiration
			d.Properties = dressed(m.Properties, c.first+uint64(i), h.mode)
			c.messages[i] = d
		}
		c.raw = nil
	})
	return c.messages
}

// The summary of a stored chunk: its time, then its filter set.
const summaryTime = 8

func (c *chunk) summary() []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(c.time)), c.marks...)
}

// fromSummary makes a chunk without messages.
func fromSummary(s persist.Chunk) (*chunk, error) {
	if len(s.Summary) < summaryTime {
		return nil, fmt.Errorf("read chunk at %d: its summary of %d bytes is too short", s.First, len(s.Summary))
	}
	return &chunk{
		first: s.First, count: int(s.Count),
		time:  int64(binary.BigEndian.Uint64(s.Summary)),
		marks: s.Summary[summaryTime:],
	}, nil
}

// fromStore makes a chunk of what the store holds.
func fromStore(s *persist.StoredChunk) (*chunk, error) {
	c, err := fromSummary(s.Chunk)
	if err != nil || s.Data == nil {
		return c, err
	}
	c.raw = make([]*queue.Message, 0, c.count)
	c.count = 0
	err = s.EachMessage(func(head, body []byte) error {
		m, err := queue.RecoverMessage(head, body)
		if err == nil {
			c.add(m, int64(len(head)), int64(len(body)))
		}
		return err
	})
	return c, err
}
