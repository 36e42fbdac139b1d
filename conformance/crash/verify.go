package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// found is one message that a restarted broker has.
type found struct {
	id          string
	redelivered bool
	damaged     bool // its body is not what was sent
}

// state is what a restarted broker has: messages by queue, and which
// definitions.
type state struct {
	content map[string][]found
	things  map[thing]bool
}

// verify compares a restarted broker with what clients were told, by the time
// of the kill, and makes what it has the new truth. What it returns are broken
// promises.
func (l *ledger) verify(s state, killed time.Time) (broken []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	broken, l.errs = l.errs, nil
	for _, name := range slices.Sorted(maps.Keys(l.families)) {
		if f := l.families[name]; name == f.queue {
			broken = append(broken, f.compare(s.content, killed.Add(-l.grace))...)
		}
	}
	for _, b := range l.bonds {
		broken = append(broken, b.compare()...)
	}
	l.bonds = nil
	for t, f := range l.things {
		if f.answered && f.there != s.things[t] {
			broken = append(broken, fmt.Sprintf("%s %s: told there=%v, found there=%v", t.kind, t.name, f.there, s.things[t]))
		}
		if s.things[t] {
			l.things[t] = &fate{true, true}
		} else {
			delete(l.things, t)
		}
	}
	for name, f := range l.families {
		if name == f.queue {
			f.renew(s.content)
		}
	}
	return broken
}

// compare checks a family's messages: order, copies, bytes, presence.
func (f *family) compare(content map[string][]found, due time.Time) (broken []string) {
	have := map[string]bool{}
	say := func(format string, args ...any) {
		broken = append(broken, "queue "+f.queue+": "+fmt.Sprintf(format, args...))
	}
	for _, name := range []string{f.queue, f.grave} {
		last := map[string]int{}
		for _, m := range content[name] {
			h := f.messages[m.id]
			switch {
			case have[m.id]:
				say("%s is there twice", m.id)
				continue
			case h == nil:
				say("%s is there and %s", m.id, f.missing(m.id))
				continue
			case m.damaged:
				say("%s has other bytes than were sent", m.id)
			case name == f.queue && h.handed && !m.redelivered:
				say("%s was delivered before and is not marked redelivered", m.id)
			}
			have[m.id] = true
			if name == f.queue { // the dead come in the order of their death
				if h.number <= last[h.publisher] {
					say("%s comes after number %d of its publisher", m.id, last[h.publisher])
				}
				last[h.publisher] = h.number
			}
		}
	}
	for id, h := range f.messages {
		h.judge(have[id], due, say)
	}
	return broken
}

// judge checks one message's presence, or notes it in its bond.
func (h *held) judge(there bool, due time.Time, say func(string, ...any)) {
	switch {
	case h.end == stays && h.putBond != nil:
		h.putBond.note(h.id, there)
	case h.end == stays && h.put == told && !there:
		say("%s was confirmed and is missing", h.id)
	case h.endBond != nil:
		// An unconfirmed message may be missing for another reason.
		if there || h.put == told {
			h.endBond.note("ack of "+h.id, !there)
		}
	case h.end != stays && there && h.settledBy(due):
		say("%s came back; it was %s %v before that had to hold, firm %v", h.id, h.end, due.Sub(h.heard).Round(time.Millisecond), h.firm)
	}
}

// settledBy says whether the ending may not be undone any more: it is firm, or
// the broker had it by then.
func (h *held) settledBy(due time.Time) bool {
	return h.firm || h.end == acknowledged && !h.heard.IsZero() && h.heard.Before(due)
}

func (b *bond) note(part string, done bool) {
	if done {
		b.done = append(b.done, part)
	} else {
		b.undone = append(b.undone, part)
	}
}

// compare checks that a transaction is there as a whole or not at all.
func (b *bond) compare() []string {
	say := func(what string, parts []string) []string {
		return []string{fmt.Sprintf("%s %s: %s", b.name, what, strings.Join(parts[:min(len(parts), 5)], ", "))}
	}
	switch {
	case b.sure == told && len(b.undone) > 0:
		return say("was committed and lacks", b.undone)
	case b.sure == unasked && len(b.done) > 0:
		return say("was not committed and has", b.done)
	case len(b.done) > 0 && len(b.undone) > 0:
		return say("is there in part; it lacks", b.undone)
	}
	return nil
}

// renew makes what a family's queues hold what must be in them from now on.
func (f *family) renew(content map[string][]found) {
	next := map[string]*held{}
	for _, name := range []string{f.queue, f.grave} {
		for _, m := range content[name] {
			if h := f.messages[m.id]; h != nil {
				next[m.id] = &held{message: h.message, put: told, handed: true}
			}
		}
	}
	f.messages = next
}
