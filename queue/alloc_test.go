package queue

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/persist"
)

// swallow is a consumer that keeps nothing but the last entries, to settle.
type swallow struct {
	Consumer
	last []Entry
}

func (s *swallow) Deliver(_ *Consumer, e *Entry) bool {
	s.last = append(s.last, *e)
	return true
}

func (s *swallow) Cancelled(*Consumer) {}

// settle acknowledges what was delivered.
func (s *swallow) settle(q *Queue) {
	q.Settle(s.last)
	s.last = s.last[:0]
}

func newSwallow(t testing.TB, q *Queue, noAck bool) *swallow {
	s := &swallow{Consumer: Consumer{Tag: "s", NoAck: noAck}}
	s.Sink = s
	if err := q.AddConsumer(&s.Consumer); err != nil {
		t.Fatal(err)
	}
	q.Resume(&s.Consumer)
	return s
}

// step is a path that a message takes through a queue, once a call.
type step struct {
	name string
	make func(t testing.TB) func()
}

// hotSteps are the paths that must not allocate.
var hotSteps = []step{
	{"PublishToConsumer", func(t testing.TB) func() {
		q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
		s := newSwallow(t, q, false)
		m := text("m")
		return func() { q.Publish(m); s.settle(q) }
	}},
	{"PublishToNoAckConsumer", func(t testing.TB) func() {
		q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
		s := newSwallow(t, q, true)
		m := text("m")
		return func() { q.Publish(m); s.last = s.last[:0] }
	}},
	{"PublishWaitGetSettle", func(t testing.TB) func() {
		q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
		m := text("m")
		var e [1]Entry
		return func() {
			q.Publish(m)
			e[0], _, _, _ = q.Get(false)
			q.Settle(e[:])
		}
	}},
	{"BacklogThroughBlocks", func(t testing.TB) func() {
		q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
		fill(q, blockEntries+blockEntries/2)
		m := text("m")
		return func() { // a block is used up and another begun in each run
			for range blockEntries {
				q.Publish(m)
				_, _, _, _ = q.Get(true)
			}
		}
	}},
	{"Requeue", func(t testing.TB) func() {
		q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
		fill(q, 100)
		var e [1]Entry
		return func() {
			e[0], _, _, _ = q.Get(false)
			q.Requeue(e[:])
		}
	}},
	{"Priorities", func(t testing.TB) func() {
		q := New(Config{Name: "q", ID: 1, MaxPriority: 9, Pump: newPump(t)})
		var messages [10]*Message
		for i := range messages {
			messages[i] = text("m")
			messages[i].Priority = uint8(i)
		}
		return func() {
			for _, m := range messages {
				q.Publish(m)
			}
			for range messages {
				_, _, _, _ = q.Get(true)
			}
		}
	}},
	{"FanOutTo10", func(t testing.TB) func() {
		var queues []*Queue
		var sinks []*swallow
		pump := newPump(t)
		for i := range 10 {
			q := New(Config{Name: fmt.Sprint(i), ID: uint64(i + 1), Pump: pump})
			queues, sinks = append(queues, q), append(sinks, newSwallow(t, q, false))
		}
		m := text("m")
		return func() {
			for i, q := range queues {
				q.Publish(m)
				sinks[i].settle(q)
			}
		}
	}},
	{"CreditBounce", func(t testing.TB) func() {
		q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
		c := newClient(q, "c", 0)
		if err := q.AddConsumer(&c.Consumer); err != nil {
			t.Fatal(err)
		}
		q.Resume(&c.Consumer)
		m := text("m")
		return func() { // refused, waits, served when credit comes
			q.Publish(m)
			c.grant(1)
			q.Settle(c.got)
			c.got = c.got[:0]
		}
	}},
	{"JournaledWithoutStore", func(t testing.TB) func() {
		q := New(Config{Name: "q", ID: 1, Durable: true, Journal: quietJournal{}, Pump: newPump(t)})
		s := newSwallow(t, q, false)
		m := persistent("m", 0)
		m.Track(nil, 0)
		return func() { q.Publish(m); s.settle(q) }
	}},
}

// quietJournal keeps nothing.
type quietJournal struct{}

func (quietJournal) Append(uint64, *persist.Record, persist.Meta)                   {}
func (quietJournal) Settle(...uint64)                                               {}
func (quietJournal) SaveReturns(...persist.Returns)                                 {}
func (quietJournal) AppendIn(*persist.Group, uint64, *persist.Record, persist.Meta) {}
func (quietJournal) SettleIn(*persist.Group, ...uint64)                             {}

func TestHotPathsDoNotAllocate(t *testing.T) {
	for _, s := range hotSteps {
		t.Run(s.name, func(t *testing.T) {
			run := s.make(t)
			if n := testing.AllocsPerRun(200, run); n != 0 {
				t.Errorf("%v allocations a run", n)
			}
		})
	}
}

func BenchmarkQueue(b *testing.B) {
	for _, s := range hotSteps {
		b.Run(s.name, func(b *testing.B) {
			run := s.make(b)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}

// A message costs no allocation of its own: blocks are shared by many.
func TestArenaIsAmortised(t *testing.T) {
	var a Arena
	body := []byte("a body of thirty bytes, about.")
	perMessage := testing.AllocsPerRun(10, func() {
		for range 1000 {
			m := a.NewMessage(len(body))
			m.Content, m.RoutingKey = a.Copy(body), a.String(body[:6])
		}
	}) / 1000
	if perMessage > 0.05 {
		t.Errorf("%v allocations a message", perMessage)
	}
}

// What the arena gives out does not overlap, has no spare capacity that an
// append could write into, and does not pin large things.
func TestArenaMemory(t *testing.T) {
	var a Arena
	var given [][]byte
	for n := range 3 * arenaLargest / 8 {
		size := n * 8 % (arenaLargest + 64)
		b := a.Bytes(size)
		if len(b) != size || cap(b) != size {
			t.Fatalf("%d bytes: length %d, capacity %d", size, len(b), cap(b))
		}
		for i := range b {
			b[i] = byte(n)
		}
		given = append(given, b)
	}
	for n, b := range given {
		for _, c := range b {
			if c != byte(n) {
				t.Fatalf("piece %d was overwritten", n)
			}
		}
	}
	seen := map[*Message]bool{}
	for range 3 * arenaMessages {
		m := a.NewMessage(10)
		if seen[m] || m.Content != nil {
			t.Fatal("a message was handed out twice")
		}
		m.Content = given[1]
		seen[m] = true
	}
	left := len(a.messages)
	a.NewMessage(arenaLargest + 1)
	if len(a.messages) != left {
		t.Fatal("a large message came from a block")
	}
	if a.Trim(); a.bytes != nil || a.messages != nil {
		t.Fatal("Trim keeps blocks")
	}
	if s := a.String([]byte("key")); s != "key" || a.String(nil) != "" || a.Bytes(0) != nil {
		t.Fatalf("string %q", s)
	}
}
