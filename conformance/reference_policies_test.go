package conformance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/amqp/amqptest"
	"github.com/warrenmq/warren/amqp/broker"
)

// administered is a broker as the examples of the reference have it: with short forms for policies.
type administered struct {
	*broker.Broker
	t   *testing.T
	uri string
}

func (a administered) Put(name, pattern string, definition map[string]any) {
	a.put(broker.UserPolicy, name, pattern, definition)
}

func (a administered) PutOperator(name, pattern string, definition map[string]any) {
	a.put(broker.OperatorPolicy, name, pattern, definition)
}

func (a administered) put(kind broker.PolicyKind, name, pattern string, definition map[string]any) {
	a.t.Helper()
	if _, _, err := a.PutPolicy("/", kind, broker.Policy{Name: name, Pattern: pattern, Definition: definition}, nil); err != nil {
		a.t.Fatal(err)
	}
}

// policyPages are the pages of docs/reference whose examples are the functions below, one a block of Go.
var policyPages = map[string][]func(*testing.T, administered, *amqp.Channel){
	"policies.md":                     {examplePolicy, exampleOperatorPolicy, examplePolicyKeys},
	"limits.md":                       {exampleQueueLimit, exampleConnectionLimits},
	"default-dead-letter-exchange.md": {exampleDefaultDeadLetters},
}

// TestPolicyReference runs the examples in both profiles. The blocks of Go of a page must stand in this file as they
// are.
func TestPolicyReference(t *testing.T) {
	source, err := os.ReadFile("reference_policies_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for page, examples := range policyPages {
		text, err := os.ReadFile(filepath.Join("../docs/reference", page))
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(text), "```go\n")[1:]
		if len(blocks) != len(examples) {
			t.Errorf("%s has %d blocks of Go, %d examples belong to it", page, len(blocks), len(examples))
		}
		for _, b := range blocks {
			b, _, _ = strings.Cut(b, "```\n")
			b = strings.TrimSuffix("\t"+strings.ReplaceAll(strings.ReplaceAll(b, "\n", "\n\t"), "\n\t\n", "\n\n"), "\t")
			if !strings.Contains(string(source), b) {
				t.Errorf("%s has an example that is not run:\n%s", page, b)
			}
		}
		for i, example := range examples {
			for _, profile := range []int{Profile3, Profile4} {
				t.Run(strings.Join([]string{page, string(rune('1' + i)), string(rune('0' + profile))}, "/"), func(t *testing.T) {
					b := amqptest.Start(t, amqptest.Compat(profile))
					conn, ch := dial(t, b.URI())
					defer conn.Close()
					example(t, administered{b.Broker(), t, b.URI()}, ch)
				})
			}
		}
	}
}

func dial(t *testing.T, uri string) (*amqp.Connection, *amqp.Channel) {
	t.Helper()
	conn, err := amqp.Dial(uri)
	if err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return conn, ch
}

// succeed ends an example that went wrong.
func succeed(err error) {
	if err != nil {
		panic(err)
	}
}

func declare(ch *amqp.Channel, queue string) {
	_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
	succeed(err)
}

func exchange(ch *amqp.Channel, name, kind string) {
	succeed(ch.ExchangeDeclare(name, kind, true, false, false, false, nil))
}

func bind(ch *amqp.Channel, queue, exchange string) {
	succeed(ch.QueueBind(queue, "", exchange, false, nil))
}

func send(ch *amqp.Channel, queue string, bodies ...string) { sendTo(ch, "", queue, bodies...) }

func sendTo(ch *amqp.Channel, exchange, key string, bodies ...string) {
	for _, b := range bodies {
		succeed(ch.PublishWithContext(context.Background(), exchange, key, false, false, amqp.Publishing{Body: []byte(b)}))
	}
}

// receive takes these messages from a queue, which has no others then.
func receive(t *testing.T, ch *amqp.Channel, queue string, bodies ...string) {
	t.Helper()
	for _, want := range bodies {
		var got amqp.Delivery
		for end := time.Now().Add(patience); got.Acknowledger == nil; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s does not come to %s", want, queue)
			}
			d, ok, err := ch.Get(queue, true)
			succeed(err)
			if ok {
				got = d
			}
		}
		if string(got.Body) != want {
			t.Fatalf("%s has %q, want %q", queue, got.Body, want)
		}
	}
	if d, ok, err := ch.Get(queue, true); ok || err != nil {
		t.Fatalf("%s has %q still, or %v", queue, d.Body, err)
	}
}

func reject(t *testing.T, ch *amqp.Channel, queue string) {
	t.Helper()
	d, ok, err := ch.Get(queue, false)
	if !ok || err != nil {
		t.Fatalf("nothing to reject in %s: %v", queue, err)
	}
	succeed(d.Reject(false))
}

// gone waits until a queue is not there any more, without using it.
func gone(t *testing.T, ch *amqp.Channel, queue string) {
	t.Helper()
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		succeed(ch.PublishWithContext(context.Background(), "", queue, true, false, amqp.Publishing{}))
		select {
		case <-returned:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatalf("%s is still there", queue)
}

func refused(t *testing.T, ch *amqp.Channel, queue, text string) {
	t.Helper()
	_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
	if e, ok := err.(*amqp.Error); !ok || e.Code != amqp.PreconditionFailed || !strings.HasSuffix(e.Reason, text) {
		t.Fatalf("declare %s: %v, want %s", queue, err, text)
	}
}

func cannotConnect(t *testing.T, b administered) {
	t.Helper()
	if conn, err := amqp.Dial(b.uri); err == nil {
		conn.Close()
		t.Fatal("one more connection opened")
	}
}

func cannotOpenChannel(t *testing.T, b administered) {
	t.Helper()
	conn, err := amqp.Dial(b.uri)
	succeed(err)
	defer conn.Close()
	if _, err := conn.Channel(); err == nil {
		t.Fatal("one more channel opened")
	}
}

func examplePolicy(t *testing.T, b administered, ch *amqp.Channel) {
	b.PutPolicy("/", broker.UserPolicy, broker.Policy{
		Name: "short", Pattern: "^orders\\.", ApplyTo: broker.ApplyToQueues, Priority: 1,
		Definition: map[string]any{"max-length": 2, "message-ttl": 60_000},
	}, nil)
	declare(ch, "orders.eu")
	send(ch, "orders.eu", "a", "b", "c")
	receive(t, ch, "orders.eu", "b", "c")
}

func exampleOperatorPolicy(t *testing.T, b administered, ch *amqp.Channel) {
	b.PutOperator("orders", "^orders", map[string]any{"max-length": 1})
	b.Put("long", "^orders", map[string]any{"max-length": 100})
	declare(ch, "orders")
	send(ch, "orders", "a", "b", "c")
	receive(t, ch, "orders", "c")
}

func examplePolicyKeys(t *testing.T, b administered, ch *amqp.Channel) {
	declare(ch, "q")
	declare(ch, "dead")
	b.Put("p", "^q$", map[string]any{"dead-letter-exchange": "", "dead-letter-routing-key": "dead", "max-length-bytes": 3})
	send(ch, "q", "aa", "bb")
	receive(t, ch, "dead", "aa")

	b.Put("p", "^q$", map[string]any{"overflow": "reject-publish", "max-length": 1})
	send(ch, "q", "refused")
	receive(t, ch, "q", "bb")

	b.Put("p", "^q$", map[string]any{"expires": 1})
	gone(t, ch, "q")

	b.Put("p", "^amq\\.direct$", map[string]any{"alternate-exchange": "amq.fanout"})
	bind(ch, "dead", "amq.fanout")
	sendTo(ch, "amq.direct", "nobody", "unroutable")
	receive(t, ch, "dead", "unroutable")
}

func exampleQueueLimit(t *testing.T, b administered, ch *amqp.Channel) {
	b.SetVHostLimit("/", "max-queues", 1, nil)
	declare(ch, "q")
	refused(t, ch, "two", "PRECONDITION_FAILED - cannot declare queue 'two': queue limit in vhost '/' (1) is reached")
}

func exampleConnectionLimits(t *testing.T, b administered, _ *amqp.Channel) {
	b.SetVHostLimit("/", "max-connections", 1, nil)
	cannotConnect(t, b)
	b.SetVHostLimit("/", "max-connections", -1, nil)
	b.SetUserLimit("guest", "max-connections", 1, nil)
	cannotConnect(t, b)
	b.ClearUserLimit("guest", "max-connections", nil)
	b.SetUserLimit("guest", "max-channels", 1, nil)
	cannotOpenChannel(t, b)
}

func exampleDefaultDeadLetters(t *testing.T, b administered, ch *amqp.Channel) {
	exchange(ch, "dead-messages", "fanout")
	declare(ch, "morgue")
	bind(ch, "morgue", "dead-messages")
	name := "dead-messages"
	b.PutVHost("/", broker.VHostSettings{DefaultDeadLetterExchange: &name}, nil)

	declare(ch, "q")
	send(ch, "q", "bad")
	reject(t, ch, "q")
	receive(t, ch, "morgue", "bad")
}
