package persist

import "sync/atomic"

// countdown is a waiter that lets a benchmark keep a number of messages in
// flight.
type countdown struct {
	tokens chan struct{}
	due    atomic.Int64
}

func newCountdown(n int) *countdown {
	c := &countdown{tokens: make(chan struct{}, n)}
	for range n {
		c.tokens <- struct{}{}
	}
	return c
}

func (c *countdown) Stored(_ uint64, err error) {
	if err != nil {
		panic(err)
	}
	c.due.Add(1)
}

func (c *countdown) Flush() {
	for n := c.due.Swap(0); n > 0; n-- {
		c.tokens <- struct{}{}
	}
}
