package immutable

import (
	"hash/maphash"
	"iter"
)

// Keyed is Map for keys of any comparable type. The zero value is an empty map. Like Map it never changes; copy it
// freely, read it from any goroutine. Looking a key up may allocate, because hashing an arbitrary type may; use Map on
// paths where that matters.
//
// K must not be an interface type that holds values which cannot be compared: hashing those panics, as it does in a
// built-in map.
type Keyed[K comparable, V any] struct {
	// Immutable.
	t tree[K, V]
}

// Get returns the value of key.
func (m Keyed[K, V]) Get(key K) (V, bool) {
	return m.t.get(maphash.Comparable(seed, key), key)
}

// Set returns a map that has v for key and is otherwise equal to m.
func (m Keyed[K, V]) Set(key K, v V) Keyed[K, V] {
	return Keyed[K, V]{m.t.set(entry[K, V]{hash: maphash.Comparable(seed, key), key: key, value: v})}
}

// Delete returns a map without key that is otherwise equal to m.
func (m Keyed[K, V]) Delete(key K) Keyed[K, V] {
	return Keyed[K, V]{m.t.delete(maphash.Comparable(seed, key), key)}
}

// Len returns the number of keys.
func (m Keyed[K, V]) Len() int { return m.t.size }

// All goes through keys and values in no particular order.
func (m Keyed[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.t.root != nil {
			m.t.root.each(yield)
		}
	}
}

// AppendKeys appends every key to dst, in the order of All. It allocates nothing beyond the growth of dst.
func (m Keyed[K, V]) AppendKeys(dst []K) []K {
	if m.t.root == nil {
		return dst
	}
	return m.t.root.appendKeys(dst)
}
