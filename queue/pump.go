package queue

import (
	"runtime"
	"sync"
)

// Task is work for a Pump: one bounded step of it. True: there is more, run
// it again after the others had their turn.
type Task interface{ Run() (more bool) }

// Pump serves what no publisher or acknowledging client should be held up
// with: deliveries beyond a bounded number, and consumers whose connection
// can take messages again. A few goroutines, started when there is work and
// ended when there is none, so that an idle broker has none of them.
type Pump struct {
	mu      sync.Mutex
	tasks   []Task
	workers int
	most    int
	closed  bool
	idle    sync.Cond
}

// NewPump makes a pump with as many goroutines as the program has
// processors.
func NewPump() *Pump {
	p := &Pump{most: max(2, runtime.GOMAXPROCS(0))}
	p.idle.L = &p.mu
	return p
}

// Schedule queues a task. The caller makes sure that a task is not scheduled
// twice at a time. Any goroutine; takes only the pump's own lock, so it may
// be called with a queue's or an outbox's lock held.
func (p *Pump) Schedule(t Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.tasks = append(p.tasks, t)
	if p.workers < p.most {
		p.workers++
		go p.work()
	}
}

// Close drops what is scheduled and returns when no task runs any more.
func (p *Pump) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.tasks = nil
	for p.workers > 0 {
		p.idle.Wait()
	}
}

func (p *Pump) work() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.tasks) > 0 {
		t := p.tasks[0]
		p.tasks[0] = nil
		p.tasks = p.tasks[1:]
		p.mu.Unlock()
		more := t.Run()
		p.mu.Lock()
		if more && !p.closed {
			p.tasks = append(p.tasks, t)
		}
	}
	p.tasks = nil
	p.workers--
	p.idle.Broadcast()
}
