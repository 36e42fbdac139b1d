package persist

import (
	"bytes"
	"runtime"
	"sync"
	"testing"
)

// A body of 128 MiB goes to disk in parts: beside the caller's own copy there
// are never more than a few of them in memory, and none once it is written.
func TestLargeBodyIsNotCopied(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var mu sync.Mutex
	peak, parts := uint64(0), 0
	o := testOptions(t.TempDir())
	o.Sync = SyncNever
	o.probe = func(point string) error {
		mu.Lock()
		defer mu.Unlock()
		if point == "ahead" || point == "committed" {
			parts++
			peak = max(peak, heap())
		}
		return nil
	}
	s := mustOpen(t, o)
	l, w := s.Log(s.NextID()), newWaiter()
	const size = 128 << 20
	m := &message{head: []byte("head"), body: bytes.Repeat([]byte("0123456789abcdef"), size/16)}
	m.Init(m, w, 1)
	before := heap()
	l.Append(1, &m.Record, Meta{})
	w.wait(t, 1)
	mu.Lock()
	defer mu.Unlock()
	if parts < size/aheadBytes {
		t.Errorf("written in %d parts", parts)
	}
	if peak > before+2*aheadBytes {
		t.Errorf("%d MiB beside the body while it was written", (peak-before)>>20)
	}
	if after := heap(); after > before+2*keepBuffer+1<<20 {
		t.Errorf("%d MiB kept of a body that is written", (after-before)>>20)
	}
	err := l.Recover(func(r Recovered) error {
		if !bytes.Equal(r.Body, m.body) || string(r.Head) != "head" {
			t.Error("the body has changed")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
