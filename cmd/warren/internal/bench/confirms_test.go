package bench

import "testing"

// TestTally: confirms out of order, alone and multiple, count once each.
func TestTally(t *testing.T) {
	tl := newTally()
	for _, c := range []struct {
		tag      uint64
		multiple bool
		want     int64
	}{
		{7, false, 1},
		{6, true, 6}, // 1 to 6
		{9, true, 2}, // 8 and 9; 7 is known
		{9, false, 0},
		{12, false, 1},
		{11, false, 1},
		{10, false, 1}, // closes the gap
		{22, true, 10},
	} {
		n, err := tl.confirm(c.tag, c.multiple)
		if err != nil || n != c.want {
			t.Errorf("confirm(%d, %v) = %d, %v; want %d", c.tag, c.multiple, n, err, c.want)
		}
	}
	if tl.base != 23 {
		t.Errorf("base %d, want 23", tl.base)
	}
	if n, err := tl.confirm(5000, false); n != 1 || err != nil {
		t.Errorf("far ahead: %d, %v", n, err)
	}
	if n, err := tl.confirm(5001, true); n != 5001-23 || err != nil || tl.base != 5002 {
		t.Errorf("the gap closed: %d, %v, base %d", n, err, tl.base)
	}
	if _, err := tl.confirm(5002+tallyMost, false); err == nil {
		t.Error("a publish that was left out for ever is no error")
	}
}

// TestTallyWraps runs a run of publishes round the ring often.
func TestTallyWraps(t *testing.T) {
	tl, total := newTally(), int64(0)
	for tag := uint64(1); tag <= 10_000; tag++ {
		multiple := tag%16 == 0
		if tag%3 == 0 || multiple {
			n, err := tl.confirm(tag, multiple)
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
	}
	if total != 10_000 {
		t.Errorf("%d confirmed, want 10000", total)
	}
}
