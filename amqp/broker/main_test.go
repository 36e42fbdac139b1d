package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// both runs a test in both profiles.
func both(t *testing.T, run func(t *testing.T, p compat.Profile)) {
	for _, p := range []compat.Profile{compat.V3, compat.V4} {
		t.Run("profile "+p.String(), func(t *testing.T) { run(t, p) })
	}
}

// discard is a logger for tests.
var discard = slog.New(slog.DiscardHandler)

// openBroker opens a broker that the test closes if nobody did; an empty dir
// keeps everything in memory.
func openBroker(t testing.TB, p compat.Profile, dir string) *Broker {
	t.Helper()
	o := Options{Profile: p, Logger: discard, BodyBudget: 1}
	if dir != "" {
		s, err := persist.Open(persist.Options{Dir: dir, Logger: discard})
		if err != nil {
			t.Fatal(err)
		}
		o.Store = s
	}
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// tester is what testing.T and rapid.T have in common, as far as it is used.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// session is a client of one virtual host, as a connection would be.
type session struct {
	t tester
	v *VHost
	c *Client
	r Router
}

// login makes a session of a user that exists.
func login(t tester, b *Broker, user, vhost string) *session {
	t.Helper()
	v, err := b.OpenVHost(user, vhost)
	if err != nil {
		t.Fatal(err)
	}
	return &session{t: t, v: v, c: &Client{User: user, Owner: new(int), Connection: user}}
}

// guest is a session of the default user on the default virtual host.
func guest(t tester, b *Broker) *session { return login(t, b, "guest", "/") }

// stored runs a change and waits until it is durable.
func (s *session) stored(change func(done func(error)) (wait bool, err error)) error {
	s.t.Helper()
	told := make(chan error, 1)
	wait, err := change(func(err error) { told <- err })
	if err != nil || !wait {
		return err
	}
	select {
	case err := <-told:
		return err
	case <-time.After(20 * time.Second):
		s.t.Fatal("done was never called")
		return nil
	}
}

func (s *session) declareQueue(m frames.QueueDeclare) (r DeclareResult, err error) {
	err = s.stored(func(done func(error)) (wait bool, err error) {
		r, wait, err = s.v.DeclareQueue(s.c, &m, done)
		return wait, err
	})
	return r, err
}

func (s *session) deleteQueue(m frames.QueueDelete) (n uint32, err error) {
	err = s.stored(func(done func(error)) (wait bool, err error) {
		n, wait, err = s.v.DeleteQueue(s.c, &m, done)
		return wait, err
	})
	return n, err
}

func (s *session) declareExchange(m frames.ExchangeDeclare) error {
	return s.stored(func(done func(error)) (bool, error) { return s.v.DeclareExchange(s.c, &m, done) })
}

func (s *session) deleteExchange(m frames.ExchangeDelete) error {
	return s.stored(func(done func(error)) (bool, error) { return s.v.DeleteExchange(s.c, &m, done) })
}

func (s *session) bind(r BindRequest) error {
	return s.stored(func(done func(error)) (bool, error) { return s.v.Bind(s.c, r, done) })
}

func (s *session) unbind(r BindRequest) error {
	return s.stored(func(done func(error)) (bool, error) { return s.v.Unbind(s.c, r, done) })
}

// must ends the test on an error.
func (s *session) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// queue declares a queue and gives it.
func (s *session) queue(name string, durable bool, args frames.Table) *Queue {
	s.t.Helper()
	_, err := s.declareQueue(frames.QueueDeclare{Queue: name, Durable: durable, Arguments: args})
	s.must(err)
	q, _ := s.v.Queue(name)
	return q
}

// exchange declares a durable exchange.
func (s *session) exchange(name, typ string, args frames.Table) {
	s.t.Helper()
	s.must(s.declareExchange(frames.ExchangeDeclare{Exchange: name, Type: typ, Durable: true, Arguments: args}))
}

// bindQueue binds a queue.
func (s *session) bindQueue(source, key, queue string, args frames.Table) {
	s.t.Helper()
	s.must(s.bind(BindRequest{Source: source, Destination: queue, ToQueue: true, Key: key, Arguments: args}))
}

// bindExchange binds an exchange to another.
func (s *session) bindExchange(source, key, destination string) {
	s.t.Helper()
	s.must(s.bind(BindRequest{Source: source, Destination: destination, Key: key}))
}

// properties encodes properties as a client sends them.
func properties(t tester, v frames.PropertyValues) frames.Properties {
	t.Helper()
	p, err := frames.ParseProperties(v.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// withHeaders are properties of a headers table alone.
func withHeaders(headers frames.Table) frames.PropertyValues {
	return frames.PropertyValues{Flags: frames.FlagHeaders, Headers: headers}
}

// route routes a publish and gives the names of its queues, sorted.
func (s *session) route(p *Publication) ([]string, error) {
	queues, err := s.v.Route(&s.r, s.c, p)
	return names(queues), err
}

func names(queues []*queue.Queue) []string {
	var all []string
	for _, q := range queues {
		all = append(all, q.Name)
	}
	return sorted(all)
}

// publish routes and enqueues a message, and waits until it is safe when it
// is persistent.
func (s *session) publish(exchange, key, body string, v frames.PropertyValues) {
	s.t.Helper()
	p := &Publication{Exchange: []byte(exchange), RoutingKey: []byte(key), Properties: properties(s.t, v), BodySize: uint64(len(body))}
	queues, err := s.v.Route(&s.r, s.c, p)
	s.must(err)
	var arena queue.Arena
	m := p.Compose(&arena, []byte(body))
	store := s.v.broker.Store()
	if !m.Persistent || store == nil {
		for _, q := range queues {
			q.Publish(m)
		}
		return
	}
	s.must(s.stored(func(done func(error)) (bool, error) {
		record := m.Track(&afterBarrier{done}, 1)
		record.Hold()
		for _, q := range queues {
			q.Publish(m)
		}
		record.Release(store)
		return true, nil
	}))
}

// getNow is Get that waits for what is on disk, as a channel does.
func getNow(q *Queue, noAck bool) (e queue.Entry, left int, ok bool) {
	for {
		e, left, ok, err := q.Get(noAck)
		if !errors.Is(err, queue.ErrLoading) {
			return e, left, ok
		}
		ready := make(chan struct{})
		q.Await(func() { close(ready) })
		<-ready
	}
}

// drain takes all messages that wait in a queue.
func drain(q *Queue) []string {
	var all []string
	for {
		e, _, ok := getNow(q, true)
		if !ok {
			return all
		}
		all = append(all, string(e.Message.Content))
	}
}

// errorText is an error as a client gets it: code, text, and what it closes.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	fe, ok := err.(*frames.Error)
	if !ok {
		return "not a protocol error: " + err.Error()
	}
	text := fe.ReplyText()
	if _, after, found := strings.Cut(text, " - "); found {
		text = after
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", fe.Code, text))
}
