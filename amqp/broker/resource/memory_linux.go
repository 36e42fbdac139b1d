package resource

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// machineMemory is the machine's memory in bytes, 0 when it is not known.
func machineMemory() uint64 {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}

// Used is the anonymous memory of this process that is resident, in bytes.
func Used() (uint64, error) {
	var buf [256]byte
	f, err := os.Open("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("measure memory: %w", err)
	}
	defer f.Close()
	n, err := f.Read(buf[:])
	if err != nil {
		return 0, fmt.Errorf("measure memory: %w", err)
	}
	pages, err := anonymousPages(buf[:n])
	if err != nil {
		return 0, fmt.Errorf("measure memory: %w", err)
	}
	return pages * uint64(os.Getpagesize()), nil
}

// anonymousPages reads /proc/PID/statm: size, resident, of which mapped from
// files or shared, and more, in pages.
func anonymousPages(statm []byte) (uint64, error) {
	fields := bytes.Fields(statm)
	if len(fields) < 3 {
		return 0, fmt.Errorf("/proc/self/statm has %d fields", len(fields))
	}
	resident, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read /proc/self/statm: %w", err)
	}
	mapped, err := strconv.ParseUint(string(fields[2]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read /proc/self/statm: %w", err)
	}
	return resident - min(resident, mapped), nil
}
