package resource

import (
	"encoding/binary"
	"syscall"
)

// machineMemory is the machine's memory in bytes, 0 when it is not known.
func machineMemory() uint64 {
	// The answer is a 64-bit number, from which Sysctl takes a last zero byte.
	s, err := syscall.Sysctl("hw.memsize")
	if err != nil || len(s) > 8 {
		return 0
	}
	var number [8]byte
	copy(number[:], s)
	return binary.LittleEndian.Uint64(number[:])
}
