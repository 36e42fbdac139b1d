package immutable

import "math/bits"

const (
	levelBits = 5                // bits of the hash that choose a slot in one node
	levelMask = 1<<levelBits - 1 // the same as a mask
	hashBits  = 64               // once a path has used them all the node is a collision list
)

// tree is the trie under Map and Keyed. It takes hashes from its caller, which lets tests force collisions.
type tree[K comparable, V any] struct {
	root *node[K, V] // nil when empty
	size int
}

// node is one level of the trie. A slot holds an entry (bit set in dataMap), a child (bit set in nodeMap) or nothing.
// Every node except the root stands for two entries or more: a child that a deletion leaves with one entry is folded
// into its parent, so a map's shape depends only on its contents.
//
// Below the last level a node is a collision list: both bitmaps are zero and entries holds keys of one and the same hash.
type node[K comparable, V any] struct {
	// Immutable after the call that made the node returns.
	dataMap, nodeMap uint32
	entries          []entry[K, V]
	nodes            []*node[K, V]
}

// entry carries the hash so that a lookup compares keys only when their hashes agree, and a split need not hash again.
type entry[K comparable, V any] struct {
	hash  uint64
	key   K
	value V
}

// slot returns the bit for hash at the level that begins at shift.
func slot(hash uint64, shift uint) uint32 { return 1 << (hash >> shift & levelMask) }

// index returns the position of bit's item in the dense slice that bitmap describes.
func index(bitmap, bit uint32) int { return bits.OnesCount32(bitmap & (bit - 1)) }

// get finds key. It allocates nothing and keeps no reference to key.
func (t tree[K, V]) get(hash uint64, key K) (value V, ok bool) {
	n := t.root
	if n == nil {
		return value, false
	}
	for shift := uint(0); shift < hashBits; shift += levelBits {
		bit := slot(hash, shift)
		if n.dataMap&bit != 0 {
			e := &n.entries[index(n.dataMap, bit)]
			if e.hash == hash && e.key == key {
				return e.value, true
			}
			return value, false
		}
		if n.nodeMap&bit == 0 {
			return value, false
		}
		n = n.nodes[index(n.nodeMap, bit)]
	}
	if i := n.collision(key); i >= 0 {
		return n.entries[i].value, true
	}
	return value, false
}

// set returns a tree in which e.key has e.value.
func (t tree[K, V]) set(e entry[K, V]) tree[K, V] {
	if t.root == nil {
		return tree[K, V]{root: leaf(0, e), size: 1}
	}
	root, added := t.root.set(0, e)
	if added {
		t.size++
	}
	return tree[K, V]{root: root, size: t.size}
}

// delete returns a tree without key; when key is not there, the tree itself.
func (t tree[K, V]) delete(hash uint64, key K) tree[K, V] {
	if t.root == nil {
		return t
	}
	root := t.root.delete(0, hash, key)
	switch {
	case root == t.root:
		return t
	case len(root.entries) == 0 && len(root.nodes) == 0:
		return tree[K, V]{}
	}
	return tree[K, V]{root: root, size: t.size - 1}
}

// leaf makes a node of one entry for the level at shift.
func leaf[K comparable, V any](shift uint, e entry[K, V]) *node[K, V] {
	return &node[K, V]{dataMap: slot(e.hash, shift), entries: []entry[K, V]{e}}
}

// collision returns the position of key in a collision list, or -1.
func (n *node[K, V]) collision(key K) int {
	for i := range n.entries {
		if n.entries[i].key == key {
			return i
		}
	}
	return -1
}

// set returns a copy of n with e in it and says whether its key is new.
func (n *node[K, V]) set(shift uint, e entry[K, V]) (*node[K, V], bool) {
	if shift >= hashBits {
		if i := n.collision(e.key); i >= 0 {
			return n.withEntry(i, e), false
		}
		return &node[K, V]{entries: inserted(n.entries, len(n.entries), e)}, true
	}
	bit := slot(e.hash, shift)
	if n.nodeMap&bit != 0 {
		i := index(n.nodeMap, bit)
		child, added := n.nodes[i].set(shift+levelBits, e)
		return n.withNode(i, child), added
	}
	i := index(n.dataMap, bit)
	if n.dataMap&bit == 0 {
		return &node[K, V]{
			dataMap: n.dataMap | bit, nodeMap: n.nodeMap,
			entries: inserted(n.entries, i, e), nodes: n.nodes,
		}, true
	}
	old := n.entries[i]
	if old.hash == e.hash && old.key == e.key {
		return n.withEntry(i, e), false
	}
	return &node[K, V]{
		dataMap: n.dataMap &^ bit, nodeMap: n.nodeMap | bit,
		entries: removed(n.entries, i),
		nodes:   inserted(n.nodes, index(n.nodeMap, bit), pair(shift+levelBits, old, e)),
	}, true
}

// pair makes the subtree that holds two entries with different keys.
func pair[K comparable, V any](shift uint, a, b entry[K, V]) *node[K, V] {
	if shift >= hashBits {
		return &node[K, V]{entries: []entry[K, V]{a, b}}
	}
	bitA, bitB := slot(a.hash, shift), slot(b.hash, shift)
	switch {
	case bitA == bitB:
		return &node[K, V]{nodeMap: bitA, nodes: []*node[K, V]{pair(shift+levelBits, a, b)}}
	case bitA > bitB:
		a, b = b, a
	}
	return &node[K, V]{dataMap: bitA | bitB, entries: []entry[K, V]{a, b}}
}

// delete returns a copy of n without key, or n itself when key is not there.
func (n *node[K, V]) delete(shift uint, hash uint64, key K) *node[K, V] {
	if shift >= hashBits {
		if i := n.collision(key); i >= 0 {
			return &node[K, V]{entries: removed(n.entries, i)}
		}
		return n
	}
	bit := slot(hash, shift)
	if n.nodeMap&bit != 0 {
		return n.deleteBelow(shift, bit, hash, key)
	}
	if n.dataMap&bit == 0 {
		return n
	}
	i := index(n.dataMap, bit)
	if n.entries[i].key != key {
		return n
	}
	return &node[K, V]{dataMap: n.dataMap &^ bit, nodeMap: n.nodeMap, entries: removed(n.entries, i), nodes: n.nodes}
}

// deleteBelow deletes key from the child at bit and folds the child into n when one entry is all that is left of it.
func (n *node[K, V]) deleteBelow(shift uint, bit uint32, hash uint64, key K) *node[K, V] {
	i := index(n.nodeMap, bit)
	child := n.nodes[i].delete(shift+levelBits, hash, key)
	switch {
	case child == n.nodes[i]:
		return n
	case len(child.nodes) > 0 || len(child.entries) > 1:
		return n.withNode(i, child)
	}
	return &node[K, V]{
		dataMap: n.dataMap | bit, nodeMap: n.nodeMap &^ bit,
		entries: inserted(n.entries, index(n.dataMap, bit), child.entries[0]),
		nodes:   removed(n.nodes, i),
	}
}

// withEntry returns a copy of n with e at position i.
func (n *node[K, V]) withEntry(i int, e entry[K, V]) *node[K, V] {
	c := *n
	c.entries = append([]entry[K, V](nil), n.entries...)
	c.entries[i] = e
	return &c
}

// withNode returns a copy of n with child at position i.
func (n *node[K, V]) withNode(i int, child *node[K, V]) *node[K, V] {
	c := *n
	c.nodes = append([]*node[K, V](nil), n.nodes...)
	c.nodes[i] = child
	return &c
}

// each calls yield for every entry until it answers false, and says whether it never did.
func (n *node[K, V]) each(yield func(K, V) bool) bool {
	for i := range n.entries {
		if !yield(n.entries[i].key, n.entries[i].value) {
			return false
		}
	}
	for _, child := range n.nodes {
		if !child.each(yield) {
			return false
		}
	}
	return true
}

// appendKeys appends every key to dst.
func (n *node[K, V]) appendKeys(dst []K) []K {
	for i := range n.entries {
		dst = append(dst, n.entries[i].key)
	}
	for _, child := range n.nodes {
		dst = child.appendKeys(dst)
	}
	return dst
}

// inserted returns a copy of s with v at position i. The copy has no spare room, which nothing would ever use.
func inserted[T any](s []T, i int, v T) []T {
	c := make([]T, len(s)+1)
	copy(c, s[:i])
	c[i] = v
	copy(c[i+1:], s[i:])
	return c
}

// removed returns a copy of s without position i; nil when nothing is left.
func removed[T any](s []T, i int) []T {
	if len(s) == 1 {
		return nil
	}
	c := make([]T, len(s)-1)
	copy(c, s[:i])
	copy(c[i:], s[i+1:])
	return c
}
