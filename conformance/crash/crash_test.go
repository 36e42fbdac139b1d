//go:build unix

package main

import (
	"testing"
	"time"
)

// busyGrace leaves room for a machine on which everything else is tested at
// the same time.
const busyGrace = 5 * time.Second

// A short run of the matrix, so that it cannot rot; the long ones are started
// by hand or by the project's checks.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	s, err := run(options{kills: 6, seed: uint64(time.Now().UnixNano()), tags: "crashpoints", grace: busyGrace, folder: t.TempDir()})
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	t.Logf("%+v", s)
}
