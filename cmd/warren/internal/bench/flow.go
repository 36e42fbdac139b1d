package bench

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/frames"
)

// flow is messages on their way through a broker: a producer that keeps at
// most window of them in flight, and who counts them on the other side.
type flow struct {
	window int64
	sent   int64
	done   atomic.Int64 // came out: delivered or confirmed, in units of the producer's messages
	share  int64        // how many arrivals make one message of the producer: 10 for a fan-out to 10
	room   chan struct{}
	stop   atomic.Bool

	beside   *flow // what consumers of a confirming producer get, if there are any
	consumed int64 // its arrivals in the time measured

	once   sync.Once
	failed chan error
}

func newFlow(window, share int64) *flow {
	return &flow{window: window, share: share, room: make(chan struct{}, 1), failed: make(chan error, 1)}
}

func (f *flow) fail(err error) {
	if f.stop.Load() {
		return // connections are being closed
	}
	f.once.Do(func() { f.failed <- err })
}

// arrived counts n arrivals and wakes the producer.
func (f *flow) arrived(n int64) {
	f.done.Add(n)
	select {
	case f.room <- struct{}{}:
	default:
	}
}

// produce writes block, which holds count messages, again and again.
func (f *flow) produce(c *client, block []byte, count int64) {
	for !f.stop.Load() {
		if f.sent-f.done.Load()/f.share > f.window-count {
			<-f.room
			continue
		}
		if _, err := c.conn.Write(block); err != nil {
			f.fail(err)
			return
		}
		f.sent += count
	}
}

// consume counts deliveries; with ackEvery they are acknowledged, so many at
// a time.
func (f *flow) consume(c *client, ackEvery int) {
	var n, unacked int64
	var ack [32]byte
	for {
		frame, err := c.r.Next()
		if err != nil {
			f.fail(err)
			return
		}
		if frame.Type == frames.TypeMethod {
			id, args, err := frames.SplitMethod(frame.Payload)
			if err != nil || id != frames.BasicDeliverID {
				f.fail(unexpected(frame.Payload))
				return
			}
			n++
			if unacked++; ackEvery > 0 && unacked == int64(ackEvery) {
				unacked = 0
				if _, err := c.conn.Write(frames.AppendAck(ack[:0], 1, deliveryTag(args), true)); err != nil {
					f.fail(err)
					return
				}
			}
		}
		if n > 0 && !c.r.Buffered() {
			f.arrived(n)
			n = 0
		}
	}
}

func unexpected(payload []byte) error {
	m, err := frames.DecodeMethod(payload)
	if err != nil {
		return err
	}
	return refusal(m)
}

// deliveryTag reads the tag of a basic.deliver, behind its consumer tag.
func deliveryTag(args []byte) uint64 { return binary.BigEndian.Uint64(args[1+int(args[0]):]) }

// measure lets the flow run, first to warm up, and gives arrivals and seconds.
func (f *flow) measure(warm, span time.Duration, p *process) (arrived int64, took time.Duration, cpu time.Duration, err error) {
	if err := f.wait(warm); err != nil {
		return 0, 0, 0, err
	}
	before, start, used := f.done.Load(), time.Now(), p.cpu()
	if f.beside != nil {
		f.consumed = -f.beside.done.Load()
	}
	if err := f.wait(span); err != nil {
		return 0, 0, 0, err
	}
	arrived, took, cpu = f.done.Load()-before, time.Since(start), p.cpu()-used
	if f.beside != nil {
		f.consumed += f.beside.done.Load()
	}
	f.stop.Store(true)
	f.arrived(0)
	return arrived, took, cpu, nil
}

func (f *flow) wait(d time.Duration) error {
	select {
	case err := <-f.failed:
		return err
	case <-time.After(d):
		return nil
	}
}
