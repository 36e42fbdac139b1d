package store

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// again writes a content as JSON, reads it back and gives its head.
func again(t interface {
	Helper()
	Fatal(...any)
}, c content) content {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var read content
	if err := strict(b, &read); err != nil {
		t.Fatal(err, string(b))
	}
	return read
}

// values generates field values of every type, nested to a depth.
func values(depth int) *rapid.Generator[any] {
	finite32 := rapid.Float32().Filter(func(f float32) bool { return !math.IsInf(float64(f), 0) && f == f })
	finite64 := rapid.Float64().Filter(func(f float64) bool { return !math.IsInf(f, 0) && f == f })
	all := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int8().AsAny(), rapid.Uint8().AsAny(), rapid.Int16().AsAny(), rapid.Uint16().AsAny(),
		rapid.Int32().AsAny(), rapid.Uint32().AsAny(), rapid.Int64().AsAny(), finite32.AsAny(), finite64.AsAny(),
		rapid.Map(rapid.Int64(), func(n int64) any { return frames.LongLong(n) }),
		rapid.Map(rapid.Uint64(), func(n uint64) any { return frames.Timestamp(n) }),
		rapid.Custom(func(t *rapid.T) any {
			return frames.Decimal{Scale: rapid.Uint8().Draw(t, "scale"), Value: rapid.Uint32().Draw(t, "value")}
		}),
		rapid.String().AsAny(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) any { return string(b) }),
		rapid.SliceOf(rapid.Byte()).AsAny(),
	}
	if depth > 0 {
		all = append(all, tables(depth-1).AsAny(), rapid.Map(rapid.SliceOfN(values(depth-1), 0, 4), func(a []any) any { return frames.Array(a) }))
	}
	return rapid.OneOf(all...)
}

func tables(depth int) *rapid.Generator[frames.Table] {
	return rapid.Map(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) frames.Field {
		return frames.Field{Key: shorts().Draw(t, "key"), Value: values(depth).Draw(t, "value")}
	}), 0, 6), func(f []frames.Field) frames.Table { return f })
}

// shorts generates names of any bytes.
func shorts() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringN(0, 20, 60), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 255), func(b []byte) string { return string(b) }))
}

// TestContentRoundTrip: any message is described in words, and these give back
// exactly its bytes.
func TestContentRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := frames.PropertyValues{
			Flags: rapid.Uint16().Draw(t, "flags") & 0xfffc, Headers: tables(3).Draw(t, "headers"),
			DeliveryMode: rapid.Uint8().Draw(t, "mode"), Priority: rapid.Uint8().Draw(t, "priority"), Timestamp: rapid.Uint64().Draw(t, "timestamp"),
		}
		for _, s := range []*string{&v.ContentType, &v.ContentEncoding, &v.CorrelationID, &v.ReplyTo, &v.Expiration, &v.MessageID, &v.Type, &v.UserID, &v.AppID, &v.ClusterID} {
			*s = shorts().Draw(t, "property")
		}
		m := queue.Message{
			Exchange: shorts().Draw(t, "exchange"), RoutingKey: shorts().Draw(t, "key"), Priority: rapid.Uint8().Draw(t, "priority"),
			Persistent: rapid.Bool().Draw(t, "persistent"), Dead: rapid.Bool().Draw(t, "dead"), CCDone: rapid.Bool().Draw(t, "cc"),
			Expiration: rapid.Int64().Draw(t, "expiration"), BCC: rapid.SliceOfN(shorts(), 0, 3).Draw(t, "bcc"), Properties: v.Append(nil),
		}
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		head := m.AppendHead(nil)
		c := describe(head, body)
		if c.Head != nil {
			t.Fatalf("no words for head %x", head)
		}
		read := again(t, c)
		got, err := read.head()
		if err != nil || !bytes.Equal(got, head) || !bytes.Equal(read.Body, body) {
			t.Fatalf("head %x, %v, want %x", got, err, head)
		}
	})
}

// TestContentWithoutWords: what cannot be said exactly is kept as bytes.
func TestContentWithoutWords(t *testing.T) {
	m := queue.Message{Expiration: -1, Properties: []byte{0, 0}}
	good := m.AppendHead(nil)
	strange := m
	strange.Properties = []byte{0x00, 0x02} // a flag that there is not
	for name, head := range map[string][]byte{
		"none": {}, "short": good[:5], "unknown flag": append([]byte{0xf0}, good[1:]...), "properties": strange.AppendHead(nil),
		"behind": append(bytes.Clone(good), 1),
	} {
		c := describe(head, []byte("body"))
		read := again(t, c)
		got, err := read.head()
		if err != nil || !bytes.Equal(got, head) || string(read.Body) != "body" {
			t.Errorf("%s: head %x, %v, want %x", name, got, err, head)
		}
	}
}

// TestContentIsReadable: an export is for people too.
func TestContentIsReadable(t *testing.T) {
	v := frames.PropertyValues{
		Flags: frames.FlagContentType | frames.FlagHeaders | frames.FlagDeliveryMode, ContentType: "text/plain", DeliveryMode: 2,
		Headers: frames.Table{{Key: "n", Value: int32(-7)}, {Key: "s", Value: "<a & b>"}, {Key: "x", Value: []byte("b\xff")}},
	}
	m := queue.Message{Exchange: "x", RoutingKey: "k\xff", Persistent: true, Expiration: -1, Properties: v.Append(nil)}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(describe(m.AppendHead(nil), []byte("hello"))); err != nil {
		t.Fatal(err)
	}
	const want = `{"exchange":"x","routing_key":{"base64":"a/8="},"expiration":-1,"priority":0,"persistent":true,` +
		`"properties":{"content_type":"text/plain","headers":[{"key":"n","type":"I","value":-7},` +
		`{"key":"s","type":"S","value":"<a & b>"},{"key":"x","type":"x","value":"Yv8="}],"delivery_mode":2},"body":"aGVsbG8="}` + "\n"
	if strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(b.String(), `\u003c`, "<"), `\u003e`, ">"), `\u0026`, "&") != want {
		t.Errorf("got  %swant %s", b.String(), want)
	}
}

// TestBadContent: what no store could hold is refused.
func TestBadContent(t *testing.T) {
	long := strings.Repeat("l", 256)
	for name, s := range map[string]string{
		"exchange": `{"exchange":"` + long + `"}`,
		"property": `{"properties":{"type":"` + long + `"}}`,
		"key":      `{"properties":{"headers":[{"key":"` + long + `","type":"V"}]}}`,
		"type":     `{"properties":{"headers":[{"key":"k","type":"q","value":1}]}}`,
		"range":    `{"properties":{"headers":[{"key":"k","type":"b","value":128}]}}`,
		"float":    `{"properties":{"headers":[{"key":"k","type":"d","value":1e999}]}}`,
		"NaN":      `{"properties":{"headers":[{"key":"k","type":"d"}]}}`,
		"null":     `{"properties":{"headers":[{"key":"k","type":"I","value":null}]}}`,
		"void":     `{"properties":{"headers":[{"key":"k","type":"V","value":1}]}}`,
		"nested":   `{"properties":{"headers":[{"key":"k","type":"A","value":[{"type":"F","value":[{"key":"k","type":"S","value":5}]}]}]}}`,
		"decimal":  `{"properties":{"headers":[{"key":"k","type":"D","value":{"scale":256,"value":1}}]}}`,
		"unknown":  `{"exchange":"x","colour":"red"}`,
	} {
		var c content
		err := strict([]byte(s), &c)
		if err == nil {
			_, err = c.head()
		}
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
