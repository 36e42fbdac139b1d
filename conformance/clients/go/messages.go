package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// publish sends one persistent message by way of the default exchange, waits for
// its confirm and hands the body to then, if given.
func (r *run) publish(key string, body []byte, then func([]byte) error) error {
	if err := r.publishTo("", key, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}, false); err != nil {
		return err
	}
	if then == nil {
		return nil
	}
	return then(body)
}

// publishTo publishes and waits for the broker's ack.
func (r *run) publishTo(exchange, key string, msg amqp.Publishing, mandatory bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	confirm, err := r.ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, false, msg)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return waitAck(ctx, confirm)
}

func waitAck(ctx context.Context, confirm *amqp.DeferredConfirmation) error {
	acked, err := confirm.WaitContext(ctx)
	if err != nil {
		return fmt.Errorf("wait for the confirm: %w", err)
	}
	if !acked {
		return errors.New("the broker nacked the message")
	}
	return nil
}

// getBack takes the only message of the queue and compares its body.
func (r *run) getBack(body []byte) error {
	d, ok, err := r.ch.Get(r.queue, true)
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if !ok {
		return errors.New("get found no message")
	}
	if !bytes.Equal(d.Body, body) {
		return fmt.Errorf("got a body of %d bytes that differs from the %d sent", len(d.Body), len(body))
	}
	if d.MessageCount != 0 {
		return fmt.Errorf("get-ok says %d more messages, want none", d.MessageCount)
	}
	return nil
}

// publishConfirm has a hundred messages outstanding before it waits for the
// confirms; one more that no binding matches is confirmed too.
func (r *run) publishConfirm() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var confirms []*amqp.DeferredConfirmation
	for i := range 101 {
		key := fmt.Sprintf("order.%d.created", i)
		if i == 100 {
			key = "order.100.paid"
		}
		c, err := r.ch.PublishWithDeferredConfirmWithContext(ctx, r.exchange, key, false, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: fmt.Appendf(nil, "order %d", i)})
		if err != nil {
			return fmt.Errorf("publish %d: %w", i, err)
		}
		confirms = append(confirms, c)
	}
	for i, c := range confirms {
		if err := waitAck(ctx, c); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return r.wantDepth(100)
}

// next takes one delivery.
func next(deliveries <-chan amqp.Delivery) (amqp.Delivery, error) {
	select {
	case d, ok := <-deliveries:
		if !ok {
			return d, errors.New("the consumer ended")
		}
		return d, nil
	case <-time.After(patience):
		return amqp.Delivery{}, fmt.Errorf("no delivery in %v", patience)
	}
}

// consumeAck takes the hundred messages in order, ten ahead of the acks at most.
func (r *run) consumeAck() error {
	if err := r.ch.Qos(10, 0, false); err != nil {
		return fmt.Errorf("qos: %w", err)
	}
	deliveries, err := r.ch.Consume(r.queue, "acker", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	for i := range 100 {
		d, err := next(deliveries)
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("order %d", i); string(d.Body) != want || d.Redelivered || d.Exchange != r.exchange {
			return fmt.Errorf("delivery %d is %q, redelivered %v, of %q", i, d.Body, d.Redelivered, d.Exchange)
		}
		if i%10 == 9 { // the full window at once
			if err := d.Ack(true); err != nil {
				return fmt.Errorf("ack: %w", err)
			}
		}
	}
	if err := r.ch.Cancel("acker", false); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return r.wantDepth(0)
}

// nackRequeue sends one message back, one away, and keeps one.
func (r *run) nackRequeue() error {
	for _, body := range []string{"back", "away", "kept"} {
		if err := r.publish(r.queue, []byte(body), nil); err != nil {
			return err
		}
	}
	if err := r.ch.Qos(1, 0, false); err != nil {
		return fmt.Errorf("qos: %w", err)
	}
	deliveries, err := r.ch.Consume(r.queue, "nacker", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	for _, want := range []struct {
		body        string
		redelivered bool
		settle      func(amqp.Delivery) error
	}{
		{"back", false, func(d amqp.Delivery) error { return d.Nack(false, true) }},
		{"back", true, func(d amqp.Delivery) error { return d.Ack(false) }},
		{"away", false, func(d amqp.Delivery) error { return d.Reject(false) }},
		{"kept", false, func(d amqp.Delivery) error { return d.Ack(false) }},
	} {
		d, err := next(deliveries)
		if err != nil {
			return err
		}
		if string(d.Body) != want.body || d.Redelivered != want.redelivered {
			return fmt.Errorf("got %q redelivered %v, want %q %v", d.Body, d.Redelivered, want.body, want.redelivered)
		}
		if err := want.settle(d); err != nil {
			return fmt.Errorf("settle %q: %w", want.body, err)
		}
	}
	if err := r.ch.Cancel("nacker", false); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return r.wantDepth(0)
}

// get polls: a message with an ack, one without, and an empty queue.
func (r *run) get() error {
	for _, body := range []string{"first", "second"} {
		if err := r.publish(r.queue, []byte(body), nil); err != nil {
			return err
		}
	}
	d, ok, err := r.ch.Get(r.queue, false)
	if err != nil || !ok || string(d.Body) != "first" || d.MessageCount != 1 {
		return fmt.Errorf("get: %q, %d more, found %v, error %v", d.Body, d.MessageCount, ok, err)
	}
	if err := d.Ack(false); err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	if err := r.getBack([]byte("second")); err != nil {
		return err
	}
	if _, ok, err = r.ch.Get(r.queue, true); err != nil || ok {
		return fmt.Errorf("get on the empty queue: found %v, error %v", ok, err)
	}
	return nil
}

// mandatoryReturn has an unroutable message come back before its confirm.
func (r *run) mandatoryReturn() error {
	returns := r.ch.NotifyReturn(make(chan amqp.Return, 1))
	err := r.publishTo(r.exchange, "nowhere", amqp.Publishing{
		MessageId: "m-1", Headers: amqp.Table{"k": "v"}, Body: []byte("undeliverable"),
	}, true)
	if err != nil {
		return err
	}
	select {
	case got := <-returns: // buffered by the library before it reads the confirm
		if got.ReplyCode != amqp.NoRoute || got.ReplyText != "NO_ROUTE" || got.Exchange != r.exchange ||
			got.RoutingKey != "nowhere" || got.MessageId != "m-1" || got.Headers["k"] != "v" ||
			string(got.Body) != "undeliverable" {
			return fmt.Errorf("returned message is %+v", got)
		}
		return nil
	default:
		return errors.New("confirmed, but not returned before")
	}
}

// headers sends each field type that the library writes, nested too, with all
// other properties, and compares what comes back.
func (r *run) headers() error {
	fields := func() amqp.Table {
		return amqp.Table{
			"bool": true, "byte": byte(200), "int8": int8(-8), "int16": int16(-1600),
			"uint16": uint16(60000), "int32": int32(-320000), "uint32": uint32(4000000000),
			"int64": int64(-64000000000000), "float32": float32(0.5), "float64": -2.25,
			"decimal": amqp.Decimal{Scale: 2, Value: 31415}, "string": "snöwman ☃",
			"bytes": []byte{0, 1, 0xfe, 0xff}, "time": time.Unix(1700000000, 0), "nil": nil,
			"empty": "",
		}
	}
	sent := fields()
	sent["table"] = fields()
	sent["array"] = []any{int32(1), "two", false, nil, amqp.Table{"deep": []any{int64(3)}}}
	msg := amqp.Publishing{
		Headers: sent, ContentType: "application/json", ContentEncoding: "identity",
		DeliveryMode: amqp.Persistent, Priority: 7, CorrelationId: "c-1", ReplyTo: "replies",
		MessageId: "m-2", Timestamp: time.Unix(1600000000, 0), Type: "kind", AppId: "conformance",
		Body: []byte("{}"),
	}
	if err := r.publishTo("", r.queue, msg, false); err != nil {
		return err
	}
	d, ok, err := r.ch.Get(r.queue, true)
	if err != nil || !ok {
		return fmt.Errorf("get: found %v, error %v", ok, err)
	}
	for k, want := range sent {
		if got, ok := d.Headers[k]; !ok || !reflect.DeepEqual(got, want) {
			return fmt.Errorf("header %s is %#v, sent %#v", k, got, want)
		}
	}
	got := amqp.Publishing{
		Headers: d.Headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		DeliveryMode: d.DeliveryMode, Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo,
		MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body,
	}
	if !reflect.DeepEqual(got, msg) {
		return fmt.Errorf("got %+v, sent %+v", got, msg)
	}
	return nil
}
