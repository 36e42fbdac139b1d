package broker

import (
	"fmt"
	"math/rand/v2"

	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// Exchange types that keep messages and so live here, not in package exchange.
const (
	typeDelayed       = "x-delayed-message"
	typeRecentHistory = "x-recent-history"
)

// backlog is what an exchange keeps of its messages: a queue that no client
// sees, with a log of its own when the exchange outlives a restart. Being a
// queue, it takes part in confirms, transactions and recovery without another
// line of code: whoever routes to the exchange routes to it too.
type backlog struct {
	number uint64 // id of the queue, and of its log
	queue  *queue.Queue
	log    *persist.Log // nil when nothing of it is on disk
	purged bool         // what the log holds is not to be recovered
}

// id is the backlog's number; 0 for none.
func (l *backlog) id() uint64 {
	if l == nil {
		return 0
	}
	return l.number
}

// hidden says whether a queue is the backlog of an exchange. Those have no
// name, which no other queue is without.
func hidden(q *queue.Queue) bool { return q.Name == "" }

// equip gives a new or recovered exchange what its type needs. A recovered one
// comes with the numbers of its backlogs.
func (v *VHost) equip(x *Exchange) {
	x.routing = x.Type
	delays, history := x.delays, x.history
	x.delays, x.history = nil, nil
	if x.Type == typeDelayed {
		x.routing, _ = delayedType(x.Arguments)
		x.delays = v.openBacklog(x, delays, true, func(c queue.Config) *queue.Queue {
			return queue.NewDelay(c, messageDelay, func(due []queue.Entry) { v.release(x, due) })
		})
	}
	if x.routing == typeRecentHistory {
		x.routing = exchange.TypeFanout
		x.history = v.openBacklog(x, history, compat.HistorySurvives.In(v.broker.Profile), func(c queue.Config) *queue.Queue {
			rules := queue.NoRules()
			rules.MaxLength = historyLength(x.Arguments)
			c.Rules, c.Clock = &rules, nil // what is remembered does not expire
			return queue.New(c)
		})
	}
	x.keeps = x.delays != nil || x.history != nil
	x.traits = exchange.TraitsOf(x.routing, x.Arguments)
}

// openBacklog makes a backlog, with the number of the one that was there before
// the restart. survives: it is kept on disk when the exchange is.
func (v *VHost) openBacklog(x *Exchange, before *backlog, survives bool, open func(queue.Config) *queue.Queue) *backlog {
	l := &backlog{number: before.id()}
	stored := v.keepsExchange(x) && v.broker.store != nil
	if l.number == 0 {
		l.number = v.broker.nextQueueID(stored)
	}
	c := queue.Config{VHost: v.Name, ID: l.number, Pump: v.broker.pump, Clock: v.broker.Clock}
	if stored {
		l.log, l.purged = v.broker.store.Log(l.number), !survives
		if survives {
			c.Durable, c.Journal = true, queue.StoreJournal(l.log)
		}
	}
	l.queue = open(c)
	return l
}

// recover fills a backlog from its log.
func (l *backlog) recover(b *Broker) error {
	switch {
	case l.log == nil:
		return nil
	case l.purged: // written under the other profile
		return l.log.Recover(func(r persist.Recovered) error {
			l.log.Settle(r.Seq)
			return nil
		})
	}
	return l.queue.Recover(l.log, !b.store.CleanStart())
}

// dropBacklogs forgets what an exchange that is being removed has kept.
func (e *edit) dropBacklogs(x *Exchange) {
	for _, l := range []*backlog{x.delays, x.history} {
		if l == nil {
			continue
		}
		_, _ = l.queue.Delete(false, false) // ErrDeleted: gone already is as good
		if l.log != nil {
			e.logs = append(e.logs, l.log)
		}
	}
}

// keep has an exchange keep a message that is being routed through it.
// delayed: for now it goes nowhere else.
func (r *Router) keep(x *Exchange, m *exchange.Message) (delayed bool) {
	if x.delays != nil {
		ms, err := delayOf(m.Headers)
		r.malformed = r.malformed || err != nil
		if ms > 0 {
			r.queues = append(r.queues, x.delays.queue)
			r.kept++
			return true
		}
	}
	if x.history != nil && !forgets(m.Headers) {
		r.queues = append(r.queues, x.history.queue)
		r.kept++
	}
	return false
}

// knownExchangeType says whether an exchange of the type may be declared.
func knownExchangeType(p compat.Profile, typ string) bool {
	if typ == exchange.TypeLocalRandom && !compat.LocalRandomExchange.In(p) {
		return false
	}
	return isExchangeType(typ)
}

// isExchangeType says whether the type is one of any profile.
func isExchangeType(typ string) bool {
	if typ == typeDelayed || typ == typeRecentHistory {
		return true
	}
	_, known := exchange.New[*destination](typ, exchange.Options{})
	return known
}

// checkExchangeArguments checks what a new exchange's type asks of its
// arguments. Texts of x-delayed-message are those of the plugin's source; the
// others were verified on 3.10.8 and 4.3.6.
func checkExchangeArguments(p compat.Profile, typ string, args frames.Table) *frames.Error {
	switch typ {
	case typeDelayed:
		base, ok := delayedType(args)
		switch {
		case !ok:
			return frames.Errorf(frames.PreconditionFailed, "Invalid argument, 'x-delayed-type' must be an existing exchange type")
		case base == typeDelayed:
			return frames.Errorf(frames.PreconditionFailed, "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'")
		case !knownExchangeType(p, base):
			return unknownExchangeType(p, base)
		}
		return checkExchangeArguments(p, base, args)
	case typeRecentHistory:
		return checkHistoryLength(args)
	}
	return exchange.ValidateArguments(typ, args)
}

// checkBindingTo checks what the source's type asks of a binding.
func (v *VHost) checkBindingTo(x *Exchange, b *Binding) error {
	if err := exchange.ValidateBinding(x.routing, b.Key, b.Arguments, v.broker.matcherOptions(x)); err != nil {
		return err
	}
	if x.routing != exchange.TypeLocalRandom {
		return nil
	}
	switch q := b.destination.queue; {
	case q == nil:
		return frames.Errorf(frames.PreconditionFailed, "Destination not found")
	case q.Type != "classic":
		return frames.Errorf(frames.PreconditionFailed, "Queue type %s not valid for this exchange type", fmt.Sprintf("rabbit_%s_queue", q.Type))
	}
	return nil
}

// matcherOptions are the options of an exchange's matcher.
func (b *Broker) matcherOptions(x *Exchange) exchange.Options {
	return exchange.Options{
		NumbersByValue: compat.HeaderNumbersByValue.In(b.Profile),
		Arguments:      x.Arguments,
		Random:         rand.Uint64,
		MaxWeight:      compat.MaxHashWeight.In(b.Profile),
	}
}
