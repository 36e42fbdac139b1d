//go:build unix

package amqp

import "syscall"

// tryWrite writes what the socket takes at once and says how much that was.
// An error is left for the next write to find.
func tryWrite(raw syscall.RawConn, b []byte) (n int) {
	_ = raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), b)
		return true
	})
	return max(n, 0)
}
