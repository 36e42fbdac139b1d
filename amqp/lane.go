package amqp

import (
	"sync"

	"github.com/warrenmq/warren/frames"
)

// chunk is a piece to write. owner is the pooled buffer to give back after
// it; nil when later chunks still use the buffer or the bytes are borrowed.
type chunk struct {
	bytes, owner []byte
	open         bool // a frame begins here that the next chunk continues
}

// lane is a list of chunks and a buffer that is being filled. What take leaves
// begins with a whole frame, so that another lane's frames fit between.
type lane struct {
	scarce bool // memory is: small chunks only
	chunks []chunk
	head   int    // chunks before it are taken
	buf    []byte // being filled
	start  int    // of the part of buf that is in no chunk yet
}

const (
	// smallChunk is the first chunk of a lane that was empty, largeChunk any
	// further one: an idle connection's reply does not take 64 KiB.
	smallChunk = 4 << 10
	largeChunk = 64 << 10
)

var chunkPools = [2]sync.Pool{
	{New: func() any { return (*[smallChunk]byte)(make([]byte, smallChunk)) }},
	{New: func() any { return (*[largeChunk]byte)(make([]byte, largeChunk)) }},
}

func newChunk(size int) []byte {
	if size == smallChunk {
		return chunkPools[0].Get().(*[smallChunk]byte)[:0]
	}
	return chunkPools[1].Get().(*[largeChunk]byte)[:0]
}

func recycle(b []byte) {
	switch cap(b) {
	case smallChunk:
		chunkPools[0].Put((*[smallChunk]byte)(b[:smallChunk]))
	case largeChunk:
		chunkPools[1].Put((*[largeChunk]byte)(b[:largeChunk]))
	}
}

// reserve makes room for n more bytes in buf. n may exceed a chunk: such a
// buffer is left to the garbage collector.
func (l *lane) reserve(n int) {
	if cap(l.buf)-len(l.buf) >= n && l.buf != nil {
		return
	}
	size := largeChunk
	if n <= smallChunk && (l.scarce || l.buf == nil && l.head == len(l.chunks)) {
		size = smallChunk
	}
	l.retire()
	if n > largeChunk {
		l.buf = make([]byte, 0, n)
	} else {
		l.buf = newChunk(size)
	}
}

// seal puts what was filled since the last seal into a chunk.
func (l *lane) seal(open bool) {
	if l.start < len(l.buf) {
		l.chunks = append(l.chunks, chunk{bytes: l.buf[l.start:], open: open})
		l.start = len(l.buf)
	}
}

// retire seals and gives up the buffer being filled.
func (l *lane) retire() {
	if l.buf == nil {
		return
	}
	l.chunks = append(l.chunks, chunk{bytes: l.buf[l.start:], owner: l.buf})
	l.buf, l.start = nil, 0
}

// frameEnd is every borrowed body's last octet.
var frameEnd = []byte{frames.FrameEnd}

// borrow appends a body frame whose payload is written from where it is.
func (l *lane) borrow(channel uint16, payload []byte) {
	l.reserve(frames.HeaderSize)
	l.buf = frames.AppendFrameHeader(l.buf, frames.TypeBody, channel, uint32(len(payload)))
	l.seal(true)
	l.chunks = append(l.chunks, chunk{bytes: payload, open: true}, chunk{bytes: frameEnd})
}

func (l *lane) empty() bool { return l.head == len(l.chunks) && len(l.buf) == l.start }

// take moves whole frames of up to bound bytes, and at least one chunk of
// them, to the writer.
func (l *lane) take(o *outbox, bound int) (n int) {
	for {
		if l.head == len(l.chunks) {
			rest := len(l.buf) - l.start
			if rest == 0 || n > 0 && n+rest > bound {
				break
			}
			l.retire()
		}
		end, size := l.frames()
		if n > 0 && n+size > bound {
			break
		}
		n += size
		for _, c := range l.chunks[l.head:end] {
			o.handOver(c)
		}
		clear(l.chunks[l.head:end])
		l.head = end
	}
	l.trim()
	return n
}

// frames gives the end of the first chunks that hold whole frames, and their
// bytes. There is at least one chunk.
func (l *lane) frames() (end, size int) {
	for end = l.head; ; end++ {
		size += len(l.chunks[end].bytes)
		if !l.chunks[end].open {
			return end + 1, size
		}
	}
}

// trim forgets chunks that were taken.
func (l *lane) trim() {
	switch {
	case l.head == len(l.chunks) && cap(l.chunks) > 64:
		l.chunks, l.head = nil, 0
	case l.head > len(l.chunks)/2:
		rest := copy(l.chunks, l.chunks[l.head:])
		clear(l.chunks[rest:])
		l.chunks, l.head = l.chunks[:rest], 0
	}
}

// rest gives up the buffer of a lane that is empty and of which everything was
// written: an idle connection holds none.
func (l *lane) rest() {
	if l.buf != nil && l.empty() {
		recycle(l.buf)
		l.buf, l.start = nil, 0
	}
}
