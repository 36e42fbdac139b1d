package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/persist"
)

// ErrProblems is what Check ends with when the store is damaged; the problems
// themselves are on its output.
var ErrProblems = errors.New("the store is damaged")

// Check reads all of the store in dir, prints each problem on a line, and says
// what was looked at.
func Check(dir string, out io.Writer, log *slog.Logger) error {
	r, err := persist.OpenReader(persist.Options{Dir: dir, Logger: log})
	if err != nil {
		return err
	}
	n := 0
	c := r.Check(broker.CheckDefinition, func(problem error) {
		n++
		fmt.Fprintln(out, problem)
	})
	if err := r.Close(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d definitions, %d messages, %d messages of streams, %d index pages, %d body pages, %d bytes: ",
		dir, c.Definitions, c.Messages, c.StreamMessages, c.IndexPages, c.BodyPages, c.Bytes)
	if c.Lost > 0 {
		fmt.Fprintf(out, "%d messages lost that had not been synced, ", c.Lost)
	}
	if n == 0 {
		fmt.Fprintln(out, "no problems")
		return nil
	}
	fmt.Fprintf(out, "%d problems\n", n)
	return fmt.Errorf("%w: %d problems in %s; restore the folder from a backup, or save what can be read with warren store export", ErrProblems, n, dir)
}

// Report is what fills a store.
type Report struct {
	Dir         string         `json:"dir"`
	CleanStop   bool           `json:"clean_stop"`
	Definitions map[string]int `json:"definitions"` // by kind
	Queues      []QueueReport  `json:"queues"`      // most bytes first
	Messages    int64          `json:"messages"`    // in all queues
	IndexPages  int            `json:"index_pages"`
	BodyPages   int            `json:"body_pages"`
	BodyBytes   int64          `json:"body_bytes"` // on body pages
	LiveBytes   int64          `json:"live_bytes"` // of messages, each once
	DeadBytes   int64          `json:"dead_bytes"` // the rest of BodyBytes
	DiskBytes   int64          `json:"disk_bytes"` // all files
}

// QueueReport is what a queue keeps in the store.
type QueueReport struct {
	Of       string `json:"of"` // queue, or exchange for those that keep messages
	VHost    string `json:"vhost"`
	Name     string `json:"name"`
	Messages int64  `json:"messages"`
	Bytes    int64  `json:"bytes"` // properties and bodies, also if other queues share them
}

// Measure reads what fills the store in dir.
func Measure(dir string, log *slog.Logger) (Report, error) {
	r, err := persist.OpenReader(persist.Options{Dir: dir, Logger: log})
	if err != nil {
		return Report{}, err
	}
	report, err := measure(r)
	report.Dir = dir
	return report, errors.Join(err, r.Close())
}

func measure(r *persist.Reader) (Report, error) {
	report := Report{CleanStop: r.CleanStop(), Definitions: map[string]int{}}
	queues := map[uint64]*QueueReport{}
	err := r.Definitions(func(d persist.Definition) error {
		report.Definitions[broker.KindName(d.Kind)]++
		for _, log := range broker.StoredLogs(d) {
			queues[log] = &QueueReport{VHost: d.VHost, Name: d.Name, Of: broker.KindName(d.Kind)}
		}
		return nil
	})
	if err != nil {
		return report, err
	}
	add := func(log uint64, messages, bytes int64) {
		q := queues[log]
		if q == nil {
			q = &QueueReport{Name: fmt.Sprint("log ", log), Of: "nothing"}
			queues[log] = q
		}
		q.Messages += messages
		q.Bytes += bytes
		report.Messages += messages
	}
	err = r.Index(func(m persist.Indexed) error {
		add(m.Log, 1, int64(m.HeadSize)+int64(m.BodySize))
		return nil
	})
	if err != nil {
		return report, err
	}
	err = r.Chunks(false, func(log uint64, c persist.StoredChunk, size int64) error {
		add(log, int64(c.Count), size)
		return nil
	})
	if err != nil {
		return report, err
	}
	for _, q := range queues {
		report.Queues = append(report.Queues, *q)
	}
	slices.SortFunc(report.Queues, byBytes)
	sp, err := r.Space()
	report.IndexPages, report.BodyPages, report.DiskBytes = sp.IndexPages, sp.BodyPages, sp.DiskBytes
	report.BodyBytes, report.LiveBytes, report.DeadBytes = sp.BodyBytes, sp.LiveBytes, sp.BodyBytes-sp.LiveBytes
	return report, err
}
