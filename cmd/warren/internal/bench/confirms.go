package bench

import (
	"fmt"

	"github.com/warrenmq/warren/frames"
)

// tally counts each confirmed publish once. A broker may confirm out of order:
// 7 alone, then everything up to 6, then everything up to 9, in which 7 is not
// to be counted again.
type tally struct {
	base  uint64 // the first publish that is not confirmed
	early []bool // a ring: of base, base+1, ... whether it is confirmed
}

// tallyMost is the most publishes that may be confirmed ahead of one that is
// not; a broker that leaves one out for so long has lost it.
const tallyMost = 1 << 20

func newTally() *tally { return &tally{base: 1, early: make([]bool, 1024)} }

func (t *tally) at(tag uint64) *bool { return &t.early[tag&uint64(len(t.early)-1)] }

// grow makes room for tag.
func (t *tally) grow(tag uint64) error {
	if tag-t.base >= tallyMost {
		return fmt.Errorf("publish %d was confirmed, and %d not yet", tag, t.base)
	}
	old := *t
	for tag-t.base >= uint64(len(t.early)) {
		t.early = make([]bool, 2*len(t.early))
	}
	for i := old.base; i < old.base+uint64(len(old.early)); i++ {
		*t.at(i) = *old.at(i)
	}
	return nil
}

// confirm notes one confirm and returns how many publishes it resolved.
func (t *tally) confirm(tag uint64, multiple bool) (n int64, err error) {
	if tag >= t.base+uint64(len(t.early)) {
		if err := t.grow(tag); err != nil {
			return 0, err
		}
	}
	first := tag
	if multiple {
		first = t.base
	}
	for i := max(first, t.base); i <= tag; i++ {
		if !*t.at(i) {
			*t.at(i) = true
			n++
		}
	}
	for ; *t.at(t.base); t.base++ {
		*t.at(t.base) = false
	}
	return n, nil
}

// confirms counts confirms.
func (f *flow) confirms(c *client) {
	t := newTally()
	var n int64
	for {
		frame, err := c.r.Next()
		if err != nil {
			f.fail(err)
			return
		}
		if frame.Type == frames.TypeMethod {
			id, args, err := frames.SplitMethod(frame.Payload)
			var ack frames.BasicAck
			if err != nil || id != frames.BasicAckID || ack.Decode(args) != nil {
				f.fail(unexpected(frame.Payload))
				return
			}
			got, err := t.confirm(ack.DeliveryTag, ack.Multiple)
			if err != nil {
				f.fail(err)
				return
			}
			n += got
		}
		if n > 0 && !c.r.Buffered() {
			f.arrived(n)
			n = 0
		}
	}
}
