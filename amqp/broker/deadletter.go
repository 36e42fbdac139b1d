package broker

import (
	"math"
	"slices"

	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// deadLetter is where a queue's dead messages go.
type deadLetter struct {
	exchange string
	key      string
	hasKey   bool
	fallback bool // not the queue's own, but that of its virtual host
}

// rulesOf reads a queue's checked arguments. Of one that is given twice the
// first counts, as in RabbitMQ.
func rulesOf(args frames.Table) (queue.Rules, *deadLetter) {
	r := queue.NoRules()
	for _, f := range slices.Backward(args) {
		n, isInteger := integer(f.Value)
		switch {
		case f.Key == "x-message-ttl" && isInteger:
			r.TTL = n
		case f.Key == "x-expires" && isInteger:
			r.Expires = n
		case f.Key == "x-max-length" && isInteger:
			r.MaxLength = min(n, math.MaxInt64)
		case f.Key == "x-max-length-bytes" && isInteger:
			r.MaxBytes = n
		case f.Key == "x-overflow":
			r.Overflow = overflowOf(f.Value)
		case f.Key == "x-single-active-consumer":
			r.SingleActive, _ = f.Value.(bool)
		}
	}
	extraRules(args, &r)
	dl := deadLetterOf(args)
	r.DeadLetters = dl != nil
	return r, dl
}

func overflowOf(v any) queue.Overflow {
	switch v {
	case "reject-publish":
		return queue.RejectPublish
	case "reject-publish-dlx":
		return queue.RejectPublishAndBury
	case overflowDropLowest:
		return queue.DropLowest
	case overflowBlockPublishers:
		return queue.BlockPublishers
	}
	return queue.DropHead
}

func deadLetterOf(args frames.Table) *deadLetter {
	v, _ := args.Get("x-dead-letter-exchange")
	name, ok := v.(string)
	if !ok {
		return nil
	}
	d := &deadLetter{exchange: name}
	v, _ = args.Get("x-dead-letter-routing-key")
	d.key, d.hasKey = v.(string)
	return d
}

var reasons = [...]deathReason{queue.Rejected: rejected, queue.Expired: expired, queue.MaxLength: maxlen, queue.DeliveryLimit: deliveryLimit}

// bury publishes dead messages of a queue to its dead-letter exchange. Their
// end in the queue and their arrival elsewhere are one transaction, so that a
// crash neither loses nor doubles them. On a goroutine of the pump.
func (v *VHost) bury(q *Queue, dl *deadLetter, dead []queue.Dead) {
	if q.BuriesSurely() {
		v.burySurely(q, dl, dead)
		return
	}
	t := queue.Transaction{Settlements: []queue.Settlement{{Queue: q.Queue, Fate: queue.Inter}}}
	for i := range dead {
		if d := &dead[i]; d.Seq != 0 { // one that was refused at the door is in no queue
			t.Settlements[0].Entries = append(t.Settlements[0].Entries, d.Entry)
		}
	}
	t.Enqueues = v.funerals(q, dl, dead)
	// It cannot fail: queues that are full or gone are left out.
	_, _ = queue.Commit(t, v.broker.store, nil, 0)
}

// funerals rewrites dead messages and finds the queues they go to; there are
// none without dead lettering. Any goroutine, with no lock held.
func (v *VHost) funerals(q *Queue, dl *deadLetter, dead []queue.Dead) (all []queue.Enqueue) {
	if dl == nil {
		return nil
	}
	var r Router
	for i := range dead {
		if e, ok := v.funeral(&r, q, dl, &dead[i]); ok {
			all = append(all, e)
		}
	}
	return all
}

// funeral rewrites one dead message and finds the queues it goes to.
func (v *VHost) funeral(r *Router, q *Queue, dl *deadLetter, d *queue.Dead) (queue.Enqueue, bool) {
	m, keys := buried(v.broker.Profile, d.Message, death{
		Queue: q.Name, Reason: reasons[d.Reason], At: v.broker.Clock.Now().Unix(),
		Exchange: dl.exchange, Key: dl.key, HasKey: dl.hasKey,
	})
	// A consumer had it when it was rejected; what expired or fell out of a full queue starts anew, delivered before or not.
	byConsumer := d.Reason == queue.Rejected || d.Reason == queue.DeliveryLimit
	e := queue.Enqueue{Message: m, Redelivered: byConsumer && deathKeepsRedelivered.In(v.broker.Profile)}
	for _, to := range v.routeByName(r, dl.exchange, keys, m.Properties) {
		if !deathCycle(m, reasons[d.Reason], to.Name) && !(dl.fallback && diedIn(m, to.Name)) {
			e.Queues = append(e.Queues, to)
		}
	}
	return e, len(e.Queues) > 0
}

// routeByName routes something that no client published: no checks, and an
// exchange that is missing takes it nowhere. The slice is valid until the
// router's next use.
func (v *VHost) routeByName(r *Router, name string, keys []string, properties []byte) []*queue.Queue {
	t := v.topology.Load()
	r.enter(t, []byte(name))
	if r.node == nil || len(keys) == 0 {
		return nil
	}
	r.keys = r.keys[:0]
	for _, k := range keys[1:] {
		r.keys = append(r.keys, []byte(k))
	}
	clear(r.queues)
	r.queues, r.visited, r.replies, r.kept = r.queues[:0], r.visited[:0], 0, 0
	m := exchange.Message{RoutingKey: []byte(keys[0])}
	if p, err := frames.ParseProperties(properties); err == nil {
		m.Headers, _ = p.Headers()
		m.Properties = &p
	}
	r.visit(v, t, r.node, &m)
	m.Done()
	r.distinct()
	return r.queues
}

// lapse deletes a queue that nobody has used for its x-expires. On a goroutine
// of the pump.
func (v *VHost) lapse(q *Queue) {
	if q.DeleteIfLapsed() {
		v.dropQueue(q, nil)
	}
}
