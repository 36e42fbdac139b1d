package auth

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// newUsers returns a directory with users named as given, each with its name as password.
func newUsers(t *testing.T, names ...string) *Directory {
	t.Helper()
	d := NewDirectory(nil)
	for _, n := range names {
		if err := d.PutUser(User{Name: n, PasswordHash: HashPassword(n)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func field(key string, kind byte, value string) string {
	return string([]byte{byte(len(key))}) + key + string(kind) + value
}

func text(s string) string { return string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s }

var (
	guestLogin    = field("LOGIN", 'S', text("guest"))
	guestPassword = field("PASSWORD", 'S', text("guest"))
)

// nestedTables is a table field with n tables inside each other.
func nestedTables(n int) string {
	s := ""
	for range n {
		s = field("x", 'F', text(s))
	}
	return s
}

// outcome of a login: what the connection would do.
const (
	in        = "in"
	refused   = "refused"
	malformed = "malformed"
)

func outcome(err error) string {
	switch {
	case err == nil:
		return in
	case errors.Is(err, ErrRefused) && !errors.Is(err, ErrMalformed):
		return refused
	case errors.Is(err, ErrMalformed) && !errors.Is(err, ErrRefused):
		return malformed
	}
	return fmt.Sprint("unexpected error: ", err)
}

// Each row was asked of RabbitMQ 3.10.8 and 4.3.6, which agreed.
func TestResponses(t *testing.T) {
	d := newUsers(t, "guest")
	ms := Mechanisms(d, MechanismOptions{})
	for _, c := range []struct{ mechanism, response, want string }{
		{"PLAIN", "\x00guest\x00guest", in},
		{"PLAIN", "x\x00guest\x00guest", malformed},
		{"PLAIN", "\x00guest\x00guest\x00", malformed},
		{"PLAIN", "\x00guest\x00gu\x00est", malformed},
		{"PLAIN", "guest\x00guest", malformed},
		{"PLAIN", "\x00guest", malformed},
		{"PLAIN", "", malformed},
		{"PLAIN", "guest guest", malformed},
		{"PLAIN", "\x00guest\x00", refused},
		{"PLAIN", "\x00\x00", refused},
		{"PLAIN", "\x00guest\x00bad", refused},
		{"PLAIN", "\x00nobody\x00guest", refused},
		{"PLAIN", "\x00gu\xffest\x00guest", refused},

		{"AMQPLAIN", guestLogin + guestPassword, in},
		{"AMQPLAIN", guestPassword + guestLogin, in},
		{"AMQPLAIN", text(guestLogin + guestPassword), malformed}, // with the table's length
		{"AMQPLAIN", guestLogin, malformed},
		{"AMQPLAIN", guestPassword, malformed},
		{"AMQPLAIN", "", malformed},
		{"AMQPLAIN", guestLogin + guestPassword + "x", malformed},
		{"AMQPLAIN", guestLogin + guestPassword[:len(guestPassword)-1], malformed},
		{"AMQPLAIN", guestLogin + guestPassword + field("x", 'F', text("junk")), malformed},
		{"AMQPLAIN", guestLogin + guestPassword + field("x", 'U', "\x00\x00"), malformed},
		{"AMQPLAIN", guestLogin + field("LOGIN", 'S', text("zz")) + guestPassword, in},
		{"AMQPLAIN", field("LOGIN", 'S', text("zz")) + guestLogin + guestPassword, refused},
		{"AMQPLAIN", guestLogin + field("PASSWORD", 'x', text("guest")), in},
		{"AMQPLAIN", field("login", 'S', text("guest")) + guestPassword, malformed},
		{"AMQPLAIN", field("", 't', "\x01") + guestLogin + guestPassword, in},
		{"AMQPLAIN", guestLogin + guestPassword + field("\xff", 't', "\x01"), in},
		{"AMQPLAIN", guestLogin + field("PASSWORD", 'S', text("")), refused},
		{"AMQPLAIN", guestLogin + field("PASSWORD", 'S', text("bad")), refused},
		// From here on not asked, but by the same rules.
		{"AMQPLAIN", guestLogin + field("PASSWORD", 'I', "\x00\x00\x00\x01"), malformed},
		{"AMQPLAIN", guestLogin + field("PASSWORD", 'I', "\x00\x00\x00\x01") + guestPassword, malformed},
		{"AMQPLAIN", field("LOGIN", 'V', "") + guestPassword, malformed},
		{"AMQPLAIN", field("x", 'F', text(guestLogin+guestPassword)), malformed},
		{"AMQPLAIN", guestLogin + guestPassword + field("x", 'S', "\xff\xff\xff\xff"), malformed},
		{"AMQPLAIN", guestLogin + guestPassword + nestedTables(maxLoginDepth), in},
		{"AMQPLAIN", guestLogin + guestPassword + nestedTables(maxLoginDepth+1), malformed},
		{"AMQPLAIN", guestLogin + guestPassword + field("x", 'A', text("V"+"A"+text("t\x01")+"F"+text(""))), in},
		{"AMQPLAIN", guestLogin + guestPassword + field("x", 'A', text("V"+"A"+text("t"))), malformed},
	} {
		m, ok := Find(ms, c.mechanism)
		if !ok {
			t.Fatalf("no mechanism %s", c.mechanism)
		}
		user, err := m.Respond([]byte(c.response), ConnInfo{PeerLoopback: true})
		if got := outcome(err); got != c.want {
			t.Errorf("%s %q: %s, want %s", c.mechanism, c.response, got, c.want)
		}
		if err == nil && user != "guest" {
			t.Errorf("%s %q: user %q", c.mechanism, c.response, user)
		}
	}
}

// Every type of field RabbitMQ knows is skipped at its right size: the login after it is found, and one byte less or
// more is not a table.
func TestSkipFields(t *testing.T) {
	for kind, size := range map[byte]int{
		'V': 0, 't': 1, 'b': 1, 'B': 1, 's': 2, 'u': 2, 'I': 4, 'i': 4, 'f': 4, 'D': 5, 'l': 8, 'L': 8, 'd': 8, 'T': 8,
	} {
		value := strings.Repeat("\x7f", size)
		if _, _, err := parseAMQPLAIN([]byte(field("k", kind, value) + guestLogin + guestPassword)); err != nil {
			t.Errorf("%c: %v", kind, err)
		}
		if _, _, err := parseAMQPLAIN([]byte(guestLogin + guestPassword + field("k", kind, value+"\x7f"))); err == nil {
			t.Errorf("%c: a byte too many was accepted", kind)
		}
		if size == 0 {
			continue
		}
		if _, _, err := parseAMQPLAIN([]byte(guestLogin + guestPassword + field("k", kind, value[1:]))); err == nil {
			t.Errorf("%c: a byte too few was accepted", kind)
		}
	}
	for c := range 256 {
		if strings.IndexByte("VtbBsuIifDlLdTSxFA", byte(c)) >= 0 {
			continue
		}
		if _, _, ok := cutValue(byte(c), make([]byte, 64)); ok {
			t.Errorf("unknown type %q was accepted", byte(c))
		}
	}
}

func TestResponsesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		noNUL := rapid.String().Filter(func(s string) bool { return !strings.Contains(s, "\x00") })
		user, password := noNUL.Draw(t, "user"), noNUL.Draw(t, "password")
		if u, p, err := parsePlain([]byte("\x00" + user + "\x00" + password)); err != nil || u != user || p != password {
			t.Errorf("PLAIN: %q %q %v", u, p, err)
		}
		response := field("LOGIN", 'S', text(user)) + field("PASSWORD", 'S', text(password))
		if u, p, err := parseAMQPLAIN([]byte(response)); err != nil || u != user || p != password {
			t.Errorf("AMQPLAIN: %q %q %v", u, p, err)
		}
	})
}

func TestLoopbackUsers(t *testing.T) {
	d := newUsers(t, "guest", "ops")
	for _, c := range []struct {
		setting []string
		user    string
		remote  string // outcome from another machine
	}{
		{nil, "guest", refused},
		{nil, "ops", in},
		{[]string{}, "guest", refused},
		{[]string{"none"}, "guest", in},
		{[]string{"none"}, "ops", in},
		{[]string{"ops"}, "guest", in},
		{[]string{"ops"}, "ops", refused},
		{[]string{"ops", "guest"}, "guest", refused},
	} {
		ms := Mechanisms(d, MechanismOptions{LoopbackUsers: c.setting})
		for _, m := range ms {
			response := "\x00" + c.user + "\x00" + c.user
			if m.Name() == "AMQPLAIN" {
				response = field("LOGIN", 'S', text(c.user)) + field("PASSWORD", 'S', text(c.user))
			}
			_, err := m.Respond([]byte(response), ConnInfo{})
			if got := outcome(err); got != c.remote {
				t.Errorf("%s, loopback users %q: %s from afar is %s, want %s", m.Name(), c.setting, c.user, got, c.remote)
			}
			user, err := m.Respond([]byte(response), ConnInfo{PeerLoopback: true})
			if err != nil || user != c.user {
				t.Errorf("%s, loopback users %q: %s over loopback: %q, %v", m.Name(), c.setting, c.user, user, err)
			}
		}
	}
	if !(LoopbackRule{}).Allows("guest", false) {
		t.Error("the zero rule binds guest")
	}
}

func TestIsLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1": true, "127.255.255.254": true, "::1": true, "::ffff:127.0.0.1": true, "::ffff:127.1.2.3": true,
		"128.0.0.1": false, "10.0.0.1": false, "::": false, "0.0.0.0": false, "::2": false, "::ffff:10.0.0.1": false,
		"fe80::1%lo": false, "::127.0.0.1": false,
	} {
		if got := IsLoopback(netip.MustParseAddr(addr)); got != want {
			t.Errorf("IsLoopback(%s) = %v", addr, got)
		}
	}
	if IsLoopback(netip.Addr{}) {
		t.Error("no address counts as loopback")
	}
}

func TestAnonymous(t *testing.T) {
	d := newUsers(t, "guest", "anon")
	find := func(o MechanismOptions) Mechanism {
		o.Anonymous = true
		m, ok := Find(Mechanisms(d, o), "ANONYMOUS")
		if !ok {
			t.Fatal("ANONYMOUS is missing")
		}
		return m
	}
	for _, c := range []struct {
		name    string
		options MechanismOptions
		peer    ConnInfo
		user    string
		want    string
	}{
		{"guest", MechanismOptions{}, ConnInfo{PeerLoopback: true}, "guest", in},
		{"guest from afar", MechanismOptions{}, ConnInfo{}, "guest", refused},
		{"another user", MechanismOptions{AnonymousUser: "anon", AnonymousPass: "anon"}, ConnInfo{}, "anon", in},
		{"wrong password", MechanismOptions{AnonymousUser: "anon"}, ConnInfo{}, "anon", refused},
	} {
		for _, response := range []string{"", "trace", "\x00\xff"} {
			user, err := find(c.options).Respond([]byte(response), c.peer)
			if user != c.user || outcome(err) != c.want {
				t.Errorf("%s: %q, %v; want %q %s", c.name, user, err, c.user, c.want)
			}
		}
	}
}

// passwordsOnly is a backend that cannot tell whether a user without a password may log in.
type passwordsOnly struct{ Backend }

func TestMechanismsOffered(t *testing.T) {
	d := NewDirectory(nil)
	for _, c := range []struct {
		name    string
		backend Backend
		options MechanismOptions
		conn    ConnInfo
		want    string
	}{
		{"3.x", d, MechanismOptions{}, ConnInfo{}, "PLAIN AMQPLAIN"},
		{"4.x", d, MechanismOptions{Anonymous: true}, ConnInfo{}, "PLAIN AMQPLAIN ANONYMOUS"},
		{"EXTERNAL without TLS", d, MechanismOptions{External: true}, ConnInfo{}, "PLAIN AMQPLAIN"},
		{"EXTERNAL", d, MechanismOptions{External: true}, ConnInfo{TLS: true}, "PLAIN AMQPLAIN EXTERNAL"},
		{"EXTERNAL impossible", passwordsOnly{d}, MechanismOptions{External: true}, ConnInfo{TLS: true}, "PLAIN AMQPLAIN"},
	} {
		ms := Mechanisms(c.backend, c.options)
		offered := Offered(ms, c.conn)
		if diff := cmp.Diff(c.want, Names(offered)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		for name := range strings.SplitSeq(c.want, " ") {
			if _, ok := Find(offered, name); !ok {
				t.Errorf("%s: %s is not found", c.name, name)
			}
		}
		for _, name := range []string{"plain", "", "CRAM-MD5"} {
			if _, ok := Find(offered, name); ok {
				t.Errorf("%s: %q is found", c.name, name)
			}
		}
	}
}

func FuzzPlain(f *testing.F) {
	for _, s := range []string{"", "\x00guest\x00guest", "x\x00guest\x00guest", "\x00\x00", "\x00\x00\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, response []byte) {
		user, password, err := parsePlain(response)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("error %v is not ErrMalformed", err)
			}
			return
		}
		if again := "\x00" + user + "\x00" + password; again != string(response) {
			t.Errorf("%q was read as %q", response, again)
		}
	})
}

func FuzzAMQPLAIN(f *testing.F) {
	for _, s := range []string{
		"", guestLogin + guestPassword, guestPassword + guestLogin, nestedTables(40) + guestLogin + guestPassword,
		field("x", 'A', text("V"+"A"+text("t\x01"))) + guestLogin + guestPassword, field("x", 'D', "12345"), "\xff",
		field("x", 'S', "\xff\xff\xff\xff"),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, response []byte) {
		before := bytes.Clone(response)
		user, password, err := parseAMQPLAIN(response)
		if !bytes.Equal(before, response) {
			t.Error("the response was written to")
		}
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("error %v is not ErrMalformed", err)
			}
			return
		}
		// What was read is in there, with its length before it, behind its key.
		for key, value := range map[string]string{"LOGIN": user, "PASSWORD": password} {
			if !bytes.Contains(response, []byte(field(key, 'S', text(value)))) &&
				!bytes.Contains(response, []byte(field(key, 'x', text(value)))) {
				t.Errorf("%s %q is not in %q", key, value, response)
			}
		}
		// A field in front changes nothing; a byte behind breaks it.
		if u, p, err := parseAMQPLAIN(append([]byte(field("", 'V', "")), response...)); err != nil || u != user || p != password {
			t.Errorf("with a field in front: %q %q %v", u, p, err)
		}
		if _, _, err := parseAMQPLAIN(append(response[:len(response):len(response)], 0)); err == nil {
			t.Error("a byte behind the table was accepted")
		}
	})
}
