//go:build !(linux || darwin || freebsd)

package persist

import (
	"errors"
	"os"
)

// freeSpace is not known here: no disk alarm is raised.
func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }

// blocksOf is not known here.
func blocksOf(os.FileInfo) int64 { return 0 }
