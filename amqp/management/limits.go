package management

import (
	"errors"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/amqp/broker"
)

// listVHostLimits lists the limits of virtual hosts that have any.
func listVHostLimits(q *request) (any, error) {
	all := []object{}
	for _, v := range q.vhosts() {
		if limits := q.api.broker.VHostLimits(v.Name); len(limits) > 0 {
			all = append(all, object{"vhost": v.Name, "value": limits})
		}
	}
	return q.list(all)
}

// limitValue reads the body of a PUT of a limit or parameter.
func (q *request) limitValue() (any, error) {
	o, err := q.object()
	if err != nil {
		return nil, err
	}
	return o["value"], needs(o, "value")
}

func putVHostLimit(q *request) (any, error) {
	value, err := q.limitValue()
	if err != nil {
		return nil, err
	}
	return nil, q.await(func(done func(error)) (bool, error) {
		return q.api.broker.SetVHostLimit(q.vhost.Name, q.PathValue("limit"), value, done)
	})
}

func deleteVHostLimit(q *request) (any, error) {
	return nil, q.await(func(done func(error)) (bool, error) {
		return q.api.broker.ClearVHostLimit(q.vhost.Name, q.PathValue("limit"), done)
	})
}

func userLimits(u auth.User) object { return object{"user": u.Name, "value": u.Limits} }

// listUserLimits lists the limits of users who have any. Since 4.x it is for administrators.
func listUserLimits(q *request) (any, error) {
	if q.api.v4() && !q.is() {
		return nil, notAuthorised("Not administrator user")
	}
	all := []object{}
	for _, u := range q.api.broker.Users.Users() {
		if len(u.Limits) > 0 {
			all = append(all, userLimits(u))
		}
	}
	return q.list(all)
}

// getUserLimits gives the limits of one user, a list of one or none. Since 4.x those of others are for who may
// monitor.
func getUserLimits(q *request) (any, error) {
	u, err := q.pathUser()
	if err != nil {
		return nil, err
	}
	if q.api.v4() && u.Name != q.user.Name && !q.is("monitoring") {
		return nil, notAuthorised("User not authorised to access object")
	}
	all := []object{}
	if len(u.Limits) > 0 {
		all = append(all, userLimits(u))
	}
	return q.list(all)
}

func putUserLimit(q *request) (any, error) {
	value, err := q.limitValue()
	if err != nil {
		return nil, err
	}
	err = q.await(func(done func(error)) (bool, error) {
		return q.api.broker.SetUserLimit(q.PathValue("user"), q.PathValue("limit"), value, done)
	})
	if errors.Is(err, auth.ErrNoUser) {
		return nil, badRequest([]any{"no_such_user", q.PathValue("user")})
	}
	return nil, err
}

func deleteUserLimit(q *request) (any, error) {
	err := q.await(func(done func(error)) (bool, error) {
		return q.api.broker.ClearUserLimit(q.PathValue("user"), q.PathValue("limit"), done)
	})
	if errors.Is(err, auth.ErrNoUser) {
		return nil, noVHost // what 4.3.6 says of a user; 3.10.8 fails with 500
	}
	return nil, err
}

// vhostLimitsOf is the limits as definitions show them.
func vhostLimitsOf(b *broker.Broker, vhost string) map[string]int64 {
	if limits := b.VHostLimits(vhost); limits != nil {
		return limits
	}
	return map[string]int64{}
}
