package conformance

import (
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The examples of docs/reference/selectors.md, run by TestReferenceExamples.

func exampleSelectorOnBinding(t *testing.T, _ *amqp.Connection, ch *amqp.Channel) {
	_, err := ch.QueueDeclare("urgent", false, false, false, false, nil)
	check(err)
	check(ch.ExchangeDeclare("orders", "topic", false, false, false, false, nil))
	check(ch.QueueBind("urgent", "order.*", "orders", false, amqp.Table{
		"x-filter-jms-selector": "JMSPriority > 6 OR customer IN ('hospital', 'fire brigade')",
	}))
	for _, p := range []amqp.Publishing{
		{Body: []byte("no")}, {Body: []byte("1"), Priority: 7}, {Body: []byte("no"), Headers: amqp.Table{"customer": "school"}},
		{Body: []byte("2"), Headers: amqp.Table{"customer": "hospital"}},
	} {
		check(ch.Publish("orders", "order.new", false, false, p))
	}
	for _, want := range []string{"1", "2"} {
		if m, ok, err := ch.Get("urgent", true); !ok || err != nil || string(m.Body) != want {
			t.Errorf("got %q, %v, %v, want %s", m.Body, ok, err, want)
		}
	}
	if _, ok, _ := ch.Get("urgent", true); ok {
		t.Error("more than what is urgent was routed")
	}
}

func exampleSelectorOnConsumer(t *testing.T, _ *amqp.Connection, ch *amqp.Channel) {
	_, err := ch.QueueDeclare("parcels", false, false, false, false, nil)
	check(err)
	weights, err := ch.Consume("parcels", "", false, false, false, false, amqp.Table{
		"x-filter-jms-selector": "weight BETWEEN 10 AND 20 AND NOT fragile",
	})
	check(err)
	for _, p := range []struct {
		weight  int32
		fragile bool
	}{{5, false}, {10, false}, {15, true}, {20, false}, {21, false}} {
		check(ch.Publish("", "parcels", false, false, amqp.Publishing{Headers: amqp.Table{"weight": p.weight, "fragile": p.fragile}}))
	}
	var got []any
	for range 2 {
		m := <-weights
		got = append(got, m.Headers["weight"])
		check(m.Ack(false))
	}
	if !slices.Equal(got, []any{int32(10), int32(20)}) {
		t.Errorf("delivered %v, want 10 and 20", got)
	}
	if q, err := ch.QueueInspect("parcels"); err != nil || q.Messages != 3 {
		t.Errorf("%d wait, %v, want 3", q.Messages, err)
	}
}
