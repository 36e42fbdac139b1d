package exchange

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warrenmq/warren/frames"
)

// hashBinding binds destination d with a weight, under a name of its own.
func hashBinding(d int, weight string) Binding[int] {
	return Binding[int]{Destination: d, Key: weight, Name: fmt.Sprint("q", d)}
}

// hashed builds a consistent hash exchange; weights[i] is that of destination i, "" for none.
func hashed(t testing.TB, args frames.Table, weights ...string) Matcher[int] {
	t.Helper()
	m := newMatcher(t, TypeConsistentHash, Options{Arguments: args})
	for d, w := range weights {
		if w != "" {
			m = m.Bind(hashBinding(d, w))
		}
	}
	return m
}

// only is the one destination of a message; it fails when there are more or none.
func only(t interface{ Fatalf(string, ...any) }, m Matcher[int], msg *Message) int {
	got := m.Route([]int{-1}, msg)
	if len(got) != 2 || got[0] != -1 {
		t.Fatalf("routed to %v, want one destination behind -1", got)
	}
	return got[1]
}

func keyed(i int) *Message { return &Message{RoutingKey: fmt.Appendf(nil, "order.%d", i)} }

// TestHashShare routes many keys and compares each destination's share with its weight's, within four standard
// deviations of a fair throw.
func TestHashShare(t *testing.T) {
	const keys = 60_000
	for _, weights := range [][]string{{"1", "1"}, {"1", "2", "3"}, {"10", "10", "1", "10"}, {"1", "1000"}, {"5", "5", "5", "5", "5", "7", "7", "90"}} {
		m := hashed(t, nil, weights...)
		counts, sum := make([]float64, len(weights)), 0.0
		for _, w := range weights {
			sum += weightOf(w)
		}
		for i := range keys {
			counts[only(t, m, keyed(i))]++
		}
		for d, w := range weights {
			p := weightOf(w) / sum
			if want, slack := p*keys, 4*math.Sqrt(keys*p*(1-p)); math.Abs(counts[d]-want) > slack {
				t.Errorf("weights %v: destination %d has %v of %d, want %.0f within %.0f", weights, d, counts[d], keys, want, slack)
			}
		}
	}
}

func weightOf(w string) float64 {
	n, _ := parseWeight(w)
	return float64(n)
}

// TestHashMovesNothingElse adds and removes destinations at random and asks that a key changes its destination only to
// one that came or from one that went.
func TestHashMovesNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, _ := New[int](TypeConsistentHash, Options{})
		bound := map[int]string{}
		at := make([]int, 200)
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			d := rapid.IntRange(0, 9).Draw(t, "destination")
			old, was := bound[d]
			weight := rapid.SampledFrom([]string{"1", "2", "3", "+3", "100"}).Draw(t, "weight")
			if was {
				m = m.Unbind(hashBinding(d, old))
				delete(bound, d)
			} else {
				m, bound[d] = m.Bind(hashBinding(d, weight)), weight
			}
			if m.Len() != len(bound) {
				t.Fatalf("Len %d, want %d", m.Len(), len(bound))
			}
			for i := range at {
				before := at[i]
				if len(bound) == 0 {
					if got := m.Route(nil, keyed(i)); len(got) != 0 {
						t.Fatalf("an exchange without bindings routes to %v", got)
					}
					continue
				}
				at[i] = only(t, m, keyed(i))
				if len(bound) > 1 && at[i] != before && (was && before != d || !was && at[i] != d) {
					t.Fatalf("key %d moved from %d to %d when %d came or went", i, before, at[i], d)
				}
			}
		}
	})
}

// TestHashIsTheSameInAnyOrder: the history of an exchange plays no part, so a restart changes nothing.
func TestHashIsTheSameInAnyOrder(t *testing.T) {
	weights := []string{"1", "2", "2", "7", "1"}
	m := hashed(t, nil, weights...)
	n := newMatcher(t, TypeConsistentHash, Options{}).Bind(hashBinding(9, "4"))
	for _, d := range []int{3, 1, 4, 0, 2} {
		n = n.Bind(hashBinding(d, weights[d]))
	}
	n = n.Unbind(hashBinding(9, "4"))
	for i := range 2000 {
		if a, b := only(t, m, keyed(i)), only(t, n, keyed(i)); a != b {
			t.Fatalf("key %d: %d and %d", i, a, b)
		}
	}
}

// TestHashStaysAsItIs pins where some keys go: a newer version that moved them would break programs over an upgrade.
func TestHashStaysAsItIs(t *testing.T) {
	m := hashed(t, nil, "1", "2", "3")
	var got []int
	for i := range 12 {
		got = append(got, only(t, m, keyed(i)))
	}
	if want := []int{2, 1, 0, 0, 2, 2, 1, 0, 2, 2, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("destinations %v, want %v", got, want)
	}
}

// TestHashFirstBindingCounts: RabbitMQ ignores a second binding of a destination. When the first goes, the second counts.
func TestHashFirstBindingCounts(t *testing.T) {
	m := hashed(t, nil, "1", "1")
	n := m.Bind(hashBinding(0, "1000"))
	if n == m || n.Len() != 3 || n.Bind(hashBinding(0, "1000")) != n {
		t.Fatal("a second binding of a destination is a binding of its own, once")
	}
	share := func(m Matcher[int]) (n int) {
		for i := range 1000 {
			if only(t, m, keyed(i)) == 0 {
				n++
			}
		}
		return n
	}
	if s := share(n); s != share(m) || s < 400 || s > 600 {
		t.Errorf("share %d of 1000 with the first weight, want %d as without the second", s, share(m))
	}
	if s := share(n.Unbind(hashBinding(0, "1"))); s < 980 {
		t.Errorf("share %d of 1000 with the second weight, want nearly all", s)
	}
	if s := share(n.Unbind(hashBinding(0, "1000"))); s != share(m) {
		t.Errorf("share %d without the second binding, want %d", s, share(m))
	}
	if n.Unbind(hashBinding(0, "2")) != n {
		t.Error("unbinding what is not there made a new matcher")
	}
}

func TestHashSources(t *testing.T) {
	// Enough destinations that two values are not at the same by chance: each pair that must differ is tried with many.
	spread := func(t *testing.T, m Matcher[int], message func(i int) *Message) int {
		seen := map[int]bool{}
		for i := range 100 {
			d := only(t, m, message(i))
			if again := only(t, m, message(i)); again != d {
				t.Fatalf("message %d went to %d, then to %d", i, d, again)
			}
			seen[d] = true
		}
		return len(seen)
	}
	properties := func(v frames.PropertyValues) *frames.Properties {
		p, err := frames.ParseProperties(v.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		return &p
	}
	header := func(v any) *Message {
		return &Message{RoutingKey: []byte("k"), Headers: kv("h", v).AppendContents(nil)}
	}
	for _, row := range []struct {
		name     string
		args     frames.Table
		message  func(i int) *Message
		oneplace bool
	}{
		{"key", nil, keyed, false},
		{"header", kv("hash-header", "h"), func(i int) *Message { return header(fmt.Sprint(i)) }, false},
		{"header of numbers", kv("hash-header", "h"), func(i int) *Message { return header(int32(i)) }, false},
		{"header that is missing", kv("hash-header", "x"), func(i int) *Message { return header(fmt.Sprint(i)) }, true},
		{"header and other keys", kv("hash-header", "h"), func(i int) *Message {
			m := header("same")
			m.RoutingKey = fmt.Append(nil, i)
			return m
		}, true},
		{"no headers", kv("hash-header", "h"), keyed, true},
		{"message_id", kv("hash-property", "message_id"), func(i int) *Message {
			return &Message{Properties: properties(frames.PropertyValues{Flags: frames.FlagMessageID, MessageID: fmt.Sprint(i)})}
		}, false},
		{"correlation_id", kv("hash-property", "correlation_id"), func(i int) *Message {
			return &Message{Properties: properties(frames.PropertyValues{Flags: frames.FlagCorrelationID, CorrelationID: fmt.Sprint(i)})}
		}, false},
		{"timestamp", kv("hash-property", "timestamp"), func(i int) *Message {
			return &Message{Properties: properties(frames.PropertyValues{Flags: frames.FlagTimestamp, Timestamp: uint64(i)})}
		}, false},
		{"property that is missing", kv("hash-property", "message_id"), func(i int) *Message {
			return &Message{RoutingKey: fmt.Append(nil, i), Properties: properties(frames.PropertyValues{})}
		}, true},
		{"no properties", kv("hash-property", "message_id"), keyed, true},
	} {
		m := hashed(t, row.args, "1", "1", "1", "1")
		if n := spread(t, m, row.message); (n == 1) != row.oneplace {
			t.Errorf("%s: %d destinations, want one: %v", row.name, n, row.oneplace)
		}
	}
	m := hashed(t, kv("hash-header", "h"), "1", "1", "1", "1", "1", "1", "1", "1")
	for _, v := range []any{int8(7), uint8(7), int16(7), int64(7), frames.LongLong(7)} {
		if a, b := only(t, m, header(v)), only(t, m, header(int32(7))); a != b {
			t.Errorf("%T 7 goes to %d, int32 7 to %d", v, a, b)
		}
	}
}

func TestHashArguments(t *testing.T) {
	const bare = "541 "
	for _, row := range []struct {
		args frames.Table
		want string
	}{
		{nil, ""},
		{kv("hash-header", "h"), ""},
		{kv("hash-property", "message_id"), ""},
		{kv("hash-property", "correlation_id"), ""},
		{kv("hash-property", "timestamp"), ""},
		{kv("hash-property", "foo"), "406 Unsupported property: foo"},
		{kv("hash-property", ""), "406 Unsupported property: "},
		{kv("hash-header", "h", "hash-property", "message_id"), "406 hash-header and hash-property are mutually exclusive"},
		{kv("hash-header", "h", "hash-property", "foo"), "406 hash-header and hash-property are mutually exclusive"},
		{kv("hash-header", int32(1)), bare},
		{kv("hash-header", "h", "hash-property", int32(1)), bare},
		{kv("hash-property", true), bare},
	} {
		got := ""
		if err := ValidateArguments(TypeConsistentHash, row.args); err != nil {
			got = fmt.Sprintf("%d %s", err.Code, err.Text)
			if (err.Scope == frames.ScopeConnection) != (row.want == bare) {
				t.Errorf("%v: scope %v", row.args, err.Scope)
			}
		}
		if got != row.want {
			t.Errorf("%v: %q, want %q", row.args, got, row.want)
		}
	}
	if err := ValidateArguments(TypeDirect, kv("hash-property", "foo")); err != nil {
		t.Errorf("a direct exchange looks at hash-property: %v", err)
	}
}

func TestHashWeights(t *testing.T) {
	const notInteger, tooSmall = "The binding key must be an integer: ", "The binding key must be greater than 0"
	for _, row := range []struct{ key, want string }{
		{"1", ""}, {"007", ""}, {"+5", ""}, {"10000", ""}, {"10001", "The binding key must not exceed 10000"},
		{"99999999999999999999", "The binding key must not exceed 10000"},
		{"0", tooSmall}, {"-0", tooSmall}, {"-3", tooSmall}, {"-99999999999999999999", tooSmall},
		{"abc", notInteger + `<<"abc">>`}, {"", notInteger + "<<>>"}, {"1.5", notInteger + `<<"1.5">>`}, {" 1", notInteger + `<<" 1">>`},
		{"+", notInteger + `<<"+">>`}, {"1_0", notInteger + `<<"1_0">>`}, {"--1", notInteger + `<<"--1">>`},
	} {
		got := ""
		if err := ValidateBinding(TypeConsistentHash, row.key, nil, Options{MaxWeight: 10000}); err != nil {
			got = err.Text
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", row.key, diff)
		}
	}
	if err := ValidateBinding(TypeConsistentHash, "10001", nil, Options{}); err != nil {
		t.Errorf("10001 without a bound: %v", err)
	}
}
