package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// process is the broker's process, of which CPU time and memory are read from
// /proc. A zero pid, or a system without /proc, reads as nothing.
type process struct{ pid int }

// clockTicks is USER_HZ, which Linux fixes at 100 for user space.
const clockTicks = 100

// cpu is the user and system time the process has used.
func (p *process) cpu() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may hold blanks; fields 14 and 15 follow it.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / clockTicks
}

// rss is the resident memory in KiB.
func (p *process) rss() int64 { return p.status("VmRSS:") }

// anonymous is the part of it that is not of files, in KiB.
func (p *process) anonymous() int64 { return p.status("RssAnon:") }

// status is a number of the process's status, in KiB.
func (p *process) status(field string) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == field {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib
		}
	}
	return 0
}
