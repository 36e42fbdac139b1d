package stream

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

func TestMain(m *testing.M) {
	if os.Getenv(crashChildEnv) != "" {
		runCrashChild()
		return
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// fixture is a host with a store, or without, that can be started again.
type fixture struct {
	t      testing.TB
	dir    string // empty: no store
	clock  *queue.Clock
	store  *persist.Store
	host   *Host
	config Config
	log    *Log
	q      *queue.Queue
}

// newFixture starts a host with one stream.
func newFixture(t testing.TB, stored bool, c Config) *fixture {
	f := &fixture{t: t, clock: queue.NewClock(), config: c}
	if stored {
		f.dir = t.TempDir()
	}
	f.config.ID, f.config.Stored = 1, true
	t.Cleanup(f.stop)
	t.Cleanup(f.clock.Stop)
	f.start()
	return f
}

func (f *fixture) start() {
	if f.dir != "" {
		s, err := persist.Open(persist.Options{Dir: f.dir, Logger: quiet})
		if err != nil {
			f.t.Fatal(err)
		}
		f.store = s
	}
	f.openHost()
}

// openHost opens the stream in a new host, from what the store has of it.
func (f *fixture) openHost() {
	f.t.Helper()
	f.host = NewHost(Options{Store: f.store, Clock: f.clock, Logger: quiet})
	f.log = f.host.Open(f.config)
	if err := f.log.Recover(); err != nil {
		f.t.Fatal(err)
	}
	f.q = queue.New(queue.Config{Name: "s", ID: 1, Stream: f.log, Clock: f.clock})
}

func (f *fixture) stop() {
	f.host.Close()
	if f.store != nil {
		if err := f.store.Close(); err != nil {
			f.t.Error(err)
		}
	}
}

// restart is a clean stop and a start.
func (f *fixture) restart() {
	f.stop()
	f.start()
}

// message makes a message with one header.
func message(body string, headers ...frames.Field) *queue.Message {
	v := frames.PropertyValues{}
	if headers != nil {
		v.Flags, v.Headers = frames.FlagHeaders, headers
	}
	return &queue.Message{Exchange: "x", RoutingKey: "k", Properties: v.Append(nil), Content: []byte(body)}
}

// told is a waiter that closes its channel.
type told struct {
	err  error
	done chan struct{}
}

func (w *told) Stored(_ uint64, err error) { w.err = err; close(w.done) }
func (w *told) Flush()                     {}

// publish appends messages and waits until all are safe.
func (f *fixture) publish(messages ...*queue.Message) {
	f.t.Helper()
	var waiters []*told
	for _, m := range messages {
		w := &told{done: make(chan struct{})}
		r := m.Track(w, 0)
		r.Hold()
		if got := f.q.Publish(m); got != queue.Taken {
			f.t.Fatalf("publish: outcome %d", got)
		}
		r.Release(f.store)
		waiters = append(waiters, w)
	}
	for _, w := range waiters {
		select {
		case <-w.done:
		case <-time.After(patience):
			f.t.Fatal("a message was not confirmed")
		}
		if w.err != nil {
			f.t.Fatal(w.err)
		}
	}
}

// bodies publishes bodies, each waited for, so that each has a chunk of its
// own.
func (f *fixture) bodies(bodies ...string) {
	f.t.Helper()
	for _, b := range bodies {
		f.publish(message(b))
	}
}

// numbered publishes n bodies "m0", "m1" ... from a number on.
func (f *fixture) numbered(from, n int) {
	f.t.Helper()
	for i := range n {
		f.bodies(fmt.Sprint("m", from+i))
	}
}

// sink is a consumer that keeps what it gets, up to its credit.
type sink struct {
	queue.Consumer
	f *fixture

	mu      sync.Mutex
	changed sync.Cond
	credit  int
	starved bool
	got     []string
	offsets []uint64
	pending []queue.Entry
	gone    bool
}

// consume attaches a consumer with credit and begins it.
func (f *fixture) consume(credit int, r *queue.Reading) *sink {
	f.t.Helper()
	s := &sink{f: f, credit: credit}
	s.changed.L = &s.mu
	s.Consumer = queue.Consumer{Tag: "c", Sink: s, Reading: r}
	if err := f.q.AddConsumer(&s.Consumer); err != nil {
		f.t.Fatal(err)
	}
	f.q.Resume(&s.Consumer)
	return s
}

// Deliver implements queue.Sink.
func (s *sink) Deliver(_ *queue.Consumer, e *queue.Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	if s.credit == 0 {
		s.starved = true
		return false
	}
	s.credit--
	s.got = append(s.got, string(e.Message.Content))
	s.offsets = append(s.offsets, e.Seq)
	s.pending = append(s.pending, *e)
	return true
}

// Cancelled implements queue.Sink.
func (s *sink) Cancelled(*queue.Consumer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.changed.Broadcast()
}

// ack settles everything outstanding, which returns the credit.
func (s *sink) ack() {
	s.mu.Lock()
	entries := s.pending
	s.pending = nil
	s.credit += len(entries)
	resume := s.starved && s.credit > 0
	s.starved = s.starved && !resume
	s.mu.Unlock()
	s.f.q.Settle(entries)
	if resume {
		s.f.q.Resume(&s.Consumer)
	}
}

// await waits until so many messages have come, and gives all.
func (s *sink) await(n int) []string {
	s.f.t.Helper()
	stop := time.AfterFunc(patience, s.changed.Broadcast)
	defer stop.Stop()
	end := time.Now().Add(patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.got) < n && time.Now().Before(end) {
		s.changed.Wait()
	}
	if len(s.got) < n {
		s.f.t.Fatalf("%d messages came, want %d: %q", len(s.got), n, s.got)
	}
	return append([]string(nil), s.got...)
}

// rest waits until the log and all its readers have nothing to do.
func (f *fixture) rest() {
	f.t.Helper()
	for end := time.Now().Add(patience); !f.atRest(); runtime.Gosched() {
		if time.Now().After(end) {
			f.t.Fatal("the stream does not come to rest")
		}
	}
}

func (f *fixture) atRest() bool {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	if f.log.open != nil || f.log.scheduled || f.log.inflight > 0 {
		return false
	}
	for _, r := range f.log.readers {
		if r.state.Load() != resting {
			return false
		}
	}
	return true
}

// both runs a test with a store and without.
func both(t *testing.T, test func(t *testing.T, stored bool)) {
	t.Run("store", func(t *testing.T) { test(t, true) })
	t.Run("memory", func(t *testing.T) { test(t, false) })
}

// keep is retention without limits.
var keep = Retention{MaxBytes: -1}
