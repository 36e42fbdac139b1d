//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package persist

import (
	"errors"
	"os"
	"syscall"
)

// inUse says whether somebody has Badger's lock on a folder, without taking it.
func inUse(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
