package main

import (
	"fmt"
	"sync"
	"time"
)

// sureness is what a client knows of something it asked for.
type sureness uint8

const (
	unasked sureness = iota // not asked for: must not be
	asked                   // asked for, no answer: may be
	told                    // answered: must be
)

// bond ties what must be there, or not, as a whole: a transaction. Guarded by
// the ledger's mutex.
type bond struct {
	name string
	sure sureness
	// What the verification found of it: parts done, parts not done.
	done, undone []string
}

// message is one message as its publisher made it. Immutable.
type message struct {
	id        string
	publisher string
	number    int // of this publisher, from 1: its order
}

// held is one message in one family of queues, as far as clients know.
// Guarded by the ledger's mutex.
type held struct {
	*message
	put     sureness
	putBond *bond // published in a transaction, which put is then that of

	handed  bool // delivered with acknowledgement at some time
	end     ending
	endBond *bond     // acknowledged in a transaction
	heard   time.Time // when it was known that the broker has the ending; zero: not known
	firm    bool      // a confirm or commit-ok followed the ending
}

// ending is how a message leaves.
type ending uint8

const (
	stays ending = iota
	acknowledged
	purged
)

func (e ending) String() string { return [...]string{"in it", "acknowledged", "purged"}[e] }

// family is a queue and the queue that its dead messages go to, if it has one:
// a message is in one of them. Guarded by the ledger's mutex.
type family struct {
	queue, grave string // grave is empty without
	messages     map[string]*held
	used         map[string]int // the highest number of each publisher so far
}

// ledger is what all clients together know. Any goroutine.
type ledger struct {
	// grace is how long an acknowledgement that the broker has may still come
	// back after a kill. Immutable.
	grace time.Duration

	mu       sync.Mutex
	families map[string]*family // by both queue names
	bonds    []*bond
	things   map[thing]*fate
	errs     []string // promises broken while the broker was up
}

// thing is a definition: a queue, an exchange or a binding of its own name.
type thing struct{ kind, name string }

// fate is what is known of a thing: it was asked to be there, or to go.
type fate struct {
	there    bool // the last that was asked for
	answered bool
}

func newLedger(grace time.Duration) *ledger {
	return &ledger{grace: grace, families: map[string]*family{}, things: map[thing]*fate{}}
}

// family makes a queue known. grave may be empty.
func (l *ledger) family(queue, grave string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &family{queue: queue, grave: grave, messages: map[string]*held{}, used: map[string]int{}}
	l.families[queue] = f
	if grave != "" {
		l.families[grave] = f
	}
}

// publish notes that a message is about to be published to these queues, in a
// transaction if b is not nil.
func (l *ledger) publish(m *message, b *bond, queues ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range queues {
		f := l.families[name]
		f.messages[m.id] = &held{message: m, put: asked, putBond: b}
		f.used[m.publisher] = m.number
	}
}

// confirm notes a publisher's confirm of a message.
func (l *ledger) confirm(m *message, queues ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range queues {
		if h := l.families[name].messages[m.id]; h != nil {
			h.put = told
		}
	}
}

// hand notes a delivery with acknowledgement. redelivered is the broker's
// word. nil: there must not be such a message.
func (l *ledger) hand(queue, id string, redelivered bool) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.families[queue]
	h := f.messages[id]
	switch {
	case h == nil:
		l.errs = append(l.errs, fmt.Sprintf("queue %s delivered %s, which %s", queue, id, f.missing(id)))
		return nil
	case h.handed && !redelivered && queue == f.queue:
		l.errs = append(l.errs, fmt.Sprintf("queue %s delivered %s again and did not say so", queue, id))
	}
	h.handed = true
	return h
}

// acknowledge notes acknowledgements that are about to be sent, in a
// transaction if b is not nil.
func (l *ledger) acknowledge(b *bond, all ...*held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range all {
		h.end, h.endBond = acknowledged, b
	}
}

// heard notes that the broker has these endings; firm: and that something
// followed them after which they may not come back.
func (l *ledger) heard(firm bool, all ...*held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, h := range all {
		if h.heard.IsZero() {
			h.heard = now
		}
		h.firm = h.firm || firm
	}
}

// unacknowledge notes that a transaction with these acknowledgements was
// rolled back.
func (l *ledger) unacknowledge(all ...*held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range all {
		h.end, h.endBond = stays, nil
	}
}

// purge notes that all that a queue holds is about to be purged, and gives
// what that is. Nothing may be on its way to the queue.
func (l *ledger) purge(queue string) (all []*held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.families[queue].messages {
		if h.end == stays {
			h.end = purged
			all = append(all, h)
		}
	}
	return all
}

// missing says what an unknown message is. mu is held.
func (f *family) missing(id string) string {
	publisher, number := parseID(id)
	if number <= f.used[publisher] {
		return "was gone"
	}
	return "was never published to it"
}

// begin makes a bond that nothing was asked of yet.
func (l *ledger) begin(name string) *bond {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &bond{name: name}
	l.bonds = append(l.bonds, b)
	return b
}

// now sets what is known of a bond.
func (l *ledger) now(b *bond, s sureness) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.sure = s
}

// define notes that a thing is about to be made or to go, or that this was
// answered.
func (l *ledger) define(t thing, there, answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.things[t] = &fate{there, answered}
}

// allFamilies lists the families. The names in them do not change.
func (l *ledger) allFamilies() (all []*family) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, f := range l.families {
		if name == f.queue {
			all = append(all, f)
		}
	}
	return all
}

// allThings lists the definitions that something is known of.
func (l *ledger) allThings() (all []thing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t := range l.things {
		all = append(all, t)
	}
	return all
}
