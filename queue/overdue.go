package queue

// What a queue's rules want gone may be on disk: it dies when it has been read,
// before anybody is served.

// fetchDropped says that what a full queue drops next is on disk, and has it
// read. mu is held.
func (q *Queue) fetchDropped() bool {
	p := q.paging
	if p == nil || p.onDisk == 0 || !q.dropping() {
		return false
	}
	if q.overflow() == DropLowest {
		for i := range q.ready.levels {
			l := &q.ready.levels[i]
			if l.head() != nil {
				return false
			}
			if l.fifo.first != nil {
				p.lowest = l.fifo.first
				q.fetch()
				return true
			}
		}
	}
	if !q.ready.onDisk() {
		return false
	}
	q.fetch()
	return true
}

// deadBound is how many dead messages wait before no more are read from disk
// to die: each is in memory until it is buried.
const deadBound = 4096

// fetchExpired has the page at the head read if its first message has
// expired. mu is held.
func (q *Queue) fetchExpired(now int64) {
	if q.ready.onDisk() && q.ready.nextExpiry() != 0 && q.ready.nextExpiry() <= now && len(q.dead) < deadBound {
		q.fetch()
	}
}

// waits is how many messages wait, and the bytes of their bodies: without
// those that a full queue has to drop from its head as soon as that is read. mu
// is held.
func (q *Queue) waits() (count int, bytes int64) {
	count, bytes = q.ready.count, q.ready.bytes
	if !q.ready.onDisk() || !q.dropping() || !q.rules.over(count, bytes) {
		return count, bytes
	}
	if q.rules.MaxLength >= 0 {
		count = int(min(int64(count), q.rules.MaxLength))
	}
	if q.rules.MaxBytes >= 0 {
		bytes = min(bytes, q.rules.MaxBytes)
	}
	return count, bytes
}

// left is how many messages wait behind one that a get takes: without the next
// one if that has expired and is on disk. mu is held.
func (q *Queue) left() int {
	if !q.ready.onDisk() {
		return q.ready.count
	}
	count, _ := q.waits()
	if due := q.ready.nextExpiry(); due != 0 && due <= q.Clock.NowMillis() {
		count--
	}
	return count
}

// dropping says whether a full queue drops, by its rules or because it owes
// that from a time when it did. mu is held.
func (q *Queue) dropping() bool {
	return q.rules.drops() || q.paging != nil && q.paging.owes
}

// oweDrops notes that a queue which is not to drop any more has to drop once
// more what it could not, because it is on disk. mu is held.
func (q *Queue) oweDrops() {
	if p := q.paging; p != nil && q.ready.onDisk() && q.rules.over(q.ready.count, q.ready.bytes) {
		p.owes = true
	}
}

// overflow is what a queue that is too long does with what waits. mu is held.
func (q *Queue) overflow() Overflow {
	if q.paging != nil && q.paging.owes {
		return DropHead
	}
	return q.rules.Overflow
}
