package broker

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"weak"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// listener is an observer that keeps what it is told; gate, when set, holds
// it up.
type listener struct {
	gate    chan struct{}
	entered chan struct{}

	mu     sync.Mutex
	events []Event
}

func (l *listener) Observe(events []Event) {
	if l.gate != nil {
		l.entered <- struct{}{}
		<-l.gate
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, events...)
}

// observerFunc and interceptorFunc are functions as hooks.
type (
	observerFunc    func([]Event)
	interceptorFunc func(*Event) Verdict
)

func (f observerFunc) Observe(events []Event)        { f(events) }
func (f interceptorFunc) Intercept(e *Event) Verdict { return f(e) }

// Several observers each get every event, in the order it happened; remove
// returns when they have been told all.
func TestObserversGetEventsInOrder(t *testing.T) {
	var h Hooks
	if h.Observing() || h.Intercepting() {
		t.Fatal("somebody listens to nobody's hooks")
	}
	h.Emit(&Event{}) // nobody there
	var a, b listener
	removeA, droppedA := h.AddObserver(&a, 10000)
	removeB, droppedB := h.AddObserver(&b, 10000)
	if !h.Observing() || h.Intercepting() {
		t.Fatal("observers are not seen, or taken for interceptors")
	}
	const events = 5000
	var e Event
	for i := range events {
		e.DeliveryTag = uint64(i)
		h.Emit(&e)
	}
	e.DeliveryTag = 99999 // the event was copied
	removeA()
	h.Emit(&Event{DeliveryTag: events})
	removeB()
	removeB()
	h.Emit(&Event{})
	if h.Observing() || h.active.Load() != nil {
		t.Fatal("observers are left")
	}
	for _, got := range []*listener{&a, &b} {
		for i, e := range got.events {
			if e.DeliveryTag != uint64(i) {
				t.Fatalf("event %d came as number %d", e.DeliveryTag, i)
			}
		}
	}
	if len(a.events) != events || len(b.events) != events+1 || droppedA()+droppedB() != 0 {
		t.Fatalf("%d and %d events, %d and %d dropped", len(a.events), len(b.events), droppedA(), droppedB())
	}
}

// An observer that is too slow holds nobody up: it loses what does not fit,
// which is counted, and gets the rest in order.
func TestSlowObserverLosesCountedEvents(t *testing.T) {
	var h Hooks
	slow := listener{gate: make(chan struct{}), entered: make(chan struct{}, 1)}
	remove, dropped := h.AddObserver(&slow, 3)
	h.Emit(&Event{DeliveryTag: 0})
	<-slow.entered // it has the first and is held up
	for i := range 10 {
		h.Emit(&Event{DeliveryTag: uint64(1 + i)})
	}
	if n := dropped(); n != 7 {
		t.Fatalf("%d events dropped, 3 of 10 fit", n)
	}
	close(slow.gate)
	remove()
	var tags []uint64
	for _, e := range slow.events {
		tags = append(tags, e.DeliveryTag)
	}
	if !slices.Equal(tags, []uint64{0, 1, 2, 3}) {
		t.Fatalf("it got %v", tags)
	}
	if h.Emit(&Event{}); dropped() != 7 {
		t.Fatal("a removed observer counts")
	}
}

// An observer with a small buffer loses nothing that it has time for.
func TestObserverKeepsUp(t *testing.T) {
	var h Hooks
	told := make(chan uint64)
	remove, dropped := h.AddObserver(observerFunc(func(events []Event) {
		for _, e := range events {
			told <- e.DeliveryTag
		}
	}), 0) // at least one fits
	for i := range uint64(200) {
		h.Emit(&Event{DeliveryTag: i})
		if got := <-told; got != i {
			t.Fatalf("event %d came instead of %d", got, i)
		}
	}
	remove()
	if dropped() != 0 {
		t.Fatalf("%d events dropped", dropped())
	}
}

// What an observer has been told is not kept for it.
func TestObserversKeepNoMessages(t *testing.T) {
	var h Hooks
	told := make(chan int, 1)
	remove, _ := h.AddObserver(observerFunc(func(events []Event) { told <- len(events) }), 10)
	defer remove()
	m := &queue.Message{Content: []byte("body")}
	gone := weak.Make(m)
	h.Emit(&Event{Message: m})
	<-told
	h.Emit(&Event{}) // the goroutine is past the first when it comes to this
	<-told
	m = nil
	runtime.GC()
	if gone.Value() != nil {
		t.Error("the message is still referred to")
	}
}

// Interceptors are asked in the order they were installed, until one decides.
func TestInterceptorsInOrder(t *testing.T) {
	var h Hooks
	var asked []string
	add := func(name string, v Verdict) func() {
		return h.AddInterceptor(interceptorFunc(func(e *Event) Verdict {
			asked = append(asked, fmt.Sprint(name, " ", e.Step))
			return v
		}))
	}
	if v := h.Intercept(&Event{}); v != (Verdict{}) {
		t.Fatalf("nobody says %+v", v)
	}
	removeA := add("a", Verdict{})
	refusal := Verdict{Action: Refuse, Code: 406, Text: "no"}
	removeB := add("b", refusal)
	removeC := add("c", Verdict{Action: Drop})
	if !h.Intercepting() || h.Observing() {
		t.Fatal("interceptors are not seen, or taken for observers")
	}
	if v := h.Intercept(&Event{Step: PublishAccepted}); v != refusal {
		t.Fatalf("verdict %+v", v)
	}
	removeB()
	if v := h.Intercept(&Event{Step: ConfirmSent}); v.Action != Drop {
		t.Fatalf("verdict %+v", v)
	}
	removeA()
	removeA()
	removeC()
	if h.Intercepting() {
		t.Fatal("interceptors are left")
	}
	want := []string{"a publish.accepted", "b publish.accepted", "a confirm.sent", "c confirm.sent"}
	if !slices.Equal(asked, want) {
		t.Fatalf("asked %v, want %v", asked, want)
	}
}

// Hooks come and go while others use them; an observer misses nothing that
// happens between its coming and going.
func TestHooksConcurrently(t *testing.T) {
	var h Hooks
	var all listener
	remove, dropped := h.AddObserver(&all, 1<<20)
	stop := make(chan struct{})
	var changing, emitting sync.WaitGroup
	changing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			gone, _ := h.AddObserver(observerFunc(func([]Event) {}), 10)
			goneToo := h.AddInterceptor(interceptorFunc(func(*Event) Verdict { return Verdict{} }))
			gone()
			goneToo()
		}
	})
	const emitters, each = 4, 2000
	for n := range emitters {
		emitting.Go(func() {
			for i := range each {
				h.Intercept(&Event{})
				h.Emit(&Event{Channel: uint16(n), DeliveryTag: uint64(i)})
			}
		})
	}
	emitting.Wait()
	close(stop)
	changing.Wait()
	remove()
	var next [emitters]uint64
	for _, e := range all.events {
		if e.DeliveryTag != next[e.Channel] {
			t.Fatalf("event %d of %d came, %d was next", e.DeliveryTag, e.Channel, next[e.Channel])
		}
		next[e.Channel]++
	}
	if len(all.events) != emitters*each || dropped() != 0 {
		t.Fatalf("%d events, %d dropped", len(all.events), dropped())
	}
}

// What the broker itself tells, in order: each change with what it takes
// along, at message time.
func TestTopologyEvents(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	s := guest(t, b)
	var l listener
	remove, _ := b.Hooks.AddObserver(&l, 100)
	b.Clock.Advance(24 * 60 * 60 * 1e9)
	day := b.Clock.Now()
	s.must(s.declareExchange(frames.ExchangeDeclare{Exchange: "x", Type: "fanout", AutoDelete: true}))
	s.queue("q", false, nil)
	s.bindQueue("x", "k", "q", nil)
	s.bindQueue("x", "k", "q", nil) // there already
	if _, _, err := s.v.PurgeQueue(s.c, "q"); err != nil {
		t.Fatal(err)
	}
	_, err := s.deleteQueue(frames.QueueDelete{Queue: "q"})
	s.must(err)
	s.must(s.bind(BindRequest{Source: "amq.direct", Destination: "amq.fanout", Key: "e"}))
	s.must(s.unbind(BindRequest{Source: "amq.direct", Destination: "amq.fanout", Key: "e"}))
	remove()
	var got []string
	for _, e := range l.events {
		if e.VHost != "/" || e.At.Before(day) {
			t.Errorf("event in virtual host %q at %v", e.VHost, e.At)
		}
		got = append(got, fmt.Sprintf("%s x=%s q=%s k=%s %s", e.Step, e.Exchange, e.Queue, e.RoutingKey, e.Text))
	}
	want := []string{
		"exchange.declared x=x q= k= ", "queue.declared x= q=q k= ", "binding.added x=x q=q k=k ", "queue.purged x= q=q k= ",
		"binding.removed x=x q=q k=k ", "exchange.deleted x=x q= k= ", "queue.deleted x= q=q k= ",
		"binding.added x=amq.direct q= k=e amq.fanout", "binding.removed x=amq.direct q= k=e amq.fanout",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestStepNames(t *testing.T) {
	seen := map[string]bool{}
	for s := range steps {
		if name := s.String(); name == "" || seen[name] {
			t.Errorf("step %d is called %q", s, name)
		}
		seen[s.String()] = true
	}
	if steps.String() != "unknown" {
		t.Errorf("no step is called %q", steps)
	}
}

// BenchmarkHooks: what a step costs with nobody there, and with observers.
func BenchmarkHooks(b *testing.B) {
	run := func(b *testing.B, h *Hooks) {
		b.ReportAllocs()
		for b.Loop() {
			if h.Intercepting() {
				h.Intercept(&Event{Step: PublishAccepted})
			}
			if h.Observing() {
				h.Emit(&Event{Step: PublishRouted})
			}
		}
	}
	b.Run("Nobody", func(b *testing.B) { run(b, new(Hooks)) })
	b.Run("Observer", func(b *testing.B) {
		var h Hooks
		remove, _ := h.AddObserver(observerFunc(func([]Event) {}), 1<<10)
		defer remove()
		run(b, &h)
	})
	b.Run("Interceptor", func(b *testing.B) {
		var h Hooks
		defer h.AddInterceptor(interceptorFunc(func(*Event) Verdict { return Verdict{} }))()
		run(b, &h)
	})
}
