package exchange

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warrenmq/warren/frames"
)

// TestHeadersMatrix compares every value of the list with every other, as the two brokers did.
func TestHeadersMatrix(t *testing.T) {
	for version, o := range map[string]Options{"3.10.8": {NumbersByValue: true}, "4.3.6": {}} {
		t.Run(version, func(t *testing.T) {
			rows := readMatrix(t, "testdata/headers_matrix_"+version+".txt")
			if len(rows) != len(matrixValues) {
				t.Fatalf("%d rows in testdata, %d values", len(rows), len(matrixValues))
			}
			for _, b := range matrixValues {
				m := newMatcher(t, TypeHeaders, o).Bind(Binding[int]{Destination: 1, Arguments: kv("k", b.value)})
				hits, ok := rows[b.name]
				if !ok {
					t.Errorf("no row for %s", b.name)
				}
				for _, h := range matrixValues {
					want := slices.Contains(hits, h.name) || slices.Contains(hits, "*")
					if got := len(route(m, "", kv("k", h.value))) == 1; got != want {
						t.Errorf("argument %s, header %s: %v, want %v", b.name, h.name, got, want)
					}
				}
			}
		})
	}
}

func readMatrix(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, hits, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			t.Fatalf("%s: no tab in %q", path, line)
		}
		rows[name] = strings.Fields(hits)
	}
	return rows
}

func TestHeadersScenarios(t *testing.T) {
	for _, s := range headersScenarios {
		for _, v := range []struct {
			o    Options
			want bool
		}{{Options{NumbersByValue: true}, s.v3}, {Options{}, s.v4}} {
			m := newMatcher(t, TypeHeaders, v.o).Bind(Binding[int]{Destination: 1, Key: "any key", Arguments: s.args})
			if got := len(route(m, "another", s.headers)) == 1; got != v.want {
				t.Errorf("%s, %+v: %v, want %v", s.name, v.o, got, v.want)
			}
		}
	}
}

// TestHeadersManyHeaders puts the headers that count among so many others that the index leaves the stack, and once more
// than a pooled index may keep.
func TestHeadersManyHeaders(t *testing.T) {
	for _, o := range []Options{{NumbersByValue: true}, {}} {
		m := newMatcher(t, TypeHeaders, o)
		for i, args := range []frames.Table{kv("a", "1", "b", "2"), kv("x-match", "any", "a", "9", "b", "2"), kv("a", "1", "c", "3"), kv("h7", int64(7))} {
			m = m.Bind(Binding[int]{Destination: i, Arguments: args})
		}
		for _, n := range []int{inlineHeaders - 2, inlineHeaders - 1, 100, 3 * keptHeaders, 30} {
			headers := kv("a", "1")
			for i := range n {
				headers = append(headers, frames.Field{Key: fmt.Sprintf("h%d", i), Value: int32(i)})
			}
			headers = append(headers, frames.Field{Key: "b", Value: "2"})
			if got := route(m, "", headers); !slices.Equal(got, []int{0, 1, 3}) {
				t.Errorf("%+v, %d headers: %v, want 0 1 3", o, n, got)
			}
			if got := route(m, "", headers[1:]); !slices.Equal(got, []int{1, 3}) {
				t.Errorf("%+v, %d headers without a: %v, want 1 3", o, n, got)
			}
		}
	}
}

// TestHeadersIndexKeepsNothing looks into an index that was given back.
func TestHeadersIndexKeepsNothing(t *testing.T) {
	x := takeIndex(40)
	var headers frames.Table
	for i := range 40 {
		headers = append(headers, frames.Field{Key: fmt.Sprint(i), Value: "v"})
	}
	x.fill(headers.AppendContents(nil), rules{})
	giveIndex(x)
	for i, h := range x.entries {
		if h.key != nil || h.value.data != nil {
			t.Fatalf("entry %d still holds on to a message", i)
		}
	}
	if slices.ContainsFunc(x.slots, func(s uint32) bool { return s != 0 }) || x.used != 0 {
		t.Error("the index is not empty")
	}
}

// TestHeadersArgumentsAreCopied changes the arguments after Bind.
func TestHeadersArgumentsAreCopied(t *testing.T) {
	octets := []byte("v")
	args := kv("k", octets)
	m := newMatcher(t, TypeHeaders, Options{}).Bind(Binding[int]{Destination: 1, Arguments: args})
	octets[0] = 'w'
	args[0].Key = "l"
	if got := route(m, "", kv("k", "v")); len(got) != 1 {
		t.Error("the binding changed with the caller's arguments")
	}
}

func TestValidateBinding(t *testing.T) {
	for _, r := range refusedArguments {
		args := kv("a", "1", "x-match", r.value)
		err := ValidateBinding(TypeHeaders, "", args, Options{})
		if err == nil {
			t.Errorf("x-match %v: no error", r.value)
			continue
		}
		if err.Code != frames.PreconditionFailed || err.Text != r.text || err.Class != 0 || err.Method != 0 || err.Scope != frames.ScopeChannel {
			t.Errorf("x-match %v: %+v, want 406 %s", r.value, err, r.text)
		}
		for _, typ := range []string{TypeDirect, TypeFanout, TypeTopic, "x-other"} {
			if err := ValidateBinding(typ, "", args, Options{}); err != nil {
				t.Errorf("%s: %v, want nil", typ, err)
			}
		}
	}
	for _, args := range []frames.Table{nil, kv("a", int32(1)), kv("x-match", "all"), kv("x-match", "any"),
		kv("x-match", "all-with-x"), kv("x-match", "any-with-x"), kv("x-match", "any", "x-match", "bogus")} {
		if err := ValidateBinding(TypeHeaders, "", args, Options{}); err != nil {
			t.Errorf("%v: %v, want nil", args, err)
		}
	}
}

// naiveHeaders matches by the description of each broker's way: 3.10 walks through sorted arguments and sorted headers
// side by side and uses up one of each when the keys meet; 4.3 looks arguments up among headers of which the last counts.
// Values are compared with ==, so it is good for strings, nil and int32 only.
func naiveHeaders(o Options, args, headers frames.Table) bool {
	mode, _ := args.Get(xMatch)
	any := mode == "any" || mode == "any-with-x"
	withX := mode == "all-with-x" || mode == "any-with-x"
	rest := canonical(headers)
	for _, a := range canonical(args) {
		if a.Key == xMatch || !withX && strings.HasPrefix(a.Key, "x-") {
			continue
		}
		hit := false
		if o.NumbersByValue {
			for len(rest) > 0 && rest[0].Key < a.Key {
				rest = rest[1:]
			}
			if len(rest) > 0 && rest[0].Key == a.Key {
				hit = a.Value == nil || a.Value == rest[0].Value
				rest = rest[1:]
			}
		} else {
			for _, h := range headers {
				if h.Key == a.Key {
					hit = a.Value == nil || a.Value == h.Value
				}
			}
		}
		if hit == any {
			return any
		}
	}
	return !any
}
