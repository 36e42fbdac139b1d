package broker

import "sync"

// Totals count what has been done since the broker was opened. They never
// become less.
type Totals struct {
	ConnectionsOpened, ConnectionsClosed uint64
	QueuesCreated, QueuesDeleted         uint64
	// By type of queue: what has come into queues, a message once for each of
	// them, what was handed to clients, and what they acknowledged.
	Routed, Delivered, Acknowledged map[string]uint64
}

// totals are the parts of Totals that nothing alive knows any more.
type totals struct {
	mu   sync.Mutex
	gone Totals // of queues and connections that are gone
	last Totals // as it was told last
}

func newTotals() Totals {
	return Totals{Routed: map[string]uint64{}, Delivered: map[string]uint64{}, Acknowledged: map[string]uint64{}}
}

// add counts a queue.
func (t *Totals) add(q *Queue) {
	published, delivered, acked := q.Totals()
	t.Routed[q.Type] += published
	t.Delivered[q.Type] += delivered
	t.Acknowledged[q.Type] += acked
}

// edited counts an edit of the topology, which everybody sees by now.
func (t *totals) edited(added int, removed []*Queue) {
	if added == 0 && len(removed) == 0 {
		return
	}
	t.count(func(gone *Totals) {
		gone.QueuesCreated += uint64(added)
		gone.QueuesDeleted += uint64(len(removed))
		for _, q := range removed {
			gone.add(q)
		}
	})
}

func (t *totals) count(change func(gone *Totals)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone.Routed == nil {
		t.gone, t.last = newTotals(), newTotals()
	}
	change(&t.gone)
}

// Totals adds up the counts of all queues, those that are gone too. Any
// goroutine that holds no lock of the broker.
func (b *Broker) Totals() Totals {
	now := newTotals()
	for _, v := range b.VHosts() {
		for _, q := range v.Queues() {
			now.add(q)
		}
	}
	t := &b.totals
	t.count(func(gone *Totals) { t.sum(&now, gone) })
	return now
}

// sum adds what is gone to the counts of now. mu is held.
func (t *totals) sum(now, gone *Totals) {
	now.ConnectionsOpened, now.ConnectionsClosed = gone.ConnectionsOpened, gone.ConnectionsClosed
	now.QueuesCreated, now.QueuesDeleted = gone.QueuesCreated, gone.QueuesDeleted
	// A queue may be deleted between both looks: never tell less than before.
	for _, m := range []struct{ now, gone, last map[string]uint64 }{
		{now.Routed, gone.Routed, t.last.Routed}, {now.Delivered, gone.Delivered, t.last.Delivered},
		{now.Acknowledged, gone.Acknowledged, t.last.Acknowledged},
	} {
		for _, typ := range []string{typeClassic, typeQuorum, typeStream} {
			m.now[typ] = max(m.now[typ]+m.gone[typ], m.last[typ])
			m.last[typ] = m.now[typ]
		}
	}
}
