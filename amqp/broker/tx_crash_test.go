package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// The game: tokens lie in queues with times to live, limits and dead
// lettering of every kind. Transactions take some and put them elsewhere,
// refuse them, or give them back; time lets others expire. Whenever the broker
// is killed each token is there exactly once, and no transaction has moved one
// of its tokens and not another.

const (
	gameTokens  = 40
	gamePlayers = 3
)

// game is the board and who has moved what.
type game struct {
	t      *testing.T
	b      *Broker
	queues []string
	stamp  atomic.Int64

	mu    sync.Mutex
	moved map[int64][]string // tokens by the transaction that stamped them
}

// lay declares the board. What dies comes to "dead".
func (g *game) lay() {
	s := guest(g.t, g.b)
	dies := frames.Table{{Key: argDeadLetterExchange, Value: ""}, {Key: argDeadLetterRoutingKey, Value: "dead"}}
	with := func(more ...frames.Field) frames.Table { return append(slices.Clone(dies), more...) }
	for name, args := range map[string]frames.Table{
		"dead":     nil,
		"plain":    dies,
		"refusing": with(frames.Field{Key: "x-max-length", Value: int32(2)}, frames.Field{Key: argOverflow, Value: "reject-publish"}),
		"blocking": with(frames.Field{Key: "x-max-length", Value: int32(2)}, frames.Field{Key: argOverflow, Value: overflowBlockPublishers}),
		"dropping": with(frames.Field{Key: "x-max-length", Value: int32(3)}),
		"lowest":   with(frames.Field{Key: "x-max-length", Value: int32(3)}, frames.Field{Key: argMaxPriority, Value: int32(3)}, frames.Field{Key: argOverflow, Value: overflowDropLowest}),
		"expiring": with(frames.Field{Key: "x-message-ttl", Value: int32(1000)}),
	} {
		s.queue(name, true, args)
		g.queues = append(g.queues, name)
	}
	slices.Sort(g.queues)
	for i := range gameTokens {
		s.publish("", "plain", fmt.Sprintf("%d/0", i), frames.PropertyValues{Flags: frames.FlagDeliveryMode, DeliveryMode: 2})
	}
}

// message makes a message for a queue as a publish would.
func (g *game) message(s *session, name, body string, priority uint8) queue.Enqueue {
	p := &Publication{RoutingKey: []byte(name), BodySize: uint64(len(body)), Properties: properties(g.t, frames.PropertyValues{
		Flags: frames.FlagDeliveryMode | frames.FlagPriority, DeliveryMode: 2, Priority: priority,
	})}
	queues, err := s.v.Route(&s.r, s.c, p)
	if err != nil {
		g.t.Error(err)
	}
	var arena queue.Arena
	return queue.Enqueue{Message: p.Compose(&arena, []byte(body)), Queues: slices.Clone(queues)}
}

// play makes moves until stop is closed.
func (g *game) play(seed uint64, stop <-chan struct{}) (commits, refusals int) {
	random := rand.New(rand.NewPCG(seed, seed))
	s := guest(g.t, g.b)
	for {
		select {
		case <-stop:
			return commits, refusals
		default:
		}
		t, tokens, stamp := g.move(random, s)
		if len(t.Settlements) == 0 {
			continue
		}
		g.mu.Lock()
		g.moved[stamp] = tokens
		g.mu.Unlock()
		told := make(chan error, 1)
		wait, err := queue.Commit(t, g.b.Store(), &afterBarrier{func(err error) { told <- err }}, 0)
		switch {
		case errors.Is(err, queue.ErrRefused):
			refusals++
			g.mu.Lock()
			delete(g.moved, stamp)
			g.mu.Unlock()
			for _, s := range t.Settlements {
				s.Queue.Requeue(s.Entries)
			}
		case wait:
			commits++
			if err := <-told; err != nil {
				g.t.Error(err)
				return commits, refusals
			}
		}
	}
}

// move takes up to three tokens and says what a transaction is to do with
// them: put them elsewhere, stamped; refuse them; give them back.
func (g *game) move(random *rand.Rand, s *session) (t queue.Transaction, tokens []string, stamp int64) {
	t.Whole = true
	stamp = g.stamp.Add(1)
	for range 1 + random.IntN(3) {
		q, _ := s.v.Queue(g.queues[random.IntN(len(g.queues))])
		e, _, ok := getNow(q, false)
		if !ok {
			continue
		}
		one := queue.Settlement{Queue: q.Queue, Entries: []queue.Entry{e}}
		switch n := random.IntN(8); {
		case n == 0:
			one.Fate = queue.Requeue
		case n < 3 && q.Name != "dead":
			one.Fate = queue.Refuse
		default:
			token, _, _ := strings.Cut(string(e.Message.Content), "/")
			tokens = append(tokens, token)
			to := g.queues[random.IntN(len(g.queues))]
			if random.IntN(3) == 0 {
				to = []string{"refusing", "blocking"}[random.IntN(2)]
			}
			t.Enqueues = append(t.Enqueues, g.message(s, to, fmt.Sprint(token, "/", stamp), uint8(random.IntN(4))))
		}
		t.Settlements = append(t.Settlements, one)
	}
	return t, tokens, stamp
}

// count demands every token once in the queues of a broker, and every
// transaction whole.
func (g *game) count(b *Broker) {
	v := guest(g.t, b).v
	stamps := map[string]int64{}
	for end := time.Now().Add(20 * time.Second); len(stamps) < gameTokens && time.Now().Before(end); {
		for _, name := range g.queues { // some are on their way to "dead"
			q, _ := v.Queue(name)
			for _, body := range drain(q) {
				token, stamp, _ := strings.Cut(body, "/")
				if _, twice := stamps[token]; twice {
					g.t.Fatalf("token %s is there twice", token)
				}
				var n int64
				if _, err := fmt.Sscan(stamp, &n); err != nil {
					g.t.Fatal(err)
				}
				stamps[token] = n
			}
		}
	}
	if len(stamps) != gameTokens {
		g.t.Fatalf("%d of %d tokens are there", len(stamps), gameTokens)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for token, stamp := range stamps {
		for _, other := range g.moved[stamp] {
			if stamps[other] < stamp {
				g.t.Fatalf("transaction %d moved token %s, and not %s, which is at %d", stamp, token, other, stamps[other])
			}
		}
	}
}

// TestTransactionsOverKills: transactions are atomic over a crash with expiry,
// dead lettering and limits mixed in.
func TestTransactionsOverKills(t *testing.T) {
	dir := t.TempDir()
	store, err := persist.Open(persist.Options{Dir: dir, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(Options{Store: store, Profile: compat.V4, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	g := &game{t: t, b: b, moved: map[int64][]string{}}
	g.lay()
	stop := make(chan struct{})
	var players sync.WaitGroup
	var commits, refusals atomic.Int64
	for n := range gamePlayers {
		players.Go(func() {
			c, r := g.play(uint64(n+1), stop)
			commits.Add(int64(c))
			refusals.Add(int64(r))
		})
	}
	var killed []string
	for range 4 {
		for range 10 {
			time.Sleep(10 * time.Millisecond)
			b.Clock.Advance(400 * time.Millisecond)
		}
		killed = append(killed, copyFolder(t, dir))
	}
	close(stop)
	players.Wait()
	if commits.Load() < 20 || refusals.Load() < 2 {
		t.Errorf("%d commits and %d refusals prove little", commits.Load(), refusals.Load())
	}
	t.Logf("%d commits, %d refused", commits.Load(), refusals.Load())
	for _, dir := range killed {
		g.count(openBroker(t, compat.V4, dir))
	}
	g.count(b)
}

// blockage is a task that keeps a goroutine of the pump.
type blockage struct{ started, gate chan struct{} }

func (b *blockage) Run() (more bool) {
	b.started <- struct{}{}
	<-b.gate
	return false
}

// holdPump keeps all goroutines of a broker's pump until release is called.
func holdPump(b *Broker) (release func()) {
	gate, started := make(chan struct{}), make(chan struct{})
	for range max(2, runtime.GOMAXPROCS(0)) {
		b.pump.Schedule(&blockage{started, gate})
		<-started
	}
	return func() { close(gate) }
}

// What a transaction rejected is gone from its queue when the transaction is
// on the disk, with and without dead letters.
func TestRejectionsOfATransactionOverAKill(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	s := guest(t, b)
	s.queue("dead", true, nil)
	s.queue("buries", true, frames.Table{{Key: argDeadLetterExchange, Value: ""}, {Key: argDeadLetterRoutingKey, Value: "dead"}})
	s.queue("drops", true, nil)
	s.queue("deleted", true, frames.Table{{Key: argDeadLetterExchange, Value: ""}, {Key: argDeadLetterRoutingKey, Value: "dead"}})
	var tx queue.Transaction
	for _, name := range []string{"buries", "drops", "deleted"} {
		s.publish("", name, "from "+name, frames.PropertyValues{Flags: frames.FlagDeliveryMode, DeliveryMode: 2})
		q, _ := s.v.Queue(name)
		e, _, _, err := q.Get(false)
		s.must(err)
		tx.Settlements = append(tx.Settlements, queue.Settlement{Queue: q.Queue, Entries: []queue.Entry{e}, Fate: queue.Refuse})
	}
	_, err := s.deleteQueue(frames.QueueDelete{Queue: "deleted"})
	s.must(err)
	release := holdPump(b)
	defer release()
	s.must(s.stored(func(done func(error)) (bool, error) {
		return queue.Commit(tx, b.Store(), &afterBarrier{done}, 0)
	}))
	killed := guest(t, openBroker(t, compat.V4, copyFolder(t, dir)))
	for name, want := range map[string][]string{"buries": nil, "drops": nil, "dead": {"from buries"}} {
		q, _ := killed.v.Queue(name)
		if got := drain(q); !slices.Equal(got, want) {
			t.Errorf("%s holds %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"buries", "drops"} {
		q, _ := s.v.Queue(name)
		if n := q.Counts(); n.Unacked != 0 || n.Acked != 0 {
			t.Errorf("%s: %+v", name, n)
		}
	}
}
