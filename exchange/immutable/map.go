package immutable

import (
	"hash/maphash"
	"iter"
	"unsafe"
)

// seed is drawn once: every map of the process hashes alike, which lets Hash serve any of them.
var seed = maphash.MakeSeed()

// Hash is the hash of one string key, valid for every Map of this process and for nothing outside it.
type Hash uint64

// HashBytes returns the hash of key for Map.Lookup. It allocates nothing.
func HashBytes(key []byte) Hash { return Hash(maphash.Bytes(seed, key)) }

// Map maps strings to values of type V and never changes. The zero value is an empty map. It is a small value that
// shares its contents with its copies: copy it freely, read it from any goroutine.
type Map[V any] struct {
	// Immutable.
	t tree[string, V]
}

// Get returns the value of key. It allocates nothing.
func (m Map[V]) Get(key string) (V, bool) {
	return m.t.get(maphash.String(seed, key), key)
}

// GetBytes is Get for a key in bytes. It allocates nothing and keeps no reference to key.
func (m Map[V]) GetBytes(key []byte) (V, bool) {
	return m.Lookup(HashBytes(key), key)
}

// Lookup is GetBytes for a caller who looks one key up in many maps and hashes it once. h must be HashBytes(key).
func (m Map[V]) Lookup(h Hash, key []byte) (V, bool) {
	// The string is a view of the caller's bytes. It lives for this call only: get compares it and lets it go.
	return m.t.get(uint64(h), unsafe.String(unsafe.SliceData(key), len(key)))
}

// Set returns a map that has v for key and is otherwise equal to m. The new map keeps key.
func (m Map[V]) Set(key string, v V) Map[V] {
	return Map[V]{m.t.set(entry[string, V]{hash: maphash.String(seed, key), key: key, value: v})}
}

// Delete returns a map without key that is otherwise equal to m.
func (m Map[V]) Delete(key string) Map[V] {
	return Map[V]{m.t.delete(maphash.String(seed, key), key)}
}

// Len returns the number of keys.
func (m Map[V]) Len() int { return m.t.size }

// All goes through keys and values in no particular order. Like m it is not touched by later changes.
func (m Map[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		if m.t.root != nil {
			m.t.root.each(yield)
		}
	}
}
