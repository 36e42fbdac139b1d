package exchange

import (
	"cmp"
	"slices"
)

// chooser routes each message over one of its bindings, all of them alike: keys and arguments only tell bindings apart.
// A destination with two bindings gets two shares, as in RabbitMQ. x-random and x-local-random throw dice,
// x-modulus-hash takes the remainder of a hash of the routing key.
//
// Bindings are in the order of the destinations' names, so that a remainder leads to the same one after a restart. A
// Bind copies them all: building an exchange of ten thousand bindings takes a few hundred milliseconds.
type chooser[D comparable] struct {
	// Immutable.
	choose   func(*Message) uint64 // the binding's number is the remainder of it
	bindings []choice[D]           // by name, then label
}

// choice is one binding.
type choice[D comparable] struct {
	name, label string
	destination D
}

func (c *choice[D]) compare(o choice[D]) int {
	return cmp.Or(cmp.Compare(c.name, o.name), cmp.Compare(c.label, o.label))
}

func newChoice[D comparable](b Binding[D]) choice[D] {
	return choice[D]{b.Name, bindingLabel(b.Key, b.Arguments), b.Destination}
}

// find returns where a binding is, or would be.
func (m *chooser[D]) find(c choice[D]) (int, bool) {
	i, _ := slices.BinarySearchFunc(m.bindings, c, func(a, b choice[D]) int { return a.compare(b) })
	for ; i < len(m.bindings) && m.bindings[i].compare(c) == 0; i++ {
		if m.bindings[i].destination == c.destination {
			return i, true
		}
	}
	return i, false
}

func (m *chooser[D]) Bind(b Binding[D]) Matcher[D] {
	c := newChoice(b)
	i, found := m.find(c)
	if found {
		return m
	}
	bindings := make([]choice[D], 0, len(m.bindings)+1)
	bindings = append(append(append(bindings, m.bindings[:i]...), c), m.bindings[i:]...)
	return &chooser[D]{choose: m.choose, bindings: bindings}
}

func (m *chooser[D]) Unbind(b Binding[D]) Matcher[D] {
	i, found := m.find(newChoice(b))
	if !found {
		return m
	}
	return &chooser[D]{choose: m.choose, bindings: slices.Delete(slices.Clone(m.bindings), i, i+1)}
}

func (m *chooser[D]) Route(dst []D, msg *Message) []D {
	if len(m.bindings) == 0 {
		return dst
	}
	return append(dst, m.bindings[m.choose(msg)%uint64(len(m.bindings))].destination)
}

func (m *chooser[D]) Len() int { return len(m.bindings) }

// byKey chooses for x-modulus-hash.
func byKey(msg *Message) uint64 { return hashOf(msg.RoutingKey) }

// atRandom chooses by a source of random bits; always the first without one.
func atRandom(random func() uint64) func(*Message) uint64 {
	return func(*Message) uint64 {
		if random == nil {
			return 0
		}
		return random()
	}
}
