package queue

// Serves says whether a consumer may receive: on a queue with a single active
// consumer only one does. For listings.
func (q *Queue) Serves(c *Consumer) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mayServe(c)
}
