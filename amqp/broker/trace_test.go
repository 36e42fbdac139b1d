package broker

import (
	"slices"
	"testing"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// TestSetTracing turns the firehose on and off, more than once, and leaves it
// on when the broker closes and when a virtual host goes.
func TestSetTracing(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	s := guest(t, b)
	traced := s.queue("traced", false, nil)
	s.bindQueue("amq.rabbitmq.trace", "#", "traced", nil)
	emit := func(vhost, exchange, body string) {
		b.Hooks.Emit(&Event{Step: PublishRouted, VHost: vhost, Message: &queue.Message{Exchange: exchange, RoutingKey: "k", Properties: []byte{0, 0}, Content: []byte(body)}})
	}
	emit("/", "x", "before")
	for range 2 {
		s.v.SetTracing(true)
		if !s.v.Tracing() {
			t.Error("not tracing")
		}
		emit("/", "x", "during")
		emit("other", "x", "of another vhost")
		emit("/", "amq.rabbitmq.trace", "its own")
		b.Hooks.Emit(&Event{Step: QueueDeclared, VHost: "/", Queue: "q"})
		s.v.SetTracing(false)
		if s.v.Tracing() || b.Hooks.Observing() {
			t.Error("still tracing")
		}
		s.v.SetTracing(false)
		emit("/", "x", "after")
		if got := drain(traced); !slices.Equal(got, []string{"during"}) { // turned off, it has told everything
			t.Fatalf("traced %v", got)
		}
	}
	s.v.SetTracing(true)
	s.v.SetTracing(true)
	_, err := storedAdd(b, "gone")
	s.must(err)
	gone, _ := b.VHost("gone")
	gone.SetTracing(true)
	b.RemoveVHost("gone", nil)
	if gone.Tracing() {
		t.Error("a deleted vhost is traced")
	}
}

func storedAdd(b *Broker, name string) (added bool, err error) {
	added, _, err = b.AddVHost(name, nil)
	return added, err
}

// TestTracedKeysAreCut: a name of 255 octets and its prefix are longer than a
// routing key may be.
func TestTracedKeysAreCut(t *testing.T) {
	b := openBroker(t, compat.V3, "")
	s := guest(t, b)
	traced := s.queue("traced", false, nil)
	s.bindQueue("amq.rabbitmq.trace", "deliver.#", "traced", nil)
	s.v.SetTracing(true)
	name := make([]byte, 255)
	for i := range name {
		name[i] = 'n'
	}
	p := withHeaders(table("CC", frames.Array{"c"}))
	b.Hooks.Emit(&Event{Step: DeliverySent, VHost: "/", Queue: string(name), Message: &queue.Message{
		RoutingKey: "k", Properties: p.Append(nil), BCC: []string{"b"}}})
	s.v.SetTracing(false)
	e, _, ok, _ := traced.Get(true)
	if !ok || len(e.Message.RoutingKey) != 255 {
		t.Fatalf("traced %v, key of %d octets", ok, len(e.Message.RoutingKey))
	}
	properties := propertiesOf(e.Message)
	raw, _ := properties.Headers()
	keys, _ := raw.Decode().Get("routing_keys")
	if got := keys.(frames.Array); !slices.Equal(got, frames.Array{"k", "c", "b"}) {
		t.Errorf("routing keys %v", got)
	}
}
