package amqp

import (
	"testing"

	"pgregory.net/rapid"
)

// confirmModel is what a client knows of its publishes.
type confirmModel struct {
	t       *rapid.T
	outcome map[uint64]confirmState // unresolved until it is known
	halves  map[uint64]bool         // guarded: true when half of it is there
	told    map[uint64]bool
	lowest  uint64 // all below were told
}

// send checks one basic.ack or basic.nack.
func (m *confirmModel) send(seq uint64, multiple, nack bool) {
	want := confirmed
	if nack {
		want = refused
	}
	first := seq
	if multiple {
		first = m.lowest
	}
	n := 0
	for s := first; s <= seq; s++ {
		if m.told[s] {
			if !multiple {
				m.t.Fatalf("publish %d was told twice", s)
			}
			continue
		}
		if m.outcome[s] != want {
			m.t.Fatalf("publish %d is %d, told as %d by (%d, multiple %v)", s, m.outcome[s], want, seq, multiple)
		}
		m.told[s] = true
		n++
	}
	if n == 0 {
		m.t.Fatalf("(%d, multiple %v) tells nothing", seq, multiple)
	}
	for m.told[m.lowest] {
		m.lowest++
	}
}

// settle checks that everything that can be told was told.
func (m *confirmModel) settle(c *confirms) {
	for seq, o := range m.outcome {
		known := o == confirmed || o == refused
		if known != m.told[seq] && o != told {
			m.t.Fatalf("publish %d is %d, told: %v", seq, o, m.told[seq])
		}
	}
	if c.early != 0 {
		m.t.Fatalf("%d confirms count as not sent", c.early)
	}
}

// TestConfirmsModel: whatever the order in which publishes are resolved, each
// is told exactly once with the right kind, and multiple covers only what is
// resolved the same way.
func TestConfirmsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := confirms{next: 1, base: 1}
		m := &confirmModel{t: t, outcome: map[uint64]confirmState{}, halves: map[uint64]bool{}, told: map[uint64]bool{}, lowest: 1}
		pending := []uint64{}
		resolve := func(i int, s confirmState) {
			seq := pending[i]
			if s == confirmed && c.pass(seq) {
				if _, isGuarded := m.halves[seq]; !isGuarded || m.halves[seq] {
					t.Fatalf("publish %d passed a guard it does not have", seq)
				}
				m.halves[seq] = true
				return
			}
			if half, isGuarded := m.halves[seq]; isGuarded && !half && s == confirmed {
				t.Fatalf("guarded publish %d was confirmed at once", seq)
			}
			c.resolve(seq, s)
			m.outcome[seq] = s
			pending = append(pending[:i], pending[i+1:]...)
		}
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				for range rapid.IntRange(1, 50).Draw(t, "n") {
					seq := c.issue()
					if want := uint64(len(m.outcome) + 1); seq != want {
						t.Fatalf("publish got number %d, want %d", seq, want)
					}
					m.outcome[seq] = unresolved
					pending = append(pending, seq)
					if rapid.IntRange(0, 4).Draw(t, "guard") == 0 {
						c.guard(seq)
						m.halves[seq] = false
					}
				}
			},
			"resolve": func(t *rapid.T) {
				for range min(len(pending), rapid.IntRange(1, 20).Draw(t, "n")) {
					i := rapid.IntRange(0, len(pending)-1).Draw(t, "i")
					resolve(i, rapid.SampledFrom([]confirmState{confirmed, confirmed, confirmed, refused, told}).Draw(t, "outcome"))
				}
			},
			"resolve the oldest": func(t *rapid.T) {
				for range min(len(pending), 30) {
					resolve(0, confirmed)
					if len(pending) == 0 {
						break
					}
				}
			},
			"resolve again": func(t *rapid.T) {
				seq := rapid.Uint64Range(0, c.next+3).Draw(t, "seq")
				if o, known := m.outcome[seq]; !known || o != unresolved {
					c.resolve(seq, refused) // has no effect
				}
			},
			"flush": func(t *rapid.T) {
				c.flush(m.send)
				m.settle(&c)
			},
		})
		for len(pending) > 0 {
			resolve(len(pending)-1, confirmed)
		}
		c.flush(m.send)
		m.settle(&c)
		if c.base != c.next {
			t.Fatalf("all is resolved, but the tracker holds %d to %d", c.base, c.next)
		}
	})
}

// TestConfirmsOfManyAreFew: publishes resolved in order are told by one frame.
func TestConfirmsOfManyAreFew(t *testing.T) {
	c := confirms{next: 1, base: 1}
	for range 10_000 {
		c.resolve(c.issue(), confirmed)
	}
	frames := 0
	c.flush(func(seq uint64, multiple, nack bool) {
		frames++
		if seq != 10_000 || !multiple || nack {
			t.Errorf("told %d, multiple %v, nack %v", seq, multiple, nack)
		}
	})
	if frames != 1 {
		t.Errorf("%d frames for 10,000 publishes", frames)
	}
	if c.states != nil {
		t.Error("an idle channel keeps the memory of its busiest moment")
	}
}

// TestAckBarrier: confirms wait for the acknowledgements before them, and a
// barrier that an older confirm waited for says nothing of younger ones.
func TestAckBarrier(t *testing.T) {
	durable, memory := []unackedItem{{}, {}}, []unackedItem{{}}
	durable[1].entry.Journaled = true
	var b ackBarrier
	wait := func(seq uint64, want bool) {
		t.Helper()
		if got := b.wait(seq); got != want {
			t.Errorf("publish %d waits: %v", seq, got)
		}
	}
	wait(1, false)
	b.settled(memory)
	wait(2, false)
	b.settled(durable)
	wait(3, true)
	wait(4, true)
	b.passed(3)
	wait(5, false)
	b.passed(4)
	wait(6, false)
	b.settled(durable)
	wait(7, true)
	b.settled(durable)
	b.passed(7) // which was before the second acknowledgement
	wait(8, true)
	b.passed(8)
	wait(9, false)
}
