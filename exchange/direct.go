package exchange

import "github.com/warrenmq/warren/exchange/immutable"

// direct routes to the bindings whose key is the routing key, octet for octet.
type direct[D comparable] struct {
	// Immutable.
	keys     immutable.Map[targets[D]]
	bindings int
}

func (m *direct[D]) Bind(b Binding[D]) Matcher[D] {
	old, _ := m.keys.Get(b.Key)
	now, added := old.with(b.Destination, argumentsID(b.Arguments))
	if !added {
		return m
	}
	return &direct[D]{keys: m.keys.Set(b.Key, now), bindings: m.bindings + 1}
}

func (m *direct[D]) Unbind(b Binding[D]) Matcher[D] {
	old, _ := m.keys.Get(b.Key)
	now, removed := old.without(b.Destination, argumentsID(b.Arguments))
	switch {
	case !removed:
		return m
	case now.empty():
		return &direct[D]{keys: m.keys.Delete(b.Key), bindings: m.bindings - 1}
	}
	return &direct[D]{keys: m.keys.Set(b.Key, now), bindings: m.bindings - 1}
}

func (m *direct[D]) Route(dst []D, msg *Message) []D {
	found, _ := m.keys.GetBytes(msg.RoutingKey)
	return found.appendTo(dst)
}

func (m *direct[D]) Len() int { return m.bindings }
