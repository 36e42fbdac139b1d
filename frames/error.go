package frames

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Reply codes of channel.close, connection.close and basic.return (AMQP 0-9-1 section 1.2, "constants";
// 313, 402, 502 and 506 are listed but rare in RabbitMQ).
const (
	ReplySuccess       = 200
	ContentTooLarge    = 311
	NoRoute            = 312
	NoConsumers        = 313
	ConnectionForced   = 320
	InvalidPath        = 402
	AccessRefused      = 403
	NotFound           = 404
	ResourceLocked     = 405
	PreconditionFailed = 406
	FrameError         = 501
	SyntaxError        = 502
	CommandInvalid     = 503
	ChannelError       = 504
	UnexpectedFrame    = 505
	ResourceError      = 506
	NotAllowed         = 530
	NotImplemented     = 540
	InternalError      = 541
)

// Scope says what a protocol error ends.
type Scope uint8

// The scopes. ScopeReset drops the socket without a method, which is what RabbitMQ does for input it
// crashes on.
const (
	ScopeChannel Scope = iota
	ScopeConnection
	ScopeReset
)

// Error is a protocol error with its fate: which close method answers it, with what. Handlers return it
// and exactly one function of the connection turns it into frames. It is immutable once returned.
type Error struct {
	Code          uint16
	Text          string // without the name of the code; see ReplyText
	Class, Method uint16 // the method that failed, 0 and 0 when none is to blame
	Scope         Scope
}

// maxReplyText is the longest shortstr.
const maxReplyText = 255

// Error describes the error for logs.
func (e *Error) Error() string {
	if e.Scope == ScopeReset {
		return "protocol error, connection reset: " + e.Text
	}
	return fmt.Sprintf("protocol error %d: %s", e.Code, e.ReplyText())
}

// ReplyText returns the reply-text of the close method: "NOT_FOUND - text", or the bare name when there is
// no text. As in RabbitMQ a text over 255 bytes is cut and ends in "..."; ours is cut between characters,
// so that the result stays valid UTF-8.
func (e *Error) ReplyText() string {
	name := CodeName(e.Code)
	text := name
	switch {
	case name == "":
		text = e.Text
	case e.Text != "":
		text = name + " - " + e.Text
	}
	if len(text) <= maxReplyText {
		return text
	}
	cut := maxReplyText - len("...")
	for back := 0; back < utf8.UTFMax-1 && !utf8.RuneStart(text[cut]); back++ {
		cut--
	}
	return text[:cut] + "..."
}

// At returns a copy that blames the method, or e itself when it already names one.
func (e *Error) At(id MethodID) *Error {
	if e.Class != 0 || e.Method != 0 {
		return e
	}
	c := *e
	c.Class, c.Method = id.Class(), id.Method()
	return &c
}

// Errorf makes an error whose scope follows from the code: the soft errors 311, 312, 313, 403, 404, 405
// and 406 end the channel, all others the connection.
func Errorf(code uint16, format string, a ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, a...), Scope: scopeOf(code)}
}

// Reset makes an error that ends the socket without a method; the reason is for the log only.
func Reset(reason string) *Error {
	return &Error{Text: reason, Scope: ScopeReset}
}

func scopeOf(code uint16) Scope {
	switch code {
	case ContentTooLarge, NoRoute, NoConsumers, AccessRefused, NotFound, ResourceLocked, PreconditionFailed:
		return ScopeChannel
	}
	return ScopeConnection
}

// CodeName returns the name RabbitMQ puts in front of a reply text, "" for an unknown code.
func CodeName(code uint16) string {
	switch code {
	case ReplySuccess:
		return "REPLY_SUCCESS"
	case ContentTooLarge:
		return "CONTENT_TOO_LARGE"
	case NoRoute:
		return "NO_ROUTE"
	case NoConsumers:
		return "NO_CONSUMERS"
	case ConnectionForced:
		return "CONNECTION_FORCED"
	case InvalidPath:
		return "INVALID_PATH"
	case AccessRefused:
		return "ACCESS_REFUSED"
	case NotFound:
		return "NOT_FOUND"
	case ResourceLocked:
		return "RESOURCE_LOCKED"
	case PreconditionFailed:
		return "PRECONDITION_FAILED"
	}
	return hardCodeName(code)
}

func hardCodeName(code uint16) string {
	switch code {
	case FrameError:
		return "FRAME_ERROR"
	case SyntaxError:
		return "SYNTAX_ERROR"
	case CommandInvalid:
		return "COMMAND_INVALID"
	case ChannelError:
		return "CHANNEL_ERROR"
	case UnexpectedFrame:
		return "UNEXPECTED_FRAME"
	case ResourceError:
		return "RESOURCE_ERROR"
	case NotAllowed:
		return "NOT_ALLOWED"
	case NotImplemented:
		return "NOT_IMPLEMENTED"
	case InternalError:
		return "INTERNAL_ERROR"
	}
	return ""
}

// snippetOctets is how much of a payload RabbitMQ shows in a frame error.
const snippetOctets = 16

// FrameErrorText describes a frame as RabbitMQ does in its frame errors:
// `type 9, all octets = <<"abc">>: unknown_frame`, with "first 16 octets" for longer payloads. An empty
// reason appends nothing.
func FrameErrorText(f Frame, reason string) string {
	which, shown := "all", f.Payload
	if len(shown) > snippetOctets {
		which, shown = "first 16", shown[:snippetOctets]
	}
	text := fmt.Sprintf("type %d, %s octets = %s", f.Type, which, ErlangBinary(shown))
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// unknownFrame is RabbitMQ's error for a frame it can make nothing of.
func unknownFrame(typ byte, payload []byte) *Error {
	return Errorf(FrameError, "%s", FrameErrorText(Frame{Type: typ, Payload: payload}, "unknown_frame"))
}

// ErlangBinary prints bytes the way Erlang's ~p does: <<"abc">> when all are printable, <<0,50>> otherwise,
// <<>> when empty. Erlang also counts letters beyond ASCII as printable, as Latin-1 or UTF-8 by version, and
// RabbitMQ then sends text that is not always UTF-8; here they make the numeric form.
func ErlangBinary(b []byte) string {
	if len(b) == 0 {
		return "<<>>"
	}
	for _, c := range b {
		if !erlangPrintable(c) {
			return erlangNumbers(b)
		}
	}
	var s strings.Builder
	s.WriteString(`<<"`)
	for _, c := range b {
		if e := erlangEscape(c); e != 0 {
			s.WriteByte('\\')
			s.WriteByte(e)
		} else {
			s.WriteByte(c)
		}
	}
	s.WriteString(`">>`)
	return s.String()
}

// erlangNumbers prints bytes the way Erlang's ~w does: always <<1,2,3>>.
func erlangNumbers(b []byte) string {
	s := []byte("<<")
	for i, c := range b {
		if i > 0 {
			s = append(s, ',')
		}
		s = strconv.AppendUint(s, uint64(c), 10)
	}
	return string(append(s, ">>"...))
}

func erlangPrintable(c byte) bool {
	return c >= ' ' && c <= '~' || erlangEscape(c) != 0
}

// erlangEscape returns the letter after the backslash of an escaped character, 0 for others.
func erlangEscape(c byte) byte {
	switch c {
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	case '\v':
		return 'v'
	case '\b':
		return 'b'
	case '\f':
		return 'f'
	case 0x1b:
		return 'e'
	case '"', '\\':
		return c
	}
	return 0
}
