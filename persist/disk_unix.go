//go:build linux || darwin || freebsd

package persist

import (
	"fmt"
	"os"
	"syscall"
)

// freeSpace asks the file system of a folder what is free for this user.
func freeSpace(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("ask the file system of %s: %w", dir, err)
	}
	return max(0, uint64(st.Bavail)) * blockSize(&st), nil
}

// blocksOf is how much of the disk a file takes, in bytes.
func blocksOf(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return 0
}
