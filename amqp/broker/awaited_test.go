package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// change is a method that changes durable things.
type change func(done func(error)) (wait bool, err error)

// durableChanges make, for a name, a change that can be asked for twice.
func durableChanges(s *session) map[string]func(name string) change {
	return map[string]func(name string) change{
		"declare queue": func(name string) change {
			return func(done func(error)) (bool, error) {
				_, wait, err := s.v.DeclareQueue(s.c, &frames.QueueDeclare{Queue: name, Durable: true}, done)
				return wait, err
			}
		},
		"declare exchange": func(name string) change {
			return func(done func(error)) (bool, error) {
				return s.v.DeclareExchange(s.c, &frames.ExchangeDeclare{Exchange: name, Type: "direct", Durable: true}, done)
			}
		},
		"bind": func(name string) change {
			return func(done func(error)) (bool, error) {
				return s.v.Bind(s.c, BindRequest{Source: "amq.direct", Destination: "target", ToQueue: true, Key: name}, done)
			}
		},
		"unbind": func(name string) change {
			s.bindQueue("amq.fanout", name, "target", nil)
			return func(done func(error)) (bool, error) {
				return s.v.Unbind(s.c, BindRequest{Source: "amq.fanout", Destination: "target", ToQueue: true, Key: name}, done)
			}
		},
		"delete queue": func(name string) change {
			s.queue("gone "+name, true, nil)
			return func(done func(error)) (bool, error) {
				_, wait, err := s.v.DeleteQueue(s.c, &frames.QueueDelete{Queue: "gone " + name}, done)
				return wait, err
			}
		},
		"delete exchange": func(name string) change {
			s.exchange("gone "+name, "fanout", nil)
			return func(done func(error)) (bool, error) {
				return s.v.DeleteExchange(s.c, &frames.ExchangeDelete{Exchange: "gone " + name}, done)
			}
		},
	}
}

// An -ok promises that the change is durable, also when another client made
// it a moment ago: a second declare, bind or delete is never told sooner.
func TestWhatOthersDidIsAwaited(t *testing.T) {
	b := openBroker(t, compat.V4, t.TempDir())
	s := guest(t, b)
	s.queue("target", true, nil)
	for what, make := range durableChanges(s) {
		waited := 0
		for i := range 10 {
			run := make(fmt.Sprint(what, i))
			first, second := newDone(), newDone()
			wait, err := run(first.done)
			s.must(err)
			if !wait {
				t.Fatalf("%s: the first does not wait", what)
			}
			wait, err = run(second.done)
			s.must(err)
			if wait {
				waited++
				s.must(<-second.told)
			}
			if !first.soon() {
				t.Fatalf("%s: the first was never told", what)
			}
		}
		if waited == 0 {
			t.Errorf("%s: the second never had to wait, which proves nothing", what)
		}
	}
}

// doneCall is a done function and what it was told.
type doneCall struct{ told chan error }

func newDone() doneCall { return doneCall{make(chan error, 1)} }

func (d doneCall) done(err error) { d.told <- err }

// soon waits for a call that belongs to a commit that is done.
func (d doneCall) soon() bool {
	select {
	case err := <-d.told:
		return err == nil
	case <-time.After(10 * time.Second):
		return false
	}
}
