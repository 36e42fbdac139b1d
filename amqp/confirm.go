package amqp

import "github.com/warrenmq/warren/frames"

// confirmState is what is known of one publish of a confirming channel.
type confirmState uint8

const (
	unresolved confirmState = iota
	guarded                 // unresolved, and acknowledgements before it are not safe yet
	confirmed
	refused
	told // confirmed or refused out of order, and the client knows
)

// confirms tracks a channel's publishes from the first that is unresolved on.
// Guarded by channel.mu.
type confirms struct {
	next   uint64         // sequence number of the next publish; 0: not confirming
	base   uint64         // the first that is not settled with the client
	states []confirmState // a ring: of base, base+1, ...
	early  int            // resolved, and the client does not know
	gaps   bool           // an interceptor dropped one: multiple would tell it
}

func (t *confirms) at(seq uint64) *confirmState { return &t.states[seq&uint64(len(t.states)-1)] }

// issue numbers a publish.
func (t *confirms) issue() uint64 {
	if t.next-t.base == uint64(len(t.states)) {
		t.grow()
	}
	seq := t.next
	*t.at(seq) = unresolved
	t.next++
	return seq
}

// grow doubles the ring, whose size is a power of two.
func (t *confirms) grow() {
	old := *t
	t.states = make([]confirmState, max(16, 2*len(old.states)))
	for seq := old.base; seq < old.next; seq++ {
		*t.at(seq) = *old.at(seq)
	}
}

// guard has a publish confirmed only when it was passed as well.
func (t *confirms) guard(seq uint64) { *t.at(seq) = guarded }

// pass takes the first of a guarded publish's two confirmations. False: the
// publish is not guarded (any more).
func (t *confirms) pass(seq uint64) bool {
	if !t.pending(seq) || *t.at(seq) != guarded {
		return false
	}
	*t.at(seq) = unresolved
	return true
}

// pending says whether a publish has no outcome yet.
func (t *confirms) pending(seq uint64) bool {
	return seq >= t.base && seq < t.next && *t.at(seq) <= guarded
}

// resolve notes an outcome. Those that were resolved before stay as they are.
func (t *confirms) resolve(seq uint64, s confirmState) {
	if !t.pending(seq) {
		return
	}
	*t.at(seq) = s
	if s == told {
		t.gaps = true
	} else {
		t.early++
	}
}

// flush calls send for what the client is to be told: runs from the base on
// with multiple set, singles beyond the first publish that is unresolved.
func (t *confirms) flush(send func(seq uint64, multiple, nack bool)) {
	for t.base < t.next {
		s := *t.at(t.base)
		if s <= guarded {
			break
		}
		first := t.base
		for t.base < t.next && *t.at(t.base) == s {
			t.base++
		}
		if s == told {
			continue
		}
		t.early -= int(t.base - first)
		last := t.base - 1
		for ; t.gaps && first < last; first++ {
			send(first, false, s == refused)
		}
		send(last, first < last, s == refused)
	}
	for seq := t.base; t.early > 0 && seq < t.next; seq++ {
		if p := t.at(seq); *p == confirmed || *p == refused {
			send(seq, false, *p == refused)
			*p = told
			t.early--
		}
	}
	if t.base == t.next && len(t.states) > 4096 {
		t.states = nil
	}
}

// ackBarrier keeps confirms behind acknowledgements that are on their way to
// the disk: an ack that a later confirm on the same channel followed does not
// come back after a crash. A message that needs no disk, or that was consumed
// before its commit, would be confirmed earlier. Guarded by channel.mu.
type ackBarrier struct {
	open bool   // acknowledgements may be on their way to the disk
	from uint64 // the first confirm that waits for them; 0: none yet
}

// settled notes acknowledgements.
func (b *ackBarrier) settled(items []unackedItem) {
	for i := range items {
		if items[i].entry.Journaled {
			b.open, b.from = true, 0
			return
		}
	}
}

// wait says whether the confirm of seq must wait. The caller asks the store
// for a barrier then.
func (b *ackBarrier) wait(seq uint64) bool {
	if b.open && b.from == 0 {
		b.from = seq
	}
	return b.open
}

// passed notes that the barrier of seq's wait was reached.
func (b *ackBarrier) passed(seq uint64) {
	if b.from != 0 && seq >= b.from {
		b.open, b.from = false, 0
	}
}

// confirmSelect does confirm.select.
func (ch *channel) confirmSelect(m *frames.ConfirmSelect) error {
	if ch.tx != nil {
		return frames.Errorf(frames.PreconditionFailed, "cannot switch from tx to confirm mode")
	}
	if !ch.confirming {
		ch.confirming = true
		ch.mu.Lock()
		ch.confirms.next, ch.confirms.base = 1, 1
		ch.mu.Unlock()
	}
	return ch.replyUnless(m.NoWait, &frames.ConfirmSelectOk{})
}

// issue numbers a publish; 0 on a channel that does not confirm. conn.mu is
// held.
func (ch *channel) issue() uint64 {
	if !ch.confirming {
		return 0
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.confirms.issue()
}

// confirmNow resolves a publish that needs no commit. It is sent with the
// others of this batch. conn.mu is held.
func (ch *channel) confirmNow(seq uint64) {
	if seq == 0 {
		return
	}
	ch.mu.Lock()
	wait := ch.barrier.wait(seq)
	if !wait {
		ch.resolve(seq, confirmed)
	}
	ch.mu.Unlock()
	if wait {
		ch.c.server.broker.Store().Barrier(&ch.acks, seq)
		return
	}
	ch.markDirty()
}

// guard has a publish that goes to disk wait for acknowledgements as well. It
// is called before the publish can be resolved. True: the caller asks for the
// barrier. conn.mu is held.
func (ch *channel) guard(seq uint64) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !ch.barrier.wait(seq) {
		return false
	}
	ch.confirms.guard(seq)
	return true
}

// acksStored is the persist.Waiter of a channel's ackBarrier.
type acksStored struct{ ch *channel }

// Stored says that the acknowledgements before publish seq are safe.
func (a *acksStored) Stored(seq uint64, err error) {
	a.ch.mu.Lock()
	a.ch.barrier.passed(seq)
	a.ch.mu.Unlock()
	a.ch.Stored(seq, err)
}

// Flush implements persist.Waiter.
func (a *acksStored) Flush() { a.ch.Flush() }

// refuseNow resolves a publish that a full queue refused. conn.mu is held.
func (ch *channel) refuseNow(seq uint64) {
	if seq == 0 {
		return
	}
	ch.mu.Lock()
	ch.resolve(seq, refused)
	ch.mu.Unlock()
	ch.markDirty()
}

// markDirty has the batch's end flush this channel's confirms. conn.mu is
// held.
func (ch *channel) markDirty() {
	if !ch.dirty {
		ch.dirty = true
		ch.c.dirty = append(ch.c.dirty, ch)
	}
}

// resolve asks the interceptors and notes the outcome. channel.mu is held.
func (ch *channel) resolve(seq uint64, s confirmState) {
	if !ch.confirms.pending(seq) || s == confirmed && ch.confirms.pass(seq) {
		return
	}
	if hooks := &ch.c.server.broker.Hooks; hooks.Intercepting() {
		var now bool
		if s, now = ch.interceptConfirm(seq, s); !now {
			return
		}
	}
	ch.confirms.resolve(seq, s)
}

// Stored implements persist.Waiter: the publish numbered token is safe, or
// the store has failed.
func (ch *channel) Stored(token uint64, err error) {
	s := confirmed
	if err != nil {
		s = refused
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.resolve(token, s)
}

// Flush implements persist.Waiter and ends a reader's batch: it sends the
// confirms that have gathered. Any goroutine.
func (ch *channel) Flush() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.sendConfirms()
}

// sendConfirms sends what has gathered. channel.mu is held.
func (ch *channel) sendConfirms() {
	if ch.closed {
		return
	}
	ch.confirms.flush(func(seq uint64, multiple, nack bool) {
		ch.c.out.ack(&ch.position, ch.id, seq, multiple, nack)
		ch.observeConfirm(seq, nack)
	})
}
