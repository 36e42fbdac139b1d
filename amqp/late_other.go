//go:build !unix

package amqp

import "syscall"

// tryWrite writes nothing: the writer goroutine does it.
func tryWrite(syscall.RawConn, []byte) int { return 0 }
