package stream

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// crashChildEnv tells the test binary to be the child that is killed: it is
// the store's folder.
const crashChildEnv = "WARREN_STREAM_CRASH_CHILD"

// announce prints the number of a message that is confirmed, or of a
// transaction's last one.
type announce struct{}

func (announce) Stored(token uint64, err error) {
	if err == nil {
		fmt.Println(token)
	}
}
func (announce) Flush() {}

// crashBody is the body of message number i.
func crashBody(i uint64) string {
	return fmt.Sprint("m", i, strings.Repeat("x", int(i%7)*int(i%300)))
}

// runCrashChild publishes for ever: numbered messages, now and then in a
// transaction, with retention at work. It prints what is confirmed.
func runCrashChild() {
	s, err := persist.Open(persist.Options{Dir: os.Getenv(crashChildEnv), Logger: quiet})
	if err != nil {
		panic(err)
	}
	h := NewHost(Options{Store: s, Clock: queue.NewClock(), Logger: quiet})
	l := h.Open(crashConfig)
	if err := l.Recover(); err != nil {
		panic(err)
	}
	q := queue.New(queue.Config{Name: "s", ID: 1, Stream: l})
	_, n := l.Offsets()
	for {
		if n%50 == 0 {
			t := queue.Transaction{}
			for i := range uint64(5) {
				t.Enqueues = append(t.Enqueues, queue.Enqueue{Message: message(crashBody(n + i)), Queues: []*queue.Queue{q}})
			}
			if _, err := queue.Commit(t, s, announce{}, n+4); err != nil {
				panic(err)
			}
			n += 5
			continue
		}
		m := message(crashBody(n))
		r := m.Track(announce{}, n)
		r.Hold()
		q.Publish(m)
		r.Release(s)
		n++
		for s.Backlog() > 1<<20 {
			barrier := make(chan struct{})
			s.Barrier(&told{done: barrier}, 0)
			<-barrier
		}
	}
}

// crashConfig has segments of some 100 messages, and about ten of them.
var crashConfig = Config{ID: 1, Stored: true, Retention: Retention{MaxBytes: 1 << 20}, SegmentBytes: 100 << 10}

// TestKill kills a publisher at any moment: what was confirmed is there, under
// its offset, and the stream goes on where it ended.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	confirmed := uint64(0)
	for round := range 6 {
		confirmed = max(confirmed, killAfter(t, dir, 200+round*700))
		f := &fixture{t: t, dir: dir, clock: queue.NewClock(), config: crashConfig}
		f.start()
		first, next := f.log.Offsets()
		if next <= confirmed {
			t.Fatalf("round %d: the stream ends at %d, but %d was confirmed", round, next, confirmed)
		}
		if round > 3 && first == 0 {
			t.Errorf("round %d: retention has deleted nothing of %d messages", round, next)
		}
		if rest := next % 50; rest > 0 && rest < 5 {
			t.Errorf("round %d: the stream ends at %d, within a transaction", round, next)
		}
		s := f.consume(int(next-first), &queue.Reading{From: queue.First})
		for i, body := range s.await(int(next - first)) {
			if want := crashBody(first + uint64(i)); body != want {
				t.Fatalf("round %d: message %d is %.20q, want %.20q", round, first+uint64(i), body, want)
			}
		}
		f.stop()
		f.clock.Stop()
	}
}

// killAfter runs the child until it has confirmed so many messages, kills it
// and gives the highest number that it told us.
func killAfter(t *testing.T, dir string, lines int) (confirmed uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashChildEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(out)
	for n := 0; scanner.Scan(); n++ {
		var number uint64
		if _, err := fmt.Sscan(scanner.Text(), &number); err != nil {
			break // a line that the kill cut off
		}
		confirmed = max(confirmed, number)
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // "signal: killed"
	if confirmed == 0 {
		t.Fatal("the child confirmed nothing")
	}
	return confirmed
}
