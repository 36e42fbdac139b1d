package queue

import "slices"

// Waiting for room, for x-overflow block-publishers. A publish that finds the
// queue full is not refused: Publish answers Full, and whoever publishes keeps
// the message, registers with AwaitRoom, and is called when the queue can take
// it. While somebody waits, others' publishes are Full too, so that nobody
// passes those who wait and each publisher's messages keep their order.
//
//	Publish ──> Full ──> AwaitRoom ──(room)──> pump ──> RoomWaiter.Room ──> PublishWaiting
//
// One waiter is called at a time, the one that has waited longest. The first
// is called once an eighth of the limit is free, so that a queue that hovers
// at its limit does not wake a publisher for each message.

// RoomWaiter publishes what it has kept for a queue that was full.
type RoomWaiter interface {
	// Room says that the queue has room, has gone, or does not make publishers
	// wait any more. It is called once a registration, on a goroutine of the
	// pump with no lock held. What it kept it publishes with PublishWaiting; if
	// that says Full it registers again.
	Room(q *Queue)
}

// roomWait is one registration.
type roomWait struct {
	waiter RoomWaiter
	bytes  int64 // of the message that is to go first
}

// roomShare is the part of its limit that a queue has free before those who
// wait may go on: one in roomShare.
const roomShare = 8

// block says whether m is to wait for room: the queue is full, or others wait
// already. A message that alone is too much for the queue never fits, so it
// is refused. mu is held.
func (q *Queue) block(m *Message) bool {
	if q.rules.Overflow != BlockPublishers || q.rules.over(1, int64(len(m.Content))) {
		return false
	}
	return len(q.waiters) > 0 || q.offering || q.refuses(m)
}

// PublishWaiting is Publish for a message that waited for its turn: those that
// wait behind it do not count. On the goroutine that RoomWaiter.Room was called
// on.
func (q *Queue) PublishWaiting(m *Message) Outcome {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return Gone
	}
	if q.ruled && q.refuses(m) {
		if q.rules.Overflow == BlockPublishers && !q.rules.over(1, int64(len(m.Content))) {
			return Full
		}
		q.turnAway(m)
		return Refused
	}
	q.take(m)
	return Taken
}

// take admits a message and gives it its place. mu is held.
func (q *Queue) take(m *Message) {
	e := q.admit(m)
	if e.Journaled {
		q.Journal.Append(e.Seq, m.record, meta(&e))
	}
	q.place(e, false)
	q.tidy()
}

// AwaitRoom has w called when the queue has room for a message of so many
// bytes, after those that wait already. Any goroutine; w is not called inside.
func (q *Queue) AwaitRoom(w RoomWaiter, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiters = append(q.waiters, roomWait{w, int64(bytes)})
	q.offerRoom()
}

// ForgetRoom takes a waiter that has ended off the list. It may be under way
// to be called all the same.
func (q *Queue) ForgetRoom(w RoomWaiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiters = slices.DeleteFunc(q.waiters, func(o roomWait) bool { return o.waiter == w })
	q.offerRoom()
}

// Blocking says how many publishers wait for room.
func (q *Queue) Blocking() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiters)
}

// roomFor says whether the first waiter may go on. mu is held.
func (q *Queue) roomFor(w roomWait) bool {
	r := &q.rules
	switch {
	case q.deleted || r.Overflow != BlockPublishers:
		return true
	case r.over(q.ready.count+1, q.ready.bytes+w.bytes):
		return false
	case r.over(1, w.bytes):
		return true // it will be refused: the limit has changed
	}
	free := func(limit, used int64) bool { return limit < 0 || limit-used >= max(1, limit/roomShare) }
	return free(r.MaxLength, int64(q.ready.count)) && free(r.MaxBytes, q.ready.bytes)
}

// offerRoom calls the first waiter if there is room. mu is held.
func (q *Queue) offerRoom() {
	if q.offering || len(q.waiters) == 0 || !q.roomFor(q.waiters[0]) {
		return
	}
	w := q.waiters[0].waiter
	q.waiters[0] = roomWait{}
	if q.waiters = q.waiters[1:]; len(q.waiters) == 0 {
		q.waiters = nil
	}
	q.offering = true
	q.Pump.Schedule(&roomOffer{q, w})
}

// roomOffer is the pump's task of calling a waiter.
type roomOffer struct {
	q      *Queue
	waiter RoomWaiter
}

// Run implements Task.
func (o *roomOffer) Run() (more bool) {
	o.waiter.Room(o.q)
	o.q.mu.Lock()
	defer o.q.mu.Unlock()
	o.q.offering = false
	o.q.offerRoom()
	return false
}
