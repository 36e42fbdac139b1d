package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// byBytes orders queues by what they take, most first.
func byBytes(x, y QueueReport) int {
	return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(y.Messages, x.Messages), cmp.Compare(x.VHost, y.VHost), cmp.Compare(x.Name, y.Name))
}

// WriteJSON prints a report as one JSON object.
func (r *Report) WriteJSON(out io.Writer) error { return json.NewEncoder(out).Encode(r) }

// WriteText prints a report for people; empty queues are counted only.
func (r *Report) WriteText(out io.Writer) error {
	stop := "cleanly"
	if !r.CleanStop {
		stop = "without Close: killed, or the machine was"
	}
	fmt.Fprintf(out, "store %s, stopped %s\n\ndefinitions\n", r.Dir, stop)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, kind := range slices.Sorted(maps.Keys(r.Definitions)) {
		fmt.Fprintf(w, "  %s\t%d\n", kind, r.Definitions[kind])
	}
	fmt.Fprintf(w, "\npages\n  index\t%d\n  bodies\t%d\n", r.IndexPages, r.BodyPages)
	fmt.Fprintf(w, "\nbytes\n  of messages\t%d\n  dead, on the same pages\t%d\n  of files on disk\t%d\n", r.LiveBytes, r.DeadBytes, r.DiskBytes)
	fmt.Fprintf(w, "\nqueues\tvhost\tmessages\tbytes\tof\n")
	empty := 0
	for _, q := range r.Queues {
		if q.Messages == 0 {
			empty++
			continue
		}
		fmt.Fprintf(w, "  %q\t%q\t%d\t%d\t%s\n", q.Name, q.VHost, q.Messages, q.Bytes, q.Of)
	}
	if empty > 0 {
		fmt.Fprintf(w, "  %d without messages\n", empty)
	}
	return w.Flush()
}
