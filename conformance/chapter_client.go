package conformance

import (
	"context"
	"fmt"
	"net/url"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// dialClient connects with the client library that most Go programs use; here a real client's habits count, not
// single frames.
func (t *T) dialClient() *amqp.Channel {
	address := url.URL{Scheme: "amqp", User: url.UserPassword(t.User, t.Password), Host: t.Addr}
	conn, err := amqp.DialConfig(address.String(), amqp.Config{Vhost: t.VHost, Heartbeat: 10 * time.Second, Locale: "en_US"})
	t.Must(err)
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	t.Must(err)
	return ch
}

func clientCases() []Case {
	const source = "amqp091-go"
	return []Case{
		{ID: "client/publish-consume", Title: "a client library publishes with confirms, consumes and acknowledges a thousand messages", Source: source, Class: Core,
			Run: publishConsume},
		{ID: "client/headers", Title: "a client library's headers come back as it knows them", Source: source, Class: Core, Run: clientHeaders},
		{ID: "client/error-and-on", Title: "a client library survives a channel error", Source: source, Class: Core, Run: clientError},
	}
}

func publishConsume(t *T) {
	const n = 1000
	ch := t.dialClient()
	q, err := ch.QueueDeclare(t.Q, false, true, true, false, nil)
	t.Must(err)
	t.Must(ch.Confirm(false))
	t.Must(ch.Qos(50, 0, false))
	deliveries, err := ch.Consume(q.Name, "", false, false, false, false, nil)
	t.Must(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var confirms []*amqp.DeferredConfirmation
	for i := range n {
		c, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", q.Name, true, false, amqp.Publishing{MessageId: fmt.Sprint(i)})
		t.Must(err)
		confirms = append(confirms, c)
	}
	for i := range n {
		select {
		case d := <-deliveries:
			t.Equal("message id", d.MessageId, fmt.Sprint(i))
			t.Must(d.Ack(i%10 == 0))
		case <-ctx.Done():
			t.Fatalf("%d deliveries of %d in time", i, n)
		}
	}
	for i, c := range confirms {
		if acked, err := c.WaitContext(ctx); err != nil || !acked {
			t.Fatalf("confirm %d: %v, %v", i, acked, err)
		}
	}
}

func clientHeaders(t *T) {
	ch := t.dialClient()
	q, err := ch.QueueDeclare(t.Q, false, true, true, false, nil)
	t.Must(err)
	sent := amqp.Table{"bool": true, "i16": int16(-2), "i32": int32(-3), "i64": int64(-4), "f32": float32(1.5), "f64": 2.5,
		"s": "text", "bytes": []byte{1, 2}, "time": time.Unix(1700000000, 0), "void": nil, "byte": byte(9), "i8": int8(-1), "decimal": amqp.Decimal{Scale: 2, Value: 314},
		"table": amqp.Table{"k": "v"}, "array": []any{int32(1), "two"}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	t.Must(ch.PublishWithContext(ctx, "", q.Name, false, false, amqp.Publishing{Headers: sent, Body: []byte("body")}))
	d, ok, err := ch.Get(q.Name, true)
	t.Must(err)
	if !ok {
		t.Fatalf("the queue is empty")
	}
	t.Equal("headers", d.Headers, sent)
}

func clientError(t *T) {
	ch := t.dialClient()
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	if _, err := ch.QueueDeclarePassive(t.Q, false, false, false, false, nil); err == nil {
		t.Fatalf("passive declare of a missing queue succeeded")
	}
	select {
	case e := <-closed:
		t.Equal("code", e.Code, 404)
		t.Equal("reason", e.Reason, t.Text("NOT_FOUND - no {q}"))
	case <-time.After(patience):
		t.Fatalf("the client was not told of the close")
	}
	again := t.dialClient()
	_, err := again.QueueDeclare(t.Q, false, true, true, false, nil)
	t.Must(err)
}
