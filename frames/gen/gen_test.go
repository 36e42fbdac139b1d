package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The checked-in file is what the definition generates; if not, run "go generate ./frames".
func TestGeneratedFileIsCurrent(t *testing.T) {
	out := filepath.Join(t.TempDir(), "methods_gen.go")
	if err := run("../methods.txt", out); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../methods_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != string(want) {
		t.Error("methods_gen.go is not what methods.txt generates: run go generate ./frames")
	}
}

func TestParseErrors(t *testing.T) {
	cases := []struct{ text, want string }{
		{"60.40 basic.publish", "line 1: want an id, a name and a direction"},
		{"\n# comment\nx.40 basic.publish c", "line 3: parse the class id"},
		{"60.x basic.publish c", "line 1: parse the method id"},
		{"60 basic.publish c", "line 1: parse the method id"},
		{"60.70000 basic.publish c", "line 1: parse the method id"},
		{"60.40 publish c", `line 1: name "publish" is not class.method`},
		{"60.40 basic.publish b", `line 1: direction "b" of basic.publish is not c, s or cs`},
		{"60.40 basic.publish c exchange", `line 1: basic.publish: field "exchange" has no known type`},
		{"60.40 basic.publish c exchange:word", `line 1: basic.publish: field "exchange:word" has no known type`},
		{"60.40 a.b c\n60.41 a.b c", "line 2: a.b or its id is defined twice"},
		{"60.40 a.b c\n60.40 a.c c", "line 2: a.c or its id is defined twice"},
	}
	for _, c := range cases {
		_, err := parse(strings.NewReader(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

func TestParseMethod(t *testing.T) {
	methods, err := parse(strings.NewReader("60.40 basic.publish c* ticket:short mandatory? # comment"))
	if err != nil || len(methods) != 1 {
		t.Fatal(methods, err)
	}
	m := methods[0]
	if m.Class != 60 || m.Method != 40 || m.Name != "basic.publish" || !m.Client || m.Server || !m.Content {
		t.Errorf("%+v", m)
	}
	if len(m.Fields) != 2 || m.Fields[0] != (field{"ticket", "short"}) || m.Fields[1] != (field{"mandatory", "bit"}) {
		t.Errorf("fields %+v", m.Fields)
	}
}

func TestGoName(t *testing.T) {
	for in, want := range map[string]string{
		"basic.get-ok": "BasicGetOk", "cluster-id": "ClusterID", "no-wait": "NoWait", "type": "Type",
	} {
		if got := goName(in); got != want {
			t.Errorf("goName(%q) = %q, want %q", in, got, want)
		}
	}
}

// Nine bits in a row take two octets, and bits apart from each other one each.
func TestBitOctets(t *testing.T) {
	code, err := generate([]method{{Class: 1, Method: 2, Name: "a.b", Client: true, Fields: []field{
		{"a", "bit"}, {"b", "bit"}, {"c", "bit"}, {"d", "bit"}, {"e", "bit"}, {"f", "bit"}, {"g", "bit"}, {"h", "bit"},
		{"i", "bit"}, {"n", "octet"}, {"j", "bit"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"appendBits(dst, m.A, m.B, m.C, m.D, m.E, m.F, m.G, m.H)", "appendBits(dst, m.I)", "appendBits(dst, m.J)",
		"bits := r.octet()", "m.H = bits&128 != 0", "bits = r.octet()\n\tm.I = bits&1 != 0", "m.J = bits&1 != 0",
	} {
		if !strings.Contains(string(code), want) {
			t.Errorf("no %q in\n%s", want, code)
		}
	}
}

func TestRunErrors(t *testing.T) {
	dir := t.TempDir()
	if err := run(filepath.Join(dir, "none"), filepath.Join(dir, "out")); err == nil {
		t.Error("no definition, no error")
	}
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(bad, filepath.Join(dir, "out")); err == nil {
		t.Error("a bad definition, no error")
	}
	if err := run("../methods.txt", filepath.Join(dir, "no", "folder")); err == nil {
		t.Error("nowhere to write, no error")
	}
}
