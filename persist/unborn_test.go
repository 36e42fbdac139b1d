package persist

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestUnbornFiles: a kill between the making of a file and the moment it gets
// its size leaves an empty one, which is no damage. Seen in a run of the crash
// matrix.
func TestUnbornFiles(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{"vlog", "mem"} {
		dir := t.TempDir()
		s := openDir(t, dir)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		width := map[string]int{"vlog": 6, "mem": 5}[ending]
		path := filepath.Join(dir, fmt.Sprintf("%0*d.%s", width, 99, ending))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s = openDir(t, dir)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
