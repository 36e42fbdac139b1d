package broker

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/exchange/immutable"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// Exchange is what an exchange was declared with. Immutable.
type Exchange struct {
	Name       string
	Type       string
	Durable    bool
	AutoDelete bool
	Internal   bool
	Arguments  frames.Table
	// Alternate is the alternate exchange's name; HasAlternate tells "" from
	// none.
	Alternate    string
	HasAlternate bool

	destination *destination
	// routing is the type that matches keys: for a delayed exchange that of its
	// x-delayed-type, fanout for a recent history, else Type.
	routing string
	traits  exchange.Traits
	keeps   bool // delays or history is there
	// delays and history are queues that no client sees: messages whose time has
	// not come, and the last ones for whoever binds later. See backlog.go.
	delays, history *backlog
}

// destination is where a binding leads: a queue or an exchange. One pointer
// for each queue and exchange as long as it lives, which makes it the
// identity that matchers compare.
type destination struct {
	queue    *Queue
	exchange *Exchange
}

func (d *destination) name() string {
	if d.queue != nil {
		return d.queue.Name
	}
	return d.exchange.Name
}

// Queue is a queue of a virtual host: the message order of package queue, and
// what the broker keeps beside it.
type Queue struct {
	*queue.Queue
	// Type is classic, quorum or stream.
	Type string

	stored      bool // has a definition in the store
	destination *destination

	// Replaced when policies change.
	applied    atomic.Pointer[applied]
	deadLetter atomic.Pointer[deadLetter] // the last one; the rules say whether it counts
}

// Binding leads messages from an exchange to a queue or another exchange.
// Immutable.
type Binding struct {
	Source      string
	Key         string
	Arguments   frames.Table
	destination *destination
	stored      bool
}

// ToQueue says whether the destination is a queue (else an exchange).
func (b *Binding) ToQueue() bool { return b.destination.queue != nil }

// Destination is the destination's name.
func (b *Binding) Destination() string { return b.destination.name() }

// topology is one state of a virtual host's routing. Immutable.
type topology struct {
	exchanges immutable.Map[*exchangeNode]
	queues    immutable.Map[*Queue]
}

// exchangeNode is an exchange with its routing table. Immutable: a bind makes
// a new one.
type exchangeNode struct {
	*Exchange
	matcher   exchange.Matcher[*destination]
	alternate string // name of the alternate exchange, its own or a policy's; "" is none
	applied   *applied
	selects   bool // some bindings have a selector, so that the routing key alone decides nothing
}

// bindingSet keeps the bindings of a virtual host so that they can be listed
// and removed from either end. Guarded by the virtual host's mutex.
type bindingSet struct {
	bySource      map[string]map[string]*Binding
	byDestination map[*destination]map[string]*Binding
}

func newBindingSet() bindingSet {
	return bindingSet{bySource: map[string]map[string]*Binding{}, byDestination: map[*destination]map[string]*Binding{}}
}

func (s *bindingSet) get(b *Binding) *Binding { return s.bySource[b.Source][b.identity()] }

func (s *bindingSet) add(b *Binding) {
	id := b.identity()
	if s.bySource[b.Source] == nil {
		s.bySource[b.Source] = map[string]*Binding{}
	}
	if s.byDestination[b.destination] == nil {
		s.byDestination[b.destination] = map[string]*Binding{}
	}
	s.bySource[b.Source][id] = b
	s.byDestination[b.destination][id] = b
}

func (s *bindingSet) remove(b *Binding) {
	id := b.identity()
	delete(s.bySource[b.Source], id)
	if len(s.bySource[b.Source]) == 0 {
		delete(s.bySource, b.Source)
	}
	delete(s.byDestination[b.destination], id)
	if len(s.byDestination[b.destination]) == 0 {
		delete(s.byDestination, b.destination)
	}
}

// identity is unique among the bindings of a virtual host: source, kind and
// name of the destination, key and arguments.
func (b *Binding) identity() string {
	kind := "e"
	if b.ToQueue() {
		kind = "q"
	}
	var id []byte
	for _, part := range []string{b.Source, kind, b.Destination(), b.Key} {
		id = binary.AppendUvarint(id, uint64(len(part)))
		id = append(id, part...)
	}
	return string(sortedArguments(b.Arguments).Append(id))
}

// longestStoredName is the longest identity that is a key in the store as it
// is. The store bounds its keys; clients may send arguments of any size.
const longestStoredName = 1 << 10

// storedName is the name of the binding's definition in the store: its
// identity, or what stands for a long one. No identity begins with two octets
// 255, since no name is that long.
func (b *Binding) storedName() string {
	id := b.identity()
	if len(id) <= longestStoredName {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "\xff\xff" + string(sum[:])
}

// sortedArguments orders a table by key, as RabbitMQ does before it compares
// the arguments of two bindings.
func sortedArguments(t frames.Table) frames.Table {
	if len(t) < 2 {
		return t
	}
	t = slices.Clone(t)
	slices.SortStableFunc(t, func(a, b frames.Field) int { return strings.Compare(a.Key, b.Key) })
	return t
}
