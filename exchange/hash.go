package exchange

import (
	"math"
	"slices"
	"strconv"

	"github.com/warrenmq/warren/exchange/immutable"
	"github.com/warrenmq/warren/frames"
)

// consistentHash routes each message to one destination, chosen by a hash of its routing key (or of a header or a
// property, if the exchange's arguments say so). A binding's key is the weight of its destination: of all hash values,
// a destination gets the share that its weight has in the sum of the weights.
//
// The choice is made by weighted rendezvous (Thaler and Ravishankar 1998; Schindelhauer and Schomaker 2005): each
// destination throws a number u that its name and the message's hash decide, uniform between 0 and 1, and the greatest
// ln(u)/weight wins. A destination that comes or goes changes nobody else's throw, so it takes over or gives up its own
// share and moves nothing between the others. RabbitMQ numbers its buckets through instead; there, one that goes moves
// messages of those behind it as well. Which destination a value belongs to differs from RabbitMQ, as it does between
// RabbitMQ's nodes after a restart.
//
// Destinations of one weight can be compared by u itself, so a Route takes one logarithm a weight and about a
// nanosecond a destination. A Bind copies the destinations of its weight.
type consistentHash[D comparable] struct {
	// Immutable.
	from     hashSource
	weights  immutable.Keyed[D, []weighted] // the bindings of each destination, in the order they came
	rings    []ring[D]                      // one for each weight in use, ascending
	bindings int
}

// weighted is a binding of a destination: its identity beside the destination, and the weight in its key. The first of
// a destination's bindings decides its weight; the others wait for it to go.
type weighted struct {
	key, arguments string
	weight         float64
}

// ring holds the destinations of one weight.
type ring[D comparable] struct {
	// Immutable.
	weight  float64
	members []member[D]
}

// member is a destination and the hash of its name.
type member[D comparable] struct {
	seed        uint64
	destination D
}

func (m *consistentHash[D]) Bind(b Binding[D]) Matcher[D] {
	w := newWeighted(b)
	old, _ := m.weights.Get(b.Destination)
	if slices.ContainsFunc(old, w.same) {
		return m
	}
	next := &consistentHash[D]{
		from: m.from, rings: m.rings, bindings: m.bindings + 1,
		weights: m.weights.Set(b.Destination, append(slices.Clip(old), w)),
	}
	if len(old) == 0 {
		next.join(b.Destination, hashString(b.Name), w.weight)
	}
	return next
}

func (m *consistentHash[D]) Unbind(b Binding[D]) Matcher[D] {
	w := newWeighted(b)
	old, _ := m.weights.Get(b.Destination)
	i := slices.IndexFunc(old, w.same)
	if i < 0 {
		return m
	}
	next := &consistentHash[D]{from: m.from, rings: m.rings, bindings: m.bindings - 1}
	left := slices.Delete(slices.Clone(old), i, i+1)
	if len(left) == 0 {
		next.weights = m.weights.Delete(b.Destination)
		next.leave(b.Destination, old[0].weight)
		return next
	}
	next.weights = m.weights.Set(b.Destination, left)
	if left[0].weight != old[0].weight {
		seed := next.leave(b.Destination, old[0].weight)
		next.join(b.Destination, seed, left[0].weight)
	}
	return next
}

func (m *consistentHash[D]) Len() int { return m.bindings }

func newWeighted[D comparable](b Binding[D]) weighted {
	n, _ := parseWeight(b.Key) // checked by ValidateBinding
	return weighted{b.Key, argumentsID(b.Arguments), max(float64(n), 1)}
}

func (w *weighted) same(o weighted) bool { return w.key == o.key && w.arguments == o.arguments }

// join adds a destination to the ring of its weight. It changes m, which is in the making, and nothing m shares.
func (m *consistentHash[D]) join(d D, seed uint64, weight float64) {
	i, found := m.ringOf(weight)
	m.rings = slices.Clone(m.rings)
	if !found {
		m.rings = slices.Insert(m.rings, i, ring[D]{weight: weight})
	}
	m.rings[i].members = append(slices.Clip(m.rings[i].members), member[D]{seed, d})
}

// leave removes a destination from the ring of its weight and returns its seed. It changes m as join does.
func (m *consistentHash[D]) leave(d D, weight float64) (seed uint64) {
	i, _ := m.ringOf(weight)
	m.rings = slices.Clone(m.rings)
	members := m.rings[i].members
	at := slices.IndexFunc(members, func(x member[D]) bool { return x.destination == d })
	seed = members[at].seed
	if len(members) == 1 {
		m.rings = slices.Delete(m.rings, i, i+1)
		return seed
	}
	m.rings[i].members = slices.Delete(slices.Clone(members), at, at+1)
	return seed
}

// ringOf returns where the ring of a weight is, or would be.
func (m *consistentHash[D]) ringOf(weight float64) (int, bool) {
	return slices.BinarySearchFunc(m.rings, weight, func(r ring[D], w float64) int {
		switch {
		case r.weight < w:
			return -1
		case r.weight > w:
			return 1
		}
		return 0
	})
}

func (m *consistentHash[D]) Route(dst []D, msg *Message) []D {
	if len(m.rings) == 0 {
		return dst
	}
	hash := m.from.hash(msg)
	best, bestScore := m.rings[0].best(hash)
	if len(m.rings) == 1 {
		return append(dst, best.destination)
	}
	score := m.rings[0].score(bestScore)
	for i := 1; i < len(m.rings); i++ {
		r := &m.rings[i]
		if x, u := r.best(hash); r.score(u) > score {
			best, score = x, r.score(u)
		}
	}
	return append(dst, best.destination)
}

// best returns the member with the highest throw for a hash, and the throw.
func (r *ring[D]) best(hash uint64) (*member[D], uint64) {
	at, top := 0, uint64(0)
	for i := range r.members {
		if u := mix(hash ^ r.members[i].seed); u > top {
			at, top = i, u
		}
	}
	return &r.members[at], top
}

// score makes throws comparable between weights: ln(u)/weight, u being the throw as a number between 0 and 1, both
// excluded.
func (r *ring[D]) score(u uint64) float64 {
	return math.Log((float64(u>>11)+0.5)/(1<<53)) / r.weight
}

// What a consistent hash exchange hashes.
const (
	hashKey = iota
	hashHeader
	hashCorrelationID
	hashMessageID
	hashTimestamp
)

// hashSource is where an exchange finds the value to hash.
type hashSource struct {
	what   uint8
	header string // for hashHeader
}

const (
	argHashHeader   = "hash-header"
	argHashProperty = "hash-property"
)

var hashProperties = map[string]uint8{"correlation_id": hashCorrelationID, "message_id": hashMessageID, "timestamp": hashTimestamp}

// hashSourceOf reads arguments that validateHashSource has nothing against.
func hashSourceOf(args frames.Table) hashSource {
	if v, ok := args.Get(argHashHeader); ok {
		name, _ := v.(string)
		return hashSource{what: hashHeader, header: name}
	}
	v, _ := args.Get(argHashProperty)
	name, _ := v.(string)
	return hashSource{what: hashProperties[name]}
}

// validateHashSource checks hash-header and hash-property (texts verified on RabbitMQ 3.10.8 and 4.3.6). RabbitMQ
// crashes over one that is no string, hence the bare 541.
func validateHashSource(args frames.Table) *frames.Error {
	header, hasHeader := args.Get(argHashHeader)
	property, hasProperty := args.Get(argHashProperty)
	for _, v := range []struct {
		value any
		given bool
	}{{header, hasHeader}, {property, hasProperty}} {
		if _, isString := v.value.(string); v.given && !isString {
			return &frames.Error{Code: frames.InternalError, Scope: frames.ScopeConnection}
		}
	}
	switch {
	case hasHeader && hasProperty:
		return frames.Errorf(frames.PreconditionFailed, "hash-header and hash-property are mutually exclusive")
	case hasProperty && hashProperties[property.(string)] == hashKey:
		return frames.Errorf(frames.PreconditionFailed, "Unsupported property: %s", property)
	}
	return nil
}

// hash reduces a message to the 64 bits that choose its destination. All messages that lack the header or property go
// the same way.
func (s hashSource) hash(msg *Message) uint64 {
	switch s.what {
	case hashKey:
		return hashOf(msg.RoutingKey)
	case hashHeader:
		v, ok := msg.Headers.Lookup(s.header)
		if !ok {
			return 0
		}
		return hashValue(rules{}.read(v))
	}
	if msg.Properties == nil {
		return 0
	}
	var text []byte
	switch s.what {
	case hashCorrelationID:
		text, _ = msg.Properties.CorrelationID()
	case hashMessageID:
		text, _ = msg.Properties.MessageID()
	case hashTimestamp:
		seconds, _ := msg.Properties.Timestamp()
		return mix(seconds)
	}
	return hashOf(text)
}

// hashValue hashes a header's value: values that the headers exchange of profile 4 calls equal have equal hashes.
func hashValue(v value) uint64 { return mix(hashOf(v.data)^v.number) + uint64(v.kind) }

// hashOf is FNV-1a with a finisher, written out because the value must never change: where messages go after a restart,
// or on a newer version, depends on it.
func hashOf(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return mix(h)
}

// hashString is hashOf for strings.
func hashString(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// mix spreads every bit of x over the result: the finisher of MurmurHash3 with the constants of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// parseWeight reads a binding key as Erlang's list_to_integer does: decimal digits, with or without a sign. A number
// beyond the range counts as the end of the range.
func parseWeight(key string) (n int64, ok bool) {
	digits := key
	if digits != "" && (digits[0] == '+' || digits[0] == '-') {
		digits = digits[1:]
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
	}
	if digits == "" {
		return 0, false
	}
	n, _ = strconv.ParseInt(key, 10, 64) // out of range, the only error left: n is the end of it
	return n, true
}

// validateWeight checks the key of a binding to a consistent hash exchange; most 0 is no bound.
func validateWeight(key string, most int64) *frames.Error {
	n, ok := parseWeight(key)
	switch {
	case !ok:
		return frames.Errorf(frames.PreconditionFailed, "The binding key must be an integer: %s", frames.ErlangBinary([]byte(key)))
	case n < 1:
		return frames.Errorf(frames.PreconditionFailed, "The binding key must be greater than 0")
	case most > 0 && n > most:
		return frames.Errorf(frames.PreconditionFailed, "The binding key must not exceed %d", most)
	}
	return nil
}
