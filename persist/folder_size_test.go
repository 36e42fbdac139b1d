//go:build unix

package persist

import (
	"os"
	"syscall"
	"testing"
)

// folderSize is what the folder takes on disk, holes not counted.
func folderSize(t testing.TB, dir string) (size int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
	}
	return size
}
