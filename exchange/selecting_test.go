package exchange

import (
	"fmt"
	"slices"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/warrenmq/warren/frames"
	"pgregory.net/rapid"
)

// selected routes a message with headers as the broker does.
func selected(t interface{ Fatal(...any) }, m Matcher[int], key string, headers frames.Table) []int {
	values := frames.PropertyValues{Flags: frames.FlagHeaders, Headers: headers}
	p, err := frames.ParseProperties(values.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	msg := Message{RoutingKey: []byte(key), Properties: &p}
	msg.Headers, _ = p.Headers()
	got := m.Route(nil, &msg)
	if again := m.Route(nil, &msg); len(again) != len(got) {
		t.Fatal("the second route of a message differs", got, again)
	}
	msg.Done()
	sort.Ints(got)
	return slices.Compact(got)
}

func filtered(text any, more ...frames.Field) frames.Table {
	return append(frames.Table{{Key: ArgumentSelector, Value: text}}, more...)
}

func number(n int32) frames.Table { return frames.Table{{Key: "n", Value: n}} }

func TestSelectorOnTopic(t *testing.T) {
	m := newMatcher(t, TypeTopic, Options{})
	if Selects(m) {
		t.Error("a topic exchange without bindings selects")
	}
	m = m.Bind(Binding[int]{Destination: 1, Key: "a.*"}).
		Bind(Binding[int]{Destination: 2, Key: "a.#", Arguments: filtered("n > 1")}).
		Bind(Binding[int]{Destination: 3, Key: "a.#", Arguments: filtered("n > 2")}).
		Bind(Binding[int]{Destination: 3, Key: "#", Arguments: filtered("n > 3")}).
		Bind(Binding[int]{Destination: 4, Key: "b"})
	if !Selects(m) || m.Len() != 5 {
		t.Errorf("Selects %v, %d bindings; want true, 5", Selects(m), m.Len())
	}
	for n, want := range map[int32][]int{1: {1}, 2: {1, 2}, 3: {1, 2, 3}} {
		if diff := cmp.Diff(want, selected(t, m, "a.x", number(n))); diff != "" {
			t.Errorf("n = %d (-want +got):\n%s", n, diff)
		}
	}
	if got := selected(t, m, "x", number(4)); !slices.Equal(got, []int{3}) {
		t.Errorf("key x: %v, want 3 alone", got)
	}
	if got := m.Route(nil, &Message{RoutingKey: []byte("a.x")}); !slices.Equal(got, []int{1}) {
		t.Errorf("without properties: %v, want 1 alone", got)
	}
}

// TestSelectorOnHeaders: the selector comes on top of x-match, and is no condition on a header of its name.
func TestSelectorOnHeaders(t *testing.T) {
	a := frames.Field{Key: "a", Value: "1"}
	mode := func(s string) frames.Field { return frames.Field{Key: "x-match", Value: s} }
	m := newMatcher(t, TypeHeaders, Options{}).
		Bind(Binding[int]{Destination: 1, Arguments: filtered("n = 1")}).
		Bind(Binding[int]{Destination: 2, Arguments: filtered("n = 1", a)}).
		Bind(Binding[int]{Destination: 3, Arguments: filtered("n = 1", a, mode("all-with-x"))}).
		Bind(Binding[int]{Destination: 4, Arguments: filtered("n = 1", a, mode("any"))}).
		Bind(Binding[int]{Destination: 5, Arguments: filtered("n = 1", mode("any"))}).
		Bind(Binding[int]{Destination: 6, Arguments: frames.Table{a}})
	for _, c := range []struct {
		headers frames.Table
		want    []int
	}{
		{number(1), []int{1}},
		{number(2), nil},
		{append(number(1), a), []int{1, 2, 3, 4, 6}},
		{append(number(2), a), []int{6}},
	} {
		if diff := cmp.Diff(c.want, selected(t, m, "", c.headers), cmp.Transformer("nil", func(s []int) string { return fmt.Sprint(s) })); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.headers, diff)
		}
	}
}

// TestSelectorIdentity: the selector's text tells bindings apart, and an exchange that loses its last one is as before.
func TestSelectorIdentity(t *testing.T) {
	for _, typ := range []string{TypeTopic, TypeHeaders} {
		plain := newMatcher(t, typ, Options{}).Bind(Binding[int]{Destination: 1, Key: "k"})
		one := Binding[int]{Destination: 1, Key: "k", Arguments: filtered("n = 1")}
		two := Binding[int]{Destination: 1, Key: "k", Arguments: filtered("n  =  1")}
		m := plain.Bind(one)
		if m.Bind(one) != m || m.Unbind(two) != m || m.Unbind(Binding[int]{Destination: 2, Key: "k"}) != m || m.Bind(Binding[int]{Destination: 1, Key: "k"}) != m {
			t.Errorf("%s: a change that changes nothing makes another matcher", typ)
		}
		both := m.Bind(two)
		if both.Len() != 3 || m.Len() != 2 {
			t.Errorf("%s: %d and %d bindings, want 3 and 2", typ, both.Len(), m.Len())
		}
		if rest := both.Unbind(one).Unbind(two); Selects(rest) || rest != plain {
			t.Errorf("%s: still selects without selectors", typ)
		}
		if rest := both.Unbind(Binding[int]{Destination: 1, Key: "k"}); len(selected(t, rest, "k", number(1))) != 1 || len(selected(t, rest, "k", number(2))) != 0 {
			t.Errorf("%s: unbinding the plain binding took a selector with it", typ)
		}
	}
}

// TestWrongSelector: the refusal has the place; a wrong selector that is there all the same matches nothing.
func TestWrongSelector(t *testing.T) {
	for _, c := range []struct {
		typ  string
		args frames.Table
		want string
	}{
		{TypeTopic, filtered("n = 1"), ""},
		{TypeHeaders, filtered(""), ""},
		{TypeTopic, filtered("n = "), "Invalid x-filter-jms-selector field value at position 5: expected a name or a value, found the end"},
		{TypeHeaders, filtered("n > 'x'"), "Invalid x-filter-jms-selector field value at position 5: expected a number, found a string"},
		{TypeHeaders, filtered(int32(1)), "Invalid x-filter-jms-selector field type signedint; expected longstr"},
		{TypeTopic, filtered(nil), "Invalid x-filter-jms-selector field type void; expected longstr"},
		{TypeDirect, filtered("n = 1"), "x-filter-jms-selector is not for bindings to this exchange; only headers and topic exchanges take it"},
		{TypeFanout, filtered("n = "), "x-filter-jms-selector is not for bindings to this exchange; only headers and topic exchanges take it"},
		{TypeConsistentHash, filtered("n = 1"), "x-filter-jms-selector is not for bindings to this exchange; only headers and topic exchanges take it"},
	} {
		err := ValidateBinding(c.typ, "1", c.args, Options{})
		if got := errorText(err); got != c.want || err != nil && err.Code != frames.PreconditionFailed {
			t.Errorf("%s %v: %v, want %q", c.typ, c.args, err, c.want)
		}
	}
	m := newMatcher(t, TypeTopic, Options{}).Bind(Binding[int]{Destination: 1, Key: "#", Arguments: filtered("n = ")})
	if got := selected(t, m, "k", number(1)); len(got) != 0 || m.Len() != 1 {
		t.Errorf("a wrong selector routes to %v", got)
	}
}

func errorText(err *frames.Error) string {
	if err == nil {
		return ""
	}
	return err.Text
}

// TestSelectingModel binds and unbinds at random, with and without selectors, and routes by the definition.
func TestSelectingModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, _ := New[int](TypeTopic, Options{})
		type binding struct {
			to, least int // least 0: no selector
			key       string
		}
		there := map[binding]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			b := binding{rapid.IntRange(0, 3).Draw(t, "to"), rapid.IntRange(0, 3).Draw(t, "least"), drawKey(t, "pattern", "a", "b", "*", "#")}
			as := Binding[int]{Destination: b.to, Key: b.key}
			if b.least > 0 {
				as.Arguments = filtered(fmt.Sprintf("n >= %d", b.least))
			}
			if rapid.IntRange(0, 2).Draw(t, "unbind") == 0 {
				m = m.Unbind(as)
				delete(there, b)
			} else {
				m = m.Bind(as)
				there[b] = true
			}
			key, n := drawKey(t, "key", "a", "b"), rapid.IntRange(0, 3).Draw(t, "n")
			var want []int
			for b := range there {
				if b.least <= n && naiveTopic(naiveWords(b.key), naiveWords(key)) {
					want = append(want, b.to)
				}
			}
			sort.Ints(want)
			if got := selected(t, m, key, number(int32(n))); !slices.Equal(got, slices.Compact(want)) || m.Len() != len(there) {
				t.Fatalf("key %q, n %d: %v of %d bindings, want %v of %d", key, n, got, m.Len(), want, len(there))
			}
		}
	})
}

// TestSelectingAllocatesNothing: a message whose scratch memory has come from the pool needs no more.
func TestSelectingAllocatesNothing(t *testing.T) {
	for _, typ := range []string{TypeTopic, TypeHeaders} {
		m := newMatcher(t, typ, Options{})
		for i := range 20 {
			m = m.Bind(Binding[int]{Destination: i, Key: "a.#", Arguments: filtered(fmt.Sprintf("n > %d AND color LIKE 'r%%'", i))})
		}
		values := frames.PropertyValues{Flags: frames.FlagHeaders, Headers: frames.Table{{Key: "n", Value: int32(10)}, {Key: "color", Value: "red"}}}
		p, err := frames.ParseProperties(values.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]int, 0, 32)
		msg := &Message{RoutingKey: []byte("a.b"), Properties: &p}
		msg.Headers, _ = p.Headers()
		if n := testing.AllocsPerRun(200, func() {
			if dst = m.Route(dst[:0], msg); len(dst) != 10 {
				t.Errorf("%s: %v", typ, dst)
			}
			msg.selected.view.Reset(p) // as for the next message
		}); n != 0 {
			t.Errorf("%s: %v allocations", typ, n)
		}
	}
}
