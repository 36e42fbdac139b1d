package main

import (
	"testing"
	"time"
)

// TestMemoryFillsUp: without a disk the memory alarm is all there is. Publishers
// are held at the watermark, and go on once consumers have taken what there was.
func TestMemoryFillsUp(t *testing.T) {
	const mib = 160
	c := start(t, "--memory", "--memory-high-watermark", "160MiB")
	f := c.fill("q")
	f.wantBlocking(true, "low on memory")
	confirmed := int(f.confirmed.Load())
	t.Logf("held with %d messages of %d KiB confirmed", confirmed, fillBody>>10)
	if held := confirmed * fillBody >> 20; held < mib/4 || held > mib+mib/2 {
		t.Errorf("held with %d MiB of messages", held)
	}
	c.drain("q", 0, confirmed)
	begin := time.Now()
	f.wantBlocking(false, "")
	t.Logf("unblocked %v after the last message was consumed", time.Since(begin).Round(time.Second))
	f.stop.Store(true)
	<-f.ended
	c.drain("q", confirmed, int(f.confirmed.Load())-confirmed)
}
