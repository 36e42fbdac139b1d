package broker

import (
	"errors"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// textOf is the whole text of a ValidationError.
func textOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var ve *ValidationError
	if !errors.As(err, &ve) {
		t.Fatalf("not a validation error: %v", err)
	}
	return ve.Text
}

// TestLimitTexts has what RabbitMQ 3.10.8 and 4.3.6 answered.
func TestLimitTexts(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	for _, c := range []struct {
		name        string
		value       any
		vhost, user string
	}{
		{"max-connections", 5, "", ""},
		{"max-connections", -1, "", ""},
		{"max-connections", 1.5, "Validation failed\n\nmax-connections should be a number, actually was 1.5\n", "max-connections should be a number, actually was 1.5"},
		{"max-connections", "5", "Validation failed\n\nmax-connections should be a number, actually was <<\"5\">>\n", "max-connections should be a number, actually was <<\"5\">>"},
		{"max-connections", nil, "Validation failed\n\nmax-connections should be a number, actually was null\n", "max-connections should be a number, actually was null"},
		{"max-connections", []any{}, "Validation failed\n\nmax-connections should be a number, actually was []\n", "max-connections should be a number, actually was []"},
		{"zz", 5, "Validation failed\n\nUnrecognised terms [{<<\"zz\">>,5}] in limits\n", "Unrecognised terms [{<<\"zz\">>,5}] in user-limits"},
		{"zz", "x", "Validation failed\n\nUnrecognised terms [{<<\"zz\">>,<<\"x\">>}] in limits\n", "Unrecognised terms [{<<\"zz\">>,<<\"x\">>}] in user-limits"},
	} {
		_, err := b.SetVHostLimit("/", c.name, c.value, nil)
		if got := textOf(t, err); got != c.vhost {
			t.Errorf("limit %s of a virtual host, %v: %q", c.name, c.value, got)
		}
		_, err = b.SetUserLimit("guest", c.name, c.value, nil)
		if got := textOf(t, err); got != c.user {
			t.Errorf("limit %s of a user, %v: %q", c.name, c.value, got)
		}
	}
	if _, err := b.SetVHostLimit("nope", LimitQueues, 5, nil); !errors.Is(err, ErrNoVHost) {
		t.Errorf("a limit of no virtual host: %v", err)
	}
	if _, err := b.SetUserLimit("nope", auth.LimitChannels, 5, nil); !errors.Is(err, auth.ErrNoUser) {
		t.Errorf("a limit of no user: %v", err)
	}
}

// TestLimitsChange: limits are set, read and cleared one by one.
func TestLimitsChange(t *testing.T) {
	b := openBroker(t, compat.V3, "")
	must := func(_ bool, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(vhost map[string]int64, user map[string]int) {
		t.Helper()
		u, _ := b.Users.User("guest")
		if diff := gocmp.Diff([]any{vhost, user}, []any{b.VHostLimits("/"), u.Limits}); diff != "" {
			t.Error(diff)
		}
	}
	want(map[string]int64{}, map[string]int{})
	must(b.SetVHostLimit("/", LimitQueues, 3, nil))
	must(b.SetVHostLimit("/", LimitConnections, -1, nil))
	must(b.SetUserLimit("guest", auth.LimitChannels, 4, nil))
	want(map[string]int64{"max-queues": 3, "max-connections": -1}, map[string]int{"max-channels": 4})
	v, _ := b.VHost("/")
	if _, limited := v.ConnectionLimit(); limited {
		t.Error("-1 is a limit")
	}
	must(b.ClearVHostLimit("/", LimitQueues, nil))
	must(b.ClearVHostLimit("/", "zz", nil))
	must(b.ClearUserLimit("guest", auth.LimitChannels, nil))
	must(b.ClearUserLimit("guest", "zz", nil))
	want(map[string]int64{"max-connections": -1}, map[string]int{})
	if b.VHostLimits("nope") != nil {
		t.Error("limits of no virtual host")
	}
}

// TestExchangeLimit: the predeclared exchanges of all virtual hosts count.
func TestExchangeLimit(t *testing.T) {
	b, err := Open(Options{Logger: discard, ExchangeLimit: 9})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	s := guest(t, b) // seven and amq.rabbitmq.log
	s.exchange("one", "fanout", nil)
	err = s.declareExchange(frames.ExchangeDeclare{Exchange: "two", Type: "fanout"})
	if got := errorText(err); got != "406 cannot declare exchange 'two' in vhost '/': exchange limit of 9 is reached" {
		t.Errorf("one more exchange: %q", got)
	}
	s.exchange("one", "fanout", nil)
}

// TestParameterTexts has what RabbitMQ 3.10.8 and 4.3.6 answered.
func TestParameterTexts(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	policy := map[string]any{"pattern": "x", "definition": map[string]any{"max-length": 1}, "priority": 1, "apply-to": "queues"}
	for _, c := range []struct {
		component, name string
		value           any
		want            string
	}{
		{"zz", "n", 5, "Validation failed\n\ncomponent zz not found\n"},
		{"federation-upstream", "n", policy, "Validation failed\n\ncomponent federation-upstream not found\n"},
		{"policy", "n", policy, "policies may not be set using this method"},
		{"operator_policy", "n", policy, ""},
		{"operator_policy", "n", 5, "Validation failed\n\nn not a list 5\n"},
		{"operator_policy", "n", map[string]any{"a": 1},
			"Validation failed\n\nUnrecognised terms [{<<\"a\">>,1}] in n\nKey \"definition\" not found in n\nKey \"pattern\" not found in n\nKey \"priority\" not found in n\n"},
		{"vhost-limits", "limits", map[string]any{"max-queues": 3}, ""},
		{"vhost-limits", "limits", map[string]any{"max-queues": "x", "zz": 1},
			"Validation failed\n\nUnrecognised terms [{<<\"zz\">>,1}] in limits\nmax-queues should be a number, actually was <<\"x\">>\n"},
		{"vhost-limits", "limits", "x", "Validation failed\n\nlimits not a list <<\"x\">>\n"},
		{"vhost-limits", "n", map[string]any{"a": 1}, "Validation failed\n\nUnrecognised terms [{<<\"a\">>,1}] in n\n"},
		{"vhost-limits", "n", policy, "Validation failed\n\nUnrecognised terms [{<<\"apply-to\">>,<<\"queues\">>},\n                    {<<\"definition\">>,#{<<\"max-length\">> => 1}},\n                    {<<\"pattern\">>,<<\"x\">>},\n                    {<<\"priority\">>,1}] in n\n"},
	} {
		_, _, err := b.PutParameter("/", c.component, c.name, c.value, nil)
		if got := textOf(t, err); got != c.want {
			t.Errorf("parameter %s, %s, %v:\n got %q\nwant %q", c.component, c.name, c.value, got, c.want)
		}
	}
	if n := len(b.Parameters("/")); n != 2 {
		t.Errorf("%d parameters", n)
	}
	for _, c := range []struct {
		component, name string
		want            bool
	}{{"vhost-limits", "limits", true}, {"vhost-limits", "limits", false}, {"operator_policy", "n", true}, {"zz", "n", false}, {"policy", "n", false}} {
		if existed, _, err := b.DeleteParameter("/", c.component, c.name, nil); existed != c.want || err != nil {
			t.Errorf("delete parameter %s, %s: %v, %v", c.component, c.name, existed, err)
		}
	}
}

// TestVHostSettings: the default type of queues is profile 4's.
func TestVHostSettings(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		b := openBroker(t, p, "")
		four := p == compat.V4
		_, _, err := b.PutVHost("v", VHostSettings{DefaultQueueType: "bogus"}, nil)
		want := ""
		if four {
			want = "bogus is not a valid queue type"
		}
		if got := textOf(t, err); got != want {
			t.Errorf("default queue type bogus: %q", got)
		}
		added, _, err := b.PutVHost("w", VHostSettings{DefaultQueueType: "quorum", Tags: []string{"a"}}, nil)
		if err != nil || !added {
			t.Fatal(added, err)
		}
		v, _ := b.VHost("w")
		m := v.withDefaultType(&frames.QueueDeclare{Queue: "q", Durable: true})
		typ, _ := m.Arguments.Get("x-queue-type")
		if (typ == "quorum") != four {
			t.Errorf("a queue in a virtual host of quorum queues has type %v", typ)
		}
		if added, _, err := b.PutVHost("w", VHostSettings{}, nil); added || err != nil || v.Settings().Tags != nil {
			t.Errorf("settings are replaced: %v, %v, %+v", added, err, v.Settings())
		}
	})
}
