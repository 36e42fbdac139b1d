package exchange

// fanout routes to every destination that has a binding, once. Keys and arguments only tell bindings apart, so that a
// destination stays until the last of its bindings is gone.
type fanout[D comparable] struct {
	// Immutable.
	all      targets[D]
	bindings int
}

func (m *fanout[D]) Bind(b Binding[D]) Matcher[D] {
	all, added := m.all.with(b.Destination, bindingLabel(b.Key, b.Arguments))
	if !added {
		return m
	}
	return &fanout[D]{all: all, bindings: m.bindings + 1}
}

func (m *fanout[D]) Unbind(b Binding[D]) Matcher[D] {
	all, removed := m.all.without(b.Destination, bindingLabel(b.Key, b.Arguments))
	if !removed {
		return m
	}
	return &fanout[D]{all: all, bindings: m.bindings - 1}
}

func (m *fanout[D]) Route(dst []D, _ *Message) []D { return m.all.appendTo(dst) }

func (m *fanout[D]) Len() int { return m.bindings }
