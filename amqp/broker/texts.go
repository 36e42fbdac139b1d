package broker

import (
	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// The rows of the version table that this package asks.
var (
	transientExchangesSurvive = &compat.TransientExchangesSurvive
	logExchange               = &compat.LogExchange
	deathKeepsRedelivered     = &compat.DeathKeepsRedelivered
)

func noExchange(vhost, name string) *frames.Error {
	return frames.Errorf(frames.NotFound, "no %s", exchangeText(vhost, name))
}

func noQueue(vhost, name string) *frames.Error {
	return frames.Errorf(frames.NotFound, "no %s", queueText(vhost, name))
}

func lockedQueue(vhost, name string) *frames.Error {
	return frames.Errorf(frames.ResourceLocked, "cannot obtain exclusive access to locked %s. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.", queueText(vhost, name))
}

func refuseDefaultExchange(name string) error {
	if name == "" {
		return frames.Errorf(frames.AccessRefused, "operation not permitted on the default exchange")
	}
	return nil
}

// unknownExchangeType: RabbitMQ says "invalid" for a name that its runtime
// happens to know as an atom. Only the names met in practice are listed.
func unknownExchangeType(p compat.Profile, typ string) *frames.Error {
	word := "unknown"
	switch typ {
	case "", "queue", "exchange", "true", "false", "undefined", "none", "all", "any", "classic", "quorum", "stream":
		word = "invalid"
	}
	return frames.Errorf(compat.UnknownExchangeTypeCode.In(p), "%s exchange type '%s'", word, typ)
}

// orNil keeps a nil *frames.Error from becoming a non-nil error.
func orNil(e *frames.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// check refuses what the client's user has no permission for.
func (v *VHost) check(c *Client, kind auth.Kind, name string, access auth.Access) error {
	checked := name
	if kind == auth.Exchange && name == "" {
		checked = "amq.default"
	}
	if c.Internal || v.broker.Auth.Check(c.User, v.Name, auth.Resource{Kind: kind, Name: checked}, access) {
		return nil
	}
	object := queueText(v.Name, checked)
	if kind == auth.Exchange {
		object = exchangeText(v.Name, checked)
	}
	return v.refused(c, access, object)
}

func (v *VHost) refused(c *Client, access auth.Access, object string) error {
	prefix := ""
	if compat.AccessPrefix.In(v.broker.Profile) {
		prefix = access.String() + " "
	}
	return frames.Errorf(frames.AccessRefused, "%saccess to %s refused for user '%s'", prefix, object, c.User)
}

// checkPassive: since 4.3 a passive declare needs any one permission.
func (v *VHost) checkPassive(c *Client, kind auth.Kind, name string) error {
	if !compat.PassiveDeclareNeedsPermission.In(v.broker.Profile) {
		return nil
	}
	for _, a := range []auth.Access{auth.Read, auth.Write} {
		if v.broker.Auth.Check(c.User, v.Name, auth.Resource{Kind: kind, Name: name}, a) {
			return nil
		}
	}
	return v.check(c, kind, name, auth.Configure)
}

// checkTopic refuses a routing key that the user's topic permissions exclude.
func (v *VHost) checkTopic(c *Client, exchange, key string, access auth.Access) error {
	if v.broker.Auth.CheckTopic(c.User, v.Name, exchange, key, access) {
		return nil
	}
	return v.refused(c, access, "topic '"+key+"' in "+exchangeText(v.Name, exchange))
}
