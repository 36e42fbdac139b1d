package management

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/warrenmq/warren/amqp/auth"
)

func (q *request) userObject(u auth.User) object {
	limits := object{}
	for k, v := range u.Limits {
		limits[k] = v
	}
	return object{
		"name": u.Name, "password_hash": u.PasswordHash, "hashing_algorithm": u.HashingAlgorithm,
		"tags": tags(u), "limits": limits,
	}
}

func listUsers(q *request) (any, error) {
	all := []object{}
	for _, u := range q.api.broker.Users.Users() {
		all = append(all, q.userObject(u))
	}
	return q.list(all)
}

func listUsersWithout(q *request) (any, error) {
	with := map[string]bool{}
	for _, p := range q.api.broker.Users.Permissions() {
		with[p.User] = true
	}
	all := []object{}
	for _, u := range q.api.broker.Users.Users() {
		if !with[u.Name] {
			all = append(all, q.userObject(u))
		}
	}
	return q.list(all)
}

func (q *request) pathUser() (auth.User, error) {
	u, ok := q.api.broker.Users.User(q.PathValue("user"))
	if !ok {
		return u, errNotFound
	}
	return u, nil
}

func getUser(q *request) (any, error) {
	u, err := q.pathUser()
	if err != nil {
		return nil, err
	}
	return q.one(q.userObject(u))
}

func putUser(q *request) (any, error) {
	o, err := q.object()
	if err != nil {
		return nil, err
	}
	name := q.PathValue("user")
	old, existed := q.api.broker.Users.User(name)
	u, err := readUser(name, o)
	if err != nil {
		return nil, err
	}
	u.Limits = old.Limits
	if err := q.await(func(done func(error)) (bool, error) { return true, q.api.broker.Users.PutUser(u, done) }); err != nil {
		return nil, q.userRefusal(err)
	}
	return q.created(existed)
}

// userRefusal turns the directory's refusals into answers.
func (q *request) userRefusal(err error) error {
	var pattern *auth.PatternError
	switch {
	case errors.As(err, &pattern):
		return badRequest([]any{"invalid_regexp", pattern.Pattern, []any{pattern.Reason, pattern.Offset}})
	case errors.Is(err, auth.ErrNoUser):
		return badRequest("vhost_or_user_not_found")
	}
	return badRequest(err.Error())
}

// readUser reads a user of PUT /users/U or of definitions.
func readUser(name string, o object) (auth.User, error) {
	u := auth.User{Name: name}
	rawTags, ok := o["tags"]
	if !ok {
		return u, badRequest("tags_not_present")
	}
	var err error
	if u.Tags, err = readTags(rawTags); err != nil {
		return u, err
	}
	password, hasPassword := o["password"]
	hash, hasHash := o["password_hash"]
	switch {
	case hasPassword && hasHash:
		return u, badRequest("both_password_and_password_hash_are_provided")
	case hasPassword:
		s, ok := password.(string)
		if !ok {
			return u, badRequest([]any{"not_string", password})
		}
		u.PasswordHash = auth.HashPassword(s)
	case hasHash:
		s, _ := hash.(string)
		algorithm, _ := o["hashing_algorithm"].(string)
		if _, err := base64.StdEncoding.DecodeString(s); err != nil {
			return u, badRequest([]any{"not_base64", s})
		}
		u.PasswordHash, u.HashingAlgorithm = s, algorithm
	}
	return u, nil
}

// readTags reads a list of tags, which may be one string with commas.
func readTags(v any) ([]string, error) {
	all := []string{}
	switch v := v.(type) {
	case string:
		for t := range strings.SplitSeq(v, ",") {
			if t = strings.TrimSpace(t); t != "" {
				all = append(all, t)
			}
		}
		return all, nil
	case []any:
		for _, e := range v {
			t, ok := e.(string)
			if !ok {
				return nil, badRequest([]any{"not_string", e})
			}
			all = append(all, t)
		}
		return all, nil
	}
	return nil, badRequest([]any{"not_string", v})
}

func deleteUser(q *request) (any, error) {
	name := q.PathValue("user")
	existed := true
	err := q.await(func(done func(error)) (wait bool, err error) {
		existed, wait = q.api.broker.DeleteUser(name, done)
		return wait, nil
	})
	if err == nil && !existed {
		return nil, errNotFound
	}
	return nil, err
}

// deleteUsers deletes many. 3.10.8 stops at the first that is unknown; the
// ones before it are gone.
func deleteUsers(q *request) (any, error) {
	var body struct{ Users *[]string }
	if err := q.read(&body); err != nil {
		return nil, err
	}
	if body.Users == nil {
		return nil, badRequest("[{key_missing,users}]")
	}
	for _, name := range *body.Users {
		existed := true
		err := q.await(func(done func(error)) (wait bool, err error) {
			existed, wait = q.api.broker.DeleteUser(name, done)
			return wait, nil
		})
		if err != nil {
			return nil, err
		}
		if !existed && !q.api.v4() {
			return nil, badRequest([]any{"no_such_user", name})
		}
	}
	return nil, nil
}

func permissionObject(p auth.Permission) object {
	return object{"user": p.User, "vhost": p.VHost, "configure": p.Configure, "write": p.Write, "read": p.Read}
}

func topicObject(p auth.TopicPermission) object {
	return object{"user": p.User, "vhost": p.VHost, "exchange": p.Exchange, "write": p.Write, "read": p.Read}
}

func (q *request) permissions(keep func(auth.Permission) bool) (any, error) {
	all := []object{}
	for _, p := range q.api.broker.Users.Permissions() {
		if keep(p) {
			all = append(all, permissionObject(p))
		}
	}
	return q.list(all)
}

func (q *request) topicPermissions(keep func(auth.TopicPermission) bool) (any, error) {
	all := []object{}
	for _, p := range q.api.broker.Users.TopicPermissions() {
		if keep(p) {
			all = append(all, topicObject(p))
		}
	}
	return q.list(all)
}

func listPermissions(q *request) (any, error) {
	return q.permissions(func(auth.Permission) bool { return true })
}

func listTopicPermissions(q *request) (any, error) {
	return q.topicPermissions(func(auth.TopicPermission) bool { return true })
}

func userPermissions(q *request) (any, error) {
	u, err := q.pathUser()
	if err != nil {
		return nil, err
	}
	return q.permissions(func(p auth.Permission) bool { return p.User == u.Name })
}

func userTopicPermissions(q *request) (any, error) {
	u, err := q.pathUser()
	if err != nil {
		return nil, err
	}
	return q.topicPermissions(func(p auth.TopicPermission) bool { return p.User == u.Name })
}

func vhostPermissions(q *request) (any, error) {
	v, err := q.namedVHost()
	if err != nil {
		return nil, err
	}
	return q.permissions(func(p auth.Permission) bool { return p.VHost == v.Name })
}

func vhostTopicPermissions(q *request) (any, error) {
	v, err := q.namedVHost()
	if err != nil {
		return nil, err
	}
	return q.topicPermissions(func(p auth.TopicPermission) bool { return p.VHost == v.Name })
}

// permissionPath finds virtual host and user of a permission's path.
func (q *request) permissionPath() (vhost, user string, err error) {
	vhost, user = q.PathValue("name"), q.PathValue("user")
	if _, ok := q.api.broker.VHost(vhost); !ok {
		return "", "", errNotFound
	}
	if _, ok := q.api.broker.Users.User(user); !ok {
		return "", "", errNotFound
	}
	return vhost, user, nil
}

func getPermission(q *request) (any, error) {
	p, ok := q.api.broker.Users.Permission(q.PathValue("user"), q.PathValue("name"))
	if !ok {
		return nil, errNotFound
	}
	return q.one(permissionObject(p))
}

func putPermission(q *request) (any, error) {
	vhost, user := q.PathValue("name"), q.PathValue("user")
	o, err := q.object()
	if err != nil {
		return nil, err
	}
	if err := needs(o, "configure", "write", "read"); err != nil {
		return nil, err
	}
	if _, _, err := q.permissionPath(); err != nil {
		return nil, badRequest("vhost_or_user_not_found")
	}
	_, existed := q.api.broker.Users.Permission(user, vhost)
	p := auth.Permission{User: user, VHost: vhost}
	if err := texts(o, []field[string]{{"configure", &p.Configure}, {"write", &p.Write}, {"read", &p.Read}}); err != nil {
		return nil, err
	}
	if err := q.await(func(done func(error)) (bool, error) { return true, q.api.broker.Users.PutPermission(p, done) }); err != nil {
		return nil, q.userRefusal(err)
	}
	return q.created(existed)
}

func deletePermission(q *request) (any, error) {
	return q.deleted(func(done func(error)) bool {
		return q.api.broker.Users.DeletePermission(q.PathValue("user"), q.PathValue("name"), done)
	})
}

// deleted waits for a deletion of the directory; 404 when there was nothing.
func (q *request) deleted(remove func(done func(error)) bool) (any, error) {
	existed := true
	err := q.await(func(done func(error)) (bool, error) {
		existed = remove(done)
		return existed, nil
	})
	if err == nil && !existed {
		return nil, errNotFound
	}
	return nil, err
}

func getTopicPermissions(q *request) (any, error) {
	vhost, user, err := q.permissionPath()
	if err != nil {
		return nil, err
	}
	any := slices.ContainsFunc(q.api.broker.Users.TopicPermissions(), func(p auth.TopicPermission) bool { return p.User == user && p.VHost == vhost })
	if !any {
		return nil, errNotFound
	}
	return q.topicPermissions(func(p auth.TopicPermission) bool { return p.User == user && p.VHost == vhost })
}

func putTopicPermission(q *request) (any, error) {
	vhost, user := q.PathValue("name"), q.PathValue("user")
	o, err := q.object()
	if err != nil {
		return nil, err
	}
	if err := needs(o, "exchange", "write", "read"); err != nil {
		return nil, err
	}
	if _, _, err := q.permissionPath(); err != nil {
		return nil, badRequest("vhost_or_user_not_found")
	}
	p := auth.TopicPermission{User: user, VHost: vhost}
	if err := texts(o, []field[string]{{"exchange", &p.Exchange}, {"write", &p.Write}, {"read", &p.Read}}); err != nil {
		return nil, err
	}
	_, existed := q.api.broker.Users.TopicPermission(user, vhost, p.Exchange)
	if err := q.await(func(done func(error)) (bool, error) { return true, q.api.broker.Users.PutTopicPermission(p, done) }); err != nil {
		return nil, q.userRefusal(err)
	}
	return q.created(existed)
}

func deleteTopicPermissions(q *request) (any, error) {
	return q.deleted(func(done func(error)) bool {
		return q.api.broker.Users.DeleteTopicPermissions(q.PathValue("user"), q.PathValue("name"), done)
	})
}

// deleteTopicPermission: as in RabbitMQ it is enough that the user has topic
// permissions for any exchange.
func deleteTopicPermission(q *request) (any, error) {
	if _, err := getTopicPermissions(q); err != nil {
		return nil, err
	}
	return nil, q.await(func(done func(error)) (bool, error) {
		return q.api.broker.Users.DeleteTopicPermission(q.PathValue("user"), q.PathValue("name"), q.PathValue("exchange"), done), nil
	})
}
