package frames

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestErrorf(t *testing.T) {
	names := map[uint16]string{
		200: "REPLY_SUCCESS",
		311: "CONTENT_TOO_LARGE", 312: "NO_ROUTE", 313: "NO_CONSUMERS", 403: "ACCESS_REFUSED", 404: "NOT_FOUND",
		405: "RESOURCE_LOCKED", 406: "PRECONDITION_FAILED",
		320: "CONNECTION_FORCED", 402: "INVALID_PATH", 501: "FRAME_ERROR", 502: "SYNTAX_ERROR",
		503: "COMMAND_INVALID", 504: "CHANNEL_ERROR", 505: "UNEXPECTED_FRAME", 506: "RESOURCE_ERROR",
		530: "NOT_ALLOWED", 540: "NOT_IMPLEMENTED", 541: "INTERNAL_ERROR",
	}
	soft := map[uint16]bool{311: true, 312: true, 313: true, 403: true, 404: true, 405: true, 406: true}
	for code := range uint16(1000) {
		if got := CodeName(code); got != names[code] {
			t.Errorf("CodeName(%d) = %q, want %q", code, got, names[code])
		}
		want := ScopeConnection
		if soft[code] {
			want = ScopeChannel
		}
		e := Errorf(code, "x %d%%", 1)
		if e.Scope != want || e.Code != code || e.Text != "x 1%" {
			t.Errorf("Errorf(%d) = %+v", code, *e)
		}
	}
}

func TestReplyText(t *testing.T) {
	long := strings.Repeat("x", 300)
	cases := []struct {
		e    *Error
		want string
	}{
		{Errorf(404, "no queue 'q' in vhost '/'"), "NOT_FOUND - no queue 'q' in vhost '/'"},
		{Errorf(541, ""), "INTERNAL_ERROR"},
		{Errorf(599, "odd"), "odd"},
		{Errorf(404, "%s", long[:243]), "NOT_FOUND - " + long[:243]},
		{Errorf(404, "%s", long[:244]), "NOT_FOUND - " + long[:240] + "..."},
		{Errorf(404, "%s", long), "NOT_FOUND - " + long[:240] + "..."},
		{Errorf(404, "%sé and more text", long[:239]), "NOT_FOUND - " + long[:239] + "..."},
		{Errorf(404, "%sé and more text", long[:238]), "NOT_FOUND - " + long[:238] + "é..."},
		{Errorf(404, "%s\U0001F407 and more text", long[:237]), "NOT_FOUND - " + long[:237] + "..."},
		{Errorf(404, "%s", strings.Repeat("\x80", 300)), "NOT_FOUND - " + strings.Repeat("\x80", 237) + "..."},
	}
	for _, c := range cases {
		if got := c.e.ReplyText(); got != c.want || len(got) > 255 {
			t.Errorf("%d bytes: %q\nwant %q", len(got), got, c.want)
		}
	}
}

func TestErrorAt(t *testing.T) {
	e := Errorf(NotFound, "no queue")
	at := e.At(QueueDeclareID)
	if diff := cmp.Diff(&Error{Code: 404, Text: "no queue", Class: 50, Method: 10}, at); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if e.Class != 0 || e.Method != 0 {
		t.Error("At changed the original")
	}
	if again := at.At(BasicPublishID); again.Class != 50 || again.Method != 10 {
		t.Errorf("a second At blames %d.%d", again.Class, again.Method)
	}
}

func TestErrorString(t *testing.T) {
	if got := Errorf(404, "no queue").Error(); got != "protocol error 404: NOT_FOUND - no queue" {
		t.Error(got)
	}
	if got := Reset("unknown method 99.1").Error(); got != "protocol error, connection reset: unknown method 99.1" {
		t.Error(got)
	}
}

// The expected texts were printed by Erlang, but for the last two: see ErlangBinary.
func TestErlangBinary(t *testing.T) {
	cases := map[string]string{
		"":                  `<<>>`,
		"abc":               `<<"abc">>`,
		"~^ ":               `<<"~^ ">>`,
		"a\"b\\":            `<<"a\"b\\">>`,
		"a\n\r\t\v\b\f\x1b": `<<"a\n\r\t\v\b\f\e">>`,
		"\x00\x32":          `<<0,50>>`,
		"a\x7f":             `<<97,127>>`,
		"\x9f":              `<<159>>`,
		"\xe4bc":            `<<228,98,99>>`,
		"\xc3\xa4":          `<<195,164>>`,
	}
	for in, want := range cases {
		if got := ErlangBinary([]byte(in)); got != want {
			t.Errorf("%q prints %s, want %s", in, got, want)
		}
	}
}

func TestFrameErrorText(t *testing.T) {
	cases := []struct {
		typ                   byte
		payload, reason, want string
	}{
		{9, "abc", "unknown_frame", `type 9, all octets = <<"abc">>: unknown_frame`},
		{8, "", "", `type 8, all octets = <<>>`},
		{8, "x", "unknown_frame", `type 8, all octets = <<"x">>: unknown_frame`},
		{9, "abcdefghijklmnop", "unknown_frame", `type 9, all octets = <<"abcdefghijklmnop">>: unknown_frame`},
		{9, "abcdefghijklmnop\x00", "unknown_frame", `type 9, first 16 octets = <<"abcdefghijklmnop">>: unknown_frame`},
	}
	for _, c := range cases {
		if got := FrameErrorText(Frame{Type: c.typ, Channel: 1, Payload: []byte(c.payload)}, c.reason); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
