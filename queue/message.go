package queue

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/warrenmq/warren/persist"
)

// Message is one published message: what the publisher sent, immutable from
// the moment the first queue takes it, and shared by every queue it goes to.
type Message struct {
	// Exchange is the name the message was published to.
	Exchange string
	// RoutingKey is the publisher's routing key; Warren's own memory.
	RoutingKey string
	// Properties are the content header's property flags and values, as the
	// client sent them (less BCC).
	Properties []byte
	// Content is the body.
	Content []byte
	// Priority is the priority property, 0 when absent; not yet capped by any
	// queue.
	Priority uint8
	// Persistent says that delivery mode is 2.
	Persistent bool
	// Expiration is the expiration property in milliseconds, -1 when absent.
	Expiration int64
	// Dead says that the x-death header in Properties was written by this
	// broker; otherwise the publisher may have sent one.
	Dead bool
	// CCDone says that the CC header does not route any more: the message was
	// dead-lettered with a routing key in place of its own ones.
	CCDone bool
	// BCC are the routing keys of the publisher's BCC header, which is not in
	// Properties. They count once more when the message is dead-lettered without
	// a routing key (verified on RabbitMQ 3.10.8 and 4.3.6).
	BCC []string

	// record ties the queues' journal entries of this message together; nil
	// until the first durable queue takes a persistent message.
	record *persist.Record
}

// Journaled gives the message's record, made by Track or at recovery; nil for
// a message that is on no disk.
func (m *Message) Journaled() *persist.Record { return m.record }

// Track prepares the message for durable queues: w.Stored(token) is called
// once when every queue's copy is safe. w may be nil. The publisher must hold
// the record (persist.Record.Hold) around the enqueues.
func (m *Message) Track(w persist.Waiter, token uint64) *persist.Record {
	m.record = new(persist.Record)
	m.record.Init(m, w, token)
	return m.record
}

// The stored head of a message: flag byte, priority, expiration (8 bytes),
// exchange and routing key as short strings, the BCC keys if there are any, as
// a count and long strings, then the properties.
const headFixed = 1 + 1 + 8

// The bits of the flag byte.
const (
	headPersistent = 1 << iota
	headDead
	headCCDone
	headBCC
)

// HeadSize implements persist.Payload.
func (m *Message) HeadSize() int {
	n := headFixed + 1 + len(m.Exchange) + 1 + len(m.RoutingKey) + len(m.Properties)
	if len(m.BCC) > 0 {
		n += 4
		for _, key := range m.BCC {
			n += 4 + len(key)
		}
	}
	return n
}

// AppendHead implements persist.Payload.
func (m *Message) AppendHead(dst []byte) []byte {
	dst = append(dst, m.headFlags(), m.Priority)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.Expiration))
	dst = append(dst, byte(len(m.Exchange)))
	dst = append(dst, m.Exchange...)
	dst = append(dst, byte(len(m.RoutingKey)))
	dst = append(dst, m.RoutingKey...)
	if len(m.BCC) > 0 {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(m.BCC)))
		for _, key := range m.BCC {
			dst = binary.BigEndian.AppendUint32(dst, uint32(len(key)))
			dst = append(dst, key...)
		}
	}
	return append(dst, m.Properties...)
}

func (m *Message) headFlags() (flags byte) {
	if m.Persistent {
		flags |= headPersistent
	}
	if m.Dead {
		flags |= headDead
	}
	if m.CCDone {
		flags |= headCCDone
	}
	if len(m.BCC) > 0 {
		flags |= headBCC
	}
	return flags
}

// Body implements persist.Payload.
func (m *Message) Body() []byte { return m.Content }

// recoveredKeys reads the BCC keys and returns what follows them.
func recoveredKeys(b []byte) (keys []string, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, fmt.Errorf("read stored message: head ends before its BCC keys")
	}
	n, rest := binary.BigEndian.Uint32(b), b[4:]
	for range n {
		if len(rest) < 4 || uint64(len(rest)) < 4+uint64(binary.BigEndian.Uint32(rest)) {
			return nil, nil, fmt.Errorf("read stored message: head ends inside a BCC key")
		}
		end := 4 + int(binary.BigEndian.Uint32(rest))
		keys, rest = append(keys, string(rest[4:end])), rest[end:]
	}
	return keys, rest, nil
}

// Arena gives messages their memory: message structs and small byte strings
// are carved from blocks that the garbage collector owns, so that a message
// costs no allocation of its own. A block lives as long as its longest-lived
// message. Not safe for concurrent use: each connection has one.
type Arena struct {
	bytes    []byte
	messages []Message
}

const (
	arenaBytes    = 32 << 10
	arenaMessages = 32
	// arenaLargest is the longest byte string carved from a block; longer ones
	// get memory of their own, so that a block is never pinned by one of them.
	arenaLargest = 4 << 10
)

// NewMessage gives a zero message for a body and properties of size bytes
// together. A large one gets memory of its own: the messages of a block keep
// each other's bodies alive, so one that waits in a queue for days must not
// hold on to 31 bodies of a megabyte.
func (a *Arena) NewMessage(size int) *Message {
	if size > arenaLargest {
		return new(Message)
	}
	if len(a.messages) == 0 {
		a.messages = make([]Message, arenaMessages)
	}
	m := &a.messages[0]
	a.messages = a.messages[1:]
	return m
}

// Bytes gives n bytes with no spare capacity, their content undefined.
func (a *Arena) Bytes(n int) []byte {
	if n == 0 {
		return nil
	}
	if n > arenaLargest {
		return make([]byte, n)
	}
	if len(a.bytes) < n {
		a.bytes = make([]byte, arenaBytes)
	}
	b := a.bytes[:n:n]
	a.bytes = a.bytes[n:]
	return b
}

// Copy is Bytes filled with b.
func (a *Arena) Copy(b []byte) []byte {
	c := a.Bytes(len(b))
	copy(c, b)
	return c
}

// String is Copy as a string. The bytes are never written again, which is
// what makes the conversion safe.
func (a *Arena) String(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	c := a.Copy(b)
	return unsafe.String(&c[0], len(c))
}

// Trim lets go of the blocks, so that an idle connection holds none.
func (a *Arena) Trim() { *a = Arena{} }
