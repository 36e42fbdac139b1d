package amqp

import (
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"time"
)

// vigil lets one reader at a time wait for its socket in its own thread. Go's
// poller wakes a thread that then looks for the goroutine to run; a thread that
// waits itself has it at hand, which at a low rate is a third of the time from
// a publish to its delivery. It keeps a processor from other goroutines only as
// far as a system call does, but while it waits the runtime looks more often
// whether to take that processor back. So there is one watch in a server, none
// on a machine with one processor, it is short, and a connection on which
// nothing came in that time asks for it less and less often.
type vigil struct {
	taken atomic.Bool
}

// watchTime is the longest wait in a thread. The closing of a socket waits
// for the end of it.
const watchTime = 2 * time.Millisecond

// leastPatience and mostPatience bound how many times in a row a connection
// leaves the waiting to the poller after a watch in vain.
const (
	leastPatience = 1
	mostPatience  = 256
)

// watcher is the reading side of a socket: it reads what there is, and waits on
// watch when it may. Owned by the reader goroutine.
type watcher struct {
	watch    *vigil
	socket   rawReader
	patience int // so many waits are the poller's after the next watch in vain
	skip     int // so many waits are the poller's before the next watch
}

// rawReader is the part of syscall.RawConn that reads.
type rawReader interface {
	Read(func(fd uintptr) (done bool)) error
}

// newWatcher gives the reader of a socket: the socket itself where there is no
// watch to be had.
func newWatcher(w *vigil, socket net.Conn) io.Reader {
	raw := rawSocket(socket)
	if raw == nil || !canWatch || runtime.GOMAXPROCS(0) < 2 {
		return socket
	}
	return &watcher{watch: w, socket: raw, patience: leastPatience}
}

// Read implements io.Reader.
func (w *watcher) Read(b []byte) (n int, err error) {
	closed := w.socket.Read(func(fd uintptr) (done bool) {
		if n, done, err = readNow(fd, b); done || !w.due() {
			return done // if not, the poller calls again when there is something
		}
		awaitReadable(fd, watchTime)
		w.watch.taken.Store(false)
		n, done, err = readNow(fd, b)
		w.learn(done)
		return done
	})
	if closed != nil {
		return 0, closed
	}
	return n, err
}

// due says whether the next wait is a watch, and takes it.
func (w *watcher) due() bool {
	if w.skip > 0 {
		w.skip--
		return false
	}
	return w.watch.taken.CompareAndSwap(false, true)
}

// learn has a watch that saw bytes come followed by another, and one in vain by
// ever longer runs of ordinary waits.
func (w *watcher) learn(came bool) {
	if came {
		w.patience = leastPatience
		return
	}
	w.skip = w.patience
	w.patience = min(2*w.patience, mostPatience)
}
