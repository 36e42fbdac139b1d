package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Definition is a durable object of the callers. Value is opaque here, at most
// MaxValueBytes.
type Definition struct {
	Key
	Value []byte
}

// MaxValueBytes is the most that Definition.Value may hold.
const MaxValueBytes = 1 << 20

// pieceBytes is how much of a definition lies under one key. Larger ones are
// continued under further keys, because they must not go into the value log
// (see doc.go). The value under the d key begins with the length of the whole.
const pieceBytes = 960

// Definitions calls fn for every definition, in key order: by kind, then by
// the length of the vhost, then by vhost and name. Its error ends the walk and
// is returned. For the start: the walk reads from disk.
func (s *Store) Definitions(fn func(Definition) error) error {
	return s.scan([]byte{prefixDef}, func(key, value []byte) error {
		k, ok := parseKey(key)
		if !ok {
			return s.corrupt(key, errors.New("the key is malformed"))
		}
		payload, err := openFrame(key, value)
		if err == nil && len(payload) < 4 {
			err = errShort
		}
		if err != nil {
			return s.corrupt(key, err)
		}
		size := int(binary.BigEndian.Uint32(payload))
		whole := append([]byte(nil), payload[4:]...)
		for n := 1; len(whole) < size; n++ {
			piece := appendPieceKey(nil, key, n)
			found, err := s.get(piece, func(payload []byte) error {
				whole = append(whole, payload...)
				return nil
			})
			if err == nil && !found {
				err = s.corrupt(piece, errMissing)
			}
			if err != nil {
				return err
			}
		}
		if len(whole) != size {
			return s.corrupt(key, errShort)
		}
		return fn(Definition{Key: k, Value: whole})
	})
}

// countPieces learns how many continuations the definitions have.
func (s *Store) countPieces() error {
	return s.scan([]byte{prefixPiece}, func(key, _ []byte) error {
		def, _, ok := definitionOf(key)
		if !ok {
			return s.corrupt(key, errors.New("the key is malformed"))
		}
		s.pieces[string(def)]++
		return nil
	})
}

// Update changes definitions and drops logs, in one commit: after a crash all
// of it is there or nothing. done, when not nil, is called on the committer
// goroutine when the change is durable, or with the error that kept it from
// becoming so; after Close it is called at once. It must not block. A key or
// value that is too large is refused without any effect.
//
// The messages of dropped logs are gone with the commit, whatever is left of
// them on disk: those not committed yet count as stored when it is durable,
// and what is appended later counts as cancelled. The space comes back in the
// background, also over restarts.
func (s *Store) Update(puts []Definition, deletes []Key, dropLogs []*Log, done func(error)) {
	err := checkUpdate(puts, deletes)
	s.mu.Lock()
	if s.closed {
		err = s.refusal()
		s.mu.Unlock()
		if done != nil {
			done(err)
		}
		return
	}
	var b *batch
	if err == nil {
		b = s.define(puts, deletes, len(dropLogs), int64(len(dropLogs))*pageOpBytes, 0)
		for _, l := range dropLogs {
			l.drop(b)
		}
	} else {
		b = s.room(0, 0, 0)
	}
	if done != nil {
		b.dones = append(b.dones, doneFunc{done, err})
	}
	s.touched(b, done != nil)
	s.mu.Unlock()
	if len(dropLogs) > 0 {
		s.forgetUnrecovered(dropLogs)
		s.rouse()
	}
}

// checkUpdate refuses definitions that are too large.
func checkUpdate(puts []Definition, deletes []Key) error {
	for i := range puts {
		if err := puts[i].check(); err != nil {
			return err
		}
		if n := len(puts[i].Value); n > MaxValueBytes {
			return fmt.Errorf("definition of %d bytes: at most %d are possible", n, MaxValueBytes)
		}
	}
	for _, k := range deletes {
		if err := k.check(); err != nil {
			return err
		}
	}
	return nil
}

// define makes room for changed definitions and for what else is to go into
// the same commit, and adds the former. Called with Store.mu held.
func (s *Store) define(puts []Definition, deletes []Key, ops int, bytes, bodies int64) *batch {
	var raw []rawOp
	for i := range puts {
		raw = s.appendPut(raw, &puts[i])
	}
	for _, k := range deletes {
		key := k.appendTo(nil)
		raw = append(raw, rawOp{key: key, delete: true})
		raw = s.appendPieceDeletes(raw, key, 1)
	}
	size := int64(0)
	for i := range raw {
		size += raw[i].weight()
	}
	b := s.room(len(raw)+ops, size+bytes, bodies)
	b.raw = append(b.raw, raw...)
	b.count(len(raw), size)
	return b
}

// appendPut appends the writes of one definition.
func (s *Store) appendPut(raw []rawOp, d *Definition) []rawOp {
	key := d.appendTo(nil)
	rest := d.Value
	head := rest[:min(len(rest), pieceBytes)]
	rest = rest[len(head):]
	value := binary.BigEndian.AppendUint32(beginFrame(nil), uint32(len(d.Value)))
	raw = append(raw, rawOp{key: key, value: endFrame(append(value, head...), 0, key)})
	n := 1
	for ; len(rest) > 0; n++ {
		part := rest[:min(len(rest), pieceBytes)]
		rest = rest[len(part):]
		piece := appendPieceKey(nil, key, n)
		raw = append(raw, rawOp{key: piece, value: appendFrame(nil, piece, part)})
	}
	raw = s.appendPieceDeletes(raw, key, n)
	if n > 1 {
		s.pieces[string(key)] = n - 1
	}
	return raw
}

// appendPieceDeletes appends the deletes of a definition's continuations from
// number n on and forgets that there are any.
func (s *Store) appendPieceDeletes(raw []rawOp, key []byte, n int) []rawOp {
	for ; n <= s.pieces[string(key)]; n++ {
		raw = append(raw, rawOp{key: appendPieceKey(nil, key, n), delete: true})
	}
	delete(s.pieces, string(key))
	return raw
}

// drop ends a log as part of batch b, the open one. Called with Store.mu held.
func (l *Log) drop(b *batch) {
	if l.dropped {
		return
	}
	l.dropped = true
	s := l.store
	sealed := l.stream != nil
	for _, p := range l.pages {
		if p.batch == nil {
			sealed = sealed || !p.dead
			continue
		}
		// The last cancel empties the slice.
		for i := len(p.entries) - 1; p.live > 0; i-- {
			if !p.entries[i].cancelled {
				b.deferred = append(b.deferred, l.cancel(p, i))
			}
		}
	}
	if !sealed {
		l.dropAllReturns(b, math.MaxInt)
		delete(s.logs, l.id)
		return
	}
	key := appendIDKey(nil, prefixDrop, l.id)
	op := rawOp{key: key, value: appendFrame(nil, key, nil)}
	b.raw = append(b.raw, op)
	b.count(1, op.weight())
	s.dropping = append(s.dropping, l)
}
