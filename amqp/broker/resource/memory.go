package resource

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// unknownTotal is what a machine has whose memory cannot be asked for, as in
// RabbitMQ.
const unknownTotal = 1 << 30

// Total is how much memory there is for this process, in bytes: the machine's,
// or less where a control group (of a container, a systemd unit) limits it.
func Total() uint64 {
	total := machineMemory()
	if total == 0 {
		total = unknownTotal
	}
	return min(total, groupLimit("/"))
}

// groupLimit is the lowest limit of the control groups that the process is in,
// of version 1 or 2; MaxUint64 when there is none. root stands for "/", for
// tests.
func groupLimit(root string) uint64 {
	limit := uint64(math.MaxUint64)
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return limit
	}
	for line := range strings.Lines(string(text)) {
		// number:controllers:path; version 2 has number 0 and no controllers.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch {
		case fields[0] == "0" && fields[1] == "":
			limit = min(limit, lowest(filepath.Join(root, "sys/fs/cgroup"), fields[2], "memory.max", "memory.high"))
		case hasController(fields[1], "memory"):
			limit = min(limit, lowest(filepath.Join(root, "sys/fs/cgroup/memory"), fields[2], "memory.limit_in_bytes"))
		}
	}
	return limit
}

func hasController(list, name string) bool {
	for c := range strings.SplitSeq(list, ",") {
		if c == name {
			return true
		}
	}
	return false
}

// lowest looks at a group and all above it: each limits the ones below. In a
// container the path may be one that only the host knows; the mount's root is
// the container's own group then.
func lowest(mount, group string, files ...string) uint64 {
	limit := uint64(math.MaxUint64)
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(mount, dir, file))
			if err != nil {
				continue
			}
			// "max" is no limit; so is version 1's largest page count.
			if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
				limit = min(limit, n)
			}
		}
		if dir == "/" {
			return limit
		}
	}
}
