package frames

import (
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Decoded values are compared with reflect.DeepEqual here: go-cmp takes time exponential in the nesting, and
// the fuzzer finds tables nested hundredfold.

// naiveFrames cuts a stream into frames the plain way; the last one's payload may be followed by an error
// text ("" when the stream ends between frames).
func naiveFrames(b []byte, limit uint32) (all []copied, failure string) {
	for len(b) > 0 {
		if len(b) < HeaderSize {
			return all, io.ErrUnexpectedEOF.Error()
		}
		size := binary.BigEndian.Uint32(b[3:])
		if size > limit {
			return all, "frame_too_large"
		}
		if uint64(len(b)) < uint64(size)+Overhead {
			return all, io.ErrUnexpectedEOF.Error()
		}
		if b[HeaderSize+size] != FrameEnd {
			return all, "invalid_frame_end_marker"
		}
		all = append(all, copied{b[0], binary.BigEndian.Uint16(b[1:]), string(b[HeaderSize : HeaderSize+size])})
		b = b[Overhead+size:]
	}
	return all, ""
}

// chunked hands out a stream in pieces whose sizes follow a pattern.
type chunked struct {
	rest    []byte
	pattern []byte
	at      int
}

func (c *chunked) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := len(c.rest)
	if len(c.pattern) > 0 {
		n = 1 + 17*int(c.pattern[c.at%len(c.pattern)])
		c.at++
	}
	n = copy(b, c.rest[:min(n, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(rawFrame(1, 1, "abc")+rawFrame(8, 0, "")), []byte{0}, uint32(4096))
	f.Add([]byte(rawFrame(3, 1, "abc")[:10]+"X"), []byte{}, uint32(0))
	f.Add(AppendBodyFrames(nil, 1, make([]byte, 5000), 4096), []byte{200, 1, 90}, uint32(4088))
	f.Fuzz(func(t *testing.T, stream, pattern []byte, limit uint32) {
		r := NewReader(&chunked{rest: stream, pattern: pattern})
		r.SetLimit(limit)
		want, failure := naiveFrames(stream, r.limit)
		var got []copied
		var err error
		for {
			buffered, before := r.Buffered(), r.BytesRead()
			var fr Frame
			if fr, err = r.Next(); buffered && r.BytesRead() != before {
				t.Fatal("Next read although a frame was buffered")
			}
			if err != nil {
				break
			}
			got = append(got, copied{fr.Type, fr.Channel, string(fr.Payload)})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("frames (-want +got):\n%s", diff)
		}
		var e *Error
		switch failure {
		case "":
			if err != io.EOF {
				t.Fatalf("ends with %v, want EOF", err)
			}
		case io.ErrUnexpectedEOF.Error():
			if err != io.ErrUnexpectedEOF {
				t.Fatalf("ends with %v, want an unexpected EOF", err)
			}
		default:
			if !errors.As(err, &e) || e.Code != FrameError || !strings.Contains(e.Text, failure) {
				t.Fatalf("ends with %v, want %s", err, failure)
			}
		}
		if cap(r.buf) > max(loadSize, 2*len(stream)) {
			t.Fatalf("a buffer of %d for %d octets", cap(r.buf), len(stream))
		}
	})
}

func FuzzMethod(f *testing.F) {
	for _, c := range readGoldens(f) {
		f.Add(c.payload)
	}
	f.Add([]byte{0, 99, 0, 1})
	f.Add([]byte("\x00\x32\x00\x0a\x00\x00\x01\xff\x00\x00\x00\x00\x03\x01aZ"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		m, err := DecodeMethod(payload)
		if err != nil {
			checkFate(t, err)
			return
		}
		// Unused bits and odd booleans do not survive; everything else encodes as it came.
		again := m.Append(nil)
		if len(again) != len(payload) {
			t.Fatalf("%T of %d octets encodes to %d", m, len(payload), len(again))
		}
		m2, err := DecodeMethod(again)
		if err != nil {
			t.Fatalf("the encoding of %+v: %v", m, err)
		}
		if !reflect.DeepEqual(m, m2) {
			t.Fatalf("%+v is decoded again as %+v", m, m2)
		}
	})
}

// checkFate fails unless the error is one that the connection knows what to do with.
func checkFate(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *Error", err)
	}
	if len(e.ReplyText()) > maxReplyText || e.Scope == ScopeChannel {
		t.Fatalf("error %+v", *e)
	}
}

func FuzzTable(f *testing.F) {
	for _, c := range tableGoldens {
		f.Add(Table{{"k", c.value}, {"after", true}}.Append(nil))
	}
	f.Add([]byte("\x00\x00\x00\x03\x01aZ"))
	f.Add(appendLongstr(nil, nest(MaxTableDepth, 'F')))
	f.Fuzz(func(t *testing.T, b []byte) {
		table, rest, err := ReadTable(b)
		skipped, skipErr := SkipTable(b)
		if err != skipErr || len(rest) != len(skipped) {
			t.Fatalf("ReadTable leaves %d and says %v, SkipTable %d and %v", len(rest), err, len(skipped), skipErr)
		}
		for it := RawTable(b).Iter(); it.Next(); { // unchecked, so it only must not panic or hang
			_ = it.Value().Decode()
		}
		if err != nil {
			return
		}
		used := b[:len(b)-len(rest)]
		again := table.Append(nil)
		if len(again) != len(used) {
			t.Fatalf("%d octets encode to %d", len(used), len(again))
		}
		second, _, err := ReadTable(again)
		if err != nil || !reflect.DeepEqual(table, second) {
			t.Fatalf("%v is decoded again as %v, %v", table, second, err)
		}
		for _, field := range table {
			want, _ := table.Get(field.Key)
			if v, ok := RawTable(used[4:]).Lookup(field.Key); !ok || !reflect.DeepEqual(v.Decode(), want) {
				t.Fatalf("Lookup(%q) = %v %t, want %v", field.Key, v, ok, want)
			}
		}
	})
}

func FuzzProperties(f *testing.F) {
	for _, c := range propertyGoldens {
		v := only(everyProperty, c.flags)
		f.Add(v.Append(nil))
	}
	f.Add([]byte("\x80\x01\x01a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParseProperties(b)
		if err != nil {
			checkFate(t, err)
			return
		}
		v := p.Values()
		if got := v.Append(nil); len(got) != len(b) {
			t.Fatalf("%d octets encode to %d", len(b), len(got))
		}
		for flag := FlagContentType; flag >= FlagClusterID; flag >>= 1 {
			less, err := ParseProperties(p.AppendWithout(nil, flag))
			if err != nil {
				t.Fatalf("without %04x: %v", flag, err)
			}
			if want := only(v, v.Flags&^flag); !reflect.DeepEqual(want, less.Values()) {
				t.Fatalf("without %04x: %+v, want %+v", flag, less.Values(), want)
			}
		}
		more, err := ParseProperties(p.AppendWithHeaders(nil, Table{{"new", true}}))
		if h, _ := more.Headers(); err != nil || !reflect.DeepEqual(h.Decode(), Table{{"new", true}}) {
			t.Fatalf("with other headers: %v %v", h, err)
		}
	})
}
