package resource

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are the suffixes of sizes, in bytes, as RabbitMQ's configuration has
// them (k, kiB, M, MiB, G, GiB are powers of 1024, kB, MB, GB of 1000), and a
// few that people write in their place.
var units = map[string]uint64{
	"":  1,
	"k": 1 << 10, "kiB": 1 << 10, "M": 1 << 20, "MiB": 1 << 20, "G": 1 << 30, "GiB": 1 << 30,
	"K": 1 << 10, "KiB": 1 << 10, "T": 1 << 40, "TiB": 1 << 40, "P": 1 << 50, "PiB": 1 << 50,
	"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15,
}

// ParseSize reads a number of bytes with or without a unit: "1073741824",
// "1GiB", "50MB". M is MiB, as in RabbitMQ.
func ParseSize(s string) (uint64, error) {
	digits := strings.TrimRight(s, "kKMGTPiB")
	unit, known := units[s[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 64)
	if !known || err != nil || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a size: give a number of bytes, or one with a unit, such as 512MiB or 2GB", s)
	}
	return n * unit, nil
}

// Watermark is how much memory may be used: a part of what there is, or a
// number of bytes. The zero value is no limit.
type Watermark struct {
	Fraction float64 // of the memory that Total gives; 0 when Bytes counts
	Bytes    uint64
}

// ParseWatermark reads a fraction above 0 and up to 1, written with a point
// ("0.4"; also "1e-9", which rabbitmqctl's users give to raise the alarm at
// once), or a size ("2GiB").
func ParseWatermark(s string) (Watermark, error) {
	if strings.ContainsAny(s, ".e") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f > 0 && f <= 1) {
			return Watermark{}, fmt.Errorf("%q is not a memory limit: a fraction is above 0 and at most 1", s)
		}
		return Watermark{Fraction: f}, nil
	}
	n, err := ParseSize(s)
	if err != nil {
		return Watermark{}, fmt.Errorf("%q is not a memory limit: give a fraction of the memory, such as 0.4, or a size, such as 2GiB", s)
	}
	return Watermark{Bytes: n}, nil
}

// Limit is the watermark in bytes on a machine with total bytes of memory; 0
// is no limit.
func (w Watermark) Limit(total uint64) uint64 {
	if w.Fraction > 0 {
		return max(1, uint64(w.Fraction*float64(total)))
	}
	return w.Bytes
}
