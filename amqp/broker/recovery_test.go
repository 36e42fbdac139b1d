package broker

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// copyFolder copies an open store's files as they are, which is what a kill
// at this moment leaves. It starts again when the store has made or dropped
// files meanwhile.
func copyFolder(t testing.TB, from string) string {
	t.Helper()
	for range 100 {
		to := t.TempDir()
		before := fileNames(t, from)
		for _, name := range before {
			if err := copySparse(filepath.Join(from, name), filepath.Join(to, name)); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		manifest, err := os.ReadFile(filepath.Join(from, "MANIFEST"))
		if err != nil {
			t.Fatal(err)
		}
		copied, err := os.ReadFile(filepath.Join(to, "MANIFEST"))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(manifest, copied) && slices.Equal(before, fileNames(t, from)) {
			return to
		}
	}
	t.Fatal("the store's files change all the time")
	return ""
}

func fileNames(t testing.TB, dir string) []string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		if !f.IsDir() { // transient pages, which no start looks at
			names = append(names, f.Name())
		}
	}
	return names
}

// copySparse copies a file without its holes, most of which a value log is.
func copySparse(from, to string) error {
	const seekData, seekHole = 3, 4 // Linux
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); {
		data, err := in.Seek(at, seekData)
		if errors.Is(err, syscall.ENXIO) {
			break // a hole up to the end
		}
		if err != nil {
			return err
		}
		if at, err = in.Seek(data, seekHole); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, data), io.NewSectionReader(in, data, at-data)); err != nil {
			return err
		}
	}
	return out.Truncate(info.Size())
}

// reopen closes a broker and opens its folder again.
func reopen(t testing.TB, b *Broker, p compat.Profile, dir string) *Broker {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return openBroker(t, p, dir)
}

// restart is what a restart does to the model: exclusive and transient queues
// go; transient exchanges where the profile says so; bindings with their ends.
func (n *network) restart(b *Broker) {
	n.b = b
	n.login()
	for name, q := range n.queues {
		if !q.durable {
			delete(n.queues, name)
		}
	}
	for name, x := range n.exchanges {
		if !x.durable && !compat.TransientExchangesSurvive.In(b.Profile) {
			delete(n.exchanges, name)
		}
	}
	for b := range n.bindings {
		_, queue := n.queues[b.destination]
		if !n.isExchange(b.source) || b.toQueue && !queue || !b.toQueue && !n.isExchange(b.destination) {
			delete(n.bindings, b) // and no auto-delete: nobody unbinds at a start
		}
	}
}

// Random changes, then a clean stop or a kill, again and again on one store:
// what is durable is there, and what was deleted stays away.
func TestTopologyOverRestarts(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		dir := t.TempDir()
		b := openBroker(t, p, dir)
		n := newNetwork(t, b)
		seed := uint64(p)
		random := rand.New(rand.NewPCG(seed, seed))
		choose := func(_ string, n int) int { return random.IntN(n) }
		steps := n.steps()
		var names []string
		for name := range steps {
			names = append(names, name)
		}
		slices.Sort(names)
		most := 0
		for round := range 6 {
			for range 80 {
				steps[names[random.IntN(len(names))]](choose)
			}
			n.check()
			most = max(most, len(n.bindings))
			if round%2 == 0 {
				b = reopen(t, b, p, dir)
			} else {
				dir = copyFolder(t, dir)
				b = openBroker(t, p, dir)
			}
			n.restart(b)
			n.check()
		}
		if most < 10 {
			t.Errorf("at most %d bindings at a restart prove little", most)
		}
	})
}

// A store of one profile opened with the other: what only 4.3 keeps is
// dropped by 3.10.8, for good.
func TestTransientExchangesOverAProfileChange(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	s := guest(t, b)
	s.queue("q", true, nil)
	s.exchange("durable", "fanout", nil)
	s.must(s.declareExchange(frames.ExchangeDeclare{Exchange: "transient", Type: "direct"}))
	s.bindQueue("transient", "a", "q", nil)
	s.bindQueue("durable", "", "q", nil)
	s.bindExchange("durable", "", "transient")
	b = reopen(t, b, compat.V4, dir)
	if _, ok := guest(t, b).v.Exchange("transient"); !ok || len(guest(t, b).v.Bindings()) != 3 {
		t.Fatal("4.3 keeps transient exchanges and their bindings")
	}
	for range 2 {
		b = reopen(t, b, compat.V3, dir)
		if _, ok := guest(t, b).v.Exchange("transient"); ok || len(guest(t, b).v.Bindings()) != 1 {
			t.Fatal("3.10.8 keeps a transient exchange or its bindings")
		}
	}
	b = reopen(t, b, compat.V4, dir)
	if _, ok := guest(t, b).v.Exchange("transient"); ok {
		t.Fatal("the exchange is back")
	}
}

// Messages of durable queues over a restart, with their order and marks; and
// the queue's arguments with their types and order.
func TestQueuesOverARestart(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	s := guest(t, b)
	args := table("x-max-priority", int32(5), "x-unknown", frames.Array{int64(1), "two", nil}, "x-queue-type", "classic")
	q := s.queue("q", true, args)
	persistent := func(priority uint8) frames.PropertyValues {
		return frames.PropertyValues{Flags: frames.FlagDeliveryMode | frames.FlagPriority, DeliveryMode: 2, Priority: priority}
	}
	s.publish("", "q", "low", persistent(1))
	s.publish("", "q", "high", persistent(9))
	s.publish("", "q", "transient", frames.PropertyValues{})
	e, _, _ := getNow(q, false)
	q.Requeue([]queue.Entry{e}) // "high", delivered once
	b = reopen(t, b, compat.V4, dir)
	q, ok := guest(t, b).v.Queue("q")
	if !ok || !q.Durable || q.MaxPriority != 5 || q.Type != "classic" {
		t.Fatalf("recovered queue: %+v", q)
	}
	if diff := gocmp.Diff(args, q.Arguments); diff != "" {
		t.Errorf("arguments:\n%s", diff)
	}
	first, left, _ := getNow(q, false)
	second, _, _ := getNow(q, false)
	if left != 1 || string(first.Message.Content) != "high" || !first.Redelivered || string(second.Message.Content) != "low" || second.Redelivered {
		t.Fatalf("recovered %+v, %+v, %d left", first, second, left)
	}
	q.Requeue([]queue.Entry{first, second})
	killed := openBroker(t, compat.V4, copyFolder(t, dir))
	q, _ = guest(t, killed).v.Queue("q")
	for range 2 {
		if e, _, ok := getNow(q, false); !ok || !e.Redelivered {
			t.Fatalf("after a kill: %+v", e)
		}
	}
}

// The messages of a deleted queue go with it, in the same commit: nothing is
// left for the next start to clear away.
func TestDeletedQueuesLeaveNoMessages(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	s := guest(t, b)
	for _, name := range []string{"deleted", "abandoned", "kept"} {
		s.queue(name, true, nil)
		s.publish("", name, "m", frames.PropertyValues{Flags: frames.FlagDeliveryMode, DeliveryMode: 2})
	}
	_, err := s.deleteQueue(frames.QueueDelete{Queue: "deleted"})
	s.must(err)
	q, _ := s.v.Queue("abandoned")
	s.v.ConsumerGone(q)
	s.must(s.stored(func(done func(error)) (bool, error) { b.Store().Barrier(&afterBarrier{done}, 0); return true, nil }))
	store, err := persist.Open(persist.Options{Dir: copyFolder(t, dir), Logger: discard})
	s.must(err)
	kept, _ := s.v.Queue("kept")
	if logs := store.Logs(); !slices.Equal(logs, []uint64{kept.ID}) {
		t.Errorf("logs %v are left, of which %d is alive", logs, kept.ID)
	}
	s.must(store.Close())
}

// A store with messages of a queue that has no definition, which nothing here
// writes: they are dropped, and do not come up again.
func TestOrphanedMessagesAreDropped(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	s := guest(t, b)
	q := s.queue("q", true, nil)
	s.publish("", "q", "m", frames.PropertyValues{Flags: frames.FlagDeliveryMode, DeliveryMode: 2})
	s.must(s.stored(func(done func(error)) (bool, error) {
		b.Store().Update(nil, []persist.Key{{Kind: kindQueue, VHost: "/", Name: "q"}}, nil, done)
		return true, nil
	}))
	b = reopen(t, b, compat.V4, dir)
	s = guest(t, b)
	if _, ok := s.v.Queue("q"); ok {
		t.Fatal("a queue without a definition is there")
	}
	s.must(s.stored(func(done func(error)) (bool, error) { b.Store().Barrier(&afterBarrier{done}, 0); return true, nil }))
	if slices.Contains(b.Store().Logs(), q.ID) {
		t.Fatal("its messages are still there")
	}
}

// Virtual hosts, users and permissions; names may hold anything.
func TestVHostsAndUsersOverARestart(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	s := guest(t, b)
	const odd = "v/\x00\"ö"
	for _, name := range []string{odd, "gone", ""} {
		s.must(s.stored(func(done func(error)) (bool, error) { _, wait, err := b.AddVHost(name, done); return wait, err }))
	}
	if added, _, err := b.AddVHost(odd, nil); added || err != nil {
		t.Fatalf("a virtual host was added twice: %v", err)
	}
	if _, _, err := b.AddVHost(string(make([]byte, 256)), nil); err == nil {
		t.Fatal("a name of 256 bytes is accepted")
	}
	user := func(name string, permissions ...auth.Permission) {
		s.must(s.stored(func(done func(error)) (bool, error) {
			return true, b.Users.PutUser(auth.User{Name: name, PasswordHash: auth.HashPassword(name), Tags: []string{"management"}}, done)
		}))
		for _, p := range permissions {
			s.must(s.stored(func(done func(error)) (bool, error) { return true, b.Users.PutPermission(p, done) }))
		}
	}
	user("kept", auth.Permission{VHost: odd, User: "kept", Configure: "^c", Write: ".*"},
		auth.Permission{VHost: "gone", User: "kept", Read: ".*"})
	user("left")
	inOdd := login(t, b, "kept", odd)
	inOdd.queue("c\xff", true, nil)
	if removed, _ := b.RemoveVHost("no such", nil); removed {
		t.Fatal("a virtual host was removed that never was")
	}
	s.must(s.stored(func(done func(error)) (bool, error) { _, wait := b.RemoveVHost("gone", done); return wait, nil }))
	s.must(s.stored(func(done func(error)) (bool, error) { _, wait := b.DeleteUser("left", done); return wait, nil }))

	for _, again := range []func() *Broker{
		func() *Broker { return openBroker(t, compat.V4, copyFolder(t, dir)) },
		func() *Broker { return reopen(t, b, compat.V4, dir) },
	} {
		checkVHostsAndUsers(t, again(), odd)
	}
}

// checkVHostsAndUsers checks what the test above left in the store.
func checkVHostsAndUsers(t *testing.T, b *Broker, odd string) {
	t.Helper()
	var vhosts []string
	for _, v := range b.VHosts() {
		vhosts = append(vhosts, v.Name)
	}
	if !slices.Equal(vhosts, []string{"", "/", odd}) {
		t.Errorf("virtual hosts %q", vhosts)
	}
	if _, ok := b.Users.User("left"); ok {
		t.Error("a deleted user is back")
	}
	if u, ok := b.Users.User("kept"); !ok || !slices.Equal(u.Tags, []string{"management"}) || b.Auth.Authenticate("kept", "kept") != nil {
		t.Errorf("user %+v", u)
	}
	s := login(t, b, "kept", odd)
	if _, ok := s.v.Queue("c\xff"); !ok {
		t.Error("the queue is not there")
	}
	if _, err := s.declareQueue(frames.QueueDeclare{Queue: "x"}); err == nil {
		t.Error("the permissions are not there")
	}
	if b.Auth.VHostAccess("kept", "gone") {
		t.Error("the permissions on a removed virtual host are back")
	}
	if n := len(s.v.Exchanges()); n != 7 {
		t.Errorf("%d exchanges in a virtual host", n)
	}
	if n := len(guest(t, b).v.Exchanges()); n != 8 {
		t.Errorf("%d exchanges in the default virtual host", n)
	}
}

// A process killed during its first start has made a part of the defaults.
// The next start makes the rest; what an operator deletes later stays away.
func TestFirstStart(t *testing.T) {
	dir := t.TempDir()
	s, err := persist.Open(persist.Options{Dir: dir, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	s.Update([]persist.Definition{{Key: persist.Key{Kind: kindVHost, VHost: "/"}, Value: encodeDefinition(vhostDefinition{Name: "/"})}}, nil, nil,
		func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b := openBroker(t, compat.V4, dir)
	if err := b.Auth.Authenticate("guest", "guest"); err != nil || !b.Auth.VHostAccess("guest", "/") {
		t.Fatalf("the default user is not there: %v", err)
	}
	b.DeleteUser("guest", nil)
	b.RemoveVHost("/", nil)
	b = reopen(t, b, compat.V4, dir)
	if users, vhosts := b.Users.Users(), b.VHosts(); len(users)+len(vhosts) != 0 {
		t.Fatalf("the defaults are back: %v, %v", users, vhosts)
	}
}

// A binding may have arguments larger than any key of the store.
func TestBindingsWithLongArguments(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	s := guest(t, b)
	s.queue("q", true, nil)
	long := func(last byte) frames.Table {
		return table("x-match", "all", "long", string(bytes.Repeat([]byte("x"), 100<<10))+string(last))
	}
	s.bindQueue("amq.headers", "", "q", long('a'))
	s.bindQueue("amq.headers", "", "q", long('b'))
	s.must(s.unbind(BindRequest{Source: "amq.headers", Destination: "q", ToQueue: true, Arguments: long('a')}))
	b = reopen(t, b, compat.V4, dir)
	s = guest(t, b)
	bindings := s.v.Bindings()
	if len(bindings) != 1 {
		t.Fatalf("%d bindings after a restart", len(bindings))
	}
	if diff := gocmp.Diff(long('b'), bindings[0].Arguments); diff != "" {
		t.Fatal(diff)
	}
	s.must(s.unbind(BindRequest{Source: "amq.headers", Destination: "q", ToQueue: true, Arguments: long('b')}))
	if n := len(guest(t, reopen(t, b, compat.V4, dir)).v.Bindings()); n != 0 {
		t.Fatalf("%d bindings are back", n)
	}
}
