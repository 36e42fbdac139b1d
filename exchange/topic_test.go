package exchange

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestTopicTable holds the rows that were verified on RabbitMQ 3.10.8 and 4.3.6.
func TestTopicTable(t *testing.T) {
	for _, row := range []struct {
		pattern     string
		match, miss []string
	}{
		{"#", []string{"", "a", "a.b", ".", "..", "*", "#"}, nil},
		{"*", []string{"a", "*", "#"}, []string{"", "a.b", "."}},
		{"", []string{""}, []string{"a", "."}},
		{"*.*", []string{".", "a.", ".a", "a.b"}, []string{"a", "", ".."}},
		{"#.#", []string{"", "a", "a.b"}, nil},
		{"#.*", []string{"a", "a.b", "."}, []string{""}},
		{"*.#", []string{"a", "a.b", "."}, []string{""}},
		{"a.#", []string{"a", "a.b", "a."}, []string{"ab", "", ".a"}},
		{"a.#.b", []string{"a.b", "a.c.b", "a.c.d.b", "a..b"}, []string{"a", "b", "a.b.c"}},
		{"a..b", []string{"a..b"}, []string{"a.b", "a.x.b"}},
		{"a.*.b", []string{"a..b", "a.x.b"}, []string{"a.b", "a.x.y.b"}},
		{"#.b.#", []string{"b", "a.b", "b.a", "a.b.a"}, []string{"a", "", "a.a"}},
		{"a*", []string{"a*"}, []string{"a", "ab", "a.b"}},
		{"#a", []string{"#a"}, []string{"a", "x.a"}},
		{"a.#b", []string{"a.#b"}, []string{"a.b", "a.x.b"}},
		{"A.b", []string{"A.b"}, []string{"a.b", "A.B"}},
		{"#.a.#.b", []string{"a.b", "x.a.y.b", "a.a.b.b"}, []string{"b.a", "a", "b"}},
	} {
		m := newMatcher(t, TypeTopic, Options{}).Bind(Binding[int]{Destination: 1, Key: row.pattern})
		for _, key := range row.match {
			if got := m.Route(nil, &Message{RoutingKey: []byte(key)}); !slices.Equal(got, []int{1}) {
				t.Errorf("pattern %q, key %q: %v, want one match", row.pattern, key, got)
			}
		}
		for _, key := range row.miss {
			if got := m.Route(nil, &Message{RoutingKey: []byte(key)}); len(got) != 0 {
				t.Errorf("pattern %q, key %q: %v, want no match", row.pattern, key, got)
			}
		}
	}
}

// naiveWords splits a key the slow and plain way.
func naiveWords(key string) []string {
	if key == "" {
		return []string{}
	}
	return strings.Split(key, ".")
}

// naiveTopic is the definition of a match, tried out in all ways.
func naiveTopic(pattern, key []string) bool {
	switch {
	case len(pattern) == 0:
		return len(key) == 0
	case pattern[0] == "#":
		return naiveTopic(pattern[1:], key) || len(key) > 0 && naiveTopic(pattern, key[1:])
	}
	return len(key) > 0 && (pattern[0] == "*" || pattern[0] == key[0]) && naiveTopic(pattern[1:], key[1:])
}

// TestTopicManyPatterns binds many patterns at once, so that they share nodes, and asks for each match exactly once.
func TestTopicManyPatterns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, _ := New[int](TypeTopic, Options{})
		var patterns []string
		for i := range rapid.IntRange(1, 60).Draw(t, "patterns") {
			patterns = append(patterns, drawKey(t, "pattern", "a", "b", "", "*", "#", "#"))
			m = m.Bind(Binding[int]{Destination: i, Key: patterns[i]})
		}
		for range 20 {
			key := drawKey(t, "key", "a", "b", "")
			var want []int
			for i, p := range patterns {
				if naiveTopic(naiveWords(p), naiveWords(key)) {
					want = append(want, i)
				}
			}
			got := m.Route(nil, &Message{RoutingKey: []byte(key)})
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("key %q, patterns %q (-want +got):\n%s", key, patterns, diff)
			}
		}
	})
}

// TestTopicManyHashes would not end in a lifetime if each `#` were followed anew from every position: that is 128 over
// 60 ways.
func TestTopicManyHashes(t *testing.T) {
	const hashes = 60
	m := newMatcher(t, TypeTopic, Options{})
	m = m.Bind(Binding[int]{Destination: 1, Key: strings.Repeat("#.a.", hashes) + "#.b"})
	m = m.Bind(Binding[int]{Destination: 2, Key: strings.Repeat("#.a.", hashes) + "#"})
	m = m.Bind(Binding[int]{Destination: 3, Key: strings.Repeat("#.", 127) + "c"})
	m = m.Bind(Binding[int]{Destination: 4, Key: strings.Repeat("*.#.", hashes) + "*"})
	key := strings.Repeat("a.", 126) + "a"
	if got := route(m, key, nil); !slices.Equal(got, []int{2, 4}) {
		t.Errorf("%v, want 2 4", got)
	}
	if got := route(m, key+".b", nil); !slices.Equal(got, []int{1, 2, 4}) {
		t.Errorf("with b in the end: %v, want 1 2 4", got)
	}
	if got := route(m, strings.Repeat("a.", hashes)+"c", nil); !slices.Equal(got, []int{2, 3, 4}) {
		t.Errorf("with just enough a: %v, want 2 3 4", got)
	}
}

// TestTopicManySlots has more `#` below other `#` than the bit set on the stack holds, then fewer again.
func TestTopicManySlots(t *testing.T) {
	m := newMatcher(t, TypeTopic, Options{})
	binding := func(i int) Binding[int] { return Binding[int]{Destination: i, Key: fmt.Sprintf("#.k%d.#.x", i)} }
	const n = 3 * seenSlots
	for i := range n {
		m = m.Bind(binding(i))
	}
	big := m
	for i := range n {
		if i%100 != 0 {
			m = m.Unbind(binding(i))
		}
	}
	if used := m.(*topic[int]).slots.used; used != n {
		t.Errorf("%d slots in use after the unbinds, want %d", used, n)
	}
	for i := range n {
		if i%100 != 0 {
			m = m.Bind(binding(i))
		}
	}
	if used := m.(*topic[int]).slots.used; used != n {
		t.Errorf("%d slots in use after binding again, want %d: freed ones are not used", used, n)
	}
	for _, m := range []Matcher[int]{big, m} {
		for range 3 { // the set of the first call is used again
			if got := route(m, "a.k7.k7.b.k3000.k99999.x", nil); !slices.Equal(got, []int{7, 3000}) {
				t.Errorf("%v, want 7 3000", got)
			}
		}
	}
}

func TestTopicLongKeys(t *testing.T) {
	m := newMatcher(t, TypeTopic, Options{})
	for i, p := range []string{"#.end", "#..end", "a.#", "*.*.#.end", strings.Repeat("*.", 299) + "end"} {
		m = m.Bind(Binding[int]{Destination: i, Key: p})
	}
	for _, words := range []int{shortKeyWords - 1, shortKeyWords, shortKeyWords + 1, wireKeyWords - 1, wireKeyWords, wireKeyWords + 1, 300} {
		want := []int{0, 2, 3}
		if words == 300 {
			want = append(want, 4)
		}
		if got := route(m, strings.Repeat("a.", words-1)+"end", nil); !slices.Equal(got, want) {
			t.Errorf("%d words: %v, want %v", words, got, want)
		}
	}
	if got := route(m, strings.Repeat(".", 255), nil); len(got) != 0 {
		t.Errorf("255 dots: %v, want none", got)
	}
	if got := route(m, strings.Repeat(".", 251)+"end", nil); !slices.Equal(got, []int{0, 1, 3}) {
		t.Errorf("251 dots and end: %v, want 0 1 3", got)
	}
}

// TestTopicPrunes checks that nothing is left of a trie when its bindings are gone.
func TestTopicPrunes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, _ := New[int](TypeTopic, Options{})
		keys := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return drawKey(t, "pattern", "a", "b", "*", "#", "#")
		}), 1, 30).Draw(t, "patterns")
		for _, key := range keys {
			m = m.Bind(Binding[int]{Key: key})
		}
		used := m.(*topic[int]).slots.used
		for _, key := range rapid.Permutation(keys).Draw(t, "order") {
			m = m.Unbind(Binding[int]{Key: key})
		}
		end := m.(*topic[int])
		if !end.root.leaf() || !end.root.targets.empty() || end.bindings != 0 {
			t.Fatalf("nodes or %d bindings are left", end.bindings)
		}
		free := 0
		for f := end.slots.free; f != nil; f = f.next {
			free++
		}
		if free != used || end.slots.used != used {
			t.Fatalf("%d slots were handed out, %d came back", used, free)
		}
	})
}
