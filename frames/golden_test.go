package frames

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden is one case of testdata/methods.golden.
type golden struct {
	line    string // method and fields as written there
	method  decodable
	payload []byte
}

// goldenTable is what "@" stands for.
var goldenTable = Table{{"answer", int32(-42)}, {"list", Array{"a", nil}}}

func readGoldens(t testing.TB) []golden {
	t.Helper()
	f, err := os.Open("testdata/methods.golden")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var cases []golden
	var text string
	in := bufio.NewScanner(f)
	for in.Scan() {
		line := in.Text()
		switch {
		case strings.HasPrefix(line, "#") || line == "":
		case strings.HasPrefix(line, "  "):
			text += strings.TrimSpace(line)
			c := &cases[len(cases)-1]
			if c.payload, err = hex.DecodeString(text); err != nil {
				t.Fatalf("%s: %v", c.line, err)
			}
		default:
			text = ""
			cases = append(cases, golden{line: line, method: parseGolden(t, line)})
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return cases
}

// parseGolden makes the method that a line like `basic.ack DeliveryTag=1 Multiple=true` describes.
func parseGolden(t testing.TB, line string) decodable {
	t.Helper()
	name, fields, _ := strings.Cut(line, " ")
	m := newMethod(methodNamed(t, name))
	for fields != "" {
		key, rest, _ := strings.Cut(fields, "=")
		value := rest
		if q, err := strconv.QuotedPrefix(rest); err == nil {
			value, fields = q, strings.TrimPrefix(rest[len(q):], " ")
		} else {
			value, fields, _ = strings.Cut(rest, " ")
		}
		f := reflect.ValueOf(m).Elem().FieldByName(key)
		if !f.IsValid() {
			t.Fatalf("%s has no field %s", name, key)
		}
		setField(t, f, value)
	}
	return m
}

func setField(t testing.TB, f reflect.Value, value string) {
	t.Helper()
	switch f.Interface().(type) {
	case bool:
		f.SetBool(value == "true")
	case Table:
		f.Set(reflect.ValueOf(goldenTable))
	case string, []byte:
		raw, err := strconv.Unquote(value)
		if h, ok := strings.CutPrefix(value, "hex:"); ok {
			var b []byte
			b, err = hex.DecodeString(h)
			raw = string(b)
		}
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		f.Set(reflect.ValueOf(raw).Convert(f.Type()))
	default:
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		f.SetUint(n)
	}
}

// knownIDs returns the ids of all methods.
func knownIDs() []MethodID {
	var ids []MethodID
	for class := range uint16(256) {
		for method := range uint16(256) {
			if id := MakeMethodID(class, method); id.Known() {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func methodNamed(t testing.TB, name string) MethodID {
	t.Helper()
	for _, id := range knownIDs() {
		if id.String() == name {
			return id
		}
	}
	t.Fatalf("no method %s", name)
	return 0
}

func TestGoldenMethods(t *testing.T) {
	covered := map[MethodID]bool{}
	for _, c := range readGoldens(t) {
		covered[c.method.ID()] = true
		if got := c.method.Append([]byte("before")); string(got) != "before"+string(c.payload) {
			t.Errorf("%s\nencodes %x\n   want %x", c.line, got[len("before"):], c.payload)
		}
		got, err := DecodeMethod(c.payload)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if diff := cmp.Diff(c.method, got, cmp.Comparer(equalMethod)); diff != "" {
			t.Errorf("%s: decoded otherwise (-want +got):\n%s", c.line, diff)
		}
	}
	for _, id := range knownIDs() {
		if !covered[id] {
			t.Errorf("testdata/methods.golden has no %s", id)
		}
	}
	if len(covered) != 66 {
		t.Errorf("%d methods, AMQP 0-9-1 with RabbitMQ's extensions has 66", len(covered))
	}
}

// equalMethod lets cmp take the concrete types behind the two interface types for the same.
func equalMethod(a, b Method) bool { return cmp.Equal(any(a), any(b)) }

// Arguments must fill the method exactly: every shorter and every longer form is the same error.
func TestGoldenMethodsCutAndPadded(t *testing.T) {
	for _, c := range readGoldens(t) {
		id, args, err := SplitMethod(c.payload)
		if err != nil {
			t.Fatal(err)
		}
		for n := range args {
			checkCannotDecode(t, c, id, args[:n])
		}
		checkCannotDecode(t, c, id, append(args[:len(args):len(args)], 0))
	}
}

func checkCannotDecode(t *testing.T, c golden, id MethodID, args []byte) {
	t.Helper()
	want := &Error{
		Code: FrameError, Text: "cannot decode " + erlangNumbers(args),
		Class: id.Class(), Method: id.Method(), Scope: ScopeConnection,
	}
	err := newMethod(id).Decode(args)
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Fatalf("%s cut or padded to %d octets (-want +got):\n%s", c.line, len(args), diff)
	}
}

func TestDecodeErrors(t *testing.T) {
	badTable := "\x00\x00\x00\x03\x01aZ"
	reset := errMethodTable
	cases := []struct {
		name string
		m    decodable
		args string
		want *Error
	}{
		{"truncated queue.declare", &QueueDeclare{}, "\x00\x00\xff",
			&Error{Code: 501, Text: "cannot decode <<0,0,255>>", Class: 50, Method: 10, Scope: ScopeConnection}},
		{"bytes behind tx.select", &TxSelect{}, "abc",
			&Error{Code: 501, Text: "cannot decode <<97,98,99>>", Class: 90, Method: 10, Scope: ScopeConnection}},
		{"queue name not UTF-8", &QueueDeclare{}, "\x00\x00\x01\xff\x00\x00\x00\x00\x00", errMalformedUTF8},
		{"routing key not UTF-8", &BasicPublish{}, "\x00\x00\x01e\x01\xff\x00", errMalformedUTF8},
		{"a surrogate is not UTF-8", &BasicPublish{}, "\x00\x00\x01e\x03\xed\xa0\x80\x00", errMalformedUTF8},
		{"unknown field type", &QueueDeclare{}, "\x00\x00\x01q\x00" + badTable, reset},
		{"NaN argument", &QueueDeclare{}, "\x00\x00\x01q\x00\x00\x00\x00\x07\x01af\x7f\xc0\x00\x00", reset},
		{"name and table, name first", &QueueDeclare{}, "\x00\x00\x01\xff\x00" + badTable, errMalformedUTF8},
		{"table and name, table first", &ConnectionStartOk{}, badTable + "\x01\xff\x00\x00\x00\x00\x00", reset},
		{"shape wins over both", &QueueDeclare{}, "\x00\x00\x01\xff\x00" + badTable + "\x00",
			cannotDecode(QueueDeclareID, []byte("\x00\x00\x01\xff\x00"+badTable+"\x00"))},
	}
	for _, c := range cases {
		if diff := cmp.Diff(error(c.want), c.m.Decode([]byte(c.args))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Long arguments are shown only as far as a reply-text reaches, and that is RabbitMQ's text to the byte.
func TestCannotDecodeIsCut(t *testing.T) {
	args := make([]byte, 150)
	for i := range args {
		args[i] = byte(100 + i)
	}
	want := "FRAME_ERROR - cannot decode <<100,101,102,103,104,105,106,107,108,109,110,111,112,113,114,115,116," +
		"117,118,119,120,121,122,123,124,125,126,127,128,129,130,131,132,133,134,135,136,137,138,139,140,141," +
		"142,143,144,145,146,147,148,149,150,151,152,153,154,15..."
	short := cannotDecode(QueueDeclareID, args)
	if got := short.ReplyText(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	long := cannotDecode(QueueDeclareID, make([]byte, 1<<20))
	if len(long.Text) > 1000 || len(long.ReplyText()) != 255 || !strings.HasSuffix(long.ReplyText(), "0,0,...") {
		t.Errorf("a megabyte of arguments makes %d bytes of text, reply %q", len(long.Text), long.ReplyText())
	}
}

func TestSplitAndDecodeMethod(t *testing.T) {
	for _, payload := range []string{"", "\x00", "\x00\x3c\x00"} {
		_, _, err := SplitMethod([]byte(payload))
		want := Errorf(FrameError, "type 1, all octets = %s: unknown_frame", ErlangBinary([]byte(payload)))
		if diff := cmp.Diff(error(want), err); diff != "" {
			t.Errorf("SplitMethod(%q) (-want +got):\n%s", payload, diff)
		}
		if _, err := DecodeMethod([]byte(payload)); err == nil {
			t.Errorf("DecodeMethod(%q) succeeded", payload)
		}
	}
	_, err := DecodeMethod([]byte{0, 99, 0, 1})
	if diff := cmp.Diff(error(Reset("unknown method 99.1")), err); diff != "" {
		t.Errorf("unknown method (-want +got):\n%s", diff)
	}
	id, args, err := SplitMethod([]byte{0, 60, 0, 40, 7, 8})
	if id != BasicPublishID || string(args) != "\x07\x08" || err != nil {
		t.Errorf("SplitMethod: %v %x %v", id, args, err)
	}
}

func TestMethodIDs(t *testing.T) {
	cases := []struct {
		id                          MethodID
		class, method               uint16
		name                        string
		known, fromClient, contents bool
	}{
		{BasicPublishID, 60, 40, "basic.publish", true, true, true},
		{BasicDeliverID, 60, 60, "basic.deliver", true, false, true},
		{BasicGetOkID, 60, 71, "basic.get-ok", true, false, true},
		{BasicReturnID, 60, 50, "basic.return", true, false, true},
		{BasicNackID, 60, 120, "basic.nack", true, true, false},
		{BasicCancelOkID, 60, 31, "basic.cancel-ok", true, true, false},
		{QueueDeclareOkID, 50, 11, "queue.declare-ok", true, false, false},
		{ExchangeUnbindOkID, 40, 51, "exchange.unbind-ok", true, false, false},
		{ConnectionStartID, 10, 10, "connection.start", true, false, false},
		{ConnectionBlockedID, 10, 60, "connection.blocked", true, false, false},
		{ChannelCloseOkID, 20, 41, "channel.close-ok", true, true, false},
		{MakeMethodID(40, 41), 40, 41, "40.41", false, false, false},
		{MakeMethodID(65535, 65535), 65535, 65535, "65535.65535", false, false, false},
		{0, 0, 0, "0.0", false, false, false},
	}
	for _, c := range cases {
		if c.id.Class() != c.class || c.id.Method() != c.method || c.id != MakeMethodID(c.class, c.method) {
			t.Errorf("%v is %d.%d", c.id, c.id.Class(), c.id.Method())
		}
		if got := c.id.String(); got != c.name {
			t.Errorf("%v: name %q, want %q", c.id, got, c.name)
		}
		if c.id.Known() != c.known || c.id.FromClient() != c.fromClient || c.id.HasContent() != c.contents {
			t.Errorf("%v: known %t, from client %t, content %t", c.id, c.id.Known(), c.id.FromClient(), c.id.HasContent())
		}
	}
}

// Decoded strings and byte strings are copies, except where the struct says otherwise.
func TestDecodeCopies(t *testing.T) {
	for _, c := range readGoldens(t) {
		if c.method.ID() == BasicPublishID {
			continue
		}
		payload := append([]byte(nil), c.payload...)
		got, err := DecodeMethod(payload)
		if err != nil {
			t.Fatal(err)
		}
		for i := range payload {
			payload[i] = 0xaa
		}
		if diff := cmp.Diff(c.method, got, cmp.Comparer(equalMethod)); diff != "" {
			t.Errorf("%s changed with the bytes it was read from:\n%s", c.line, diff)
		}
	}
	payload := (&BasicPublish{Exchange: []byte("e"), RoutingKey: []byte("k")}).Append(nil)
	var p BasicPublish
	if err := p.Decode(payload[4:]); err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint16(payload[7:], 'x'<<8|1)
	if string(p.Exchange) != "x" || cap(p.Exchange) != 1 {
		t.Errorf("basic.publish does not borrow its exchange, or lets append overwrite what follows: %q", p.Exchange)
	}
}
