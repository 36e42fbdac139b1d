//go:build !(linux || darwin || freebsd)

package persist

import "errors"

// freeSpace is not known here: no disk alarm is raised.
func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
