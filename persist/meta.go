package persist

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Definition is a durable object of the callers. Value is opaque here, at most
// MaxValueBytes.
type Definition struct {
	Key
	Value []byte
}

// MaxValueBytes is the most that Definition.Value may hold.
const MaxValueBytes = 16 << 20

// Definitions calls fn for every definition, in key order: by kind, then by
// the length of the vhost, then by vhost and name. Its error ends the walk and
// is returned. For the start: the walk reads from disk.
func (s *Store) Definitions(fn func(Definition) error) error {
	return s.scan([]byte{prefixDef}, func(key, value []byte, _ *badger.Item) error {
		k, ok := parseKey(key)
		if !ok {
			return s.corrupt(key, fmt.Errorf("the key is malformed"))
		}
		payload, err := openFrame(key, value)
		if err != nil {
			return s.corrupt(key, err)
		}
		return fn(Definition{Key: k, Value: append([]byte(nil), payload...)})
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
	ops, bytes, err := encodeUpdate(puts, deletes)
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
		b = s.room(len(ops)+len(dropLogs), bytes+int64(len(dropLogs))*pageOpBytes, 0)
		b.raw = append(b.raw, ops...)
		b.count(len(ops), bytes)
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

// encodeUpdate makes the writes of changed definitions.
func encodeUpdate(puts []Definition, deletes []Key) (ops []rawOp, bytes int64, err error) {
	ops = make([]rawOp, 0, len(puts)+len(deletes))
	for i := range puts {
		if err := puts[i].check(); err != nil {
			return nil, 0, err
		}
		if n := len(puts[i].Value); n > MaxValueBytes {
			return nil, 0, fmt.Errorf("definition of %d bytes: at most %d are possible", n, MaxValueBytes)
		}
		key := puts[i].appendTo(nil)
		ops = append(ops, rawOp{key: key, value: appendFrame(nil, key, puts[i].Value)})
	}
	for _, k := range deletes {
		if err := k.check(); err != nil {
			return nil, 0, err
		}
		ops = append(ops, rawOp{key: k.appendTo(nil), delete: true})
	}
	for i := range ops {
		bytes += ops[i].weight()
	}
	return ops, bytes, nil
}

// drop ends a log as part of batch b, the open one. Called with Store.mu held.
func (l *Log) drop(b *batch) {
	if l.dropped {
		return
	}
	l.dropped = true
	s := l.store
	sealed := false
	for _, p := range l.pages {
		if p.batch == nil {
			sealed = sealed || !p.dead
			continue
		}
		// From the end, because the last cancel empties the slice.
		for i := len(p.entries) - 1; i >= 0; i-- {
			if !p.entries[i].cancelled {
				b.deferred = append(b.deferred, l.cancel(p, i))
			}
		}
	}
	if !sealed {
		delete(s.logs, l.id)
		return
	}
	key := appendIDKey(nil, prefixDrop, l.id)
	op := rawOp{key: key, value: appendFrame(nil, key, nil)}
	b.raw = append(b.raw, op)
	b.count(1, op.weight())
	s.dropping = append(s.dropping, l)
}
