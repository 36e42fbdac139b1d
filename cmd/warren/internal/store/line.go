package store

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/warrenmq/warren/persist"
)

// exportFormat is the version of the format that is written here; older ones
// can be read, newer ones cannot.
const exportFormat = 1

// maxLine bounds a line that is read: the largest record in base64, with its
// properties.
const maxLine = persist.MaxRecordBytes/3*4 + 16<<20

// line is one line of an export; exactly one of its fields is set.
type line struct {
	Header     *header     `json:"warren_export,omitempty"`
	Definition *definition `json:"definition,omitempty"`
	Message    *message    `json:"message,omitempty"`
	Chunk      *chunk      `json:"chunk,omitempty"`
	End        *totals     `json:"end,omitempty"`
}

// header is the first line.
type header struct {
	Format int `json:"format"`
	// NextID is an id that no queue of the store has had.
	NextID uint64 `json:"next_id"`
}

// definition is a durable object.
type definition struct {
	Kind  string `json:"kind"` // one letter
	VHost text   `json:"vhost"`
	Name  text   `json:"name"`
	// Value is what the store keeps of it; Raw instead, where that is no JSON
	// in its shortest form.
	Value json.RawMessage `json:"value,omitempty"`
	Raw   *[]byte         `json:"raw,omitempty"`
}

// message is a message in a queue.
type message struct {
	Log           uint64 `json:"log"` // the queue's id, which its definition has
	Seq           uint64 `json:"seq"`
	Priority      uint8  `json:"priority"`
	Flags         uint8  `json:"flags,omitempty"`
	Expiry        int64  `json:"expiry,omitempty"` // Unix milliseconds
	Redelivered   bool   `json:"redelivered,omitempty"`
	DeliveryCount uint32 `json:"delivery_count,omitempty"`
	// Returned is how often the message was given back to a queue that counts
	// that, Failed how often because of a failure.
	Returned uint32 `json:"returned,omitempty"`
	Failed   uint32 `json:"failed,omitempty"`
	// Shared, when it is not 0, is a number that messages with the same bytes
	// have in common; only the first of them has a content.
	Shared  uint64   `json:"shared,omitempty"`
	Content *content `json:"content,omitempty"`
}

// totals count what came before: with them a file that was cut short is known.
type totals struct {
	Definitions int `json:"definitions"`
	Messages    int `json:"messages"` // not those of streams
	Chunks      int `json:"chunks"`   // of streams
}

// String is for people.
func (t totals) String() string {
	s := fmt.Sprintf("%d definitions, %d messages", t.Definitions, t.Messages)
	if t.Chunks > 0 {
		s += fmt.Sprintf(", %d chunks of streams", t.Chunks)
	}
	return s
}

func fromDefinition(d persist.Definition) definition {
	l := definition{Kind: string(rune(d.Kind)), VHost: text(d.VHost), Name: text(d.Name)}
	var short bytes.Buffer
	if json.Compact(&short, d.Value) == nil && bytes.Equal(short.Bytes(), d.Value) && plain(d.Value) {
		l.Value = d.Value
	} else {
		raw := append([]byte{}, d.Value...)
		l.Raw = &raw
	}
	return l
}

// plain says whether the JSON encoder leaves a value as it is: with EscapeHTML
// off it still escapes two line ends.
func plain(b []byte) bool { return !bytes.ContainsAny(b, "\u2028\u2029") }

// stored is the inverse of fromDefinition.
func (l *definition) stored() (persist.Definition, error) {
	if len(l.Kind) != 1 {
		return persist.Definition{}, fmt.Errorf("%q is no kind of definition", l.Kind)
	}
	if (l.Value == nil) == (l.Raw == nil) {
		return persist.Definition{}, errors.New("a definition has either a value or raw bytes")
	}
	d := persist.Definition{Key: persist.Key{Kind: l.Kind[0], VHost: string(l.VHost), Name: string(l.Name)}, Value: l.Value}
	if l.Raw != nil {
		d.Value = *l.Raw
	}
	if n := len(d.VHost) + len(d.Name); n > persist.MaxKeyBytes || len(d.Value) > persist.MaxValueBytes {
		return d, errors.New("the definition is too large")
	}
	return d, nil
}

// lines reads an export line by line.
type lines struct {
	path string
	file *os.File
	in   *bufio.Reader
	n    int // of the line read last
}

func openLines(path string) (*lines, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open export: %w", err)
	}
	return &lines{path: path, file: f, in: bufio.NewReaderSize(f, 1<<20)}, nil
}

// fault says in which line something is wrong.
func (l *lines) fault(err error) error { return fmt.Errorf("%s:%d: %w", l.path, l.n, err) }

// next reads a line; io.EOF after the last.
func (l *lines) next() (*line, error) {
	l.n++
	b, err := l.read()
	if err == io.EOF && len(b) == 0 {
		return nil, io.EOF
	}
	if err == io.EOF {
		return nil, l.fault(errors.New("the line is cut short: it has no end"))
	}
	if err != nil {
		return nil, l.fault(err)
	}
	var parsed line
	if err := strict(b, &parsed); err != nil {
		return nil, l.fault(err)
	}
	set := 0
	for _, is := range []bool{parsed.Header != nil, parsed.Definition != nil, parsed.Message != nil, parsed.Chunk != nil, parsed.End != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return nil, l.fault(errors.New("a line is one of warren_export, definition, message, chunk and end"))
	}
	return &parsed, nil
}

// read gives the bytes of a line, its end included.
func (l *lines) read() ([]byte, error) {
	var whole []byte
	for {
		part, err := l.in.ReadSlice('\n')
		whole = append(whole, part...)
		if len(whole) > maxLine {
			return nil, fmt.Errorf("the line is longer than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return whole, err
		}
	}
}
