package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/amqp/amqptest"
	"github.com/warrenmq/warren/persist"
)

var quiet = slog.New(slog.DiscardHandler)

// worker is a client of a broker on a data folder.
type worker struct {
	t  *testing.T
	b  *amqptest.Broker
	ch *amqp091.Channel
}

func work(t *testing.T, dir string) *worker {
	t.Helper()
	b, err := amqptest.Run(amqptest.DataDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp091.Dial(b.URI())
	if err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return &worker{t, b, ch}
}

func (w *worker) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *worker) declare(name string, args amqp091.Table) {
	w.t.Helper()
	_, err := w.ch.QueueDeclare(name, true, false, false, false, args)
	w.must(err)
}

func (w *worker) publish(exchange, key string, p amqp091.Publishing) {
	w.t.Helper()
	p.DeliveryMode = amqp091.Persistent
	c, err := w.ch.PublishWithDeferredConfirm(exchange, key, false, false, p)
	w.must(err)
	c.Wait()
}

// get takes a message that must be there.
func (w *worker) get(queue string) amqp091.Delivery {
	w.t.Helper()
	d, ok, err := w.ch.Get(queue, false)
	w.must(err)
	if !ok {
		w.t.Fatalf("queue %q is empty", queue)
	}
	return d
}

func (w *worker) stop() {
	w.t.Helper()
	w.must(w.b.Stop())
}

// filled is a data folder with everything a broker puts there.
func filled(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	w := work(t, dir)
	w.declare("plain", nil)
	w.declare("priority", amqp091.Table{"x-max-priority": int32(10)})
	w.declare("dead", amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "plain"})
	w.declare("näme of bytes", amqp091.Table{"x-max-length": int64(1000), "nested": amqp091.Table{"list": []any{int32(1), "two"}}})
	w.must(w.ch.ExchangeDeclare("all", "fanout", true, false, false, false, nil))
	for _, q := range []string{"plain", "priority", "näme of bytes"} {
		w.must(w.ch.QueueBind(q, "key", "all", false, amqp091.Table{"x": true}))
	}
	for i := range 40 {
		w.publish("", "priority", amqp091.Publishing{Priority: uint8(i % 11), Body: fmt.Append(nil, "priority ", i)})
	}
	for i := range 5 {
		w.publish("all", "key", amqp091.Publishing{Body: bytes.Repeat([]byte{byte(i), 0xff}, 5000), ContentType: "text/plain", AppId: "app"})
	}
	w.publish("", "plain", amqp091.Publishing{Expiration: "36000000", Headers: amqp091.Table{
		"int": int32(5), "long": int64(-6), "text": "s", "bytes": []byte{1, 2}, "list": []any{true, nil, 1.5, float32(2.5)},
		"table": amqp091.Table{"short": int16(7), "byte": int8(8)}, "decimal": amqp091.Decimal{Scale: 2, Value: 314}, "BCC": []any{"priority"},
	}})
	w.publish("", "plain", amqp091.Publishing{Body: make([]byte, 5<<20)}) // in parts
	w.publish("", "dead", amqp091.Publishing{Body: []byte("dies")})
	w.must(w.get("dead").Reject(false))
	w.publish("", "dead", amqp091.Publishing{Body: []byte("comes back")})
	w.must(w.get("dead").Nack(false, true))
	w.must(w.get("plain").Ack(false))
	w.declare("plain", nil) // the ack has been handled
	w.keepers()
	_, _, err := w.b.Broker().AddVHost("other", nil)
	w.must(err)
	w.stop()
	return dir
}

// streamed is how many messages the stream has.
const streamed = 300

// keepers fills what keeps messages in other ways: a stream, a quorum queue
// that counts returns, an exchange that delays.
func (w *worker) keepers() {
	w.t.Helper()
	w.declare("stream", amqp091.Table{"x-queue-type": "stream"})
	for i := range streamed {
		w.publish("", "stream", amqp091.Publishing{Body: fmt.Append(nil, "streamed ", i), Headers: amqp091.Table{"i": int32(i)}})
	}
	w.declare("quorum", amqp091.Table{"x-queue-type": "quorum"})
	w.publish("", "quorum", amqp091.Publishing{Body: []byte("twice")})
	for range 2 {
		w.must(w.get("quorum").Reject(true))
	}
	w.must(w.ch.ExchangeDeclare("later", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "fanout"}))
	w.publish("later", "", amqp091.Publishing{Body: []byte("in an hour"), Headers: amqp091.Table{"x-delay": int32(3_600_000)}})
}

// readStream reads the whole stream.
func (w *worker) readStream() (all []string) {
	w.t.Helper()
	w.must(w.ch.Qos(10, 0, false))
	deliveries, err := w.ch.Consume("stream", "", false, false, false, false, amqp091.Table{"x-stream-offset": "first"})
	w.must(err)
	for d := range deliveries {
		all = append(all, fmt.Sprintf("%s %v", d.Body, d.Headers))
		w.must(d.Ack(false))
		if len(all) == streamed {
			break
		}
	}
	return all
}

// checked runs Check and gives its output.
func checked(dir string) (string, error) {
	var out bytes.Buffer
	err := Check(dir, &out, quiet)
	return out.String(), err
}

func exported(t *testing.T, dir string) string {
	t.Helper()
	var out bytes.Buffer
	if err := Export(dir, "-", &out, quiet); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "export")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// drained is what consumers get of a folder's queues, in order.
func drained(t *testing.T, dir string) (all []string) {
	t.Helper()
	w := work(t, dir)
	defer w.stop()
	for _, q := range []string{"plain", "priority", "dead", "näme of bytes", "quorum"} {
		for {
			d, ok, err := w.ch.Get(q, true)
			w.must(err)
			if !ok {
				break
			}
			all = append(all, fmt.Sprintf("%s: %s %q %v %d %q %v %x", q, d.Exchange, d.RoutingKey, d.Redelivered, d.Priority, d.Expiration, d.Headers, d.Body[:min(40, len(d.Body))]))
		}
	}
	return append(all, w.readStream()...)
}

// TestRoundTrip: an import has all that was exported, exactly.
func TestRoundTrip(t *testing.T) {
	dir := filled(t)
	if out, err := checked(dir); err != nil || !strings.HasSuffix(out, "no problems\n") {
		t.Fatalf("%v: %s", err, out)
	}
	before := exported(t, dir)
	if strings.Contains(before, `"head"`) {
		t.Error("a message is not exported in words")
	}
	for _, part := range []string{`"chunk"`, `"returned":2`, `"shared":`, `"redelivered":true`, `"expiry":`} {
		if !strings.Contains(before, part) {
			t.Errorf("nothing in the export has %s", part)
		}
	}
	copied := filepath.Join(t.TempDir(), "new", "data")
	var out bytes.Buffer
	if err := Import(copied, writeFile(t, before), &out, quiet); err != nil {
		t.Fatal(err)
	}
	if out, err := checked(copied); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	after := exported(t, copied)
	if diff := cmp.Diff(tail(before), tail(after)); diff != "" {
		t.Errorf("exports (-first +again):\n%.3000s", diff)
	}
	one, other := size(t, dir), size(t, copied)
	if one.LiveBytes != other.LiveBytes || one.Messages != other.Messages {
		t.Errorf("live bytes %d, copied %d; messages %d, copied %d", one.LiveBytes, other.LiveBytes, one.Messages, other.Messages)
	}
	if diff := cmp.Diff(drained(t, dir), drained(t, copied)); diff != "" {
		t.Errorf("deliveries (-original +copy):\n%s", diff)
	}
	w := work(t, copied)
	w.declare("new", nil) // its id is no old one's
	w.publish("", "new", amqp091.Publishing{Body: []byte("new")})
	w.stop()
	if out, err := checked(copied); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// tail is an export without its header, whose next id may be higher.
func tail(export string) []string { return strings.Split(export, "\n")[1:] }

func size(t *testing.T, dir string) Report {
	t.Helper()
	r, err := Measure(dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMeasure: what fills the store.
func TestMeasure(t *testing.T) {
	r := size(t, filled(t))
	if r.Messages != 40+15+2+1+1+1-1+streamed+1+1 || !r.CleanStop || r.Definitions["queue"] != 6 || r.Definitions["vhost"] != 2 || r.Definitions["binding"] != 3 {
		t.Errorf("%+v", r)
	}
	if first := r.Queues[0]; first.Name != "plain" || first.VHost != "/" || first.Bytes < 5<<20 {
		t.Errorf("the largest queue is %+v", first)
	}
	if r.LiveBytes < 5<<20 || r.LiveBytes > r.BodyBytes || r.DiskBytes < r.BodyBytes || r.DeadBytes != r.BodyBytes-r.LiveBytes {
		t.Errorf("%+v", r)
	}
	var out bytes.Buffer
	if err := errors.Join(r.WriteText(&out), r.WriteJSON(&out)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`"plain"`, "queue", `"clean_stop":true`} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("the report does not say %s:\n%s", text, out.String())
		}
	}
}

// TestCheckFindsDefinitions: a definition that a broker could not load is a
// problem.
func TestCheckFindsDefinitions(t *testing.T) {
	dir := filled(t)
	s, err := persist.Open(persist.Options{Dir: dir, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s.Update([]persist.Definition{{Key: persist.Key{Kind: 'Q', VHost: "/", Name: "broken"}, Value: []byte(`{"name":5}`)}}, nil, nil, nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := checked(dir)
	if !errors.Is(err, ErrProblems) || !strings.Contains(out, `"broken"`) || !strings.Contains(out, "1 problems") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestBadImports: each is refused with file and line, and leaves nothing.
func TestBadImports(t *testing.T) {
	const (
		begin = `{"warren_export":{"format":1,"next_id":9}}` + "\n"
		vhost = `{"definition":{"kind":"V","vhost":"/","name":"","value":{"name":"/"}}}` + "\n"
		one   = `{"message":{"log":1,"seq":1,"priority":0,"content":{"exchange":"","routing_key":"q","expiration":-1,"priority":0,"persistent":true,"body":"aGk="}}}` + "\n"
		end   = `{"end":{"definitions":1,"messages":1}}` + "\n"
	)
	for name, c := range map[string]struct {
		text string
		line int
		says string
	}{
		"empty":             {"", 1, "cut short"},
		"no header":         {vhost + end, 1, "first line"},
		"second header":     {begin + begin, 2, "first line"},
		"newer":             {strings.Replace(begin, `"format":1`, `"format":2`, 1), 1, "format 2"},
		"garbage":           {begin + vhost + "garbage\n", 3, "invalid character"},
		"no end":            {begin + vhost + one, 4, "cut short"},
		"cut line":          {begin + vhost + one[:40], 3, "cut short"},
		"cut last line":     {begin + vhost + one + end[:len(end)-1], 4, "cut short"},
		"wrong count":       {begin + vhost + one + strings.Replace(one, `"seq":1`, `"seq":2`, 1) + end, 5, "should have"},
		"behind the end":    {begin + vhost + one + end + vhost, 5, "follows the end"},
		"unknown line":      {begin + `{"colour":1}` + "\n", 2, "colour"},
		"two in one":        {begin + strings.TrimSuffix(vhost, "\n") + "{}\n", 2, "more than one"},
		"empty object":      {begin + "{}\n", 2, "one of"},
		"late definition":   {begin + one + vhost, 3, "before messages"},
		"order":             {begin + vhost + one + one, 4, "out of order"},
		"no content":        {begin + vhost + `{"message":{"log":1,"seq":1,"priority":0}}` + "\n", 3, "no content"},
		"unknown shared":    {begin + vhost + `{"message":{"log":1,"seq":1,"priority":0,"shared":3}}` + "\n", 3, "share content 3"},
		"base64":            {begin + vhost + strings.Replace(one, "aGk=", "?", 1), 3, "base64"},
		"log":               {begin + vhost + strings.Replace(one, `"log":1`, `"log":0`, 1), 3, "no log"},
		"broken definition": {begin + strings.Replace(vhost, `{"name":"/"}`, `[]`, 1), 2, "array"},
		"kind":              {begin + strings.Replace(vhost, `"V"`, `"VV"`, 1), 2, "no kind"},
		"value and raw":     {begin + strings.Replace(vhost, `,"value"`, `,"raw":"","value"`, 1), 2, "either"},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, c.text)
			parent := t.TempDir()
			dir := filepath.Join(parent, "data")
			err := Import(dir, path, io.Discard, quiet)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s:%d: ", path, c.line)) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want line %d and %q", err, c.line, c.says)
			}
			if left, _ := os.ReadDir(parent); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
	t.Run("good", func(t *testing.T) {
		dir := t.TempDir()
		if err := Import(dir, writeFile(t, begin+vhost+one+end), io.Discard, quiet); err != nil {
			t.Fatal(err)
		}
		if got := exported(t, dir); tail(got)[0]+"\n" != vhost {
			t.Errorf("got %s", got)
		}
	})
}

// TestRefusedFolders: nothing is written over, and nothing else is taken for a
// store.
func TestRefusedFolders(t *testing.T) {
	dir := filled(t)
	export := writeFile(t, exported(t, dir))
	if err := Import(dir, export, io.Discard, quiet); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("import over a store: %v", err)
	}
	if _, err := checked(dir); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for name, err := range map[string]error{
		"check":  Check(missing, io.Discard, quiet),
		"export": Export(missing, filepath.Join(t.TempDir(), "out"), io.Discard, quiet),
		"stats":  func() error { _, err := Measure(missing, quiet); return err }(),
		"import": Import(t.TempDir(), missing, io.Discard, quiet),
	} {
		if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := work(t, dir)
	defer w.stop()
	if _, err := checked(dir); !errors.Is(err, persist.ErrInUse) {
		t.Errorf("check of a store in use: %v", err)
	}
}

// TestExportFile: the file is there when it is complete, and not before.
func TestExportFile(t *testing.T) {
	dir := filled(t)
	folder := t.TempDir()
	path := filepath.Join(folder, "export")
	if err := Export(dir, path, io.Discard, quiet); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != exported(t, dir) {
		t.Errorf("the file differs from what goes to stdout: %v", err)
	}
	if left, _ := os.ReadDir(folder); len(left) != 1 {
		t.Errorf("%v is left", left)
	}
}
