package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// definition is that of a policy.
type definition = map[string]any

// putPolicy puts a policy for the names that a pattern is found in, and waits until it is durable.
func (s *session) putPolicy(kind PolicyKind, name, pattern string, priority float64, d definition) {
	s.t.Helper()
	s.must(s.stored(func(done func(error)) (wait bool, err error) {
		_, wait, err = s.v.broker.PutPolicy(s.v.Name, kind, Policy{Name: name, Pattern: pattern, Priority: priority, Definition: d}, done)
		return wait, err
	}))
}

func (s *session) deletePolicy(kind PolicyKind, name string) {
	s.t.Helper()
	s.must(s.stored(func(done func(error)) (wait bool, err error) {
		existed, wait, err := s.v.broker.DeletePolicy(s.v.Name, kind, name, done)
		if !existed {
			err = fmt.Errorf("policy %q did not exist", name)
		}
		return wait, err
	}))
}

// inJSON is a definition as JSON, with its keys in order.
func inJSON(d definition) string {
	if d == nil {
		return "none"
	}
	return string(encodeDefinition(d))
}

// TestPolicyMerge: policy and operator policy in one, with what RabbitMQ showed as effective_policy_definition.
func TestPolicyMerge(t *testing.T) {
	for _, c := range []struct {
		name             string
		p                compat.Profile
		policy, operator definition
		want             string
	}{
		{"neither", compat.V4, nil, nil, "none"},
		{"policy", compat.V3, definition{"max-length": 5, "queue-mode": "lazy"}, nil, `{"max-length":5,"queue-mode":"lazy"}`},
		{"operator", compat.V3, nil, definition{"max-length": 5}, `{"max-length":5}`},
		{"numbers", compat.V3, definition{"max-length": 10, "message-ttl": 100, "max-length-bytes": 5, "overflow": "drop-head"},
			definition{"max-length": 5, "message-ttl": 1000, "expires": 7}, `{"expires":7,"max-length":5,"max-length-bytes":5,"message-ttl":100,"overflow":"drop-head"}`},
		{"operator's", compat.V4, definition{"overflow": "drop-head", "queue-version": 2}, definition{"overflow": "reject-publish", "queue-version": 1},
			`{"overflow":"reject-publish","queue-version":1}`},
		{"delayed retry", compat.V4, definition{"delayed-retry-type": "all", "delayed-retry-min": 5, "delayed-retry-max": 8, "target-group-size": 3},
			definition{"delayed-retry-type": "failed", "delayed-retry-min": 9, "delayed-retry-max": 99, "target-group-size": 1},
			`{"delayed-retry-max":8,"delayed-retry-min":9,"delayed-retry-type":"failed","target-group-size":3}`},
		{"delivery limit", compat.V4, definition{"delivery-limit": 3}, definition{"delivery-limit": 5}, `{"delivery-limit":3}`},
		{"no delivery limit", compat.V4, definition{"delivery-limit": -1}, definition{"delivery-limit": 5}, `{"delivery-limit":5}`},
		{"neither limit", compat.V4, definition{"delivery-limit": -1}, definition{"delivery-limit": -2}, `{"delivery-limit":-1}`},
		{"delivery limit of 0", compat.V4, definition{"delivery-limit": 0}, definition{"delivery-limit": -1}, `{"delivery-limit":0}`},
		{"huge", compat.V4, definition{"message-ttl": json.Number("100000000000000000000")}, definition{"max-length": 1}, `{"max-length":1,"message-ttl":100000000000000000000}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := guest(t, openBroker(t, c.p, ""))
			if c.policy != nil {
				s.putPolicy(UserPolicy, "p", "", 0, c.policy)
			}
			if c.operator != nil {
				s.putPolicy(OperatorPolicy, "o", "", 0, c.operator)
			}
			got := s.v.policies.Load().ofQueue("q", typeQuorum).definition
			if fit := s.v.policies.Load().ofQueue("q", typeClassic).definition; fit != nil {
				got = fit
			}
			if inJSON(got) != c.want {
				t.Errorf("effective %s, want %s", inJSON(got), c.want)
			}
		})
	}
}

// TestPolicyAndArguments: a queue's own arguments with a policy, by type of queue.
func TestPolicyAndArguments(t *testing.T) {
	for _, c := range []struct {
		queueType       string
		key             string
		policy          any
		argument, other any // of the queue; nil is none
		want            any
	}{
		{typeClassic, "max-length", 5, int32(7), nil, int64(5)},
		{typeClassic, "max-length", 7, int32(5), nil, int32(5)},
		{typeClassic, "message-ttl", 7, nil, nil, int64(7)},
		{typeClassic, "message-ttl", json.Number("100000000000000000000"), nil, nil, int64(maxDurationMs)},
		{typeClassic, "expires", 7, int64(9), nil, int64(7)},
		{typeQuorum, "expires", 9, int64(7), nil, int64(9)},
		{typeClassic, "overflow", "reject-publish", "drop-head", nil, "drop-head"},
		{typeQuorum, "overflow", "reject-publish", "drop-head", nil, "reject-publish"},
		{typeQuorum, "delivery-limit", 5, int32(-1), nil, int64(5)},
		{typeQuorum, "delivery-limit", -1, int32(3), nil, int32(3)},
		{typeQuorum, "delivery-limit", 5, "3", nil, "3"},
		{typeClassic, "dead-letter-exchange", "p", "a", nil, "a"},
		{typeClassic, "dead-letter-exchange", "p", nil, nil, "p"},
		{typeStream, "max-length-bytes", 9, int64(5), nil, int64(9)},
		{typeStream, "max-age", "1h", "7D", nil, "1h"},
		{typeClassic, "queue-version", 2, nil, nil, int64(2)},
	} {
		var args frames.Table
		if c.argument != nil {
			args = frames.Table{{Key: "x-" + c.key, Value: c.argument}}
		}
		d, err := canonical(definition{c.key: c.policy})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := effectiveArguments(c.queueType, args, d.(definition)).Get("x-" + c.key)
		if got != c.want {
			t.Errorf("%s, %s: policy %v with argument %v is %#v, want %#v", c.queueType, c.key, c.policy, c.argument, got, c.want)
		}
		if c.argument != nil && args[0].Value != c.argument {
			t.Errorf("the queue's own argument was changed to %v", args[0].Value)
		}
	}
}

// TestPolicyMatch: which policy a queue shows; of equal priority the first by name.
func TestPolicyMatch(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		s := guest(t, openBroker(t, p, ""))
		q := s.queue("orders.eu", false, nil)
		has := func(policy, operator string) {
			t.Helper()
			if q.Policy() != policy || q.OperatorPolicy() != operator {
				t.Errorf("policy %q and operator policy %q, want %q and %q", q.Policy(), q.OperatorPolicy(), policy, operator)
			}
		}
		has("", "")
		s.putPolicy(UserPolicy, "b", "^orders", 1, definition{"max-length": 5})
		s.putPolicy(UserPolicy, "c", "eu$", 1, definition{"max-length": 5})
		s.putPolicy(UserPolicy, "a", "other", 9, definition{"max-length": 5})
		s.putPolicy(OperatorPolicy, "o", ".", 0, definition{"max-length": 3})
		has("b", "o")
		s.putPolicy(UserPolicy, "a2", "eu", 1, definition{"max-length": 5})
		has("a2", "o")
		s.putPolicy(UserPolicy, "unfit", "", 10, definition{"delivery-limit": 5, "max-length": 1})
		has("a2", "o")
		if got := inJSON(q.EffectivePolicy()); got != `{"max-length":3}` {
			t.Errorf("effective %s", got)
		}
		if got := q.EffectiveArguments()["x-max-length"]; got != int64(3) {
			t.Errorf("effective x-max-length %#v", got)
		}
		s.deletePolicy(UserPolicy, "a2")
		s.deletePolicy(UserPolicy, "b")
		s.deletePolicy(OperatorPolicy, "o")
		has("c", "")
		s.deletePolicy(UserPolicy, "c")
		has("", "")
		if q.Rules() != queue.NoRules() {
			t.Errorf("rules %+v without a policy", q.Rules())
		}
		if _, _, err := s.v.broker.PutPolicy("nope", UserPolicy, Policy{Name: "p", Definition: definition{"expires": 1}}, nil); !errors.Is(err, ErrNoVHost) {
			t.Errorf("a policy of no virtual host: %v", err)
		}
	})
}

// TestExchangePolicy: policies of exchanges, also of one with bindings, and of those that are declared later.
func TestExchangePolicy(t *testing.T) {
	s := guest(t, openBroker(t, compat.V4, ""))
	s.exchange("x", "direct", nil)
	s.exchange("ae", "fanout", nil)
	s.queue("q", false, nil)
	s.bindQueue("ae", "", "q", nil)
	publish := func(x string) []string {
		t.Helper()
		got, err := s.route(&Publication{Exchange: []byte(x), RoutingKey: []byte("nobody"), Properties: properties(t, frames.PropertyValues{})})
		s.must(err)
		return got
	}
	s.putPolicy(UserPolicy, "p", "^x", 0, definition{"alternate-exchange": "ae"})
	s.exchange("x2", "topic", nil)
	s.bindQueue("x2", "bound", "q", nil)
	for _, x := range []string{"x", "x2"} {
		if got := publish(x); !gocmp.Equal(got, []string{"q"}) {
			t.Errorf("%s routes to %v", x, got)
		}
		if p, o, d := s.v.ExchangePolicies(x); p != "p" || o != "" || inJSON(d) != `{"alternate-exchange":"ae"}` {
			t.Errorf("%s has policy %q, operator policy %q, %v", x, p, o, d)
		}
	}
	s.deletePolicy(UserPolicy, "p")
	if got := publish("x2"); len(got) != 0 {
		t.Errorf("without the policy x2 routes to %v", got)
	}
}

// TestPoliciesSurvive: everything here is durable once done was called and holds again after a restart or a kill.
func TestPoliciesSurvive(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		dir := t.TempDir()
		b := openBroker(t, p, dir)
		s := guest(t, b)
		s.queue("q", true, nil)
		s.exchange("x", "direct", nil)
		s.putPolicy(UserPolicy, "p", "^q$", 2.5, definition{"max-length": 2, "message-ttl": 60_000})
		s.putPolicy(UserPolicy, "x", "^x$", 0, definition{"alternate-exchange": "amq.fanout"})
		s.putPolicy(UserPolicy, "gone", "^q$", 9, definition{"max-length": 1})
		s.deletePolicy(UserPolicy, "gone")
		s.putPolicy(OperatorPolicy, "o", "q", 0, definition{"max-length": 1})
		s.must(s.stored(func(done func(error)) (bool, error) { return b.SetVHostLimit("/", LimitQueues, 7, done) }))
		s.must(s.stored(func(done func(error)) (bool, error) { return b.SetUserLimit("guest", "max-channels", 9, done) }))
		for _, name := range []string{"kept", "dropped"} {
			s.must(s.stored(func(done func(error)) (wait bool, err error) {
				_, wait, err = b.PutGlobalParameter(name, definition{"n": 1.5}, done)
				return wait, err
			}))
		}
		s.must(s.stored(func(done func(error)) (wait bool, err error) {
			_, wait = b.DeleteGlobalParameter("dropped", done)
			return wait, nil
		}))
		dlx := "amq.topic"
		s.must(s.stored(func(done func(error)) (wait bool, err error) {
			_, wait, err = b.PutVHost("/", VHostSettings{Description: "d", Tags: []string{"a", "b"}, DefaultDeadLetterExchange: &dlx}, done)
			return wait, err
		}))
		describe := func(b *Broker) []any {
			v, _ := b.VHost("/")
			q, _ := v.Queue("q")
			user, _ := b.Users.User("guest")
			policy, _, _ := v.ExchangePolicies("x")
			return []any{b.Policies("/", UserPolicy), b.Policies("/", OperatorPolicy), b.VHostLimits("/"), b.GlobalParameters(), v.Settings(),
				b.Parameters("/"), q.Policy(), q.OperatorPolicy(), inJSON(q.EffectivePolicy()), q.Rules(), v.DefaultDeadLetterExchange(), user.Limits, policy}
		}
		want := describe(b)
		killed := copyFolder(t, dir)
		s.must(b.Close())
		for name, dir := range map[string]string{"a restart": dir, "a kill": killed} {
			if diff := gocmp.Diff(want, describe(openBroker(t, p, dir))); diff != "" {
				t.Errorf("after %s (-before +after):\n%s", name, diff)
			}
		}
	})
}

// TestPoliciesGoWithVHost: a virtual host that is deleted leaves nothing behind for one of its name.
func TestPoliciesGoWithVHost(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	for range 2 {
		s := guest(t, b)
		s.must(b.await(func(done func(error)) (wait bool, err error) {
			_, wait, err = b.AddVHost("v", done)
			return wait, err
		}))
		if len(b.Policies("v", UserPolicy))+len(b.Policies("v", OperatorPolicy))+len(b.VHostLimits("v")) != 0 {
			t.Fatalf("a new virtual host has policies %v or limits %v", b.Policies("v", UserPolicy), b.VHostLimits("v"))
		}
		for _, kind := range []PolicyKind{UserPolicy, OperatorPolicy} {
			_, _, err := b.PutPolicy("v", kind, Policy{Name: "p", Definition: definition{"expires": 5}}, nil)
			s.must(err)
		}
		_, err := b.SetVHostLimit("v", LimitConnections, 3, nil)
		s.must(err)
		s.must(b.await(func(done func(error)) (bool, error) {
			_, wait := b.RemoveVHost("v", done)
			return wait, nil
		}))
		s.must(b.Close())
		b = openBroker(t, compat.V4, dir)
		if _, ok := b.VHost("v"); ok {
			t.Fatal("the virtual host is back")
		}
	}
}

// stuck is a consumer that takes its time.
type stuck struct{ entered, leave chan struct{} }

func (s *stuck) Deliver(*queue.Consumer, *queue.Entry) bool {
	close(s.entered)
	<-s.leave
	return false
}
func (s *stuck) Cancelled(*queue.Consumer) {}

// TestPolicyHoldsNoLock: while a policy is being given to queues, one of which does not answer, others are declared
// in the virtual host, and these have it.
func TestPolicyHoldsNoLock(t *testing.T) {
	s := guest(t, openBroker(t, compat.V4, ""))
	slow := s.queue("slow", false, nil)
	sink := &stuck{make(chan struct{}), make(chan struct{})}
	c := &queue.Consumer{Tag: "c", Sink: sink}
	s.must(slow.AddConsumer(c))
	slow.Resume(c)
	var busy sync.WaitGroup
	busy.Add(2)
	go func() {
		defer busy.Done()
		s2 := guest(t, s.v.broker)
		s2.publish("", "slow", "m", frames.PropertyValues{})
	}()
	<-sink.entered
	go func() {
		defer busy.Done()
		if _, _, err := s.v.broker.PutPolicy("/", UserPolicy, Policy{Name: "p", Definition: definition{"max-length": 1}}, nil); err != nil {
			t.Error(err)
		}
	}()
	for end := time.Now().Add(20 * time.Second); len(s.v.broker.Policies("/", UserPolicy)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the policy does not come")
		}
	}
	if q := s.queue("other", false, nil); q.Policy() != "p" || q.Rules().MaxLength != 1 {
		t.Errorf("a queue declared meanwhile has policy %q", q.Policy())
	}
	close(sink.leave)
	busy.Wait()
	if slow.Rules().MaxLength != 1 {
		t.Error("the slow queue has not got the policy")
	}
}

// TestPoliciesAndDeclares: queues and exchanges that are declared while policies change have the last ones.
func TestPoliciesAndDeclares(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			s := guest(t, b)
			for n := range 100 {
				name := fmt.Sprintf("o-%d-%d", i, n)
				s.queue(name, false, nil)
				s.exchange(name, "fanout", nil)
			}
		})
		work.Go(func() {
			for n := range 30 {
				p := Policy{Name: fmt.Sprint("p", i), Pattern: "^o-", Definition: definition{"max-length": n + 1, "alternate-exchange": fmt.Sprint(n)}}
				if _, _, err := b.PutPolicy("/", UserPolicy, p, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	v, _ := b.VHost("/")
	for _, q := range v.Queues() {
		if q.Policy() != "p0" || q.Rules().MaxLength != 30 {
			t.Fatalf("%s has policy %q and rules %+v", q.Name, q.Policy(), q.Rules())
		}
		if node, _ := v.topology.Load().exchanges.Get(q.Name); node.alternate != "29" {
			t.Fatalf("exchange %s has the alternate exchange %q", q.Name, node.alternate)
		}
	}
}
