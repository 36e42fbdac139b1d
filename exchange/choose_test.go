package exchange

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func choiceBinding(d int, key string) Binding[int] {
	return Binding[int]{Destination: d, Key: key, Name: fmt.Sprint("q", d)}
}

// dice is a source of random bits that throws the same every time the test runs.
func dice() func() uint64 { return rand.New(rand.NewPCG(1, 2)).Uint64 }

// TestRandomShare: each binding gets its share, so a queue with two bindings gets two.
func TestRandomShare(t *testing.T) {
	const messages = 40_000
	for _, typ := range []string{TypeRandom, TypeLocalRandom} {
		m := newMatcher(t, typ, Options{Random: dice()})
		for d := range 4 {
			m = m.Bind(choiceBinding(d, ""))
		}
		m = m.Bind(Binding[int]{Destination: 3, Name: "q3", Arguments: kv("x-note", "1")})
		counts := make([]float64, 4)
		for range messages {
			counts[only(t, m, keyed(1))]++
		}
		for d, share := range []float64{.2, .2, .2, .4} {
			if want, slack := share*messages, 4*math.Sqrt(messages*share*(1-share)); math.Abs(counts[d]-want) > slack {
				t.Errorf("%s: destination %d has %v, want %.0f within %.0f", typ, d, counts[d], want, slack)
			}
		}
	}
}

// TestChooserAgainstModel compares bindings with a plain list that is searched, and asks that every binding can be
// chosen and nothing else.
func TestChooserAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		next := uint64(0)
		m, _ := New[int](TypeRandom, Options{Random: func() uint64 { next++; return next - 1 }})
		var model []Binding[int]
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			b := choiceBinding(rapid.IntRange(0, 5).Draw(t, "destination"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"))
			i := slices.IndexFunc(model, func(o Binding[int]) bool { return o.Destination == b.Destination && o.Key == b.Key })
			old := m
			if rapid.Bool().Draw(t, "unbind") {
				m = m.Unbind(b)
				if (i < 0) != (m == old) {
					t.Fatalf("unbind of %v: changed %v", b, m != old)
				}
				if i >= 0 {
					model = slices.Delete(model, i, i+1)
				}
			} else {
				m = m.Bind(b)
				if (i >= 0) != (m == old) {
					t.Fatalf("bind of %v: changed %v", b, m != old)
				}
				if i < 0 {
					model = append(model, b)
				}
			}
		}
		if m.Len() != len(model) {
			t.Fatalf("Len %d, want %d", m.Len(), len(model))
		}
		var want, got []int
		for _, b := range model {
			want = append(want, b.Destination)
		}
		for range model {
			got = m.Route(got, &Message{}) // each number once
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("routed to %v, want %v", got, want)
		}
	})
}

// TestModulusHash: one destination, the same for the same key, in whatever order the bindings came; even shares.
func TestModulusHash(t *testing.T) {
	m, n := newMatcher(t, TypeModulusHash, Options{}), newMatcher(t, TypeModulusHash, Options{})
	for d := range 5 {
		m, n = m.Bind(choiceBinding(d, "")), n.Bind(choiceBinding(4-d, ""))
	}
	const keys = 20_000
	counts := make([]float64, 5)
	for i := range keys {
		d := only(t, m, keyed(i))
		if o := only(t, n, keyed(i)); o != d {
			t.Fatalf("key %d: %d and %d", i, d, o)
		}
		counts[d]++
	}
	for d, c := range counts {
		if math.Abs(c-keys/5) > 4*math.Sqrt(keys*.2*.8) {
			t.Errorf("destination %d has %v of %d", d, c, keys)
		}
	}
	if got := newMatcher(t, TypeModulusHash, Options{}).Route(nil, keyed(1)); len(got) != 0 {
		t.Errorf("without bindings: %v", got)
	}
}

func TestLocalRandomTakesNoKeys(t *testing.T) {
	if err := ValidateBinding(TypeLocalRandom, "k", nil, Options{}); err == nil || err.Text != "Non empty binding 'k' key not permitted" {
		t.Errorf("key k: %v", err)
	}
	if err := ValidateBinding(TypeLocalRandom, "", nil, Options{}); err != nil {
		t.Errorf("no key: %v", err)
	}
	if err := ValidateBinding(TypeRandom, "k", nil, Options{}); err != nil {
		t.Errorf("x-random: %v", err)
	}
}

// TestChoosingDoesNotAllocate for all the types that choose one destination.
func TestChoosingDoesNotAllocate(t *testing.T) {
	for _, typ := range []string{TypeConsistentHash, TypeModulusHash, TypeRandom} {
		m := newMatcher(t, typ, Options{Random: dice()})
		for d := range 10 {
			m = m.Bind(choiceBinding(d, fmt.Sprint(1+d%3)))
		}
		msg, dst := keyed(1), make([]int, 0, 4)
		if n := testing.AllocsPerRun(100, func() { dst = m.Route(dst[:0], msg) }); n != 0 {
			t.Errorf("%s: %v allocations", typ, n)
		}
	}
}

func BenchmarkConsistentHash(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := newMatcher(b, TypeConsistentHash, Options{})
			for i := range n {
				m = m.Bind(hashBinding(i, fmt.Sprint(1+i%3)))
			}
			benchmarkRoute(b, m, messages("order.1", "order.2", "order.3"))
		})
	}
}
