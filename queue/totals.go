package queue

// Totals says how many messages have come into the queue, been handed to
// clients and been acknowledged since it was made or recovered. It takes no
// lock but that of a stream's log. Any goroutine.
func (q *Queue) Totals() (published, delivered, acked uint64) {
	n := Counts{Published: q.published.Load(), Delivered: q.delivered.Load(), Acked: q.acked.Load()}
	if q.Stream != nil {
		q.Stream.Counts(&n)
	}
	return n.Published, n.Delivered, n.Acked
}
