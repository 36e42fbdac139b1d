package persist

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/dgraph-io/badger/v4"
)

// Reader looks at a store that is not in use. It writes nothing to the store;
// only where the last run was killed, Badger brings its own files in order, as
// the next start would, and a commit that was cut off is finished. For one
// goroutine.
type Reader struct {
	s *Store // without goroutines, batches and pages

	shared   map[Address]bool // of messages that several logs have; nil until asked for
	lost     map[uint64]bool  // whether body pages were lost with what was not synced
	verified map[uint64]bool  // body pages whose checksum was right
}

// OpenReader opens the store in Options.Dir for reading. What is not a store is
// an error and stays as it is. Errors are those of Open.
func OpenReader(o Options) (*Reader, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := readable(o.Dir); err != nil {
		return nil, fmt.Errorf("read store: %w", err)
	}
	s := &Store{opts: o, logger: &badgerLogger{logger: o.Logger}}
	if s.db, err = openToRead(o, s.logger); err != nil {
		return nil, fmt.Errorf("read store: %w", err)
	}
	s.caps = capsOf(s.db)
	r := &Reader{s: s, lost: make(map[uint64]bool), verified: make(map[uint64]bool)}
	if err := r.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("read store: %w", err), s.db.Close())
	}
	return r, nil
}

// readable says whether a folder holds a store that this version reads.
func readable(dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("%w; give the folder that the broker was started with", err)
	}
	known, err := readFormatFile(dir)
	if err != nil {
		return err
	}
	if inUse(dir) { // its files are changing; opening it says by whom
		return nil
	}
	if !known {
		return fmt.Errorf("%s is no store: it has no file %s", dir, formatFile)
	}
	return checkFiles(dir, known)
}

// openToRead opens Badger read-only. That needs files in order: after a kill
// there are memtables that are not tables yet, which Badger does not write then
// and does not read either.
func openToRead(o Options, logger *badgerLogger) (*badger.DB, error) {
	memtables, err := filepath.Glob(filepath.Join(o.Dir, "*.mem"))
	if err != nil {
		return nil, fmt.Errorf("list the files in %s: %w", o.Dir, err)
	}
	if len(memtables) > 0 || runtime.GOOS == "windows" { // where Badger cannot
		return openBadger(o, logger)
	}
	return openBadgerWith(o, badgerOptions(o, logger).WithReadOnly(true), logger)
}

func (r *Reader) start() error {
	if _, err := r.s.checkFormat(true); err != nil {
		return err
	}
	if !r.s.db.Opts().ReadOnly {
		if err := r.s.finishRedo(); err != nil {
			return err
		}
	}
	clean, err := r.s.has(counterClean)
	if err != nil {
		return err
	}
	r.s.clean = clean
	return r.s.readSynced()
}

// Close ends the reading.
func (r *Reader) Close() error {
	if err := r.s.db.Close(); err != nil {
		return fmt.Errorf("close store in %s: %w", r.s.opts.Dir, err)
	}
	return nil
}

// CleanStop says whether the last run ended with Store.Close. After any other
// end each message may have been delivered before.
func (r *Reader) CleanStop() bool { return r.s.clean }

// Definitions is Store.Definitions.
func (r *Reader) Definitions(fn func(Definition) error) error { return r.s.Definitions(fn) }

// NextID is an id that no log of this store has had.
func (r *Reader) NextID() (uint64, error) {
	n, found, err := r.s.number(counterQueue)
	if err == nil && !found {
		err = r.s.corrupt(counterQueue, errMissing)
	}
	return n, err
}

// Address is where a message's bytes are: equal places are one message in several
// logs.
type Address struct {
	page, size uint64
	off        uint32
}

// Indexed is what the index has of a message that is not settled.
type Indexed struct {
	Log, Seq uint64
	Meta     Meta
	HeadSize int
	BodySize int
	Address  Address
	// Shared says that another log has a message at the same place.
	Shared bool
}

// Index calls fn for every message that is not settled, by log and seq, without
// those of dropped logs. Its error ends the walk and is returned.
func (r *Reader) Index(fn func(Indexed) error) error {
	if err := r.findShared(); err != nil {
		return err
	}
	return r.live(func(v *storedPage, e *storedEntry) error {
		at := addressOf(e)
		return fn(Indexed{
			Log: v.queue, Seq: v.first + uint64(e.seqOff), Meta: e.meta, HeadSize: int(e.head), BodySize: int(e.body),
			Address: at, Shared: r.shared[at],
		})
	})
}

func addressOf(e *storedEntry) Address { return Address{e.page, uint64(e.size()), e.off} }

// findShared learns which messages several logs have. Only those on pages that
// several logs refer to are remembered meanwhile.
func (r *Reader) findShared() error {
	if r.shared != nil {
		return nil
	}
	owners, several := make(map[uint64]uint64), make(map[uint64]bool)
	err := r.live(func(v *storedPage, e *storedEntry) error {
		if owner, ok := owners[e.page]; !ok {
			owners[e.page] = v.queue
		} else if owner != v.queue {
			several[e.page] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	shared := make(map[Address]bool)
	first := make(map[Address]uint64)
	err = r.live(func(v *storedPage, e *storedEntry) error {
		if !several[e.page] {
			return nil
		}
		at := addressOf(e)
		if owner, ok := first[at]; !ok {
			first[at] = v.queue
		} else if owner != v.queue {
			shared[at] = true
		}
		return nil
	})
	r.shared = shared
	return err
}

// dropped lists the logs that were dropped and are not cleared yet.
func (r *Reader) dropped() (map[uint64]bool, error) {
	dropped := make(map[uint64]bool)
	err := r.s.scan([]byte{prefixDrop}, func(key, _ []byte) error {
		if id, ok := parseIDKey(key); ok {
			dropped[id] = true
		}
		return nil
	})
	return dropped, err
}

// storedPage is an index page as read back, with what is settled.
type storedPage struct {
	queue, first uint64
	entries      []storedEntry
	settled      func(position int) bool
}

// pages calls fn for every index page of logs that were not dropped, in order.
func (r *Reader) pages(fn func(*storedPage) error) error {
	s := r.s
	dropped, err := r.dropped()
	if err != nil {
		return err
	}
	return s.scan([]byte{prefixIndex}, func(key, value []byte) error {
		v, err := r.openPage(key, value)
		if err != nil {
			return s.corrupt(key, err)
		}
		if dropped[v.queue] {
			return nil
		}
		ack := appendPageKey(nil, prefixAck, v.queue, v.first)
		_, err = s.get(ack, func(payload []byte) error {
			v.settled, err = openAcks(payload, len(v.entries))
			if err != nil {
				return s.corrupt(ack, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return fn(v)
	})
}

// openPage reads an index page without its acks.
func (r *Reader) openPage(key, value []byte) (*storedPage, error) {
	queue, first, ok := parsePageKey(key)
	if !ok {
		return nil, errors.New("the key is malformed")
	}
	payload, err := openFrame(key, value)
	if err != nil {
		return nil, err
	}
	entries, err := parseEntries(payload)
	if err != nil {
		return nil, err
	}
	return &storedPage{queue, first, entries, func(int) bool { return false }}, nil
}

// openAcks reads which messages of a page are settled.
func openAcks(payload []byte, n int) (settled func(position int) bool, err error) {
	acked, err := parseAcks(payload, n)
	return func(i int) bool { return acked.has(i) }, err
}

// isLost says whether a message was lost with what was not synced, so that the
// next start drops it: see lost.go.
func (r *Reader) isLost(e *storedEntry) (bool, error) {
	if !r.s.lossy {
		return false, nil
	}
	for part := range uint64(partsOf(e.size())) {
		id := e.page + part
		lost, known := r.lost[id]
		if !known {
			key := appendIDKey(nil, prefixBody, id)
			found, err := r.s.hasKey(key)
			if err == nil && found && id >= r.s.syncedTo {
				found, err = r.s.isReadable(key)
			}
			if err != nil {
				return false, err
			}
			lost = !found
			r.lost[id] = lost
		}
		if lost {
			return true, nil
		}
	}
	return false, nil
}

// live calls fn for every message that is not settled, nor lost.
func (r *Reader) live(fn func(*storedPage, *storedEntry) error) error {
	return r.pages(func(v *storedPage) error {
		for i := range v.entries {
			if v.settled(i) {
				continue
			}
			lost, err := r.isLost(&v.entries[i])
			if err == nil && !lost {
				err = fn(v, &v.entries[i])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Bytes reads head and body of a message. They are the caller's.
func (r *Reader) Bytes(m Indexed) (head, body []byte, err error) {
	data := make([]byte, 0, m.Address.size)
	parts := uint64(partsOf(int64(m.Address.size)))
	for part := range parts {
		err := r.part(m.Address.page+part, func(payload []byte) error {
			if parts == 1 {
				end := uint64(m.Address.off) + m.Address.size
				if end > uint64(len(payload)) {
					return errShort
				}
				payload = payload[m.Address.off:end]
			}
			data = append(data, payload...)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if uint64(len(data)) != m.Address.size {
		return nil, nil, r.s.corrupt(appendIDKey(nil, prefixBody, m.Address.page), errShort)
	}
	return data[:m.HeadSize:m.HeadSize], data[m.HeadSize:], nil
}

// part lends fn the payload of one body page; its checksum is looked at once.
func (r *Reader) part(id uint64, fn func(payload []byte) error) error {
	s := r.s
	key := appendIDKey(nil, prefixBody, id)
	return s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			err = errMissing
		}
		if err != nil {
			return s.corrupt(key, err)
		}
		return s.value(item, func(value []byte) error {
			open := openFrame
			if r.verified[id] {
				open = func(_, value []byte) ([]byte, error) { return peelFrame(value) }
			}
			payload, err := open(key, value)
			if err == nil {
				r.verified[id] = true
				err = fn(payload)
			}
			if err != nil {
				return s.corrupt(key, err)
			}
			return nil
		})
	})
}

// Marks calls fn for what a clean stop has noted of a log's messages.
func (r *Reader) Marks(fn func(log uint64, m Mark) error) error {
	if !r.s.clean {
		return nil
	}
	r.s.marks = make(map[uint64]map[uint64]Mark)
	if _, err := r.s.loadMarks(); err != nil {
		return err
	}
	for log, marks := range r.s.marks {
		for _, m := range marks {
			if err := fn(log, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// SkipIDs has NextID hand out no id below next: for who fills a new store with
// logs that have their ids already, before any of them is used.
func (s *Store) SkipIDs(next uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next <= s.queueIDs.next || s.closed {
		return
	}
	s.queueIDs.next = next
	b := s.room(1, pageOpBytes, 0)
	b.raw = append(b.raw, s.queueIDs.reserve())
	b.count(1, pageOpBytes)
	s.touched(b, false)
}
