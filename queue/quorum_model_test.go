package queue

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warrenmq/warren/persist"
)

// The model of a quorum queue: what came back is one list, what never did, or
// had to go behind, is another.

// modelQuorumEntry is a message in the model.
type modelQuorumEntry struct {
	id                string
	seq               uint64
	priority          int
	returns, failures uint32
	entry             Entry // what the queue handed out, to give back
}

func (e modelQuorumEntry) line() string {
	return fmt.Sprint(e.id, " seq ", e.seq, " priority ", e.priority, " returns ", e.returns, " failures ", e.failures)
}

// quorumMachine is a quorum queue and its model.
type quorumMachine struct {
	q       *Queue
	journal *bookJournal
	limit   int64

	first, rest []modelQuorumEntry // rest by priority, then in the order they came
	held        []modelQuorumEntry
	nextSeq     uint64
}

func TestQuorumFollowsModel(t *testing.T) {
	pagers := []*Pager{nil, newPager(t, 1, newClock(t))}
	rapid.Check(t, func(t *rapid.T) {
		m := &quorumMachine{nextSeq: 1, journal: newBookJournal()}
		m.limit = int64(rapid.IntRange(-1, 3).Draw(t, "delivery limit"))
		rules := NoRules()
		rules.DeliveryLimit = m.limit
		quorum := Quorum{EveryReturnFails: true, UnlimitedGoLast: true}
		priorities := 0
		if rapid.Bool().Draw(t, "as 4.3") {
			quorum, priorities = Quorum{DefaultPriority: 4}, 31
		}
		pump := NewPump()
		defer pump.Close()
		m.q = New(Config{
			Name: "q", ID: 1, Durable: true, Journal: m.journal, Pump: pump, Rules: &rules, Quorum: &quorum, MaxPriority: priorities,
			Pager: rapid.SampledFrom(pagers).Draw(t, "pager"),
		})
		t.Repeat(map[string]func(*rapid.T){
			"publish": m.publish, "get": m.get, "settle": m.settle, "return": m.giveBack, "purge": m.purge, "": m.check,
		})
	})
}

func (m *quorumMachine) publish(t *rapid.T) {
	e := modelQuorumEntry{id: fmt.Sprint("m", m.nextSeq), seq: m.nextSeq}
	m.nextSeq++
	msg := text(e.id)
	if n := rapid.SampledFrom([]int{-1, -1, 0, 1, 4, 5, 31, 32, 255}).Draw(t, "priority"); n >= 0 {
		msg.Priority, msg.Properties = uint8(n), []byte{0x08, 0, byte(n)}
		e.priority = min(n, m.q.MaxPriority)
	} else if m.q.MaxPriority > 0 {
		e.priority = int(m.q.Quorum.DefaultPriority)
	}
	m.journal.track(msg) // transient, and kept all the same
	m.q.Publish(msg)
	m.wait(e)
}

// wait puts an entry behind those of its priority.
func (m *quorumMachine) wait(e modelQuorumEntry) {
	i := len(m.rest)
	for i > 0 && m.rest[i-1].priority < e.priority {
		i--
	}
	m.rest = slices.Insert(m.rest, i, e)
}

func (m *quorumMachine) get(t *rapid.T) {
	e, left, ok, _ := getNow(m.q, false)
	var want modelQuorumEntry
	switch {
	case len(m.first) > 0:
		want, m.first = m.first[0], m.first[1:]
	case len(m.rest) > 0:
		want, m.rest = m.rest[0], m.rest[1:]
	default:
		if ok {
			t.Fatalf("got %s of an empty queue", e.Message.Content)
		}
		return
	}
	got := modelQuorumEntry{id: string(e.Message.Content), seq: e.Seq, priority: int(e.Priority), returns: e.Deliveries, failures: e.Failures}
	if got.line() != want.line() || left != len(m.first)+len(m.rest) || e.Redelivered != (want.returns > 0) {
		t.Fatalf("got %s, %d left; want %s, %d", got.line(), left, want.line(), len(m.first)+len(m.rest))
	}
	want.entry = e
	m.held = append(m.held, want)
}

// some draws held entries, in any order.
func (m *quorumMachine) some(t *rapid.T) (chosen []modelQuorumEntry, all []Entry) {
	if len(m.held) == 0 {
		t.Skip()
	}
	shuffled := rapid.Permutation(m.held).Draw(t, "order")
	n := rapid.IntRange(1, len(shuffled)).Draw(t, "how many")
	m.held = shuffled[n:]
	for _, e := range shuffled[:n] {
		all = append(all, e.entry)
	}
	return shuffled[:n], all
}

func (m *quorumMachine) settle(t *rapid.T) {
	_, all := m.some(t)
	if rapid.Bool().Draw(t, "reject") {
		m.q.Reject(all)
		return
	}
	m.q.Settle(all)
}

func (m *quorumMachine) giveBack(t *rapid.T) {
	why := rapid.SampledFrom([]Return{HandedBack, Failed, Lost, TimedOut}).Draw(t, "why")
	chosen, all := m.some(t)
	m.q.Return(all, why)
	for _, e := range chosen {
		e.returns++
		if m.q.Quorum.EveryReturnFails || why == Failed || why == Lost {
			e.failures++
			if m.limit >= 0 && int64(e.failures) > m.limit {
				continue
			}
		}
		if m.q.Quorum.UnlimitedGoLast && m.limit < 0 && why != Lost {
			m.wait(e)
		} else {
			m.first = append(m.first, e)
		}
	}
}

func (m *quorumMachine) purge(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
		t.Skip()
	}
	if n, _ := m.q.Purge(); n != len(m.first)+len(m.rest) {
		t.Fatalf("purged %d, want %d", n, len(m.first)+len(m.rest))
	}
	m.first, m.rest = nil, nil
}

// check compares what waits and what the journal knows.
func (m *quorumMachine) check(t *rapid.T) {
	calm(m.q)
	n := m.q.Counts()
	if n.Ready != len(m.first)+len(m.rest) || n.Unacked != len(m.held) {
		t.Fatalf("%d ready, %d unacked; want %d, %d", n.Ready, n.Unacked, len(m.first)+len(m.rest), len(m.held))
	}
	held, returns := map[uint64]bool{}, map[uint64]persist.Returns{}
	for _, e := range slices.Concat(m.first, m.rest, m.held) {
		held[e.seq] = true
		if e.returns > 0 {
			returns[e.seq] = persist.Returns{Seq: e.seq, Total: e.returns, Failed: e.failures}
		}
	}
	if got := m.journal.seqs(); !slices.Equal(got, slices.Sorted(maps.Keys(held))) {
		t.Fatalf("the journal holds %v, want %v", got, held)
	}
	if diff := gocmp.Diff(returns, m.journal.returns()); diff != "" {
		t.Fatalf("returns (-model +journal):\n%s", diff)
	}
}
