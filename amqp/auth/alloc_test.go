//go:build !race

package auth

import "testing"

// Checks run for every message that a channel has no answer for yet, so they may not leave garbage. Not under the
// race detector, which makes the pools of package regexp forget at random.
func TestChecksDoNotAllocate(t *testing.T) {
	d := checked(t)
	q, x := Resource{Queue, "orders-1"}, Resource{Exchange, ""}
	allowed := true
	allocs := testing.AllocsPerRun(1000, func() {
		allowed = allowed && d.VHostAccess("u", "v") && d.Check("u", "v", q, Configure) && d.Check("u", "v", q, Write) &&
			d.Check("u", "v", x, Read) && d.CheckTopic("u", "v", "x", "u.key", Write) && d.Version() > 0
	})
	if allocs != 0 || !allowed {
		t.Errorf("%v allocations, allowed %v", allocs, allowed)
	}
}
