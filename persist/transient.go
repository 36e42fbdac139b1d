package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
)

// transientFolder is where transient pages lie, in the store's folder.
const transientFolder = "transient"

// transientFileBytes is the size from which a new file is begun. A file goes
// when the last page in it is freed, so one page kept for long pins this much
// disk.
const transientFileBytes = 32 << 20

// Transient keeps pages of bytes that need not survive a stop: what callers
// move out of memory to have it back later. Pages are appended to files of
// their own, without a sync, and not to Badger: they would be written to its
// log and its tables, compacted and collected, all for nothing. The files go
// at every Open and Close. Methods may be called from any goroutine; Write and
// Read touch the disk, Free does not.
type Transient struct {
	dir string

	mu sync.Mutex

	// Guarded by mu.
	current *transientFile // takes what is written; nil: the next write begins one
	files   map[*transientFile]struct{}
	number  int
	made    bool // the folder is there
	closed  bool
	spent   []*transientFile // to be removed
	reaping bool
	reapers sync.WaitGroup
}

// transientFile is one file of pages.
type transientFile struct {
	f *os.File
	// Guarded by Transient.mu.
	size int64
	live int // pages that were not freed
}

// Place is where a transient page lies. The zero value is no page.
type Place struct {
	file *transientFile
	off  int64
	size int
}

// IsZero says that there is no page.
func (p Place) IsZero() bool { return p.file == nil }

// NewTransient makes a keeper of pages in dir, which must not be used by
// anything else: what is in it goes. It is made on the first write.
func NewTransient(dir string) (*Transient, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("remove transient pages of the last run: %w", err)
	}
	return &Transient{dir: dir, files: make(map[*transientFile]struct{})}, nil
}

// Write keeps a page of at least one byte. On an error nothing is kept.
func (t *Transient) Write(page []byte) (Place, error) {
	sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(page, castagnoli))
	file, off, err := t.reserve(int64(len(page) + len(sum)))
	if err != nil {
		return Place{}, err
	}
	p := Place{file: file, off: off, size: len(page)}
	if _, err = file.f.WriteAt(page, off); err == nil {
		_, err = file.f.WriteAt(sum, off+int64(len(page)))
	}
	if err != nil {
		t.Free(p)
		return Place{}, fmt.Errorf("write a transient page: %w", err)
	}
	return p, nil
}

// reserve finds room for size bytes.
func (t *Transient) reserve(size int64) (*transientFile, int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, 0, ErrClosed
	}
	if t.current == nil {
		if err := t.begin(); err != nil {
			return nil, 0, fmt.Errorf("begin a file of transient pages: %w", err)
		}
	}
	file := t.current
	off := file.size
	file.size += size
	file.live++
	if file.size >= transientFileBytes {
		t.current = nil
	}
	return file, off, nil
}

// begin makes the next file. mu is held: once in transientFileBytes.
func (t *Transient) begin() error {
	if !t.made {
		if err := os.MkdirAll(t.dir, 0o755); err != nil {
			return err
		}
		t.made = true
	}
	t.number++
	f, err := os.OpenFile(filepath.Join(t.dir, fmt.Sprintf("%08d.pages", t.number)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	t.current = &transientFile{f: f}
	t.files[t.current] = struct{}{}
	return nil
}

// Read reads a page into buf, or into memory of its own when that is too
// small. The page stays until Free.
func (t *Transient) Read(p Place, buf []byte) ([]byte, error) {
	const sumBytes = crc32.Size
	if cap(buf) < p.size+sumBytes {
		buf = make([]byte, p.size+sumBytes)
	}
	buf = buf[:p.size+sumBytes]
	if _, err := p.file.f.ReadAt(buf, p.off); err != nil {
		return nil, fmt.Errorf("read a transient page: %w", err)
	}
	page := buf[:p.size]
	if binary.BigEndian.Uint32(buf[p.size:]) != crc32.Checksum(page, castagnoli) {
		return nil, fmt.Errorf("read a transient page in %s: %w", p.file.f.Name(), errChecksum)
	}
	return page, nil
}

// Free gives a page up. Its file goes with the last one, in the background.
func (t *Transient) Free(p Place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	file := p.file
	if file.live--; file.live > 0 || t.closed {
		return
	}
	if file.live < 0 {
		panic("persist: a transient page was freed twice")
	}
	if file == t.current {
		t.current = nil
	}
	delete(t.files, file)
	t.spent = append(t.spent, file)
	if !t.reaping {
		t.reaping = true
		t.reapers.Add(1)
		go t.reap()
	}
}

// reap removes spent files: callers of Free hold locks.
func (t *Transient) reap() {
	defer t.reapers.Done()
	for {
		t.mu.Lock()
		spent := t.spent
		t.spent = nil
		t.reaping = len(spent) > 0
		t.mu.Unlock()
		if len(spent) == 0 {
			return
		}
		for _, file := range spent {
			// What cannot be removed now goes at the next start.
			_ = errors.Join(os.Remove(file.f.Name()), file.f.Close())
		}
	}
}

// Usage is the number of files and their bytes.
func (t *Transient) Usage() (files int, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for file := range t.files {
		bytes += file.size
	}
	return len(t.files), bytes
}

// Close removes everything. Pages must not be read any more.
func (t *Transient) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.reapers.Wait()
	var err error
	for file := range t.files {
		err = errors.Join(err, file.f.Close())
	}
	clear(t.files)
	if err = errors.Join(err, os.RemoveAll(t.dir)); err != nil {
		return fmt.Errorf("remove transient pages: %w", err)
	}
	return nil
}
