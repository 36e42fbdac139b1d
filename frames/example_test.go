package frames_test

import (
	"bytes"
	"fmt"
	"io"

	"github.com/warrenmq/warren/frames"
)

// A publish is three frames: the method, the content header and the body.
func Example() {
	props := frames.PropertyValues{
		Flags:       frames.FlagContentType | frames.FlagHeaders,
		ContentType: "text/plain",
		Headers:     frames.Table{{Key: "attempt", Value: int32(1)}},
	}
	var wire []byte
	wire = frames.AppendMethodFrame(wire, 1, &frames.BasicPublish{Exchange: []byte("amq.topic"), RoutingKey: []byte("orders.eu")})
	wire = frames.AppendHeaderFrame(wire, 1, 5, props.Append(nil))
	wire = frames.AppendBodyFrames(wire, 1, []byte("hello"), 131072)

	r := frames.NewReader(bytes.NewReader(wire))
	for {
		f, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		show(f)
	}
	// Output:
	// channel 1: basic.publish to amq.topic with key orders.eu
	// channel 1: header of a body of 5 octets, text/plain, attempt 1
	// channel 1: body hello
}

// show prints a frame; what it takes from it is borrowed and not kept.
func show(f frames.Frame) {
	switch f.Type {
	case frames.TypeMethod:
		id, args, err := frames.SplitMethod(f.Payload)
		var m frames.BasicPublish
		if err == nil {
			err = m.Decode(args)
		}
		fmt.Printf("channel %d: %v to %s with key %s%s\n", f.Channel, id, m.Exchange, m.RoutingKey, orNothing(err))
	case frames.TypeHeader:
		h, err := frames.ParseContentHeader(f.Payload)
		var p frames.Properties
		if err == nil {
			p, err = frames.ParseProperties(h.Properties)
		}
		contentType, _ := p.ContentType()
		headers, _ := p.Headers()
		attempt, _ := headers.Lookup("attempt")
		fmt.Printf("channel %d: header of a body of %d octets, %s, attempt %v%s\n",
			f.Channel, h.BodySize, contentType, attempt.Decode(), orNothing(err))
	case frames.TypeBody:
		fmt.Printf("channel %d: body %s\n", f.Channel, f.Payload)
	}
}

func orNothing(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}
