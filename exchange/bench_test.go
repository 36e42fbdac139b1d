package exchange

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/frames"
)

func benchmarkRoute(b *testing.B, m Matcher[int], msgs []Message) {
	dst := make([]int, 0, 1024)
	hits := 0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		dst = m.Route(dst[:0], &msgs[i%len(msgs)])
		hits += len(dst)
	}
	b.ReportMetric(float64(hits)/float64(b.N), "matches/op")
}

func messages(keys ...string) []Message {
	msgs := make([]Message, len(keys))
	for i, k := range keys {
		msgs[i].RoutingKey = []byte(k)
	}
	return msgs
}

func BenchmarkDirect10kKeys(b *testing.B) {
	m, keys := newMatcher(b, TypeDirect, Options{}), []string{}
	for i := range 10_000 {
		keys = append(keys, fmt.Sprintf("queue.%d", i))
		m = m.Bind(Binding[int]{Destination: i, Key: keys[i]})
	}
	benchmarkRoute(b, m, messages(keys...))
}

func BenchmarkFanout(b *testing.B) {
	for _, n := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := newMatcher(b, TypeFanout, Options{})
			for i := range n {
				m = m.Bind(Binding[int]{Destination: i})
			}
			benchmarkRoute(b, m, messages("k"))
		})
	}
}

// wildcards returns n bindings of mixed wildcard patterns on 100 destinations.
func wildcards(b *testing.B, n int, patterns ...string) Matcher[int] {
	m := newMatcher(b, TypeTopic, Options{})
	for i := range n {
		m = m.Bind(Binding[int]{Destination: i % 100, Key: fmt.Sprintf(patterns[i%len(patterns)], i)})
	}
	return m
}

func BenchmarkTopic1000Wildcards(b *testing.B) {
	mixed := []string{"k%d.*.#", "*.k%d.#", "#.k%d"}
	var keys []string
	for i := range 1000 {
		keys = append(keys, fmt.Sprintf("k%d.k%d.k%d", i, (i*7)%1000, (i*13)%1000))
	}
	b.Run("mixed", func(b *testing.B) { benchmarkRoute(b, wildcards(b, 1000, mixed...), messages(keys...)) })
	b.Run("nested", func(b *testing.B) {
		benchmarkRoute(b, wildcards(b, 1000, append(mixed, "#.k%d.#", "*.#.k%d.#")...), messages(keys...))
	})
	b.Run("many matches", func(b *testing.B) { // ten bindings a pattern
		m := newMatcher(b, TypeTopic, Options{})
		for i := range 1000 {
			m = m.Bind(Binding[int]{Destination: i % 100, Key: fmt.Sprintf(mixed[i%3], (i/3)%33)})
		}
		benchmarkRoute(b, m, messages("k1.k2.k3", "k4.k5.k6", "k7.k8.k9"))
	})
	b.Run("miss", func(b *testing.B) { benchmarkRoute(b, wildcards(b, 1000, mixed...), messages("a.b.c")) })
}

// BenchmarkTopicWorst follows a key of 128 equal words through patterns made to keep many paths alive.
func BenchmarkTopicWorst(b *testing.B) {
	m := newMatcher(b, TypeTopic, Options{})
	pattern, key := "#", "a"
	for i := range 60 {
		m = m.Bind(Binding[int]{Destination: i, Key: pattern + ".b"})
		pattern += ".a.#"
	}
	for range 127 {
		key += ".a"
	}
	benchmarkRoute(b, m, messages(key))
}

func BenchmarkHeaders100Bindings(b *testing.B) {
	for _, mode := range []string{"all", "any"} {
		b.Run(mode, func(b *testing.B) {
			m := newMatcher(b, TypeHeaders, Options{})
			for i := range 100 {
				m = m.Bind(Binding[int]{Destination: i, Arguments: kv("x-match", mode,
					"type", fmt.Sprintf("event-%d", i%10), "region", fmt.Sprintf("region-%d", i%7), "shard", int32(i))})
			}
			var msgs []Message
			for i := range 100 {
				msgs = append(msgs, Message{Headers: kv("type", fmt.Sprintf("event-%d", i%10), "region", fmt.Sprintf("region-%d", i%7),
					"shard", int64(i), "trace", "0af7651916cd43dd8448eb211c80319c", "at", frames.Timestamp(1700000000)).AppendContents(nil)})
			}
			benchmarkRoute(b, m, msgs)
		})
	}
}

func BenchmarkBindInto10k(b *testing.B) {
	for _, typ := range allTypes {
		for _, spread := range []string{"own key", "one key"} {
			b.Run(typ+"/"+spread, func(b *testing.B) {
				m := newMatcher(b, typ, Options{})
				binding := func(i int) Binding[int] {
					x := Binding[int]{Destination: i, Key: "one"}
					if spread == "own key" {
						x.Key = fmt.Sprintf("queue.%d", i)
					}
					return x
				}
				for i := range 10_000 {
					m = m.Bind(binding(i))
				}
				x := binding(10_000)
				b.ReportAllocs()
				for b.Loop() {
					m.Bind(x)
				}
			})
		}
	}
}

// BenchmarkTopicScale is the topic scenario of warren bench: wildcard bindings on 100 queues, each key matching one of
// them, so that 100 and 10,000 bindings do the same work for a message but for finding it.
func BenchmarkTopicScale(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := wildcards(b, n, "k%d.*.#", "*.k%d.#", "#.k%d.z")
			var keys []string
			for i := 0; i < n; i += 3 {
				keys = append(keys, fmt.Sprintf("k%d.x.y", i))
			}
			benchmarkRoute(b, m, messages(keys...))
		})
	}
}
