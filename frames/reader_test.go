package frames

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// rawFrame makes the bytes of one frame without the help of the package's encoders.
func rawFrame(typ byte, channel uint16, payload string) string {
	head := []byte{typ, byte(channel >> 8), byte(channel), 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[3:], uint32(len(payload)))
	return string(head) + payload + "\xce"
}

// copied is a frame that outlives the reader.
type copied struct {
	Type    byte
	Channel uint16
	Payload string
}

// readAll reads frames until an error.
func readAll(r *Reader) (all []copied, err error) {
	for {
		f, err := r.Next()
		if err != nil {
			return all, err
		}
		all = append(all, copied{f.Type, f.Channel, string(f.Payload)})
	}
}

func TestReaderFrames(t *testing.T) {
	stream := rawFrame(1, 1, "abc") + rawFrame(8, 0, "") + rawFrame(3, 65535, strings.Repeat("b", 4096)) + rawFrame(77, 2, "\xce")
	want := []copied{{1, 1, "abc"}, {8, 0, ""}, {3, 65535, strings.Repeat("b", 4096)}, {77, 2, "\xce"}}
	sources := map[string]func(io.Reader) io.Reader{
		"whole":         func(r io.Reader) io.Reader { return r },
		"octet-wise":    iotest.OneByteReader,
		"by halves":     iotest.HalfReader,
		"data with EOF": iotest.DataErrReader,
	}
	for name, wrap := range sources {
		r := NewReader(wrap(strings.NewReader(stream)))
		got, err := readAll(r)
		if diff := cmp.Diff(want, got); diff != "" || err != io.EOF {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if r.BytesRead() != uint64(len(stream)) {
			t.Errorf("%s: %d bytes read of %d", name, r.BytesRead(), len(stream))
		}
	}
}

func TestReaderCutInside(t *testing.T) {
	whole := rawFrame(1, 1, "abc")
	for n := 1; n < len(whole); n++ {
		r := NewReader(iotest.DataErrReader(strings.NewReader(rawFrame(8, 0, "") + whole[:n])))
		got, err := readAll(r)
		if len(got) != 1 || err != io.ErrUnexpectedEOF {
			t.Errorf("cut after %d octets: %d frames, %v", n, len(got), err)
		}
	}
}

// The texts are those RabbitMQ 3.10.8 and 4.3.6 send.
func TestReaderErrors(t *testing.T) {
	cases := []struct {
		name, stream string
		limit        uint32
		want         string
	}{
		{"end octet", rawFrame(1, 1, "\x00\x32\x00\x0a")[:11] + "X", 131072,
			"FRAME_ERROR - type 1, all octets = <<0,50,0,10>>: {invalid_frame_end_marker,88}"},
		{"end octet behind a long payload", rawFrame(3, 1, "abcdefghijklmnopq")[:24] + "\x00", 131072,
			"FRAME_ERROR - type 3, first 16 octets = <<\"abcdefghijklmnop\">>: {invalid_frame_end_marker,0}"},
		{"oversize", "\x01\x00\x01\x00\x03\x0d\x40", 131072,
			"FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,200000,131064}"},
		{"oversize before tune-ok", "\x01\x00\x01\x00\x00\x10\x01", 4096,
			"FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,4097,4088}"},
		{"oversize without a limit", "\x03\x00\x01\xff\xff\xff\xff", 0,
			"FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4294967295,67108856}"},
		{"limit beyond the bound", "\x03\x00\x01\x04\x00\x00\x01", 1 << 31,
			"FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,67108865,67108856}"},
	}
	for _, c := range cases {
		r := NewReader(strings.NewReader(rawFrame(8, 0, "") + c.stream + rawFrame(8, 0, "")))
		r.SetLimit(c.limit)
		got, err := readAll(r)
		var e *Error
		if !errors.As(err, &e) || len(got) != 1 {
			t.Errorf("%s: %d frames, %v", c.name, len(got), err)
			continue
		}
		if e.Code != FrameError || e.Scope != ScopeConnection || e.Class != 0 || e.Method != 0 || e.ReplyText() != c.want {
			t.Errorf("%s:\n got %+v %s\nwant %s", c.name, *e, e.ReplyText(), c.want)
		}
		if _, again := r.Next(); again != err {
			t.Errorf("%s: the lost stream then says %v", c.name, again)
		}
		if !r.Buffered() {
			t.Errorf("%s: a lost stream would block", c.name)
		}
	}
}

// The limit counts the payload, so eight octets more than a frame-max means get through, as in RabbitMQ.
func TestReaderLimitSlack(t *testing.T) {
	stream := rawFrame(3, 1, strings.Repeat("x", 4096))
	if _, err := NewReader(strings.NewReader(stream)).Next(); err != nil {
		t.Errorf("4096 octets before tune-ok: %v", err)
	}
	r := NewReader(strings.NewReader(stream + rawFrame(3, 1, strings.Repeat("x", 5000))))
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	r.SetLimit(5000)
	if f, err := r.Next(); err != nil || len(f.Payload) != 5000 {
		t.Errorf("5000 octets on a limit of 5000: %d, %v", len(f.Payload), err)
	}
}

func TestReaderBuffered(t *testing.T) {
	in, out := io.Pipe()
	go func() {
		for _, part := range []string{
			rawFrame(1, 1, "a") + rawFrame(1, 1, "b") + rawFrame(1, 1, "c")[:6],
			rawFrame(1, 1, "c")[6:8], rawFrame(1, 1, "c")[8:], "",
		} {
			io.WriteString(out, part)
		}
		out.Close()
	}()
	r := NewReader(in)
	if r.Buffered() {
		t.Error("a frame before anything was read")
	}
	for i, want := range []bool{true, false, false} {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if r.Buffered() != want {
			t.Errorf("after frame %d Buffered is %t", i, !want)
		}
	}
	big := NewReader(strings.NewReader(rawFrame(8, 0, "") + "\x03\x00\x01\x7f\x00\x00\x00"))
	if _, err := big.Next(); err != nil {
		t.Fatal(err)
	}
	if !big.Buffered() {
		t.Error("an oversize frame, which Next refuses at once, is not buffered")
	}
}

// interrupted returns an error before every octet, as a connection with deadlines may.
type interrupted struct {
	src  io.Reader
	next bool
}

var errDeadline = errors.New("deadline")

func (s *interrupted) Read(b []byte) (int, error) {
	if s.next = !s.next; s.next {
		return 0, errDeadline
	}
	return s.src.Read(b[:1])
}

func TestReaderGoesOnAfterErrors(t *testing.T) {
	stream := rawFrame(1, 1, "abc") + rawFrame(2, 2, "def")
	r := NewReader(&interrupted{src: strings.NewReader("AMQP\x00\x00\x09\x01" + stream)})
	for n := range 8 {
		got, have, err := r.ReadProtocolHeader()
		if have != n || err != errDeadline {
			t.Fatalf("%d octets of the header %q, %v", have, got, err)
		}
	}
	header, n, err := r.ReadProtocolHeader()
	if string(header[:]) != "AMQP\x00\x00\x09\x01" || n != 8 || err != nil {
		t.Fatalf("header %q, %d octets, %v", header, n, err)
	}
	var got []copied
	for range 1000 {
		f, err := r.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			got = append(got, copied{f.Type, f.Channel, string(f.Payload)})
		} else if err != errDeadline {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]copied{{1, 1, "abc"}, {2, 2, "def"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// brokenSource counts wrongly or never gets anywhere.
type brokenSource int

func (n brokenSource) Read(b []byte) (int, error) { return int(n), nil }

func TestReaderBrokenSources(t *testing.T) {
	if _, err := NewReader(brokenSource(0)).Next(); err != io.ErrNoProgress {
		t.Errorf("a source of nothing: %v", err)
	}
	for _, n := range []int{-1, 1 << 20} {
		if _, err := NewReader(brokenSource(n)).Next(); err == nil {
			t.Errorf("a source that returns %d is believed", n)
		}
	}
}

func TestReadProtocolHeader(t *testing.T) {
	cases := []struct {
		stream string
		n      int
		err    error
	}{
		{"", 0, io.EOF},
		{"GET /", 5, io.ErrUnexpectedEOF},
		{"AMQP\x00\x00\x09\x01", 8, nil},
		{"AMQP\x00\x00\x09\x01" + rawFrame(1, 0, "next"), 8, nil},
	}
	for _, c := range cases {
		r := NewReader(strings.NewReader(c.stream))
		header, n, err := r.ReadProtocolHeader()
		if n != c.n || err != c.err || string(header[:n]) != c.stream[:n] {
			t.Errorf("%q: %q, %d octets, %v", c.stream, header, n, err)
		}
		if len(c.stream) > 8 {
			if f, err := r.Next(); err != nil || string(f.Payload) != "next" {
				t.Errorf("the frame behind the header: %q, %v", f.Payload, err)
			}
		}
	}
}

// chunks hands out one string a read, as a socket hands out what has arrived.
type chunks struct {
	list []string
	read func() // called before each read
}

func (c *chunks) Read(b []byte) (int, error) {
	if c.read != nil {
		c.read()
	}
	if len(c.list) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.list[0])
	if c.list[0] = c.list[0][n:]; c.list[0] == "" {
		c.list = c.list[1:]
	}
	return n, nil
}

func TestReaderBufferFollowsLoad(t *testing.T) {
	quiet := rawFrame(8, 0, "")
	busy := strings.Repeat(rawFrame(3, 1, strings.Repeat("x", 1000)), 100)
	src := &chunks{list: []string{quiet, busy, quiet, quiet, quiet, quiet, quiet}}
	r := NewReader(src)
	var sizes []int
	src.read = func() { sizes = append(sizes, len(r.buf)) }
	if all, err := readAll(r); err != io.EOF || len(all) != 106 {
		t.Fatalf("%d frames, %v", len(all), err)
	}
	want := []int{restSize, restSize, loadSize, loadSize, loadSize, loadSize, loadSize, loadSize, restSize, restSize}
	if diff := cmp.Diff(want, sizes); diff != "" {
		t.Errorf("buffer sizes at each read (-want +got):\n%s", diff)
	}
}

func TestReaderBufferForLargeFrames(t *testing.T) {
	src := &chunks{}
	r := NewReader(src)
	r.SetLimit(1 << 20)
	most := 0
	src.read = func() { most = max(most, len(r.buf)) }
	for range 1000 {
		src.list = append(src.list, strings.Repeat("x", 1000))
	}
	src.list[0] = "\x03\x00\x01\x00\x10\x00\x00" // announces a mebibyte
	if _, err := r.Next(); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if most > 1<<20+Overhead {
		t.Errorf("buffer of %d for a frame of a mebibyte", most)
	}
	src = &chunks{list: []string{"\x03\x00\x01\x00\x10\x00\x00"}}
	r = NewReader(src)
	r.SetLimit(1 << 20)
	if _, err := r.Next(); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if len(r.buf) > loadSize {
		t.Errorf("buffer of %d for a frame that never came", len(r.buf))
	}
	src = &chunks{list: []string{"\x03\x00\x01\x00\x10\x00\x00", strings.Repeat("x", loadSize+1000)}}
	r = NewReader(src)
	r.SetLimit(1 << 20)
	if _, err := r.Next(); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if len(r.buf) != growthSteps*loadSize {
		t.Errorf("buffer of %d for a frame of which %d came", len(r.buf), loadSize+1000)
	}
	src = &chunks{list: []string{rawFrame(3, 1, strings.Repeat("x", 1<<20))}}
	for range quietReads + 1 {
		src.list = append(src.list, rawFrame(8, 0, ""))
	}
	r = NewReader(src)
	r.SetLimit(1 << 20)
	if all, err := readAll(r); err != io.EOF || len(all) != quietReads+2 || len(all[0].Payload) != 1<<20 {
		t.Fatalf("%d frames, %v", len(all), err)
	}
	if len(r.buf) != restSize {
		t.Errorf("buffer of %d long after the large frame", len(r.buf))
	}
}

// Whatever the sizes and however the stream is cut up, the frames are the same.
func TestReaderAnyChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []copied
		var stream []byte
		for range rapid.IntRange(0, 20).Draw(t, "frames") {
			size := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(4000, 4200), rapid.IntRange(60000, 140000)).Draw(t, "size")
			f := copied{rapid.Byte().Draw(t, "type"), rapid.Uint16().Draw(t, "channel"), strings.Repeat("p", size)}
			want = append(want, f)
			stream = append(stream, rawFrame(f.Type, f.Channel, f.Payload)...)
		}
		src := &chunks{}
		for rest := string(stream); rest != ""; {
			n := rapid.OneOf(rapid.IntRange(1, 50), rapid.IntRange(1000, 200000)).Draw(t, "chunk")
			n = min(max(n, len(stream)/200), len(rest))
			src.list, rest = append(src.list, rest[:n]), rest[n:]
		}
		r := NewReader(src)
		r.SetLimit(0)
		got, err := readAll(r)
		if err != io.EOF || !cmp.Equal(want, got) {
			t.Fatalf("%d frames instead of %d, %v", len(got), len(want), err)
		}
	})
}

func TestReaderPayloadCannotReachBeyondItself(t *testing.T) {
	r := NewReader(strings.NewReader(rawFrame(3, 2, "mine") + rawFrame(3, 3, "other")))
	f, err := r.Next()
	if err != nil || string(f.Payload) != "mine" || cap(f.Payload) != len("mine") {
		t.Errorf("payload %q with capacity %d, %v", f.Payload, cap(f.Payload), err)
	}
}
