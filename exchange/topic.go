package exchange

import (
	"strings"

	"github.com/warrenmq/warren/exchange/immutable"
)

// topic routes by patterns of words between dots: `*` stands for one word, `#` for any number of them, everything else
// for itself. An empty key or pattern has no words; "a..b" has an empty word in the middle, which `*` matches.
//
// The patterns form a trie with one edge a word. How a key is followed through it is in topic_route.go.
type topic[D comparable] struct {
	// Immutable.
	root     *topicNode[D] // never nil
	slots    slots
	bindings int
}

// topicNode is the place of one pattern prefix. Nodes other than the root exist only while a binding needs them.
type topicNode[D comparable] struct {
	// Immutable after the call that made the node returns.
	words   immutable.Map[*topicNode[D]] // children by literal word
	star    *topicNode[D]                // child for `*`, or nil
	hash    *topicNode[D]                // child for `#`, or nil
	targets targets[D]                   // of the pattern that ends here
	slot    int                          // number of this `#` node if another `#` comes before it in its pattern, else noSlot
}

const noSlot = -1

func newTopic[D comparable]() *topic[D] {
	return &topic[D]{root: &topicNode[D]{slot: noSlot}}
}

// Bind and Unbind do not look for other ways to write a pattern (`#.*` for `*.#`): they are different bindings.

func (m *topic[D]) Bind(b Binding[D]) Matcher[D] {
	if hasSelector(b.Arguments) {
		return withSelector[D](m, newTopic[*guard](), b)
	}
	e := topicEdit[D]{destination: b.Destination, label: argumentsID(b.Arguments), slots: m.slots}
	root, added := e.bind(m.root, patternWords(b.Key), false)
	if !added {
		return m
	}
	return &topic[D]{root: root, slots: e.slots, bindings: m.bindings + 1}
}

func (m *topic[D]) Unbind(b Binding[D]) Matcher[D] {
	e := topicEdit[D]{destination: b.Destination, label: argumentsID(b.Arguments), slots: m.slots}
	root, removed := e.unbind(m.root, patternWords(b.Key))
	if !removed {
		return m
	}
	return &topic[D]{root: root, slots: e.slots, bindings: m.bindings - 1}
}

func (m *topic[D]) Len() int { return m.bindings }

// patternWords splits a binding key into words; none for the empty key.
func patternWords(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// topicEdit is one Bind or Unbind under way.
type topicEdit[D comparable] struct {
	destination D
	label       string
	slots       slots // of the version that is being made
}

// bind returns a copy of n with the binding at the end of words, and whether it was missing. afterHash says whether a
// `#` leads to n.
func (e *topicEdit[D]) bind(n *topicNode[D], words []string, afterHash bool) (*topicNode[D], bool) {
	if len(words) == 0 {
		targets, added := n.targets.with(e.destination, e.label)
		return n.withTargets(targets), added
	}
	isHash := words[0] == "#"
	child := n.child(words[0])
	if child == nil {
		child = &topicNode[D]{slot: noSlot}
		if isHash && afterHash {
			child.slot = e.slots.take()
		}
	}
	child, added := e.bind(child, words[1:], afterHash || isHash)
	if !added {
		return n, false
	}
	return n.withChild(words[0], child), true
}

// unbind returns a copy of n without the binding at the end of words, and whether it was there. Nodes that nothing needs
// any more go with it.
func (e *topicEdit[D]) unbind(n *topicNode[D], words []string) (*topicNode[D], bool) {
	if len(words) == 0 {
		targets, removed := n.targets.without(e.destination, e.label)
		return n.withTargets(targets), removed
	}
	child := n.child(words[0])
	if child == nil {
		return n, false
	}
	child, removed := e.unbind(child, words[1:])
	switch {
	case !removed:
		return n, false
	case child.targets.empty() && child.leaf():
		if child.slot != noSlot {
			e.slots.give(child.slot)
		}
		child = nil
	}
	return n.withChild(words[0], child), true
}

// leaf says whether no pattern goes on below n.
func (n *topicNode[D]) leaf() bool { return n.words.Len() == 0 && n.star == nil && n.hash == nil }

// child returns the child for a word of a pattern, or nil.
func (n *topicNode[D]) child(word string) *topicNode[D] {
	switch word {
	case "*":
		return n.star
	case "#":
		return n.hash
	}
	child, _ := n.words.Get(word)
	return child
}

// withChild returns a copy of n in which word leads to child; nil takes the word away.
func (n *topicNode[D]) withChild(word string, child *topicNode[D]) *topicNode[D] {
	c := *n
	switch {
	case word == "*":
		c.star = child
	case word == "#":
		c.hash = child
	case child == nil:
		c.words = n.words.Delete(word)
	default:
		c.words = n.words.Set(word, child)
	}
	return &c
}

// withTargets returns a copy of n with other targets.
func (n *topicNode[D]) withTargets(t targets[D]) *topicNode[D] {
	c := *n
	c.targets = t
	return &c
}

// slots numbers the `#` nodes that stand below another `#`, densely from 0, so that a walk can mark them in a bit set.
// Like all of a matcher it never changes in place: take and give replace the fields of a copy.
type slots struct {
	used int       // numbers handed out so far; those in free included
	free *freeSlot // numbers given back
}

// freeSlot is one link of an immutable list.
type freeSlot struct {
	number int
	next   *freeSlot
}

// take hands out a number that is not in use.
func (s *slots) take() int {
	if s.free != nil {
		number := s.free.number
		s.free = s.free.next
		return number
	}
	s.used++
	return s.used - 1
}

// give takes a number back. It is called before the version that has no use for it is published, so no walk over that
// version meets two nodes of one number.
func (s *slots) give(number int) {
	s.free = &freeSlot{number: number, next: s.free}
}
