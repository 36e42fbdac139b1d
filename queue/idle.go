package queue

// Idler is told when a consumer can be given nothing for the moment although
// it could take something: nothing waits for it, or it is not its turn as a
// backup. Whoever shares credit between consumers lets the others have it
// then.
type Idler interface {
	// Idle is called with the queue's lock held; it must not call back into the
	// queue and must not block.
	Idle(c *Consumer)
}

// tellIdle tells the consumers that have taken all there was. mu is held.
func (q *Queue) tellIdle() {
	if q.idlers == 0 || q.ready.onDisk() {
		return
	}
	for _, c := range q.consumers {
		if c.Idler != nil && c.active {
			c.Idler.Idle(c)
		}
	}
}
