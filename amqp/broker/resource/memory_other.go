//go:build !linux

package resource

import "runtime"

// Used is the memory that the Go runtime has from the operating system and has
// not given back, in bytes: what is mapped from files is not in it.
func Used() (uint64, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased, nil
}
