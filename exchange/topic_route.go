package exchange

import (
	"bytes"
	"sync"

	"github.com/warrenmq/warren/exchange/immutable"
)

// How a key is followed through the trie.
//
// The walk goes depth first and may arrive at a node several times, each time with a different number of words used up.
// An ordinary node takes the next word along the literal edge and along `*`. A `#` node that is reached with p words
// used up stands for p, p+1, ... all words used up, so the walk goes on below it from each of these positions in turn.
//
// With two `#` in a pattern that alone would be exponential in the number of `#`: the second is reached again from many
// positions of the first. But having gone on from a `#` node from position p, going on from any q > p can find nothing
// new, since p already covers q. And the first arrival is the one with the fewest words used up: the nearest `#` above
// is gone on from once, from its own lowest position upwards, and between the two the number of words is fixed. So each
// `#` node need be followed only the first time, and the walk visits each node at most once per position: no more than
// nodes times words steps, whatever the patterns.
//
// Only a `#` below another `#` can be reached twice. Those have a slot, and a bit set remembers which were reached.

const (
	shortKeyWords = 16             // keys up to this many words are split on the stack of Route
	wireKeyWords  = 256            // no key that came over AMQP has more: 255 octets, all of them dots
	seenWords     = 16             // bit set on the stack, in words of 64 bits
	seenSlots     = seenWords * 64 // beyond this many the set comes from seenPool
)

// topicWord is one word of a routing key, with its hash for the many maps it is looked up in.
type topicWord struct {
	hash immutable.Hash
	text []byte
}

// topicWalk is one Route under way. The destinations found so far are handed from call to call instead of being a field:
// the compiler does not tell the fields of a struct apart when it decides what may stay on the stack, and a walk whose
// dst goes back to the caller would take the words to the heap.
type topicWalk[D comparable] struct {
	words []topicWord
	seen  []uint64 // which `#` nodes that have a slot were reached
}

// seenPool holds bit sets (*[]uint64) for matchers with more slots than fit on the stack.
var seenPool sync.Pool

func (m *topic[D]) Route(dst []D, msg *Message) []D {
	if bytes.Count(msg.RoutingKey, dot) >= shortKeyWords {
		return m.routeLong(dst, msg.RoutingKey)
	}
	var words [shortKeyWords]topicWord
	return m.walk(dst, splitKey(words[:0], msg.RoutingKey))
}

var dot = []byte{'.'}

// routeLong is Route for keys of many words. It is a function of its own so that Route need not clear 8 KiB of stack.
func (m *topic[D]) routeLong(dst []D, key []byte) []D {
	var words [wireKeyWords]topicWord
	return m.walk(dst, splitKey(words[:0], key))
}

// splitKey appends the words of key to dst: none for the empty key, else one more than there are dots.
func splitKey(dst []topicWord, key []byte) []topicWord {
	if len(key) == 0 {
		return dst
	}
	for {
		i := bytes.IndexByte(key, '.')
		word := key
		if i >= 0 {
			word = key[:i]
		}
		dst = append(dst, topicWord{hash: immutable.HashBytes(word), text: word})
		if i < 0 {
			return dst
		}
		key = key[i+1:]
	}
}

// walk follows words from the root and appends what they lead to.
func (m *topic[D]) walk(dst []D, words []topicWord) []D {
	w := topicWalk[D]{words: words}
	if m.slots.used > seenSlots {
		return m.walkPooled(dst, &w)
	}
	var seen [seenWords]uint64
	w.seen = seen[:]
	return w.arrive(dst, m.root, 0)
}

// walkPooled is walk for a trie that has more slots than the stack has bits for.
func (m *topic[D]) walkPooled(dst []D, w *topicWalk[D]) []D {
	need := (m.slots.used + 63) / 64
	set, _ := seenPool.Get().(*[]uint64)
	if set == nil || cap(*set) < need {
		grown := make([]uint64, need+need/4)
		set = &grown
	}
	w.seen = (*set)[:need]
	clear(w.seen)
	dst = w.arrive(dst, m.root, 0)
	seenPool.Put(set)
	return dst
}

// arrive goes on at n with the first pos words used up.
func (w *topicWalk[D]) arrive(dst []D, n *topicNode[D], pos int) []D {
	if pos == len(w.words) {
		dst = n.targets.appendTo(dst)
	}
	return w.below(dst, n, pos)
}

// below goes on to the children of n.
func (w *topicWalk[D]) below(dst []D, n *topicNode[D], pos int) []D {
	if n.hash != nil {
		dst = w.arriveHash(dst, n.hash, pos)
	}
	if pos == len(w.words) {
		return dst
	}
	if n.star != nil {
		dst = w.arrive(dst, n.star, pos+1)
	}
	if n.words.Len() == 0 {
		return dst
	}
	if child, ok := n.words.Lookup(w.words[pos].hash, w.words[pos].text); ok {
		dst = w.arrive(dst, child, pos+1)
	}
	return dst
}

// arriveHash goes on at the `#` node n, which may use up any number of the words from pos on.
func (w *topicWalk[D]) arriveHash(dst []D, n *topicNode[D], pos int) []D {
	if n.slot != noSlot {
		word, bit := n.slot/64, uint64(1)<<(n.slot%64)
		if w.seen[word]&bit != 0 {
			return dst
		}
		w.seen[word] |= bit
	}
	dst = n.targets.appendTo(dst)
	if n.leaf() {
		return dst
	}
	for p := pos; p <= len(w.words); p++ {
		dst = w.below(dst, n, p)
	}
	return dst
}
