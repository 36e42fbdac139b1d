package conformance

import (
	"fmt"

	"github.com/warrenmq/warren/conformance/wire"
)

func tuneCases() []Case {
	cases := []Case{
		{ID: "tune/offer", Title: "tune offers channel-max 2047, frame-max 131072, heartbeat 60", Source: "behaviour 1.5", Class: Core, Run: func(t *T) {
			c := t.DialStart()
			c.Authenticate(login{})
			t.Equal("tune", c.tune, wire.ConnectionTune{ChannelMax: 2047, FrameMax: 131072, Heartbeat: 60})
			t.abandon()
		}},
		{ID: "tune/channel-count", Title: "channel-max bounds how many channels are open, not their numbers", Source: "behaviour 1.5", Class: Extension,
			Run: channelCount},
		{ID: "tune/channel-count-freed", Title: "a closed channel makes room for another", Source: "behaviour 1.5", Class: Core, Run: func(t *T) {
			c := t.ConnectAs(login{channelMax: 2}) // the last channel is the check's after the case
			for range 5 {
				c.Chan(1).Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
			}
		}},
		{ID: "tune/frame-min", Title: "frame-max 4096 is taken under profile 3, refused under 4", Source: "spec 4.2.3, behaviour 0.4", Class: Core,
			Difference: "frame-min", Run: func(t *T) {
				ok := wire.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 4096}
				if t.Four() && !t.Differs() {
					wantTuneRefused(t, ok)
					return
				}
				wantTuneAccepted(t, ok)
			}},
		{ID: "tune/below-frame-min", Title: "frame-max one below the minimum: the connection ends without a method", Source: "behaviour 1.5", Class: Core,
			Difference: "frame-min", Run: func(t *T) {
				least := uint32(4096)
				if t.Four() && !t.Differs() {
					least = 8192
				}
				wantTuneRefused(t, wire.ConnectionTuneOk{ChannelMax: 2047, FrameMax: least - 1})
			}},
	}
	for _, ok := range []wire.ConnectionTuneOk{
		{ChannelMax: 2047, FrameMax: 0}, {ChannelMax: 2047, FrameMax: 131073}, {ChannelMax: 2047, FrameMax: 262144},
		{ChannelMax: 2047, FrameMax: 4294967295}, {ChannelMax: 0, FrameMax: 131072}, {ChannelMax: 2048, FrameMax: 131072},
		{ChannelMax: 65535, FrameMax: 131072},
	} {
		cases = append(cases, Case{ID: fmt.Sprintf("tune/refused-%d-%d", ok.ChannelMax, ok.FrameMax),
			Title:  fmt.Sprintf("tune-ok with channel-max %d, frame-max %d: the connection ends without a method", ok.ChannelMax, ok.FrameMax),
			Source: "spec connection.tune-ok, behaviour 1.5", Class: Core, Run: func(t *T) { wantTuneRefused(t, ok) }})
	}
	for _, ok := range []wire.ConnectionTuneOk{
		{ChannelMax: 2, FrameMax: 131072}, {ChannelMax: 2047, FrameMax: 8192}, {ChannelMax: 2047, FrameMax: 9001},
		{ChannelMax: 100, FrameMax: 131072, Heartbeat: 600}, {ChannelMax: 100, FrameMax: 131072, Heartbeat: 65535},
	} {
		cases = append(cases, Case{ID: fmt.Sprintf("tune/accepted-%d-%d-%d", ok.ChannelMax, ok.FrameMax, ok.Heartbeat),
			Title:  fmt.Sprintf("tune-ok with channel-max %d, frame-max %d, heartbeat %d is taken as it is", ok.ChannelMax, ok.FrameMax, ok.Heartbeat),
			Source: "spec connection.tune-ok, behaviour 1.5", Class: Core, Run: func(t *T) { wantTuneAccepted(t, ok) }})
	}
	return cases
}

func wantTuneRefused(t *T, ok wire.ConnectionTuneOk) {
	c := t.DialStart()
	c.Authenticate(login{})
	c.Send(0, ok)
	c.WantClosed(patience)
}

func wantTuneAccepted(t *T, ok wire.ConnectionTuneOk) {
	c := t.DialStart()
	c.Authenticate(login{})
	c.frameMax = ok.FrameMax
	c.Send(0, ok, wire.ConnectionOpen{VirtualHost: t.VHost})
	c.Want(0, wire.ConnectionOpenOk{})
	c.Chan(1)
}

func channelCount(t *T) {
	c := t.ConnectAs(login{channelMax: 3})
	c.Chan(11)
	c.Chan(65535)
	c.Chan(5)
	c.Send(6, wire.ChannelOpen{})
	c.WantClosing(hard(530, nil, "number of channels opened (3) has reached the negotiated channel_max (3)"))
}
