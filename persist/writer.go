package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// aheadBytes is the most bytes of bodies that go into the transaction of their
// commit. A commit with more writes them in transactions of their own first;
// until the commit itself is there nothing refers to them, and Open deletes
// pages that nothing refers to.
const aheadBytes = 4 * bodyPageBytes

// redoPartBytes is the size of one value of a redo list.
const redoPartBytes = 4 << 20

// writer turns a sealed batch into Badger transactions. Owned by the
// committer.
type writer struct {
	notifier notifier

	arena []byte // keys and values of ops, of one commit
	ops   []rawOp
	pages pageWriter

	redone   uint64    // number of the last redo list that was done
	marked   uint64    // what counterSynced says
	unsynced time.Time // of SyncInterval: when the first commit not synced was
}

// pageWriter encodes body pages into buffers that live until their
// transaction is committed.
type pageWriter struct {
	ops     []rawOp
	buffers [][]byte // reused
	used    int
	bytes   int64
}

// write makes a batch durable. It is one transaction, unless the batch is very
// large (aheadBytes, writeRedo); it is atomic in any case.
func (w *writer) write(s *Store, c *committed) error {
	w.arena, w.ops = recycledBytes(w.arena), recycled(w.ops)
	w.pages.reset()
	if c.raise.key != nil {
		w.ops = append(w.ops, c.raise)
	}
	if err := w.encodeBodies(s, c); err != nil {
		return err
	}
	if err := w.encodeChunks(s, c); err != nil {
		return err
	}
	w.encodePages(c)
	w.encodeSummaries(c)
	if len(w.ops)+len(w.pages.ops) == 0 {
		return nil
	}
	if err := s.at("commit"); err != nil {
		return err
	}
	err := w.transact(s, w.pages.ops, w.ops)
	if errors.Is(err, badger.ErrTxnTooBig) {
		err = w.writeRedo(s)
	}
	if err != nil {
		return err
	}
	w.account(s, c)
	return s.at("committed")
}

// account keeps the statistics.
func (w *writer) account(s *Store, c *committed) {
	s.counts.commits.Add(1)
	s.counts.bodyBytes.Add(uint64(c.plan.bytes))
	messages := uint64(0)
	for _, p := range c.batch.pages {
		messages += uint64(len(p.entries))
	}
	s.counts.messages.Add(messages)
	s.counts.ackPages.Add(uint64(len(c.batch.acks)))
	if messages > s.counts.largest.Load() {
		s.counts.largest.Store(messages)
	}
}

// encodePages appends the ops of index pages, acks, deletes and raw writes.
func (w *writer) encodePages(c *committed) {
	b := c.batch
	w.ops = append(w.ops, c.index...)
	w.ops = append(w.ops, b.moves...)
	w.ops = append(w.ops, b.acks...)
	for _, p := range b.empty {
		w.ops = append(w.ops, rawOp{key: w.key(prefixIndex, p.log.id, p.first), delete: true})
		if p.ackWritten {
			w.ops = append(w.ops, rawOp{key: w.key(prefixAck, p.log.id, p.first), delete: true})
		}
	}
	for _, page := range c.deletes {
		for part := range uint64(page.parts) {
			start := len(w.arena)
			w.arena = appendIDKey(w.arena, prefixBody, page.id+part)
			w.ops = append(w.ops, rawOp{key: w.since(start), delete: true})
		}
	}
	w.ops = append(w.ops, b.raw...)
}

func (w *writer) key(prefix byte, queue, first uint64) []byte {
	start := len(w.arena)
	w.arena = appendPageKey(w.arena, prefix, queue, first)
	return w.since(start)
}

// since is the arena from start on, safe from what is appended later.
func (w *writer) since(start int) []byte { return w.arena[start:len(w.arena):len(w.arena)] }

// encodeBodies fills w.pages, writing ahead what is too much for one
// transaction.
func (w *writer) encodeBodies(s *Store, c *committed) error {
	places := c.plan.places
	for _, page := range c.plan.pages {
		n := 0
		for n < len(places) && places[n].page == page {
			n++
		}
		run := places[:n]
		places = places[n:]
		if page.parts == 1 {
			w.pages.encode(page, run)
		} else if err := w.encodeLarge(s, page, run[0].record.payload); err != nil {
			return err
		}
		if err := w.aheadIfLarge(s); err != nil {
			return err
		}
	}
	return nil
}

// aheadIfLarge writes the encoded bodies when they are too many to wait.
func (w *writer) aheadIfLarge(s *Store) error {
	if w.pages.bytes < aheadBytes {
		return nil
	}
	// The reservation of page ids goes along, so that a later run cannot hand
	// out the ids of pages that are there.
	if err := s.at("ahead"); err != nil {
		return err
	}
	if err := w.transact(s, w.pages.ops, w.ops); err != nil {
		return fmt.Errorf("write bodies ahead: %w", err)
	}
	w.ops = w.ops[:0]
	w.pages.reset()
	return nil
}

// encodeLarge cuts one message into parts.
func (w *writer) encodeLarge(s *Store, page *bodyPage, p Payload) error {
	head, body := p.AppendHead(nil), p.Body()
	for part := range uint64(page.parts) {
		room := bodyPageBytes
		key, buffer := w.pages.begin(page.id+part, int64(min(room, len(head)+len(body))))
		n := min(room, len(head))
		buffer, head, room = append(buffer, head[:n]...), head[n:], room-n
		n = min(room, len(body))
		buffer, body = append(buffer, body[:n]...), body[n:]
		w.pages.end(key, buffer)
		if err := w.aheadIfLarge(s); err != nil {
			return err
		}
	}
	if len(head)+len(body) > 0 {
		panic("persist: a payload grew while it was stored")
	}
	return nil
}

// encode writes the messages of one page.
func (w *pageWriter) encode(page *bodyPage, places []placement) {
	key, buffer := w.begin(page.id, page.size)
	for _, place := range places {
		r := place.record
		if len(buffer) != int(r.off)+1 {
			panic("persist: a payload changed its size while it was stored")
		}
		buffer = r.payload.AppendHead(buffer)
		buffer = append(buffer, r.payload.Body()...)
	}
	if int64(len(buffer)-1) != page.size {
		panic("persist: a payload changed its size while it was stored")
	}
	w.end(key, buffer)
}

// begin starts a body page of so many bytes of messages.
func (w *pageWriter) begin(id uint64, size int64) (key, buffer []byte) {
	return appendIDKey(nil, prefixBody, id), w.beginValue(size)
}

// beginValue gives the buffer for a framed value of so many bytes; end takes
// it.
func (w *pageWriter) beginValue(size int64) []byte {
	if w.used == len(w.buffers) {
		w.buffers = append(w.buffers, nil)
	}
	if size += frameOverhead; int64(cap(w.buffers[w.used])) < size {
		w.buffers[w.used] = make([]byte, 0, size)
	}
	return beginFrame(w.buffers[w.used][:0])
}

func (w *pageWriter) end(key, buffer []byte) {
	buffer = endFrame(buffer, 0, key)
	w.buffers[w.used] = buffer
	w.used++
	w.ops = append(w.ops, rawOp{key: key, value: buffer})
	w.bytes += int64(len(buffer))
}

// keepBuffer is the size up to which a buffer is kept for the next commit.
const keepBuffer = 2 << 20

// reset keeps the page of a usual commit and a neighbour.
func (w *pageWriter) reset() {
	clear(w.ops)
	w.ops, w.used, w.bytes = w.ops[:0], 0, 0
	if len(w.buffers) > 2 {
		clear(w.buffers[2:])
		w.buffers = w.buffers[:2]
	}
	for i := range w.buffers {
		if cap(w.buffers[i]) > keepBuffer {
			w.buffers[i] = nil
		}
	}
}

// transact commits ops as one transaction, in order. ErrTxnTooBig means that
// nothing was written.
func (w *writer) transact(s *Store, lists ...[]rawOp) error {
	if s.guarded {
		if err := s.awaitSpace(lists); err != nil {
			return err
		}
	}
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	for _, ops := range lists {
		for i := range ops {
			op := &ops[i]
			if forgotten(op.key) {
				continue
			}
			if len(op.value) >= valueThreshold && op.key[0] != prefixBody && op.key[0] != prefixRedo && op.key[0] != prefixChunkData {
				panic("persist: " + keyName(op.key) + " would go into the value log")
			}
			var err error
			if op.delete {
				err = txn.Delete(op.key)
			} else {
				err = txn.Set(op.key, op.value)
			}
			if err != nil {
				return fmt.Errorf("add %s to a commit: %w", keyName(op.key), err)
			}
		}
	}
	if err := txn.Commit(); err != nil {
		return fmt.Errorf("write a commit: %w", err)
	}
	s.counts.transactions.Add(1)
	if s.opts.Sync == SyncInterval && w.unsynced.IsZero() {
		w.unsynced = time.Now()
	}
	return nil
}

// writeRedo commits ops that do not fit one transaction. All of them are
// written as a list, in values so large that they count little towards the
// transaction's size; that transaction, which has the bodies too, is the
// commit. Then they are done one by one and the list deleted. Open does the
// same with a list it finds. No other commit comes between, so doing a list
// twice is harmless.
func (w *writer) writeRedo(s *Store) error {
	var list []byte
	for i := range w.ops {
		list = appendRedo(list, &w.ops[i])
	}
	var parts []rawOp
	for n := uint32(0); len(list) > 0; n++ {
		part := list[:min(len(list), redoPartBytes)]
		list = list[len(part):]
		key := appendRedoKey(nil, w.redone+1, n)
		parts = append(parts, rawOp{key: key, value: appendFrame(nil, key, part)})
	}
	if err := s.at("redo"); err != nil {
		return err
	}
	if err := w.transact(s, w.pages.ops, parts); err != nil {
		return fmt.Errorf("write a redo list: %w", err)
	}
	return w.applyRedo(s, w.ops, parts)
}

// applyRedo does what the next redo list says, notes that it is done and
// deletes it.
func (w *writer) applyRedo(s *Store, ops, parts []rawOp) error {
	if err := w.inPieces(s, ops); err != nil {
		return fmt.Errorf("apply a redo list: %w", err)
	}
	w.redone++
	value := appendFrame(nil, counterRedo, binary.BigEndian.AppendUint64(nil, w.redone))
	ends := []rawOp{{key: counterRedo, value: value}}
	for i := range parts {
		ends = append(ends, rawOp{key: parts[i].key, delete: true})
	}
	if err := w.inPieces(s, ends); err != nil {
		return fmt.Errorf("delete a redo list: %w", err)
	}
	return nil
}

// inPieces commits ops in order, in as many transactions as it takes.
func (w *writer) inPieces(s *Store, ops []rawOp) error {
	for len(ops) > 0 {
		n, size := 0, int64(0)
		for n < len(ops) && n < s.caps.ops && (n == 0 || size+ops[n].weight() < s.caps.bytes) {
			size += ops[n].weight()
			n++
		}
		if err := s.at("piece"); err != nil {
			return err
		}
		if err := w.transact(s, ops[:n]); err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}

// appendRedo encodes one op of a redo list: 0 to write, 1 to delete; then the
// key and, when written, the value, each with a 32-bit length before it.
func appendRedo(dst []byte, op *rawOp) []byte {
	dst = append(dst, boolByte(op.delete))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(op.key)))
	dst = append(dst, op.key...)
	if !op.delete {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(op.value)))
		dst = append(dst, op.value...)
	}
	return dst
}

// parseRedo is the inverse, for a whole list.
func parseRedo(list []byte) ([]rawOp, error) {
	var ops []rawOp
	piece := func() ([]byte, bool) {
		if len(list) < 4 {
			return nil, false
		}
		n := int64(binary.BigEndian.Uint32(list))
		if n > int64(len(list)-4) {
			return nil, false
		}
		p := list[4 : 4+n]
		list = list[4+n:]
		return p, true
	}
	for len(list) > 0 {
		op := rawOp{delete: list[0] == 1}
		list = list[1:]
		var ok bool
		if op.key, ok = piece(); !ok || len(op.key) == 0 {
			return nil, errShort
		}
		if !op.delete {
			if op.value, ok = piece(); !ok {
				return nil, errShort
			}
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// syncDue is the time until the next sync of SyncInterval.
func (w *writer) syncDue(s *Store) time.Duration {
	if w.unsynced.IsZero() {
		return time.Hour
	}
	return s.opts.SyncInterval - time.Since(w.unsynced)
}

// syncIfDue does the syncs of SyncInterval.
func (w *writer) syncIfDue(s *Store) {
	if w.syncDue(s) > 0 || s.failure() != nil {
		return
	}
	w.unsynced = time.Time{}
	if err := s.syncFiles(); err != nil {
		s.fail(fmt.Errorf("sync: %w", err))
		return
	}
	s.synced()
}
