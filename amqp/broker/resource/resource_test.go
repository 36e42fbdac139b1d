package resource

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestParseSize(t *testing.T) {
	for s, want := range map[string]uint64{
		"0": 0, "1": 1, "50MB": 50e6, "512MiB": 512 << 20, "512M": 512 << 20, "2GB": 2e9, "2GiB": 2 << 30, "2G": 2 << 30,
		"7k": 7 << 10, "7kB": 7e3, "7kiB": 7 << 10, "1TB": 1e12, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := ParseSize(s); err != nil || got != want {
			t.Errorf("%q is %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "M", "-1", "1.5GB", "1 GB", "1gb", "1MBB", "GB1", "0x10", "9223372036854775808", "99999999999TiB"} {
		if got, err := ParseSize(s); err == nil {
			t.Errorf("%q is %d, want an error", s, got)
		}
	}
}

func TestParseWatermark(t *testing.T) {
	const total = 1000 << 20
	for s, want := range map[string]uint64{
		"0.4": 400 << 20, "1.0": total, "0.000000001": 1, "1e-9": 1, "2GiB": 2 << 30, "1048576": 1 << 20, "1": 1, "0": 0,
	} {
		w, err := ParseWatermark(s)
		if err != nil || w.Limit(total) != want {
			t.Errorf("%q is %d, %v, want %d", s, w.Limit(total), err, want)
		}
	}
	for _, s := range []string{"", "0.0", "1.1", "-0.4", "0.4.1", "NaN", ".", "half", "40%", "1e5"} {
		if w, err := ParseWatermark(s); err == nil {
			t.Errorf("%q is %+v, want an error", s, w)
		}
	}
}

// TestGroupLimit: the lowest limit of the process's group and those above it.
func TestGroupLimit(t *testing.T) {
	const none = uint64(math.MaxUint64)
	for name, c := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"no groups":       {nil, none},
		"version 2":       {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "2000\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 2000},
		"parent":          {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "3000\n"}, 3000},
		"high":            {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "4000\n", "sys/fs/cgroup/a/memory.high": "3500\n"}, 3500},
		"own namespace":   {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "5000\n"}, 5000},
		"unlimited":       {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, none},
		"version 1":       {map[string]string{"proc/self/cgroup": "5:cpu:/x\n4:memory:/d/c\n", "sys/fs/cgroup/memory/d/c/memory.limit_in_bytes": "6000\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 6000},
		"host's path":     {map[string]string{"proc/self/cgroup": "4:hugetlb,memory:/docker/0123\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "7000\n"}, 7000},
		"both versions":   {map[string]string{"proc/self/cgroup": "4:memory:/c\n0::/c\n", "sys/fs/cgroup/memory/c/memory.limit_in_bytes": "8000\n"}, 8000},
		"strange content": {map[string]string{"proc/self/cgroup": "nonsense\n0::/a\n", "sys/fs/cgroup/a/memory.max": "many\n"}, none},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range c.files {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := groupLimit(root); got != c.want {
				t.Errorf("limit %d, want %d", got, c.want)
			}
		})
	}
}

// TestUsed: memory that is touched counts.
func TestUsed(t *testing.T) {
	const size = 64 << 20
	before, err := Used()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
	after, err := Used()
	if err != nil {
		t.Fatal(err)
	}
	if grown := int64(after) - int64(before); grown < size*3/4 {
		t.Errorf("%d bytes more are used after %d were touched", grown, size)
	}
	runtime.KeepAlive(b)
	if total := Total(); total < after {
		t.Errorf("%d bytes are used of %d", after, total)
	}
}
