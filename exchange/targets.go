package exchange

import "github.com/warrenmq/warren/exchange/immutable"

// inlineTargets is how many destinations a set keeps in a slice. A slice is small and fast to go through, which suits
// the usual key with one or two queues; but each change copies it, and an exchange that ten thousand queues bind to with
// one key would copy a hundred million entries while it is built. So larger sets move to a map.
const inlineTargets = 8

// targets is an immutable set of the destinations that share a place in a matcher (a key, a pattern), each with its
// bindings. The zero value is empty. At most one of the fields holds anything.
type targets[D comparable] struct {
	few  []target[D] // up to inlineTargets, never written after it was made
	many immutable.Keyed[D, target[D]]
}

// target is one destination and the bindings that lead to it from one place. A binding is told apart from the others by
// its label: whatever of its identity the place does not say already. The empty label has a flag of its own because
// nearly all bindings have it.
type target[D comparable] struct {
	destination D
	plain       bool // the binding with the empty label is there
	labels      immutable.Map[struct{}]
}

// with returns t with the binding label and whether it was missing.
func (t target[D]) with(label string) (target[D], bool) {
	if label == "" {
		added := !t.plain
		t.plain = true
		return t, added
	}
	before := t.labels.Len()
	t.labels = t.labels.Set(label, struct{}{})
	return t, t.labels.Len() != before
}

// without returns t without the binding label and whether it was there.
func (t target[D]) without(label string) (target[D], bool) {
	if label == "" {
		removed := t.plain
		t.plain = false
		return t, removed
	}
	before := t.labels.Len()
	t.labels = t.labels.Delete(label)
	return t, t.labels.Len() != before
}

// unbound says whether no binding leads to t any more.
func (t target[D]) unbound() bool { return !t.plain && t.labels.Len() == 0 }

// empty says whether there is no destination.
func (s targets[D]) empty() bool { return len(s.few) == 0 && s.many.Len() == 0 }

// appendTo appends each destination once.
func (s targets[D]) appendTo(dst []D) []D {
	for i := range s.few {
		dst = append(dst, s.few[i].destination)
	}
	if s.many.Len() == 0 {
		return dst
	}
	return s.many.AppendKeys(dst)
}

// find returns what is known of d and its position in few (-1 when it is not in few); a target without bindings when
// nothing is.
func (s targets[D]) find(d D) (target[D], int) {
	for i := range s.few {
		if s.few[i].destination == d {
			return s.few[i], i
		}
	}
	if t, ok := s.many.Get(d); ok {
		return t, -1
	}
	return target[D]{destination: d}, -1
}

// with returns the set with one more binding and whether it was missing.
func (s targets[D]) with(d D, label string) (targets[D], bool) {
	old, i := s.find(d)
	t, added := old.with(label)
	switch {
	case !added:
		return s, false
	case i >= 0:
		few := append([]target[D](nil), s.few...)
		few[i] = t
		return targets[D]{few: few}, true
	case s.many.Len() > 0:
		return targets[D]{many: s.many.Set(d, t)}, true
	case len(s.few) < inlineTargets:
		few := make([]target[D], len(s.few)+1)
		few[copy(few, s.few)] = t
		return targets[D]{few: few}, true
	}
	many := immutable.Keyed[D, target[D]]{}.Set(d, t)
	for _, t := range s.few {
		many = many.Set(t.destination, t)
	}
	return targets[D]{many: many}, true
}

// without returns the set with one binding less and whether it was there.
func (s targets[D]) without(d D, label string) (targets[D], bool) {
	old, i := s.find(d)
	t, removed := old.without(label)
	switch {
	case !removed:
		return s, false
	case i < 0 && t.unbound():
		return targets[D]{many: s.many.Delete(d)}, true
	case i < 0:
		return targets[D]{many: s.many.Set(d, t)}, true
	case !t.unbound():
		few := append([]target[D](nil), s.few...)
		few[i] = t
		return targets[D]{few: few}, true
	case len(s.few) == 1:
		return targets[D]{}, true
	}
	few := make([]target[D], 0, len(s.few)-1)
	few = append(append(few, s.few[:i]...), s.few[i+1:]...)
	return targets[D]{few: few}, true
}
