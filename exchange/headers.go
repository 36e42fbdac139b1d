package exchange

import (
	"bytes"

	"github.com/warrenmq/warren/exchange/immutable"
	"github.com/warrenmq/warren/frames"
)

// headers routes by the headers property; the routing key plays no part. A binding's arguments are conditions on
// headers of the same name, and its x-match argument says whether all of them must hold (the default) or any one, and
// whether arguments that begin with "x-" are conditions too (all-with-x, any-with-x) or not.
//
// Every binding is looked at for every message, as in RabbitMQ; what a look costs is kept low by decoding arguments at
// Bind and the message's headers once per Route (headers_index.go).
type headers[D comparable] struct {
	// Immutable.
	rules   rules
	filters immutable.Keyed[filterID[D], *filter[D]]
}

// filterID is the identity of a binding in a form that can be a map key.
type filterID[D comparable] struct {
	destination    D
	key, arguments string
}

// filter is one binding, ready to be matched.
type filter[D comparable] struct {
	// Immutable.
	destination D
	any         bool // one condition that holds is enough
	conditions  []condition
}

// condition is one argument of a binding: the header key must be there with this value; a void value asks for nothing
// but that it is there.
type condition struct {
	hash  immutable.Hash // of key
	key   []byte
	nth   int // how many conditions of the same binding have the same key and come before this one
	value value
}

func (m *headers[D]) Bind(b Binding[D]) Matcher[D] {
	if hasSelector(b.Arguments) {
		return withSelector[D](m, &headers[*guard]{rules: m.rules}, b)
	}
	id := filterID[D]{b.Destination, b.Key, argumentsID(b.Arguments)}
	if _, ok := m.filters.Get(id); ok {
		return m
	}
	return &headers[D]{rules: m.rules, filters: m.filters.Set(id, newFilter(b.Destination, b.Arguments, m.rules))}
}

func (m *headers[D]) Unbind(b Binding[D]) Matcher[D] {
	filters := m.filters.Delete(filterID[D]{b.Destination, b.Key, argumentsID(b.Arguments)})
	if filters.Len() == m.filters.Len() {
		return m
	}
	return &headers[D]{rules: m.rules, filters: filters}
}

func (m *headers[D]) Len() int { return m.filters.Len() }

func (m *headers[D]) Route(dst []D, msg *Message) []D {
	if m.filters.Len() == 0 {
		return dst
	}
	n := countHeaders(msg.Headers)
	if n > inlineHeaders {
		return m.routePooled(dst, msg.Headers, n)
	}
	var entries [inlineHeaders]header
	var slots [inlineSlots]uint32
	x := headerIndex{entries: entries[:], slots: slots[:]}
	x.fill(msg.Headers, m.rules)
	return m.match(dst, &x)
}

// routePooled is Route for a message of more headers than an index on the stack holds.
func (m *headers[D]) routePooled(dst []D, raw frames.RawTable, n int) []D {
	x := takeIndex(n)
	x.fill(raw, m.rules)
	dst = m.match(dst, x)
	giveIndex(x)
	return dst
}

// match appends the destinations of the filters that x satisfies.
func (m *headers[D]) match(dst []D, x *headerIndex) []D {
	for _, f := range m.filters.All() {
		if f.matches(x) {
			dst = append(dst, f.destination)
		}
	}
	return dst
}

// matches says whether the headers in x satisfy f. Without conditions "all" holds for any message and "any" for none.
func (f *filter[D]) matches(x *headerIndex) bool {
	for i := range f.conditions {
		if x.holds(&f.conditions[i]) == f.any {
			return f.any // the first success decides for any, the first failure for all
		}
	}
	return !f.any
}

// newFilter decodes the arguments of a binding. Conditions and messages go through the same encoding and the same
// reading of it, so that there is one place that knows what a value is worth.
func newFilter[D comparable](destination D, args frames.Table, r rules) *filter[D] {
	mode, _ := args.Get(xMatch)
	f := &filter[D]{destination: destination, any: mode == "any" || mode == "any-with-x"}
	withX := mode == "all-with-x" || mode == "any-with-x"
	raw := frames.RawTable(canonical(args).AppendContents(nil))
	for it := raw.Iter(); it.Next(); {
		key := it.Key()
		if string(key) == xMatch || !withX && bytes.HasPrefix(key, xPrefix) {
			continue
		}
		f.conditions = append(f.conditions, condition{
			hash: immutable.HashBytes(key), key: key, nth: f.occurrences(key, r), value: r.read(it.Value()),
		})
	}
	return f
}

const xMatch = "x-match"

var xPrefix = []byte("x-")

// occurrences counts the conditions f has on key already. RabbitMQ 3.10 walks through arguments and headers side by
// side, so the second argument of a name is compared with the second header of that name; 4.3 looks each argument up.
func (f *filter[D]) occurrences(key []byte, r rules) int {
	n := 0
	for i := range f.conditions {
		if r.byValue && bytes.Equal(f.conditions[i].key, key) {
			n++
		}
	}
	return n
}

// validateHeaders checks the x-match argument, the only one that can be wrong.
func validateHeaders(args frames.Table) *frames.Error {
	v, ok := args.Get(xMatch)
	if !ok {
		return nil
	}
	mode, ok := v.(string)
	if !ok {
		return frames.Errorf(frames.PreconditionFailed, "Invalid x-match field type %s (value %s); expected longstr",
			frames.TypeName(v), erlangTerm(v))
	}
	switch mode {
	case "all", "any", "all-with-x", "any-with-x":
		return nil
	}
	return frames.Errorf(frames.PreconditionFailed,
		"Invalid x-match field value %s; expected all, any, all-with-x, or any-with-x", erlangTerm(v))
}
