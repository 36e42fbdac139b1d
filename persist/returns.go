package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// Returns is how often a message was given back after it had been handed out:
// in all, and because something had failed. What counts as a failure the
// callers know.
type Returns struct {
	Seq           uint64
	Total, Failed uint32
}

// returned is a message's Returns in memory and on disk. Guarded by Store.mu.
type returned struct {
	Returns
	log     *Log
	dirty   bool // stands in the open batch's list
	written bool // the c key exists, or will before it can be deleted
	gone    bool // the message was settled
}

// returnsBytes is the size of an encoded Returns: total, failed.
const returnsBytes = 8

// SaveReturns keeps messages' Returns beside them, for Recover, also over a
// crash. They are written with the next batch, within Options.LazyDelay; of
// several for one message in one batch only the last is. They go when the
// message is settled. seq must be in the log. Any goroutine.
func (l *Log) SaveReturns(all ...Returns) {
	s := l.store
	for len(all) > 0 {
		run := all[:min(len(all), settleRun)]
		all = all[len(run):]
		s.mu.Lock()
		if s.closed || l.dropped || s.failure() != nil {
			s.mu.Unlock()
			return
		}
		b := s.room(len(run), int64(len(run))*ackOpBytes, 0)
		for i := range run {
			l.saveReturns(b, run[i])
		}
		s.touched(b, false)
		s.mu.Unlock()
	}
}

// saveReturns notes what freeze will write. Called with Store.mu held.
func (l *Log) saveReturns(b *batch, r Returns) {
	c := l.returns[r.Seq]
	if c == nil {
		if l.returns == nil {
			l.returns = make(map[uint64]*returned)
		}
		c = &returned{log: l}
		l.returns[r.Seq] = c
	}
	c.Returns = r
	b.note(c)
}

// note puts a change of c on the batch's list, once.
func (b *batch) note(c *returned) {
	if c.dirty {
		return
	}
	c.dirty = true
	b.returns = append(b.returns, c)
	b.count(1, ackOpBytes)
}

// dropReturns forgets the Returns of a message that is settled as part of
// batch b. Called with Store.mu held.
func (l *Log) dropReturns(b *batch, seq uint64) {
	c := l.returns[seq]
	if c == nil {
		return
	}
	delete(l.returns, seq)
	c.gone = true
	if c.written {
		b.note(c)
	}
}

// dropAllReturns has at most as many Returns of a dropped log deleted as bring
// batch b to limit ops. Called with Store.mu held.
func (l *Log) dropAllReturns(b *batch, limit int) {
	for seq := range l.returns {
		if b.ops >= limit {
			return
		}
		l.dropReturns(b, seq)
	}
}

// freezeReturns turns the batch's list into writes and deletes. Called with
// Store.mu held.
func (b *batch) freezeReturns() {
	for _, c := range b.returns {
		c.dirty = false
		if c.gone && !c.written {
			continue
		}
		start := len(b.arena)
		b.arena = appendPageKey(b.arena, prefixReturns, c.log.id, c.Seq)
		op := rawOp{key: b.arena[start:len(b.arena):len(b.arena)], delete: c.gone}
		if !c.gone {
			start = len(b.arena)
			b.arena = binary.BigEndian.AppendUint32(beginFrame(b.arena), c.Total)
			b.arena = endFrame(binary.BigEndian.AppendUint32(b.arena, c.Failed), start, op.key)
			op.value = b.arena[start:len(b.arena):len(b.arena)]
		}
		b.acks = append(b.acks, op)
		c.written = !c.gone
	}
}

// loadReturns reads the Returns of all logs and returns the deletes of those
// whose message is not there. Only Open calls it, after the index.
func (s *Store) loadReturns() (stale []rawOp, err error) {
	err = s.scan([]byte{prefixReturns}, func(key, value []byte) error {
		queue, seq, ok := parsePageKey(key)
		if !ok {
			return s.corrupt(key, errors.New("the key is malformed"))
		}
		payload, err := openFrame(key, value)
		if err == nil && len(payload) != returnsBytes {
			err = errShort
		}
		if err != nil {
			return s.corrupt(key, err)
		}
		l := s.logs[queue]
		if l == nil || !l.dropped && !l.holds(seq) {
			stale = append(stale, rawOp{key: bytes.Clone(key), delete: true})
			return nil
		}
		if l.returns == nil {
			l.returns = make(map[uint64]*returned)
		}
		l.returns[seq] = &returned{log: l, written: true, Returns: Returns{
			Seq: seq, Total: binary.BigEndian.Uint32(payload), Failed: binary.BigEndian.Uint32(payload[4:]),
		}}
		return nil
	})
	return stale, err
}

// holds says whether a message is in the log and not settled.
func (l *Log) holds(seq uint64) bool {
	p := l.pageOf(seq)
	if p == nil || p.dead {
		return false
	}
	i, ok := p.find(seq)
	return ok && !p.isAcked(i)
}

// returnsOf gives a message's Returns for Recover.
func (l *Log) returnsOf(seq uint64) Returns {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if c := l.returns[seq]; c != nil {
		return c.Returns
	}
	return Returns{Seq: seq}
}
