package management_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/amqp/management"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/persist"
)

// newAPI serves the API of a broker in memory.
func newAPI(t *testing.T, p compat.Profile) *httptest.Server {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	b, err := broker.Open(broker.Options{Profile: p, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(management.New(management.Options{Broker: b, Logger: quiet, Version: "test"}))
	t.Cleanup(func() {
		s.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// call makes a request as a user, "name:password".
func call(t *testing.T, s *httptest.Server, user, method, path, body string) (status int, answer string, header http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, s.URL+"/api"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if name, password, ok := strings.Cut(user, ":"); ok {
		r.SetBasicAuth(name, password)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(text)), resp.Header
}

// exchange is a request and what RabbitMQ 3.10.8 and 4.3.6 answer to it. An
// answer of "*" is not compared.
type exchange struct {
	method, path, body string
	status3, status4   int
	answer3, answer4   string // errors; answer4 "": the same
}

// The requests are made in order; the answers were seen on both versions.
var exchanges = []exchange{
	{"PUT", "/vhosts/v", `{}`, 201, 201, "", ""},
	{"PUT", "/vhosts/v", ``, 204, 204, "", ""},
	{"GET", "/vhosts/none", ``, 404, 404, `{"error":"Object Not Found","reason":"Not Found"}`, ""},
	{"PUT", "/users/u", `{"password":"x"}`, 400, 400, `{"error":"bad_request","reason":"tags_not_present"}`, ""},
	{"PUT", "/users/u", `{"password":"x","password_hash":"y","tags":""}`, 400, 400, `{"error":"bad_request","reason":"both_password_and_password_hash_are_provided"}`, ""},
	{"PUT", "/users/u", `{"password_hash":"!!!","tags":""}`, 400, 400, `{"error":"bad_request","reason":["not_base64","!!!"]}`, ""},
	{"PUT", "/users/u", `{"password":"x","tags":"management,policymaker"}`, 201, 201, "", ""},
	{"PUT", "/users/u", `{"password":"x","tags":["management"]}`, 204, 204, "", ""},
	{"PUT", "/users/u", `{bad`, 400, 400, `{"error":"bad_request","reason":"not_json"}`, ""},
	{"PUT", "/permissions/v/u", `{"configure":".*"}`, 400, 400, `{"error":"bad_request","reason":"[{key_missing,write},{key_missing,read}]"}`, ""},
	{"PUT", "/permissions/v/none", `{"configure":".*","write":".*","read":".*"}`, 400, 400, `{"error":"bad_request","reason":"vhost_or_user_not_found"}`, ""},
	{"PUT", "/permissions/v/u", `{"configure":".*","write":".*","read":".*"}`, 201, 201, "", ""},
	{"PUT", "/permissions/v/u", `{"configure":".*","write":".*","read":".*"}`, 204, 204, "", ""},
	{"PUT", "/exchanges/v/x", `{}`, 201, 201, "", ""},
	{"PUT", "/exchanges/v/x", `{"type":"topic"}`, 400, 400, `{"error":"bad_request","reason":"inequivalent arg 'type' for exchange 'x' in vhost 'v': received 'topic' but current is 'direct'"}`, ""},
	{"PUT", "/exchanges/v/y", `{"type":"bogus"}`, 400, 400, `{"error":"bad_request","reason":"unknown exchange type 'bogus'"}`, ""},
	{"PUT", "/exchanges/v/amq.new", `{}`, 401, 401, `{"error":"not_authorised","reason":"Access refused."}`, ""},
	{"DELETE", "/exchanges/v/amq.direct", ``, 401, 401, `{"error":"not_authorised","reason":"Access refused."}`, ""},
	{"GET", "/exchanges/v/amq.default", ``, 200, 200, "*", ""},
	{"PUT", "/queues/v/q", `{"durable":"zz"}`, 400, 400, `{"error":"bad_request","reason":["not_boolean","zz"]}`, ""},
	{"PUT", "/queues/v/q", `{"durable":"true","arguments":{"x-max-length":5}}`, 201, 201, "", ""},
	{"PUT", "/queues/v/q", `{"durable":true}`, 400, 400, `{"error":"bad_request","reason":"inequivalent arg 'x-max-length' for queue 'q' in vhost 'v': received none but current is the value '5' of type 'long'"}`, ""},
	{"PUT", "/queues/v/r", `{"arguments":{"x-message-ttl":"a"}}`, 400, 400, `{"error":"bad_request","reason":"invalid arg 'x-message-ttl' for queue 'r' in vhost 'v': \"expected integer, got longstr\""}`, ""},
	{"POST", "/bindings/v/e/x/q/none", `{"routing_key":"a"}`, 404, 404, `{"error":"not_found","reason":"no queue 'none' in vhost 'v'"}`, ""},
	{"POST", "/bindings/v/e/x/q/q", `{"routing_key":"a.b"}`, 201, 201, "", ""},
	{"GET", "/bindings/v/e/x/q/q/a.b", ``, 200, 200, "*", ""},
	{"GET", "/bindings/v/e/x/q/q/zzz", ``, 404, 404, `{"error":"Object Not Found","reason":"Not Found"}`, ""},
	{"DELETE", "/bindings/v/e/x/q/q/a.b", ``, 204, 204, "", ""},
	{"DELETE", "/bindings/v/e/x/q/q/a.b", ``, 404, 404, `{"error":"Object Not Found","reason":"Not Found"}`, ""},
	{"POST", "/exchanges/v/amq.default/publish", `{"properties":{},"routing_key":"q","payload":"hi","payload_encoding":"string"}`, 200, 200, `{"routed":true}`, ""},
	{"POST", "/exchanges/v/amq.default/publish", `{"properties":{},"routing_key":"zz","payload":"hi","payload_encoding":"string"}`, 200, 200, `{"routed":false}`, ""},
	{"POST", "/exchanges/v/none/publish", `{"properties":{},"routing_key":"q","payload":"hi","payload_encoding":"string"}`, 400, 404, `{"error":"bad_request","reason":"404 NOT_FOUND - no exchange 'none' in vhost 'v'"}`, `{"error":"not_found","reason":"exchange_not_found"}`},
	{"POST", "/exchanges/v/amq.default/publish", `{"properties":{},"routing_key":"q","payload":"hi","payload_encoding":"zz"}`, 400, 400, `{"error":"bad_request","reason":["unsupported_encoding","zz"]}`, ""},
	{"POST", "/exchanges/v/amq.default/publish", `{"properties":{"delivery_mode":"a"},"routing_key":"q","payload":"hi","payload_encoding":"string"}`, 400, 400, `{"error":"bad_request","reason":["not_int","delivery_mode"]}`, ""},
	{"POST", "/queues/v/q/get", `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`, 200, 200, `[{"exchange":"","message_count":0,"payload":"hi","payload_bytes":2,"payload_encoding":"string","properties":[],"redelivered":false,"routing_key":"q"}]`, ""},
	{"POST", "/queues/v/q/get", `{"count":"zz","ackmode":"ack_requeue_true","encoding":"auto"}`, 400, 400, `{"error":"bad_request","reason":["not_integer","zz"]}`, ""},
	{"POST", "/queues/v/q/get", `{"count":1,"encoding":"auto","requeue":true}`, 400, 400, `{"error":"bad_request","reason":"[{key_missing,ackmode}]"}`, ""},
	{"POST", "/queues/v/q/get", `{"count":1,"ackmode":"zz","encoding":"auto"}`, 500, 400, "*", `{"error":"bad_request","reason":"Invalid ackmode value: zz. Valid values are: ack_requeue_true, ack_requeue_false, reject_requeue_true, reject_requeue_false"}`},
	{"POST", "/queues/v/none/get", `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`, 404, 404, `{"error":"not_found","reason":"no queue 'none' in vhost 'v'"}`, `{"error":"not_found","reason":"queue_not_found"}`},
	{"POST", "/queues/v/q/get", `{"count":2,"ackmode":"ack_requeue_false","encoding":"base64"}`, 200, 200, `[{"exchange":"","message_count":0,"payload":"aGk=","payload_bytes":2,"payload_encoding":"base64","properties":[],"redelivered":true,"routing_key":"q"}]`, ""},
	{"GET", "/queues/v?page=0", ``, 400, 400, `{"error":"invalid_pagination_parameters","reason":"Invalid pagination parameters: page number 0, page size undefined"}`, ""},
	{"GET", "/queues/v?page=9", ``, 400, 400, `{"error":"page_out_of_range","reason":"Page out of range, page: 9 page size: 100, len: 1"}`, ""},
	{"GET", "/queues/v?page=1&page_size=1&columns=name", ``, 200, 200, `{"filtered_count":1,"item_count":1,"items":[{"name":"q"}],"page":1,"page_count":1,"page_size":1,"total_count":1}`, ""},
	{"GET", "/queues/v/q?columns=none", ``, 200, 200, `[]`, ""},
	{"GET", "/queues/v/q/contents", ``, 405, 405, "", ""},
	{"DELETE", "/queues/v/q/contents", ``, 204, 204, "", ""},
	{"GET", "/aliveness-test/v", ``, 200, 200, `{"status":"ok"}`, ""},
	{"GET", "/health/checks/node-is-quorum-critical", ``, 200, 200, `{"reason":"single node cluster","status":"ok"}`, ""},
	{"GET", "/health/checks/port-listener/1", ``, 503, 503, "*", ""},
	{"GET", "/health/checks/is-in-service", ``, 404, 200, `{"error":"Object Not Found","reason":"Not Found"}`, `{"status":"ok"}`},
	{"POST", "/definitions", `x`, 400, 400, `{"error":"bad_request","reason":"failed_to_parse_json"}`, ""},
	{"POST", "/definitions", `{"queues":[{"name":"a","vhost":"nope","durable":true,"auto_delete":false,"arguments":{}}]}`, 400, 400, `{"error":"bad_request","reason":["no_such_vhost","nope"]}`, `{"error":"bad_request","reason":"Please create virtual host \"nope\" prior to importing definitions."}`},
	{"POST", "/definitions", `{}`, 204, 204, "", ""},
	{"POST", "/users/bulk-delete", `{"users":["zz"]}`, 400, 204, `{"error":"bad_request","reason":["no_such_user","zz"]}`, ""},
	{"GET", "/queues/none", ``, 404, 404, `{"error":"Object Not Found","reason":"Not Found"}`, ""},
	{"GET", "/none", ``, 404, 404, `{"error":"Object Not Found","reason":"Not Found"}`, ""},
	{"DELETE", "/queues/v/q", ``, 204, 204, "", ""},
	{"DELETE", "/queues/v/q", ``, 404, 404, `{"error":"Object Not Found","reason":"Not Found"}`, ""},
	{"DELETE", "/users/u", ``, 204, 204, "", ""},
	{"DELETE", "/users/u", ``, 404, 404, `{"error":"Object Not Found","reason":"Not Found"}`, ""},
	{"DELETE", "/vhosts/v", ``, 204, 204, "", ""},
	{"DELETE", "/vhosts/v", ``, 404, 404, `{"error":"Object Not Found","reason":"Not Found"}`, ""},
}

// Behaviour 7.1 and 7.3.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, p := range []compat.Profile{compat.V3, compat.V4} {
		s := newAPI(t, p)
		for _, x := range exchanges {
			status, answer := x.status3, x.answer3
			if p == compat.V4 {
				status = x.status4
				if x.answer4 != "" {
					answer = x.answer4
				}
				if x.status4 == 204 {
					answer = ""
				}
			}
			gotStatus, got, _ := call(t, s, "guest:guest", x.method, x.path, x.body)
			if gotStatus != status || answer != "*" && got != answer {
				t.Errorf("profile %v: %s %s %s:\n got %d %s\nwant %d %s", p, x.method, x.path, x.body, gotStatus, got, status, answer)
			}
		}
	}
}

// Behaviour 7.1: who may do what.
func TestAccess(t *testing.T) {
	t.Parallel()
	for _, p := range []compat.Profile{compat.V3, compat.V4} {
		s := newAPI(t, p)
		for _, u := range []struct{ name, tags string }{{"none", ""}, {"manager", "management"}, {"monitor", "monitoring"}} {
			call(t, s, "guest:guest", "PUT", "/users/"+u.name, fmt.Sprintf(`{"password":"p","tags":%q}`, u.tags))
		}
		refused := `{"error":"not_authorised","reason":%q}`
		hidden, hiddenStatus := fmt.Sprintf(refused, "User not authorised to access virtual host"), 401
		wrong := `{"error":"not_authorized","reason":"Login failed"}`
		if p == compat.V4 {
			hidden, hiddenStatus = `{"error":"not_found","reason":"Not Found"}`, 404
			wrong = `{"error":"not_authorized","reason":"Not_Authorized"}`
		}
		for _, c := range []struct {
			user, path string
			status     int
			answer     string
		}{
			{"", "/overview", 401, ""},
			{"guest:wrong", "/overview", 401, wrong},
			{"none:p", "/overview", 401, fmt.Sprintf(refused, "Not management user")},
			{"manager:p", "/whoami", 200, "*"},
			{"manager:p", "/users", 401, fmt.Sprintf(refused, "Not administrator user")},
			{"manager:p", "/nodes", 401, fmt.Sprintf(refused, "Not monitor user")},
			{"monitor:p", "/nodes", 200, "*"},
			{"manager:p", "/queues/%2F", hiddenStatus, hidden},
			{"manager:p", "/vhosts", 200, "[]"},
			{"monitor:p", "/vhosts?columns=name", 200, `[{"name":"/"}]`},
		} {
			status, answer, header := call(t, s, c.user, "GET", c.path, "")
			if status != c.status || c.answer != "*" && answer != c.answer {
				t.Errorf("profile %v: %s as %q: got %d %s, want %d %s", p, c.path, c.user, status, answer, c.status, c.answer)
			}
			if c.user == "" && header.Get("WWW-Authenticate") == "" {
				t.Errorf("profile %v: no request for credentials", p)
			}
		}
	}
}

// What is exported and imported into a new broker is exported the same.
func TestDefinitionsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, p := range []compat.Profile{compat.V3, compat.V4} {
		roundTrip(t, newAPI(t, p), newAPI(t, p))
	}
}

func roundTrip(t *testing.T, from, to *httptest.Server) {
	t.Helper()
	for _, x := range [][3]string{
		{"PUT", "/vhosts/v", `{"description":"d","tags":"a,b","default_queue_type":"quorum"}`},
		{"PUT", "/users/u", `{"password":"p","tags":"monitoring"}`},
		{"PUT", "/user-limits/u/max-channels", `{"value":7}`},
		{"PUT", "/vhost-limits/v/max-queues", `{"value":9}`},
		{"PUT", "/policies/v/p", `{"pattern":"^q","apply-to":"queues","priority":1.5,"definition":{"max-length":5,"dead-letter-exchange":"x"}}`},
		{"PUT", "/operator-policies/v/o", `{"pattern":"^q","definition":{"message-ttl":60000}}`},
		{"PUT", "/global-parameters/g", `{"value":{"a":[1,"b"]}}`},
		{"PUT", "/permissions/v/u", `{"configure":"a","write":"b","read":"c"}`},
		{"PUT", "/exchanges/v/x", `{"type":"headers","durable":true,"arguments":{"alternate-exchange":"amq.fanout"}}`},
		{"PUT", "/topic-permissions/v/u", `{"exchange":"x","write":"b","read":"c"}`},
		{"PUT", "/queues/v/q", `{"durable":true,"arguments":{"x-max-length":5}}`},
		{"POST", "/bindings/v/e/x/q/q", `{"routing_key":"k","arguments":{"x-match":"any","a":1}}`},
		{"POST", "/bindings/v/e/amq.topic/e/x", `{"routing_key":"#"}`},
	} {
		if status, answer, _ := call(t, from, "guest:guest", x[0], x[1], x[2]); status/100 != 2 {
			t.Fatalf("%s %s: %d %s", x[0], x[1], status, answer)
		}
	}
	_, exported, _ := call(t, from, "guest:guest", "GET", "/definitions", "")
	if status, answer, _ := call(t, to, "guest:guest", "POST", "/definitions", exported); status != 204 {
		t.Fatalf("import: %d %s", status, answer)
	}
	_, again, _ := call(t, to, "guest:guest", "GET", "/definitions", "")
	var a, b any
	if err := json.Unmarshal([]byte(exported), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(again), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("definitions differ after export and import:\n%s", diff)
	}
}

// A definition that cannot be read leaves nothing of the others.
func TestImportIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s := newAPI(t, compat.V4)
	status, answer, _ := call(t, s, "guest:guest", "POST", "/definitions",
		`{"vhosts":[{"name":"v"}],"queues":[{"name":"q","vhost":"v","durable":true},{"name":"r","vhost":"v","durable":"maybe"}]}`)
	if status != 400 || !strings.Contains(answer, "maybe") {
		t.Errorf("got %d %s", status, answer)
	}
	for _, last := range []string{
		`"policies":[{"vhost":"v","name":"p","pattern":"(","definition":{"max-length":1}}]`,
		`"parameters":[{"vhost":"v","component":"vhost-limits","name":"limits","value":{"zz":1}}]`,
		`"users":[{"name":"u","tags":"","limits":{"zz":1}}]`,
		`"vhosts":[{"name":"v"},{"name":"w","default_queue_type":"bogus"}]`,
	} {
		if status, answer, _ := call(t, s, "guest:guest", "POST", "/definitions", `{"vhosts":[{"name":"v"}],`+last+`}`); status != 400 {
			t.Errorf("import of %s: got %d %s", last, status, answer)
		}
	}
	if status, _, _ := call(t, s, "guest:guest", "GET", "/vhosts/v", ""); status != 404 {
		t.Errorf("the virtual host of a refused import is there: %d", status)
	}
}

// Messages that are on disk are got as those in memory are, and ended on disk.
func TestGetFromDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve := func() (*httptest.Server, *broker.Broker) {
		store, err := persist.Open(persist.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		b, err := broker.Open(broker.Options{Store: store, BodyBudget: 1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return httptest.NewServer(management.New(management.Options{Broker: b, Version: "test"})), b
	}
	stop := func(s *httptest.Server, b *broker.Broker) {
		s.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	const messages = 40
	s, b := serve()
	call(t, s, "guest:guest", "PUT", "/queues/%2F/q", `{"durable":true}`)
	for i := range messages {
		body := fmt.Sprintf(`{"properties":{"delivery_mode":2},"routing_key":"q","payload":"%d","payload_encoding":"string"}`, i)
		if status, answer, _ := call(t, s, "guest:guest", "POST", "/exchanges/%2F/amq.default/publish", body); status != 200 {
			t.Fatalf("publish: %d %s", status, answer)
		}
	}
	stop(s, b)
	for _, r := range []struct {
		mode    string
		take, n int // asked for, and left in the queue
	}{{"ack_requeue_true", messages, messages}, {"ack_requeue_false", 10, messages - 10}, {"reject_requeue_false", 100, 0}} {
		s, b := serve() // nothing of the queue is in memory now
		status, answer, _ := call(t, s, "guest:guest", "POST", "/queues/%2F/q/get", fmt.Sprintf(`{"count":%d,"ackmode":%q,"encoding":"auto"}`, r.take, r.mode))
		var got []struct{ Payload string }
		if err := json.Unmarshal([]byte(answer), &got); status != 200 || err != nil {
			t.Fatalf("%s: %d %s", r.mode, status, answer)
		}
		for i, m := range got {
			first := messages - len(got)
			if r.take < messages {
				first = 0
			}
			if m.Payload != fmt.Sprint(first+i) {
				t.Fatalf("%s: message %d is %s", r.mode, i, m.Payload)
			}
		}
		v, _ := b.VHost("/")
		q, _ := v.Queue("q")
		if n := q.Counts(); n.Ready != r.n || n.Unacked != 0 {
			t.Errorf("%s: %+v, want %d ready", r.mode, n, r.n)
		}
		stop(s, b)
	}
}
