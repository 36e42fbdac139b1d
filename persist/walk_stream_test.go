package persist

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/google/go-cmp/cmp"
)

// closedStream is a folder with a stream of three chunks, of which the first
// was trimmed, and a message that was given back.
func closedStream(t *testing.T) (dir string) {
	t.Helper()
	s := openDir(t, t.TempDir())
	stream := s.Log(s.NextID()).Stream()
	appendRun(t, stream, 0, "a", "b")
	appendRun(t, stream, 2, "c", strings.Repeat("d", 3000))
	appendRun(t, stream, 4, "e", strings.Repeat("f", bodyPageBytes))
	stream.Trim(2, 0)
	l, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, l, w, 1, 3)
	l.SaveReturns(Returns{Seq: 2, Total: 7, Failed: 5})
	mustClose(t, s)
	return s.opts.Dir
}

// TestReaderOfStreams: chunks and returns are what a start recovers.
func TestReaderOfStreams(t *testing.T) {
	r := mustRead(t, closedStream(t))
	var chunks []string
	err := r.Chunks(true, func(log uint64, c StoredChunk, size int64) error {
		messages, bytes := 0, 0
		err := c.EachMessage(func(head, body []byte) error {
			messages++
			bytes += len(head) + len(body)
			return nil
		})
		chunks = append(chunks, fmt.Sprintf("%d %d %d %s %v", c.First, c.Count, messages, c.Summary, int64(bytes+messageOverhead*messages) == size))
		return err
	})
	if diff := cmp.Diff([]string{"2 2 2 s2 true", "4 2 2 s4 true"}, chunks); diff != "" || err != nil {
		t.Errorf("%v, chunks (-want +got):\n%s", err, diff)
	}
	var returns []Returns
	err = r.Returns(func(_ uint64, n Returns) error {
		returns = append(returns, n)
		return nil
	})
	if diff := cmp.Diff([]Returns{{2, 7, 5}}, returns); diff != "" || err != nil {
		t.Errorf("%v, returns (-want +got):\n%s", err, diff)
	}
	found, c := problems(r)
	if len(found) > 0 || c.StreamMessages != 4 || c.Messages != 3 {
		t.Errorf("%+v: %q", c, found)
	}
	sp, err := r.Space()
	if err != nil || sp.LiveBytes < bodyPageBytes || sp.LiveBytes > sp.BodyBytes {
		t.Errorf("%+v, %v", sp, err)
	}
}

// TestCheckNamesStreamProblems: damage of a stream's keys is named.
func TestCheckNamesStreamProblems(t *testing.T) {
	mangles := map[string]func(value []byte) []byte{
		"flipped": func(v []byte) []byte { v[len(v)/2] ^= 1; return v },
		"cut":     func(v []byte) []byte { return v[:len(v)-1] },
	}
	for prefix, name := range map[string]string{"s": "stream", "t": "stream", "c": "queue"} {
		for how, mangle := range mangles {
			t.Run(prefix+" "+how, func(t *testing.T) {
				dir := closedStream(t)
				tamper(t, dir, func(txn *badger.Txn) error { return changeLast(txn, prefix, mangle) })
				found, _ := problems(mustRead(t, dir))
				if len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), name) {
					t.Errorf("problems: %q", found)
				}
			})
		}
	}
	t.Run("gap", func(t *testing.T) {
		s := openDir(t, t.TempDir())
		stream := s.Log(s.NextID()).Stream()
		appendRun(t, stream, 0, "a")
		appendRun(t, stream, 5, "b")
		mustClose(t, s)
		if found, _ := problems(mustRead(t, s.opts.Dir)); len(found) != 1 || !strings.Contains(found[0], "ends at 1") {
			t.Errorf("problems: %q", found)
		}
	})
	t.Run("bytes missing", func(t *testing.T) {
		dir := closedStream(t)
		tamper(t, dir, func(txn *badger.Txn) error { return changeLast(txn, "t", nil) })
		if found, _ := problems(mustRead(t, dir)); len(found) != 1 || !strings.Contains(found[0], "missing") {
			t.Errorf("problems: %q", found)
		}
	})
}

// changeLast is change for the last value with a prefix: the first may be of a
// chunk that was trimmed.
func changeLast(txn *badger.Txn, prefix string, mangle func([]byte) []byte) error {
	var last []byte
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte(prefix)})
	for it.Rewind(); it.Valid(); it.Next() {
		last = it.Item().KeyCopy(nil)
	}
	it.Close()
	if last == nil {
		return errors.New("no such key")
	}
	return change(txn, string(last), mangle)
}
