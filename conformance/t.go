package conformance

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warrenmq/warren/conformance/wire"
)

// T is what a case works with: names of its own, connections, and the way to fail. It belongs to the goroutine that
// runs the case.
type T struct {
	// Immutable.
	Target
	kase  Case
	Q, Q2 string // queue names of this case
	X, X2 string // exchange names of this case
	Key   string // a routing key of this case
	Login string // a user name of this case; the user exists once the case has created it

	// Owned by the case's goroutine.
	failures []string
	conns    []*Conn
	leavings []wire.Method // deletions of what the case has declared
	cleanups []func()
}

// runID keeps the names of two runs against one broker apart.
var runID = fmt.Sprintf("%x", time.Now().UnixNano()&0xffffffffff)

var caseNumber atomic.Int64

func newT(target Target, c Case) *T {
	stem := fmt.Sprintf("cf-%s-%d", runID, caseNumber.Add(1))
	return &T{Target: target, kase: c, Q: stem + "-q", Q2: stem + "-q2", X: stem + "-x", X2: stem + "-x2",
		Key: stem + "-k", Login: stem + "-u"}
}

// Result is the outcome of one case.
type Result struct {
	Case     Case
	Failures []string // empty: passed
	Elapsed  time.Duration
}

// Run runs one case against a target and cleans up after it. Any goroutine may call it; calls may overlap.
func Run(target Target, c Case) Result {
	t := newT(target, c)
	start := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.run()
	}()
	<-done
	return Result{Case: c, Failures: t.failures, Elapsed: time.Since(start)}
}

// run is the body of a case's goroutine, which Fatalf may end early; the deferred part runs all the same.
func (t *T) run() {
	defer t.finish()
	t.kase.Run(t)
	for _, c := range t.conns {
		c.wantNothingMore()
	}
}

// finish drops every connection and deletes what the case has left on the broker.
func (t *T) finish() {
	for _, c := range t.conns {
		c.w.Close()
	}
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
	if len(t.leavings) == 0 {
		return
	}
	sweeper := newT(t.Target, t.kase)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := sweeper.Connect()
		defer c.w.Close()
		for i, m := range t.leavings {
			ch := c.Chan(uint16(i + 1)) // one channel each: a refusal must not stop the rest
			ch.Send(m)
			ch.next()
		}
	}()
	<-done
	for _, f := range sweeper.failures {
		t.Errorf("clean up: %s", f)
	}
}

// Errorf records a failure and goes on.
func (t *T) Errorf(format string, args ...any) {
	t.failures = append(t.failures, caller()+fmt.Sprintf(format, args...))
}

// caller names the innermost line of a chapter on the stack, for the reader of a failure; "" when there is none.
func caller() string {
	for skip := 2; skip < 16; skip++ {
		if _, file, line, ok := runtime.Caller(skip); ok && strings.Contains(file, "chapter_") {
			return fmt.Sprintf("%s:%d: ", file[strings.LastIndex(file, "/")+1:], line)
		}
	}
	return ""
}

// Fatalf records a failure and ends the case.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// Must ends the case when err is set.
func (t *T) Must(err error) {
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// Equal ends the case when got is not want; an absent table equals an empty one in method arguments.
func (t *T) Equal(what string, got, want any) {
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// Differs reports whether the target is Warren, for a case that names a Difference.
func (t *T) Differs() bool {
	if t.kase.Difference == "" {
		panic("conformance: case " + t.kase.ID + " names no difference")
	}
	return t.Warren
}

// Four reports whether the target follows profile 4.
func (t *T) Four() bool { return t.Profile == Profile4 }

// Text fills in the names of the case, in the way the broker prints them: {q} and {q2} are "queue 'NAME' in vhost
// 'VHOST'", {x} and {x2} the same of exchanges; {Q}, {Q2}, {X}, {X2}, {K}, {V}, {U} are bare names, {me} is
// the target's user.
func (t *T) Text(s string) string {
	return strings.NewReplacer(
		"{q}", fmt.Sprintf("queue '%s' in vhost '%s'", t.Q, t.VHost),
		"{q2}", fmt.Sprintf("queue '%s' in vhost '%s'", t.Q2, t.VHost),
		"{x}", fmt.Sprintf("exchange '%s' in vhost '%s'", t.X, t.VHost),
		"{x2}", fmt.Sprintf("exchange '%s' in vhost '%s'", t.X2, t.VHost),
		"{Q}", t.Q, "{Q2}", t.Q2, "{X}", t.X, "{X2}", t.X2, "{K}", t.Key, "{V}", t.VHost, "{U}", t.Login, "{me}", t.User,
	).Replace(s)
}

// Cleanup calls f after the case, last first.
func (t *T) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

// noteLeaving remembers what m leaves on the broker, so that finish can delete it.
func (t *T) noteLeaving(m wire.Method) {
	switch m := m.(type) {
	case wire.QueueDeclare:
		if !m.Passive && !m.Exclusive && m.Queue != "" {
			t.leavings = append(t.leavings, wire.QueueDelete{Queue: m.Queue})
		}
	case wire.ExchangeDeclare:
		if !m.Passive && m.Exchange != "" && !strings.HasPrefix(m.Exchange, "amq.") {
			t.leavings = append(t.leavings, wire.ExchangeDelete{Exchange: m.Exchange})
		}
	}
}
