package amqp

import (
	"time"

	"github.com/warrenmq/warren/frames"
)

// parking is why a channel's frames are put off: an answer waits for the
// store, or an interceptor asked for a delay. Guarded by conn.mu.
type parking struct {
	ch     *channel
	resume func() error // runs when the wait is over
	commit bool         // tx.commit: a further method is an error
	full   bool         // counted in conn.stalled
	frames []frames.Frame
	bytes  int
}

// parkedBound is how many bytes of frames may wait behind a parked channel
// before the connection is not read any more.
const parkedBound = 1 << 20

// afterStored runs a change of durable things and answers when it is safe.
// conn.mu is held.
func (ch *channel) afterStored(change func(done func(error)) (wait bool, err error), answer func() error) error {
	p := &parking{ch: ch, resume: answer}
	ch.parked = p
	wait, err := change(p.stored)
	if err == nil && wait {
		return nil
	}
	ch.parked = nil
	if err != nil {
		return err
	}
	return answer()
}

// parkFor puts the channel's frames off for a time, then runs resume. conn.mu
// is held.
func (ch *channel) parkFor(d time.Duration, resume func() error) {
	p := &parking{ch: ch, resume: resume}
	ch.parked = p
	ch.c.after(d, func() { p.stored(nil) })
}

// stored ends the wait. Any goroutine, also the committer's and the clock's:
// it does nothing itself.
func (p *parking) stored(err error) { go p.over(err) }

// Stored and Flush make a parking a persist.Waiter.
func (p *parking) Stored(_ uint64, err error) { p.stored(err) }

// Flush implements persist.Waiter.
func (p *parking) Flush() {}

func (p *parking) over(err error) {
	c := p.ch.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.ch.parked != p {
		return // the channel has ended
	}
	p.ch.unpark()
	if err == nil {
		err = p.resume()
	}
	if err != nil {
		c.fail(p.ch.id, err)
	}
	// If the channel parks again, the frames queue up there in order.
	for _, f := range p.frames {
		c.handle(f)
	}
	c.flushConfirms()
}

// unpark ends the parking without running what waited. conn.mu is held.
func (ch *channel) unpark() {
	p := ch.parked
	if p == nil {
		return
	}
	ch.parked = nil
	if p.full {
		ch.c.stalled--
		ch.c.resumed.Broadcast()
	}
}

// postpone keeps a copy of a frame for when the parking is over. conn.mu is
// held.
func (ch *channel) postpone(f frames.Frame) error {
	p := ch.parked
	if p.commit && f.Type == frames.TypeMethod {
		id, _, err := frames.SplitMethod(f.Payload)
		if err != nil {
			return err
		}
		return frames.Errorf(frames.ChannelError, "unexpected command while processing 'tx.commit'").At(id)
	}
	f.Payload = append([]byte(nil), f.Payload...)
	p.frames = append(p.frames, f)
	p.bytes += len(f.Payload) + frames.Overhead
	if p.bytes > parkedBound && !p.full {
		p.full = true
		ch.c.stalled++
	}
	return nil
}
