package stream

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestReadersBeginAtTheirPlaces(t *testing.T) {
	both(t, func(t *testing.T, stored bool) {
		f := newFixture(t, stored, Config{Retention: keep})
		f.bodies("a", "b")
		f.publish(message("c"), message("d")) // mostly one chunk
		f.rest()
		for name, c := range map[string]struct {
			from queue.Reading
			want []string
		}{
			"first":  {queue.Reading{From: queue.First}, []string{"a", "b", "c", "d", "e"}},
			"next":   {queue.Reading{From: queue.Next}, []string{"e"}},
			"offset": {queue.Reading{From: queue.AtOffset, Offset: 3}, []string{"d", "e"}},
			"beyond": {queue.Reading{From: queue.AtOffset, Offset: 5}, []string{"f"}},
			"past":   {queue.Reading{From: queue.AtTime, Time: 1}, []string{"a", "b", "c", "d", "e"}},
			"future": {queue.Reading{From: queue.AtTime, Time: 1 << 60}, []string{"e"}},
		} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t, stored, Config{Retention: keep})
				f.bodies("a", "b")
				f.publish(message("c"), message("d"))
				s := f.consume(100, &c.from)
				f.bodies("e", "f")
				want(t, "messages", s.await(len(c.want))[:len(c.want)], c.want)
			})
		}
		s := f.consume(100, &queue.Reading{From: queue.Last})
		f.rest()
		got := s.await(1)
		if fmt.Sprint(got) != "[c d]" && fmt.Sprint(got) != "[d]" {
			t.Errorf("the last chunk is %q", got)
		}
	})
}

func TestTimesAreThoseOfChunks(t *testing.T) {
	both(t, func(t *testing.T, stored bool) {
		f := newFixture(t, stored, Config{Retention: keep})
		var times []int64
		for i := range 30 {
			f.clock.Advance(time.Minute)
			times = append(times, f.clock.NowMillis())
			f.numbered(i, 1)
		}
		if stored {
			f.restart()
		}
		for i, at := range times {
			s := f.consume(1, &queue.Reading{From: queue.AtTime, Time: at})
			want(t, "first message", s.await(1)[0], fmt.Sprint("m", i))
			f.q.RemoveConsumer(&s.Consumer)
		}
	})
}

func TestDeliveriesHaveTheirOffset(t *testing.T) {
	both(t, func(t *testing.T, stored bool) {
		f := newFixture(t, stored, Config{Retention: keep})
		f.publish(message("a", frames.Field{Key: "h", Value: "v"}))
		f.publish(message("b"))
		s := f.consume(10, &queue.Reading{From: queue.First})
		s.await(2)
		for i, e := range s.pending {
			p, err := frames.ParseProperties(e.Message.Properties)
			if err != nil {
				t.Fatal(err)
			}
			headers, _ := p.Headers()
			v, _ := headers.Lookup("x-stream-offset")
			if v.Type != 'l' || binary.BigEndian.Uint64(v.Data) != uint64(i) || e.Seq != uint64(i) || e.Redelivered {
				t.Errorf("delivery %d: header %c %x, entry %+v", i, v.Type, v.Data, e)
			}
			if e.Message.Exchange != "x" || e.Message.RoutingKey != "k" {
				t.Errorf("delivery %d: exchange %q, key %q", i, e.Message.Exchange, e.Message.RoutingKey)
			}
		}
	})
}

func TestCredit(t *testing.T) {
	both(t, func(t *testing.T, stored bool) {
		f := newFixture(t, stored, Config{Retention: keep})
		f.numbered(0, 7)
		s := f.consume(3, &queue.Reading{From: queue.First})
		s.await(3)
		f.rest()
		want(t, "messages", len(s.await(3)), 3)
		want(t, "unacked", f.q.Counts().Unacked, 3)
		s.ack()
		s.await(6)
		f.rest()
		want(t, "messages", len(s.await(6)), 6)
		s.ack()
		s.await(7)
		f.rest()
		n := f.q.Counts()
		want(t, "counts", []int{n.Ready, n.Unacked, int(n.Delivered), int(n.Acked), n.Consumers}, []int{7, 1, 7, 6, 1})
		f.q.RemoveConsumer(&s.Consumer)
		f.q.Requeue(s.pending) // as a channel does that closes
		n = f.q.Counts()
		want(t, "counts", []int{n.Ready, n.Unacked, n.Consumers}, []int{7, 0, 0})
	})
}

// idler counts how often its consumer had read everything.
type idler chan struct{}

func (i idler) Idle(*queue.Consumer) { i <- struct{}{} }

func TestIdleConsumer(t *testing.T) {
	f := newFixture(t, false, Config{Retention: keep})
	f.numbered(0, 2)
	s := &sink{f: f, credit: 100}
	s.changed.L = &s.mu
	idle := make(idler, 100)
	s.Consumer = queue.Consumer{Sink: s, Idler: idle, Reading: &queue.Reading{From: queue.First}}
	if err := f.q.AddConsumer(&s.Consumer); err != nil {
		t.Fatal(err)
	}
	f.q.Resume(&s.Consumer)
	for n := 2; n < 5; n++ {
		s.await(n)
		select {
		case <-idle:
		case <-time.After(patience):
			t.Fatal("nobody was told that everything is read")
		}
		f.numbered(n, 1)
	}
}

func TestRetentionByBytes(t *testing.T) {
	both(t, func(t *testing.T, stored bool) {
		size := persist.StoredSize(1, int64(message("").HeadSize()), 3)
		f := newFixture(t, stored, Config{Retention: Retention{MaxBytes: 25 * size}, SegmentBytes: 10 * size})
		behind := f.consume(1, &queue.Reading{From: queue.First})
		f.numbered(10, 1)
		behind.await(1)
		f.numbered(11, 1)
		f.rest() // the consumer without credit stands at m11
		f.numbered(12, 39)
		first, next := f.log.Offsets()
		// Whole segments of ten: 20 to 29, 30 to 39, and the one that 40 began.
		want(t, "offsets", []uint64{first, next}, []uint64{20, 41})
		if n := f.q.Counts(); n.Ready != 21 || n.ReadyBytes != 21*size {
			t.Errorf("%d messages of %d bytes, want 21 of %d", n.Ready, n.ReadyBytes, 21*size)
		}
		lost := f.consume(100, &queue.Reading{From: queue.AtOffset, Offset: 3})
		want(t, "oldest", lost.await(21)[0], "m30")
		behind.ack()
		want(t, "one that was in the consumer's chunk", behind.await(2)[1], "m11")
		f.rest()
		behind.ack()
		want(t, "after the gap", behind.await(3)[2], "m30")
		if stored {
			f.restart()
			first, next := f.log.Offsets()
			want(t, "offsets after a restart", []uint64{first, next}, []uint64{20, 41})
			f.numbered(51, 20)
			first, next = f.log.Offsets()
			want(t, "offsets", []uint64{first, next}, []uint64{40, 61})
		}
	})
}

func TestRetentionByAge(t *testing.T) {
	both(t, func(t *testing.T, stored bool) {
		size := persist.StoredSize(1, int64(message("").HeadSize()), 2)
		f := newFixture(t, stored, Config{Retention: Retention{MaxBytes: -1, MaxAge: time.Hour.Milliseconds()}, SegmentBytes: 2 * size})
		f.numbered(0, 2)
		f.clock.Advance(40 * time.Minute)
		f.numbered(2, 3)
		first, _ := f.log.Offsets()
		want(t, "oldest while young", first, uint64(0))
		f.clock.Advance(30 * time.Minute) // by timer: nothing is published
		first, _ = f.log.Offsets()
		want(t, "oldest after an hour", first, uint64(2))
		f.clock.Advance(10 * time.Hour)
		first, next := f.log.Offsets()
		want(t, "the newest segment stays", []uint64{first, next}, []uint64{4, 5})
		f.log.Configure(Config{Retention: keep, SegmentBytes: 2 * size})
		f.numbered(5, 4)
		f.clock.Advance(10 * time.Hour)
		first, next = f.log.Offsets()
		want(t, "without retention", []uint64{first, next}, []uint64{4, 9})
	})
}

func TestFilters(t *testing.T) {
	both(t, func(t *testing.T, stored bool) {
		f := newFixture(t, stored, Config{Retention: keep})
		for i := range 300 {
			m := message(fmt.Sprint("m", i), frames.Field{Key: "x-stream-filter-value", Value: fmt.Sprint(i % 3)})
			if i%3 == 2 {
				m = message(fmt.Sprint("m", i))
			}
			f.publish(m)
		}
		if stored {
			f.restart()
		}
		for name, c := range map[string]struct {
			r    queue.Reading
			want map[int]bool
		}{
			"one":        {queue.Reading{From: queue.First, Filter: []string{"1"}}, map[int]bool{1: true}},
			"two":        {queue.Reading{From: queue.First, Filter: []string{"1", "0"}}, map[int]bool{0: true, 1: true}},
			"unfiltered": {queue.Reading{From: queue.First, Filter: []string{"1"}, Unfiltered: true}, map[int]bool{1: true, 2: true}},
			"all":        {queue.Reading{From: queue.First}, map[int]bool{0: true, 1: true, 2: true}},
		} {
			s := f.consume(1000, &c.r)
			f.rest()
			var expected []string
			for i := range 300 {
				if c.want[i%3] {
					expected = append(expected, fmt.Sprint("m", i))
				}
			}
			want(t, name, s.await(len(expected)), expected)
		}
	})
}

func TestDeletedStream(t *testing.T) {
	both(t, func(t *testing.T, stored bool) {
		f := newFixture(t, stored, Config{Retention: keep})
		f.numbered(0, 3)
		s := f.consume(1, &queue.Reading{From: queue.First})
		s.await(1)
		n, err := f.q.Delete(true, true)
		if n != 0 || err != nil {
			t.Errorf("delete: %d, %v", n, err)
		}
		if !s.gone {
			t.Error("the consumer was not told")
		}
		s.ack()
		if got := f.q.Publish(message("late")); got != queue.Gone {
			t.Errorf("publish to a deleted stream: %d", got)
		}
		f.rest()
		want(t, "messages", len(s.got), 1)
	})
}

func TestTransaction(t *testing.T) {
	both(t, func(t *testing.T, stored bool) {
		f := newFixture(t, stored, Config{Retention: keep})
		m := message("before") // not waited for: it goes before the transaction
		f.q.Publish(m)
		other := queue.New(queue.Config{Name: "q", ID: 2})
		a, b := message("a"), message("b")
		w := &told{done: make(chan struct{})}
		journaled, err := queue.Commit(queue.Transaction{Whole: true, Enqueues: []queue.Enqueue{
			{Message: a, Queues: []*queue.Queue{f.q, other}}, {Message: b, Queues: []*queue.Queue{f.q}},
		}}, f.store, w, 0)
		if err != nil || journaled != stored {
			t.Fatalf("journaled %v, error %v", journaled, err)
		}
		if journaled {
			<-w.done
		}
		_, next := f.log.Offsets()
		want(t, "messages that count once the commit is told", next, uint64(3))
		want(t, "messages in the queue", other.Counts().Ready, 1)
		s := f.consume(10, &queue.Reading{From: queue.First})
		want(t, "messages", s.await(3), []string{"before", "a", "b"})
		if _, err := queue.Commit(queue.Transaction{Settlements: []queue.Settlement{
			{Queue: f.q, Entries: s.pending[:1], Fate: queue.Requeue}, {Queue: f.q, Entries: s.pending[1:], Fate: queue.Refuse},
		}}, f.store, nil, 0); err != nil {
			t.Fatal(err)
		}
		f.rest()
		n := f.q.Counts()
		want(t, "counts", []int{n.Ready, n.Unacked}, []int{3, 0})
	})
}

func TestLargeMessages(t *testing.T) {
	f := newFixture(t, true, Config{Retention: keep})
	large := make([]byte, 9<<20)
	for i := range large {
		large[i] = byte(i * i >> 7)
	}
	f.publish(message("a"), message(string(large)), message("b"))
	f.restart()
	s := f.consume(10, &queue.Reading{From: queue.First})
	if got := s.await(3); got[0] != "a" || got[1] != string(large) || got[2] != "b" {
		t.Error("the messages changed")
	}
}

func TestUnreadableChunkCancelsItsConsumer(t *testing.T) {
	f := newFixture(t, true, Config{Retention: keep})
	f.numbered(0, 3)
	f.restart() // an empty cache
	other := f.host.Open(Config{ID: 9, Stored: true, Retention: keep})
	other.committed, other.segments.list = 5, []segment{{first: 0}} // chunks that are not there
	q := queue.New(queue.Config{Name: "other", ID: 9, Stream: other})
	s := &sink{f: f, credit: 1}
	s.changed.L = &s.mu
	s.Consumer = queue.Consumer{Sink: s, Reading: &queue.Reading{From: queue.AtOffset, Offset: 2}}
	if err := q.AddConsumer(&s.Consumer); err != nil {
		t.Fatal(err)
	}
	q.Resume(&s.Consumer)
	s.mu.Lock()
	defer s.mu.Unlock()
	for end := time.Now().Add(patience); !s.gone && time.Now().Before(end); {
		s.changed.Wait()
	}
	if !s.gone {
		t.Error("the consumer was not told")
	}
}
