package amqp

import (
	"slices"
	"sort"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/queue"
)

// unackedItem is one delivery that awaits acknowledgement.
type unackedItem struct {
	tag      uint64
	q        *broker.Queue
	consumer *consumer // nil for basic.get
	entry    queue.Entry
	settled  bool
	late     bool  // it timed out and is back in its queue
	limit    limit // how long it may take; 0 is for ever
}

// unackedList holds a channel's deliveries in tag order. Tags grow, so new
// ones go to the end; acknowledgements mostly come from the front. Those that
// are settled further in leave a hole, and holes are closed when they are the
// larger part.
type unackedList struct {
	items []unackedItem
	head  int // items before it are free
	holes int // settled items at or behind head
}

func (l *unackedList) push(i unackedItem) {
	// Compacting when little is free would move everything at each push of a
	// consumer that is at its prefetch limit.
	if len(l.items) == cap(l.items) && l.head+l.holes > len(l.items)/2 {
		l.compact()
	}
	l.items = append(l.items, i)
}

// compact moves the live items to the front.
func (l *unackedList) compact() {
	live := l.items[:0]
	for _, i := range l.items[l.head:] {
		if !i.settled {
			live = append(live, i)
		}
	}
	clear(l.items[len(live):])
	l.items, l.head, l.holes = live, 0, 0
}

// find gives the index of an outstanding tag.
func (l *unackedList) find(tag uint64) (int, bool) {
	live := l.items[l.head:]
	if len(live) > 0 && live[0].tag == tag {
		return l.head, true // the front is never settled
	}
	i := sort.Search(len(live), func(i int) bool { return live[i].tag >= tag })
	if i == len(live) || live[i].tag != tag || live[i].settled {
		return 0, false
	}
	return l.head + i, true
}

// take appends to dst the delivery of a tag or, with multiple, all up to it
// (0: all there are), and removes them. False: the tag is not outstanding, and
// nothing was taken.
func (l *unackedList) take(dst []unackedItem, tag uint64, multiple bool) ([]unackedItem, bool) {
	if multiple && tag == 0 {
		return l.takeAll(dst), true
	}
	i, ok := l.find(tag)
	if !ok {
		return dst, false
	}
	if !multiple {
		dst = append(dst, l.items[i])
		l.items[i] = unackedItem{tag: tag, settled: true}
		l.holes++
		l.advance()
		return dst, true
	}
	return l.takeTo(dst, i+1), true
}

func (l *unackedList) takeAll(dst []unackedItem) []unackedItem { return l.takeTo(dst, len(l.items)) }

// takeTo takes everything before index end.
func (l *unackedList) takeTo(dst []unackedItem, end int) []unackedItem {
	for j := l.head; j < end; j++ {
		if l.items[j].settled {
			l.holes--
		} else {
			dst = append(dst, l.items[j])
		}
	}
	clear(l.items[l.head:end])
	l.head = end
	l.advance()
	return dst
}

// advance frees settled items at the front, and closes holes when most are.
func (l *unackedList) advance() {
	for l.head < len(l.items) && l.items[l.head].settled {
		l.items[l.head] = unackedItem{}
		l.head++
		l.holes--
	}
	switch live := len(l.items) - l.head; {
	case live == 0:
		l.items, l.head = l.items[:0], 0
		if cap(l.items) > 4096 {
			l.items = nil
		}
	case l.holes > 64 && l.holes > live/2:
		l.compact()
	}
}

// restore puts taken items back to their places.
func (l *unackedList) restore(items []unackedItem) {
	l.compact()
	l.items = append(l.items, items...)
	slices.SortFunc(l.items, func(a, b unackedItem) int {
		if a.tag < b.tag {
			return -1
		}
		return 1
	})
}

// count is how many deliveries are outstanding.
func (l *unackedList) count() int { return len(l.items) - l.head - l.holes }
