package wire

import (
	"encoding/hex"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// everyField has one value of each type that a table may hold.
var everyField = Table{
	{"t", true}, {"b", int8(-1)}, {"B", uint8(255)}, {"s", int16(-2)}, {"u", uint16(65535)}, {"I", int32(-3)},
	{"i", uint32(4294967295)}, {"l", int64(-4)}, {"L", LongLong(-5)}, {"f", float32(1.5)}, {"d", 2.5},
	{"D", Decimal{2, 314}}, {"S", "text"}, {"x", Bytes{0, 1}}, {"T", Timestamp(1700000000)}, {"V", Void{}},
	{"F", Table{{"k", "v"}}}, {"A", Array{int32(1), "two", Table{}}},
}

// The bytes below were written by hand from the specification, so that they check the codec rather than repeat it.
func TestMethodGolden(t *testing.T) {
	for _, c := range []struct {
		m   Method
		hex string
	}{
		{ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072, Heartbeat: 60}, "000a001f 07ff 00020000 003c"},
		{ChannelOpen{}, "0014000a 00"},
		{ChannelOpenOk{}, "0014000b 00000000"},
		{ExchangeDeclare{Exchange: "x", Type: "direct", Durable: true, NoWait: true},
			"0028000a 0000 0178 06646972656374 12 00000000"},
		{ExchangeUnbindOk{}, "00280033"},
		{QueueDeclare{Queue: "q", Exclusive: true, Arguments: Table{{"n", int32(7)}}},
			"0032000a 0000 0171 04 00000007 016e 49 00000007"},
		{QueueUnbind{Queue: "q", Exchange: "x", RoutingKey: "k"}, "00320032 0000 0171 0178 016b 00000000"},
		{BasicPublish{RoutingKey: "q", Mandatory: true, Immediate: true}, "003c0028 0000 00 0171 03"},
		{BasicNack{DeliveryTag: 258, Requeue: true}, "003c0078 0000000000000102 02"},
		{BasicGetOk{DeliveryTag: 1, Redelivered: true, Exchange: "", RoutingKey: "q", MessageCount: 2},
			"003c0047 0000000000000001 01 00 0171 00000002"},
		{AccessRequest{Realm: "r", Read: true}, "001e000a 0172 10"},
	} {
		want := strings.ReplaceAll(c.hex, " ", "")
		if got := hex.EncodeToString(EncodeMethod(c.m)); got != want {
			t.Errorf("%#v\n got %s\nwant %s", c.m, got, want)
		}
	}
}

func TestEveryMethodRoundTrips(t *testing.T) {
	seen := map[[2]uint16]bool{}
	for _, m := range methods {
		if seen[[2]uint16{m.class, m.method}] {
			t.Errorf("(%d,%d) is listed twice", m.class, m.method)
		}
		seen[[2]uint16{m.class, m.method}] = true
		v := reflect.New(reflect.TypeOf(m.zero)).Elem()
		for i := range v.NumField() {
			fill(v.Field(i), i)
		}
		want := v.Interface()
		got, err := DecodeMethod(EncodeMethod(want))
		if err != nil {
			t.Errorf("%T: %v", want, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%T (-sent +read):\n%s", want, diff)
		}
	}
}

// fill sets a field to a value that differs from its neighbours'.
func fill(f reflect.Value, i int) {
	switch f.Interface().(type) {
	case bool:
		f.SetBool(i%2 == 0)
	case string, LongStr:
		f.SetString(strings.Repeat("a", i+1))
	case Table:
		f.Set(reflect.ValueOf(everyField))
	default:
		f.SetUint(uint64(i + 1))
	}
}

func TestHeaderGolden(t *testing.T) {
	h := Header{Class: 60, Size: 5, Properties: Properties{ContentType: new("a"), DeliveryMode: new(uint8(2)), ClusterID: new("")}}
	want := "003c0000000000000000000590040161" + "0200"
	if got := hex.EncodeToString(h.encode()); got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

func TestPropertiesRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var p Properties
		v := reflect.ValueOf(&p).Elem()
		for i := range v.NumField() {
			if !rapid.Bool().Draw(rt, "present") {
				continue
			}
			switch f := v.Field(i).Addr().Interface().(type) {
			case **string:
				*f = new(rapid.StringN(0, 20, 80).Draw(rt, "s"))
			case **uint8:
				*f = new(rapid.Uint8().Draw(rt, "o"))
			case **Table:
				*f = &everyField
			case **Timestamp:
				*f = new(Timestamp(rapid.Uint64().Draw(rt, "t")))
			}
		}
		want := Header{Class: 60, Size: 9, Properties: p}
		got, err := DecodeHeader(want.encode())
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestStrictReading(t *testing.T) {
	for name, payload := range map[string]string{
		"short":           "0032",
		"unknown method":  "00320063",
		"bytes left over": "0014000b0000000000",
		"cut argument":    "0014000b000000",
		"cut table":       "0032000a0000017104000000ff016e4900000007",
		"unknown letter":  "0032000a000001710400000003016e55",
	} {
		b, err := hex.DecodeString(payload)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := DecodeMethod(b); err == nil {
			t.Errorf("%s: read as %#v", name, m)
		}
	}
}

func TestConn(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		nc.Write(MethodFrame(3, ChannelFlow{Active: true}).Bytes())
		bad := BodyFrame(1, []byte("ab")).Bytes()
		bad[len(bad)-1] = 'X'
		nc.Write(bad)
		buf := make([]byte, 1)
		nc.Read(buf) // the client's word to go on
		nc.Close()
	}()
	c, err := Dial(ln.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.ReadFrame(5 * time.Second)
	if err != nil || f.Channel != 3 || f.Type != FrameMethod {
		t.Fatalf("frame %+v, error %v", f, err)
	}
	if _, err := c.ReadFrame(5 * time.Second); err == nil || err == ErrClosed || err == ErrTimeout {
		t.Fatalf("wrong end octet gave %v", err)
	}
	if _, err := c.ReadFrame(20 * time.Millisecond); err != ErrTimeout {
		t.Fatalf("silence gave %v", err)
	}
	if err := c.Write([]byte("x"), time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadFrame(5 * time.Second); err != ErrClosed {
		t.Fatalf("end gave %v", err)
	}
}
