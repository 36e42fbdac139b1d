package persist

import (
	"strings"
	"testing"
)

// TestLargeMessageTwiceInAWindow: a queue may hold one message of several parts
// twice in a row, and a window has it twice.
func TestLargeMessageTwiceInAWindow(t *testing.T) {
	s := openDir(t, t.TempDir())
	l, w := s.Log(s.NextID()), newWaiter()
	large := strings.Repeat("large", bodyPageBytes/5+100)
	m := newMessage(w, 1, "head", large)
	l.Append(1, &m.Record, Meta{})
	l.Append(2, &m.Record, Meta{})
	barrier(t, s)
	want := []windowed{{got{1, "head", large}, Meta{}}, {got{2, "head", large}, Meta{}}}
	checkWindow(t, l, want)
}
