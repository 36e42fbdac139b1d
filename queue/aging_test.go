package queue

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// agingStep is the grid of the model's time. Real time passes besides, but
// less than a step in all, and it only makes messages older.
const agingStep = 7 * time.Minute

// agedMessage is a message in the model of a queue with aging.
type agedMessage struct {
	id       string
	priority int
	born     int // steps
	seq      int
	entry    Entry
}

// agingModel is a queue with aging and a slice.
type agingModel struct {
	q       *Queue
	clock   *Clock
	highest int
	now     int // steps
	seq     int
	ready   []agedMessage
	held    []agedMessage
}

// period is one level in steps.
const period = 3

// next is the place in ready of the message that is due.
func (m *agingModel) next() int {
	best := 0
	for i := range m.ready {
		if m.compare(m.ready[i], m.ready[best]) < 0 {
			best = i
		}
	}
	return best
}

func (m *agingModel) compare(a, b agedMessage) int {
	rank := func(e agedMessage) int { return min(m.highest, e.priority+(m.now-e.born)/period) }
	return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a.seq, b.seq))
}

func (m *agingModel) publish(t *rapid.T) {
	e := agedMessage{id: fmt.Sprint(m.seq), priority: rapid.IntRange(0, m.highest).Draw(t, "priority"), born: m.now, seq: m.seq}
	m.seq++
	msg := text(e.id)
	msg.Priority = uint8(e.priority)
	if m.q.Publish(msg) != Taken {
		t.Fatal("refused")
	}
	m.ready = append(m.ready, e)
}

func (m *agingModel) advance(t *rapid.T) {
	n := rapid.IntRange(1, 2*period).Draw(t, "steps")
	m.now += n
	m.clock.Advance(time.Duration(n) * agingStep)
}

func (m *agingModel) get(t *rapid.T) {
	e, left, ok, err := m.q.Get(false)
	if err != nil || ok != (len(m.ready) > 0) {
		t.Fatalf("get: %v, %v; %d wait", ok, err, len(m.ready))
	}
	if !ok {
		return
	}
	i := m.next()
	want := m.ready[i]
	m.ready = slices.Delete(m.ready, i, i+1)
	if got := string(e.Message.Content); got != want.id || left != len(m.ready) {
		t.Fatalf("at %d: got %s, want %+v; %+v are left", m.now, got, want, m.ready)
	}
	want.entry = e
	m.held = append(m.held, want)
}

func (m *agingModel) requeue(t *rapid.T) {
	if len(m.held) == 0 {
		t.Skip()
	}
	i := rapid.IntRange(0, len(m.held)-1).Draw(t, "which")
	m.q.Requeue([]Entry{m.held[i].entry})
	m.ready = append(m.ready, m.held[i])
	m.held = slices.Delete(m.held, i, i+1)
}

func (m *agingModel) ack(t *rapid.T) {
	if len(m.held) == 0 {
		t.Skip()
	}
	m.q.Settle([]Entry{m.held[0].entry})
	m.held = m.held[1:]
}

// consume has a consumer take some: it must get them in the model's order.
func (m *agingModel) consume(t *rapid.T) {
	c := newClient(m.q, "c", rapid.IntRange(1, 5).Draw(t, "credit"))
	if err := m.q.AddConsumer(&c.Consumer); err != nil {
		t.Fatal(err)
	}
	m.q.Resume(&c.Consumer)
	quiet(m.q)
	m.q.RemoveConsumer(&c.Consumer)
	for _, e := range c.take() {
		i := m.next()
		if string(e.Message.Content) != m.ready[i].id {
			t.Fatalf("delivered %s, want %+v", e.Message.Content, m.ready[i])
		}
		m.ready = slices.Delete(m.ready, i, i+1)
		m.q.Settle([]Entry{e})
	}
}

// check compares the figures of each priority.
func (m *agingModel) check(t *rapid.T) {
	ready := make([]int, m.highest+1)
	for _, e := range m.ready {
		ready[e.priority]++
	}
	for i, n := range m.q.LevelCounts() {
		if n.Ready != ready[i] || n.Priority != i {
			t.Fatalf("level %d: %+v, want %d ready", i, n, ready[i])
		}
	}
}

// TestAgingFollowsModel: whatever comes, goes and comes back, the next message
// is the one that has risen highest, of equals the oldest.
func TestAgingFollowsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &agingModel{clock: NewClock(), highest: rapid.SampledFrom([]int{1, 3, 9}).Draw(t, "highest")}
		defer m.clock.Stop()
		pump := NewPump()
		defer pump.Close()
		m.q = New(Config{
			Name: "q", ID: 1, MaxPriority: m.highest, Pump: pump, Clock: m.clock,
			Aging: period * agingStep.Milliseconds(),
		})
		t.Repeat(map[string]func(*rapid.T){
			"publish": m.publish, "publish more": m.publish, "advance": m.advance, "get": m.get,
			"requeue": m.requeue, "ack": m.ack, "consume": m.consume, "": m.check,
		})
	})
}

// With aging the first message of every priority may be next, so each expires
// at its time, also one that nobody asks for.
func TestAgingExpiry(t *testing.T) {
	clock := NewClock()
	defer clock.Stop()
	var dead []string
	buried := make(chan struct{})
	rules := NoRules()
	rules.DeadLetters = true
	q := New(Config{
		Name: "q", ID: 1, MaxPriority: 5, Pump: newPump(t), Clock: clock, Aging: time.Minute.Milliseconds(), Rules: &rules,
		Bury: func(_ *Queue, all []Dead) {
			for _, d := range all {
				dead = append(dead, string(d.Message.Content)+" "+d.Reason.String())
			}
			close(buried)
		},
	})
	high, low := text("high"), text("low")
	high.Priority = 5
	low.Expiration = time.Hour.Milliseconds()
	q.Publish(high)
	q.Publish(low)
	clock.Advance(time.Hour + time.Second)
	<-buried
	if n := q.Counts(); n.Ready != 1 || !slices.Equal(dead, []string{"low expired"}) {
		t.Fatalf("%d wait, dead are %v", n.Ready, dead)
	}
}

// TestBirths: the moment that is remembered is not after the true one, and
// not much before it; memory is bounded.
func TestBirths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		levels := rapid.IntRange(2, 20).Draw(t, "levels")
		horizon := int64(rapid.SampledFrom([]int{0, 1000, 100_000}).Draw(t, "horizon"))
		b := newBirths(levels, horizon, 0)
		truth := []int64{0}
		now, oldest := int64(0), uint64(1)
		for range rapid.IntRange(1, 20).Draw(t, "bursts") {
			gap := int64(rapid.IntRange(0, 50).Draw(t, "gap"))
			for range rapid.IntRange(1, 500).Draw(t, "messages") {
				now += gap
				truth = append(truth, now)
				b.note(uint64(len(truth)-1), now, func() uint64 { return oldest })
			}
			oldest += uint64(rapid.IntRange(0, len(truth)-int(oldest)).Draw(t, "gone"))
			if len(b.runs) > b.most {
				t.Fatalf("%d marks, at most %d", len(b.runs), b.most)
			}
		}
		// A granule is doubled while more than half of the marks are needed, so it
		// is at most four times the part that a mark has of the whole.
		if b.granule > max(1, 4*now/int64(b.most)) {
			t.Fatalf("granule of %d ms after %d ms", b.granule, now)
		}
		for seq := oldest; seq < uint64(len(truth)); seq++ {
			at, age := b.at(seq), now-truth[seq]
			if horizon > 0 && age >= horizon {
				if now-at < horizon {
					t.Fatalf("message %d of %d ms counts as %d ms old", seq, age, now-at)
				}
				continue
			}
			if at > truth[seq] || at <= truth[seq]-2*b.granule {
				t.Fatalf("message %d came at %d, remembered is %d (granule %d)", seq, truth[seq], at, b.granule)
			}
		}
	})
}

// Messages that a restart found are as old as the restart.
func TestAgingStartsAnew(t *testing.T) {
	clock := NewClock()
	defer clock.Stop()
	q := New(Config{Name: "q", ID: 1, MaxPriority: 5, Pump: newPump(t), Clock: clock, Aging: time.Minute.Milliseconds()})
	q.ready.push(Entry{Message: text("recovered"), Seq: 1})
	q.nextSeq = 2
	clock.Advance(2 * time.Minute)
	three := text("three")
	three.Priority = 3
	q.Publish(three)
	if e, _, _, _ := q.Get(true); string(e.Message.Content) != "three" {
		t.Fatalf("got %s first", e.Message.Content)
	}
	q.Publish(three)
	clock.Advance(time.Minute)
	if e, _, _, _ := q.Get(true); string(e.Message.Content) != "three" {
		t.Fatalf("got %s first", e.Message.Content)
	}
	q.Publish(three)
	if e, _, _, _ := q.Get(true); string(e.Message.Content) != "recovered" {
		t.Fatalf("got %s first", e.Message.Content)
	}
}
