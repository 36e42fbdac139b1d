package exchange

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/warrenmq/warren/frames"
	"pgregory.net/rapid"
)

var allTypes = []string{TypeDirect, TypeFanout, TypeTopic, TypeHeaders}

func newMatcher(t testing.TB, typ string, o Options) Matcher[int] {
	t.Helper()
	m, ok := New[int](typ, o)
	if !ok {
		t.Fatalf("New(%q) knows no such type", typ)
	}
	return m
}

// route returns the distinct destinations of a message, sorted.
func route(m Matcher[int], key string, headers frames.Table) []int {
	msg := Message{RoutingKey: []byte(key)}
	if headers != nil {
		msg.Headers = headers.AppendContents(nil)
	}
	got := m.Route(nil, &msg)
	sort.Ints(got)
	return slices.Compact(got)
}

func TestUnknownType(t *testing.T) {
	for _, typ := range []string{"", "Direct", "x-bogus"} {
		if m, ok := New[int](typ, Options{}); ok || m != nil {
			t.Errorf("New(%q) = %v, %v; want nil, false", typ, m, ok)
		}
	}
}

func TestDirectIsExact(t *testing.T) {
	m := newMatcher(t, TypeDirect, Options{})
	for i, key := range []string{"", "a", "a.b", "*", "#", "A"} {
		m = m.Bind(Binding[int]{Destination: i, Key: key})
	}
	for key, want := range map[string][]int{"": {0}, "a": {1}, "a.b": {2}, "*": {3}, "#": {4}, "A": {5}, "b": nil, "a.": nil} {
		if diff := cmp.Diff(want, route(m, key, nil)); diff != "" {
			t.Errorf("key %q (-want +got):\n%s", key, diff)
		}
	}
}

func TestRouteAppends(t *testing.T) {
	for _, typ := range allTypes {
		m := newMatcher(t, typ, Options{}).Bind(Binding[int]{Destination: 2, Key: "k"})
		if diff := cmp.Diff([]int{1, 2}, m.Route([]int{1}, &Message{RoutingKey: []byte("k")})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", typ, diff)
		}
	}
}

func TestNoChangeReturnsTheReceiver(t *testing.T) {
	for _, typ := range allTypes {
		empty := newMatcher(t, typ, Options{})
		b := Binding[int]{Destination: 1, Key: "a.*.#", Arguments: kv("x", "1", "y", "2")}
		one := empty.Bind(b)
		b.Arguments = kv("y", "2", "x", "1")
		if one.Bind(b) != one {
			t.Errorf("%s: binding again made a new matcher", typ)
		}
		for _, other := range []Binding[int]{
			{Destination: 2, Key: b.Key, Arguments: b.Arguments},
			{Destination: 1, Key: "a.*", Arguments: b.Arguments},
			{Destination: 1, Key: "a.*.#.b", Arguments: b.Arguments},
			{Destination: 1, Key: b.Key},
			{Destination: 1, Key: b.Key, Arguments: kv("x", "1")},
		} {
			if one.Unbind(other) != one {
				t.Errorf("%s: unbinding %v, which is not there, made a new matcher", typ, other)
			}
		}
		if got := one.Unbind(b).Len(); got != 0 || one.Len() != 1 || empty.Len() != 0 {
			t.Errorf("%s: lengths %d, %d, %d; want 0, 1, 0", typ, got, one.Len(), empty.Len())
		}
	}
}

func TestArgumentIdentity(t *testing.T) {
	for _, s := range identityScenarios {
		for _, typ := range allTypes {
			m := newMatcher(t, typ, Options{}).Bind(Binding[int]{Destination: 1, Arguments: s.a})
			// The two brokers differ in one row, minus zero; there we follow 4.3 always.
			if same := m.Unbind(Binding[int]{Destination: 1, Arguments: s.b}).Len() == 0; same != s.v4 {
				t.Errorf("%s: %s: one binding: %v, want %v", typ, s.name, same, s.v4)
			}
		}
	}
}

// TestBindingsOfOneDestinationAreCounted takes away one of two bindings that lead to the same place.
func TestBindingsOfOneDestinationAreCounted(t *testing.T) {
	first := Binding[int]{Destination: 1, Key: "k"}
	for _, typ := range allTypes {
		second := Binding[int]{Destination: 1, Key: "k", Arguments: kv("x-note", "1")}
		m := newMatcher(t, typ, Options{}).Bind(first).Bind(second)
		if m.Len() != 2 {
			t.Errorf("%s: Len %d, want 2", typ, m.Len())
		}
		for _, order := range [][]Binding[int]{{first, second}, {second, first}} {
			m := m.Unbind(order[0])
			if got := route(m, "k", nil); !slices.Equal(got, []int{1}) {
				t.Errorf("%s: without %v: %v, want 1", typ, order[0], got)
			}
			if got := route(m.Unbind(order[1]), "k", nil); len(got) != 0 {
				t.Errorf("%s: without both: %v, want none", typ, got)
			}
		}
	}
}

// TestManyDestinations crosses the size at which a set of destinations becomes a map, in both directions.
func TestManyDestinations(t *testing.T) {
	const n = 3 * inlineTargets
	for _, typ := range allTypes {
		m, want := newMatcher(t, typ, Options{}), []int(nil)
		var versions []Matcher[int]
		for i := range n {
			versions = append(versions, m)
			m, want = m.Bind(Binding[int]{Destination: i, Key: "k"}), append(want, i)
			m = m.Bind(Binding[int]{Destination: i, Key: "k", Arguments: kv("x-note", "1")})
			if diff := cmp.Diff(want, route(m, "k", nil)); diff != "" {
				t.Fatalf("%s: after %d (-want +got):\n%s", typ, i, diff)
			}
		}
		for i := range n {
			if diff := cmp.Diff(want[i:], route(m, "k", nil)); diff != "" {
				t.Fatalf("%s: without %d (-want +got):\n%s", typ, i, diff)
			}
			m = m.Unbind(Binding[int]{Destination: i, Key: "k"})
			m = m.Unbind(Binding[int]{Destination: i, Key: "k", Arguments: kv("x-note", "1")})
			if got := len(route(versions[i], "k", nil)); got != i {
				t.Fatalf("%s: version %d has %d destinations now", typ, i, got)
			}
		}
		if m.Len() != 0 {
			t.Errorf("%s: %d bindings left", typ, m.Len())
		}
	}
}

// naiveMatch says whether one binding matches, by the plainest rule that can be written down for its type.
func naiveMatch(typ string, o Options, b Binding[int], key string, headers frames.Table) bool {
	switch typ {
	case TypeDirect:
		return b.Key == key
	case TypeTopic:
		return naiveTopic(naiveWords(b.Key), naiveWords(key))
	case TypeHeaders:
		return naiveHeaders(o, b.Arguments, headers)
	}
	return true
}

// TestAgainstModel runs random binds and unbinds beside a plain list of bindings. In the end every version on the way
// must route every message as the list of its time does.
func TestAgainstModel(t *testing.T) {
	for _, typ := range allTypes {
		for _, o := range []Options{{}, {NumbersByValue: true}} {
			t.Run(fmt.Sprintf("%s/%+v", typ, o), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { checkAgainstModel(t, typ, o) })
			})
		}
	}
}

func checkAgainstModel(t *rapid.T, typ string, o Options) {
	same := func(a, b Binding[int]) bool {
		return a.Destination == b.Destination && a.Key == b.Key && argumentsID(a.Arguments) == argumentsID(b.Arguments)
	}
	m, _ := New[int](typ, o)
	var model []Binding[int]
	versions, models := []Matcher[int]{m}, [][]Binding[int]{nil}
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		b := drawBinding(t, typ)
		i := slices.IndexFunc(model, func(x Binding[int]) bool { return same(x, b) })
		switch unbind := rapid.IntRange(0, 2).Draw(t, "op") == 0; {
		case unbind && len(model) > 0 && rapid.Bool().Draw(t, "existing"):
			i = rapid.IntRange(0, len(model)-1).Draw(t, "which")
			m = m.Unbind(model[i])
			model = slices.Delete(slices.Clone(model), i, i+1)
		case unbind:
			m = m.Unbind(b)
			if i >= 0 {
				model = slices.Delete(slices.Clone(model), i, i+1)
			}
		default:
			m = m.Bind(b)
			if i < 0 {
				model = append(slices.Clone(model), b)
			}
		}
		versions, models = append(versions, m), append(models, model)
	}
	for range 10 {
		key, headers := drawKey(t, "routing key", "a", "b", ""), drawHeaders(t)
		for i, v := range versions {
			if v.Len() != len(models[i]) {
				t.Fatalf("version %d: Len %d, want %d", i, v.Len(), len(models[i]))
			}
			var want []int
			for _, b := range models[i] {
				if naiveMatch(typ, o, b, key, headers) {
					want = append(want, b.Destination)
				}
			}
			sort.Ints(want)
			if diff := cmp.Diff(slices.Compact(want), route(v, key, headers)); diff != "" {
				t.Fatalf("version %d, key %q, headers %v, bindings %v (-want +got):\n%s", i, key, headers, models[i], diff)
			}
		}
	}
}

func drawBinding(t *rapid.T, typ string) Binding[int] {
	b := Binding[int]{Destination: rapid.IntRange(0, 14).Draw(t, "destination"), Key: drawKey(t, "binding key", "a", "b", "", "*", "#")}
	if typ != TypeHeaders {
		b.Arguments = rapid.SampledFrom([]frames.Table{nil, nil, kv("n", "1"), kv("n", int32(1))}).Draw(t, "arguments")
		return b
	}
	b.Key = rapid.SampledFrom([]string{"", "", "k"}).Draw(t, "binding key")
	b.Arguments = drawHeaders(t)
	if mode := rapid.SampledFrom([]string{"", "all", "any", "all-with-x", "any-with-x"}).Draw(t, "mode"); mode != "" {
		b.Arguments = append(b.Arguments, frames.Field{Key: xMatch, Value: mode})
	}
	return b
}

// drawKey draws a key of up to five words. The alphabet is small so that keys and patterns meet.
func drawKey(t *rapid.T, label string, words ...string) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 5).Draw(t, label), ".")
}

func drawHeaders(t *rapid.T) frames.Table {
	keys := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "x-a", "c"}), 0, 5).Draw(t, "header keys")
	var headers frames.Table
	for _, k := range keys {
		v := rapid.SampledFrom([]any{"1", "1", "2", nil, int32(1)}).Draw(t, "header value")
		headers = append(headers, frames.Field{Key: k, Value: v})
	}
	return headers
}

// TestRouteWhileBinding reads versions while a writer makes the next. The race detector looks for writes into a version
// that was published.
func TestRouteWhileBinding(t *testing.T) {
	for _, typ := range allTypes {
		t.Run(typ, func(t *testing.T) {
			var current atomic.Value
			current.Store(newMatcher(t, typ, Options{}))
			binding := func(i int) Binding[int] {
				return Binding[int]{Destination: i, Key: fmt.Sprintf("#.k%d.#", i%40), Arguments: kv("n", int32(i%40))}
			}
			var readers sync.WaitGroup
			stop := make(chan struct{})
			for range 2 {
				readers.Go(func() {
					msg := Message{RoutingKey: []byte("k1.k2.k3"), Headers: kv("n", int32(1)).AppendContents(nil)}
					for dst := []int(nil); ; dst = current.Load().(Matcher[int]).Route(dst[:0], &msg) {
						select {
						case <-stop:
							return
						default:
						}
					}
				})
			}
			m := current.Load().(Matcher[int])
			for i := range 2000 {
				m = m.Bind(binding(i))
				if i >= 500 {
					m = m.Unbind(binding(i - 500))
				}
				current.Store(m)
			}
			close(stop)
			readers.Wait()
			if m.Len() != 500 {
				t.Errorf("Len %d, want 500", m.Len())
			}
		})
	}
}

// TestRouteDoesNotAllocate covers every way through Route that AMQP's sizes can lead to, pools excepted.
func TestRouteDoesNotAllocate(t *testing.T) {
	var bound, header []Binding[int]
	for i := range 100 {
		for _, key := range []string{"k", "k%d.*.#", "*.k%d.#", "#.k%d", "#.k%d.#", "#"} {
			key, _, _ := strings.Cut(fmt.Sprintf(key+"\x00", i), "\x00")
			bound = append(bound, Binding[int]{Destination: i, Key: key})
		}
		header = append(header, Binding[int]{Destination: i, Arguments: kv("k", int32(i%3), "n", arr{int64(1), "x", tab{}}, "v", nil)})
	}
	msgs := []Message{
		{RoutingKey: []byte("k"), Headers: kv("k", int64(1), "n", arr{frames.LongLong(1), "x", tab{}}, "v", 1.5).AppendContents(nil)},
		{RoutingKey: []byte("k1.k2.k3")},
		{RoutingKey: []byte(strings.Repeat("k1.", 80))},
		{},
	}
	for _, typ := range allTypes {
		m := newMatcher(t, typ, Options{})
		bindings := bound
		if typ == TypeHeaders {
			bindings = header
		}
		for _, b := range bindings {
			m = m.Bind(b)
		}
		dst, hits := make([]int, 0, 10_000), 0
		got := testing.AllocsPerRun(50, func() {
			for i := range msgs {
				dst = m.Route(dst[:0], &msgs[i])
				hits += len(dst)
			}
		})
		if got != 0 || hits == 0 {
			t.Errorf("%s: %v allocations, want 0; %d destinations, want some", typ, got, hits)
		}
	}
}
