package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// options of a run.
type options struct {
	kills   int
	seed    uint64
	tags    string
	folder  string
	verbose bool
	grace   time.Duration
	args    []string // more arguments of warren serve
}

// summary of a run.
type summary struct {
	Kills    int            `json:"kills"`
	Seed     uint64         `json:"seed"`
	Messages int            `json:"messages_checked"`
	Points   map[string]int `json:"kills_at_commit_points"`
	Seconds  float64        `json:"seconds"`
}

// errBroken is a run that found a broken promise.
var errBroken = errors.New("promises were broken")

// backlogKept is how many messages may stay over a restart before all are
// taken out.
const backlogKept = 4000

// matrix is a run under way.
type matrix struct {
	options
	binary, data string
	rnd          *rand.Rand
	ledger       *ledger
	workers      []worker
	summary      summary
}

// run kills the broker as often as asked. The error says what promise was
// broken, or why the run could not go on.
func run(o options) (summary, error) {
	m := &matrix{options: o, ledger: newLedger(o.grace), rnd: rand.New(rand.NewPCG(o.seed, 0))}
	m.summary = summary{Seed: o.seed, Points: map[string]int{}}
	if m.folder == "" {
		folder, err := os.MkdirTemp("", "warren-crash-")
		if err != nil {
			return m.summary, err
		}
		defer os.RemoveAll(folder)
		m.folder = folder
	}
	var err error
	if m.binary, err = build(m.folder, o.tags); err != nil {
		return m.summary, err
	}
	m.data = filepath.Join(m.folder, "data")
	for i := range 2 {
		m.workers = append(m.workers,
			newPair(m.ledger, fmt.Sprintf("pair%d", i)),
			newBank(m.ledger, fmt.Sprintf("bank%d", i)),
			&clerk{name: fmt.Sprintf("clerk%d", i)})
	}
	m.workers = append(m.workers, newMorgue(m.ledger, "rejects", false), newMorgue(m.ledger, "ages", true))
	begun := time.Now()
	err = m.rounds()
	m.summary.Seconds = time.Since(begun).Seconds()
	return m.summary, err
}

// rounds kills and verifies until the run is over.
func (m *matrix) rounds() error {
	b, err := start(m.binary, m.data, nil, m.args...)
	if err != nil {
		return err
	}
	if err := m.setUp(b); err != nil {
		b.kill()
		return err
	}
	b.kill() // so that the first round's stop point can be set
	for m.summary.Kills < m.kills {
		if err := m.round(); err != nil {
			return fmt.Errorf("kill %d (seed %d): %w", m.summary.Kills, m.seed, err)
		}
	}
	return nil
}

func (m *matrix) setUp(b *child) error {
	c, err := b.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	for _, w := range m.workers {
		if err := w.setUp(c); err != nil {
			return fmt.Errorf("set up: %w", err)
		}
	}
	return nil
}

// round lets all work, kills, starts again and compares.
func (m *matrix) round() error {
	point, env := m.stopPoint()
	b, err := start(m.binary, m.data, env, m.args...)
	if err != nil {
		if point != "" && strings.Contains(err.Error(), "signal: killed") {
			// The point lies on the way up. What is there must still be there.
			m.summary.Points[point]++
			return m.compare(time.Now(), "at "+point+", while it started")
		}
		return err
	}
	broken := m.work(b, point)
	killed := b.kill()
	switch {
	case broken != nil:
		return broken
	case !b.bySIGKILL():
		return fmt.Errorf("the broker ended by itself: %v\n%s", b.cmd.ProcessState, b.tail())
	}
	m.summary.Kills++
	return m.compare(killed, "at "+point)
}

// work has everybody work until the broker dies or its time is over. An error
// is one that the death does not explain.
func (m *matrix) work(b *child, point string) error {
	limit := time.Duration(30+m.rnd.IntN(400)) * time.Millisecond
	if point != "" {
		limit += 5 * time.Second // the point will end it
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var working sync.WaitGroup
	var mu sync.Mutex
	var strange error
	for i, w := range m.workers {
		rnd := rand.New(rand.NewPCG(m.rnd.Uint64(), uint64(i)))
		working.Add(1)
		go func() {
			defer working.Done()
			c, err := b.dial()
			if err == nil {
				err = w.work(ctx, c, m.ledger, rnd)
				defer c.Close()
			}
			var e *amqp091.Error
			if errors.As(err, &e) && e.Server || errors.Is(err, errViolated) {
				mu.Lock()
				strange = errors.Join(strange, err)
				mu.Unlock()
			}
		}()
	}
	select {
	case <-b.exited:
		if point != "" {
			m.summary.Points[point]++
		}
	case <-time.After(limit):
	}
	b.kill()
	cancel()
	working.Wait()
	return strange
}

// compare starts the broker and compares what it has with the ledger.
func (m *matrix) compare(killed time.Time, where string) error {
	b, err := start(m.binary, m.data, nil, m.args...)
	if err != nil {
		return err
	}
	defer b.kill()
	s, err := inspect(b, m.ledger)
	if err != nil {
		return err
	}
	n := 0
	for _, all := range s.content {
		n += len(all)
	}
	m.summary.Messages += n
	if m.verbose {
		fmt.Fprintf(os.Stderr, "kill %d %s: %d messages\n", m.summary.Kills, where, n)
	}
	if broken := m.ledger.verify(s, killed); len(broken) > 0 {
		shown := broken[:min(len(broken), 20)]
		return fmt.Errorf("killed %s: %w: %d\n  %s", where, errBroken, len(broken), strings.Join(shown, "\n  "))
	}
	if n > backlogKept {
		return empty(b, m.ledger)
	}
	return nil
}

// stopPoint chooses whether the next kill is at a commit point, and gives the
// environment that has the broker do it. "" is a kill at any moment.
func (m *matrix) stopPoint() (point string, env []string) {
	if !strings.Contains(m.tags, "crashpoints") || m.rnd.IntN(2) == 0 {
		return "", nil
	}
	point = points[m.rnd.IntN(len(points))]
	return point, []string{fmt.Sprintf("WARREN_CRASH_AT=%s:%d", point, 1+m.rnd.IntN(20))}
}

// points are the commit points of a binary with the tag crashpoints.
var points = []string{"sealed", "ahead", "commit", "committed", "told"}
