package amqp

import (
	"crypto/tls"
	"net"
	"sync"
	"syscall"
)

// late is the outboxes that a reader's batch has put a little into. They are
// written when a batch ends, by the reader itself and without waiting: at a low
// rate that saves waking another goroutine for every message, which costs more
// than the write. Whatever does not go out at once, or is more than a little,
// is the writer goroutine's.
type late struct {
	mu      sync.Mutex // comes after an outbox's
	batches int        // readers that are in a batch
	waiting []*outbox
}

// lateBound is the most bytes that wait for the end of a batch.
const lateBound = 4 << 10

// begin is called before a batch, end after it, with no lock held.
func (l *late) begin() {
	l.mu.Lock()
	l.batches++
	l.mu.Unlock()
}

func (l *late) end() {
	l.mu.Lock()
	l.batches--
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	for _, o := range waiting {
		o.writeLate()
	}
}

// add has the end of a batch write o; false when none is under way. The
// outbox's mutex is held.
func (l *late) add(o *outbox) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.batches == 0 {
		return false
	}
	l.waiting = append(l.waiting, o)
	return true
}

// rawSocket is the way to write without waiting; nil where there is none, as
// under TLS.
func rawSocket(socket net.Conn) syscall.RawConn {
	if _, ok := socket.(*tls.Conn); ok {
		return nil
	}
	tcp, ok := socket.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil // the socket has gone; writing it will say so
	}
	return raw
}

// wake has what is queued written: soon, if it is a little and a batch is
// under way, else by the writer goroutine. mu is held.
func (o *outbox) wake() {
	switch {
	case o.writing || o.held:
	case o.waits:
		if o.queued > lateBound {
			o.waits = false // the end of the batch will find nothing to do
			o.start()
		}
	case o.raw != nil && o.queued <= lateBound && o.late.add(o):
		o.waits = true
	default:
		o.start()
	}
}

// writeLate writes what the end of a batch was left to write.
func (o *outbox) writeLate() {
	o.mu.Lock()
	due := o.waits && !o.writing && !o.held
	o.waits = o.waits && o.held // its own reader's release will wake it
	if due {
		o.waits = false
		o.writing = true
	}
	o.mu.Unlock()
	if !due || !o.gather() {
		return
	}
	var n int64
	if len(o.iov) == 1 {
		n = int64(tryWrite(o.raw, o.iov[0]))
		if o.iov[0] = o.iov[0][n:]; len(o.iov[0]) == 0 {
			o.wrote(n, nil)
			if o.gather() {
				go o.writeGathered(0)
			}
			return
		}
	}
	go o.writeGathered(n)
}

// writeGathered writes what gather has taken, of which n bytes are out, and
// goes on as the writer goroutine.
func (o *outbox) writeGathered(n int64) {
	m, err := o.flush()
	o.wrote(n+m, err)
	o.writeAll()
}
