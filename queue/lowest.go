package queue

// popLowest removes the oldest message of the lowest priority that holds any;
// there must be one. The priority is the message's own, whatever its age has
// made of it: see aging.
func (r *readyOrder) popLowest() Entry {
	for i := range r.levels {
		if r.levels[i].head() != nil {
			return r.popLevel(i)
		}
	}
	panic("queue: no message in any priority of a ready order that counts some")
}

// shrink drops from a queue that is too long, and whose overflow mode drops,
// what has to go. mu is held.
func (q *Queue) shrink() {
	for q.ready.count > 0 && q.rules.over(q.ready.count, q.ready.bytes) {
		if q.fetchDropped() {
			return
		}
		switch q.overflow() {
		case DropHead:
			q.kill(q.ready.pop(), MaxLength)
		case DropLowest:
			q.kill(q.ready.popLowest(), MaxLength)
		default:
			return
		}
	}
	if q.paging != nil {
		q.paging.owes = false
	}
}

// popLevel removes the first message of a priority that holds some.
func (r *readyOrder) popLevel(i int) Entry { return r.left(r.levels[i].pop(r.paging)) }
