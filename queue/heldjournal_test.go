package queue

import (
	"fmt"
	"sync"

	"github.com/warrenmq/warren/persist"
)

// heldJournal is a Journal that only knows what it holds.
type heldJournal struct{ held map[uint64]bool }

func (j *heldJournal) Append(seq uint64, _ *persist.Record, _ persist.Meta) {
	if j.held[seq] {
		panic(fmt.Sprintf("message %d appended twice", seq))
	}
	j.held[seq] = true
}

func (j *heldJournal) Settle(seqs ...uint64) {
	for _, seq := range seqs {
		if !j.held[seq] {
			panic(fmt.Sprintf("message %d settled, but it is not held", seq))
		}
		delete(j.held, seq)
	}
}

func (j *heldJournal) AppendIn(_ *persist.Group, seq uint64, r *persist.Record, m persist.Meta) {
	j.Append(seq, r, m)
}

func (j *heldJournal) SettleIn(_ *persist.Group, seqs ...uint64) { j.Settle(seqs...) }

// SaveReturns checks that the journal knows the messages.
func (j *heldJournal) SaveReturns(all ...persist.Returns) {
	for _, r := range all {
		if !j.held[r.Seq] {
			panic(fmt.Sprintf("returns of message %d, which is not held", r.Seq))
		}
	}
}

// lockedJournal is a heldJournal for several goroutines.
type lockedJournal struct {
	mu   sync.Mutex
	held map[uint64]bool
}

func (j *lockedJournal) locked(do func(*heldJournal)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	do(&heldJournal{j.held})
}

func (j *lockedJournal) Append(seq uint64, r *persist.Record, m persist.Meta) {
	j.locked(func(h *heldJournal) { h.Append(seq, r, m) })
}

func (j *lockedJournal) Settle(seqs ...uint64) {
	j.locked(func(h *heldJournal) { h.Settle(seqs...) })
}

func (j *lockedJournal) AppendIn(g *persist.Group, seq uint64, r *persist.Record, m persist.Meta) {
	j.locked(func(h *heldJournal) { h.AppendIn(g, seq, r, m) })
}

func (j *lockedJournal) SettleIn(g *persist.Group, seqs ...uint64) {
	j.locked(func(h *heldJournal) { h.SettleIn(g, seqs...) })
}

func (j *lockedJournal) SaveReturns(all ...persist.Returns) {
	j.locked(func(h *heldJournal) { h.SaveReturns(all...) })
}
