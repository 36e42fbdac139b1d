//go:build darwin || freebsd

package persist

import "syscall"

// blockSize is the unit of Statfs_t's counts.
func blockSize(st *syscall.Statfs_t) uint64 { return uint64(st.Bsize) }
