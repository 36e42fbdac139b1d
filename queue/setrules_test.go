package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// lengthRules makes rules with a length, -1 for none, and an overflow mode.
func lengthRules(length int64, o Overflow) Rules {
	r := NoRules()
	r.MaxLength, r.Overflow = length, o
	return r
}

// TestSetRules: rules hold at once for what waits, in the way of RabbitMQ (conformance chapter policy has the same
// rules asked of it): a queue that has dropped so far drops once more when it is given a length and a mode that
// refuses, one that has refused does not.
func TestSetRules(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, new Rules
		stay     []string
	}{
		{"length", NoRules(), lengthRules(2, DropHead), []string{"2", "3"}},
		{"length and refusal", NoRules(), lengthRules(2, RejectPublish), []string{"2", "3"}},
		{"refusal as before", lengthRules(9, RejectPublish), lengthRules(2, RejectPublish), []string{"0", "1", "2", "3"}},
		{"from refusal to dropping", lengthRules(9, RejectPublish), lengthRules(2, DropHead), []string{"2", "3"}},
		{"no length", lengthRules(4, DropHead), NoRules(), []string{"0", "1", "2", "3"}},
		{"zero", NoRules(), lengthRules(0, DropHead), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := New(Config{Name: "q", ID: 1, Rules: &c.old, Pump: newPump(t)})
			fill(q, 4)
			q.SetRules(c.new)
			if got := q.Rules(); got != c.new {
				t.Errorf("rules %+v", got)
			}
			var got []string
			for {
				e, _, ok, _ := q.Get(true)
				if !ok {
					break
				}
				got = append(got, string(e.Message.Content))
			}
			if !slices.Equal(got, c.stay) {
				t.Errorf("%v stay, want %v", got, c.stay)
			}
		})
	}
}

// TestSetRulesDeadLetters: what a new length drops is dead-lettered if the new rules say so.
func TestSetRulesDeadLetters(t *testing.T) {
	buried := make(chan []Dead, 1)
	q := New(Config{Name: "q", ID: 1, Pump: newPump(t), Bury: func(_ *Queue, dead []Dead) { buried <- dead }})
	fill(q, 3)
	r := lengthRules(1, DropHead)
	r.DeadLetters = true
	q.SetRules(r)
	dead := <-buried
	if len(dead) != 2 || dead[0].Reason != MaxLength || string(dead[1].Message.Content) != "1" {
		t.Errorf("dead: %+v", dead)
	}
}

// TestSetRulesExpires: the time of an unused queue counts from the change, and no more once it is taken away.
func TestSetRulesExpires(t *testing.T) {
	clock := NewClock()
	t.Cleanup(clock.Stop)
	lapsed := make(chan struct{}, 8)
	q := New(Config{Name: "q", ID: 1, Clock: clock, Pump: newPump(t), Lapsed: func(q *Queue) {
		q.DeleteIfLapsed()
		lapsed <- struct{}{}
	}})
	with := func(ms int64) Rules {
		r := NoRules()
		r.Expires = ms
		return r
	}
	clock.Advance(time.Hour)
	q.SetRules(with(1000))
	clock.Advance(900 * time.Millisecond)
	q.SetRules(with(2000)) // starts anew
	clock.Advance(1900 * time.Millisecond)
	q.SetRules(with(0))
	clock.Advance(time.Hour)
	if q.DeleteIfLapsed() || q.Deleted() {
		t.Fatal("the queue has gone without an expiry")
	}
	q.SetRules(with(500))
	clock.Advance(500 * time.Millisecond)
	<-lapsed
	if !q.Deleted() {
		t.Fatal("the queue is still there after its time")
	}
	q.SetRules(NoRules()) // does nothing
}

// TestSetRulesTTL: messages keep the time to live that they came with.
func TestSetRulesTTL(t *testing.T) {
	clock := NewClock()
	t.Cleanup(clock.Stop)
	q := New(Config{Name: "q", ID: 1, Clock: clock, Pump: newPump(t)})
	r := NoRules()
	r.TTL = 1000
	q.SetRules(r)
	q.Publish(text("a"))
	q.SetRules(NoRules())
	q.Publish(text("b"))
	clock.Advance(2 * time.Second)
	if n := q.Counts().Ready; n != 1 {
		t.Fatalf("%d messages wait", n)
	}
	r.TTL = 10
	q.SetRules(r)
	clock.Advance(time.Second)
	if n := q.Counts().Ready; n != 1 {
		t.Fatalf("%d messages wait under the new time to live", n)
	}
}

// TestSetRulesModel compares publishes and changes of rules with a slice.
func TestSetRulesModel(t *testing.T) {
	pump := newPump(t)
	rapid.Check(t, func(t *rapid.T) {
		q := New(Config{Name: "q", ID: 1, Pump: pump})
		var model []string
		rules := NoRules()
		trim := func(r Rules) {
			for r.MaxLength >= 0 && int64(len(model)) > r.MaxLength {
				model = model[1:]
			}
		}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "step") > 0 {
				body := fmt.Sprint(i)
				taken := q.Publish(text(body)) == Taken
				if rules.Overflow != DropHead && rules.MaxLength >= 0 && int64(len(model)) >= rules.MaxLength {
					if taken {
						t.Fatalf("%s was taken by a queue of %d with %+v", body, len(model), rules)
					}
					continue
				}
				model = append(model, body)
				if rules.Overflow == DropHead {
					trim(rules)
				}
				continue
			}
			next := lengthRules(rapid.Int64Range(-1, 6).Draw(t, "length"), Overflow(rapid.IntRange(0, 1).Draw(t, "overflow")))
			if rules.Overflow == DropHead || next.Overflow == DropHead {
				trim(next)
			}
			q.SetRules(next)
			rules = next
		}
		var got []string
		for e, _, ok, _ := q.Get(true); ok; e, _, ok, _ = q.Get(true) {
			got = append(got, string(e.Message.Content))
		}
		if !slices.Equal(got, model) {
			t.Fatalf("queue holds %v, want %v", got, model)
		}
	})
}
