package auth

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fakeStore keeps definitions as a store would, and holds back each done until it is told that all is durable.
type fakeStore struct {
	mu      sync.Mutex
	values  map[Key][]byte
	updates int
	waiting []func(error)
}

func newFakeStore() *fakeStore { return &fakeStore{values: map[Key][]byte{}} }

func (s *fakeStore) Update(puts []Entry, deletes []Key, done func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates++
	for _, k := range deletes {
		delete(s.values, k)
	}
	for _, p := range puts {
		s.values[p.Key] = p.Value
	}
	if done != nil {
		s.waiting = append(s.waiting, done)
	}
}

// commit ends all updates so far with err.
func (s *fakeStore) commit(err error) {
	s.mu.Lock()
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for _, done := range waiting {
		done(err)
	}
}

// reload returns a directory with what the store holds, loaded in the order of its keys as persist does.
func (s *fakeStore) reload(t interface {
	Helper()
	Fatal(...any)
}) *Directory {
	t.Helper()
	keys := make([]Key, 0, len(s.values))
	for k := range s.values {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return strings.Compare(fmt.Sprintf("%c\x00%s\x00%s", a.Kind, a.VHost, a.Name), fmt.Sprintf("%c\x00%s\x00%s", b.Kind, b.VHost, b.Name))
	})
	d := NewDirectory(s)
	for _, k := range keys {
		if ours, err := d.Load(k.Kind, k.VHost, k.Name, s.values[k]); err != nil || !ours {
			t.Fatal(k, ours, err)
		}
	}
	return d
}

// state is all a directory holds.
type state struct {
	Users  []User
	Perms  []Permission
	Topics []TopicPermission
}

func stateOf(d *Directory) state { return state{d.Users(), d.Permissions(), d.TopicPermissions()} }

func TestDone(t *testing.T) {
	s := newFakeStore()
	d := s.reload(t)
	failure := errors.New("disk gone")
	for _, result := range []error{nil, failure} {
		var got []error
		if err := d.PutUser(User{Name: "a"}, func(err error) { got = append(got, err) }); err != nil {
			t.Fatal(err)
		}
		if len(got) != 0 {
			t.Error("done before the change was durable")
		}
		if _, ok := d.User("a"); !ok {
			t.Error("the change is not visible")
		}
		s.commit(result)
		s.commit(nil)
		if len(got) != 1 || got[0] != result {
			t.Errorf("done was called with %v, want once with %v", got, result)
		}
		d.DeleteUser("a", nil)
	}
	m := NewDirectory(nil)
	calls := 0
	err := m.PutUser(User{Name: "a"}, func(err error) {
		if err == nil {
			calls++
		}
		m.DeleteUser("a", nil) // done may use the directory
	})
	if err != nil || calls != 1 {
		t.Errorf("without a store: %v, %d calls", err, calls)
	}
	if m.DeleteUser("a", func(error) { calls++ }); calls != 1 {
		t.Error("done was called for a user that did not exist")
	}
}

func TestLoad(t *testing.T) {
	user := `{"name":"a","password_hash":"` + vector + `","hashing_algorithm":"` + AlgorithmSHA256 + `","tags":[],"limits":{}}`
	perm := `{"user":"a","vhost":"v","configure":".*","write":".*","read":".*"}`
	topic := `{"user":"a","vhost":"v","exchange":"x","write":"^a$","read":".*"}`
	for _, c := range []struct {
		kind               byte
		vhost, name, value string
		ours, fails        bool
	}{
		{'U', "", "a", user, true, false},
		{'P', "v", "a", perm, true, false},
		{'T', "v", topicName("a", "x"), topic, true, false},
		{'Q', "v", "q", "{}", false, false},
		{'V', "", "v", "not JSON", false, false},
		{'U', "", "b", user, true, true},
		{'U', "v", "a", user, true, true},
		{'U', "", "a", "{", true, true},
		{'U', "", "", `{"hashing_algorithm":"zz"}`, true, true},
		{'P', "w", "a", perm, true, true},
		{'P', "v", "b", perm, true, true},
		{'P', "v", "a", "{", true, true},
		{'P', "v", "a", strings.Replace(perm, ".*", "(", 1), true, true},
		{'T', "v", "ax", topic, true, true},
		{'T', "w", topicName("a", "x"), topic, true, true},
		{'T', "v", topicName("a", "x"), "[", true, true},
		{'T', "v", topicName("a", "x"), strings.Replace(topic, ".*", "(", 1), true, true},
	} {
		d := NewDirectory(nil)
		ours, err := d.Load(c.kind, c.vhost, c.name, []byte(c.value))
		if ours != c.ours || (err != nil) != c.fails {
			t.Errorf("load %c %q %q %s: %v, %v", c.kind, c.vhost, c.name, c.value, ours, err)
		}
	}
	if topicName("a", "bx") == topicName("ab", "x") {
		t.Error("two topic permissions share a key")
	}
}

// A permission without its user is as good as none, and is not inherited by a later user of that name.
func TestOrphans(t *testing.T) {
	perm := `{"user":"a","vhost":"v","configure":".*","write":".*","read":".*"}`
	topic := `{"user":"a","vhost":"v","exchange":"x","write":"^a$","read":".*"}`
	s := newFakeStore()
	for k, v := range map[Key]string{{'P', "v", "a"}: perm, {'T', "v", topicName("a", "x")}: topic} {
		s.values[k] = []byte(v)
	}
	d := s.reload(t)
	check := func(when string) {
		t.Helper()
		if d.VHostAccess("a", "v") || d.Check("a", "v", Resource{Queue, "q"}, Read) || !d.CheckTopic("a", "v", "x", "zz", Write) {
			t.Errorf("%s: a permission without a user has an effect", when)
		}
		if st := stateOf(d); len(st.Perms)+len(st.Topics) > 0 {
			t.Errorf("%s: %+v", when, st)
		}
	}
	check("loaded")
	if d.DeleteUser("a", nil) {
		t.Error("the user is said to have existed")
	}
	if err := d.PutUser(User{Name: "a"}, nil); err != nil {
		t.Fatal(err)
	}
	check("user made")
	if len(s.values) != 1 {
		t.Errorf("store holds %v", s.values)
	}
}

// model is a directory as simple as can be.
type model struct {
	users  map[string]User
	perms  map[[2]string]Permission
	topics map[[3]string]TopicPermission
}

// drop removes the permissions chosen and says whether there were any.
func (m *model) drop(is func(user, vhost string) bool) bool {
	before := len(m.perms) + len(m.topics)
	maps.DeleteFunc(m.perms, func(k [2]string, _ Permission) bool { return is(k[0], k[1]) })
	maps.DeleteFunc(m.topics, func(k [3]string, _ TopicPermission) bool { return is(k[0], k[1]) })
	return len(m.perms)+len(m.topics) < before
}

// compare says where d differs from the model.
func (m *model) compare(t *rapid.T, d *Directory) {
	if st := stateOf(d); len(st.Users) != len(m.users) || len(st.Perms) != len(m.perms) || len(st.Topics) != len(m.topics) {
		t.Fatalf("%+v, want %+v", st, m)
	}
	for n, u := range m.users {
		got, _ := d.User(n)
		if diff := cmp.Diff(u, got); diff != "" {
			t.Fatal(diff)
		}
	}
	for k, p := range m.perms {
		if got, _ := d.Permission(k[0], k[1]); got != p {
			t.Fatalf("%+v, want %+v", got, p)
		}
	}
	for k, p := range m.topics {
		if got, _ := d.TopicPermission(k[0], k[1], k[2]); got != p {
			t.Fatalf("%+v, want %+v", got, p)
		}
	}
}

var (
	drawName    = rapid.SampledFrom([]string{"a", "b", "", "ä{}", "\x00\"\\", "\u2028<&>"})
	drawPattern = rapid.SampledFrom([]string{"", ".*", "^a", "b$", "("})
)

// Random changes, with the store reloaded now and then: the directory says what the model says, and the store brings
// back the same.
func TestDirectoryModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newFakeStore()
		d := NewDirectory(s)
		m := &model{map[string]User{}, map[[2]string]Permission{}, map[[3]string]TopicPermission{}}
		t.Repeat(map[string]func(*rapid.T){
			"user": func(t *rapid.T) {
				u := User{Name: drawName.Draw(t, "user"), HashingAlgorithm: AlgorithmSHA512, PasswordHash: vector,
					Tags:   []string{drawName.Draw(t, "tag")},
					Limits: map[string]int{LimitConnections: rapid.IntRange(-1, 3).Draw(t, "limit")}}
				if err := d.PutUser(u, nil); err != nil {
					t.Fatal(err)
				}
				m.users[u.Name] = u
			},
			"delete user": func(t *rapid.T) {
				n := drawName.Draw(t, "user")
				if _, want := m.users[n]; d.DeleteUser(n, nil) != want {
					t.Fatalf("existed: want %v", want)
				}
				delete(m.users, n)
				m.drop(func(user, _ string) bool { return user == n })
			},
			"permission":       func(t *rapid.T) { m.permission(t, d) },
			"topic permission": func(t *rapid.T) { m.topicPermission(t, d) },
			"drop vhost": func(t *rapid.T) {
				v := drawName.Draw(t, "vhost")
				if want := m.drop(func(_, vhost string) bool { return vhost == v }); d.DropVHost(v, nil) != want {
					t.Fatalf("existed: want %v", want)
				}
			},
			"reload": func(t *rapid.T) { d = s.reload(t) },
			"":       func(t *rapid.T) { m.compare(t, d) },
		})
	})
}

func (m *model) permission(t *rapid.T, d *Directory) {
	p := Permission{drawName.Draw(t, "user"), drawName.Draw(t, "vhost"),
		drawPattern.Draw(t, "configure"), drawPattern.Draw(t, "write"), drawPattern.Draw(t, "read")}
	_, want := m.users[p.User]
	want = want && p.Configure != "(" && p.Write != "(" && p.Read != "("
	if err := d.PutPermission(p, nil); (err == nil) != want {
		t.Fatal(err)
	}
	if want {
		m.perms[[2]string{p.User, p.VHost}] = p
	}
}

func (m *model) topicPermission(t *rapid.T, d *Directory) {
	p := TopicPermission{drawName.Draw(t, "user"), drawName.Draw(t, "vhost"), drawName.Draw(t, "exchange"),
		drawPattern.Draw(t, "write"), drawPattern.Draw(t, "read")}
	_, want := m.users[p.User]
	want = want && p.Write != "(" && p.Read != "("
	if err := d.PutTopicPermission(p, nil); (err == nil) != want {
		t.Fatal(err)
	}
	if want {
		m.topics[[3]string{p.User, p.VHost, p.Exchange}] = p
	}
}

// Many goroutines change and check at once. The version read before an answer must be enough to know when it is old:
// a user that was given the right before the version was read has it.
func TestConcurrentUse(t *testing.T) {
	s := newFakeStore()
	d := s.reload(t)
	const workers, rounds = 8, 200
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			user, vhost := fmt.Sprint("u", w), fmt.Sprint("v", w%2)
			for i := range rounds {
				pattern := fmt.Sprintf("^q%d$", i)
				before := d.Version()
				if err := errors.Join(d.PutUser(User{Name: user, PasswordHash: vector}, nil),
					d.PutPermission(Permission{user, vhost, pattern, pattern, pattern}, nil)); err != nil {
					t.Error(err)
					return
				}
				if after := d.Version(); after < before+2 {
					t.Errorf("version %d -> %d over two changes", before, after)
				}
				if !d.Check(user, vhost, Resource{Queue, fmt.Sprint("q", i)}, Write) || d.Check(user, vhost, Resource{Queue, "q"}, Write) {
					t.Errorf("%s does not have the permission just given", user)
				}
				if other := fmt.Sprint("u", (w+1)%workers); d.VHostAccess(other, "none") {
					t.Errorf("%s may connect to a virtual host it was never given", other)
				}
				_, _ = len(d.Permissions()), d.Tags(user)
				if i%50 == 49 && !d.DeleteUser(user, nil) {
					t.Errorf("%s is gone", user)
				}
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(stateOf(d), stateOf(s.reload(t))); diff != "" {
		t.Errorf("the store holds something else than the directory: %s", diff)
	}
}
