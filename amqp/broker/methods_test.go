package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// methodCase is a method with an outcome; what differs between the profiles
// is after a "|".
type methodCase struct {
	name string
	run  func(s *session) error
	want string // 3.10.8, or both
}

// play runs cases as user "u" of limitedUser. {read}, {write} and {configure}
// stand for the word before "access" that only 4.3 has.
func play(t *testing.T, prepare func(admin *session), cases []methodCase) {
	both(t, func(t *testing.T, p compat.Profile) {
		s := limitedUser(t, p)
		admin := guest(t, s.v.broker)
		prepare(admin)
		for _, c := range cases {
			want := c.want
			if v3, v4, differ := strings.Cut(want, "|"); differ {
				want = v3
				if p == compat.V4 {
					want = v4
				}
			}
			for _, word := range []string{"read", "write", "configure"} {
				said := ""
				if p == compat.V4 {
					said = word + " "
				}
				want = strings.ReplaceAll(want, "{"+word+"}", said)
			}
			want = strings.NewReplacer("{u}", "in vhost '/' refused for user 'u'").Replace(want)
			if got := errorText(c.run(s)); got != want {
				t.Errorf("%s:\n got %q\nwant %q", c.name, got, want)
			}
		}
	})
}

func declareQueueCase(m frames.QueueDeclare) func(*session) error {
	return func(s *session) error { _, err := s.declareQueue(m); return err }
}

const lockedText = "It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."

func TestQueueMethodChecks(t *testing.T) {
	locked := func(name string) string {
		return "405 cannot obtain exclusive access to locked queue '" + name + "' in vhost '/'. " + lockedText
	}
	play(t, func(admin *session) {
		admin.queue("open.durable", true, table("x-max-priority", int32(3)))
		admin.queue("secret", false, nil)
		_, err := admin.declareQueue(frames.QueueDeclare{Queue: "open.locked", Exclusive: true})
		admin.must(err)
		admin.bindQueue("amq.direct", "k", "open.locked", nil)
	}, []methodCase{
		{"reserved before permission", declareQueueCase(frames.QueueDeclare{Queue: "amq.secret"}), "403 queue name 'amq.secret' contains reserved prefix 'amq.*'"},
		{"permission before equivalence", declareQueueCase(frames.QueueDeclare{Queue: "secret", Durable: true}), "403 {configure}access to queue 'secret' {u}"},
		{"exclusivity before durable", declareQueueCase(frames.QueueDeclare{Queue: "open.durable", Exclusive: true}), locked("open.durable")},
		{"another's exclusive", declareQueueCase(frames.QueueDeclare{Queue: "open.locked", Exclusive: true}), locked("open.locked")},
		{"another's exclusive, passive", declareQueueCase(frames.QueueDeclare{Queue: "open.locked", Passive: true}), locked("open.locked")},
		{"durable before auto-delete", declareQueueCase(frames.QueueDeclare{Queue: "open.durable", AutoDelete: true}),
			"406 inequivalent arg 'durable' for queue 'open.durable' in vhost '/': received 'false' but current is 'true'"},
		{"auto-delete before arguments", declareQueueCase(frames.QueueDeclare{Queue: "open.durable", Durable: true, AutoDelete: true}),
			"406 inequivalent arg 'auto_delete' for queue 'open.durable' in vhost '/': received 'true' but current is 'false'"},
		{"arguments", declareQueueCase(frames.QueueDeclare{Queue: "open.durable", Durable: true}),
			"406 inequivalent arg 'x-max-priority' for queue 'open.durable' in vhost '/': received none but current is the value '3' of type 'signedint'"},
		{"the same", declareQueueCase(frames.QueueDeclare{Queue: "open.durable", Durable: true, Arguments: table("x-max-priority", int64(3))}), ""},
		{"passive ignores properties", declareQueueCase(frames.QueueDeclare{Queue: "open.durable", Passive: true, Exclusive: true}), ""},
		{"passive, missing", declareQueueCase(frames.QueueDeclare{Queue: "open.missing", Passive: true}), "404 no queue 'open.missing' in vhost '/'"},
		{"passive, no name", declareQueueCase(frames.QueueDeclare{Passive: true}),
			"404 no queue '' in vhost '/'|403 configure access to queue '' {u}"},
		{"passive without any permission", declareQueueCase(frames.QueueDeclare{Queue: "nowhere", Passive: true}),
			"404 no queue 'nowhere' in vhost '/'|403 configure access to queue 'nowhere' {u}"},
		{"dead letters need read on the queue", declareQueueCase(frames.QueueDeclare{Queue: "open.dlx", Arguments: table("x-dead-letter-exchange", "secret")}),
			"403 {write}access to exchange 'secret' {u}"},
		{"line breaks are stripped", declareQueueCase(frames.QueueDeclare{Queue: "open.\r\ndurable", Durable: true, Arguments: table("x-max-priority", int64(3))}), ""},
		{"delete without permission", func(s *session) error { _, err := s.deleteQueue(frames.QueueDelete{Queue: "secret"}); return err }, "403 {configure}access to queue 'secret' {u}"},
		{"delete another's", func(s *session) error { _, err := s.deleteQueue(frames.QueueDelete{Queue: "open.locked"}); return err }, locked("open.locked")},
		{"delete what is missing", func(s *session) error { _, err := s.deleteQueue(frames.QueueDelete{Queue: "open.missing"}); return err }, ""},
		{"purge without permission", func(s *session) error { _, _, err := s.v.PurgeQueue(s.c, "secret"); return err }, "403 {read}access to queue 'secret' {u}"},
		{"purge another's", func(s *session) error { _, _, err := s.v.PurgeQueue(s.c, "open.locked"); return err }, locked("open.locked")},
		{"purge what is missing", func(s *session) error { _, _, err := s.v.PurgeQueue(s.c, "open.missing"); return err }, "404 no queue 'open.missing' in vhost '/'"},
		{"get without permission", func(s *session) error { _, err := s.v.GetQueue(s.c, "secret"); return err }, "403 {read}access to queue 'secret' {u}"},
		{"consume another's", func(s *session) error { _, err := s.v.ConsumeQueue(s.c, "open.locked", ""); return err }, locked("open.locked")},
		{"bind another's", func(s *session) error {
			return s.bind(BindRequest{Source: "open.direct", Destination: "open.locked", ToQueue: true})
		}, locked("open.locked")},
		{"unbind another's where nothing is bound", func(s *session) error {
			return s.unbind(BindRequest{Source: "open.direct", Destination: "open.locked", ToQueue: true, Key: "other"})
		}, ""},
	})
}

func TestExchangeMethodChecks(t *testing.T) {
	declare := func(m frames.ExchangeDeclare) func(*session) error {
		return func(s *session) error { return s.declareExchange(m) }
	}
	inequivalent := func(arg, received, current string) string {
		return fmt.Sprintf("406 inequivalent arg '%s' for exchange 'open.topic' in vhost '/': received '%s' but current is '%s'", arg, received, current)
	}
	const onDefault = "403 operation not permitted on the default exchange"
	play(t, func(admin *session) {
		admin.queue("open.q", false, nil)
		admin.bindQueue("open.direct", "", "open.q", nil)
	}, []methodCase{
		{"type before default exchange", declare(frames.ExchangeDeclare{Type: "bogus"}), "503 unknown exchange type 'bogus'|406 unknown exchange type 'bogus'"},
		{"a type that is a known word", declare(frames.ExchangeDeclare{Exchange: "open.x", Type: "queue"}), "503 invalid exchange type 'queue'|406 invalid exchange type 'queue'"},
		{"default exchange before permission", declare(frames.ExchangeDeclare{Type: "direct"}), onDefault},
		{"default exchange, passive", declare(frames.ExchangeDeclare{Passive: true}), onDefault},
		{"permission before name", declare(frames.ExchangeDeclare{Exchange: "amq.new", Type: "direct"}), "403 {configure}access to exchange 'amq.new' {u}"},
		{"type before durable", declare(frames.ExchangeDeclare{Exchange: "open.topic", Type: "fanout"}), inequivalent("type", "fanout", "topic")},
		{"durable before auto-delete", declare(frames.ExchangeDeclare{Exchange: "open.topic", Type: "topic", AutoDelete: true}), inequivalent("durable", "false", "true")},
		{"auto-delete before internal", declare(frames.ExchangeDeclare{Exchange: "open.topic", Type: "topic", Durable: true, AutoDelete: true, Internal: true}), inequivalent("auto_delete", "true", "false")},
		{"internal before arguments", declare(frames.ExchangeDeclare{Exchange: "open.topic", Type: "topic", Durable: true, Internal: true, Arguments: table("alternate-exchange", "x")}), inequivalent("internal", "true", "false")},
		{"alternate exchange", declare(frames.ExchangeDeclare{Exchange: "open.topic", Type: "topic", Durable: true, Arguments: table("alternate-exchange", "x")}),
			"406 inequivalent arg 'alternate-exchange' for exchange 'open.topic' in vhost '/': received the value 'x' of type 'longstr' but current is none"},
		{"another argument is ignored", declare(frames.ExchangeDeclare{Exchange: "open.topic", Type: "topic", Durable: true, Arguments: table("x", "y")}), ""},
		{"type of the alternate exchange", declare(frames.ExchangeDeclare{Exchange: "open.new", Type: "topic", Arguments: table("alternate-exchange", int32(1))}),
			"406 invalid type 'signedint' for arg 'alternate-exchange' in exchange 'open.new' in vhost '/'"},
		{"write on the alternate exchange", declare(frames.ExchangeDeclare{Exchange: "open.new", Type: "topic", Arguments: table("alternate-exchange", "secret")}), "403 {write}access to exchange 'secret' {u}"},
		{"passive, whatever the type", declare(frames.ExchangeDeclare{Exchange: "open.topic", Passive: true}), ""},
		{"passive, missing", declare(frames.ExchangeDeclare{Exchange: "open.missing", Passive: true}), "404 no exchange 'open.missing' in vhost '/'"},
		{"delete: system before permission", func(s *session) error { return s.deleteExchange(frames.ExchangeDelete{Exchange: "amq.none"}) },
			"403 deletion of system exchange 'amq.none' in vhost '/' not allowed"},
		{"delete the default exchange", func(s *session) error { return s.deleteExchange(frames.ExchangeDelete{}) }, onDefault},
		{"delete without permission", func(s *session) error { return s.deleteExchange(frames.ExchangeDelete{Exchange: "secret"}) }, "403 {configure}access to exchange 'secret' {u}"},
		{"delete what is in use", func(s *session) error {
			return s.deleteExchange(frames.ExchangeDelete{Exchange: "open.direct", IfUnused: true})
		}, "406 exchange 'open.direct' in vhost '/' in use"},
		{"delete what is missing", func(s *session) error { return s.deleteExchange(frames.ExchangeDelete{Exchange: "open.none"}) }, ""},
	})
}

func TestBindChecks(t *testing.T) {
	const onDefault = "403 operation not permitted on the default exchange"
	bind := func(source, destination, key string, toQueue bool) func(*session) error {
		return func(s *session) error {
			return s.bind(BindRequest{Source: source, Destination: destination, Key: key, ToQueue: toQueue})
		}
	}
	play(t, func(admin *session) {
		admin.queue("open.q", false, nil)
		admin.exchange("open.headers", "headers", nil)
		_, err := admin.declareQueue(frames.QueueDeclare{Queue: "open.locked", Exclusive: true})
		admin.must(err)
	}, []methodCase{
		{"write on the destination first", bind("", "secret", "", true), "403 {write}access to queue 'secret' {u}"},
		{"default exchange before read on the source", bind("", "open.q", "", true), onDefault},
		{"default exchange as destination", bind("secret", "", "", false), onDefault},
		{"read on the source before it is looked for", bind("secret.missing", "open.missing", "", true), "403 {read}access to exchange 'secret.missing' {u}"},
		{"topic before the destination is looked for", bind("open.topic", "open.missing", "denied", true), "403 {read}access to topic 'denied' in exchange 'open.topic' {u}"},
		{"source before destination", bind("open.missing", "open.none", "", true), "404 no exchange 'open.missing' in vhost '/'"},
		{"destination queue", bind("open.direct", "open.none", "", true), "404 no queue 'open.none' in vhost '/'"},
		{"destination exchange", bind("open.direct", "open.none", "", false), "404 no exchange 'open.none' in vhost '/'"},
		{"x-match", func(s *session) error {
			return s.bind(BindRequest{Source: "open.headers", Destination: "open.q", ToQueue: true, Arguments: table("x-match", "bogus")})
		}, `406 Invalid x-match field value <<"bogus">>; expected all, any, all-with-x, or any-with-x`},
		{"x-match of another exchange type", func(s *session) error {
			return s.bind(BindRequest{Source: "open.direct", Destination: "open.q", ToQueue: true, Arguments: table("x-match", "bogus")})
		}, ""},
		{"x-match before exclusivity", func(s *session) error {
			return s.bind(BindRequest{Source: "open.headers", Destination: "open.locked", ToQueue: true, Arguments: table("x-match", "bogus")})
		}, `406 Invalid x-match field value <<"bogus">>; expected all, any, all-with-x, or any-with-x`},
		{"again", bind("open.direct", "open.q", "", true), ""},
		{"itself", bind("open.direct", "open.direct", "", false), ""},
		{"unbind without permission", func(s *session) error {
			return s.unbind(BindRequest{Source: "secret", Destination: "open.q", ToQueue: true})
		},
			"403 {read}access to exchange 'secret' {u}"},
		{"unbind what is missing", func(s *session) error {
			return s.unbind(BindRequest{Source: "open.none", Destination: "open.none", ToQueue: true})
		}, ""},
		{"unbind with other arguments", func(s *session) error {
			return s.unbind(BindRequest{Source: "open.direct", Destination: "open.q", ToQueue: true, Arguments: table("a", "b")})
		}, ""},
	})
}

// What declare-ok, delete-ok and purge-ok count.
func TestCountsOfQueueMethods(t *testing.T) {
	s := guest(t, openBroker(t, compat.V4, ""))
	r, err := s.declareQueue(frames.QueueDeclare{})
	if err != nil || !strings.HasPrefix(r.Queue, "amq.gen-") || len(r.Queue) != 8+22 {
		t.Fatalf("%+v, %v", r, err)
	}
	q := s.queue("q", false, nil)
	for i := range 5 {
		s.publish("", "q", fmt.Sprint(i), frames.PropertyValues{})
	}
	e, _, _ := getNow(q, false)
	r, err = s.declareQueue(frames.QueueDeclare{Queue: "q", Passive: true})
	if err != nil || r != (DeclareResult{"q", 4, 0}) {
		t.Fatalf("%+v, %v", r, err)
	}
	if n, journaled, err := s.v.PurgeQueue(s.c, "q"); n != 4 || journaled || err != nil {
		t.Fatalf("purged %d, %v, %v", n, journaled, err)
	}
	q.Requeue([]queue.Entry{e})
	if _, err := s.deleteQueue(frames.QueueDelete{Queue: "q", IfEmpty: true}); errorText(err) != "406 queue 'q' in vhost '/' not empty" {
		t.Fatal(err)
	}
	c := &sleeper{}
	c.Sink = c
	s.must(q.AddConsumer(&c.Consumer))
	if err := q.AddConsumer(&queue.Consumer{Exclusive: true}); errorText(s.v.ConsumeRefused("q", err)) != "403 queue 'q' in vhost '/' in exclusive use" {
		t.Fatal(err)
	}
	if _, err := s.deleteQueue(frames.QueueDelete{Queue: "q", IfUnused: true}); errorText(err) != "406 queue 'q' in vhost '/' in use" {
		t.Fatal(err)
	}
	if n, err := s.deleteQueue(frames.QueueDelete{Queue: "q"}); n != 1 || err != nil || !c.gone {
		t.Fatalf("deleted with %d, %v", n, err)
	}
	if err := q.AddConsumer(&c.Consumer); errorText(s.v.ConsumeRefused("q", err)) != "404 no queue 'q' in vhost '/'" {
		t.Fatal(err)
	}
}

// sleeper is a consumer that takes nothing.
type sleeper struct {
	queue.Consumer
	gone bool
}

func (*sleeper) Deliver(*queue.Consumer, *queue.Entry) bool { return false }
func (s *sleeper) Cancelled(*queue.Consumer)                { s.gone = true }

// A queue that is on its way out is not declared: the client gets a new one.
func TestDeclareWhileItIsDeleted(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		s := guest(t, openBroker(t, compat.V4, dir))
		old := s.queue("q", true, nil)
		s.bindQueue("amq.direct", "k", "q", nil)
		if _, err := old.Delete(false, false); err != nil { // as DeleteQueue does before it changes the topology
			t.Fatal(err)
		}
		now := s.queue("q", true, nil)
		if now == old || now.Deleted() || len(s.v.Bindings()) != 0 {
			t.Fatal("the old queue, or its bindings, were declared")
		}
		s.v.dropQueue(old, nil)
		if q, ok := s.v.Queue("q"); !ok || q != now {
			t.Fatal("the new queue went with the old one")
		}
		if dir != "" {
			s = guest(t, reopen(t, s.v.broker, compat.V4, dir))
			if q, ok := s.v.Queue("q"); !ok || q.ID != now.ID {
				t.Fatal("the new queue is not in the store")
			}
		}
	}
}

// A connection that has not been closed yet cannot make things in a virtual
// host that was removed, nor bring it back over a restart.
func TestRemovedVHostTakesNothing(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, compat.V4, dir)
	admin := guest(t, b)
	admin.must(admin.stored(func(done func(error)) (bool, error) { _, wait, err := b.AddVHost("v", done); return wait, err }))
	admin.must(b.Users.PutPermission(auth.Permission{User: "guest", VHost: "v", Configure: ".*", Write: ".*", Read: ".*"}, nil))
	s := login(t, b, "guest", "v")
	q := s.queue("q", true, nil)
	c := &sleeper{}
	c.Sink = c
	s.must(q.AddConsumer(&c.Consumer))
	s.bindQueue("amq.topic", "#", "q", nil)
	admin.must(admin.stored(func(done func(error)) (bool, error) { _, wait := b.RemoveVHost("v", done); return wait, nil }))
	if !c.gone || !q.Deleted() || len(s.v.Queues())+len(s.v.Exchanges())+len(s.v.Bindings()) != 0 {
		t.Fatal("something is left")
	}
	// The user's permissions have gone too; those of a faster client had not.
	admin.must(b.Users.PutPermission(auth.Permission{User: "guest", VHost: "v", Configure: ".*", Write: ".*", Read: ".*"}, nil))
	for _, err := range []error{declareQueueCase(frames.QueueDeclare{Queue: "q", Durable: true})(s), s.declareExchange(frames.ExchangeDeclare{Exchange: "x", Type: "direct"})} {
		if errorText(err) != "320 vhost 'v' is deleted" {
			t.Fatalf("declare: %v", err)
		}
	}
	if err := s.bind(BindRequest{Source: "amq.topic", Destination: "amq.fanout"}); errorText(err) != "404 no exchange 'amq.topic' in vhost 'v'" {
		t.Fatalf("bind: %v", err)
	}
	b = reopen(t, b, compat.V4, dir)
	if _, ok := b.VHost("v"); ok {
		t.Fatal("the virtual host is back")
	}
}

// 4.3 drops the topic permissions for an exchange that goes, by whatever way.
func TestTopicPermissionsOfDeletedExchanges(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		b := openBroker(t, p, "")
		s := guest(t, b)
		s.exchange("x", "topic", nil)
		s.must(s.declareExchange(frames.ExchangeDeclare{Exchange: "auto", Type: "topic", AutoDelete: true}))
		s.queue("q", false, nil)
		s.bindQueue("auto", "k", "q", nil)
		for _, x := range []string{"x", "auto", "amq.topic"} {
			s.must(b.Users.PutTopicPermission(auth.TopicPermission{User: "guest", VHost: "/", Exchange: x, Write: ".*", Read: ".*"}, nil))
		}
		s.must(s.deleteExchange(frames.ExchangeDelete{Exchange: "x"}))
		_, err := s.deleteQueue(frames.QueueDelete{Queue: "q"})
		s.must(err)
		want := 3
		if p == compat.V4 {
			want = 1
		}
		if got := b.Users.TopicPermissions(); len(got) != want {
			t.Fatalf("%d topic permissions are left: %v", len(got), got)
		}
	})
}

// connection.open: the virtual host is looked for first.
func TestOpenVHost(t *testing.T) {
	s := limitedUser(t, compat.V4)
	b := s.v.broker
	if _, _, err := b.AddVHost("other", nil); err != nil {
		t.Fatal(err)
	}
	for vhost, want := range map[string]string{
		"/": "", "none": "530 vhost none not found", "other": "530 access to vhost 'other' refused for user 'u'",
	} {
		if _, err := b.OpenVHost("u", vhost); errorText(err) != want {
			t.Errorf("%q: %v", vhost, err)
		}
	}
}
