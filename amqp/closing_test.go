package amqp

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/frames"
)

// TestCloseLosesNothingToItself: what channels of a connection have not
// acknowledged does not go to the connection's other consumers when all of
// them end, however it ends. A consumer without acknowledgements would take it
// to the grave.
func TestCloseLosesNothingToItself(t *testing.T) {
	const holders, taker = 20, 21
	for name, end := range map[string]func(c *client){
		"closed":  func(c *client) { c.close() },
		"dropped": func(c *client) { c.socket.Close() },
		"failed": func(c *client) {
			c.send(0, &frames.ChannelOpen{})
			expect[*frames.ConnectionClose](c, 0)
			c.send(0, &frames.ConnectionCloseOk{})
		},
	} {
		for _, single := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/single-active=%v", name, single), func(t *testing.T) {
				s := startSite(t, nil, Options{}).listen()
				other := s.connect().open(1)
				call[*frames.QueueDeclareOk](other, 1, &frames.QueueDeclare{
					Queue: "q", Arguments: frames.Table{{Key: "x-single-active-consumer", Value: single}},
				})
				c := s.connect()
				for ch := uint16(1); ch <= holders; ch++ {
					other.publish(1, "q", transient, []byte("x"))
					call[*frames.QueueDeclareOk](other, 1, &frames.QueueDeclare{Queue: "q", Passive: true})
					c.open(ch).get(ch, "q", false)
				}
				c.open(taker)
				call[*frames.BasicConsumeOk](c, taker, &frames.BasicConsume{Queue: "q", NoAck: true})
				end(c)
				c.socket.Close()
				eventually(t, "the connection gone", func() bool { return s.server.Connections() == 1 })
				if got := call[*frames.QueueDeclareOk](other, 1, &frames.QueueDeclare{Queue: "q", Passive: true}); got.MessageCount != holders {
					t.Errorf("%d messages are left of %d", got.MessageCount, holders)
				}
				other.close()
			})
		}
	}
}
