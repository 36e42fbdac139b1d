package conformance

import (
	"fmt"

	"github.com/warrenmq/warren/conformance/wire"
)

// replyNames are the names that precede the explanation in a reply-text, by reply-code (specification 1.1).
var replyNames = map[uint16]string{
	311: "CONTENT_TOO_LARGE", 312: "NO_ROUTE", 313: "NO_CONSUMERS", 320: "CONNECTION_FORCED", 402: "INVALID_PATH",
	403: "ACCESS_REFUSED", 404: "NOT_FOUND", 405: "RESOURCE_LOCKED", 406: "PRECONDITION_FAILED", 501: "FRAME_ERROR",
	502: "SYNTAX_ERROR", 503: "COMMAND_INVALID", 504: "CHANNEL_ERROR", 505: "UNEXPECTED_FRAME", 506: "RESOURCE_ERROR",
	530: "NOT_ALLOWED", 540: "NOT_IMPLEMENTED", 541: "INTERNAL_ERROR",
}

// closing is a demanded channel.close or connection.close.
type closing struct {
	hard          bool // the connection, not the channel
	code          uint16
	class, method uint16
	text          string // after "NAME - ", with the names of T.Text; empty means the bare name
}

// soft is a channel.close that blames m; a nil m means the ids 0,0.
func soft(code uint16, m wire.Method, text string) closing { return newClosing(false, code, m, text) }

// hard is a connection.close that blames m; a nil m means the ids 0,0.
func hard(code uint16, m wire.Method, text string) closing { return newClosing(true, code, m, text) }

func newClosing(isHard bool, code uint16, m wire.Method, text string) closing {
	c := closing{hard: isHard, code: code, text: text}
	if m != nil {
		c.class, c.method = wire.ID(m)
	}
	return c
}

// replyText gives the whole text as it goes on the wire, cut as RabbitMQ cuts it at 255 bytes.
func (c closing) replyText(t *T) string {
	name, ok := replyNames[c.code]
	if !ok {
		panic(fmt.Sprintf("conformance: reply code %d has no name", c.code))
	}
	if c.text == "" {
		return name
	}
	s := name + " - " + t.Text(c.text)
	if len(s) > 255 {
		s = s[:252] + "..."
	}
	return s
}

// refusal is a case in one line: on a fresh channel do something, then the broker must close with want.
type refusal struct {
	id, title, source string
	do                func(t *T, ch *Chan)
	want              closing
	want4             closing // under profile 4, when it differs
}

// refusals turns rows into cases of a class.
func refusals(class Class, rows []refusal) []Case {
	var cases []Case
	for _, r := range rows {
		cases = append(cases, Case{ID: r.id, Title: r.title, Source: r.source, Class: class, Run: func(t *T) {
			ch := t.Channel()
			r.do(t, ch)
			want := r.want
			if t.Four() && r.want4.code != 0 {
				want = r.want4
			}
			ch.WantClosing(want)
		}})
	}
	return cases
}
