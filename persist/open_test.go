package persist

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// wantOpenError opens a folder that must be refused, and checks that the error
// is of a kind and names things.
func wantOpenError(t *testing.T, dir string, kind error, names ...string) {
	t.Helper()
	s, err := Open(testOptions(dir))
	if err == nil {
		s.Close()
		t.Fatal("opened")
	}
	if kind != nil && !errors.Is(err, kind) {
		t.Errorf("%v is not %v", err, kind)
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not name %q", err, name)
		}
	}
}

func TestCleanStart(t *testing.T) {
	s := openDir(t, t.TempDir())
	if !s.CleanStart() {
		t.Error("a new store is not clean")
	}
	s = reopen(t, s)
	if !s.CleanStart() {
		t.Error("a start after Close is not clean")
	}
	s = crash(t, s) // also when nothing was written
	if s.CleanStart() {
		t.Error("a start after a crash is clean")
	}
	s = reopen(t, s)
	if !s.CleanStart() {
		t.Error("a start after Close is not clean")
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	s := openDir(t, t.TempDir())
	wantOpenError(t, s.opts.Dir, ErrInUse, s.opts.Dir, fmt.Sprint(os.Getpid()))
	l, w := s.Log(s.NextID()), newWaiter()
	fill(t, s, l, w, 1, 1) // the first is not disturbed
}

func TestIDsAreNeverHandedOutTwice(t *testing.T) {
	s := openDir(t, t.TempDir())
	seen := make(map[uint64]bool)
	take := func(n int) {
		t.Helper()
		for range n {
			id := s.NextID()
			if id == 0 || seen[id] {
				t.Fatalf("id %d again", id)
			}
			seen[id] = true
		}
	}
	take(10)
	s = crash(t, s)
	take(idStride * 5 / 2)
	barrier(t, s)
	s = crash(t, s)
	take(10)
	s = reopen(t, s)
	take(10)
}

// Page ids written before a crash are not given to other pages, also when the
// reservation was used up in between.
func TestPageIDsAreReserved(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	s.mu.Lock()
	s.pageIDs.next = s.pageIDs.limit - 2
	s.mu.Unlock()
	for seq := uint64(1); seq <= 5; seq++ {
		fill(t, s, l, w, seq, seq)
	}
	s = crash(t, s)
	l = s.Log(l.ID())
	wantMessages(t, l, got{1, "", bodyOf(1)}, got{2, "", bodyOf(2)}, got{3, "", bodyOf(3)}, got{4, "", bodyOf(4)}, got{5, "", bodyOf(5)})
	fill(t, s, l, w, 6, 6)
	s = crash(t, s)
	if n := len(recovered(t, s.Log(l.ID()))); n != 6 {
		t.Errorf("%d messages", n)
	}
}

// tamper changes the database of a closed store with Badger alone.
func tamper(t *testing.T, dir string, fn func(txn *badger.Txn) error) {
	t.Helper()
	o := testOptions(dir)
	db, err := badger.Open(badgerOptions(o, &badgerLogger{logger: o.Logger}))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(fn), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// closedStore makes a folder with 99 messages and a settled one in a queue, a
// message in another that is large enough for the value log, and definitions.
func closedStore(t *testing.T) (dir string, queue uint64) {
	t.Helper()
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	large := newMessage(w, 1, "", strings.Repeat("l", 5000))
	s.Log(s.NextID()).Append(1, &large.Record, Meta{})
	w.wait(t, 1)
	fill(t, s, l, w, 1, 100)
	l.Settle(50)
	l.SaveMarks([]Mark{{Seq: 1}})
	s.Update([]Definition{{Key{'q', "vh", "orders"}, []byte("{}")}, {Key{'q', "vh", "z"}, make([]byte, 3*pieceBytes)}}, nil, nil, nil)
	mustClose(t, s)
	return s.opts.Dir, l.ID()
}

func TestFormatVersions(t *testing.T) {
	t.Run("newer file", func(t *testing.T) {
		dir, _ := closedStore(t)
		writeFile(t, filepath.Join(dir, formatFile), "warren store, format 3\n")
		wantOpenError(t, dir, ErrNewerFormat, dir, "format 3")
		writeFile(t, filepath.Join(dir, formatFile), "warren store, format 1\n")
		wantOpenError(t, dir, ErrOlderFormat, dir, "format 1")
	})
	t.Run("newer database", func(t *testing.T) {
		dir, _ := closedStore(t)
		tamper(t, dir, func(txn *badger.Txn) error {
			return txn.Set(counterFormat, appendFrame(nil, counterFormat, []byte{0, 0, 0, 0, 0, 0, 0, 9}))
		})
		wantOpenError(t, dir, ErrNewerFormat, dir, "format 9")
		os.Remove(filepath.Join(dir, formatFile))
		wantOpenError(t, dir, ErrNewerFormat, dir, "format 9")
	})
	t.Run("unreadable file", func(t *testing.T) {
		dir, _ := closedStore(t)
		writeFile(t, filepath.Join(dir, formatFile), "")
		wantOpenError(t, dir, ErrCorrupt, formatFile)
	})
	t.Run("file lost", func(t *testing.T) {
		dir, queue := closedStore(t)
		if err := os.Remove(filepath.Join(dir, formatFile)); err != nil {
			t.Fatal(err)
		}
		s := openDir(t, dir)
		if n := len(recovered(t, s.Log(queue))); n != 99 {
			t.Errorf("%d messages", n)
		}
		if _, err := os.Stat(filepath.Join(dir, formatFile)); err != nil {
			t.Error(err)
		}
	})
	t.Run("another program's database", func(t *testing.T) {
		dir := t.TempDir()
		tamper(t, dir, func(txn *badger.Txn) error { return txn.Set([]byte("theirs"), nil) })
		wantOpenError(t, dir, ErrCorrupt, dir, "format version")
	})
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Files that vanish or are damaged must never end in an empty or partial
// store.
func TestDamagedFiles(t *testing.T) {
	remove := func(pattern string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			for _, path := range glob(t, dir, pattern) {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, damage := range []struct {
		name string
		do   func(t *testing.T, dir string)
	}{
		{"manifest lost", remove("MANIFEST")},
		{"all but the format file lost", remove("*[^N]")},
		{"tables lost", remove("*.sst")},
		{"value log lost", remove("*.vlog")},
		{"manifest cut", func(t *testing.T, dir string) { truncate(t, glob(t, dir, "MANIFEST")[0], 6) }},
		{"manifest flipped", func(t *testing.T, dir string) { flip(t, glob(t, dir, "MANIFEST")[0], 20) }},
		{"table flipped", func(t *testing.T, dir string) { flip(t, glob(t, dir, "*.sst")[0], 100) }},
		{"table cut", func(t *testing.T, dir string) { truncate(t, glob(t, dir, "*.sst")[0], 200) }},
		{"value log flipped", func(t *testing.T, dir string) {
			for _, path := range glob(t, dir, "*.vlog") {
				if info, err := os.Stat(path); err == nil && info.Size() > 200 {
					flip(t, path, 150)
				}
			}
		}},
	} {
		t.Run(damage.name, func(t *testing.T) {
			dir, _ := closedStore(t)
			damage.do(t, dir)
			s, err := Open(testOptions(dir))
			if err == nil { // found when the bodies are read
				for _, id := range s.Logs() {
					err = errors.Join(err, s.Log(id).Recover(func(Recovered) error { return nil }))
				}
				s.Close()
			}
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v, %v", pattern, paths, err)
	}
	return paths
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 0x55
	writeFile(t, path, string(data))
}

// Each kind of value, damaged in each way, is named.
func TestCorruptValueIsNamed(t *testing.T) {
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
		"e": "continuation 1 of definition", "npage": `counter "page"`, "r": "delivery marks of queue",
	} {
		for how, mangle := range mangles {
			if mangle == nil && strings.Contains("adir", prefix) {
				continue // nothing refers to these
			}
			t.Run(prefix+" "+how, func(t *testing.T) {
				dir, queue := closedStore(t)
				tamper(t, dir, func(txn *badger.Txn) error {
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
				})
				s, err := Open(testOptions(dir))
				if err == nil {
					for _, id := range []uint64{queue, queue + 1} {
						err = errors.Join(err, s.Log(id).Recover(func(Recovered) error { return nil }))
					}
					err = errors.Join(err, s.Definitions(func(Definition) error { return nil }), s.Close())
				}
				if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), dir) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// A failed Open changes nothing: once the cause is gone, all is there, and the
// mark of the clean stop too.
func TestRefusedOpenChangesNothing(t *testing.T) {
	dir, queue := closedStore(t)
	var value []byte
	var key []byte
	set := func(flipped bool) {
		tamper(t, dir, func(txn *badger.Txn) error {
			it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefixAck}})
			it.Rewind()
			key = it.Item().KeyCopy(key[:0])
			var err error
			value, err = it.Item().ValueCopy(nil)
			it.Close()
			value[1] ^= 1
			return errors.Join(err, txn.Set(key, value))
		})
	}
	set(true)
	wantOpenError(t, dir, ErrCorrupt)
	set(false)
	s := openDir(t, dir)
	if !s.CleanStart() {
		t.Error("the mark of the clean stop is gone")
	}
	if n := len(recovered(t, s.Log(queue))); n != 99 {
		t.Errorf("%d messages", n)
	}
}

func TestUnusableFolders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "x")
	wantOpenError(t, file, nil, file)
	wantOpenError(t, filepath.Join(file, "below"), nil, file)
	if _, err := os.Stat("/proc/self/status"); err == nil {
		wantOpenError(t, "/proc/self", nil, "/proc/self", "writable")
	}
	if os.Getuid() != 0 {
		dir, _ := closedStore(t)
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(dir, 0o755)
		wantOpenError(t, dir, nil, dir, "writable")
	}
}

func TestForeignFilesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lost+found")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	mustClose(t, openDir(t, dir))
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// TestUnfinishedTable: a table that was being written when the process was
// killed is in no manifest; Badger removes it, and the store opens.
func TestUnfinishedTable(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "000099.sst"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
