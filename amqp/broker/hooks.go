package broker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// Step is a protocol step that hooks can see.
type Step uint8

// The steps. Those marked * are asked of interceptors before they happen; all
// are told to observers.
const (
	ConnectionOpened Step = iota // * connection.open accepted, before open-ok
	ConnectionClosed
	ChannelOpened
	ChannelClosed    // Code and Text are set when the broker closed it
	MethodHandled    // * any method of an open channel, before its handler
	PublishAccepted  // * a publish passed every check and is about to be routed
	PublishRouted    // Queues says to how many queues
	PublishReturned  // basic.return
	ConfirmSent      // * DeliveryTag is the publisher's sequence number; Nack says which
	DeliverySent     // * basic.deliver or basic.get-ok
	DeliverySettled  // acknowledged
	DeliveryRejected // rejected or nacked without requeue
	DeliveryRequeued // returned to its queue
	ConsumerAdded
	ConsumerRemoved
	ExchangeDeclared
	ExchangeDeleted
	QueueDeclared
	QueueDeleted
	QueuePurged
	BindingAdded
	BindingRemoved
	PolicySet     // Text is the name, as in the next three
	PolicyCleared // also of operator policies
	ParameterSet  // limits of a virtual host are the parameter "limits"
	ParameterCleared
	AlarmSet            // Text is the resource, memory or disk
	AlarmCleared        // the same
	ConnectionBlocked   // a publish met an alarm; Text is the reason
	ConnectionUnblocked // the client may publish again
	steps
)

var stepNames = [steps]string{
	"connection.opened", "connection.closed", "channel.opened", "channel.closed", "method.handled", "publish.accepted",
	"publish.routed", "publish.returned", "confirm.sent", "delivery.sent", "delivery.settled", "delivery.rejected",
	"delivery.requeued", "consumer.added", "consumer.removed", "exchange.declared", "exchange.deleted", "queue.declared",
	"queue.deleted", "queue.purged", "binding.added", "binding.removed",
	"policy.set", "policy.cleared", "parameter.set", "parameter.cleared",
	"alarm.set", "alarm.cleared", "connection.blocked", "connection.unblocked",
}

// String is the step's name, for example "publish.routed".
func (s Step) String() string {
	if s < steps {
		return stepNames[s]
	}
	return "unknown"
}

// Event is one protocol step. Fields that the step does not have are zero.
type Event struct {
	Step       Step
	At         time.Time // message time
	VHost      string
	User       string
	Connection string // "HOST:PORT -> HOST:PORT"
	Channel    uint16
	Method     frames.MethodID
	Exchange   string
	RoutingKey string
	Queue      string
	Consumer   string // consumer tag
	// DeliveryTag is a delivery's tag, or a publish's confirm sequence number.
	DeliveryTag uint64
	Redelivered bool
	Nack        bool
	Queues      int
	Routed      []string // names of the queues of a publish, while its virtual host is traced
	Code        uint16
	Text        string
	// Message is the message concerned; immutable. Nil in PublishAccepted of an
	// unroutable message and where no message is.
	Message *queue.Message
}

// Observer is told what happened. Observe runs on the observer's own
// goroutine, never under a lock of the broker; the slice is valid during the
// call.
type Observer interface{ Observe(events []Event) }

// Action is what an interceptor wants done with a step.
type Action uint8

// The actions.
const (
	GoOn   Action = iota
	Refuse        // close the channel or connection with Code and Text
	Drop          // as if it had happened, but it does not: the message vanishes, the frame is not sent, the method is ignored
	Delay         // later, by Wait; order on the channel is kept
	Close         // drop the socket without a word
)

// Verdict is an interceptor's answer.
type Verdict struct {
	Action Action
	Code   uint16 // Refuse
	Text   string // Refuse
	Wait   time.Duration
}

// Interceptor is asked before a step. Intercept may be called under a queue's
// or a channel's lock and from many goroutines: it must not block and must not
// call the broker. The event is valid during the call.
type Interceptor interface{ Intercept(e *Event) Verdict }

// Hooks are the broker's observers and interceptors. Nobody installed costs
// one atomic load and a nil check a step.
type Hooks struct {
	active atomic.Pointer[hookSet]

	mu sync.Mutex // changes of the set
}

// hookSet is immutable.
type hookSet struct {
	observers    []*observerQueue
	interceptors []*interceptorEntry
}

type interceptorEntry struct{ Interceptor }

// Observing says whether anybody listens: callers build no event otherwise.
func (h *Hooks) Observing() bool {
	s := h.active.Load()
	return s != nil && len(s.observers) > 0
}

// Intercepting says whether anybody must be asked.
func (h *Hooks) Intercepting() bool {
	s := h.active.Load()
	return s != nil && len(s.interceptors) > 0
}

// Intercept asks the interceptors in the order they were installed; the first
// that does not say GoOn decides.
func (h *Hooks) Intercept(e *Event) Verdict {
	s := h.active.Load()
	if s == nil {
		return Verdict{}
	}
	for _, i := range s.interceptors {
		if v := i.Intercept(e); v.Action != GoOn {
			return v
		}
	}
	return Verdict{}
}

// Emit tells the observers. It copies the event and never blocks: an observer
// that is too slow loses events, which are counted.
func (h *Hooks) Emit(e *Event) {
	s := h.active.Load()
	if s == nil {
		return
	}
	for _, o := range s.observers {
		o.put(e)
	}
}

// AddInterceptor installs i behind those there are; remove takes it out.
func (h *Hooks) AddInterceptor(i Interceptor) (remove func()) {
	entry := &interceptorEntry{i}
	h.change(func(s *hookSet) { s.interceptors = append(s.interceptors, entry) })
	return func() {
		h.change(func(s *hookSet) {
			s.interceptors = slices.DeleteFunc(s.interceptors, func(e *interceptorEntry) bool { return e == entry })
		})
	}
}

// AddObserver installs o with room for buffer events; remove takes it out and
// returns when o has been told everything that was buffered. dropped counts
// the events o was too slow for.
func (h *Hooks) AddObserver(o Observer, buffer int) (remove func(), dropped func() uint64) {
	q := newObserverQueue(o, buffer)
	h.change(func(s *hookSet) { s.observers = append(s.observers, q) })
	return func() {
		h.change(func(s *hookSet) {
			s.observers = slices.DeleteFunc(s.observers, func(e *observerQueue) bool { return e == q })
		})
		q.close()
	}, q.dropped.Load
}

func (h *Hooks) change(edit func(*hookSet)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := &hookSet{}
	if s := h.active.Load(); s != nil {
		next.observers = slices.Clone(s.observers)
		next.interceptors = slices.Clone(s.interceptors)
	}
	edit(next)
	if len(next.observers)+len(next.interceptors) == 0 {
		next = nil
	}
	h.active.Store(next)
}

// observerQueue is the bounded buffer before one observer, with the goroutine
// that serves it.
type observerQueue struct {
	observer Observer
	limit    int
	dropped  atomic.Uint64
	done     chan struct{}

	mu     sync.Mutex
	wake   sync.Cond
	events []Event
	closed bool
}

func newObserverQueue(o Observer, buffer int) *observerQueue {
	q := &observerQueue{observer: o, limit: max(buffer, 1), done: make(chan struct{})}
	q.wake.L = &q.mu
	go q.serve()
	return q
}

func (q *observerQueue) put(e *Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.events) >= q.limit {
		q.dropped.Add(1)
		return
	}
	q.events = append(q.events, *e)
	if len(q.events) == 1 {
		q.wake.Signal()
	}
}

func (q *observerQueue) serve() {
	defer close(q.done)
	var batch []Event
	for {
		q.mu.Lock()
		for len(q.events) == 0 && !q.closed {
			q.wake.Wait()
		}
		batch, q.events = q.events, batch[:0]
		q.mu.Unlock()
		if len(batch) == 0 {
			return // closed and empty
		}
		q.observer.Observe(batch)
		clear(batch)
	}
}

func (q *observerQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.wake.Signal()
	q.mu.Unlock()
	<-q.done
}
