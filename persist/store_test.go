package persist

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(crashChildEnv) != "" {
		runCrashChild()
		return
	}
	// Each check of a store opens it several times. The command line wins.
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		// Badger leaves these two behind when it refuses damaged files. A
		// database that was not closed has others, which are not ignored.
		goleak.IgnoreTopFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"),
		goleak.IgnoreTopFunction("github.com/dgraph-io/badger/v4.(*DB).monitorCache"))
}

// message is a payload as a caller would have it.
type message struct {
	Record
	head, body []byte
}

func (m *message) HeadSize() int                { return len(m.head) }
func (m *message) AppendHead(dst []byte) []byte { return append(dst, m.head...) }
func (m *message) Body() []byte                 { return m.body }

// newMessage makes a message of one head and body.
func newMessage(w Waiter, token uint64, head, body string) *message {
	m := &message{head: []byte(head), body: []byte(body)}
	m.Init(m, w, token)
	return m
}

// waiter collects what it is told.
type waiter struct {
	mu      sync.Mutex
	stored  map[uint64]error
	order   []uint64
	flushes int
	pending int // Stored calls since the last Flush
	changed chan struct{}
}

func newWaiter() *waiter {
	return &waiter{stored: make(map[uint64]error), changed: make(chan struct{}, 1)}
}

func (w *waiter) Stored(token uint64, err error) {
	w.mu.Lock()
	if _, twice := w.stored[token]; twice {
		panic(fmt.Sprintf("token %d told twice", token))
	}
	w.stored[token] = err
	w.order = append(w.order, token)
	w.pending++
	w.mu.Unlock()
}

func (w *waiter) Flush() {
	w.mu.Lock()
	w.flushes++
	w.pending = 0
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// has says whether a token was told and flushed, and its error.
func (w *waiter) has(token uint64) (error, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err, ok := w.stored[token]
	return err, ok && w.pending == 0
}

// wait waits until all tokens were told without an error.
func (w *waiter) wait(t testing.TB, tokens ...uint64) {
	t.Helper()
	for _, token := range tokens {
		if err := w.result(t, token); err != nil {
			t.Fatalf("token %d: %v", token, err)
		}
	}
}

// result waits for a token and gives its error.
func (w *waiter) result(t testing.TB, token uint64) error {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		if err, ok := w.has(token); ok {
			return err
		}
		select {
		case <-w.changed:
		case <-deadline:
			t.Fatalf("token %d was never told", token)
		}
	}
}

// barrier waits until everything submitted is durable.
func barrier(t testing.TB, s *Store) {
	t.Helper()
	w := newWaiter()
	s.Barrier(w, 1)
	w.wait(t, 1)
}

func testOptions(dir string) Options {
	return Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func openDir(t testing.TB, dir string) *Store {
	t.Helper()
	return mustOpen(t, testOptions(dir))
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// reopen closes the store and opens its folder again.
func reopen(t testing.TB, s *Store) *Store {
	t.Helper()
	mustClose(t, s)
	return mustOpen(t, s.opts)
}

// crash is reopen without the clean stop: nothing that is open is committed,
// and the mark is not written.
func crash(t testing.TB, s *Store) *Store {
	t.Helper()
	abandon(t, s)
	return mustOpen(t, s.opts)
}

// abandon ends a store as a crash would, as far as Badger's lock lets us: no
// further batch is written.
func abandon(t testing.TB, s *Store) {
	t.Helper()
	err := fmt.Errorf("abandoned")
	s.fatal.CompareAndSwap(nil, &err)
	s.Close()
}

// got is a recovered message, for comparing.
type got struct {
	Seq        uint64
	Head, Body string
}

func recovered(t testing.TB, l *Log) []got {
	t.Helper()
	var all []got
	err := l.Recover(func(r Recovered) error {
		all = append(all, got{r.Seq, string(r.Head), string(r.Body)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wantMessages(t testing.TB, l *Log, want ...got) {
	t.Helper()
	if diff := cmp.Diff(want, recovered(t, l)); diff != "" {
		t.Errorf("messages of queue %d (-want +got):\n%s", l.ID(), diff)
	}
}

// keys gives all keys on disk with these prefixes, as names.
func keys(t testing.TB, s *Store, prefixes string) []string {
	t.Helper()
	var names []string
	err := s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if strings.IndexByte(prefixes, it.Item().Key()[0]) >= 0 {
				names = append(names, keyName(it.Item().Key()))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// messageKeys are the prefixes of what messages leave on disk.
const messageKeys = "abgix"

func wantNoKeys(t testing.TB, s *Store, prefixes string) {
	t.Helper()
	if names := keys(t, s, prefixes); len(names) > 0 {
		t.Errorf("on disk are still %d keys, first %v", len(names), names[:min(len(names), 8)])
	}
}

func TestAppendSurvivesReopen(t *testing.T) {
	for _, stop := range []struct {
		name string
		next func(testing.TB, *Store) *Store
	}{{"close", reopen}, {"crash", crash}} {
		t.Run(stop.name, func(t *testing.T) {
			s := openDir(t, t.TempDir())
			l, w := s.Log(s.NextID()), newWaiter()
			var want []got
			var tokens []uint64
			for i := uint64(1); i <= 100; i++ {
				m := newMessage(w, i, fmt.Sprint("head", i), strings.Repeat("x", int(i)))
				l.Append(i, &m.Record, Meta{Priority: uint8(i), Flags: 3, Expiry: int64(i) << 40})
				want = append(want, got{i, string(m.head), string(m.body)})
				tokens = append(tokens, i)
			}
			w.wait(t, tokens...)
			s = stop.next(t, s)
			if diff := cmp.Diff([]uint64{l.ID()}, s.Logs()); diff != "" {
				t.Errorf("logs (-want +got):\n%s", diff)
			}
			wantMessages(t, s.Log(l.ID()), want...)
			err := s.Log(l.ID()).Recover(func(r Recovered) error {
				meta := Meta{Priority: uint8(r.Seq), Flags: 3, Expiry: min(int64(r.Seq)<<40, maxExpiry)}
				if diff := cmp.Diff(meta, r.Meta); diff != "" {
					return fmt.Errorf("meta of %d (-want +got):\n%s", r.Seq, diff)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDefinitions(t *testing.T) {
	s := openDir(t, t.TempDir())
	puts := []Definition{
		{Key{'q', "/", "a"}, []byte(`{"a":1}`)},
		{Key{'q', "/\x00", "a"}, nil},
		{Key{'q', "", "/a"}, []byte("x")},
		{Key{'e', "v", ""}, bytes.Repeat([]byte("y"), 70_000)},
		{Key{'e', "v", "shrinks"}, bytes.Repeat([]byte("z"), MaxValueBytes)},
		{Key{'e', "v", "goes"}, bytes.Repeat([]byte("z"), 3*pieceBytes)},
		{Key{'e', "v", "grows"}, bytes.Repeat([]byte("z"), pieceBytes)},
	}
	done := make(chan error, 3)
	s.Update(puts, nil, nil, func(err error) { done <- err })
	s = reopen(t, s)
	changed := []Definition{
		{Key{'q', "/", "a"}, []byte("new")},
		{Key{'e', "v", "shrinks"}, bytes.Repeat([]byte("s"), pieceBytes+1)},
		{Key{'e', "v", "grows"}, bytes.Repeat([]byte("g"), 5*pieceBytes)},
	}
	s.Update(changed, []Key{{'q', "", "/a"}, {'e', "v", "goes"}}, nil, func(err error) { done <- err })
	s.Update([]Definition{{Key: Key{Name: strings.Repeat("n", MaxKeyBytes+1)}}}, []Key{{'q', "/", "a"}}, nil, func(err error) { done <- err })
	for i := range 3 {
		if err := <-done; (err != nil) != (i == 2) {
			t.Fatalf("update %d: %v", i, err)
		}
	}
	s = reopen(t, s)
	var all []Definition
	if err := s.Definitions(func(d Definition) error { all = append(all, d); return nil }); err != nil {
		t.Fatal(err)
	}
	want := []Definition{puts[3], changed[2], changed[1], changed[0], puts[1]}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("other definitions: %.1000v", all)
	}
	if n := countKeys(t, s)[prefixPiece]; n != 70_000/pieceBytes+4+1 {
		t.Errorf("%d continuations", n)
	}
}

// countKeys counts the keys on disk by prefix.
func countKeys(t interface{ Fatal(...any) }, s *Store) map[byte]int {
	counts := make(map[byte]int)
	err := s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			counts[it.Item().Key()[0]]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

// waitCleared waits until the background has cleared all dropped logs.
func waitCleared(t interface{ Fatal(...any) }, s *Store) {
	deadline := time.Now().Add(20 * time.Second)
	for s.Stats().Dropping > 0 || countKeys(t, s)[prefixDrop] > 0 {
		if time.Now().After(deadline) {
			t.Fatal("dropped logs are never cleared")
		}
		time.Sleep(time.Millisecond)
	}
}
