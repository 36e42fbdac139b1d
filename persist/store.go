package persist

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

// ErrClosed is what waiters get that come after Close.
var ErrClosed = errors.New("the store is closed")

// Store is one open folder. Its methods and those of its logs may be called
// from any goroutine, unless they say otherwise.
type Store struct {
	// Immutable after Open.
	opts     Options
	db       *badger.DB
	clean    bool
	lossy    bool // the last run may have lost body pages from syncedTo on
	syncedTo uint64
	caps     caps
	logger   *badgerLogger
	guarded  bool // commits wait for room on the disk; not yet while Open writes

	wake     chan struct{} // for the committer, one slot
	bgWake   chan struct{} // for the background goroutine, one slot
	bgStop   chan struct{}
	closing  chan struct{}
	finished sync.WaitGroup
	gcMu     sync.Mutex // one collection at a time; Badger's Flatten takes no company
	// moving keeps readers of pages and rewrites apart: a rewrite changes pages
	// in memory a commit earlier than on disk. Before mu in the lock order.
	moving    sync.RWMutex
	syncMu    sync.Mutex // makes syncFiles one at a time
	syncedLog int        // guarded by syncMu: the value log file up to which all is synced
	closeMu   sync.Mutex // makes Close once and waited for
	closeErr  error

	backlog atomic.Int64 // sum of the weights of batches not finished
	fatal   atomic.Pointer[error]
	counts  counts

	transient *Transient

	// mu is the last lock of the broker. Nothing is called and no disk is
	// touched under it, except Payload.HeadSize and Payload.Body.
	mu sync.Mutex

	// Guarded by mu.
	open       *batch
	queued     []*batch // closed by a cap, oldest first
	committing *batch
	logs       map[uint64]*Log
	dropping   []*Log               // cleared by the background goroutine, first to last
	bodies     map[uint64]*bodyPage // by id of each part
	trimming   []*Stream            // with keys that the background goroutine deletes
	pieces     map[string]int       // continuation keys of large definitions, by key
	pageIDs    counter
	queueIDs   counter
	liveBytes  int64 // bytes of messages on body pages that are not gone
	livePages  int64
	deadBytes  int64 // bytes of messages on body pages gone since the last collection
	closed     bool

	sparse  []*bodyPage // perhaps worth a rewrite
	merging []*Log      // perhaps with index pages worth a rewrite

	freeBatches []*batch
	freePages   []*indexPage
	freeEntries [][]entry
	freeSlots   int // their capacity together
	bodyScratch []*bodyPage

	// Guarded by recoverMu.
	recoverMu   sync.Mutex
	unrecovered map[uint64]struct{} // logs on disk that Recover was not called for
	shared      map[*bodyPage]bool  // pages that several of them refer to
	records     map[place]*storedRecord
	marks       map[uint64]map[uint64]Mark
	surveys     map[uint64]*survey // of logs that neither Survey nor Recover was called for

	// Owned by the committer.
	writer writer
}

// caps are the limits from which a batch is closed.
type caps struct {
	slots, ops int
	bytes      int64
}

// capsOf leaves a fifth of what a transaction takes for what count does not
// foresee: a counter, a mark.
func capsOf(db *badger.DB) caps {
	return caps{
		slots: batchSlots,
		ops:   int(db.MaxBatchCount() * 4 / 5),
		bytes: db.MaxBatchSize() * 4 / 5,
	}
}

// CleanStart says whether the last stop was a Close that went well, or the
// store is new. After any other stop every message may have been delivered
// before, and Recovered.Redelivered is set for all.
func (s *Store) CleanStart() bool { return s.clean }

// Backlog is the number of bytes that wait for a commit: bodies, heads and 64
// bytes a message. Publishers are to be held when it grows beyond what the
// caller allows; the store itself accepts everything.
func (s *Store) Backlog() int64 { return s.backlog.Load() }

// failure is why nothing is written any more, or nil.
func (s *Store) failure() error {
	if p := s.fatal.Load(); p != nil {
		return *p
	}
	return nil
}

// fail makes err the end of all writing and tells the owner once. Called with
// no lock held, from the committer, the background goroutine or Badger's.
func (s *Store) fail(err error) {
	err = fmt.Errorf("store in %s has failed: %w", s.opts.Dir, err)
	if !s.fatal.CompareAndSwap(nil, &err) {
		return
	}
	s.opts.Logger.Error("the store has failed, nothing is written any more", "dir", s.opts.Dir, "error", err)
	if s.opts.OnFatal != nil {
		s.opts.OnFatal(err)
	}
}

// at is a commit point: a place at which a kill is worth a test. It runs the
// test's probe.
func (s *Store) at(point string) error {
	crashPoint(point)
	if s.opts.probe == nil {
		return nil
	}
	return s.opts.probe(point)
}

// Barrier calls w.Stored once everything that was submitted before it is
// durable; at once, on the caller's goroutine, when nothing is outstanding.
func (s *Store) Barrier(w Waiter, token uint64) {
	n := notice{waiter: w, token: token}
	s.mu.Lock()
	switch {
	case s.closed:
		n.err = s.refusal()
	case !s.open.isEmpty():
		s.open.notices = append(s.open.notices, n)
		s.open.force = true
		s.touched(s.open, true)
		s.mu.Unlock()
		return
	case len(s.queued) > 0:
		last := s.queued[len(s.queued)-1]
		last.notices = append(last.notices, n)
		s.mu.Unlock()
		return
	case s.committing != nil:
		s.committing.notices = append(s.committing.notices, n)
		s.mu.Unlock()
		return
	default:
		n.err = s.failure()
	}
	s.mu.Unlock()
	deliver([]notice{n})
}

// refusal is why a closed store takes nothing. Called with mu held.
func (s *Store) refusal() error {
	if err := s.failure(); err != nil {
		return err
	}
	return ErrClosed
}
