package exchange

import (
	"errors"
	"slices"
	"sync"

	"github.com/warrenmq/warren/exchange/immutable"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/selector"
)

// ArgumentSelector is the argument of a binding to a headers or topic exchange that has a JMS selector (package
// selector): the binding matches only messages of which the selector is true. It is Warren's own, with the name that
// Apache Qpid uses; RabbitMQ knows no such argument.
const ArgumentSelector = "x-filter-jms-selector"

// selecting is a matcher of some type with bindings that have selectors. A matcher becomes one with its first such
// binding and stops being one with the last, so that exchanges without selectors know nothing of it. The bindings with
// selectors are in a second matcher of the same type, which finds those whose key or headers fit, and only their
// selectors are evaluated.
type selecting[D comparable] struct {
	// Immutable.
	plain   Matcher[D]
	guarded Matcher[*guard] // never empty; destinations of its own, one for each binding
	guards  immutable.Keyed[filterID[D], *guard]
}

// guard is one binding with a selector. Its destination is a D: were the type generic, a matcher of guards would need
// one of guards of guards.
type guard struct {
	// Immutable.
	destination any
	selector    *selector.Selector // nil matches nothing
}

// selection is what the matchers that a message meets share: its headers, sorted once, and scratch memory.
type selection struct {
	view  selector.View
	found []*guard
}

// selectionPool holds selections (*selection) of no message.
var selectionPool sync.Pool

// selection gives the message's, made when the first matcher asks.
func (m *Message) selection() *selection {
	if m.selected != nil {
		return m.selected
	}
	m.selected, _ = selectionPool.Get().(*selection)
	if m.selected == nil {
		m.selected = new(selection)
	}
	if m.Properties != nil {
		m.selected.view.Reset(*m.Properties)
	}
	return m.selected
}

// Done gives memory back that matchers keep with a message from one Route call to the next. A message that is dropped
// without it costs an allocation, no more.
func (m *Message) Done() {
	if m.selected != nil {
		m.selected.view.Reset(frames.Properties{})
		selectionPool.Put(m.selected)
		m.selected = nil
	}
}

// Selects says whether where a message goes depends on selectors, and so on more of it than Traits say.
func Selects[D comparable](m Matcher[D]) bool {
	_, ok := m.(*selecting[D])
	return ok
}

// hasSelector says whether a binding's arguments have a selector.
func hasSelector(args frames.Table) bool {
	_, ok := args.Get(ArgumentSelector)
	return ok
}

// withSelector returns a matcher that has the bindings of plain and b, which has a selector. guarded is empty.
func withSelector[D comparable](plain Matcher[D], guarded Matcher[*guard], b Binding[D]) Matcher[D] {
	return (&selecting[D]{plain: plain, guarded: guarded}).Bind(b)
}

func (m *selecting[D]) Bind(b Binding[D]) Matcher[D] {
	next := *m
	if !hasSelector(b.Arguments) {
		if next.plain = m.plain.Bind(b); next.plain == m.plain {
			return m
		}
		return &next
	}
	id := filterID[D]{b.Destination, b.Key, argumentsID(b.Arguments)}
	if _, ok := m.guards.Get(id); ok {
		return m
	}
	s, _ := selectorOf(b.Arguments) // one that is wrong was stored before Warren knew of the argument
	g := &guard{destination: b.Destination, selector: s}
	next.guards = m.guards.Set(id, g)
	next.guarded = m.guarded.Bind(guardBinding(g, b))
	return &next
}

func (m *selecting[D]) Unbind(b Binding[D]) Matcher[D] {
	next := *m
	if !hasSelector(b.Arguments) {
		if next.plain = m.plain.Unbind(b); next.plain == m.plain {
			return m
		}
		return &next
	}
	id := filterID[D]{b.Destination, b.Key, argumentsID(b.Arguments)}
	g, ok := m.guards.Get(id)
	switch {
	case !ok:
		return m
	case m.guards.Len() == 1:
		return m.plain
	}
	next.guards = m.guards.Delete(id)
	next.guarded = m.guarded.Unbind(guardBinding(g, b))
	return &next
}

// guardBinding is the binding of a guard: that of b without the selector, which is no condition on a header.
func guardBinding[D comparable](g *guard, b Binding[D]) Binding[*guard] {
	rest := slices.DeleteFunc(slices.Clone(b.Arguments), func(f frames.Field) bool { return f.Key == ArgumentSelector })
	return Binding[*guard]{Destination: g, Key: b.Key, Arguments: rest}
}

func (m *selecting[D]) Len() int { return m.plain.Len() + m.guards.Len() }

func (m *selecting[D]) Route(dst []D, msg *Message) []D {
	dst = m.plain.Route(dst, msg)
	s := msg.selection()
	s.found = m.guarded.Route(s.found[:0], msg)
	for _, g := range s.found {
		if g.selector != nil && g.selector.Match(&s.view) {
			dst = append(dst, g.destination.(D))
		}
	}
	clear(s.found)
	return dst
}

// validateSelector checks the selector of a binding to an exchange of a type, if it has one.
func validateSelector(typ string, args frames.Table) *frames.Error {
	if !hasSelector(args) {
		return nil
	}
	if typ != TypeHeaders && typ != TypeTopic {
		return frames.Errorf(frames.PreconditionFailed, "%s is not for bindings to this exchange; only headers and topic exchanges take it", ArgumentSelector)
	}
	_, err := selectorOf(args)
	return err
}

// selectorOf compiles the selector in arguments that have one.
func selectorOf(args frames.Table) (*selector.Selector, *frames.Error) {
	v, _ := args.Get(ArgumentSelector)
	text, ok := v.(string)
	if !ok {
		return nil, frames.Errorf(frames.PreconditionFailed, "Invalid %s field type %s; expected longstr", ArgumentSelector, frames.TypeName(v))
	}
	s, err := selector.Compile(text)
	if err == nil {
		return s, nil
	}
	var fault *selector.Error
	if !errors.As(err, &fault) {
		panic("exchange: a selector's error is not of its type")
	}
	return nil, frames.Errorf(frames.PreconditionFailed, "Invalid %s field value at position %d: %s", ArgumentSelector, fault.Position, fault.Reason)
}
