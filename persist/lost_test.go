package persist

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cutValueLog takes away the end of what was written last, as a power loss may
// do when nothing was synced.
func cutValueLog(t testing.TB, dir string, keep float64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil {
		t.Fatal(err)
	}
	for i := len(paths) - 1; i >= 0; i-- {
		info, err := os.Stat(paths[i])
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 1000 {
			if err := os.Truncate(paths[i], int64(float64(info.Size())*keep)); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("there is nothing in the value log")
}

// lostStore is a store that was killed and lost the end of its value log: of
// ten commits of ten messages, those from some commit on, and what was settled
// before is settled. Its log is the id's.
func lostStore(t testing.TB, o Options, keep float64) (id uint64) {
	t.Helper()
	s := mustOpen(t, o)
	l := s.Log(s.NextID())
	appendAll(t, s, l, 1, 100, 10)
	l.Settle(2, 99)
	barrier(t, s)
	abandon(t, s)
	cutValueLog(t, o.Dir, keep)
	return l.ID()
}

// What was not synced and is lost is dropped, with a line that says so; what is
// there stays, in order.
func TestUnsyncedBodiesAreDropped(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncInterval, SyncNever} {
		t.Run(policy.String(), func(t *testing.T) {
			var log bytes.Buffer
			o := quiet(t)
			o.Sync, o.SyncInterval = policy, time.Hour
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			id := lostStore(t, o, 0.55)
			s := mustOpen(t, o)
			if !strings.Contains(log.String(), "messages are lost") || !strings.Contains(log.String(), "messages=49") {
				t.Errorf("log: %s", log.String())
			}
			want := []uint64{1}
			for seq := uint64(3); seq <= 50; seq++ {
				want = append(want, seq)
			}
			checkWindows(t, s.Log(id)) // what is lost is in no survey
			wantSeqs(t, s.Log(id), want)
			barrier(t, s)
			s = crash(t, s)
			wantSeqs(t, s.Log(id), want)
			if n := strings.Count(log.String(), "messages are lost"); n != 1 {
				t.Errorf("told %d times", n)
			}
			appendAll(t, s, s.Log(id), 101, 110, 10)
			s = reopen(t, s)
			s.Log(id).Settle(append(want, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110)...)
			barrier(t, s)
			wantNoKeys(t, s, messageKeys)
			if st := s.Stats(); st.BodyPages != 0 || st.LiveBytes != 0 || st.IndexPages != 0 {
				t.Errorf("left: %+v", st)
			}
		})
	}
}

// Under the policy that syncs every commit the same is damage, and so it is for
// what an interval's sync had reached.
func TestSyncedBodiesAreNotDropped(t *testing.T) {
	t.Run("always", func(t *testing.T) {
		o := quiet(t)
		id := lostStore(t, o, 0.55)
		wantDamaged(t, o, id)
	})
	t.Run("interval", func(t *testing.T) {
		o := quiet(t)
		o.Sync, o.SyncInterval = SyncInterval, time.Millisecond
		s := mustOpen(t, o)
		l := s.Log(s.NextID())
		appendAll(t, s, l, 1, 100, 10)
		deadline := time.Now().Add(20 * time.Second)
		for {
			s.mu.Lock()
			next := s.pageIDs.next
			s.mu.Unlock()
			if synced, _, err := s.number(counterSynced); err != nil {
				t.Fatal(err)
			} else if synced == next {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("syncs are not noted")
			}
			time.Sleep(time.Millisecond)
		}
		commits := s.Stats().Commits
		time.Sleep(20 * time.Millisecond)
		if n := s.Stats().Commits; n > commits+1 {
			t.Errorf("%d commits of a store that has nothing to do", n-commits)
		}
		abandon(t, s)
		cutValueLog(t, o.Dir, 0.55)
		wantDamaged(t, o, l.ID())
	})
}

func wantDamaged(t *testing.T, o Options, id uint64) {
	t.Helper()
	s, err := Open(o)
	if err == nil {
		defer s.Close()
		err = s.Log(id).Recover(func(Recovered) error { return nil })
	}
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("opened with %v", err)
	}
}

// A folder that changes from one policy to another keeps what it has.
func TestChangeOfSyncPolicy(t *testing.T) {
	o := quiet(t)
	id := uint64(0)
	var want []uint64
	for i, policy := range []SyncPolicy{SyncNever, SyncAlways, SyncInterval, SyncAlways, SyncNever} {
		o.Sync = policy
		s := mustOpen(t, o)
		if id == 0 {
			id = s.NextID()
		}
		l := s.Log(id)
		wantSeqs(t, l, want)
		first := uint64(i*10 + 1)
		appendAll(t, s, l, first, first+9, 5)
		for seq := first; seq < first+10; seq++ {
			want = append(want, seq)
		}
		if has, err := s.has(counterSynced); err != nil || has != (policy != SyncAlways) {
			t.Errorf("%s: %v %v", policy, has, err)
		}
		if i%2 == 0 {
			abandon(t, s)
		} else {
			mustClose(t, s)
		}
	}
}
