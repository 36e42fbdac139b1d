package broker

import (
	"bytes"
	"strings"

	"github.com/warrenmq/warren/frames"
)

// maxExpiration is RabbitMQ's bound on times in milliseconds: ten years.
const maxExpiration = 315360000000

// parseExpiration reads the expiration property as RabbitMQ does: a decimal
// number of milliseconds, perhaps with a sign, that fills the whole string.
// The error is a channel error 406 (texts verified on 3.10.8 and 4.3.6).
func parseExpiration(text []byte) (ms int64, err error) {
	digits, negative := text, false
	if len(digits) > 0 && (digits[0] == '-' || digits[0] == '+') {
		negative, digits = digits[0] == '-', digits[1:]
	}
	n := 0
	for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
		n++
	}
	if n == 0 {
		return 0, invalidExpiration(text, "no_integer", "")
	}
	if n < len(digits) {
		return 0, invalidExpiration(text, "leftover_string", erlangString(latin1(digits[n:])))
	}
	number := bytes.TrimLeft(digits, "0")
	if len(number) == 0 {
		return 0, nil
	}
	if negative {
		return 0, invalidExpiration(text, "value_negative", "-"+string(number))
	}
	for _, d := range number[:min(len(number), 13)] {
		ms = ms*10 + int64(d-'0')
	}
	if ms > maxExpiration {
		return 0, invalidExpiration(text, "value_too_large", string(number))
	}
	return ms, nil
}

// latin1 reads octets as characters, as Erlang does with a binary that it takes
// for a list.
func latin1(b []byte) string {
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return string(runes)
}

// termWidth is the line length at which Erlang's printer breaks a term.
const termWidth = 80

// invalidExpiration says why an expiration is refused, with an Erlang tuple of
// tag and value, or only the tag. A tuple that would reach the end of the line
// goes on in the next, below its first element.
func invalidExpiration(text []byte, tag, value string) error {
	say := "invalid expiration '" + string(text) + "': "
	switch {
	case value == "":
		say += tag
	case len(say)+len(tag)+len(value)+len("{,}") >= termWidth:
		say += "{" + tag + ",\n" + strings.Repeat(" ", len(say)+1) + value + "}"
	default:
		say += "{" + tag + "," + value + "}"
	}
	return frames.Errorf(frames.PreconditionFailed, "%s", say)
}
