package auth

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func all(user, vhost string) Permission { return Permission{user, vhost, ".*", ".*", ".*"} }

func topic(user, vhost, exchange string) TopicPermission {
	return TopicPermission{user, vhost, exchange, ".*", ".*"}
}

func TestPermissionsRefused(t *testing.T) {
	d := newUsers(t, "a")
	if err := d.PutPermission(all("nobody", "v"), nil); !errors.Is(err, ErrNoUser) {
		t.Errorf("permission of nobody: %v", err)
	}
	if err := d.PutTopicPermission(topic("nobody", "v", "x"), nil); !errors.Is(err, ErrNoUser) {
		t.Errorf("topic permission of nobody: %v", err)
	}
	var pe *PatternError
	for _, p := range []Permission{{"a", "v", "(", "", ""}, {"a", "v", "", "(", ""}, {"a", "v", "", "", "("}} {
		if err := d.PutPermission(p, nil); !errors.As(err, &pe) || pe.Pattern != "(" {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for _, p := range []TopicPermission{{"a", "v", "x", "(", ""}, {"a", "v", "x", "", "("}} {
		if err := d.PutTopicPermission(p, nil); !errors.As(err, &pe) || pe.Pattern != "(" {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if err := d.PutPermission(all("a", "\xff"), nil); !errors.Is(err, ErrBadName) {
		t.Errorf("virtual host name: %v", err)
	}
	if d.Version() != 2 || len(d.Permissions()) > 0 || len(d.TopicPermissions()) > 0 {
		t.Error("a refused change changed something")
	}
}

// fill gives users a and b permissions in the virtual hosts v and w and for the exchanges x and y there.
func fill(t *testing.T, d *Directory) {
	t.Helper()
	for _, u := range []string{"a", "b"} {
		if err := d.PutUser(User{Name: u}, nil); err != nil {
			t.Fatal(err)
		}
		for _, v := range []string{"v", "w"} {
			if err := errors.Join(d.PutPermission(all(u, v), nil), d.PutTopicPermission(topic(u, v, "x"), nil),
				d.PutTopicPermission(topic(u, v, "y"), nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestPermissions(t *testing.T) {
	s := newFakeStore()
	d := s.reload(t)
	fill(t, d)
	full := stateOf(d)
	if len(full.Perms) != 4 || len(full.Topics) != 8 {
		t.Fatalf("%+v", full)
	}
	if diff := cmp.Diff(full, stateOf(s.reload(t))); diff != "" {
		t.Errorf("reloaded: %s", diff)
	}
	for _, c := range []struct {
		name          string
		remove        func() bool
		perms, topics string // what is left, user/vhost[/exchange]
	}{
		{"permission", func() bool { return d.DeletePermission("a", "v", nil) }, "b/v a/w b/w",
			"a/v/x a/v/y b/v/x b/v/y a/w/x a/w/y b/w/x b/w/y"},
		{"topic permission", func() bool { return d.DeleteTopicPermission("a", "v", "x", nil) }, "a/v b/v a/w b/w",
			"a/v/y b/v/x b/v/y a/w/x a/w/y b/w/x b/w/y"},
		{"topic permissions", func() bool { return d.DeleteTopicPermissions("a", "v", nil) }, "a/v b/v a/w b/w",
			"b/v/x b/v/y a/w/x a/w/y b/w/x b/w/y"},
		{"exchange", func() bool { return d.DropExchange("w", "y", nil) }, "a/v b/v a/w b/w",
			"a/v/x a/v/y b/v/x b/v/y a/w/x b/w/x"},
		{"virtual host", func() bool { return d.DropVHost("v", nil) }, "a/w b/w", "a/w/x a/w/y b/w/x b/w/y"},
		{"user", func() bool { return d.DeleteUser("b", nil) }, "a/v a/w", "a/v/x a/v/y a/w/x a/w/y"},
	} {
		fill(t, d)
		if diff := cmp.Diff(full, stateOf(d)); diff != "" {
			t.Fatalf("before %s: %s", c.name, diff)
		}
		version, updates := d.Version(), s.updates
		if !c.remove() {
			t.Errorf("%s: said not to exist", c.name)
		}
		if d.Version() != version+1 || s.updates != updates+1 {
			t.Errorf("%s: version %d -> %d, %d updates of the store, want one of each", c.name, version, d.Version(), s.updates-updates)
		}
		var perms, topics []string
		for _, p := range d.Permissions() {
			perms = append(perms, p.User+"/"+p.VHost)
		}
		for _, p := range d.TopicPermissions() {
			topics = append(topics, p.User+"/"+p.VHost+"/"+p.Exchange)
		}
		if diff := cmp.Diff([]string{c.perms, c.topics}, []string{strings.Join(perms, " "), strings.Join(topics, " ")}); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if diff := cmp.Diff(stateOf(d), stateOf(s.reload(t))); diff != "" {
			t.Errorf("%s, reloaded: %s", c.name, diff)
		}
		if version = d.Version(); c.remove() || d.Version() != version || s.updates != updates+1 {
			t.Errorf("%s: removed twice", c.name)
		}
	}
}

func TestPermissionLookup(t *testing.T) {
	d := NewDirectory(nil)
	fill(t, d)
	d.DeleteUser("b", nil)
	if p, ok := d.Permission("a", "v"); !ok || p != all("a", "v") {
		t.Errorf("Permission: %+v %v", p, ok)
	}
	if p, ok := d.TopicPermission("a", "v", "x"); !ok || p != topic("a", "v", "x") {
		t.Errorf("TopicPermission: %+v %v", p, ok)
	}
	if _, ok := d.Permission("b", "v"); ok {
		t.Error("permission of a deleted user")
	}
	if _, ok := d.TopicPermission("b", "v", "x"); ok {
		t.Error("topic permission of a deleted user")
	}
}
