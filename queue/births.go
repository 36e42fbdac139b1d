package queue

import "sort"

// births knows when the messages of a queue came, without a word of memory
// for each: sequence numbers rise with time, so a list of "from this number
// on, since this moment" says it. The list is bounded: what no waiting message
// needs is dropped, and when that is not enough marks that are close together
// become one, so that the moments get coarser the further apart the messages
// are. A message is never taken for younger than it is by that, and for older
// by less than two granules. Guarded by the queue's mutex.
type births struct {
	runs    []birth
	most    int   // marks to keep
	granule int64 // milliseconds that one mark stands for at least
	horizon int64 // age in milliseconds above which all are alike; 0: none is
	before  int64 // the moment of messages from before the first mark
}

type birth struct {
	seq uint64
	at  int64 // milliseconds of message time
}

// The marks that a queue keeps, by how many priorities it has.
const (
	birthsLeast    = 256
	birthsPerLevel = 64
	birthsMost     = 16384
)

func newBirths(levels int, horizon, now int64) births {
	most := min(max(birthsLeast, birthsPerLevel*levels), birthsMost)
	return births{most: most, granule: 1, horizon: horizon, before: now}
}

// note says that the message seq comes now. oldest is the lowest number that
// may still be asked for.
func (b *births) note(seq uint64, now int64, oldest func() uint64) {
	if n := len(b.runs); n > 0 && now-b.runs[n-1].at < b.granule {
		return
	}
	if len(b.runs) >= b.most {
		b.trim(now, oldest())
	}
	b.runs = append(b.runs, birth{seq, now})
}

// trim makes room for marks.
func (b *births) trim(now int64, oldest uint64) {
	drop := 0
	for drop+1 < len(b.runs) && (b.runs[drop+1].seq <= oldest || b.horizon > 0 && b.runs[drop+1].at < now-b.horizon) {
		drop++
	}
	if drop > 0 {
		b.before = b.runs[drop-1].at
		b.runs = append(b.runs[:0], b.runs[drop:]...)
	}
	for len(b.runs) > b.most/2 {
		b.granule *= 2
		kept := b.runs[:1]
		for _, r := range b.runs[1:] {
			if r.at-kept[len(kept)-1].at >= b.granule {
				kept = append(kept, r)
			}
		}
		b.runs = kept
	}
}

// reset forgets everything: no message is left.
func (b *births) reset(now int64) {
	b.runs, b.granule, b.before = b.runs[:0], 1, now
}

// at is when a message came.
func (b *births) at(seq uint64) int64 {
	i := sort.Search(len(b.runs), func(i int) bool { return b.runs[i].seq > seq })
	if i == 0 {
		return b.before
	}
	return b.runs[i-1].at
}
