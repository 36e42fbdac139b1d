package queue

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The model: a queue is a sorted slice, and the consumers' turn is a list.

// modelEntry is a message in the model.
type modelEntry struct {
	id         string
	seq        uint64
	priority   int
	persistent bool
	deliveries uint32
	entry      Entry // what the queue handed out, to give back
}

// modelClient is a consumer in the model.
type modelClient struct {
	*client
	credit  int
	starved bool
	unacked []modelEntry
}

// machine is a queue, its model, and what both have delivered.
type machine struct {
	t       *rapid.T
	q       *Queue
	pump    *Pump
	journal *bookJournal
	pagers  []*Pager // nil is none

	maxPriority int
	autoDelete  bool
	ready       []modelEntry
	nextSeq     uint64
	nextID      int
	clients     []*modelClient // all that consume, in the order they came
	turn        []*modelClient // those that may have credit, next first
	held        []modelEntry   // taken with get, or left behind by a cancelled consumer
	served      bool
	acked       int

	delivered, expected []string // "tag id redelivered deliveries priority"
}

func TestQueueFollowsModel(t *testing.T) {
	clock := newClock(t)
	pagers := []*Pager{nil, newPager(t, 1, clock), newPager(t, 200<<10, clock)}
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{t: t, pump: NewPump(), pagers: pagers}
		defer m.pump.Close()
		m.renew()
		t.Repeat(map[string]func(*rapid.T){
			"publish": m.publish, "burst": m.burst, "consume": m.consume, "cancel": m.cancel, "grant": m.grant,
			"resume": m.resume, "ack": m.ack, "requeue": m.requeue, "get": m.get, "settleHeld": m.settleHeld,
			"purge": m.purge, "delete": m.delete, "commit": m.commit, "": m.check,
		})
	})
}

// renew starts with an empty queue.
func (m *machine) renew() {
	t := m.t
	*m = machine{t: t, pump: m.pump, pagers: m.pagers, nextSeq: 1}
	m.maxPriority = rapid.SampledFrom([]int{0, 0, 1, 3, 255}).Draw(t, "max priority")
	m.autoDelete = rapid.Bool().Draw(t, "auto-delete")
	config := Config{Name: "q", AutoDelete: m.autoDelete, MaxPriority: m.maxPriority, ID: 1, Pump: m.pump}
	config.Pager = rapid.SampledFrom(m.pagers).Draw(t, "pager")
	if rapid.Bool().Draw(t, "durable") {
		m.journal = newBookJournal()
		config.Durable, config.Journal = true, m.journal
	}
	m.q = New(config)
}

// newMessage draws a message and its place in the model.
func (m *machine) newMessage(t *rapid.T) (*Message, modelEntry) {
	priority := rapid.IntRange(0, 4).Draw(t, "priority")
	persistent := rapid.Bool().Draw(t, "persistent")
	e := modelEntry{id: fmt.Sprintf("m%d", m.nextID), seq: m.nextSeq, priority: min(priority, m.maxPriority), persistent: persistent}
	m.nextID++
	m.nextSeq++
	msg := text(e.id)
	msg.Priority, msg.Persistent = uint8(priority), persistent
	if m.q.Pager != nil { // as large as makes a block of few
		msg.Properties = make([]byte, rapid.SampledFrom([]int{0, 700, 22 << 10}).Draw(t, "properties"))
	}
	if persistent && m.journal != nil {
		m.journal.track(msg)
	}
	return msg, e
}

func (m *machine) publish(t *rapid.T) {
	msg, e := m.newMessage(t)
	if m.q.Publish(msg) != Taken {
		t.Fatal("publish was refused")
	}
	m.wait(e)
	m.serve()
}

// burst makes a backlog that no single call delivers.
func (m *machine) burst(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
		t.Skip()
	}
	for range rapid.IntRange(deliverBound, deliverBound+pumpBound).Draw(t, "messages") {
		e := modelEntry{id: fmt.Sprintf("m%d", m.nextID), seq: m.nextSeq, priority: min(m.nextID%3, m.maxPriority)}
		msg := text(e.id)
		msg.Priority = uint8(m.nextID % 3)
		m.nextID++
		m.nextSeq++
		m.q.Publish(msg)
		m.wait(e)
		m.serve()
		quiet(m.q)
	}
}

// wait puts a message into the model's order.
func (m *machine) wait(e modelEntry) {
	i, _ := slices.BinarySearchFunc(m.ready, e, func(a, b modelEntry) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.seq, b.seq))
	})
	m.ready = slices.Insert(m.ready, i, e)
}

// serve delivers in the model until messages or consumers run out.
func (m *machine) serve() {
	for len(m.ready) > 0 && len(m.turn) > 0 {
		i := 0
		for j, c := range m.turn {
			if c.Priority > m.turn[i].Priority {
				i = j
			}
		}
		c := m.turn[i]
		m.turn = slices.Delete(m.turn, i, i+1)
		if c.credit == 0 {
			c.starved = true
			continue
		}
		if c.credit > 0 {
			c.credit--
		}
		m.turn = append(m.turn, c)
		e := m.ready[0]
		m.ready = m.ready[1:]
		m.expected = append(m.expected, line(c.Tag, e.id, e.deliveries, e.priority))
		if !c.NoAck {
			c.unacked = append(c.unacked, e)
		}
	}
}

func line(tag, id string, deliveries uint32, priority int) string {
	return fmt.Sprint(tag, " ", id, " ", deliveries > 0, " ", deliveries, " ", priority)
}

func (m *machine) consume(t *rapid.T) {
	c := &modelClient{client: newClient(m.q, fmt.Sprintf("c%d", m.nextID), rapid.IntRange(unlimited, 4).Draw(t, "credit"))}
	m.nextID++
	c.credit = c.client.credit
	c.Priority = rapid.IntRange(-1, 1).Draw(t, "consumer priority")
	c.NoAck = rapid.Bool().Draw(t, "no-ack")
	c.Exclusive = rapid.IntRange(0, 5).Draw(t, "exclusive") == 0
	c.taken = func(c *client, e *Entry) {
		if e.Redelivered != (e.Deliveries > 0) {
			panic("redelivered does not agree with the deliveries")
		}
		m.delivered = append(m.delivered, line(c.Tag, string(e.Message.Content), e.Deliveries, int(e.Priority)))
	}
	exclusive := len(m.clients) > 0 && (c.Exclusive || m.clients[0].Exclusive)
	err := m.q.AddConsumer(&c.Consumer)
	if exclusive != errors.Is(err, ErrExclusive) || !exclusive && err != nil {
		t.Fatalf("add consumer: %v, refusal expected: %v", err, exclusive)
	}
	if err != nil {
		return
	}
	m.clients = append(m.clients, c)
	m.served = true
	if rapid.Bool().Draw(t, "served at once") {
		m.q.Resume(&c.Consumer)
		m.enter(c)
	}
}

// enter gives a client a turn in the model.
func (m *machine) enter(c *modelClient) {
	if !slices.Contains(m.turn, c) {
		m.turn = append(m.turn, c)
	}
	m.serve()
}

// pick draws one of those that consume.
func (m *machine) pick(t *rapid.T) *modelClient {
	if len(m.clients) == 0 {
		t.Skip()
	}
	return rapid.SampledFrom(m.clients).Draw(t, "client")
}

func (m *machine) cancel(t *rapid.T) {
	c := m.pick(t)
	m.clients = slices.DeleteFunc(m.clients, func(o *modelClient) bool { return o == c })
	m.turn = slices.DeleteFunc(m.turn, func(o *modelClient) bool { return o == c })
	deleteNow := m.q.RemoveConsumer(&c.Consumer)
	m.held = append(m.held, m.match(t, c)...)
	if want := m.autoDelete && len(m.clients) == 0; deleteNow != want {
		t.Fatalf("after the last cancel of a queue, auto-delete %v, deletion asked for: %v", m.autoDelete, deleteNow)
	}
	if m.q.RemoveConsumer(&c.Consumer) {
		t.Fatal("a consumer that is gone asks for the queue's deletion")
	}
	if deleteNow {
		if !m.q.DeleteIfAbandoned() {
			t.Fatal("an abandoned queue was not deleted")
		}
		m.afterDelete(t)
	}
}

// match gives the model's unacked entries of a client the entries that the
// queue delivered, so that they can be given back.
func (m *machine) match(t *rapid.T, c *modelClient) []modelEntry {
	got := map[string]Entry{}
	for _, e := range c.got {
		got[string(e.Message.Content)] = e
	}
	for i := range c.unacked {
		e, ok := got[c.unacked[i].id]
		if !ok {
			t.Fatalf("%s should have got %s", c.Tag, c.unacked[i].id)
		}
		c.unacked[i].entry = e
	}
	return c.unacked
}

func (m *machine) grant(t *rapid.T) {
	c := m.pick(t)
	if c.credit == unlimited {
		t.Skip()
	}
	n := rapid.IntRange(1, 3).Draw(t, "credit")
	c.client.grant(n)
	c.credit += n
	if c.starved {
		c.starved = false
		m.enter(c)
	}
}

// resume is what nobody needs to do and everybody may.
func (m *machine) resume(t *rapid.T) {
	c := m.pick(t)
	m.q.Resume(&c.Consumer)
	m.enter(c)
}

// some draws entries, in any order, out of a list.
func some(t *rapid.T, list []modelEntry) (chosen, left []modelEntry) {
	if len(list) == 0 {
		t.Skip()
	}
	shuffled := rapid.Permutation(list).Draw(t, "order")
	n := rapid.IntRange(1, len(list)).Draw(t, "how many")
	return shuffled[:n], shuffled[n:]
}

func entries(list []modelEntry) []Entry {
	var all []Entry
	for _, e := range list {
		all = append(all, e.entry)
	}
	return all
}

func (m *machine) ack(t *rapid.T) {
	c := m.pick(t)
	chosen, left := some(t, m.match(t, c))
	c.unacked = left
	m.q.Settle(entries(chosen))
	m.acked += len(chosen)
}

func (m *machine) requeue(t *rapid.T) {
	c := m.pick(t)
	chosen, left := some(t, m.match(t, c))
	c.unacked = left
	m.q.Requeue(entries(chosen))
	m.back(chosen)
	m.serve()
}

// back returns entries to the model's order.
func (m *machine) back(list []modelEntry) {
	for _, e := range list {
		e.deliveries++
		m.wait(e)
	}
}

func (m *machine) get(t *rapid.T) {
	noAck := rapid.Bool().Draw(t, "no-ack")
	e, left, ok, err := getNow(m.q, noAck)
	if err != nil || ok != (len(m.ready) > 0) {
		t.Fatalf("get: %v, %v; %d wait", ok, err, len(m.ready))
	}
	if !ok {
		return
	}
	want := m.ready[0]
	m.ready = m.ready[1:]
	if got := string(e.Message.Content); got != want.id || left != len(m.ready) || e.Deliveries != want.deliveries {
		t.Fatalf("get: %s delivered %d times before, %d left; want %s, %d, %d", got, e.Deliveries, left, want.id, want.deliveries, len(m.ready))
	}
	if !noAck {
		want.entry = e
		m.held = append(m.held, want)
	}
}

func (m *machine) settleHeld(t *rapid.T) {
	chosen, left := some(t, m.held)
	m.held = left
	if rapid.Bool().Draw(t, "requeue") {
		m.q.Requeue(entries(chosen))
		m.back(chosen)
		m.serve()
		return
	}
	m.q.Settle(entries(chosen))
	m.acked += len(chosen)
}

func (m *machine) purge(t *rapid.T) {
	persistent := slices.ContainsFunc(m.ready, func(e modelEntry) bool { return e.persistent && m.journal != nil })
	count, journaled := m.q.Purge()
	if count != len(m.ready) || journaled != persistent {
		t.Fatalf("purge: %d, journaled %v; want %d, %v", count, journaled, len(m.ready), persistent)
	}
	m.ready = nil
}

// commit does a transaction on this queue: new messages, what was held
// settled or returned.
func (m *machine) commit(t *rapid.T) {
	if m.journal != nil {
		t.Skip() // a journal in a group needs a store: transaction_test.go
	}
	var tx Transaction
	var published []modelEntry
	for range rapid.IntRange(0, 3).Draw(t, "publishes") {
		msg, e := m.newMessage(t)
		tx.Enqueues = append(tx.Enqueues, Enqueue{Message: msg, Queues: []*Queue{m.q}})
		published = append(published, e)
	}
	held := m.held
	m.held = nil
	requeue := rapid.Bool().Draw(t, "requeue")
	if len(held) > 0 {
		tx.Settlements = []Settlement{{m.q, entries(held), fateOf(requeue)}}
	}
	if commit(tx, nil, nil, 0) {
		t.Fatal("a commit without a store says that it waits for one")
	}
	m.place(published)
	if requeue {
		m.back(held)
	} else {
		m.acked += len(held)
	}
	m.serve()
}

// place is what a commit does with each new message: the queue offers it at
// once when nothing waits before it.
func (m *machine) place(published []modelEntry) {
	for _, e := range published {
		m.wait(e)
		if len(m.ready) == 1 {
			m.serve()
		}
	}
}

func (m *machine) delete(t *rapid.T) {
	ifUnused, ifEmpty := rapid.Bool().Draw(t, "if-unused"), rapid.Bool().Draw(t, "if-empty")
	var want error
	switch {
	case ifEmpty && len(m.ready) > 0:
		want = ErrNotEmpty
	case ifUnused && len(m.clients) > 0:
		want = ErrInUse
	}
	count, err := m.q.Delete(ifUnused, ifEmpty)
	if !errors.Is(err, want) || err == nil && count != len(m.ready) {
		t.Fatalf("delete: %d, %v; want %d, %v", count, err, len(m.ready), want)
	}
	if err == nil {
		m.afterDelete(t)
	}
}

// afterDelete checks a queue that has gone, and goes on with a new one.
func (m *machine) afterDelete(t *rapid.T) {
	for _, c := range m.clients {
		if c.cancelled != 1 {
			t.Fatalf("%s was told %d times that its queue has gone", c.Tag, c.cancelled)
		}
		m.q.Resume(&c.Consumer)
		if m.q.RemoveConsumer(&c.Consumer) {
			t.Fatal("a deleted queue asks for its deletion")
		}
		m.q.Settle(entries(m.match(t, c))) // a late ack is silently ok
	}
	m.q.Requeue(entries(m.held))
	if m.q.Publish(text("late")) == Taken || !m.q.Deleted() {
		t.Fatal("a deleted queue takes messages")
	}
	if _, _, ok, err := m.q.Get(true); ok || !errors.Is(err, ErrDeleted) {
		t.Fatalf("get from a deleted queue: %v, %v", ok, err)
	}
	if err := m.q.AddConsumer(&newClient(m.q, "late", 0).Consumer); !errors.Is(err, ErrDeleted) {
		t.Fatalf("consumer on a deleted queue: %v", err)
	}
	if _, err := m.q.Delete(false, false); !errors.Is(err, ErrDeleted) {
		t.Fatalf("second delete: %v", err)
	}
	if n := m.q.Counts(); n.Ready != 0 || n.ReadyBytes != 0 || n.Consumers != 0 || n.Unacked != 0 {
		t.Fatalf("a deleted queue still counts: %+v", n)
	}
	m.renew()
}
