package persist

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func newTransient(t testing.TB) (*Transient, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pages")
	tr, err := NewTransient(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr, dir
}

func pageFiles(t testing.TB, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return len(entries)
}

// eventually waits for what happens in the background.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("waited in vain: %s", what)
}

// Pages come back as they were written, from several goroutines, and a file
// goes with its last page.
func TestTransientPages(t *testing.T) {
	tr, dir := newTransient(t)
	if pageFiles(t, dir) != 0 {
		t.Fatal("there is a file before the first write")
	}
	var mu sync.Mutex
	var places []Place
	var wg sync.WaitGroup
	page := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 1<<20+i) }
	for w := range 4 {
		wg.Go(func() {
			for i := range 20 {
				p, err := tr.Write(page(w*20 + i))
				if err != nil {
					t.Error(err)
					return
				}
				var buf []byte
				if buf, err = tr.Read(p, buf); err != nil || !bytes.Equal(buf, page(w*20+i)) {
					t.Errorf("page %d came back changed: %v", w*20+i, err)
				}
				mu.Lock()
				places = append(places, p)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	files, size := tr.Usage()
	if files < 80<<20/transientFileBytes || size < 80<<20 || pageFiles(t, dir) != files {
		t.Fatalf("%d files of %d bytes, %d in the folder", files, size, pageFiles(t, dir))
	}
	for _, p := range places {
		if p.IsZero() {
			t.Fatal("a page has the zero place")
		}
		tr.Free(p)
	}
	eventually(t, "the files go", func() bool { return pageFiles(t, dir) == 0 })
	if files, size := tr.Usage(); files != 0 || size != 0 {
		t.Fatalf("%d files of %d bytes are left", files, size)
	}
	p, err := tr.Write([]byte("again"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := tr.Read(p, nil); err != nil || string(b) != "again" {
		t.Fatalf("%q, %v", b, err)
	}
}

// A damaged page is an error that names the file, not other bytes.
func TestDamagedTransientPage(t *testing.T) {
	tr, dir := newTransient(t)
	p, err := tr.Write([]byte("some bytes"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "00000001.pages")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[3] ^= 1
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Read(p, nil); !errors.Is(err, errChecksum) || !strings.Contains(err.Error(), name) {
		t.Fatalf("read of a damaged page: %v", err)
	}
	if err := os.Truncate(name, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Read(p, nil); err == nil {
		t.Fatal("a page that was cut short is read")
	}
}

// Transient pages do not survive a stop, clean or not, and are not counted as
// damage.
func TestTransientPagesGoAtOpen(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	if _, err := s.Transient().Write([]byte("page")); err != nil {
		t.Fatal(err)
	}
	pages := filepath.Join(dir, transientFolder)
	if pageFiles(t, pages) != 1 {
		t.Fatal("the page is not in the store's folder")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if pageFiles(t, pages) != 0 {
		t.Fatal("the page is there after Close")
	}
	if _, err := s.Transient().Write([]byte("page")); !errors.Is(err, ErrClosed) {
		t.Fatalf("write after Close: %v", err)
	}
	if err := os.MkdirAll(pages, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(pages, "00000001.pages"), []byte("left by a kill"), 0o644); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, dir)
	if pageFiles(t, pages) != 0 {
		t.Fatal("the page of a run that was killed is there after Open")
	}
	if p, err := s.Transient().Write([]byte("new")); err != nil || p.IsZero() {
		t.Fatalf("first write after Open: %v", err)
	}
}

// A write that fails keeps nothing, and the next one may succeed.
func TestTransientWriteFails(t *testing.T) {
	tr, dir := newTransient(t)
	if err := os.WriteFile(dir, nil, 0o644); err != nil { // where the folder would be
		t.Fatal(err)
	}
	if p, err := tr.Write([]byte("page")); err == nil || !p.IsZero() {
		t.Fatalf("wrote without a folder: %v, %v", p, err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Write([]byte("page")); err != nil {
		t.Fatal(err)
	}
}
