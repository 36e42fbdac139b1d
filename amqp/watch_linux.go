package amqp

import (
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"
)

const canWatch = true

// pollReadable is POLLIN of poll.h.
const pollReadable = 1

// pollFD is struct pollfd of poll.h, which package syscall does not name.
type pollFD struct {
	fd              int32
	events, returns int16
}

// awaitReadable blocks the thread until fd has something to read, its peer has
// gone, or the time is over. What came of it the next read says.
func awaitReadable(fd uintptr, most time.Duration) {
	p := pollFD{fd: int32(fd), events: pollReadable}
	timeout := syscall.NsecToTimespec(int64(most))
	_, _, _ = syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
}

// readNow reads what is there. done is false when nothing is.
func readNow(fd uintptr, b []byte) (n int, done bool, err error) {
	for {
		n, err = syscall.Read(int(fd), b)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return 0, false, nil
		case err != nil:
			return 0, true, os.NewSyscallError("read", err)
		case n == 0:
			return 0, true, io.EOF
		default:
			return n, true, nil
		}
	}
}
