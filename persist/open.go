package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
)

// Open opens the store in a folder, or makes a new one, and locks the folder.
// It reads all index pages, so that it takes about a second for a few million
// messages in pages of usual size. What is damaged is an error that names the
// folder or the value: a store is never quietly started empty. See ErrInUse,
// ErrNewerFormat and ErrCorrupt.
func Open(o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	known, err := prepareFolder(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := checkSpace(o); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{
		opts:        o,
		logger:      &badgerLogger{logger: o.Logger},
		wake:        make(chan struct{}, 1),
		bgWake:      make(chan struct{}, 1),
		bgStop:      make(chan struct{}),
		closing:     make(chan struct{}),
		open:        new(batch),
		logs:        make(map[uint64]*Log),
		bodies:      make(map[uint64]*bodyPage),
		pieces:      make(map[string]int),
		unrecovered: make(map[uint64]struct{}),
		shared:      make(map[*bodyPage]bool),
		records:     make(map[place]*storedRecord),
		marks:       make(map[uint64]map[uint64]Mark),
		surveys:     make(map[uint64]*survey),
	}
	if s.db, err = openBadger(o, s.logger); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if s.transient, err = NewTransient(filepath.Join(o.Dir, transientFolder)); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), s.db.Close())
	}
	s.caps = capsOf(s.db)
	if err := s.start(known); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), s.db.Close())
	}
	s.logger.watch(func(err error) { s.fail(err) })
	s.guarded = true
	s.finished.Add(2)
	go s.runCommitter()
	go s.runBackground()
	s.rouse() // dropped logs may be left to clear
	return s, nil
}

// openBadger opens the database and makes its errors understandable.
func openBadger(o Options, logger *badgerLogger) (db *badger.DB, err error) {
	return openBadgerWith(o, badgerOptions(o, logger), logger)
}

func openBadgerWith(o Options, how badger.Options, logger *badgerLogger) (db *badger.DB, err error) {
	defer func() {
		// Badger trusts its files in places; a damaged one must not look like
		// a fault of the broker.
		if r := recover(); r != nil {
			db, err = nil, fmt.Errorf("%w: the files in %s cannot be read: %v; restore the folder from a backup", ErrCorrupt, o.Dir, r)
		}
	}()
	if !how.ReadOnly {
		removeEmpty(o.Dir)
	}
	db, err = badger.Open(how)
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "directory lock"):
		return nil, fmt.Errorf("%w: %s: another process%s uses it; stop that one first, or give this one a folder of its own",
			ErrInUse, o.Dir, lockOwner(o.Dir))
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("open the files in %s: %w; they have to be readable and writable for this user", o.Dir, err)
	default:
		return nil, fmt.Errorf("%w: the files in %s cannot be read: %w; restore the folder from a backup", ErrCorrupt, o.Dir, err)
	}
	if skipped := logger.skippedTables(); len(skipped) > 0 {
		err := fmt.Errorf("%w: checksum mismatch in %s; restore the folder from a backup", ErrCorrupt, strings.Join(skipped, ", "))
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// start checks the format, loads what is on disk and makes the store this
// run's own: the mark of a clean stop goes, ids are reserved.
func (s *Store) start(known bool) error {
	isNew, err := s.checkFormat(known)
	if err != nil {
		return err
	}
	if err := s.finishRedo(); err != nil {
		return err
	}
	if s.clean, err = s.has(counterClean); err != nil {
		return err
	}
	s.clean = s.clean || isNew
	if err := s.readSynced(); err != nil {
		return err
	}
	for _, c := range []struct {
		to  *counter
		key []byte
	}{{&s.pageIDs, counterPage}, {&s.queueIDs, counterQueue}} {
		if *c.to, err = s.readCounter(c.key, isNew); err != nil {
			return err
		}
	}
	if err := s.countPieces(); err != nil {
		return err
	}
	staleMarks, err := s.loadMarks()
	if err != nil {
		return err
	}
	orphans, err := s.load()
	if err != nil {
		return err
	}
	first := []rawOp{
		{key: counterClean, delete: true},
		{key: counterFormat, value: appendFrame(nil, counterFormat, binary.BigEndian.AppendUint64(nil, formatVersion))},
		s.pageIDs.reserve(), s.queueIDs.reserve(), s.markSynced(),
	}
	if err := s.writer.transact(s, first); err != nil {
		return fmt.Errorf("write to %s: %w", s.opts.Dir, err)
	}
	if err := s.writer.inPieces(s, append(staleMarks, orphans...)); err != nil {
		return fmt.Errorf("write to %s: %w", s.opts.Dir, err)
	}
	if err := s.syncFiles(); err != nil {
		return fmt.Errorf("sync %s: %w", s.opts.Dir, err)
	}
	return writeFormatFile(s.opts.Dir, known)
}

// checkFormat compares the format key with the format file and the rest.
func (s *Store) checkFormat(known bool) (isNew bool, err error) {
	version, found, err := s.number(counterFormat)
	switch {
	case err != nil:
		return false, err
	case found:
		return false, checkVersion(s.opts.Dir, version)
	}
	empty, err := s.isEmpty()
	if err != nil {
		return false, err
	}
	if known || !empty {
		return false, fmt.Errorf("%w: the database in %s has no format version; restore the folder from a backup, or move it away to start empty",
			ErrCorrupt, s.opts.Dir)
	}
	return true, nil
}

// readCounter reads how far ids were reserved. The ids before are gone.
func (s *Store) readCounter(key []byte, isNew bool) (counter, error) {
	limit, found, err := s.number(key)
	if err != nil {
		return counter{}, err
	}
	if !found {
		if !isNew {
			return counter{}, s.corrupt(key, errMissing)
		}
		limit = 1
	}
	return counter{key: key, next: limit, limit: limit}, nil
}

// Close commits what is open, tells every waiter, writes the mark of a clean
// stop and closes the folder. What comes later is refused with ErrClosed.
// Further calls give the first one's result. Not to be called from a Waiter,
// from Update's done or from Options.OnFatal.
func (s *Store) Close() error {
	s.closeMu.Lock()
	defer s.closeMu.Unlock()
	select {
	case <-s.closing:
		return s.closeErr
	default:
	}
	close(s.bgStop)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	close(s.closing)
	s.finished.Wait()
	err := s.failure()
	if err == nil { // the mark is not to be on the disk before all else
		err = s.syncFiles()
	}
	if err == nil {
		mark := rawOp{key: counterClean, value: appendFrame(nil, counterClean, nil)}
		if err = s.writer.transact(s, []rawOp{mark}); err == nil {
			err = s.syncFiles()
		}
	}
	if transientErr := s.transient.Close(); err == nil {
		err = transientErr
	}
	if closeErr := s.db.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		s.closeErr = fmt.Errorf("close store in %s: %w", s.opts.Dir, err)
	}
	return s.closeErr
}
