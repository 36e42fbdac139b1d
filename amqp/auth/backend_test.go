package auth

import (
	"errors"
	"strings"
	"testing"
)

func TestAuthenticate(t *testing.T) {
	d := NewDirectory(nil)
	for _, u := range []User{{Name: "bob", PasswordHash: vector}, {Name: "cert"}, {Name: "short", PasswordHash: "AAAA"}, {Name: "", PasswordHash: vector}} {
		if err := d.PutUser(u, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.PutUser(User{Name: "orphan"}, nil); err != nil {
		t.Fatal(err)
	}
	d.DeleteUser("orphan", nil)
	for _, c := range []struct {
		user, password string
		in, identified bool
	}{
		{"bob", "test12", true, true}, {"bob", "test13", false, true}, {"bob", "", false, true}, {"", "test12", true, true},
		{"cert", "", false, true}, {"cert", "test12", false, true}, {"short", "test12", false, true},
		{"nobody", "test12", false, false}, {"orphan", "", false, false}, {"Bob", "test12", false, false},
	} {
		err := d.Authenticate(c.user, c.password)
		if (err == nil) != c.in || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%q with %q: %v", c.user, c.password, err)
		}
		if err := d.Identify(c.user); (err == nil) != c.identified || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("identify %q: %v", c.user, err)
		}
	}
	wrong, unknown := d.Authenticate("bob", "x").Error(), d.Authenticate("eve", "x").Error()
	if wrong != strings.ReplaceAll(unknown, "eve", "bob") {
		t.Errorf("the refusals differ: %q, %q", wrong, unknown)
	}
}

func TestChecks(t *testing.T) {
	d := newUsers(t, "u", "gen")
	for _, p := range []Permission{
		{"u", "v", "^conf", "w|^amq\\.default$", ""},
		{"u", "all", ".*", ".*", ".*"},
		{"gen", "v", "", "^$", "^amq\\.gen"},
	} {
		if err := d.PutPermission(p, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		user, vhost string
		r           Resource
		may         string // the accesses allowed
	}{
		{"u", "v", Resource{Queue, "conf"}, "configure"},
		{"u", "v", Resource{Queue, "xwx"}, "write"},
		{"u", "v", Resource{Exchange, "confw"}, "configure write"},
		{"u", "v", Resource{Exchange, ""}, "write"},
		{"u", "v", Resource{Exchange, "amq.default"}, "write"},
		{"u", "v", Resource{Queue, ""}, "read"},
		{"u", "v", Resource{Queue, "amq.gen-x"}, ""},
		{"gen", "v", Resource{Queue, "amq.gen-x"}, "read"},
		{"gen", "v", Resource{Exchange, ""}, ""}, // checked as amq.default, which ^$ is not
		{"u", "all", Resource{Queue, "any"}, "configure write read"},
		{"u", "all", Resource{Exchange, ""}, "configure write read"},
		{"u", "all", Resource{Topic, "any"}, ""},
		{"u", "all", Resource{Kind(9), "any"}, ""},
		{"u", "none", Resource{Queue, "any"}, ""},
		{"u", "", Resource{Queue, "any"}, ""},
		{"nobody", "all", Resource{Queue, "any"}, ""},
	} {
		for _, p := range []Access{Configure, Write, Read} {
			want := strings.Contains(c.may, p.String())
			if got := d.Check(c.user, c.vhost, c.r, p); got != want {
				t.Errorf("%s in %s: %s of %s %q: %v, want %v", c.user, c.vhost, p, c.r.Kind, c.r.Name, got, want)
			}
		}
		if d.Check(c.user, c.vhost, c.r, Access(7)) {
			t.Error("an access that does not exist is allowed")
		}
	}
	for key, want := range map[[2]string]bool{
		{"u", "v"}: true, {"u", "all"}: true, {"gen", "v"}: true, {"gen", "all"}: false, {"u", "/"}: false, {"nobody", "v"}: false,
	} {
		if got := d.VHostAccess(key[0], key[1]); got != want {
			t.Errorf("access of %s to vhost %s: %v", key[0], key[1], got)
		}
	}
}

func TestCheckTopic(t *testing.T) {
	d := newUsers(t, "u", "other")
	if err := d.PutTopicPermission(TopicPermission{"u", "v", "x", "^{username}\\.", ""}, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		user, vhost, exchange, key string
		write, read                bool
	}{
		{"u", "v", "x", "u.a", true, false},
		{"u", "v", "x", "v.a", false, false},
		{"u", "v", "x", "", false, true}, // "" is ^$
		{"u", "v", "y", "v.a", true, true},
		{"u", "w", "x", "v.a", true, true},
		{"other", "v", "x", "v.a", true, true},
	} {
		w := d.CheckTopic(c.user, c.vhost, c.exchange, c.key, Write)
		r := d.CheckTopic(c.user, c.vhost, c.exchange, c.key, Read)
		if w != c.write || r != c.read {
			t.Errorf("%+v: write %v read %v", c, w, r)
		}
	}
	if d.CheckTopic("u", "v", "x", "u.a", Configure) {
		t.Error("topics cannot be configured")
	}
}

func TestLoginRefused(t *testing.T) {
	want := Reply{403, "Login was refused using authentication mechanism PLAIN. For details see the broker logfile."}
	if got := LoginRefused("PLAIN"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
