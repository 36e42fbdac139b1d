package management_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/frames/compat"
)

// seen is a request of testdata/outcomes.txt and what was answered to it.
type seen struct {
	line           int
	method, path   string
	user, body     string
	status, answer [2]string // of 3.10.8 and of 4.3.6
}

// readSeen reads the file. A request is "METHOD path [user:password]", its
// body follows after ">", what both answered after "=", else what each did
// after 3 and 4.
func readSeen(t *testing.T) (all []seen) {
	t.Helper()
	text, err := os.ReadFile("testdata/outcomes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if !strings.HasPrefix(line, "  ") {
			f := strings.Fields(line)
			s := seen{line: i + 1, method: f[0], path: f[1], user: "guest:guest"}
			if len(f) == 3 {
				s.user = f[2]
			}
			all = append(all, s)
			continue
		}
		s := &all[len(all)-1]
		what, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if what == ">" {
			s.body = rest
			continue
		}
		status, answer, _ := strings.Cut(rest, " ")
		for k, version := range []string{"3", "4"} {
			if what == "=" || what == version {
				s.status[k], s.answer[k] = status, answer
			}
		}
	}
	return all
}

// intended are the requests whose answer is not RabbitMQ's on purpose, with
// the status that it has here. Where RabbitMQ fails, with 500, any refusal is
// right.
var intended = map[string]string{
	`PUT /vhosts/m2 {"description":5}`:                                              "400", // kept by RabbitMQ, though it is no text
	`DELETE /vhost-limits/none/max-queues `:                                         "404",
	`PUT /permissions/m2/m2u {"configure":"(","write":".*","read":".*"}`:            "400", // texts as lists of numbers
	`PUT /topic-permissions/m2/m2u {"exchange":"amq.topic","write":"(","read":"b"}`: "400",
	`PUT /exchanges/m2/x {"type":5}`:                                                "400", // 4.3.6 shows its stack
	`GET /queues/m2/none/bindings `:                                                 "404", // RabbitMQ makes up a binding
	`DELETE /parameters/vhost-limits/m2/limits `:                                    "404", // RabbitMQ keeps limits of nothing when the last is cleared
	`DELETE /user-limits/none/zz `:                                                  "404",
}

// TestSeenOutcomes makes the requests that both RabbitMQs were asked, in their
// order, and compares the answers: behaviour 7.1 to 7.3.
func TestSeenOutcomes(t *testing.T) {
	t.Parallel()
	all := readSeen(t)
	if len(all) < 300 {
		t.Fatalf("only %d requests", len(all))
	}
	for k, p := range []compat.Profile{compat.V3, compat.V4} {
		s := newAPI(t, p)
		for _, x := range all {
			if diff := x.differs(t, s, k); diff != "" {
				t.Errorf("profile %v, line %d: %s %s %s as %s: %s", p, x.line, x.method, x.path, x.body, x.user, diff)
			}
		}
	}
}

func (x *seen) differs(t *testing.T, s *httptest.Server, k int) string {
	t.Helper()
	status, answer, _ := call(t, s, x.user, x.method, x.path, x.body)
	got := fmt.Sprint(status)
	if want, ok := intended[x.method+" "+x.path+" "+x.body]; ok {
		return cmp.Diff(want, got)
	}
	if x.status[k] == "500" {
		if status < 400 || status >= 500 {
			return "status " + got + " where RabbitMQ fails"
		}
		return ""
	}
	if got != x.status[k] {
		return fmt.Sprintf("got %s %s, want %s %s", got, answer, x.status[k], x.answer[k])
	}
	return cmp.Diff(decoded(t, x.answer[k]), decoded(t, answer))
}

// argumentsHash is the end of a binding's properties_key, a hash of its
// arguments that is each broker's own.
var argumentsHash = regexp.MustCompile(`~[A-Za-z0-9_-]{5,}"`)

// decoded is an answer without the order of its keys.
func decoded(t *testing.T, answer string) (v any) {
	t.Helper()
	if answer == "" {
		return nil
	}
	answer = argumentsHash.ReplaceAllString(answer, `~HASH"`)
	if err := json.Unmarshal([]byte(answer), &v); err != nil {
		t.Errorf("answer %q is not JSON: %v", answer, err)
	}
	return v
}
