package broker

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// Publishers, consumers and topology changes at once, on a store: no
// deadlock, no race, and what is confirmed in a queue that nobody deletes is
// there at the end, also after a kill.
func TestPublishWhileTheTopologyChanges(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	admin := guest(t, b)
	kept := admin.queue("kept", true, nil)
	admin.exchange("x", "topic", nil)
	admin.bindQueue("x", "#", "kept", nil)

	const publishers, each = 3, 60
	var publishing, changing sync.WaitGroup
	stop := make(chan struct{})
	for n := range 3 {
		changing.Go(func() { churn(guest(t, b), uint64(n), stop) })
	}
	for n := range publishers {
		publishing.Go(func() {
			s := guest(t, b)
			persistent := frames.PropertyValues{Flags: frames.FlagDeliveryMode, DeliveryMode: 2}
			for i := range each {
				s.publish("x", fmt.Sprint("k.", i%5), fmt.Sprint(n, ".", i), persistent)
			}
		})
	}
	publishing.Wait()
	close(stop)
	changing.Wait()
	killed := openBroker(t, compat.V4, copyFolder(t, dir))
	q, _ := guest(t, killed).v.Queue("kept")
	for which, q := range map[string]*Queue{"before": kept, "after the kill": q} {
		seen := map[string]bool{}
		for _, body := range drain(q) {
			if seen[body] {
				t.Errorf("%s: %s is there twice", which, body)
			}
			seen[body] = true
		}
		if len(seen) != publishers*each {
			t.Errorf("%s: %d of %d messages are there", which, len(seen), publishers*each)
		}
	}
}

// churn declares, binds, consumes from, publishes to and deletes queues and
// exchanges of few names, so that sessions meet.
func churn(s *session, seed uint64, stop chan struct{}) {
	random := rand.New(rand.NewPCG(seed, 1))
	for {
		select {
		case <-stop:
			s.v.OwnerGone(s.c.Owner)
			return
		default:
		}
		name, x := fmt.Sprint("q", random.IntN(3)), fmt.Sprint("x", random.IntN(2))
		// Every one of these may be refused: another session was faster.
		switch random.IntN(8) {
		case 0, 1:
			_, _, _ = s.v.DeclareQueue(s.c, &frames.QueueDeclare{Queue: name, Durable: true, Exclusive: random.IntN(4) == 0}, func(error) {})
		case 2:
			_, _, _ = s.v.DeleteQueue(s.c, &frames.QueueDelete{Queue: name}, func(error) {})
		case 3:
			_, _ = s.v.DeclareExchange(s.c, &frames.ExchangeDeclare{Exchange: x, Type: "fanout", AutoDelete: true}, func(error) {})
			_, _ = s.v.Bind(s.c, BindRequest{Source: "x", Destination: x, Key: "k.1"}, func(error) {})
		case 4:
			_, _ = s.v.Bind(s.c, BindRequest{Source: x, Destination: name, ToQueue: true}, func(error) {})
			_, _ = s.v.Bind(s.c, BindRequest{Source: "x", Destination: name, ToQueue: true, Key: "k.*"}, func(error) {})
		case 5:
			_, _ = s.v.Unbind(s.c, BindRequest{Source: x, Destination: name, ToQueue: true}, func(error) {})
		case 6:
			if q, err := s.v.ConsumeQueue(s.c, name, ""); err == nil {
				consumeSome(s.v, q)
			}
		case 7:
			s.v.OwnerGone(s.c.Owner)
		}
	}
}

// consumeSome is a consumer that takes what is there, settles it and goes.
func consumeSome(v *VHost, q *Queue) {
	c := &taker{}
	c.Sink = c
	if q.AddConsumer(&c.Consumer) != nil {
		return
	}
	q.Resume(&c.Consumer)
	last := q.RemoveConsumer(&c.Consumer)
	c.mu.Lock()
	defer c.mu.Unlock()
	q.Settle(c.got)
	if last {
		v.ConsumerGone(q)
	}
}

// taker is a consumer that takes everything.
type taker struct {
	queue.Consumer
	mu  sync.Mutex
	got []queue.Entry
}

func (c *taker) Deliver(_ *queue.Consumer, e *queue.Entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, *e)
	return true
}

func (*taker) Cancelled(*queue.Consumer) {}

// Virtual hosts come and go under the feet of their sessions.
func TestRemoveVHostWhileItIsUsed(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	admin := guest(t, b)
	admin.must(b.Users.PutPermission(permissionOn("v"), nil))
	for round := range 5 {
		admin.must(admin.stored(func(done func(error)) (bool, error) { _, wait, err := b.AddVHost("v", done); return wait, err }))
		admin.must(b.Users.PutPermission(permissionOn("v"), nil))
		s := login(t, b, "guest", "v")
		stop := make(chan struct{})
		var using sync.WaitGroup
		for n := range 2 {
			other := &session{t: t, v: s.v, c: &Client{User: "guest", Owner: new(int)}}
			using.Go(func() { churn(other, uint64(10*round+n), stop) })
		}
		time.Sleep(5 * time.Millisecond)
		admin.must(admin.stored(func(done func(error)) (bool, error) { _, wait := b.RemoveVHost("v", done); return wait, nil }))
		close(stop)
		using.Wait()
		if n := len(s.v.Queues()) + len(s.v.Exchanges()) + len(s.v.Bindings()); n != 0 {
			t.Fatalf("%d things in a virtual host that was removed", n)
		}
	}
	b = reopen(t, b, compat.V4, dir)
	if n := len(b.VHosts()); n != 1 {
		t.Fatalf("%d virtual hosts after a restart", n)
	}
}
