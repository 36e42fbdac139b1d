package persist

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// lostStream is a stream of twenty chunks of ten messages each in a store that
// was killed and lost the end of its value log.
func lostStream(t testing.TB, o Options, keep float64) (id uint64) {
	t.Helper()
	s := mustOpen(t, o)
	l := s.Log(s.NextID())
	for i := range uint64(20) {
		bodies := make([]string, 10)
		for j := range bodies {
			bodies[j] = strings.Repeat(fmt.Sprint(i), 1000)
		}
		appendRun(t, l.Stream(), 10*i, bodies...)
	}
	abandon(t, s)
	cutValueLog(t, o.Dir, keep)
	return l.ID()
}

// What was not synced and is lost ends a stream, with a line that says so; the
// stream goes on from there.
func TestUnsyncedChunksAreDropped(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncInterval, SyncNever} {
		var log bytes.Buffer
		o := quiet(t)
		o.Sync, o.SyncInterval = policy, time.Hour
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		id := lostStream(t, o, 0.55)
		s := mustOpen(t, o)
		st := s.Log(id).Stream()
		chunks := chunksOf(t, st)
		if n := len(chunks); n < 8 || n > 13 || !strings.HasPrefix(chunks[n-1], fmt.Sprint(10*(n-1), "+10")) {
			t.Fatalf("%s: chunks %v", policy, chunks)
		}
		if want := fmt.Sprint("messages=", 10*(20-len(chunks))); !strings.Contains(log.String(), want) {
			t.Errorf("%s: log: %s", policy, log.String())
		}
		appendRun(t, st, uint64(10*len(chunks)), "on")
		s = crash(t, s)
		if got := chunksOf(t, s.Log(id).Stream()); len(got) != len(chunks)+1 {
			t.Errorf("%s: chunks after another crash: %v", policy, got)
		}
		if n := strings.Count(log.String(), "are lost"); n != 1 {
			t.Errorf("%s: told %d times", policy, n)
		}
		waitCount(t, s, 't', len(chunks)+1)
	}
}

// Under the policy that syncs every commit the same is damage.
func TestSyncedChunksAreNotDropped(t *testing.T) {
	o := quiet(t)
	id := lostStream(t, o, 0.55)
	s, err := Open(o)
	if err == nil {
		defer s.Close()
		_, _, err = s.Log(id).Stream().At(190, nil)
	}
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("opened and read with %v", err)
	}
}
