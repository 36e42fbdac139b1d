package conformance

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/amqp/amqptest"
	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/amqp/broker"
)

// startWarren starts Warren in this process with a compatibility profile and returns how to reach it, who administers
// it, and how to stop it. It keeps its durable things on disk, as RabbitMQ does.
func startWarren(t testing.TB, profile int) (uri string, admin Admin, stop func()) {
	t.Helper()
	b, err := amqptest.Run(amqptest.Compat(profile), amqptest.DataDir(t.TempDir()), amqptest.BodyBudget(*budgetFlag))
	if err != nil {
		t.Fatal(err)
	}
	return b.URI(), warrenAdmin{b.Broker()}, func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// warrenAdmin administers a broker in this process.
type warrenAdmin struct{ broker *broker.Broker }

func (a warrenAdmin) CreateVHost(name string) error {
	_, _, err := a.broker.AddVHost(name, nil)
	if err != nil {
		return err
	}
	return a.SetPermissions("guest", name, ".*", ".*", ".*")
}

func (a warrenAdmin) DeleteVHost(name string) error {
	if removed, _ := a.broker.RemoveVHost(name, nil); !removed {
		return fmt.Errorf("delete vhost %q: there is none", name)
	}
	return nil
}

func (a warrenAdmin) PutUser(name, password string, tags ...string) error {
	return a.broker.Users.PutUser(auth.User{Name: name, PasswordHash: auth.HashPassword(password), Tags: tags}, nil)
}

// DeleteUser counts a user who is missing as deleted, as rabbitmqctl of 4.3 does.
func (a warrenAdmin) DeleteUser(name string) error {
	a.broker.DeleteUser(name, nil)
	return nil
}

func (a warrenAdmin) SetPermissions(user, vhost, configure, write, read string) error {
	return a.broker.Users.PutPermission(auth.Permission{User: user, VHost: vhost, Configure: configure, Write: write, Read: read}, nil)
}

func (a warrenAdmin) SetTopicPermissions(user, vhost, exchange, write, read string) error {
	return a.broker.Users.PutTopicPermission(auth.TopicPermission{User: user, VHost: vhost, Exchange: exchange, Write: write, Read: read}, nil)
}

func (a warrenAdmin) PutPolicy(vhost string, p Policy) error {
	return a.putPolicy(vhost, broker.UserPolicy, p)
}

func (a warrenAdmin) PutOperatorPolicy(vhost string, p Policy) error {
	return a.putPolicy(vhost, broker.OperatorPolicy, p)
}

func (a warrenAdmin) putPolicy(vhost string, kind broker.PolicyKind, p Policy) error {
	_, _, err := a.broker.PutPolicy(vhost, kind, broker.Policy{
		Name: p.Name, Pattern: p.Pattern, ApplyTo: p.ApplyTo, Priority: float64(p.Priority), Definition: p.Definition,
	}, nil)
	return err
}

func (a warrenAdmin) DeletePolicy(vhost, name string) error {
	_, _, err := a.broker.DeletePolicy(vhost, broker.UserPolicy, name, nil)
	return err
}

func (a warrenAdmin) DeleteOperatorPolicy(vhost, name string) error {
	_, _, err := a.broker.DeletePolicy(vhost, broker.OperatorPolicy, name, nil)
	return err
}

func (a warrenAdmin) SetVHostLimit(vhost, name string, value int) error {
	_, err := a.broker.SetVHostLimit(vhost, name, value, nil)
	return err
}

func (a warrenAdmin) SetUserLimit(user, name string, value int) error {
	_, err := a.broker.SetUserLimit(user, name, value, nil)
	return err
}

// SetTracing implements Tracer.
func (a warrenAdmin) SetTracing(vhost string, on bool) error {
	v, ok := a.broker.VHost(vhost)
	if !ok {
		return fmt.Errorf("trace vhost %q: there is none", vhost)
	}
	v.SetTracing(on)
	return nil
}

// resources are the names that alarm cases use.
var resources = map[string]broker.Resource{"memory": broker.Memory, "disk": broker.Disk}

// SetAlarm implements AlarmSetter.
func (a warrenAdmin) SetAlarm(resource string) error {
	a.broker.SetAlarm(resources[resource])
	return nil
}

// ClearAlarm implements AlarmSetter.
func (a warrenAdmin) ClearAlarm(resource string) error {
	a.broker.ClearAlarm(resources[resource])
	return nil
}

// CloseConnection implements ConnectionCloser as the management API does it.
func (a warrenAdmin) CloseConnection(user, reason string) error {
	if reason == "" {
		reason = "Closed via management plugin"
	}
	if n := a.broker.CloseSessions(func(i broker.SessionInfo) bool { return i.User == user }, reason); n != 1 {
		return fmt.Errorf("close connection of user %q: %d connections", user, n)
	}
	return nil
}
