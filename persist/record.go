package persist

import "sync/atomic"

// Payload is what the owner of a Record gives when, and only when, its bytes
// are really written. The store may ask until Waiter.Stored was called, and
// again when the record is appended after its page has gone; what it returns
// must not change. Its methods must not block and not call the store; HeadSize
// and Body are also called while the store's lock is held.
type Payload interface {
	// HeadSize is the number of bytes that AppendHead appends.
	HeadSize() int
	// AppendHead appends the part before the body: properties, routing
	// envelope, whatever the caller wants back as Recovered.Head.
	AppendHead(dst []byte) []byte
	// Body is the body, borrowed for the time of the commit.
	Body() []byte
}

// MaxRecordBytes is the most that head and body of a record may have together;
// to append a larger one is a fault of the caller and panics.
const MaxRecordBytes = 1 << 30

// Waiter is told when what it waits for is durable. The dynamic type must be
// comparable (a pointer). Both methods are called with no lock of the store
// held, from the committer or, inside Append, Settle, Release, Submit and
// Barrier, on the caller's goroutine, so several may run at once; they must not
// block and must not call the store.
type Waiter interface {
	// Stored says that the record or group of this token is durable, or, with
	// an error, that it never will be.
	Stored(token uint64, err error)
	// Flush follows once after a run of Stored calls, so that confirms of one
	// commit can go out together.
	Flush()
}

// Record is one message's bytes as stored, shared by all queues it goes to. It
// is embedded in the caller's message; it must not be copied after Init.
type Record struct {
	// Set by Init or Adopt.
	payload Payload
	waiter  Waiter
	token   uint64

	// busy counts holds and appends that are neither durable nor cancelled.
	busy atomic.Int32
	// told is set by whoever calls Stored.
	told atomic.Bool
	// lost is set when an append of this record failed.
	lost atomic.Bool

	// Guarded by Store.mu; place fields are written by the committer alone,
	// which may read them without it.
	head, body uint32    // sizes, known from the first append
	measured   bool      // they are
	off        uint32    // where the bytes begin on page
	unplaced   int32     // entries in batches not sealed yet that need a place
	page       *bodyPage // nil until the first commit
	home       *batch    // the batch whose size these bytes count for
}

// Init makes r ready for a new message. w may be nil: then nobody is told, and
// commits take their time (Options.LazyDelay).
func (r *Record) Init(p Payload, w Waiter, token uint64) {
	r.payload, r.waiter, r.token = p, w, token
	r.busy.Store(0)
	r.told.Store(false)
	r.lost.Store(false)
	r.head, r.body, r.measured = 0, 0, false
	r.off, r.unplaced, r.page = 0, 0, nil
}

// Adopt makes r stand for bytes that are on disk already: those of stored,
// which came from Recover and was not appended anywhere yet. For callers that
// embed a Record in their message; stored is not to be used after it.
func (r *Record) Adopt(stored *Record, p Payload) {
	r.Init(p, nil, 0)
	r.lieAt(stored.page, stored.off, stored.head, stored.body)
}

// follow finds r's bytes again when a rewrite has moved them and their old page
// is gone. Called with Store.mu held.
func (r *Record) follow() {
	for r.page != nil && r.page.gone {
		to, ok := r.page.moved[messageSpan{r.off, r.head + r.body}]
		if !ok {
			return
		}
		r.page, r.off = to.page, to.off
	}
}

// lieAt says where r's bytes are on disk.
func (r *Record) lieAt(page *bodyPage, off, head, body uint32) {
	r.page, r.off, r.head, r.body, r.measured = page, off, head, body, true
}

// Hold keeps Stored back until Release, so that a publisher can append the
// record to several queues and be told once.
func (r *Record) Hold() { r.busy.Add(1) }

// Release ends a Hold. It calls Stored and Flush at once when no append is
// outstanding.
func (r *Record) Release(s *Store) {
	if n, ok := r.leave(s); ok {
		n.waiter.Stored(n.token, n.err)
		n.waiter.Flush()
	}
}

// size is the number of bytes r takes on a body page.
func (r *Record) size() int64 { return int64(r.head) + int64(r.body) }

// measure asks the payload for its sizes, once.
func (r *Record) measure() {
	if r.measured {
		return
	}
	head, body := r.payload.HeadSize(), len(r.payload.Body())
	if int64(head)+int64(body) > MaxRecordBytes {
		panic("persist: a record larger than MaxRecordBytes")
	}
	r.head, r.body, r.measured = uint32(head), uint32(body), true
}

// leave takes one hold or append away and returns the notice that is due when
// it was the last. Needs no lock.
func (r *Record) leave(s *Store) (notice, bool) {
	if n := r.busy.Add(-1); n != 0 {
		if n < 0 {
			panic("persist: record released more often than held")
		}
		return notice{}, false
	}
	if r.waiter == nil || !r.told.CompareAndSwap(false, true) {
		return notice{}, false
	}
	n := notice{waiter: r.waiter, token: r.token}
	if r.lost.Load() {
		if n.err = s.failure(); n.err == nil {
			n.err = ErrClosed
		}
	}
	return n, true
}

// fail takes one append away that will never be durable.
func (r *Record) fail(s *Store) (notice, bool) {
	r.lost.Store(true)
	return r.leave(s)
}

// notice is one Stored call that is due.
type notice struct {
	waiter Waiter
	token  uint64
	err    error
}

// deliver calls Stored for each notice, then Flush once for each waiter in it.
// For the short runs of Append, Settle and Submit; the committer has notifier.
func deliver(notices []notice) {
	for i := range notices {
		notices[i].waiter.Stored(notices[i].token, notices[i].err)
	}
	for i := range notices {
		first := true
		for j := i - 1; j >= 0 && first; j-- {
			first = notices[j].waiter != notices[i].waiter
		}
		if first {
			notices[i].waiter.Flush()
		}
	}
}
