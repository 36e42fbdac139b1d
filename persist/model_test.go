package persist

import (
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// modelLog is what a log must hold.
type modelLog struct {
	next uint64
	live map[uint64]string // head and body by seq
}

// model is a store beside the plain maps it must agree with.
type model struct {
	s       *Store
	w       *waiter
	logs    map[uint64]*modelLog
	defs    map[Key]string
	token   uint64
	pending []uint64
	held    []*message // recovered and own messages to append again
}

// TestRandomOperations compares the store with a model over random operations,
// clean stops and crashes.
func TestRandomOperations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "model")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		o := testOptions(dir)
		o.Sync = SyncNever // a killed process, not a power loss
		if rapid.Bool().Draw(t, "lazy") {
			o = lazy(o)
		}
		// The test looks itself.
		o.RewriteInterval = time.Hour
		o.rewrite = rewriteLimits{bodyBytes: 1000, entries: 4, small: 8, run: 2}
		m := &model{w: newWaiter(), logs: make(map[uint64]*modelLog), defs: make(map[Key]string)}
		if m.s, err = Open(o); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if r := recover(); r != nil { // of the store, perhaps under its lock
				t.Logf("%v\n%s", r, debug.Stack())
				if !m.s.mu.TryLock() {
					m.s.mu.Unlock()
					panic(r)
				}
				m.s.mu.Unlock()
				m.s.Close()
				panic(r)
			}
			m.s.Close()
		}()
		t.Repeat(map[string]func(*rapid.T){
			"declare": m.declare,
			"append":  m.append,
			"again":   m.appendAgain,
			"settle":  m.settle,
			"group":   m.group,
			"drop":    m.drop,
			"define":  m.define,
			"barrier": m.barrier,
			"rewrite": m.rewrite,
			"reopen":  m.reopen,
			"crash":   m.crash,
		})
		m.finish(t)
	})
}

func (m *model) pick(t *rapid.T) (*Log, *modelLog) {
	if len(m.logs) == 0 {
		m.declare(t)
	}
	ids := slices.Sorted(maps.Keys(m.logs))
	id := rapid.SampledFrom(ids).Draw(t, "log")
	return m.s.Log(id), m.logs[id]
}

func (m *model) declare(t *rapid.T) {
	id := m.s.NextID()
	if m.logs[id] != nil {
		t.Fatalf("id %d is handed out again", id)
	}
	m.logs[id] = &modelLog{next: 1, live: make(map[uint64]string)}
}

func (m *model) newMessage(t *rapid.T) *message {
	size := rapid.SampledFrom([]int{0, 1, 30, 700, 5000, 300_000, bodyPageBytes + 10}).Draw(t, "size")
	m.token++
	var w Waiter
	if rapid.Bool().Draw(t, "waited for") {
		w = m.w
		m.pending = append(m.pending, m.token)
	}
	return newMessage(w, m.token, fmt.Sprint("head", m.token), strings.Repeat(fmt.Sprint(m.token%10), size))
}

func (m *message) text() string { return string(m.head) + string(m.body) }

// seqFor hands out a seq of a log, sometimes after a gap.
func (l *modelLog) seqFor(t *rapid.T) uint64 {
	seq := l.next + rapid.SampledFrom([]uint64{0, 0, 0, 1, 1 << 33}).Draw(t, "gap")
	l.next = seq + 1
	return seq
}

func (m *model) append(t *rapid.T) {
	msg := m.newMessage(t)
	msg.Hold()
	for range rapid.IntRange(1, 4).Draw(t, "queues") {
		log, ml := m.pick(t)
		seq := ml.seqFor(t)
		log.Append(seq, &msg.Record, Meta{})
		ml.live[seq] = msg.text()
	}
	msg.Release(m.s)
	m.held = append(m.held, msg)
}

func (m *model) appendAgain(t *rapid.T) {
	if len(m.held) == 0 {
		t.Skip("nothing to append again")
	}
	msg := rapid.SampledFrom(m.held).Draw(t, "message")
	log, ml := m.pick(t)
	seq := ml.seqFor(t)
	log.Append(seq, &msg.Record, Meta{})
	ml.live[seq] = msg.text()
}

// draw takes some live messages out of a model log.
func (l *modelLog) draw(t *rapid.T) []uint64 {
	seqs := slices.Sorted(maps.Keys(l.live))
	if len(seqs) == 0 {
		return nil
	}
	if rapid.Bool().Draw(t, "in order") {
		seqs = seqs[:rapid.IntRange(1, len(seqs)).Draw(t, "count")]
	} else {
		seqs = rapid.SliceOfNDistinct(rapid.SampledFrom(seqs), 1, len(seqs), rapid.ID[uint64]).Draw(t, "seqs")
	}
	for _, seq := range seqs {
		delete(l.live, seq)
	}
	return seqs
}

func (m *model) settle(t *rapid.T) {
	log, ml := m.pick(t)
	log.Settle(append(ml.draw(t), ml.next, ml.next+1<<40)...)
}

func (m *model) group(t *rapid.T) {
	var g Group
	for range rapid.IntRange(1, 3).Draw(t, "settles") {
		log, ml := m.pick(t)
		g.Settle(log, ml.draw(t)...)
	}
	for range rapid.IntRange(0, 3).Draw(t, "appends") {
		msg := m.newMessage(t)
		log, ml := m.pick(t)
		seq := ml.seqFor(t)
		g.Append(log, seq, &msg.Record, Meta{})
		ml.live[seq] = msg.text()
	}
	m.token++
	m.pending = append(m.pending, m.token)
	m.s.Submit(&g, m.w, m.token)
}

func (m *model) drop(t *rapid.T) {
	log, _ := m.pick(t)
	delete(m.logs, log.ID())
	m.s.Update(nil, nil, []*Log{log}, nil)
}

func (m *model) define(t *rapid.T) {
	k := Key{Kind: byte(rapid.IntRange(0, 2).Draw(t, "kind")), VHost: rapid.SampledFrom([]string{"", "/", "\x00"}).Draw(t, "vhost"), Name: rapid.SampledFrom([]string{"", "a", "\x00a"}).Draw(t, "name")}
	if _, ok := m.defs[k]; ok && rapid.Bool().Draw(t, "delete") {
		delete(m.defs, k)
		m.s.Update(nil, []Key{k}, nil, nil)
		return
	}
	value := strings.Repeat("v", rapid.SampledFrom([]int{0, 10, 2000}).Draw(t, "size"))
	m.defs[k] = value
	m.s.Update([]Definition{{k, []byte(value)}}, nil, nil, nil)
}

func (m *model) barrier(t *rapid.T) {
	m.token++
	m.s.Barrier(m.w, m.token)
	for _, token := range append(m.pending, m.token) {
		for {
			if err, ok := m.w.has(token); ok && err != nil {
				t.Fatalf("token %d: %v", token, err)
			} else if ok {
				break
			}
			<-m.w.changed
		}
	}
	m.pending = m.pending[:0]
	if n := m.s.Backlog(); n != 0 && m.s.Stats().Dropping == 0 {
		t.Fatalf("backlog %d after a barrier", n)
	}
}

// rewrite looks twice for pages with little on them.
func (m *model) rewrite(t *rapid.T) {
	var r rewriter
	for range 3 {
		r.run(m.s)
	}
}

func (m *model) reopen(t *rapid.T) {
	if err := m.s.Close(); err != nil {
		t.Fatal(err)
	}
	m.open(t, true)
}

func (m *model) crash(t *rapid.T) {
	m.barrier(t)
	err := fmt.Errorf("killed here")
	m.s.fatal.CompareAndSwap(nil, &err)
	m.s.Close()
	m.open(t, false)
}

func (m *model) open(t *rapid.T, clean bool) {
	s, err := Open(m.s.opts)
	if err != nil {
		t.Fatal(err)
	}
	m.s, m.held, m.pending = s, nil, nil
	if s.CleanStart() != clean {
		t.Fatalf("clean start %v", s.CleanStart())
	}
	for _, id := range s.Logs() {
		if m.logs[id] == nil {
			t.Fatalf("log %d came back", id)
		}
	}
	// In order, because what is held must not depend on chance.
	for _, id := range slices.Sorted(maps.Keys(m.logs)) {
		ml := m.logs[id]
		checkWindows(t, s.Log(id))
		found, last := make(map[uint64]string), uint64(0)
		err := s.Log(id).Recover(func(r Recovered) error {
			if r.Seq < last {
				return fmt.Errorf("seq %d after %d", r.Seq, last)
			}
			last = r.Seq
			msg := &message{head: r.Head, body: r.Body}
			msg.Adopt(r.Record, msg)
			m.held = append(m.held, msg)
			found[r.Seq] = msg.text()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ml.live, found); diff != "" {
			t.Fatalf("messages of log %d (-want +got):\n%.500s", id, diff)
		}
	}
	m.held = m.held[:min(len(m.held), 10)]
	defs := make(map[Key]string)
	if err := s.Definitions(func(d Definition) error { defs[d.Key] = string(d.Value); return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.defs, defs); diff != "" {
		t.Fatalf("definitions (-want +got):\n%s", diff)
	}
}

// finish settles everything; nothing may be left.
func (m *model) finish(t *rapid.T) {
	m.barrier(t)
	m.reopen(t)
	for id, ml := range m.logs {
		for seq := range ml.live {
			m.s.Log(id).Settle(seq)
		}
		ml.live = make(map[uint64]string)
	}
	m.barrier(t)
	m.reopen(t) // finds no pages without a message either
	waitCleared(t, m.s)
	for prefix, n := range countKeys(t, m.s) {
		if strings.ContainsRune(messageKeys, rune(prefix)) {
			t.Fatalf("%d keys of kind %c are left", n, prefix)
		}
	}
	st := m.s.Stats()
	if st.IndexPages != 0 || st.BodyPages != 0 || st.LiveBytes != 0 {
		t.Fatalf("pages left: %+v", st)
	}
}
