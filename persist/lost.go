package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dgraph-io/badger/v4"
)

// Under SyncInterval and SyncNever a power loss takes what was not synced, in
// no order: the operating system may have written the memtable's log, which
// refers to a body, and not the value log, which has it. Under these policies
// the store keeps, under counterSynced, the first body page that no sync is
// known to have reached. A start after anything but a clean stop then looks
// which of the pages from there on are still there, and drops the messages of
// those that are not. Under SyncAlways such a page is damage.

// readSynced learns whether the last run may have lost what it did not sync.
func (s *Store) readSynced() error {
	from, found, err := s.number(counterSynced)
	s.lossy, s.syncedTo = found && !s.clean, from
	return err
}

// markSynced is the write that notes, or takes back, how far syncs are known
// to have reached. For Open, which syncs everything.
func (s *Store) markSynced() rawOp {
	if s.opts.Sync == SyncAlways {
		return rawOp{key: counterSynced, delete: true}
	}
	s.writer.marked = s.pageIDs.next
	return syncedOp(s.pageIDs.next)
}

func syncedOp(page uint64) rawOp {
	return rawOp{key: counterSynced, value: appendFrame(nil, counterSynced, binary.BigEndian.AppendUint64(nil, page))}
}

// synced notes that a sync has reached every page before the next one. Called
// by the committer, while no batch is being committed.
func (s *Store) synced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := len(s.open.moves) > 0
	for _, b := range s.queued {
		pending = pending || len(b.moves) > 0
	}
	// Pages of a rewrite that waits have ids already.
	if pending || s.closed || s.pageIDs.next == s.writer.marked {
		return
	}
	s.writer.marked = s.pageIDs.next
	op := syncedOp(s.pageIDs.next)
	b := s.room(1, op.weight(), 0)
	b.raw = append(b.raw, op)
	b.count(1, op.weight())
	s.touched(b, false)
}

// syncFiles syncs what was written since it was last called. Badger's own Sync
// is about its newest files only, and those before it does not sync when
// SyncWrites is off. Called by one goroutine at a time (syncMu).
func (s *Store) syncFiles() error {
	s.syncMu.Lock()
	defer s.syncMu.Unlock()
	if err := s.db.Sync(); err != nil {
		return err
	}
	newest := s.syncedLog
	for _, pattern := range []string{"*.vlog", "*.mem"} {
		paths, err := filepath.Glob(filepath.Join(s.opts.Dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range paths {
			number, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
			if filepath.Ext(path) == ".vlog" {
				if number < s.syncedLog {
					continue
				}
				newest = max(newest, number)
			}
			if err := syncFile(path); err != nil {
				return err
			}
		}
	}
	s.syncedLog = newest
	return nil
}

// syncFile syncs one file. One that is gone had nothing in it that is needed.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}

// keepOldFiles holds Badger off removing value log files that it has rewritten,
// until release, which syncs first: what was moved out of them has not been
// synced when SyncWrites is off. Badger keeps files while there is an iterator.
func (s *Store) keepOldFiles() (release func()) {
	if s.opts.Sync == SyncAlways {
		return func() {}
	}
	txn := s.db.NewTransaction(false)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: counterFormat})
	return func() {
		if err := s.syncFiles(); err != nil {
			s.fail(fmt.Errorf("sync: %w", err))
		}
		it.Close()
		txn.Discard()
	}
}

// dropLost takes the messages out of the logs whose bodies were lost with what
// was not synced: those on pages without a key, and those on pages not known to
// be synced whose value cannot be read. missing has the former, by part. For
// Open.
func (s *Store) dropLost(missing map[uint64]*bodyPage) error {
	// A reservation of ids may be among what was lost.
	for id := range s.bodies {
		s.pageIDs.next = max(s.pageIDs.next, id+1)
	}
	for id := range s.logs {
		s.queueIDs.next = max(s.queueIDs.next, id+1)
	}
	lost := make(map[*bodyPage]bool)
	for _, page := range missing {
		lost[page] = true
	}
	for id, page := range s.bodies {
		if id < s.syncedTo || lost[page] {
			continue
		}
		ok, err := s.isReadable(appendIDKey(nil, prefixBody, id))
		if err != nil {
			return err
		}
		if !ok {
			lost[page] = true
		}
	}
	if len(lost) == 0 {
		return nil
	}
	messages := 0
	for page := range lost {
		for _, p := range page.users {
			for i := 0; i < int(p.n) && !p.dead; i++ {
				if !p.isAcked(i) && p.bodyAt(i) == page && p.ack(i) {
					messages++
					s.unrefer(page, s.open)
					p.log.acked(p, s.open)
				}
			}
		}
	}
	s.opts.Logger.Warn("messages are lost that were not synced before the machine or the process stopped; sync policy always loses none",
		"dir", s.opts.Dir, "messages", messages)
	return nil
}

// isReadable says whether a value is there and whole. Only what has nothing to
// do with the value itself is an error.
func (s *Store) isReadable(key []byte) (ok bool, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return fmt.Errorf("read %s: %w", keyName(key), err)
		}
		_ = item.Value(func(value []byte) error { // an error: it is not there
			_, err := openFrame(key, value)
			ok = err == nil
			return nil
		})
		return nil
	})
	return ok, err
}
