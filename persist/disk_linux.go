package persist

import "syscall"

// blockSize is the unit of Statfs_t's counts: the fragment size, as statvfs
// has it, which is the block size in all but a few file systems.
func blockSize(st *syscall.Statfs_t) uint64 {
	if st.Frsize > 0 {
		return uint64(st.Frsize)
	}
	return uint64(st.Bsize)
}
