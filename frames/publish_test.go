package frames

import (
	"bytes"
	"io"
	"testing"
)

// The way of a publish through this package, for the promise that it allocates nothing, and its cost.

// publishStream returns the three frames of one publish with a body of size octets.
func publishStream(size int) []byte {
	m := &BasicPublish{Exchange: []byte("amq.topic"), RoutingKey: []byte("orders.eu.created")}
	v := PropertyValues{
		Flags:       FlagContentType | FlagHeaders | FlagDeliveryMode | FlagPriority | FlagCorrelationID | FlagExpiration,
		Headers:     Table{{"tenant", "acme"}, {"attempt", int32(1)}, {"tags", Array{"a", "b"}}},
		ContentType: "application/json", DeliveryMode: 2, Priority: 4, CorrelationID: "0f5c7c9e", Expiration: "60000",
	}
	b := AppendMethodFrame(nil, 1, m)
	b = AppendHeaderFrame(b, 1, uint64(size), v.Append(nil))
	return AppendBodyFrames(b, 1, make([]byte, size), 131072)
}

// loop is a source that never ends: the same bytes again and again, as many as fit.
type loop struct {
	data []byte
	at   int
}

func (l *loop) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		k := copy(b[n:], l.data[l.at:])
		n += k
		l.at = (l.at + k) % len(l.data)
	}
	return n, nil
}

// readPublish does what a broker does with the three frames, and fails when they say something else.
func readPublish(t testing.TB, r *Reader, size int) {
	f, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	id, args, err := SplitMethod(f.Payload)
	if err != nil || id != BasicPublishID || !id.FromClient() || !id.HasContent() {
		t.Fatal(id, err)
	}
	var m BasicPublish
	if err := m.Decode(args); err != nil || string(m.RoutingKey) != "orders.eu.created" {
		t.Fatal(m, err)
	}
	if f, err = r.Next(); err != nil {
		t.Fatal(err)
	}
	h, err := ParseContentHeader(f.Payload)
	if err != nil || h.BodySize != uint64(size) {
		t.Fatal(h, err)
	}
	p, err := ParseProperties(h.Properties)
	if err != nil {
		t.Fatal(err)
	}
	mode, _ := p.DeliveryMode()
	expiration, _ := p.Expiration()
	headers, _ := p.Headers()
	if v, _ := headers.Lookup("tenant"); mode != 2 || len(expiration) != 5 || string(v.Data) != "acme" {
		t.Fatal(mode, expiration, v)
	}
	if f, err = r.Next(); err != nil || len(f.Payload) != size {
		t.Fatal(len(f.Payload), err)
	}
}

func TestPublishAllocatesNothing(t *testing.T) {
	r := NewReader(&loop{data: publishStream(1024)})
	r.SetLimit(131072)
	readPublish(t, r, 1024) // the buffer grows once
	readPublish(t, r, 1024)
	for range 100 { // and past its first end
		readPublish(t, r, 1024)
	}
	if n := testing.AllocsPerRun(1000, func() { readPublish(t, r, 1024) }); n != 0 {
		t.Errorf("%v allocations a publish", n)
	}
}

func TestDeliverAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 4096)
	props := only(everyProperty, allFlags)
	raw := props.Append(nil)
	body := make([]byte, 1024)
	n := testing.AllocsPerRun(1000, func() {
		dst = AppendDeliver(dst[:0], 1, "ctag", 1, false, "amq.topic", "orders.eu.created")
		dst = AppendHeaderFrame(dst, 1, uint64(len(body)), raw)
		dst = AppendBodyFrames(dst, 1, body, 131072)
		dst = AppendAck(dst, 1, 2, true)
	})
	if n != 0 {
		t.Errorf("%v allocations a delivery", n)
	}
}

func BenchmarkReadPublish(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
	}{{"16B", 16}, {"1KiB", 1024}, {"64KiB", 65536}, {"128KiB", 131064}} {
		b.Run(c.name, func(b *testing.B) {
			data := publishStream(c.size)
			r := NewReader(&loop{data: data})
			r.SetLimit(131072)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				readPublish(b, r, c.size)
			}
		})
	}
}

func BenchmarkAppendDelivery(b *testing.B) {
	props := only(everyProperty, allFlags)
	raw := props.Append(nil)
	body := make([]byte, 1024)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendDeliver(dst[:0], 1, "ctag-1.7f3a", 123456, false, "amq.topic", "orders.eu.created")
		dst = AppendHeaderFrame(dst, 1, uint64(len(body)), raw)
		dst = AppendBodyFrames(dst, 1, body, 131072)
	}
	b.SetBytes(int64(len(dst)))
}

func BenchmarkParseProperties(b *testing.B) {
	v := everyProperty
	raw := v.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		p, err := ParseProperties(raw)
		if err != nil {
			b.Fatal(err)
		}
		if s, _ := p.UserID(); len(s) != 4 {
			b.Fatal(string(s))
		}
	}
}

func BenchmarkDecodeMethod(b *testing.B) {
	payload := (&QueueDeclare{Queue: "orders", Durable: true, Arguments: goldenTable}).Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeMethod(payload); err != nil {
			b.Fatal(err)
		}
	}
}

// A connection that wakes up now and then must not pay for the size of its last burst.
func BenchmarkReaderBursts(b *testing.B) {
	busy := bytes.Repeat([]byte(rawFrame(3, 1, string(make([]byte, 1000)))), 30)
	b.ReportAllocs()
	src := &bursts{busy: busy, quiet: []byte(rawFrame(8, 0, ""))}
	r := NewReader(src)
	for b.Loop() {
		for range 30 + quietReads + 1 {
			if _, err := r.Next(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// bursts alternates one burst with quiet frames, one a read.
type bursts struct {
	busy, quiet []byte
	at, n       int
}

func (s *bursts) Read(b []byte) (int, error) {
	if s.n == 0 {
		k := copy(b, s.busy[s.at:])
		if s.at += k; s.at == len(s.busy) {
			s.at, s.n = 0, quietReads+1
		}
		return k, nil
	}
	s.n--
	if len(b) < len(s.quiet) {
		return 0, io.ErrShortBuffer
	}
	return copy(b, s.quiet), nil
}
