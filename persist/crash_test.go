package persist

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// crashChildEnv tells the test binary to be the child that is killed: the
// store's folder, a seed and the sync policy.
const crashChildEnv = "WARREN_PERSIST_CRASH_CHILD"

// The child reports on its standard output, one line a step, written before the
// step or, for what is done, by the waiter:
//
//	L a b          the two logs of this run
//	P log seq      about to be appended
//	S log seq      told stored
//	T log seq      about to be settled
//	b n, B n       barrier asked for, resolved
//	G n sa sb x    group n about to be submitted: appends to both, settles x in a
//	D n            group n told stored
//	W n            index pages rewritten by now
type crashChild struct {
	mu  sync.Mutex
	out io.Writer
	rnd *rand.Rand

	s        *Store
	a, b     *Log
	seq      uint64
	storedMu sync.Mutex
	stored   []crashID // told, not settled by us yet
}

type crashID struct{ log, seq uint64 }

func (c *crashChild) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, format+"\n", args...)
}

// told is the waiter of one kind of token.
type told struct{ fn func(token uint64) }

func (w *told) Stored(token uint64, err error) {
	if err == nil {
		w.fn(token)
	}
}
func (w *told) Flush() {}

func runCrashChild() {
	var dir string
	var seed uint64
	var policy SyncPolicy
	if _, err := fmt.Sscan(os.Getenv(crashChildEnv), &dir, &seed, &policy); err != nil {
		panic(err)
	}
	o := testOptions(dir)
	o.Sync, o.GCInterval, o.LazyDelay = policy, 20*time.Millisecond, 3*time.Millisecond
	o.RewriteInterval, o.rewrite = 5*time.Millisecond, rewriteLimits{bodyBytes: 2000, entries: 16, small: 64, run: 3}
	s, err := Open(o)
	if err != nil {
		panic(err)
	}
	c := &crashChild{out: os.Stdout, rnd: rand.New(rand.NewPCG(seed, 1)), s: s}
	for _, id := range s.Logs() { // until all are read nothing is rewritten
		if err := s.Log(id).Recover(func(Recovered) error { return nil }); err != nil {
			panic(err)
		}
	}
	c.a, c.b = s.Log(s.NextID()), s.Log(s.NextID())
	c.say("L %d %d", c.a.ID(), c.b.ID())
	for n := uint64(1); ; n++ {
		switch k := c.rnd.IntN(100); {
		case k < 60:
			c.publish()
		case k < 90:
			c.settle()
		case k < 96:
			c.group(n)
		default:
			c.say("b %d", n)
			s.Barrier(&told{func(uint64) { c.say("B %d", n) }}, 0)
		}
		if n%100 == 0 {
			c.say("W %d", s.Stats().Rewritten)
		}
		for s.Backlog() > 8<<20 {
			time.Sleep(time.Millisecond)
		}
		if c.rnd.IntN(20) == 0 {
			time.Sleep(200 * time.Microsecond)
		}
	}
}

func crashBody(id crashID) string {
	return strings.Repeat(fmt.Sprint(id.log, ":", id.seq, " "), 1+int(id.seq%97)*int(id.seq%5))
}

func (c *crashChild) publish() {
	l := c.a
	if c.rnd.IntN(2) == 0 {
		l = c.b
	}
	c.seq++
	id := crashID{l.ID(), c.seq}
	c.say("P %d %d", id.log, id.seq)
	atOnce := c.rnd.IntN(4) == 0 // settled perhaps before its commit
	w := &told{func(uint64) {
		c.say("S %d %d", id.log, id.seq)
		if atOnce {
			return
		}
		c.storedMu.Lock()
		c.stored = append(c.stored, id)
		c.storedMu.Unlock()
	}}
	m := newMessage(w, 0, "", crashBody(id))
	l.Append(id.seq, &m.Record, Meta{})
	if atOnce {
		c.say("T %d %d", id.log, id.seq)
		l.Settle(id.seq)
	}
}

// take picks a stored message at random.
func (c *crashChild) take() (crashID, bool) {
	c.storedMu.Lock()
	defer c.storedMu.Unlock()
	if len(c.stored) == 0 {
		return crashID{}, false
	}
	i := c.rnd.IntN(len(c.stored))
	id := c.stored[i]
	c.stored[i] = c.stored[len(c.stored)-1]
	c.stored = c.stored[:len(c.stored)-1]
	return id, true
}

func (c *crashChild) settle() {
	if id, ok := c.take(); ok {
		c.say("T %d %d", id.log, id.seq)
		c.s.Log(id.log).Settle(id.seq)
	}
}

// group moves a stored message from one log to the other, so to say, and leaves
// a copy.
func (c *crashChild) group(n uint64) {
	x, ok := c.take()
	if !ok {
		return
	}
	var g Group
	c.seq++
	// The logs count together, so one number serves both.
	c.say("G %d %d %d %d", n, c.seq, x.log, x.seq)
	body := "group"
	if c.rnd.IntN(200) == 0 {
		body = strings.Repeat("g", aheadBytes+c.rnd.IntN(8<<20))
	}
	m := newMessage(nil, 0, "", body)
	g.Append(c.a, c.seq, &m.Record, Meta{})
	g.Append(c.b, c.seq, &m.Record, Meta{})
	g.Settle(c.s.Log(x.log), x.seq)
	c.s.Submit(&g, &told{func(uint64) { c.say("D %d", n) }}, 0)
}

// crashGroup is what the parent knows of a group.
type crashGroup struct {
	seq  uint64
	x    crashID
	done bool
}

// crashReport is what the parent knows of a run.
type crashReport struct {
	a, b      uint64
	published map[crashID]bool
	stored    map[crashID]bool
	settling  map[crashID]bool // asked for
	settled   map[crashID]bool // asked for before a barrier that was resolved
	groups    map[uint64]*crashGroup
	barriers  map[uint64][]crashID // what a barrier covers
	asked     []crashID
	lines     int
	rewritten uint64
}

func (r *crashReport) read(t *testing.T, line string) {
	fields := strings.Fields(line)
	n := make([]uint64, 5)
	for i, f := range fields[1:] {
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		n[i] = v
	}
	id := crashID{n[0], n[1]}
	switch fields[0] {
	case "L":
		r.a, r.b = n[0], n[1]
	case "P":
		r.published[id] = true
	case "S":
		r.stored[id] = true
	case "T":
		r.settling[id] = true
		r.asked = append(r.asked, id)
	case "b":
		r.barriers[n[0]], r.asked = r.asked, nil
	case "B":
		for _, id := range r.barriers[n[0]] {
			r.settled[id] = true
		}
	case "G":
		r.groups[n[0]] = &crashGroup{seq: n[1], x: crashID{n[2], n[3]}}
	case "D":
		r.groups[n[0]].done = true
	case "W":
		r.rewritten = n[0]
	default:
		t.Fatalf("line %q", line)
	}
	r.lines++
}

// runAndKill runs a child and kills it after some lines.
func runAndKill(t *testing.T, dir string, seed uint64, lines int, policy SyncPolicy) *crashReport {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", crashChildEnv, dir, seed, policy))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &crashReport{
		published: make(map[crashID]bool), stored: make(map[crashID]bool), settling: make(map[crashID]bool),
		settled: make(map[crashID]bool), groups: make(map[uint64]*crashGroup), barriers: make(map[uint64][]crashID),
	}
	scan := bufio.NewReader(out)
	for {
		line, err := scan.ReadString('\n')
		if err != nil { // what is behind the last line end was not said
			break
		}
		r.read(t, line)
		if r.lines == lines {
			cmd.Process.Kill()
		}
	}
	cmd.Wait()
	if r.lines < lines || stderr.Len() > 0 {
		t.Fatalf("the child ended after %d of %d lines: %s", r.lines, lines, stderr.String())
	}
	return r
}

// check compares what is on disk with what the child was told.
func (r *crashReport) check(t *testing.T, found map[crashID]string) {
	t.Helper()
	inGroup := make(map[crashID]bool)
	moved := make(map[crashID]bool)
	for n, g := range r.groups {
		a, b := crashID{r.a, g.seq}, crashID{r.b, g.seq}
		inGroup[a], inGroup[b], moved[g.x] = true, true, true
		_, inA := found[a]
		_, inB := found[b]
		_, old := found[g.x]
		if inA != inB || inA == old || (g.done && !inA) {
			t.Errorf("group %d (told stored: %v): its messages are there: %v and %v; the one it settles: %v", n, g.done, inA, inB, old)
		}
	}
	lost := 0
	for id := range r.stored {
		if _, ok := found[id]; !ok && !r.settling[id] && !moved[id] {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d messages that were told stored are lost", lost)
	}
	for id := range r.settled {
		if _, ok := found[id]; ok {
			t.Errorf("message %v came back after its settle and a barrier", id)
		}
	}
	for id, body := range found {
		switch {
		case id.log != r.a && id.log != r.b, inGroup[id]:
		case !r.published[id]:
			t.Errorf("message %v was never published", id)
		case body != crashBody(id):
			t.Errorf("message %v has another body", id)
		}
	}
}

func readAll(t *testing.T, s *Store) map[crashID]string {
	t.Helper()
	found := make(map[crashID]string)
	for _, id := range s.Logs() {
		for _, m := range recovered(t, s.Log(id)) {
			found[crashID{id, m.Seq}] = m.Body
		}
	}
	return found
}

// TestKill kills a child again and again on the same folder and compares what
// it was told with what the next start finds.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	before := make(map[crashID]string)
	stored, groups, rewritten := 0, 0, uint64(0)
	for run := range uint64(12) {
		seed, lines := rnd.Uint64(), 20+rnd.IntN(3000)
		policy := []SyncPolicy{SyncAlways, SyncNever, SyncInterval}[run%3]
		r := runAndKill(t, dir, seed, lines, policy)
		s := openDir(t, dir)
		if s.CleanStart() {
			t.Error("the start after a kill is clean")
		}
		found := readAll(t, s)
		r.check(t, found)
		for id, body := range before {
			if x, ok := found[id]; !ok || x != body {
				t.Fatalf("message %v of an earlier run is lost", id)
			}
		}
		for id := range found {
			if _, ok := before[id]; !ok && id.log != r.a && id.log != r.b {
				t.Errorf("message %v of an earlier run came back", id)
			}
		}
		wantNoKeys(t, s, "g")
		mustClose(t, s)
		before = found
		stored, groups = stored+len(r.stored), groups+len(r.groups)
		rewritten += r.rewritten
		if t.Failed() {
			t.Fatalf("run %d, seed %d, killed after %d lines, sync %v", run, seed, lines, policy)
		}
	}
	if stored == 0 || groups == 0 || rewritten == 0 {
		t.Errorf("only %d messages, %d groups and %d pages rewritten: too little was tested", stored, groups, rewritten)
	}
	t.Logf("%d messages told stored, %d groups, %d index pages rewritten, %d messages at the end", stored, groups, rewritten, len(before))
}
