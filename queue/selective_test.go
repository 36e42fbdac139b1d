package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/selector"
	"pgregory.net/rapid"
)

// colored makes a message with a header color.
func colored(body, color string) *Message {
	m := text(body)
	values := frames.PropertyValues{Flags: frames.FlagHeaders, Headers: frames.Table{{Key: "color", Value: color}}}
	m.Properties = values.Append(nil)
	return m
}

func compiled(t testing.TB, text string) *selector.Selector {
	s, err := selector.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// consumeSelected is consume with a selector.
func consumeSelected(t testing.TB, q *Queue, tag, text string, credit int) *client {
	c := newClient(q, tag, credit)
	c.Selector = compiled(t, text)
	if err := q.AddConsumer(&c.Consumer); err != nil {
		t.Fatal(err)
	}
	q.Resume(&c.Consumer)
	return c
}

func wantBodies(t testing.TB, c *client, want ...string) []Entry {
	t.Helper()
	quiet(c.q)
	got := c.take()
	if !slices.Equal(bodies(got), want) {
		t.Errorf("%s got %v, want %v", c.Tag, bodies(got), want)
	}
	return got
}

func wantReady(t testing.TB, q *Queue, want int) {
	t.Helper()
	n := 0
	q.mu.Lock()
	q.ready.each(func(*Entry) { n++ })
	q.mu.Unlock()
	if got := q.Counts().Ready; got != want || n != want {
		t.Errorf("%d ready, %d in the order, want %d", got, n, want)
	}
}

// TestSelectedMatches: what matches goes to the consumer in order, past what nobody wants; the rest waits for others.
func TestSelectedMatches(t *testing.T) {
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
	q.Publish(colored("1", "blue"))
	q.Publish(colored("2", "red"))
	red := consumeSelected(t, q, "red", "color = 'red'", unlimited)
	wantBodies(t, red, "2")
	for i, color := range []string{"red", "blue", "red"} {
		q.Publish(colored(fmt.Sprint(i+3), color))
	}
	wantBodies(t, red, "3", "5")
	wantReady(t, q, 2)
	all := consume(t, q, "all", unlimited)
	wantBodies(t, all, "1", "4")
	wantReady(t, q, 0)
	q.Publish(colored("6", "red"))
	q.Publish(colored("7", "red"))
	q.Publish(colored("8", "green"))
	quiet(q)
	if got := len(red.take()) + len(all.take()); got != 3 {
		t.Errorf("%d of 3 were delivered", got)
	}
}

// TestSelectedReturns: what comes back goes to a consumer that matches, in its place and marked.
func TestSelectedReturns(t *testing.T) {
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
	red := consumeSelected(t, q, "red", "color = 'red'", 2)
	for i, color := range []string{"blue", "red", "red", "red"} {
		q.Publish(colored(fmt.Sprint(i+1), color))
	}
	got := wantBodies(t, red, "2", "3")
	q.Requeue(got[1:])
	q.Requeue(got[:1])
	wantReady(t, q, 4)
	red.grant(3)
	again := wantBodies(t, red, "2", "3", "4")
	if !again[0].Redelivered || again[0].Deliveries != 1 || again[2].Redelivered {
		t.Errorf("marks are wrong: %+v", again)
	}
	q.Settle(again)
	if e, left, ok, _ := q.Get(true); !ok || left != 0 || string(e.Message.Content) != "1" {
		t.Errorf("get gives %v, %d left", ok, left)
	}
}

// TestSelectedPriorities: x-priority first; a parked consumer of high priority is before one of low priority when
// something for it comes.
func TestSelectedPriorities(t *testing.T) {
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
	low := consume(t, q, "low", unlimited)
	high := newClient(q, "high", unlimited)
	high.Priority, high.Selector = 5, compiled(t, "color = 'red'")
	if err := q.AddConsumer(&high.Consumer); err != nil {
		t.Fatal(err)
	}
	q.Resume(&high.Consumer)
	for i, color := range []string{"blue", "red", "blue", "red"} {
		q.Publish(colored(fmt.Sprint(i+1), color))
	}
	wantBodies(t, high, "2", "4")
	wantBodies(t, low, "1", "3")
	q.RemoveConsumer(&high.Consumer)
	if q.hasSelectors() {
		t.Error("the queue has selectors after the last such consumer")
	}
	q.Publish(colored("5", "red"))
	wantBodies(t, low, "5")
}

// TestSelectedExpiry: a message that is too old is not delivered though it stands behind the head, and dies.
func TestSelectedExpiry(t *testing.T) {
	clock := NewClock()
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t), Clock: clock})
	q.Publish(colored("1", "blue"))
	m := colored("2", "red")
	m.Expiration = 1000
	q.Publish(m)
	q.Publish(colored("3", "red"))
	clock.Advance(2 * time.Second)
	wantReady(t, q, 3)
	wantBodies(t, consumeSelected(t, q, "red", "color = 'red'", unlimited), "3")
	wantReady(t, q, 1)
}

// TestSelectedSingleActive: a single active consumer with a selector is the only one that receives, and the next has a
// selector of its own.
func TestSelectedSingleActive(t *testing.T) {
	rules := NoRules()
	rules.SingleActive = true
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t), Rules: &rules})
	red := consumeSelected(t, q, "red", "color = 'red'", unlimited)
	blue := consumeSelected(t, q, "blue", "color = 'blue'", unlimited)
	q.Publish(colored("1", "blue"))
	q.Publish(colored("2", "red"))
	wantBodies(t, red, "2")
	wantBodies(t, blue)
	q.RemoveConsumer(&red.Consumer)
	wantBodies(t, blue, "1")
}

// TestSelectedLimits: overflow drops from the head, whoever waits; a purge takes everything.
func TestSelectedLimits(t *testing.T) {
	rules := NoRules()
	rules.MaxLength = 3
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t), Rules: &rules})
	red := consumeSelected(t, q, "red", "color = 'red'", 0)
	for i, color := range []string{"red", "red", "blue", "red"} {
		q.Publish(colored(fmt.Sprint(i+1), color))
	}
	wantReady(t, q, 3)
	red.grant(1)
	wantBodies(t, red, "2")
	if n, _ := q.Purge(); n != 2 {
		t.Errorf("%d purged, want 2", n)
	}
	red.grant(5)
	wantBodies(t, red)
	q.Publish(colored("5", "red"))
	wantBodies(t, red, "5")
	wantReady(t, q, 0)
}

// TestSelectedIsNotScanned is the promise of the issue: 100,000 messages of which 1 in 1,000 matches are evaluated once
// for the selector, however many deliveries follow, and once more each that comes back.
func TestSelectedIsNotScanned(t *testing.T) {
	const messages, share = 100_000, 1_000
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
	common, rare := colored("c", "blue"), colored("r", "red")
	for i := range messages {
		if i%share == share-1 {
			q.Publish(rare)
		} else {
			q.Publish(common)
		}
	}
	red := consumeSelected(t, q, "red", "color = 'red'", 0)
	same := consumeSelected(t, q, "same", "color = 'red'", 0)
	for range messages / share / 2 {
		red.grant(1)
		same.grant(1)
	}
	quiet(q)
	got := append(red.take(), same.take()...)
	if len(got) != messages/share {
		t.Errorf("%d delivered, want %d", len(got), messages/share)
	}
	if n := q.selective.evaluations; n != messages {
		t.Errorf("%d evaluations, want one for each of %d messages", n, messages)
	}
	q.Requeue(got[:10])
	q.Publish(common)
	if n := q.selective.evaluations; n != messages+11 {
		t.Errorf("%d evaluations, want 11 more", n)
	}
	wantReady(t, q, messages-messages/share+11)
}

// TestLaneIsSwept: a lane whose consumer takes nothing does not grow with what others take.
func TestLaneIsSwept(t *testing.T) {
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
	consumeSelected(t, q, "red", "color = 'red'", 0)
	m := colored("m", "red")
	for range 10_000 {
		q.Publish(m)
		if _, _, ok, _ := q.Get(true); !ok {
			t.Fatal("nothing to get")
		}
	}
	if n := q.selective.lanes[0].count; n > laneSlack+2 {
		t.Errorf("the lane lists %d messages of an empty queue", n)
	}
}

// selectiveModel checks a queue against what must hold at each moment, whatever led to it.
type selectiveModel struct {
	t                         *rapid.T
	q                         *Queue
	clients                   []*client
	published, settled, taken int
	held                      []Entry
}

var modelSelectors = []string{"", "color = 'red'", "color <> 'red'", "color IN ('blue', 'green')", "color IS NULL"}

// fits says by the definition whether a consumer takes a message.
func fits(c *Consumer, m *Message) bool {
	p, _ := frames.ParseProperties(m.Properties)
	var v selector.View
	v.Reset(p)
	return c.Selector == nil || c.Selector.Match(&v)
}

// delivered is called under the queue's lock, when e is still in the order: it must be the first that fits c, and no
// consumer of higher priority may have wanted it.
func (m *selectiveModel) delivered(c *client, e *Entry) {
	var first *Entry
	m.q.ready.each(func(o *Entry) {
		if fits(&c.Consumer, o.Message) && (first == nil || o.Priority > first.Priority || o.Priority == first.Priority && o.Seq < first.Seq) {
			first = o
		}
	})
	if first != nil && (!fits(&c.Consumer, e.Message) || first.Seq != e.Seq) && m.q.hasSelectors() {
		m.t.Errorf("%s got %d, %d is before it", c.Tag, e.Seq, first.Seq)
	}
	for _, o := range m.clients {
		if o != c && o.begun && o.Priority > c.Priority && o.credit != 0 && fits(&o.Consumer, e.Message) {
			m.t.Errorf("%s got %d, which %s of higher priority wanted", c.Tag, e.Seq, o.Tag)
		}
	}
	m.held = append(m.held, *e)
}

func (m *selectiveModel) check(t *rapid.T) {
	quiet(m.q)
	m.t = t
	counts := m.q.Counts()
	if counts.Unacked != len(m.held) || counts.Ready+len(m.held)+m.settled != m.published {
		t.Fatalf("%+v, but of %d published %d are held and %d settled", counts, m.published, len(m.held), m.settled)
	}
	n := 0
	m.q.mu.Lock()
	defer m.q.mu.Unlock()
	m.q.ready.each(func(e *Entry) {
		n++
		for _, c := range m.clients {
			if c.credit != 0 && fits(&c.Consumer, e.Message) {
				t.Fatalf("%d waits, though %s with %d credit takes it", e.Seq, c.Tag, c.credit)
			}
		}
	})
	if n != counts.Ready {
		t.Fatalf("%d in the order, %d counted", n, counts.Ready)
	}
}

func TestSelectiveFollowsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pump := NewPump()
		defer pump.Close()
		m := &selectiveModel{t: t}
		m.q = New(Config{Name: "q", ID: 1, Pump: pump, MaxPriority: rapid.SampledFrom([]int{0, 2}).Draw(t, "priorities")})
		tags := 0
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 1, 3, 100}).Draw(t, "messages") {
					msg := colored(fmt.Sprint(m.published), rapid.SampledFrom([]string{"red", "blue", "green"}).Draw(t, "color"))
					if rapid.IntRange(0, 9).Draw(t, "bare") == 0 {
						msg.Properties = nil
					}
					msg.Priority = uint8(rapid.IntRange(0, 2).Draw(t, "priority"))
					m.published++
					m.q.Publish(msg)
				}
			},
			"consume": func(t *rapid.T) {
				c := newClient(m.q, fmt.Sprint("c", tags), rapid.IntRange(0, 3).Draw(t, "credit"))
				tags++
				if text := rapid.SampledFrom(modelSelectors).Draw(t, "selector"); text != "" {
					c.Selector, _ = selector.Compile(text)
				}
				c.Priority, c.taken = rapid.IntRange(0, 1).Draw(t, "x-priority"), m.delivered
				if err := m.q.AddConsumer(&c.Consumer); err != nil {
					t.Fatal(err)
				}
				m.clients = append(m.clients, c)
				m.q.Resume(&c.Consumer)
			},
			"cancel": func(t *rapid.T) {
				if len(m.clients) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(m.clients)-1).Draw(t, "client")
				m.q.RemoveConsumer(&m.clients[i].Consumer)
				m.clients = slices.Delete(m.clients, i, i+1)
			},
			"grant": func(t *rapid.T) {
				if len(m.clients) == 0 {
					t.Skip()
				}
				m.clients[rapid.IntRange(0, len(m.clients)-1).Draw(t, "client")].grant(rapid.IntRange(1, 4).Draw(t, "credit"))
			},
			"settle":  func(t *rapid.T) { m.end(t, m.q.Settle, true) },
			"requeue": func(t *rapid.T) { m.end(t, m.q.Requeue, false) },
			"get": func(t *rapid.T) {
				if e, _, ok, _ := m.q.Get(false); ok {
					m.held = append(m.held, e)
				}
			},
			"purge": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "rarely") == 0 {
					n, _ := m.q.Purge()
					m.settled += n
				}
			},
			"commit": func(t *rapid.T) {
				m.published++
				_, err := Commit(Transaction{Enqueues: []Enqueue{{Message: colored("tx", "red"), Queues: []*Queue{m.q}}}}, nil, nil, 0)
				if err != nil {
					t.Fatal(err)
				}
			},
			"": m.check,
		})
	})
}

// end settles or returns some of what is held, in any order.
func (m *selectiveModel) end(t *rapid.T, how func([]Entry), settled bool) {
	if len(m.held) == 0 {
		t.Skip()
	}
	all := rapid.Permutation(m.held).Draw(t, "held")
	n := rapid.IntRange(1, len(all)).Draw(t, "some")
	m.held = slices.Clone(all[n:])
	if settled {
		m.settled += n
	}
	how(all[:n])
}

// TestLaneAfterSweep: sweeping ends at the end of the queue, the next search begins at its head.
func TestLaneAfterSweep(t *testing.T) {
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t)})
	red := consumeSelected(t, q, "red", "color = 'red'", 0)
	for i := range 401 {
		if i == 400 {
			for range 250 {
				if _, _, ok, _ := q.Get(true); !ok {
					t.Fatal("nothing to get")
				}
			}
		}
		q.Publish(colored(fmt.Sprint(i), "red"))
	}
	if n := q.selective.lanes[0].count; n != 151 {
		t.Errorf("the lane lists %d, want the 151 that wait", n)
	}
	red.grant(2)
	wantBodies(t, red, "250", "251")
}

// TestHeapRemovesAnywhere takes entries out of a heap of returned ones wherever they stand.
func TestHeapRemovesAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seqs := rapid.SliceOfNDistinct(rapid.Uint64Range(0, 200), 1, 40, rapid.ID).Draw(t, "seqs")
		var h entryHeap
		for _, seq := range seqs {
			h.push(Entry{Seq: seq})
		}
		left := slices.Sorted(slices.Values(seqs))
		for range rapid.IntRange(0, len(seqs)).Draw(t, "removals") {
			e := h.remove(rapid.IntRange(0, len(h)-1).Draw(t, "place"))
			i, ok := slices.BinarySearch(left, e.Seq)
			if !ok {
				t.Fatalf("%d came out, which was not there", e.Seq)
			}
			left = slices.Delete(left, i, i+1)
		}
		for _, want := range left {
			if got := h.pop().Seq; got != want {
				t.Fatalf("pop gives %d, want %d", got, want)
			}
		}
	})
}
