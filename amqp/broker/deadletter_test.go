package broker

import (
	"testing"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// TestRulesOfRepeatedArguments: of an argument that is given twice the first
// counts (behaviour 3, "duplicate keys").
func TestRulesOfRepeatedArguments(t *testing.T) {
	r, _ := rulesOf(frames.Table{
		{Key: "x-max-length", Value: int32(7)},
		{Key: "x-overflow", Value: "reject-publish"},
		{Key: "x-max-length", Value: int32(0)},
		{Key: "x-overflow", Value: "drop-head"},
	})
	if r.MaxLength != 7 || r.Overflow != queue.RejectPublish {
		t.Errorf("max-length %d, overflow %v; the first are 7 and reject-publish", r.MaxLength, r.Overflow)
	}
}
