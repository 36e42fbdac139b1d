package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/persist"
)

// building is the folder, inside the one that is imported into, in which the
// store is made.
const building = ".importing"

// lastFile is Badger's list of files. A folder that has files of a store but
// not this one is refused by everything that opens stores.
const lastFile = "MANIFEST"

// Import makes a store in dir, which must be empty or not there, of an export.
// The whole file is read and checked before anything is written, and what is
// written is checked before it is put in place: after an error the folder is as
// it was.
func Import(dir, path string, out io.Writer, log *slog.Logger) error {
	fresh, err := mustBeEmpty(dir)
	if err != nil {
		return err
	}
	if _, err := eachLine(path, func(*line) error { return nil }); err != nil {
		return err
	}
	temp := filepath.Join(dir, building)
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return fmt.Errorf("make folder %s: %w", temp, err)
	}
	t, err := build(temp, path, log)
	if err == nil {
		err = install(temp, dir)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("import into %s: %w", dir, err), os.RemoveAll(temp))
		if fresh {
			err = errors.Join(err, os.Remove(dir))
		}
		return err
	}
	fmt.Fprintf(out, "%s: %v\n", dir, t)
	return nil
}

// mustBeEmpty refuses a folder with anything in it. fresh: there is none.
func mustBeEmpty(dir string) (fresh bool, err error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("import: %w", err)
	}
	for _, e := range entries {
		if e.Name() == "lost+found" { // of a file system of its own
			continue
		}
		return false, fmt.Errorf("import: %s is not empty, it has %s; give a new folder, or move what is there away", dir, e.Name())
	}
	return false, nil
}

// eachLine reads an export and checks it line by line; fn gets the definitions
// and messages. Errors name file and line.
func eachLine(path string, fn func(*line) error) (t totals, err error) {
	l, err := openLines(path)
	if err != nil {
		return t, err
	}
	defer l.file.Close()
	v := validator{seqs: map[uint64]uint64{}, shared: map[uint64]bool{}, offsets: map[uint64]uint64{}}
	for {
		next, err := l.next()
		if err == io.EOF {
			if !v.ended {
				return v.totals, l.fault(errors.New("the file is cut short: its last line is not an end"))
			}
			return v.totals, nil
		}
		if err != nil {
			return v.totals, err
		}
		if err := v.check(next); err != nil {
			return v.totals, l.fault(err)
		}
		if err := fn(next); err != nil {
			return v.totals, l.fault(err)
		}
	}
}

// validator checks lines one after the other.
type validator struct {
	totals totals
	begun  bool
	ended  bool
	seqs   map[uint64]uint64 // by log, the last one
	shared map[uint64]bool   // numbers that had a content
	// offsets is where the next chunk of a log begins.
	offsets map[uint64]uint64
}

func (v *validator) check(l *line) error {
	switch {
	case v.ended:
		return errors.New("something follows the end")
	case !v.begun != (l.Header != nil):
		return errors.New("the first line, and only that, is warren_export")
	case l.Header != nil:
		v.begun = true
		if f := l.Header.Format; f < 1 || f > exportFormat {
			return fmt.Errorf("the export has format %d, this version reads up to %d; use the version that wrote it, or a newer one", f, exportFormat)
		}
	case l.Definition != nil:
		v.totals.Definitions++
		d, err := l.Definition.stored()
		if err != nil {
			return err
		}
		if v.totals.Messages+v.totals.Chunks > 0 {
			return errors.New("definitions come before messages")
		}
		return broker.CheckDefinition(d)
	case l.Message != nil:
		v.totals.Messages++
		return v.message(l.Message)
	case l.Chunk != nil:
		return v.chunk(l.Chunk)
	case l.End != nil:
		v.ended = true
		if *l.End != v.totals {
			return fmt.Errorf("the file should have %v, but has %v", *l.End, v.totals)
		}
	}
	return nil
}

func (v *validator) message(m *message) error {
	last, seen := v.seqs[m.Log]
	switch {
	case seen && m.Seq <= last, m.Seq >= 1<<63:
		return fmt.Errorf("message %d of log %d is out of order", m.Seq, m.Log)
	case m.Log == 0 || m.Log >= 1<<63:
		return fmt.Errorf("%d is no log", m.Log)
	case m.Shared == 0 && m.Content == nil:
		return errors.New("the message has no content")
	case m.Shared != 0 && v.shared[m.Shared] == (m.Content != nil):
		return fmt.Errorf("of the messages that share content %d the first one has it, and no other", m.Shared)
	}
	v.seqs[m.Log] = m.Seq
	if m.Content == nil {
		return nil
	}
	if m.Shared != 0 {
		v.shared[m.Shared] = true
	}
	head, err := m.Content.head()
	if err == nil && len(head)+len(m.Content.Body) > persist.MaxRecordBytes {
		err = fmt.Errorf("the message is larger than %d bytes", persist.MaxRecordBytes)
	}
	return err
}

// record is a message that is being written; its bytes are let go once they
// are.
type record struct {
	persist.Record
	head, body []byte
}

func (r *record) HeadSize() int                { return len(r.head) }
func (r *record) AppendHead(dst []byte) []byte { return append(dst, r.head...) }
func (r *record) Body() []byte                 { return r.body }

// importer writes one store.
type importer struct {
	store   *persist.Store
	puts    []persist.Definition
	shared  map[uint64]*record
	pending []*record // not known to be written
	bytes   int       // of them
	marks   map[uint64][]persist.Mark
	nextID  uint64
}

// Bounds of what is gathered before it is waited for.
const (
	importDefinitions = 500
	importBytes       = 16 << 20
)

// build makes a store of an export and checks it.
func build(dir, path string, log *slog.Logger) (totals, error) {
	store, err := persist.Open(persist.Options{Dir: dir, Logger: log, Sync: persist.SyncNever})
	if err != nil {
		return totals{}, err
	}
	i := &importer{store: store, shared: map[uint64]*record{}, marks: map[uint64][]persist.Mark{}}
	t, err := eachLine(path, i.line)
	if err == nil {
		err = i.finish()
	}
	if err := errors.Join(err, store.Close()); err != nil {
		return t, err
	}
	r, err := persist.OpenReader(persist.Options{Dir: dir, Logger: log})
	if err != nil {
		return t, err
	}
	found := r.Check(broker.CheckDefinition, func(problem error) { err = errors.Join(err, problem) })
	if found.Definitions != t.Definitions || found.Messages != int64(t.Messages) {
		err = errors.Join(err, fmt.Errorf("%d definitions and %d messages were written instead of %d and %d",
			found.Definitions, found.Messages, t.Definitions, t.Messages))
	}
	return t, errors.Join(err, r.Close())
}

func (i *importer) line(l *line) error {
	switch {
	case l.Header != nil:
		i.nextID = l.Header.NextID
		i.store.SkipIDs(i.nextID)
	case l.Definition != nil:
		d, err := l.Definition.stored()
		if err != nil {
			return err
		}
		if i.puts = append(i.puts, d); len(i.puts) >= importDefinitions {
			return i.define()
		}
	case l.Message != nil:
		return i.message(l.Message)
	case l.Chunk != nil:
		return i.chunk(l.Chunk)
	}
	return nil
}

// define writes the definitions that were gathered.
func (i *importer) define() error {
	for _, d := range i.puts {
		for _, log := range broker.StoredLogs(d) {
			i.skip(log)
		}
	}
	done := make(chan error, 1)
	i.store.Update(i.puts, nil, nil, func(err error) { done <- err })
	i.puts = nil
	return <-done
}

// skip keeps a log's id from being handed out.
func (i *importer) skip(log uint64) {
	if log >= i.nextID {
		i.nextID = log + 1
		i.store.SkipIDs(i.nextID)
	}
}

func (i *importer) message(m *message) error {
	r := i.shared[m.Shared]
	if m.Content != nil {
		head, err := m.Content.head()
		if err != nil {
			return err
		}
		r = &record{head: head, body: m.Content.Body}
		r.Init(r, nil, 0)
		i.pending = append(i.pending, r)
		i.bytes += len(r.head) + len(r.body)
		if m.Shared != 0 {
			i.shared[m.Shared] = r
		}
	}
	i.skip(m.Log)
	i.store.Log(m.Log).Append(m.Seq, &r.Record, persist.Meta{Priority: m.Priority, Flags: m.Flags, Expiry: m.Expiry})
	if m.Returned != 0 || m.Failed != 0 {
		i.store.Log(m.Log).SaveReturns(persist.Returns{Seq: m.Seq, Total: m.Returned, Failed: m.Failed})
	}
	if m.Redelivered || m.DeliveryCount > 0 {
		i.marks[m.Log] = append(i.marks[m.Log], persist.Mark{Seq: m.Seq, Redelivered: m.Redelivered, DeliveryCount: m.DeliveryCount})
	}
	if i.bytes < importBytes {
		return nil
	}
	return i.flush()
}

// flush waits until all that was appended is written.
func (i *importer) flush() error {
	w := make(written, 1)
	i.store.Barrier(w, 0)
	if err := <-w; err != nil {
		return err
	}
	for _, r := range i.pending {
		r.head, r.body = nil, nil
	}
	i.pending, i.bytes = i.pending[:0], 0
	return nil
}

// written is a persist.Waiter for one goroutine.
type written chan error

// Stored implements persist.Waiter.
func (w written) Stored(_ uint64, err error) { w <- err }

// Flush implements persist.Waiter.
func (w written) Flush() {}

func (i *importer) finish() error {
	if err := errors.Join(i.define(), i.flush()); err != nil {
		return err
	}
	for log, marks := range i.marks {
		i.store.Log(log).SaveMarks(marks)
	}
	return nil
}

// install moves a finished store's files to their folder.
func install(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if e.Name() != lastFile {
			names = append(names, e.Name())
		}
	}
	for n, name := range append(names, lastFile) {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			for _, moved := range names[:min(n, len(names))] {
				err = errors.Join(err, os.Remove(filepath.Join(to, moved)))
			}
			return err
		}
	}
	return os.Remove(from)
}
