package auth

import (
	"encoding/binary"
	"fmt"
)

// maxLoginDepth bounds how deep tables and arrays may lie in each other in an AMQPLAIN response, which needs none.
const maxLoginDepth = 32

// amqplain is AMQPLAIN: the fields of a table, without the table's length, in which LOGIN and PASSWORD are strings.
// Other fields are checked and ignored. Of fields with the same name the first counts.
type amqplain struct {
	backend Backend
	rule    LoopbackRule
}

// Name implements Mechanism.
func (amqplain) Name() string { return "AMQPLAIN" }

// Respond implements Mechanism.
func (m amqplain) Respond(response []byte, c ConnInfo) (string, error) {
	user, password, err := parseAMQPLAIN(response)
	if err != nil {
		return "", err
	}
	return login(m.backend, m.rule, user, password, c)
}

func parseAMQPLAIN(response []byte) (user, password string, err error) {
	var f loginFields
	if !f.read(response, 0) {
		return "", "", fmt.Errorf("%w: AMQPLAIN is not a table", ErrMalformed)
	}
	if !f.login.set || !f.password.set || !f.login.text || !f.password.text {
		return "", "", fmt.Errorf("%w: AMQPLAIN needs the strings LOGIN and PASSWORD", ErrMalformed)
	}
	return string(f.login.value), string(f.password.value), nil
}

// loginFields are the two fields AMQPLAIN is about.
type loginFields struct{ login, password loginField }

type loginField struct {
	set   bool
	text  bool // S, or x, which RabbitMQ takes for the same here
	value []byte
}

// keep notes a field of the outermost table.
func (f *loginFields) keep(key []byte, kind byte, value []byte) {
	field := &f.login
	switch string(key) {
	case "LOGIN":
	case "PASSWORD":
		field = &f.password
	default:
		return
	}
	if !field.set {
		*field = loginField{set: true, text: kind == 'S' || kind == 'x', value: value}
	}
}

// read checks the fields of a table and keeps those of the outermost one (depth 0). It returns false for anything that
// is not a table to the last byte.
func (f *loginFields) read(b []byte, depth int) bool {
	for len(b) > 0 {
		n := 1 + int(b[0])
		if len(b) < n+1 {
			return false
		}
		key, kind := b[1:n], b[n]
		value, rest, ok := cutValue(kind, b[n+1:])
		if !ok || !f.nested(kind, value, depth) {
			return false
		}
		if depth == 0 {
			f.keep(key, kind, value)
		}
		b = rest
	}
	return true
}

// readArray checks the elements of an array.
func (f *loginFields) readArray(b []byte, depth int) bool {
	for len(b) > 0 {
		value, rest, ok := cutValue(b[0], b[1:])
		if !ok || !f.nested(b[0], value, depth) {
			return false
		}
		b = rest
	}
	return true
}

// nested checks what lies in a table or an array found at this depth.
func (f *loginFields) nested(kind byte, value []byte, depth int) bool {
	switch kind {
	case 'F':
		return depth < maxLoginDepth && f.read(value, depth+1)
	case 'A':
		return depth < maxLoginDepth && f.readArray(value, depth+1)
	}
	return true
}

// cutValue splits b behind a field value of this kind: value is what a length stands before, or all of a value of
// fixed size. The kinds are those RabbitMQ knows (behaviour of its table parser), which has no U and no s for strings.
func cutValue(kind byte, b []byte) (value, rest []byte, ok bool) {
	var size int
	switch kind {
	case 'V':
		size = 0
	case 't', 'b', 'B':
		size = 1
	case 's', 'u':
		size = 2
	case 'I', 'i', 'f':
		size = 4
	case 'D':
		size = 5
	case 'l', 'L', 'd', 'T':
		size = 8
	case 'S', 'x', 'F', 'A':
		if len(b) < 4 {
			return nil, nil, false
		}
		n := binary.BigEndian.Uint32(b)
		if b = b[4:]; uint64(n) > uint64(len(b)) {
			return nil, nil, false
		}
		size = int(n)
	default:
		return nil, nil, false
	}
	if len(b) < size {
		return nil, nil, false
	}
	return b[:size], b[size:], true
}
