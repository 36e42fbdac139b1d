package broker

import (
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/frames"
)

// publish compares a route with the naive router's.
func (n *network) publish(c chooser) {
	x := of(c, "published to", "", "x0", "x1", "x2", "x3", "x4", "amq.topic")
	if x != "" && !n.isExchange(x) {
		return
	}
	headers := of(c, "headers", nil, table("a", "1"), table("b", "2"), table("a", "1", "b", "2", "c", int32(3)))
	keys := []string{of(c, "key", "", "a", "a.b", "q0", "q1")}
	sent := slices.Clone(headers)
	for _, header := range []string{"CC", "BCC"} {
		if c(header, 3) == 0 {
			key := of(c, "further key", "a", "q2", "q0")
			keys = append(keys, key)
			sent = append(sent, frames.Field{Key: header, Value: frames.Array{key, int32(1)}})
		}
	}
	var want []string
	n.reach(x, keys, headers, map[string]bool{}, &want)
	slices.Sort(want)
	want = slices.Compact(want)
	p := &Publication{Exchange: []byte(x), RoutingKey: []byte(keys[0]), Properties: properties(n.t, withHeaders(sent))}
	for range 2 { // the second may come from the router's last route
		got, err := n.sessions[0].route(p)
		if err != nil {
			n.t.Fatalf("publish to %q with %q: %v", x, keys, err)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			n.t.Fatalf("publish to %q with keys %q, headers %v (-naive +route):\n%s\nbindings %+v", x, keys, headers, diff, n.sortedBindings())
		}
		if p.Unroutable != (len(want) == 0) {
			n.t.Fatalf("unroutable: %v, queues %v", p.Unroutable, want)
		}
	}
}

// reach is the naive router: it looks at every binding.
func (n *network) reach(x string, keys []string, headers frames.Table, visited map[string]bool, queues *[]string) {
	if visited[x] {
		return
	}
	visited[x] = true
	if x == "" {
		for _, key := range keys {
			if _, ok := n.queues[key]; ok {
				*queues = append(*queues, key)
			}
		}
		return
	}
	found := false
	for _, b := range n.sortedBindings() {
		if b.source != x || !n.matches(b, keys, headers) {
			continue
		}
		found = true
		if b.toQueue {
			*queues = append(*queues, b.destination)
		} else {
			n.reach(b.destination, keys, headers, visited, queues)
		}
	}
	if ae := n.exchanges[x].alternate; !found && ae != "" && n.isExchange(ae) {
		n.reach(ae, keys, headers, visited, queues)
	}
}

func (n *network) matches(b modelBinding, keys []string, headers frames.Table) bool {
	switch n.typeOf(b.source) {
	case "fanout":
		return true
	case "headers":
		return headersMatch(modelArguments[b.args], headers)
	case "direct":
		return slices.Contains(keys, b.key)
	}
	for _, key := range keys {
		if wordsMatch(words(b.key), words(key)) {
			return true
		}
	}
	return false
}

func words(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// wordsMatch is the topic rule, spelled out.
func wordsMatch(pattern, key []string) bool {
	switch {
	case len(pattern) == 0:
		return len(key) == 0
	case pattern[0] == "#":
		return wordsMatch(pattern[1:], key) || len(key) > 0 && wordsMatch(pattern, key[1:])
	case len(key) == 0:
		return false
	}
	return (pattern[0] == "*" || pattern[0] == key[0]) && wordsMatch(pattern[1:], key[1:])
}

func headersMatch(args, headers frames.Table) bool {
	mode, _ := args.Get("x-match")
	for _, f := range args {
		if f.Key == "x-match" {
			continue
		}
		v, _ := headers.Get(f.Key)
		if (v == f.Value) == (mode == "any") {
			return mode == "any"
		}
	}
	return mode != "any"
}
