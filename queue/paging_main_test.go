package queue

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/warrenmq/warren/persist"
)

// newPager makes a pager of a few bytes or more that ends with the test.
func newPager(t testing.TB, budget int64, clock *Clock) *Pager {
	t.Helper()
	pages, err := persist.NewTransient(filepath.Join(t.TempDir(), "pages"))
	if err != nil {
		t.Fatal(err)
	}
	g := NewPager(budget, pages, clock, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		g.Close()
		if err := pages.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// newClock makes a clock that ends with the test.
func newClock(t testing.TB) *Clock {
	c := NewClock()
	t.Cleanup(c.Stop)
	return c
}

// calm waits until nothing is delivered, buried, read or paged out.
func calm(queues ...*Queue) {
	busy := func(q *Queue) bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.pumping || q.burying || q.paging != nil && q.paging.loading {
			return true
		}
		if q.Pager == nil {
			return false
		}
		q.Pager.mu.Lock()
		defer q.Pager.mu.Unlock()
		return q.Pager.passing
	}
	for slices.ContainsFunc(queues, busy) {
		runtime.Gosched()
	}
}

// getNow is Get that waits for what is on disk, as a channel does.
func getNow(q *Queue, noAck bool) (e Entry, left int, ok bool, err error) {
	for {
		e, left, ok, err = q.Get(noAck)
		if !errors.Is(err, ErrLoading) {
			return e, left, ok, err
		}
		ready := make(chan struct{})
		q.Await(func() { close(ready) })
		<-ready
	}
}

// onDisk is how many pages a queue has on disk.
func onDisk(q *Queue) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.paging.onDisk
}

// bookJournal is a journal that can be read: it keeps what it was given until
// it is settled.
type bookJournal struct {
	mu   sync.Mutex
	held map[uint64]*persist.StoredMessage
	// messages are those that may be appended.
	messages map[*persist.Record]*Message
	unread   map[uint64]bool // reading one of these fails
}

func newBookJournal() *bookJournal {
	return &bookJournal{held: map[uint64]*persist.StoredMessage{}, messages: map[*persist.Record]*Message{}, unread: map[uint64]bool{}}
}

// track is Message.Track for a message that goes to this journal.
func (j *bookJournal) track(m *Message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.messages[m.Track(nil, 0)] = m
}

func (j *bookJournal) Append(seq uint64, r *persist.Record, meta persist.Meta) {
	j.mu.Lock()
	defer j.mu.Unlock()
	m := j.messages[r]
	if j.held[seq] != nil || m == nil {
		panic(fmt.Sprintf("message %d appended twice, or not tracked", seq))
	}
	j.held[seq] = &persist.StoredMessage{Seq: seq, Meta: meta, Head: m.AppendHead(nil), Body: slices.Clone(m.Content)}
}

func (j *bookJournal) Settle(seqs ...uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, seq := range seqs {
		if j.held[seq] == nil {
			panic(fmt.Sprintf("message %d settled, but it is not held", seq))
		}
		delete(j.held, seq)
	}
}

func (j *bookJournal) AppendIn(_ *persist.Group, seq uint64, r *persist.Record, m persist.Meta) {
	j.Append(seq, r, m)
}

func (j *bookJournal) SettleIn(_ *persist.Group, seqs ...uint64) { j.Settle(seqs...) }

// SaveReturns keeps what Read says of a message.
func (j *bookJournal) SaveReturns(all ...persist.Returns) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range all {
		m := j.held[r.Seq]
		if m == nil {
			panic(fmt.Sprintf("message %d came back, but it is not held", r.Seq))
		}
		with := *m // the one that Read gave out stays as it was
		with.Returns = r
		j.held[r.Seq] = &with
	}
}

// returns are those that were kept of the messages that are held.
func (j *bookJournal) returns() map[uint64]persist.Returns {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := map[uint64]persist.Returns{}
	for seq, m := range j.held {
		if m.Returns != (persist.Returns{}) {
			all[seq] = m.Returns
		}
	}
	return all
}

// Read implements pageSource.
func (j *bookJournal) Read(seqs []uint64, fn func(*persist.StoredMessage) error) error {
	if !slices.IsSorted(seqs) {
		panic("messages are asked for out of order")
	}
	for _, seq := range seqs {
		j.mu.Lock()
		m, fails := j.held[seq], j.unread[seq]
		j.mu.Unlock()
		if m == nil || fails {
			return fmt.Errorf("message %d cannot be read", seq)
		}
		if err := fn(m); err != nil {
			return err
		}
	}
	return nil
}

// seqs are those that are held.
func (j *bookJournal) seqs() []uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Sorted(maps.Keys(j.held))
}
