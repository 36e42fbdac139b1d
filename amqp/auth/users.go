package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The limits a user may have (User.Limits). A negative value means no limit.
const (
	LimitConnections = "max-connections"
	LimitChannels    = "max-channels"
)

// Errors of changes; match them with errors.Is. A pattern that does not compile gives a *PatternError instead.
var (
	// ErrNoUser: the change names a user who does not exist.
	ErrNoUser = errors.New("no such user")
	// ErrBadName: a name is not UTF-8. Names are AMQP short strings and JSON strings, both of which are.
	ErrBadName = errors.New("name is not valid UTF-8")
	// ErrBadHash: a password hash is not base64.
	ErrBadHash = errors.New("password hash is not base64")
	// ErrUnknownAlgorithm: the hashing algorithm is none of the Algorithm constants.
	ErrUnknownAlgorithm = errors.New("unknown hashing algorithm")
	// ErrUnknownLimit: a limit is neither LimitConnections nor LimitChannels.
	ErrUnknownLimit = errors.New("unknown user limit")
)

// User is one user as it stands in definitions.json, with the same JSON keys. A User handed out by a Directory is a
// copy and the caller's to change; its HashingAlgorithm, Tags and Limits are filled in, if with an empty list or map.
type User struct {
	Name string
	// PasswordHash is base64 of a 4-byte salt and the digest of salt and password. A user with "" cannot log in with a
	// password.
	PasswordHash string
	// HashingAlgorithm is one of the Algorithm constants; "" is read as AlgorithmSHA256.
	HashingAlgorithm string
	// Tags give rights in the management API; they mean nothing here.
	Tags []string
	// Limits by name: LimitConnections, LimitChannels. Negative: none.
	Limits map[string]int
}

// userJSON is the form of a User in definitions.json and in the store.
type userJSON struct {
	Name             string         `json:"name"`
	PasswordHash     string         `json:"password_hash"`
	HashingAlgorithm string         `json:"hashing_algorithm"`
	Tags             tagList        `json:"tags"`
	Limits           map[string]int `json:"limits"`
}

// MarshalJSON writes the five keys of definitions.json; tags is always an array and limits always an object.
func (u User) MarshalJSON() ([]byte, error) {
	j := userJSON{u.Name, u.PasswordHash, u.HashingAlgorithm, tagList(u.Tags), u.Limits}
	if j.Tags == nil {
		j.Tags = tagList{}
	}
	if j.Limits == nil {
		j.Limits = map[string]int{}
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads a user of definitions.json, where tags may be an array or, as brokers before 3.9 wrote it, one
// string with commas. Keys it does not know are ignored.
func (u *User) UnmarshalJSON(b []byte) error {
	var j userJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return fmt.Errorf("decode user: %w", err)
	}
	*u = User{j.Name, j.PasswordHash, j.HashingAlgorithm, []string(j.Tags), j.Limits}
	return nil
}

// tagList is a JSON array of strings that may also arrive as one string with commas.
type tagList []string

func (t *tagList) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = ParseTags(s)
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// ParseTags splits a list of tags written with commas. Blanks around a tag and empty tags are dropped; the result is
// never nil.
func ParseTags(s string) []string {
	tags := []string{}
	for tag := range strings.SplitSeq(s, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			tags = append(tags, tag)
		}
	}
	return tags
}

// clone returns a copy that shares no memory with u.
func (u User) clone() User {
	u.Tags = slices.Clone(u.Tags)
	u.Limits = maps.Clone(u.Limits)
	return u
}

// validate fills in what was left out and says what is wrong with u, if anything. RabbitMQ takes an unknown algorithm
// and then fails at each login; here the mistake is reported where it is made.
func (u *User) validate() error {
	if err := validNames(u.Name); err != nil {
		return err
	}
	if err := validNames(u.Tags...); err != nil {
		return fmt.Errorf("tag: %w", err)
	}
	if u.HashingAlgorithm == "" {
		u.HashingAlgorithm = AlgorithmSHA256
	}
	if u.Tags == nil {
		u.Tags = []string{}
	}
	if u.Limits == nil {
		u.Limits = map[string]int{}
	}
	if newHash(u.HashingAlgorithm) == nil {
		return fmt.Errorf("%w %q", ErrUnknownAlgorithm, u.HashingAlgorithm)
	}
	if _, err := base64.StdEncoding.DecodeString(u.PasswordHash); err != nil {
		return ErrBadHash
	}
	for name := range u.Limits {
		if name != LimitConnections && name != LimitChannels {
			return fmt.Errorf("%w %q", ErrUnknownLimit, name)
		}
	}
	return nil
}

// validNames refuses what JSON would silently change: bytes that are not UTF-8.
func validNames(names ...string) error {
	for _, n := range names {
		if !utf8.ValidString(n) {
			return fmt.Errorf("%q: %w", n, ErrBadName)
		}
	}
	return nil
}

// PutUser creates the user or replaces it whole, tags, password and limits included; use ChangeUser to change a part.
// Permissions of an existing user stay. It may be called from any goroutine. When PutUser returns nil the change is
// visible to checks, and done (which may be nil) is called once with the store's answer: from the store's goroutine,
// or before PutUser returns where there is no store. When it returns an error nothing was changed and done is never
// called.
func (d *Directory) PutUser(u User, done func(error)) error {
	u = u.clone()
	if err := u.validate(); err != nil {
		return fmt.Errorf("put user: %w", err)
	}
	return d.change(done, func(e *edit) error { return e.putUser(u) })
}

// ChangeUser lets change alter a copy of the user and puts the result in its place, in one step: no other change gets
// between. change must be quick and must not use the directory. Name cannot be changed. Errors and done are as for
// PutUser; ErrNoUser if there is no such user.
func (d *Directory) ChangeUser(name string, change func(*User), done func(error)) error {
	return d.change(done, func(e *edit) error {
		a := e.account(name)
		if a == nil || !a.exists {
			return fmt.Errorf("change user %q: %w", name, ErrNoUser)
		}
		u := a.user.clone()
		change(&u)
		u = u.clone() // what change kept a reference to
		u.Name = name
		if err := u.validate(); err != nil {
			return fmt.Errorf("change user %q: %w", name, err)
		}
		return e.putUser(u)
	})
}

// DeleteUser removes the user with all its permissions and reports whether it existed. done is as for PutUser; it is
// never called when the user did not exist.
func (d *Directory) DeleteUser(name string, done func(error)) (existed bool) {
	err := d.change(done, func(e *edit) error {
		a := e.account(name)
		if a == nil || !a.exists {
			return ErrNoUser
		}
		e.delete(Key{Kind: KindUser, Name: name})
		e.deletePermissions(a)
		e.set(name, nil)
		return nil
	})
	return err == nil
}

// User returns the user of that name. Any goroutine; takes no lock.
func (d *Directory) User(name string) (User, bool) {
	a := d.account(name)
	if a == nil || !a.exists {
		return User{}, false
	}
	return a.user.clone(), true
}

// Users returns all users by name. Any goroutine; takes no lock.
func (d *Directory) Users() []User {
	var users []User
	d.current.Load().each(func(a *account) {
		if a.exists {
			users = append(users, a.user.clone())
		}
	})
	slices.SortFunc(users, func(a, b User) int { return strings.Compare(a.Name, b.Name) })
	return users
}

// putUser stores u and makes it visible. u is valid and the edit's own.
func (e *edit) putUser(u User) error {
	value, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("encode user %q: %w", u.Name, err)
	}
	next := account{}
	if a := e.account(u.Name); a != nil && a.exists {
		next = *a
	} else if a != nil {
		// Permissions found at start without their user. They must not come to life for a new user of that name.
		e.deletePermissions(a)
	}
	next.user, next.exists = u, true
	e.put(Key{Kind: KindUser, Name: u.Name}, value)
	e.set(u.Name, &next)
	return nil
}
