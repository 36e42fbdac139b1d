package broker

import (
	"slices"
	"testing"

	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// TestSelectorBindings: bindings with selectors outlive a restart, a policy of the exchange does not lose them, and the
// last route of a channel is not taken for one with other headers.
func TestSelectorBindings(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		dir := t.TempDir()
		b := openBroker(t, p, dir)
		s := guest(t, b)
		s.must(s.declareExchange(frames.ExchangeDeclare{Exchange: "x", Type: "topic", Durable: true}))
		s.queue("q", true, nil)
		s.bindQueue("x", "#", "q", frames.Table{{Key: exchange.ArgumentSelector, Value: "color = 'red'"}})
		routes := func(s *session) {
			t.Helper()
			for _, color := range []string{"red", "blue", "red"} {
				headers := properties(t, withHeaders(frames.Table{{Key: "color", Value: color}}))
				got, err := s.route(&Publication{Exchange: []byte("x"), RoutingKey: []byte("k"), Properties: headers})
				s.must(err)
				if want := color == "red"; slices.Contains(got, "q") != want {
					t.Errorf("%s goes to %v", color, got)
				}
			}
		}
		routes(s)
		s.putPolicy(UserPolicy, "p", "^x$", 0, definition{"alternate-exchange": "amq.fanout"})
		routes(s)
		routes(guest(t, reopen(t, b, p, dir)))
	})
}
