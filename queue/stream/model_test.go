package stream

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// model is a stream as a slice: message i has offset i.
type model struct {
	first  uint64
	bodies []string
}

// modelReader is what a reader of the model must have got.
type modelReader struct {
	sink *sink
	next uint64
	got  []string
}

// machine runs random steps on a stream and on the model, and compares once
// the stream rests.
type machine struct {
	f       *fixture
	model   model
	readers []*modelReader
}

// publish appends messages, as singles, a burst or a transaction.
func (m *machine) publish(t *rapid.T) {
	n := rapid.IntRange(1, 8).Draw(t, "messages")
	var messages []*queue.Message
	for range n {
		body := fmt.Sprint("m", len(m.model.bodies))
		m.model.bodies = append(m.model.bodies, body)
		messages = append(messages, message(body))
	}
	switch rapid.SampledFrom([]string{"singles", "burst", "transaction", "unconfirmed"}).Draw(t, "how") {
	case "singles":
		for _, one := range messages {
			m.f.publish(one)
		}
	case "burst":
		m.f.publish(messages...)
	case "transaction":
		var tx queue.Transaction
		for _, one := range messages {
			tx.Enqueues = append(tx.Enqueues, queue.Enqueue{Message: one, Queues: []*queue.Queue{m.f.q}})
		}
		if _, err := queue.Commit(tx, m.f.store, nil, 0); err != nil {
			t.Fatal(err)
		}
	default:
		for _, one := range messages {
			m.f.q.Publish(one)
		}
	}
	m.settle()
}

// settle lets the stream rest and follows what retention did.
func (m *machine) settle() {
	m.f.rest()
	first, _ := m.f.log.Offsets()
	m.model.first = first
}

// consume begins a reader at a place whose message is known.
func (m *machine) consume(t *rapid.T) {
	if len(m.readers) == 5 {
		return
	}
	end := uint64(len(m.model.bodies))
	r := &modelReader{}
	var from queue.Reading
	switch rapid.SampledFrom([]queue.Place{queue.First, queue.Next, queue.AtOffset}).Draw(t, "place") {
	case queue.First:
		from, r.next = queue.Reading{From: queue.First}, m.model.first
	case queue.Next:
		from, r.next = queue.Reading{From: queue.Next}, end
	case queue.AtOffset:
		offset := rapid.Uint64Range(0, end+5).Draw(t, "offset")
		from, r.next = queue.Reading{From: queue.AtOffset, Offset: offset}, max(offset, m.model.first)
	}
	r.sink = m.f.consume(rapid.IntRange(1, 10).Draw(t, "credit"), &from)
	m.readers = append(m.readers, r)
}

func (m *machine) pick(t *rapid.T) *modelReader {
	if len(m.readers) == 0 {
		return nil
	}
	return m.readers[rapid.IntRange(0, len(m.readers)-1).Draw(t, "reader")]
}

func (m *machine) ack(t *rapid.T) {
	if r := m.pick(t); r != nil {
		r.sink.ack()
	}
}

func (m *machine) cancel(t *rapid.T) {
	r := m.pick(t)
	if r == nil {
		return
	}
	m.f.q.RemoveConsumer(&r.sink.Consumer)
	m.f.q.Requeue(r.sink.pending)
	for i := range m.readers {
		if m.readers[i] == r {
			m.readers = append(m.readers[:i], m.readers[i+1:]...)
			break
		}
	}
}

// restart reads the stream back from the store. The readers' connections are
// gone.
func (m *machine) restart(t *rapid.T) {
	if m.f.store == nil {
		return
	}
	m.readers = nil
	m.f.host.Close()
	done := make(chan struct{})
	m.f.store.Barrier(&told{done: done}, 0)
	<-done
	m.f.openHost()
}

// check compares every reader, and the counts.
func (m *machine) check(t *rapid.T) {
	m.settle()
	end := uint64(len(m.model.bodies))
	if n := m.f.q.Counts(); n.Ready != int(end-m.model.first) || n.Consumers != len(m.readers) {
		t.Fatalf("%d messages and %d consumers, want %d and %d", n.Ready, n.Consumers, end-m.model.first, len(m.readers))
	}
	for i, r := range m.readers {
		s := r.sink
		s.mu.Lock()
		for j := len(r.got); j < len(s.got); j++ {
			// Retention may have skipped some, but only to the oldest there was.
			at := s.offsets[j]
			if at != r.next && (at < r.next || at > m.model.first) {
				t.Errorf("reader %d got offset %d, want %d; the oldest is %d", i, at, r.next, m.model.first)
			}
			if at >= end || s.got[j] != m.model.bodies[at] {
				t.Errorf("reader %d: offset %d is %q", i, at, s.got[j])
			}
			r.got, r.next = append(r.got, s.got[j]), at+1
		}
		if s.credit > 0 && max(r.next, m.model.first) < end {
			t.Errorf("reader %d has credit %d and stands at %d of %d", i, s.credit, r.next, end)
		}
		s.mu.Unlock()
	}
}

// TestModel: random programs of publishers and readers, with retention.
func TestModel(t *testing.T) {
	both(t, func(t *testing.T, stored bool) {
		f := newFixture(t, stored, Config{Retention: keep})
		rapid.Check(t, func(rt *rapid.T) {
			c := Config{Retention: keep}
			if rapid.Bool().Draw(rt, "retention") {
				size := persist.StoredSize(1, int64(message("").HeadSize()), 3)
				c.SegmentBytes, c.Retention.MaxBytes = 5*size, 25*size
			}
			f.host.Close()
			c.ID, c.Stored = f.config.ID+1, true
			f.config = c
			f.openHost()
			m := &machine{f: f}
			rt.Repeat(map[string]func(*rapid.T){
				"publish": m.publish, "consume": m.consume, "ack": m.ack, "cancel": m.cancel, "restart": m.restart, "": m.check,
			})
		})
	})
}
