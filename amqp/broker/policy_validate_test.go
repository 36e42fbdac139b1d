package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/warrenmq/warren/frames/compat"
)

// unlikeRabbitMQ are the patterns that PCRE takes and RE2 does not, and those whose fault has other words here.
var unlikeRabbitMQ = []string{
	"(?<=a)b", `(?<n>a)\k<n>`, "a{2000}", `(a)\1`, "a++", "(?>a)", "^(?!amq).*(x)(?=y)", `\Qa`, "(?#c)a", "a(?!b)",
	"[[:bad:]]", "a{3,1}", "(?P<n", "x{70000}", "(?z)", "[z-a]",
}

// TestPolicyTexts compares the verdict on a policy with what RabbitMQ 3.10.8 and 4.3.6 said of it. Each line of
// testdata/policies.jsonl is the body of a PUT and the reason of the 400 by version, "" for a success; a version that
// answered 500 is left out.
func TestPolicyTexts(t *testing.T) {
	file, err := os.ReadFile("testdata/policies.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range bytes.Lines(file) {
		var row struct {
			Kind     string         `json:"kind"`
			Document map[string]any `json:"document"`
			V3       *string        `json:"3"`
			V4       *string        `json:"4"`
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&row); err != nil {
			t.Fatal(err)
		}
		if pattern, _ := row.Document["pattern"].(string); slices.Contains(unlikeRabbitMQ, pattern) {
			continue
		}
		kind := UserPolicy
		if row.Kind == "operator-policies" {
			kind = OperatorPolicy
		}
		for p, want := range map[compat.Profile]*string{compat.V3: row.V3, compat.V4: row.V4} {
			if want == nil {
				continue
			}
			got := ""
			if _, err := ParsePolicy(p, kind, "p", row.Document); err != nil {
				var ve *ValidationError
				if !errors.As(err, &ve) {
					t.Fatalf("%s: %v", line, err)
				}
				got = ve.Text
			}
			if got != *want {
				t.Errorf("profile %v, %s, %v\n got %q\nwant %q", p, row.Kind, row.Document, got, *want)
			}
			checked++
		}
	}
	if checked < 1000 {
		t.Errorf("only %d answers were compared", checked)
	}
}

// TestPatternsOfPCREOnly: a pattern that only a backtracking matcher can follow is refused with a reason.
func TestPatternsOfPCREOnly(t *testing.T) {
	for _, pattern := range []string{"(?<=a)b", `(?<n>a)\k<n>`, "a{2000}", `(a)\1`, "a++", "(?>a)", "a(?!b)"} {
		_, err := ParsePolicy(compat.V4, UserPolicy, "p", map[string]any{"pattern": pattern, "definition": map[string]any{"max-length": 1}})
		var ve *ValidationError
		if !errors.As(err, &ve) {
			t.Errorf("pattern %q: %v", pattern, err)
		}
	}
}
