//go:build !linux && !darwin

package resource

// machineMemory is 0: not known. Give a limit in bytes there.
func machineMemory() uint64 { return 0 }
