package persist

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/google/go-cmp/cmp"
)

// armed lets a probe fail.
var armed atomic.Bool

// run is a ChunkSource of bodies; heads are "h" and the body's length.
type run []string

func (r run) Message(i int) Payload {
	return &message{head: []byte(fmt.Sprint("h", len(r[i]))), body: []byte(r[i])}
}

func (r run) Size() (n int64) {
	for i := range r {
		m := r.Message(i)
		n += int64(m.HeadSize() + len(m.Body()))
	}
	return n
}

// appendRun appends a chunk and waits for it.
func appendRun(t testing.TB, s *Stream, first uint64, bodies ...string) {
	t.Helper()
	done := make(chan error, 1)
	c := Chunk{First: first, Count: uint32(len(bodies)), Summary: []byte(fmt.Sprint("s", first))}
	if err := s.Append(c, run(bodies), func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// chunksOf recovers a stream: "first:summary:size" of each chunk.
func chunksOf(t testing.TB, s *Stream) (chunks []string) {
	t.Helper()
	err := s.Recover(func(c Chunk, size int64) error {
		chunks = append(chunks, fmt.Sprintf("%d+%d:%s:%d", c.First, c.Count, c.Summary, size))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return chunks
}

// bodiesAt reads the bodies of the chunk that begins at an offset.
func bodiesAt(t testing.TB, s *Stream, first uint64) (bodies []string) {
	t.Helper()
	c, found, err := s.At(first, nil)
	if err != nil || !found {
		t.Fatalf("chunk at %d: found %v, error %v", first, found, err)
	}
	err = c.EachMessage(func(head, body []byte) error {
		if want := fmt.Sprint("h", len(body)); string(head) != want {
			t.Errorf("head %q, want %q", head, want)
		}
		bodies = append(bodies, string(body))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return bodies
}

func TestStreamSurvivesACrash(t *testing.T) {
	s := openDir(t, t.TempDir())
	l := s.Log(s.NextID())
	long := strings.Repeat("x", 2000) // beyond what lies in the tables
	appendRun(t, l.Stream(), 0, "a", long, "")
	appendRun(t, l.Stream(), 3, "b")
	s = crash(t, s)
	st := s.Log(l.ID()).Stream()
	if diff := cmp.Diff([]string{"0+3:s0:2034", "3+1:s3:11"}, chunksOf(t, st)); diff != "" {
		t.Errorf("chunks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", long, ""}, bodiesAt(t, st, 0)); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
	appendRun(t, st, 4, "c")
	if diff := cmp.Diff([]string{"c"}, bodiesAt(t, st, 4)); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
}

func TestStreamIsFoundByOffset(t *testing.T) {
	s := openDir(t, t.TempDir())
	// Neighbours in key order must not be taken for this stream's.
	before, l, after := s.Log(s.NextID()), s.Log(s.NextID()), s.Log(s.NextID())
	for _, other := range []*Log{before, after} {
		appendRun(t, other.Stream(), 0, "other")
	}
	if _, found, err := l.Stream().Before(5); found || err != nil {
		t.Errorf("empty stream: found %v, error %v", found, err)
	}
	appendRun(t, l.Stream(), 7, "a", "b", "c")
	appendRun(t, l.Stream(), 10, "d")
	for offset, want := range map[uint64]uint64{7: 7, 9: 7, 10: 10, 1 << 40: 10} {
		c, found, err := l.Stream().Before(offset)
		if err != nil || !found || c.First != want {
			t.Errorf("before %d: chunk %d, found %v, error %v; want chunk %d", offset, c.First, found, err, want)
		}
	}
	if _, found, err := l.Stream().Before(6); found || err != nil {
		t.Errorf("before the first chunk: found %v, error %v", found, err)
	}
	if _, found, err := l.Stream().At(8, nil); found || err != nil {
		t.Errorf("inside a chunk: found %v, error %v", found, err)
	}
	c, found, err := l.Stream().At(10, func(c Chunk) bool { return string(c.Summary) != "s10" })
	if err != nil || !found || c.Data != nil {
		t.Errorf("unwanted chunk: data %q, found %v, error %v", c.Data, found, err)
	}
}

func TestStreamTrim(t *testing.T) {
	s := openDir(t, t.TempDir())
	l := s.Log(s.NextID())
	for i := range uint64(3 * clearPages) {
		appendNow(t, l.Stream(), i, fmt.Sprint("m", i))
	}
	barrier(t, s)
	const left = clearPages / 2
	l.Stream().Trim(3*clearPages-left, 0)
	waitCount(t, s, 's', left+1) // and the head record
	waitCount(t, s, 't', left)
	if _, found, err := l.Stream().At(5, nil); found || err != nil {
		t.Errorf("trimmed chunk: found %v, error %v", found, err)
	}
	s = crash(t, s)
	if got := chunksOf(t, s.Log(l.ID()).Stream()); len(got) != left || !strings.HasPrefix(got[0], fmt.Sprint(3*clearPages-left, "+")) {
		t.Errorf("%d chunks from %v on, want %d", len(got), got[0], left)
	}
}

// appendNow appends a chunk of one message without waiting.
func appendNow(t testing.TB, s *Stream, first uint64, body string) {
	t.Helper()
	if err := s.Append(Chunk{First: first, Count: 1}, run{body}, func(error) {}); err != nil {
		t.Fatal(err)
	}
}

// waitCount waits until there are so many keys of a prefix.
func waitCount(t testing.TB, s *Store, prefix byte, want int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if countKeys(t, s)[prefix] == want {
			return
		}
		barrier(t, s)
	}
	t.Fatalf("%d keys of %q, want %d", countKeys(t, s)[prefix], prefix, want)
}

func TestTrimThatWasCutOffGoesOn(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	l := s.Log(s.NextID())
	for i := range uint64(10) {
		appendNow(t, l.Stream(), i, "m")
	}
	id := l.ID()
	mustClose(t, s)
	tamper(t, dir, func(txn *badger.Txn) error {
		key := appendIDKey(nil, prefixStream, id)
		if err := txn.Delete(appendPageKey(nil, prefixStream, id, 0)); err != nil { // its bytes are still there
			return err
		}
		return txn.Set(key, appendFrame(nil, key, []byte{0, 0, 0, 0, 0, 0, 0, 4}))
	})
	s = openDir(t, dir)
	if got := chunksOf(t, s.Log(id).Stream()); len(got) != 6 || got[0] != "4+1::11" {
		t.Errorf("chunks %v, want those from 4 to 9", got)
	}
	waitCount(t, s, 's', 7)
	waitCount(t, s, 't', 6)
}

func TestDroppedStreamIsCleared(t *testing.T) {
	for _, again := range []bool{false, true} {
		s := openDir(t, t.TempDir())
		l, other := s.Log(s.NextID()), s.Log(s.NextID())
		appendRun(t, other.Stream(), 0, "stays")
		for i := range uint64(clearPages + 10) {
			appendNow(t, l.Stream(), i, "m")
		}
		s.Update(nil, nil, []*Log{l}, nil)
		done := make(chan error, 1)
		if err := l.Stream().Append(Chunk{First: clearPages + 10, Count: 1}, run{"late"}, func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if again {
			s = crash(t, s)
		}
		waitCount(t, s, 't', 1)
		waitCount(t, s, 's', 1)
		waitNoKeys(t, s, "x")
		if diff := cmp.Diff([]string{"stays"}, bodiesAt(t, s.Log(other.ID()).Stream(), 0)); diff != "" {
			t.Errorf("the other stream (-want +got):\n%s", diff)
		}
	}
}

func TestStreamWithoutDefinitionIsListed(t *testing.T) {
	s := openDir(t, t.TempDir())
	l := s.Log(s.NextID())
	appendRun(t, l.Stream(), 0, "m")
	s = crash(t, s)
	if diff := cmp.Diff([]uint64{l.ID()}, s.Logs()); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
}

func TestLargeChunk(t *testing.T) {
	s := openDir(t, t.TempDir())
	l := s.Log(s.NextID())
	large := strings.Repeat("0123456789abcdef", 5*bodyPageBytes/16) + "end"
	appendRun(t, l.Stream(), 0, "before", large, "after")
	if n := countKeys(t, s)['t']; n != 6 {
		t.Errorf("%d parts, want 6", n)
	}
	s = crash(t, s)
	st := s.Log(l.ID()).Stream()
	if n := len(chunksOf(t, st)); n != 1 {
		t.Errorf("%d chunks, want 1", n)
	}
	if got := bodiesAt(t, st, 0); len(got) != 3 || got[0] != "before" || got[1] != large || got[2] != "after" {
		t.Errorf("the bodies changed: %d of them", len(got))
	}
}

// TestCutOffChunkLeavesNothing: bytes were written ahead, the commit failed.
func TestCutOffChunkLeavesNothing(t *testing.T) {
	o := testOptions(t.TempDir())
	fault := errors.New("fault")
	o.probe = func(point string) error {
		if point == "commit" && armed.Load() {
			return fault
		}
		return nil
	}
	armed.Store(false)
	s := mustOpen(t, o)
	l := s.Log(s.NextID())
	appendRun(t, l.Stream(), 0, "m")
	armed.Store(true)
	done := make(chan error, 1)
	large := strings.Repeat("x", aheadBytes+1)
	if err := l.Stream().Append(Chunk{First: 1, Count: 1}, run{large}, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, fault) {
		t.Errorf("done was told %v, want the fault", err)
	}
	if err := l.Stream().Append(Chunk{First: 1, Count: 1}, run{"m"}, func(error) { t.Error("done of a refused chunk") }); err == nil {
		t.Error("a failed store took a chunk")
	}
	armed.Store(false)
	s = crash(t, s)
	if n := countKeys(t, s)['t']; n < 2 {
		t.Fatalf("%d parts on disk: nothing was written ahead", n)
	}
	if got := chunksOf(t, s.Log(l.ID()).Stream()); len(got) != 1 {
		t.Errorf("chunks %v, want the first alone", got)
	}
	waitCount(t, s, 't', 1)
}

func TestDamagedStreamIsNamed(t *testing.T) {
	for name, harm := range map[string]func(txn *badger.Txn, id uint64) error{
		"part 0 of chunk 1": func(txn *badger.Txn, id uint64) error { return txn.Delete(appendPartKey(nil, id, 1, 0)) },
		"summary of chunk 2": func(txn *badger.Txn, id uint64) error {
			return txn.Delete(appendPageKey(nil, prefixStream, id, 1))
		},
		"summary of chunk 0": func(txn *badger.Txn, id uint64) error {
			return txn.Set(appendPageKey(nil, prefixStream, id, 0), []byte{1, 2, 3, 4, 5, 6})
		},
	} {
		dir := t.TempDir()
		s := openDir(t, dir)
		l := s.Log(s.NextID())
		for i := range uint64(3) {
			appendRun(t, l.Stream(), i, "m")
		}
		id := l.ID()
		mustClose(t, s)
		tamper(t, dir, func(txn *badger.Txn) error { return harm(txn, id) })
		s = openDir(t, dir)
		err := s.Log(id).Stream().Recover(func(Chunk, int64) error { return nil })
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestGroupWithChunks(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, st := s.Log(s.NextID()), s.Log(s.NextID())
	w := newWaiter()
	var order []string
	var g Group
	m := newMessage(nil, 0, "h", "queue")
	g.Append(l, 1, &m.Record, Meta{})
	if err := g.AppendChunk(st.Stream(), Chunk{First: 0, Count: 1}, run{"stream"}, func(error) { order = append(order, "chunk") }); err != nil {
		t.Fatal(err)
	}
	s.Submit(&g, w, 1)
	w.wait(t, 1)
	if len(order) != 1 {
		t.Error("the group's waiter was told before its chunk was done")
	}
	s = crash(t, s)
	wantMessages(t, s.Log(l.ID()), got{Seq: 1, Head: "h", Body: "queue"})
	if diff := cmp.Diff([]string{"stream"}, bodiesAt(t, s.Log(st.ID()).Stream(), 0)); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
}

// TestSweptBytes: what a collection of the value log brings back goes again.
func TestSweptBytes(t *testing.T) {
	s := openDir(t, t.TempDir())
	l := s.Log(s.NextID())
	for i := range uint64(4) {
		appendNow(t, l.Stream(), i, "m")
	}
	barrier(t, s)
	l.Stream().Trim(2, 0)
	waitCount(t, s, 't', 2)
	for _, key := range [][]byte{appendPartKey(nil, l.ID(), 1, 0), appendPartKey(nil, l.ID()+9, 0, 0), appendPartKey(nil, 0, 0, 3)} {
		if !s.writeRaw([]rawOp{{key: key, value: appendFrame(nil, key, []byte("back"))}}) {
			t.Fatal("write failed")
		}
	}
	s.sweepStreams()
	waitCount(t, s, 't', 2)
	if got := chunksOf(t, s.Log(l.ID()).Stream()); len(got) != 2 {
		t.Errorf("chunks %v, want two", got)
	}
}
