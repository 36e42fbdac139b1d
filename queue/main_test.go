package queue

import (
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unlimited is the credit of a client that takes everything.
const unlimited = -1

// client is a consumer and the channel behind it: it takes what its credit
// allows and remembers that it refused, as package amqp does.
type client struct {
	Consumer
	q *Queue
	// taken, when set, sees each delivery under the queue's lock.
	taken func(c *client, e *Entry)

	mu        sync.Mutex
	credit    int // deliveries it will take; unlimited
	starved   bool
	got       []Entry
	cancelled int
}

// newClient makes a client that is not registered yet.
func newClient(q *Queue, tag string, credit int) *client {
	c := &client{q: q, credit: credit, Consumer: Consumer{Tag: tag}}
	c.Sink = c
	return c
}

// consume registers a new client and has it served.
func consume(t testing.TB, q *Queue, tag string, credit int) *client {
	t.Helper()
	c := newClient(q, tag, credit)
	if err := q.AddConsumer(&c.Consumer); err != nil {
		t.Fatalf("consumer %s: %v", tag, err)
	}
	q.Resume(&c.Consumer)
	return c
}

func (c *client) Deliver(_ *Consumer, e *Entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.credit == 0 {
		c.starved = true
		return false
	}
	if c.credit > 0 {
		c.credit--
	}
	c.got = append(c.got, *e)
	if c.taken != nil {
		c.taken(c, e)
	}
	return true
}

func (c *client) Cancelled(*Consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled++
}

// grant lets the client take n more deliveries.
func (c *client) grant(n int) {
	c.mu.Lock()
	c.credit += n
	resume := c.starved && c.credit > 0
	if resume {
		c.starved = false
	}
	c.mu.Unlock()
	if resume {
		c.q.Resume(&c.Consumer)
	}
}

// take gives what was delivered and not taken yet.
func (c *client) take() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	return got
}

// count is how many deliveries were not taken yet.
func (c *client) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.got)
}

// quiet waits until the pump has nothing to do for the queue.
func quiet(q *Queue) {
	for {
		q.mu.Lock()
		busy := q.pumping || q.paging != nil && q.paging.loading
		q.mu.Unlock()
		if !busy {
			return
		}
		runtime.Gosched()
	}
}

// newPump makes a pump that ends with the test.
func newPump(t testing.TB) *Pump {
	p := NewPump()
	t.Cleanup(p.Close)
	return p
}

// text makes a message of a body.
func text(body string) *Message { return &Message{Content: []byte(body), Expiration: -1} }

// bodies are the entries' bodies.
func bodies(entries []Entry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, string(e.Message.Content))
	}
	return all
}
