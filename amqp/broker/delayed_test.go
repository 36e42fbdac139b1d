package broker

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// delayedExchange declares a durable delayed exchange.
func (s *session) delayedExchange(name, base string, more ...frames.Field) *Exchange {
	s.t.Helper()
	s.exchange(name, "x-delayed-message", append(table("x-delayed-type", base), more...))
	x, _ := s.v.Exchange(name)
	return x
}

// delay are properties with an x-delay header.
func delay(v any) frames.PropertyValues { return withHeaders(table("x-delay", v)) }

// lasting makes properties those of a persistent message.
func lasting(v frames.PropertyValues) frames.PropertyValues {
	v.Flags |= frames.FlagDeliveryMode
	v.DeliveryMode = 2
	return v
}

func waiting(t *testing.T, x *Exchange) int {
	t.Helper()
	n, ok := x.Delayed()
	if !ok {
		t.Fatalf("exchange %s is not a delayed one", x.Name)
	}
	return n
}

func TestDelayHeader(t *testing.T) {
	for _, row := range []struct {
		value any
		want  int64
		bad   bool
	}{
		{int32(5000), 5000, false}, {int64(5000), 5000, false}, {frames.LongLong(5000), 5000, false}, {int8(50), 50, false},
		{uint8(50), 50, false}, {int16(50), 50, false}, {uint16(50), 50, false}, {uint32(4294967295), 4294967295, false},
		{int64(4294967296), 0, false}, {int32(0), 0, false}, {int32(-5), 0, false}, {1500.9, 1500, false}, {float32(0.5), 0, false},
		{-1.5, 0, false}, {1e300, 0, false}, {math.Inf(-1), 0, false}, {"700", 700, false}, {"-700", 0, false}, {"99999999999999999999", 0, false},
		{"7s", 0, true}, {"", 0, true}, {"1.5", 0, true}, {true, 0, false}, {nil, 0, false}, {frames.Array{int32(1)}, 0, false},
		{frames.Timestamp(5), 0, false}, {frames.Decimal{Value: 5}, 0, false},
	} {
		got, err := delayOf(table("a", "b", "x-delay", row.value).AppendContents(nil))
		if got != row.want || (err != nil) != row.bad || err != nil && errorText(err) != "541 INTERNAL_ERROR" {
			t.Errorf("x-delay %T %v: %d, %v; want %d, bad %v", row.value, row.value, got, err, row.want, row.bad)
		}
	}
	if got, err := delayOf(nil); got != 0 || err != nil {
		t.Errorf("no headers: %d, %v", got, err)
	}
}

func TestDelayedExchangeArguments(t *testing.T) {
	const mustExist = "406 Invalid argument, 'x-delayed-type' must be an existing exchange type"
	unknown := map[compat.Profile]string{compat.V3: "503 unknown exchange type 'bogus'", compat.V4: "406 unknown exchange type 'bogus'"}
	both(t, func(t *testing.T, p compat.Profile) {
		s := guest(t, openBroker(t, p, ""))
		for i, row := range []struct {
			args frames.Table
			want string
		}{
			{nil, mustExist}, {table("x-delayed-type", int32(1)), mustExist}, {table("x-delayed-type", "bogus"), unknown[p]},
			{table("x-delayed-type", "x-delayed-message"), "406 Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'"},
			{table("x-delayed-type", "topic"), ""}, {table("x-delayed-type", []byte("direct")), ""}, {table("x-delayed-type", "x-recent-history"), ""},
			{table("x-delayed-type", "x-recent-history", "x-recent-history-length", int32(0)),
				"406 Invalid argument 0, 'x-recent-history-length' must be a positive integer"},
			{table("x-delayed-type", "x-consistent-hash", "hash-property", "foo"), "406 Unsupported property: foo"},
		} {
			err := s.declareExchange(frames.ExchangeDeclare{Exchange: fmt.Sprint("x", i), Type: "x-delayed-message", Arguments: row.args})
			if got := errorText(err); got != row.want {
				t.Errorf("%v: %q, want %q", row.args, got, row.want)
			}
		}
		s.queue("q", false, nil)
		s.delayedExchange("hash", "x-consistent-hash")
		err := s.bind(BindRequest{Source: "hash", Destination: "q", ToQueue: true, Key: "much"})
		if got := errorText(err); got != `406 The binding key must be an integer: <<"much">>` {
			t.Errorf("binding: %q", got)
		}
	})
}

// TestDelayed follows messages through a delayed exchange: when they come, in
// which order, and what their header says then.
func TestDelayed(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		b := openBroker(t, p, "")
		s := guest(t, b)
		q := s.queue("q", false, nil)
		x := s.delayedExchange("x", "direct")
		s.bindQueue("x", "k", "q", nil)
		s.publish("x", "k", "third", delay(int32(60_000)))
		s.publish("x", "k", "second", delay("30000"))
		s.publish("x", "other", "lost", delay(int32(30_000)))
		s.publish("x", "k", "first", delay(int32(0)))
		s.publish("x", "k", "first too", frames.PropertyValues{})
		if diff := gocmp.Diff([]string{"first", "first too"}, drain(q)); diff != "" {
			t.Errorf("at once (-want +got):\n%s", diff)
		}
		if n := waiting(t, x); n != 3 {
			t.Fatalf("%d wait, want 3", n)
		}
		b.Clock.Advance(29 * time.Second)
		if got := drain(q); len(got) > 0 {
			t.Errorf("early: %v", got)
		}
		b.Clock.Advance(time.Second)
		if diff := gocmp.Diff([]string{"second"}, drain(q)); diff != "" {
			t.Errorf("after 30 s (-want +got):\n%s", diff)
		}
		b.Clock.Advance(30 * time.Second)
		e, _, ok := getNow(q, true)
		if !ok || string(e.Message.Content) != "third" || e.Redelivered || e.Message.Exchange != "x" || e.Message.RoutingKey != "k" {
			t.Fatalf("after a minute: %v %+v", ok, e)
		}
		properties := propertiesOf(e.Message)
		headers, _ := properties.Headers()
		want := any(int64(-60_000))
		if p == compat.V3 {
			want = int32(-60_000)
		}
		if diff := gocmp.Diff(table("x-delay", want), headers.Decode()); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		if waiting(t, x) != 0 {
			t.Error("something is left")
		}
	})
}

// TestDelayedIsRoutedWhenItFires: bindings of the publish play no part.
func TestDelayedIsRoutedWhenItFires(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	s := guest(t, b)
	old, now := s.queue("old", false, nil), s.queue("now", false, nil)
	s.delayedExchange("x", "topic")
	s.bindQueue("x", "#", "old", nil)
	s.publish("x", "a.b", "m", delay(int32(1000)))
	s.must(s.unbind(BindRequest{Source: "x", Destination: "old", ToQueue: true, Key: "#"}))
	s.bindQueue("x", "a.*", "now", nil)
	b.Clock.Advance(time.Second)
	if got := append(drain(old), drain(now)...); !slices.Equal(got, []string{"m"}) || old.Counts().Published != 0 {
		t.Errorf("got %v, %d in the queue that was unbound", got, old.Counts().Published)
	}
}

// TestDelayedCountsAsUnroutable: a mandatory message is returned at once, an
// alternate exchange gets it at once, and it comes later all the same.
func TestDelayedCountsAsUnroutable(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		b := openBroker(t, p, "")
		s := guest(t, b)
		q, spare := s.queue("q", false, nil), s.queue("spare", false, nil)
		s.exchange("ae", "fanout", nil)
		s.bindQueue("ae", "", "spare", nil)
		s.delayedExchange("plain", "fanout")
		s.delayedExchange("x", "fanout", frames.Field{Key: "alternate-exchange", Value: "ae"})
		for _, x := range []string{"plain", "x"} {
			s.bindQueue(x, "", "q", nil)
		}
		for x, want := range map[string]bool{"plain": true, "x": false} {
			p := &Publication{Exchange: []byte(x), Properties: properties(t, delay(int32(1000)))}
			if _, err := s.v.Route(&s.r, s.c, p); err != nil || p.Unroutable != want {
				t.Errorf("%s: unroutable %v, %v; want %v", x, p.Unroutable, err, want)
			}
		}
		s.publish("x", "k", "m", delay(int32(1000)))
		if got := drain(spare); !slices.Equal(got, []string{"m"}) {
			t.Errorf("the alternate exchange got %v", got)
		}
		b.Clock.Advance(time.Second)
		if got := drain(q); !slices.Equal(got, []string{"m"}) {
			t.Errorf("later: %v", got)
		}
		if got := drain(spare); len(got) != 0 {
			t.Errorf("the alternate exchange got %v later", got)
		}
	})
}

// TestDelayedOverExchanges: a message waits at the first delayed exchange it
// comes to, wherever that stands, and only there.
func TestDelayedOverExchanges(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	s := guest(t, b)
	q := s.queue("q", false, nil)
	s.exchange("in", "fanout", nil)
	first, second := s.delayedExchange("first", "direct"), s.delayedExchange("second", "fanout")
	s.bindExchange("in", "", "first")
	s.bindExchange("first", "copy", "second")
	s.bindQueue("second", "", "q", nil)
	v := withHeaders(table("x-delay", int32(1000), "CC", frames.Array{"copy"}))
	s.publish("in", "k", "m", v)
	if waiting(t, first) != 1 || waiting(t, second) != 0 {
		t.Fatalf("%d and %d wait", waiting(t, first), waiting(t, second))
	}
	b.Clock.Advance(time.Second)
	if got := drain(q); !slices.Equal(got, []string{"m"}) {
		t.Errorf("got %v, %d wait at the second", got, waiting(t, second))
	}
	// BCC keys count when it fires, although the header is gone.
	s.publish("in", "k", "blind", withHeaders(table("x-delay", int32(1000), "BCC", frames.Array{"copy"})))
	b.Clock.Advance(time.Second)
	if got := drain(q); !slices.Equal(got, []string{"blind"}) {
		t.Errorf("got %v", got)
	}
}

func TestDelayedMalformedHeader(t *testing.T) {
	s := guest(t, openBroker(t, compat.V4, ""))
	s.delayedExchange("x", "fanout")
	for range 2 {
		_, err := s.route(&Publication{Exchange: []byte("x"), Properties: properties(t, delay("soon"))})
		if errorText(err) != "541 INTERNAL_ERROR" {
			t.Errorf("route: %v", err)
		}
	}
	if _, err := s.route(&Publication{Exchange: []byte("x"), Properties: properties(t, delay("1"))}); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// TestDelayedGoesWithTheExchange: what waits is gone with it, also for one of
// the same name that comes later, and from the disk.
func TestDelayedGoesWithTheExchange(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	s := guest(t, b)
	q := s.queue("q", true, nil)
	s.delayedExchange("x", "fanout")
	s.bindQueue("x", "", "q", nil)
	s.publish("x", "k", "m", lasting(delay(int32(60_000))))
	s.must(s.deleteExchange(frames.ExchangeDelete{Exchange: "x"}))
	s.delayedExchange("x", "fanout")
	s.bindQueue("x", "", "q", nil)
	b.Clock.Advance(time.Hour)
	if got := drain(q); len(got) != 0 {
		t.Errorf("a deleted exchange fired %v", got)
	}
	b = reopen(t, b, compat.V4, dir)
	if logs := b.Store().Logs(); len(logs) != 0 {
		t.Errorf("logs %v are left", logs)
	}
}

// TestDelayedOverARestart: after a clean stop and after a kill, what waits
// fires at its time, and what is late at once, in order of its time.
func TestDelayedOverARestart(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		dir := t.TempDir()
		b := openBroker(t, p, dir)
		s := guest(t, b)
		s.queue("q", true, nil)
		s.delayedExchange("x", "fanout")
		s.bindQueue("x", "", "q", nil)
		s.publish("x", "k", "late 2", lasting(delay(int32(40))))
		s.publish("x", "k", "late 1", lasting(delay(int32(20))))
		s.publish("x", "k", "later", lasting(delay(int32(3_600_000))))
		s.publish("x", "k", "transient", delay(int32(3_600_000)))
		folder := copyFolder(t, dir)
		time.Sleep(50 * time.Millisecond) // nobody is there when they are due
		for _, open := range []func() *Broker{
			func() *Broker { return openBroker(t, p, folder) },
			func() *Broker { return reopen(t, b, p, dir) },
		} {
			b := open()
			s := guest(t, b)
			q, _ := s.v.Queue("q")
			x, _ := s.v.Exchange("x")
			var got []string
			for end := time.Now().Add(20 * time.Second); len(got) < 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
				got = append(got, drain(q)...)
			}
			if diff := gocmp.Diff([]string{"late 1", "late 2"}, got); diff != "" {
				t.Errorf("at once (-want +got):\n%s", diff)
			}
			if n := waiting(t, x); n != 1 {
				t.Errorf("%d wait, want 1", n)
			}
			b.Clock.Advance(time.Hour)
			if diff := gocmp.Diff([]string{"later"}, drain(q)); diff != "" {
				t.Errorf("an hour later (-want +got):\n%s", diff)
			}
		}
	})
}

// TestDelayedKilledWhileFiring copies the store while messages fire into two
// durable queues: each copy has every message once, waiting or in both queues.
func TestDelayedKilledWhileFiring(t *testing.T) {
	const messages, kills = 600, 6
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	s := guest(t, b)
	s.queue("q1", true, nil)
	s.queue("q2", true, nil)
	s.delayedExchange("x", "fanout")
	s.bindQueue("x", "", "q1", nil)
	s.bindQueue("x", "", "q2", nil)
	var want []string
	for i := range messages {
		want = append(want, fmt.Sprint(i))
		s.publish("x", "k", want[i], lasting(delay(int32(60_000*(60+i))))) // a minute apart: real time passes too
	}
	slices.Sort(want)
	b.Clock.Advance(59 * time.Minute)
	fire := func(n int) (done chan struct{}) { // the next n, one after the other
		done = make(chan struct{})
		go func() {
			defer close(done)
			for range n {
				b.Clock.Advance(time.Minute)
			}
		}()
		return done
	}
	between := 0
	for range kills {
		fired := fire(messages / (kills + 1))
		killed := openBroker(t, compat.V4, copyFolder(t, dir))
		<-fired
		v := guest(t, killed).v
		x, _ := v.Exchange("x")
		left := waiting(t, x)
		q1, _ := v.Queue("q1")
		q2, _ := v.Queue("q2")
		if n := q1.Counts().Ready; n+left != messages || q2.Counts().Ready != n {
			t.Fatalf("%d wait, %d and %d in the queues, of %d", left, n, q2.Counts().Ready, messages)
		}
		if left > 0 && left < messages {
			between++
		}
		killed.Clock.Advance(24 * time.Hour)
		for _, q := range []*Queue{q1, q2} {
			if diff := gocmp.Diff(want, sorted(drain(q))); diff != "" {
				t.Fatalf("queue %s (-want +got):\n%s", q.Name, diff)
			}
		}
	}
	if between == 0 {
		t.Error("no copy was taken between the first and the last message")
	}
}

// TestDelayedConfirm: a persistent message that waits is safe before its
// publisher hears so.
func TestDelayedConfirm(t *testing.T) {
	dir := t.TempDir()
	s := guest(t, openBroker(t, compat.V4, dir))
	s.delayedExchange("x", "fanout")
	for i := range 5 {
		s.publish("x", "k", "m", lasting(delay(int32(3_600_000)))) // returns with the confirm
		killed := guest(t, openBroker(t, compat.V4, copyFolder(t, dir)))
		x, _ := killed.v.Exchange("x")
		if n := waiting(t, x); n != i+1 {
			t.Fatalf("%d of %d confirmed messages are there after a kill", n, i+1)
		}
	}
}

// manyDelayed publishes n transient messages with distinct delays, spread
// over a time, that start after another, and gives how many bytes of memory
// each costs beside its body.
func manyDelayed(t testing.TB, s *session, n int, start, over time.Duration, more ...frames.Field) (bytesEach float64) {
	bodies := make([]byte, 0, n*16)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var arena queue.Arena
	for i := range n {
		if len(more) > 0 {
			more[0].Value = s.v.broker.Clock.NowMillis()
		}
		ms := (start + over*time.Duration(i*7919%n)/time.Duration(n)).Milliseconds()
		p := &Publication{Exchange: []byte("x"), RoutingKey: []byte("routing.key"), Properties: properties(t, withHeaders(append(table("x-delay", int32(ms)), more...)))}
		queues, err := s.v.Route(&s.r, s.c, p)
		s.must(err)
		bodies = fmt.Appendf(bodies, "%016d", i)
		m := p.Compose(&arena, bodies[len(bodies)-16:])
		for _, q := range queues {
			q.Publish(m)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(bodies)
	return (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / float64(n)
}

func TestDelayedMemory(t *testing.T) {
	s := guest(t, openBroker(t, compat.V4, ""))
	s.delayedExchange("x", "fanout")
	each := manyDelayed(t, s, 100_000, time.Hour, time.Hour)
	t.Logf("%.0f bytes each", each)
	if each > 300 {
		t.Errorf("%.0f bytes each, want under 300", each)
	}
}

// BenchmarkDelayedLateness has 100,000 messages fire over some seconds and
// reports how late they came; and, since a busy machine is late with
// everything, how late a sleeping goroutine woke meanwhile.
func BenchmarkDelayedLateness(b *testing.B) {
	for b.Loop() {
		br := openBroker(b, compat.V4, "")
		s := guest(b, br)
		q := s.queue("q", false, nil)
		s.delayedExchange("x", "fanout")
		s.bindQueue("x", "", "q", nil)
		c := &lateness{clock: br.Clock}
		c.Sink = c
		s.must(q.AddConsumer(&c.Consumer))
		c.NoAck = true
		q.Resume(&c.Consumer)
		const n = 100_000
		published := br.Clock.NowMillis()
		each := manyDelayed(b, s, n, 4*time.Second, 10*time.Second, frames.Field{Key: "published"})
		b.ReportMetric(each, "B/message")
		b.ReportMetric(float64(br.Clock.NowMillis()-published), "ms-publishing")
		var asleep time.Duration
		for q.Counts().Delivered < n {
			before := time.Now()
			time.Sleep(time.Millisecond)
			asleep = max(asleep, time.Since(before))
		}
		b.ReportMetric(float64(asleep.Milliseconds()), "ms-late/sleeper-max")
		slices.Sort(c.late)
		b.ReportMetric(float64(c.late[n/2]), "ms-late/median")
		b.ReportMetric(float64(c.late[n*999/1000]), "ms-late/99.9%")
		b.ReportMetric(float64(c.late[n-1]), "ms-late/max")
	}
}

// lateness is a consumer that compares the clock with when each message was to
// come: its header published, in milliseconds, and the delay.
type lateness struct {
	queue.Consumer
	clock *queue.Clock
	late  []int64
}

func (c *lateness) Deliver(_ *queue.Consumer, e *queue.Entry) bool {
	properties := propertiesOf(e.Message)
	headers, _ := properties.Headers()
	published, _ := headers.Lookup("published")
	negated, _ := headers.Lookup("x-delay")
	c.late = append(c.late, c.clock.NowMillis()-published.Decode().(int64)+negated.Decode().(int64))
	return true
}

func (*lateness) Cancelled(*queue.Consumer) {}
