package auth

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUsers(t *testing.T) {
	s := newFakeStore()
	d := s.reload(t)
	u := User{Name: "bob", PasswordHash: vector, Tags: []string{"management"}, Limits: map[string]int{LimitChannels: 3}}
	want := User{Name: "bob", PasswordHash: vector, HashingAlgorithm: AlgorithmSHA256, Tags: []string{"management"},
		Limits: map[string]int{LimitChannels: 3}}
	if err := d.PutUser(u, nil); err != nil {
		t.Fatal(err)
	}
	u.Tags[0], u.Limits[LimitChannels] = "changed", 9 // the caller's again
	got, ok := d.User("bob")
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Fatalf("user: %v %s", ok, diff)
	}
	got.Tags[0], got.Limits[LimitChannels] = "changed", 9 // a copy
	d.Tags("bob")[0] = "changed"
	if got, _ = d.User("bob"); cmp.Diff(want, got) != "" {
		t.Error("a user handed out shares memory with the directory")
	}
	if diff := cmp.Diff([]string{"management"}, d.Tags("bob")); diff != "" {
		t.Error(diff)
	}
	if d.Tags("nobody") != nil {
		t.Error("a user who does not exist has tags")
	}

	if err := d.ChangeUser("bob", func(u *User) { u.Name = "eve"; u.Tags = nil }, nil); err != nil {
		t.Fatal(err)
	}
	want.Tags = []string{}
	if got, _ = d.User("bob"); cmp.Diff(want, got) != "" {
		t.Errorf("after a change: %s", cmp.Diff(want, got))
	}
	if _, ok := d.User("eve"); ok {
		t.Error("a change renamed the user")
	}
	if err := d.ChangeUser("nobody", func(*User) {}, nil); !errors.Is(err, ErrNoUser) {
		t.Errorf("change of nobody: %v", err)
	}
	if err := d.ChangeUser("bob", func(u *User) { u.PasswordHash = "!" }, nil); !errors.Is(err, ErrBadHash) {
		t.Errorf("change to a bad hash: %v", err)
	}
	if !d.DeleteUser("bob", nil) || d.DeleteUser("bob", nil) {
		t.Error("deletion does not say whether the user existed")
	}
	if len(d.Users()) != 0 || len(s.values) != 0 {
		t.Errorf("after deletion: %v, store %v", d.Users(), s.values)
	}
}

func TestUsersRefused(t *testing.T) {
	d := NewDirectory(nil)
	for _, c := range []struct {
		user User
		want error
	}{
		{User{Name: "a\xff"}, ErrBadName},
		{User{Name: "a", Tags: []string{"\xff"}}, ErrBadName},
		{User{Name: "a", PasswordHash: "!!!"}, ErrBadHash},
		{User{Name: "a", HashingAlgorithm: "zz"}, ErrUnknownAlgorithm},
		{User{Name: "a", Limits: map[string]int{"max-fun": 1}}, ErrUnknownLimit},
	} {
		called := false
		if err := d.PutUser(c.user, func(error) { called = true }); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.user, err, c.want)
		}
		if called {
			t.Errorf("%+v: done was called for a refused change", c.user)
		}
	}
	if len(d.Users()) != 0 || d.Version() != 1 {
		t.Error("a refused change changed something")
	}
	for _, u := range []User{{Name: ""}, {Name: strings.Repeat("ü", 150)}, {Name: "\x00/ {}\n"}, {Name: "a", PasswordHash: "AAAA"}} {
		if err := d.PutUser(u, nil); err != nil { // RabbitMQ takes these too
			t.Errorf("%+v: %v", u, err)
		}
	}
}

func TestUserJSON(t *testing.T) {
	for _, c := range []struct {
		json string
		want User
	}{
		{`{"name":"a","password_hash":"` + vector + `","hashing_algorithm":"rabbit_password_hashing_sha256","tags":["x","y"],"limits":{"max-channels":3}}`,
			User{"a", vector, AlgorithmSHA256, []string{"x", "y"}, map[string]int{LimitChannels: 3}}},
		{`{"name":"a","password_hash":"","tags":"administrator, x,,y","more":1}`,
			User{Name: "a", Tags: []string{"administrator", "x", "y"}}},
		{`{"name":"a","tags":""}`, User{Name: "a", Tags: []string{}}},
		{`{"name":"a"}`, User{Name: "a"}},
	} {
		var u User
		if err := json.Unmarshal([]byte(c.json), &u); err != nil {
			t.Errorf("%s: %v", c.json, err)
		}
		if diff := cmp.Diff(c.want, u); diff != "" {
			t.Errorf("%s: %s", c.json, diff)
		}
	}
	for _, bad := range []string{`{"tags":5}`, `{"tags":[1]}`, `[]`, `{"limits":{"max-channels":"3"}}`} {
		if err := json.Unmarshal([]byte(bad), new(User)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
	got, err := json.Marshal(User{Name: "a"})
	if want := `{"name":"a","password_hash":"","hashing_algorithm":"","tags":[],"limits":{}}`; err != nil || string(got) != want {
		t.Errorf("json is %s, want %s", got, want)
	}
}
