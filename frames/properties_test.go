package frames

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// everyProperty has all fourteen.
var everyProperty = PropertyValues{
	Flags: allFlags, ContentType: "text/plain", ContentEncoding: "gzip", Headers: Table{{"k", "v"}},
	DeliveryMode: 2, Priority: 9, CorrelationID: "corr", ReplyTo: "reply", Expiration: "60000",
	MessageID: "msg", Timestamp: 1700000000, Type: "type", UserID: "user", AppID: "app", ClusterID: "cluster",
}

// Property bytes by RabbitMQ's own encoder: all, then each alone.
var propertyGoldens = []struct {
	flags uint16
	hex   string
}{
	{allFlags, "fffc0a746578742f706c61696e04677a697000000008016b530000000176020904636f7272057265706c79053630303030" +
		"036d7367000000006553f100047479706504757365720361707007636c7573746572"},
	{FlagContentType, "80000a746578742f706c61696e"},
	{FlagContentEncoding, "400004677a6970"},
	{FlagHeaders, "200000000008016b530000000176"},
	{FlagDeliveryMode, "100002"},
	{FlagPriority, "080009"},
	{FlagCorrelationID, "040004636f7272"},
	{FlagReplyTo, "0200057265706c79"},
	{FlagExpiration, "0100053630303030"},
	{FlagMessageID, "0080036d7367"},
	{FlagTimestamp, "0040000000006553f100"},
	{FlagType, "00200474797065"},
	{FlagUserID, "00100475736572"},
	{FlagAppID, "000803617070"},
	{FlagClusterID, "000407636c7573746572"},
}

// only returns the values whose flags are set, and zeros for the others.
func only(v PropertyValues, flags uint16) PropertyValues {
	out := PropertyValues{Flags: flags}
	for flag := FlagContentType; flag >= FlagClusterID; flag >>= 1 {
		if flags&flag == 0 {
			continue
		}
		switch flag {
		case FlagHeaders:
			out.Headers = v.Headers
		case FlagDeliveryMode:
			out.DeliveryMode = v.DeliveryMode
		case FlagPriority:
			out.Priority = v.Priority
		case FlagTimestamp:
			out.Timestamp = v.Timestamp
		default:
			*out.shortstr(flag) = *v.shortstr(flag)
		}
	}
	return out
}

func TestGoldenProperties(t *testing.T) {
	for _, c := range propertyGoldens {
		want, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		values := only(everyProperty, c.flags)
		if got := values.Append(nil); string(got) != string(want) {
			t.Errorf("flags %04x encode %x, want %s", c.flags, got, c.hex)
		}
		p, err := ParseProperties(want)
		if err != nil {
			t.Errorf("%s: %v", c.hex, err)
			continue
		}
		if diff := cmp.Diff(values, p.Values()); diff != "" {
			t.Errorf("%s decodes otherwise (-want +got):\n%s", c.hex, diff)
		}
		if string(p.Raw()) != string(want) {
			t.Errorf("Raw is %x, want %s", p.Raw(), c.hex)
		}
		for n := range want {
			if _, err := ParseProperties(want[:n]); err != error(errProperties) {
				t.Errorf("%x: %v, want a bare 541", want[:n], err)
			}
		}
		if _, err := ParseProperties(append(want, 0)); err != error(errProperties) {
			t.Errorf("%x00: %v, want a bare 541", want, err)
		}
	}
}

func TestMalformedProperties(t *testing.T) {
	cases := map[string]string{
		"continuation bit":                   "\x00\x01",
		"continuation bit and a second word": "\x00\x01\x00\x00",
		"continuation bit and a value":       "\x80\x01\x01a",
		"unknown field type":                 "\x20\x00\x00\x00\x00\x03\x01aZ",
		"a double not a number":              "\x20\x00\x00\x00\x00\x0b\x01ad\x7f\xf8\x00\x00\x00\x00\x00\x00",
		"huge headers":                       "\x20\x00\xff\xff\xff\xff",
	}
	want := &Error{Code: 541, Scope: ScopeConnection}
	for name, b := range cases {
		_, err := ParseProperties([]byte(b))
		if diff := cmp.Diff(error(want), err); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := want.ReplyText(); got != "INTERNAL_ERROR" {
		t.Errorf("reply text %q", got)
	}
	// Short strings need not be UTF-8, and the unused bit 1 is ignored, as in RabbitMQ.
	p, err := ParseProperties([]byte("\x80\x02\x01\xff"))
	if ct, ok := p.ContentType(); err != nil || !ok || string(ct) != "\xff" {
		t.Errorf("content type %q %t, %v", ct, ok, err)
	}
}

// An empty value is present; that is not the same as absent.
func TestEmptyProperties(t *testing.T) {
	v := PropertyValues{Flags: FlagContentType | FlagHeaders | FlagExpiration | FlagUserID}
	p, err := ParseProperties(v.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := p.Expiration(); !ok || len(s) != 0 || !p.Has(FlagExpiration) {
		t.Errorf("expiration %q %t", s, ok)
	}
	if h, ok := p.Headers(); !ok || len(h) != 0 {
		t.Errorf("headers %x %t", h, ok)
	}
	if _, ok := p.CorrelationID(); ok || p.Has(FlagCorrelationID) {
		t.Error("an absent property is present")
	}
	if diff := cmp.Diff(v, p.Values()); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestZeroProperties(t *testing.T) {
	var p Properties
	if diff := cmp.Diff(PropertyValues{}, p.Values()); diff != "" {
		t.Errorf("the zero value has properties:\n%s", diff)
	}
	if got := fmt.Sprintf("%x %x %x", p.Raw(), p.AppendWithout(nil, FlagHeaders), p.AppendWithHeaders(nil, Table{{"a", true}})); got != "0000 0000 200000000004"+"01617401" {
		t.Errorf("raw, without and with headers: %s", got)
	}
	parsed, err := ParseProperties(p.Raw())
	if diff := cmp.Diff(PropertyValues{}, parsed.Values()); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func genProperties() *rapid.Generator[PropertyValues] {
	return rapid.Custom(func(t *rapid.T) PropertyValues {
		str := rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 255), func(b []byte) string { return string(b) })
		v := PropertyValues{
			Headers:      genTable(2).Draw(t, "headers"),
			DeliveryMode: rapid.Uint8().Draw(t, "mode"),
			Priority:     rapid.Uint8().Draw(t, "priority"),
			Timestamp:    rapid.Uint64().Draw(t, "timestamp"),
		}
		for flag := FlagContentType; flag >= FlagClusterID; flag >>= 1 {
			if s := v.shortstr(flag); s != nil {
				*s = str.Draw(t, "string")
			}
		}
		return only(v, rapid.Uint16().Draw(t, "flags")&allFlags)
	})
}

func TestPropertiesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := genProperties().Draw(t, "properties")
		raw := v.Append(nil)
		p, err := ParseProperties(raw)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v, p.Values()); diff != "" {
			t.Fatalf("decoded otherwise (-want +got):\n%s", diff)
		}
		checkAccessors(t, &p, v)
		flag := uint16(1) << rapid.IntRange(2, 15).Draw(t, "dropped")
		without := only(v, v.Flags&^flag)
		if got := p.AppendWithout([]byte("x"), flag); string(got) != "x"+string(without.Append(nil)) {
			t.Fatalf("without %04x: %x", flag, got)
		}
		with := v
		with.Flags |= FlagHeaders
		with.Headers = genTable(1).Draw(t, "new headers")
		if got := p.AppendWithHeaders([]byte("x"), with.Headers); string(got) != "x"+string(with.Append(nil)) {
			t.Fatalf("with other headers: %x", got)
		}
		if string(p.Raw()) != string(raw) {
			t.Fatal("Raw is not what was parsed")
		}
	})
}

// checkAccessors compares every accessor with the decoded form.
func checkAccessors(t *rapid.T, p *Properties, v PropertyValues) {
	strs := map[uint16]func() ([]byte, bool){
		FlagContentType: p.ContentType, FlagContentEncoding: p.ContentEncoding, FlagCorrelationID: p.CorrelationID,
		FlagReplyTo: p.ReplyTo, FlagExpiration: p.Expiration, FlagMessageID: p.MessageID, FlagType: p.Type,
		FlagUserID: p.UserID, FlagAppID: p.AppID, FlagClusterID: p.ClusterID,
	}
	for flag, get := range strs {
		if s, ok := get(); ok != (v.Flags&flag != 0) || string(s) != *v.shortstr(flag) {
			t.Fatalf("property %04x is %q %t, want %q", flag, s, ok, *v.shortstr(flag))
		}
	}
	if n, ok := p.DeliveryMode(); ok != p.Has(FlagDeliveryMode) || n != v.DeliveryMode {
		t.Fatalf("delivery mode %d %t, want %d", n, ok, v.DeliveryMode)
	}
	if n, ok := p.Priority(); ok != p.Has(FlagPriority) || n != v.Priority {
		t.Fatalf("priority %d %t, want %d", n, ok, v.Priority)
	}
	if n, ok := p.Timestamp(); ok != p.Has(FlagTimestamp) || n != v.Timestamp {
		t.Fatalf("timestamp %d %t, want %d", n, ok, v.Timestamp)
	}
	if h, ok := p.Headers(); ok != p.Has(FlagHeaders) || !cmp.Equal(h.Decode(), v.Headers) {
		t.Fatalf("headers %v %t, want %v", h, ok, v.Headers)
	}
}

func TestPropertyLongStringIsCut(t *testing.T) {
	v := PropertyValues{Flags: FlagMessageID | FlagAppID, MessageID: strings.Repeat("m", 300), AppID: "after"}
	p, err := ParseProperties(v.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	v.MessageID = v.MessageID[:255]
	if diff := cmp.Diff(v, p.Values()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestContentHeader(t *testing.T) {
	payload := []byte("\x00\x3c\x00\x01\x00\x00\x00\x00\x00\x01\x00\x02\x80\x00\x01a")
	h, err := ParseContentHeader(payload)
	want := ContentHeader{Class: 60, Weight: 1, BodySize: 0x10002, Properties: payload[12:]}
	if diff := cmp.Diff(want, h); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	_, err = ParseContentHeader(payload[:5])
	short := Errorf(FrameError, "type 2, all octets = <<0,60,0,1,0>>: unknown_frame")
	if diff := cmp.Diff(error(short), err); diff != "" {
		t.Errorf("short header (-want +got):\n%s", diff)
	}
	if _, err = ParseContentHeader(payload[:11]); err == nil {
		t.Error("eleven octets pass for a content header")
	}
}
