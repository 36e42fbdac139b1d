package amqp

import (
	"time"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// parking is why a channel's frames are put off: an answer waits for the
// store, or an interceptor asked for a delay. Guarded by conn.mu.
type parking struct {
	ch     *channel
	resume func() error // runs when the wait is over
	commit bool         // tx.commit: a further method is an error
	timer  *queue.Timer // of a delay
	frames []frames.Frame
	bytes  int
}

// parkedBound is how many bytes of frames may wait behind a connection's
// parked channels before it is not read any more; parkedFrame is what a frame
// counts besides its payload.
const (
	parkedBound = 1 << 20
	parkedFrame = 64
)

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
	p.timer = ch.c.server.after(d, func() { p.stored(nil) })
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
	p.replay()
	c.flushConfirms()
}

// replay has the frames that waited handled. When one of them parks the
// channel again, the rest waits there. conn.mu is held.
func (p *parking) replay() {
	c := p.ch.c
	if next := p.ch.parked; next != nil && !next.commit {
		next.add(p.frames, p.bytes) // resume has parked it
		return
	}
	for i, f := range p.frames {
		c.handle(f)
		p.frames[i].Payload = nil
		p.bytes -= parkedSize(f)
		// The frames may close the channel and open its number anew.
		if ch := c.channels[p.ch.id]; ch != nil && ch.parked != nil && !ch.parked.commit {
			ch.parked.add(p.frames[i+1:], p.bytes)
			return
		}
	}
}

// add takes frames over whose payloads are copies already. conn.mu is held.
func (p *parking) add(f []frames.Frame, bytes int) {
	if p.frames == nil {
		p.frames = f
	} else {
		p.frames = append(p.frames, f...)
	}
	p.bytes += bytes
	p.ch.c.parkedBytes += bytes
}

// unpark ends the parking without running what waited. conn.mu is held.
func (ch *channel) unpark() {
	p := ch.parked
	if p == nil {
		return
	}
	ch.parked = nil
	if p.timer != nil {
		p.timer.Stop()
	}
	c := ch.c
	c.parkedBytes -= p.bytes
	if c.parkedBytes <= parkedBound {
		c.resumed.Broadcast()
	}
}

func parkedSize(f frames.Frame) int { return parkedFrame + len(f.Payload) }

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
	p.add([]frames.Frame{f}, parkedSize(f))
	return nil
}
