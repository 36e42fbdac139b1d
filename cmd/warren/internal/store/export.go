package store

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/warrenmq/warren/persist"
)

// Export writes all definitions and messages of the store in dir to a file,
// which appears when it is complete; "-" is stdout.
func Export(dir, path string, stdout io.Writer, log *slog.Logger) error {
	r, err := persist.OpenReader(persist.Options{Dir: dir, Logger: log})
	if err != nil {
		return err
	}
	if path == "-" {
		_, err = export(r, stdout)
		return errors.Join(err, r.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*.tmp")
	if err != nil {
		return errors.Join(fmt.Errorf("write export: %w", err), r.Close())
	}
	t, err := export(r, f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close(), r.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write export: %w", err), os.Remove(f.Name()))
	}
	fmt.Fprintf(stdout, "%s: %v\n", path, t)
	return nil
}

// exporter writes one export.
type exporter struct {
	r      *persist.Reader
	out    *json.Encoder
	totals totals
	marks  map[uint64]map[uint64]persist.Mark
	// returns are those of messages of which Log.SaveReturns has kept some.
	returns map[uint64]map[uint64]persist.Returns
	shared  map[persist.Address]uint64 // numbers of messages that several queues may have
}

func export(r *persist.Reader, to io.Writer) (totals, error) {
	w := bufio.NewWriterSize(to, 1<<20)
	e := &exporter{r: r, out: json.NewEncoder(w), marks: map[uint64]map[uint64]persist.Mark{}, returns: map[uint64]map[uint64]persist.Returns{}, shared: map[persist.Address]uint64{}}
	e.out.SetEscapeHTML(false)
	next, err := r.NextID()
	if err != nil {
		return e.totals, err
	}
	if err := e.out.Encode(line{Header: &header{exportFormat, next}}); err != nil {
		return e.totals, err
	}
	if err := r.Definitions(e.definition); err != nil {
		return e.totals, err
	}
	if err := r.Marks(e.mark); err != nil {
		return e.totals, err
	}
	if err := r.Returns(e.returned); err != nil {
		return e.totals, err
	}
	if err := r.Index(e.message); err != nil {
		return e.totals, err
	}
	if err := r.Chunks(true, e.chunk); err != nil {
		return e.totals, err
	}
	if err := e.out.Encode(line{End: &e.totals}); err != nil {
		return e.totals, err
	}
	return e.totals, w.Flush()
}

func (e *exporter) definition(d persist.Definition) error {
	e.totals.Definitions++
	l := fromDefinition(d)
	return e.out.Encode(line{Definition: &l})
}

func (e *exporter) mark(log uint64, m persist.Mark) error {
	if e.marks[log] == nil {
		e.marks[log] = map[uint64]persist.Mark{}
	}
	e.marks[log][m.Seq] = m
	return nil
}

func (e *exporter) returned(log uint64, n persist.Returns) error {
	if e.returns[log] == nil {
		e.returns[log] = map[uint64]persist.Returns{}
	}
	e.returns[log][n.Seq] = n
	return nil
}

func (e *exporter) chunk(log uint64, c persist.StoredChunk, _ int64) error {
	e.totals.Chunks++
	l, err := fromChunk(log, c)
	if err != nil {
		return err
	}
	return e.out.Encode(line{Chunk: &l})
}

func (e *exporter) message(m persist.Indexed) error {
	e.totals.Messages++
	mark, returns := e.marks[m.Log][m.Seq], e.returns[m.Log][m.Seq]
	l := message{
		Log: m.Log, Seq: m.Seq, Priority: m.Meta.Priority, Flags: m.Meta.Flags, Expiry: m.Meta.Expiry,
		// After a stop that was not clean any message may have been delivered.
		Redelivered: mark.Redelivered || !e.r.CleanStop(), DeliveryCount: mark.DeliveryCount,
		Returned: returns.Total, Failed: returns.Failed,
	}
	if m.Shared {
		n, known := e.shared[m.Address]
		if !known {
			n = uint64(len(e.shared) + 1)
			e.shared[m.Address] = n
		}
		if l.Shared = n; known {
			return e.out.Encode(line{Message: &l})
		}
	}
	head, body, err := e.r.Bytes(m)
	if err != nil {
		return err
	}
	c := describe(head, body)
	l.Content = &c
	return e.out.Encode(line{Message: &l})
}
