package persist

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/google/go-cmp/cmp"
)

func mustRead(t *testing.T, dir string) *Reader {
	t.Helper()
	r, err := OpenReader(testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// problems checks a store and lists what is wrong.
func problems(r *Reader) (all []string, c Checked) {
	c = r.Check(nil, func(err error) { all = append(all, err.Error()) })
	return all, c
}

// copyFolder copies a store's files as they are at this moment, which is what
// is left of them after a kill.
func copyFolder(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, path := range glob(t, dir, "*") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(to, filepath.Base(path)), string(data))
	}
	return to
}

// read lists a store's messages as Reader gives them.
func (r *Reader) read(t *testing.T) map[uint64][]got {
	t.Helper()
	all := map[uint64][]got{}
	err := r.Index(func(m Indexed) error {
		head, body, err := r.Bytes(m)
		all[m.Log] = append(all[m.Log], got{m.Seq, string(head), string(body)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReader: what a reader sees is what a start recovers, and the store is the
// same afterwards.
func TestReader(t *testing.T) {
	dir, queue := closedStore(t)
	before := fileSums(t, dir)
	r := mustRead(t, dir)
	if !r.CleanStop() {
		t.Error("the stop was clean")
	}
	all := r.read(t)
	var marks []string
	if err := r.Marks(func(log uint64, m Mark) error {
		marks = append(marks, fmt.Sprint(log == queue, m))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"true {1 false 0}"}, marks); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
	definitions := 0
	if err := r.Definitions(func(Definition) error { definitions++; return nil }); err != nil || definitions != 2 {
		t.Errorf("%d definitions, %v", definitions, err)
	}
	if found, c := problems(r); len(found) > 0 || c.Messages != 100 || c.Definitions != 2 || c.Unreferenced != 0 {
		t.Errorf("%+v: %q", c, found)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, fileSums(t, dir)); diff != "" {
		t.Errorf("reading has changed files (-before +after):\n%s", diff)
	}
	s := openDir(t, dir)
	for _, id := range []uint64{queue, queue + 1} {
		if diff := cmp.Diff(recovered(t, s.Log(id)), all[id]); diff != "" {
			t.Errorf("queue %d (-recovered +read):\n%s", id, diff)
		}
	}
	if next := s.NextID(); next <= queue+1 {
		t.Errorf("id %d again", next)
	}
}

// fileSums is the content of each file.
func fileSums(t *testing.T, dir string) map[string]string {
	sums := map[string]string{}
	for _, path := range glob(t, dir, "*") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sums[filepath.Base(path)] = fmt.Sprintf("%d %x", len(data), frameSum(nil, data))
	}
	return sums
}

// TestReaderAfterAKill: a store whose process was killed reads as what its
// next start finds, and is whole.
func TestReaderAfterAKill(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, other, w := s.Log(s.NextID()), s.Log(s.NextID()), newWaiter()
	fill(t, s, l, w, 1, 200)
	shared := newMessage(w, 1, "head", "shared")
	shared.Hold()
	l.Append(201, &shared.Record, Meta{})
	other.Append(1, &shared.Record, Meta{})
	shared.Release(s)
	w.wait(t, 1)
	l.Settle(3, 4, 5)
	barrier := newWaiter()
	s.Barrier(barrier, 9)
	barrier.wait(t, 9)
	dir := copyFolder(t, s.opts.Dir)
	want := map[uint64][]got{l.ID(): recovered(t, crash(t, s).Log(l.ID()))}
	want[other.ID()] = []got{{1, "head", "shared"}}
	r := mustRead(t, dir)
	if r.CleanStop() {
		t.Error("the stop was not clean")
	}
	if diff := cmp.Diff(want, r.read(t)); diff != "" {
		t.Errorf("messages (-recovered +read):\n%s", diff)
	}
	if found, _ := problems(r); len(found) > 0 {
		t.Errorf("problems: %q", found)
	}
	places := map[Address]int{}
	if err := r.Index(func(m Indexed) error {
		if m.Shared {
			places[m.Address]++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	twice := 0
	for _, n := range places {
		if n == 2 {
			twice++
		}
	}
	if twice != 1 {
		t.Errorf("%d messages are in two queues, want 1", twice)
	}
}

// TestReaderFinishesARedoList: a commit that was cut off counts as a whole.
func TestReaderFinishesARedoList(t *testing.T) {
	dir := killedWithinALargeGroup(t)
	r := mustRead(t, dir)
	if found, _ := problems(r); len(found) > 0 {
		t.Errorf("problems: %q", found)
	}
}

// killedWithinALargeGroup is a folder with a redo list that is not done.
func killedWithinALargeGroup(t *testing.T) string {
	t.Helper()
	dir, _ := closedStore(t)
	o := testOptions(dir)
	s := mustOpen(t, o)
	key := Key{'q', "vh", "late"}.appendTo(nil)
	value := endFrame(append(beginFrame(nil), 0, 0, 0, 2, '{', '}'), 0, key)
	redo := appendRedoKey(nil, s.writer.redone+1, 0)
	list := appendRedo(nil, &rawOp{key: key, value: value})
	if err := s.writer.transact(s, []rawOp{{key: redo, value: appendFrame(nil, redo, list)}}); err != nil {
		t.Fatal(err)
	}
	return copyFolder(t, dir)
}

// TestReaderRefuses: what is not a readable store is named and left alone.
func TestReaderRefuses(t *testing.T) {
	refuse := func(dir string, is error, contains ...string) {
		t.Helper()
		r, err := OpenReader(testOptions(dir))
		if err == nil {
			r.Close()
			t.Fatalf("%s was opened", dir)
		}
		for _, text := range contains {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%v: does not say %q", err, text)
			}
		}
		if is != nil && !errors.Is(err, is) {
			t.Errorf("%v: is not %v", err, is)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing")
	refuse(missing, os.ErrNotExist, missing)
	if _, err := os.Stat(missing); err == nil {
		t.Error("the folder was made")
	}
	empty := t.TempDir()
	refuse(empty, nil, empty, "is no store")
	used := openDir(t, t.TempDir())
	refuse(used.opts.Dir, ErrInUse, used.opts.Dir)
	newer, _ := closedStore(t)
	writeFile(t, filepath.Join(newer, formatFile), "warren store, format 99\n")
	refuse(newer, ErrNewerFormat, newer, "format 99")
	cut, _ := closedStore(t)
	truncate(t, glob(t, cut, "*.sst")[0], 200)
	refuse(cut, ErrCorrupt, glob(t, cut, "*.sst")[0])
	flipped, _ := closedStore(t)
	flip(t, glob(t, flipped, "*.sst")[0], 100)
	refuse(flipped, ErrCorrupt, ".sst")
}

// TestCheckNamesProblems: each kind of value, damaged in each way, is one
// problem with its name, and all else is still looked at.
func TestCheckNamesProblems(t *testing.T) {
	mangles := map[string]func(value []byte) []byte{
		"flipped":  func(v []byte) []byte { v[len(v)/2] ^= 1; return v },
		"cut":      func(v []byte) []byte { return v[:len(v)-1] },
		"empty":    func(v []byte) []byte { return nil },
		"layout 9": func(v []byte) []byte { v[0] = 9; return v },
		"missing":  nil,
	}
	for prefix, name := range map[string]string{
		"i": "index page ", "a": "settled messages of index page ", "b": "body page",
		"d": `definition "orders" of kind 113 in vhost "vh"`,
		"e": "ontinuation 1", "npage": `counter "page"`, "nqueue": `counter "queue"`, "r": "delivery marks of queue",
	} {
		for how, mangle := range mangles {
			if mangle == nil && strings.Contains("adir", prefix) {
				continue // nothing refers to these
			}
			t.Run(prefix+" "+how, func(t *testing.T) {
				dir, _ := closedStore(t)
				tamper(t, dir, func(txn *badger.Txn) error { return change(txn, prefix, mangle) })
				found, c := problems(mustRead(t, dir))
				if len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), name) {
					t.Errorf("problems: %q", found)
				}
				if c.Definitions+c.IndexPages+c.BodyPages < 3 {
					t.Errorf("looked at %+v only", c)
				}
			})
		}
	}
	t.Run("unknown key", func(t *testing.T) {
		dir, _ := closedStore(t)
		tamper(t, dir, func(txn *badger.Txn) error { return txn.Set([]byte("zzz"), appendFrame(nil, []byte("zzz"), nil)) })
		if found, _ := problems(mustRead(t, dir)); len(found) != 1 || !strings.Contains(found[0], `"zzz"`) {
			t.Errorf("problems: %q", found)
		}
	})
	t.Run("counter behind", func(t *testing.T) {
		dir, _ := closedStore(t)
		tamper(t, dir, func(txn *badger.Txn) error {
			return txn.Set(counterQueue, appendFrame(nil, counterQueue, []byte{0, 0, 0, 0, 0, 0, 0, 1}))
		})
		if found, _ := problems(mustRead(t, dir)); len(found) != 1 || !strings.Contains(found[0], `counter "queue"`) {
			t.Errorf("problems: %q", found)
		}
	})
	t.Run("acks without a page", func(t *testing.T) {
		dir, _ := closedStore(t)
		tamper(t, dir, func(txn *badger.Txn) error {
			key := appendPageKey(nil, prefixAck, 77, 1)
			return txn.Set(key, appendFrame(nil, key, []byte{0, 0, 0, 1}))
		})
		if found, _ := problems(mustRead(t, dir)); len(found) != 1 || !strings.Contains(found[0], "index page 1 of queue 77") {
			t.Errorf("problems: %q", found)
		}
	})
}

// change mangles the first value with a prefix; nil deletes it.
func change(txn *badger.Txn, prefix string, mangle func([]byte) []byte) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte(prefix)})
	it.Rewind()
	key := it.Item().KeyCopy(nil)
	value, err := it.Item().ValueCopy(nil)
	it.Close()
	if err != nil {
		return err
	}
	if mangle == nil {
		return txn.Delete(key)
	}
	return txn.Set(key, mangle(value))
}

// TestCheckNamesADamagedValueLog: bytes of messages are read, not only counted.
func TestCheckNamesADamagedValueLog(t *testing.T) {
	dir, _ := closedStore(t)
	for _, path := range glob(t, dir, "*.vlog") {
		if info, err := os.Stat(path); err == nil && info.Size() > 200 {
			flip(t, path, 150)
		}
	}
	found, _ := problems(mustRead(t, dir))
	if len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), "body page") {
		t.Errorf("problems: %q", found)
	}
}

// TestSkipIDs: ids below are never handed out, also by a later run.
func TestSkipIDs(t *testing.T) {
	s := openDir(t, t.TempDir())
	s.SkipIDs(1 << 40)
	s.SkipIDs(5)
	if id := s.NextID(); id < 1<<40 {
		t.Errorf("id %d", id)
	}
	w := newWaiter()
	s.Barrier(w, 1)
	w.wait(t, 1)
	s = crash(t, s)
	if id := s.NextID(); id < 1<<40 {
		t.Errorf("id %d after a crash", id)
	}
}

// TestReaderOfWhatWasNotSynced: after a power cut under another policy than
// SyncAlways, what the next start drops as lost is neither read nor damage.
func TestReaderOfWhatWasNotSynced(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncAlways, SyncNever} {
		o := testOptions(t.TempDir())
		o.Sync = policy
		s := mustOpen(t, o)
		l, w := s.Log(s.NextID()), newWaiter()
		fill(t, s, l, w, 1, 1)
		large := newMessage(w, 7, "", strings.Repeat("l", 5000))
		l.Append(2, &large.Record, Meta{})
		w.wait(t, 7)
		fill(t, s, l, w, 3, 3)
		dir := copyFolder(t, o.Dir)
		tamper(t, dir, func(txn *badger.Txn) error { return txn.Delete(appendIDKey(nil, prefixBody, large.page.id)) })
		r := mustRead(t, dir)
		found, c := problems(r)
		if policy == SyncAlways {
			if len(found) != 1 || !strings.Contains(found[0], "body page") || c.Lost != 0 {
				t.Errorf("%v: %+v, problems: %q", policy, c, found)
			}
			continue
		}
		if len(found) > 0 || c.Lost != 1 || c.Messages != 2 {
			t.Errorf("%v: %+v, problems: %q", policy, c, found)
		}
		all := r.read(t)[l.ID()]
		if len(all) != 2 || all[0].Seq != 1 || all[1].Seq != 3 {
			t.Errorf("%v: read %v", policy, all)
		}
	}
}
