package queue

// Messages are the messages that wait in a queue without priorities, oldest
// first. They stay; the slice is the caller's.
func (q *Queue) Messages() []*Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]*Message, 0, q.ready.count)
	q.ready.each(func(e *Entry) { all = append(all, e.Message) })
	return all
}
