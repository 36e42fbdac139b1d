//go:build crashpoints

package persist

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// crashAtEnv names a commit point and how many times it is to be passed first,
// as "name:count".
const crashAtEnv = "WARREN_CRASH_AT"

var (
	crashName string
	crashLeft atomic.Int64
)

func init() {
	name, count, _ := strings.Cut(os.Getenv(crashAtEnv), ":")
	n, err := strconv.Atoi(count)
	if err != nil {
		return
	}
	crashName = name
	crashLeft.Store(int64(n))
}

// crashPoint kills the process, without a chance to tidy up, when it is the
// one that was asked for.
func crashPoint(name string) {
	if name != crashName || crashLeft.Add(-1) != 0 {
		return
	}
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		_ = p.Kill()
	}
	select {} // the kill takes its moment
}
