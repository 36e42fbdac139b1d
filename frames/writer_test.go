package frames

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The hand-written method frames are those of the generated structs.
func TestHotMethods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		str := rapid.StringN(-1, -1, 300)
		channel := rapid.Uint16().Draw(t, "channel")
		a, b, c := str.Draw(t, "a"), str.Draw(t, "b"), str.Draw(t, "c")
		tag := rapid.Uint64().Draw(t, "tag")
		x, y := rapid.Bool().Draw(t, "x"), rapid.Bool().Draw(t, "y")
		n := rapid.Uint32().Draw(t, "n")
		cases := []struct {
			got  []byte
			want Method
		}{
			{AppendDeliver([]byte("-"), channel, a, tag, x, b, c),
				&BasicDeliver{ConsumerTag: a, DeliveryTag: tag, Redelivered: x, Exchange: b, RoutingKey: c}},
			{AppendGetOk([]byte("-"), channel, tag, x, b, c, n),
				&BasicGetOk{DeliveryTag: tag, Redelivered: x, Exchange: b, RoutingKey: c, MessageCount: n}},
			{AppendReturn([]byte("-"), channel, uint16(n), a, b, c),
				&BasicReturn{ReplyCode: uint16(n), ReplyText: a, Exchange: b, RoutingKey: c}},
			{AppendAck([]byte("-"), channel, tag, x), &BasicAck{DeliveryTag: tag, Multiple: x}},
			{AppendNack([]byte("-"), channel, tag, x, y), &BasicNack{DeliveryTag: tag, Multiple: x, Requeue: y}},
		}
		for _, c := range cases {
			if want := AppendMethodFrame([]byte("-"), channel, c.want); string(c.got) != string(want) {
				t.Fatalf("%v: %x, want %x", c.want.ID(), c.got, want)
			}
		}
	})
}

func TestAppendFrames(t *testing.T) {
	got := AppendMethodFrame(nil, 258, &BasicAck{DeliveryTag: 3, Multiple: true})
	want := "\x01\x01\x02\x00\x00\x00\x0d\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x03\x01\xce"
	if string(got) != want {
		t.Errorf("method frame %x, want %x", got, want)
	}
	if got := AppendHeartbeat(nil); string(got) != "\x08\x00\x00\x00\x00\x00\x00\xce" {
		t.Errorf("heartbeat %x", got)
	}
	got = AppendHeaderFrame(nil, 1, 0x0102030405, []byte("\x10\x00\x02"))
	want = "\x02\x00\x01\x00\x00\x00\x0f\x00\x3c\x00\x00\x00\x00\x00\x01\x02\x03\x04\x05\x10\x00\x02\xce"
	if string(got) != want {
		t.Errorf("header frame %x, want %x", got, want)
	}
	got = AppendHeaderFrame(nil, 1, 0, nil)
	want = "\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xce"
	if string(got) != want {
		t.Errorf("header frame without properties %x, want %x", got, want)
	}
	got = AppendFrameHeader([]byte("-"), TypeBody, 1, 0x01020304)
	if string(got) != "-\x03\x00\x01\x01\x02\x03\x04" {
		t.Errorf("frame header %x", got)
	}
}

// Bodies are split at frame-max less eight: 10000 octets on 4096 are 4088, 4088 and 1824 in RabbitMQ.
func TestAppendBodyFrames(t *testing.T) {
	cases := []struct {
		size     int
		frameMax uint32
		want     []int
	}{
		{0, 4096, nil},
		{1, 4096, []int{1}},
		{4088, 4096, []int{4088}},
		{4089, 4096, []int{4088, 1}},
		{10000, 4096, []int{4088, 4088, 1824}},
		{20000, 8192, []int{8184, 8184, 3632}},
		{20000, 0, []int{20000}},
		{20000, 8, []int{20000}},
		{20000, 1<<32 - 1, []int{20000}},
		{3, 9, []int{1, 1, 1}},
	}
	for _, c := range cases {
		body := strings.Repeat("0123456789", c.size/10+1)[:c.size]
		r := NewReader(strings.NewReader(string(AppendBodyFrames(nil, 7, []byte(body), c.frameMax))))
		r.SetLimit(0)
		all, err := readAll(r)
		if err != io.EOF {
			t.Errorf("%d octets on %d: %v", c.size, c.frameMax, err)
		}
		var sizes []int
		whole := ""
		for _, f := range all {
			sizes = append(sizes, len(f.Payload))
			whole += f.Payload
			if f.Type != TypeBody || f.Channel != 7 {
				t.Errorf("frame of type %d on channel %d", f.Type, f.Channel)
			}
		}
		if diff := cmp.Diff(c.want, sizes); diff != "" || whole != body {
			t.Errorf("%d octets on %d, body kept %t (-want +got):\n%s", c.size, c.frameMax, whole == body, diff)
		}
	}
}
