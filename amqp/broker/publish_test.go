package broker

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// Texts as RabbitMQ sent them, 3.10.8 and 4.3.6 alike.
func TestParseExpiration(t *testing.T) {
	for _, c := range []struct {
		text string
		ms   int64
		want string // the text behind "invalid expiration 'TEXT': "
	}{
		{"0", 0, ""},
		{"1", 1, ""},
		{"60000", 60000, ""},
		{"007", 7, ""},
		{"+5", 5, ""},
		{"-0", 0, ""},
		{"0000000000000000000000000000", 0, ""},
		{"0000000000000000000000000005", 5, ""},
		{"315360000000", 315360000000, ""},
		{"", 0, "no_integer"},
		{"abc", 0, "no_integer"},
		{" 5", 0, "no_integer"},
		{"+", 0, "no_integer"},
		{"-", 0, "no_integer"},
		{"--1", 0, "no_integer"},
		{"+-1", 0, "no_integer"},
		{"-1", 0, "{value_negative,-1}"},
		{"-01", 0, "{value_negative,-1}"},
		{"-99999999999999999999", 0, "{value_negative,\n" + strings.Repeat(" ", 45) + "-99999999999999999999}"},
		{"1.5", 0, `{leftover_string,".5"}`},
		{"100 ", 0, `{leftover_string," "}`},
		{"0x10", 0, `{leftover_string,"x10"}`},
		{"-1x", 0, `{leftover_string,"x"}`},
		{`1"x`, 0, `{leftover_string,"\"x"}`},
		{`1\`, 0, `{leftover_string,"\\"}`},
		{"1\n", 0, `{leftover_string,"\n"}`},
		{"1\t", 0, `{leftover_string,"\t"}`},
		{"1\x0b", 0, `{leftover_string,"\v"}`},
		{"1\x1b", 0, `{leftover_string,"\e"}`},
		{"1\x01", 0, `{leftover_string,[1]}`},
		{"1\x7f", 0, `{leftover_string,[127]}`},
		{"1\x80", 0, `{leftover_string,[128]}`},
		{"1\x00a", 0, `{leftover_string,[0,97]}`},
		{"1é", 0, `{leftover_string,"Ã©"}`}, // 4.3.6; 3.10.8 sends the octets as they came
		{"1 aaaaaaaaaaaaaaaaa", 0, "{leftover_string,\n" + strings.Repeat(" ", 43) + `" aaaaaaaaaaaaaaaaa"}`},
		{"315360000001", 0, "{value_too_large,315360000001}"},
		{"9999999999999", 0, "{value_too_large,9999999999999}"},
		{"9223372036854775808", 0, "{value_too_large,9223372036854775808}"},
		{"01234567890123456789", 0, "{value_too_large,\n" + strings.Repeat(" ", 44) + "1234567890123456789}"},
		{"99999999999999999999", 0, "{value_too_large,\n" + strings.Repeat(" ", 44) + "99999999999999999999}"},
	} {
		ms, err := parseExpiration([]byte(c.text))
		want := ""
		if c.want != "" {
			want = fmt.Sprintf("406 invalid expiration '%s': %s", c.text, c.want)
		}
		if got := errorText(err); got != want || ms != c.ms {
			t.Errorf("%q: %d, %q; want %d, %q", c.text, ms, got, c.ms, want)
		}
	}
}

// publishFault is something wrong with a publish.
type publishFault struct {
	name string
	want string // code and text; FAULT in the exchange's name is left as it is
	// exchange, when not "", is the exchange that has the fault.
	exchange string
	make     func(p *Publication, v *frames.PropertyValues)
}

// publishFaults are everything that can be wrong with a publish, in the order
// in which each version looks.
func publishFaults() map[compat.Profile][]publishFault {
	size := publishFault{"size", "406 message size 1001 is larger than configured max size 1000", "", func(p *Publication, _ *frames.PropertyValues) { p.BodySize = 1001 }}
	write3 := publishFault{"write", "403 access to exchange 'secret' in vhost '/' refused for user 'u'", "secret", nil}
	write4 := publishFault{"write", "403 write access to exchange 'secret' in vhost '/' refused for user 'u'", "secret", nil}
	exists := publishFault{"exists", "404 no exchange 'open.missing' in vhost '/'", "open.missing", nil}
	internal := publishFault{"internal", "403 cannot publish to internal exchange 'open.internal' in vhost '/'", "open.internal", nil}
	topic3 := publishFault{"topic", "403 access to topic 'denied' in exchange 'open.topic' in vhost '/' refused for user 'u'", "open.topic", nil}
	topic4 := publishFault{"topic", "403 write access to topic 'denied' in exchange 'open.topic' in vhost '/' refused for user 'u'", "open.topic", nil}
	reply := publishFault{"reply-to", "406 fast reply consumer does not exist", "", func(_ *Publication, v *frames.PropertyValues) {
		v.Flags |= frames.FlagReplyTo
		v.ReplyTo = ReplyTo
	}}
	user := publishFault{"user-id", "406 user_id property set to 'bob' but authenticated user was 'u'", "", func(_ *Publication, v *frames.PropertyValues) {
		v.Flags |= frames.FlagUserID
		v.UserID = "bob"
	}}
	expiration := publishFault{"expiration", "406 invalid expiration 'abc': no_integer", "", func(_ *Publication, v *frames.PropertyValues) {
		v.Flags |= frames.FlagExpiration
		v.Expiration = "abc"
	}}
	header := func(name, want string, value any) publishFault {
		return publishFault{name, want, "", func(_ *Publication, v *frames.PropertyValues) {
			v.Flags |= frames.FlagHeaders
			v.Headers = append(v.Headers, frames.Field{Key: name, Value: value})
		}}
	}
	cc := header("CC", `406 invalid message: {unacceptable_type_in_header,"CC",signedint}`, int32(1))
	bcc := header("BCC", `406 invalid message: {unacceptable_type_in_header,"BCC",longstr}`, "x")
	mode := publishFault{"delivery mode", "406 invalid message: {delivery_mode_unknown,9}", "", func(_ *Publication, v *frames.PropertyValues) {
		v.Flags |= frames.FlagDeliveryMode
		v.DeliveryMode = 9
	}}
	return map[compat.Profile][]publishFault{
		compat.V3: {size, write3, exists, internal, topic3, reply, user, expiration, cc, bcc, mode},
		compat.V4: {size, write4, exists, internal, reply, expiration, cc, bcc, topic4, user},
	}
}

// Each check hides those behind it: a publish with all faults gets the first
// one's error, without that one the second's, and so on.
func TestPublishCheckOrder(t *testing.T) {
	orders := publishFaults()
	both(t, func(t *testing.T, p compat.Profile) {
		s := limitedUser(t, p)
		order := orders[p]
		for i := range order {
			faulty := &Publication{Exchange: []byte("open.topic"), RoutingKey: []byte("denied")}
			var v frames.PropertyValues
			at := ""
			for _, f := range order[i:] {
				if f.make != nil {
					f.make(faulty, &v)
				}
				if at == "" {
					at = f.exchange
				}
			}
			if at == "" { // no fault with the exchange is left
				at = "open.direct"
			}
			faulty.Exchange, faulty.Properties = []byte(at), properties(t, v)
			for range 2 { // the second time with what the router has kept
				_, err := s.route(faulty)
				if got := errorText(err); got != order[i].want {
					t.Fatalf("%s: %q, want %q", order[i].name, got, order[i].want)
				}
			}
		}
		if _, err := s.route(&Publication{Exchange: []byte("open.direct"), BodySize: 1000}); err != nil {
			t.Fatalf("without a fault: %v", err)
		}
	})
}

// limitedUser is a session of a user "u" that may write to "open.*", and to
// the topic exchange with keys that begin with "a" only.
func limitedUser(t *testing.T, p compat.Profile) *session {
	t.Helper()
	b, err := Open(Options{Profile: p, Logger: discard, MaxMessageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	admin := guest(t, b)
	for name, typ := range map[string]string{"open.topic": "topic", "open.direct": "direct", "secret": "fanout"} {
		admin.exchange(name, typ, nil)
	}
	admin.must(admin.declareExchange(frames.ExchangeDeclare{Exchange: "open.internal", Type: "topic", Internal: true}))
	admin.must(b.Users.PutUser(auth.User{Name: "u", PasswordHash: auth.HashPassword("u")}, nil))
	admin.must(b.Users.PutPermission(auth.Permission{User: "u", VHost: "/", Configure: "^open", Write: "^(open|amq.default)", Read: "^open"}, nil))
	admin.must(b.Users.PutTopicPermission(auth.TopicPermission{User: "u", VHost: "/", Exchange: "open.topic", Write: "^a", Read: "^a"}, nil))
	return login(t, b, "u", "/")
}

// Properties that cannot be read count where each version decodes them: in
// 3.10.8 behind the topic check, in 4.3 before it.
func TestUnreadablePropertiesInTheOrder(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		s := limitedUser(t, p)
		_, unreadable := frames.ParseProperties([]byte{0, 1})
		topic := "403 access to topic 'denied' in exchange 'open.topic' in vhost '/' refused for user 'u'"
		want := map[string]string{"open.internal": "403 cannot publish to internal exchange 'open.internal' in vhost '/'", "open.topic": topic, "open.direct": "541"}
		if p == compat.V4 {
			want["open.topic"] = "541"
		}
		for exchange, want := range want {
			_, err := s.route(&Publication{Exchange: []byte(exchange), RoutingKey: []byte("denied"), PropertiesError: unreadable})
			if got, _, _ := strings.Cut(errorText(err), " INTERNAL_ERROR"); got != want {
				t.Errorf("%s: %q, want %q", exchange, got, want)
			}
		}
	})
}

// A permission that the router remembers ends when it is taken away, and with
// the exchange that it was for.
func TestRouterForgetsPermissions(t *testing.T) {
	s := limitedUser(t, compat.V4)
	p := &Publication{Exchange: []byte("open.direct"), RoutingKey: []byte("k")}
	for range 2 {
		if _, err := s.route(p); err != nil {
			t.Fatal(err)
		}
	}
	s.must(s.v.broker.Users.PutPermission(auth.Permission{User: "u", VHost: "/", Write: "^other"}, nil))
	if _, err := s.route(p); errorText(err) != "403 write access to exchange 'open.direct' in vhost '/' refused for user 'u'" {
		t.Fatalf("after the permission has gone: %v", err)
	}
	s.must(s.v.broker.Users.PutPermission(auth.Permission{User: "u", VHost: "/", Write: "^open"}, nil))
	if _, err := s.route(p); err != nil {
		t.Fatal(err)
	}
}

// The last route is used again only while nothing that decided it has
// changed.
func TestRouterForgetsRoutes(t *testing.T) {
	b := openBroker(t, compat.V4, "")
	s := guest(t, b)
	s.exchange("h", "headers", nil)
	s.queue("q1", false, nil)
	s.queue("q2", false, nil)
	expect := func(exchange, key string, headers frames.Table, want ...string) {
		t.Helper()
		p := &Publication{Exchange: []byte(exchange), RoutingKey: []byte(key), Properties: properties(t, withHeaders(headers))}
		got, err := s.route(p)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s with %q: %v, %v; want %v", exchange, key, got, err, want)
		}
	}
	expect("", "q1", nil, "q1")
	expect("", "q2", nil, "q2")
	expect("", "q2", table("CC", frames.Array{"q1"}), "q1", "q2")
	expect("", "q2", nil, "q2")
	expect("amq.direct", "q2", nil)
	s.bindQueue("amq.direct", "q2", "q1", nil)
	expect("amq.direct", "q2", nil, "q1")
	s.bindQueue("h", "", "q1", table("a", "1"))
	s.bindQueue("h", "", "q2", table("a", "2"))
	s.bindExchange("amq.fanout", "", "h")
	for _, exchange := range []string{"h", "amq.fanout"} { // headers decide, also further on
		expect(exchange, "k", table("a", "1"), "q1")
		expect(exchange, "k", table("a", "2"), "q2")
		expect(exchange, "k", nil)
	}
	if _, err := s.deleteQueue(frames.QueueDelete{Queue: "q1"}); err != nil {
		t.Fatal(err)
	}
	expect("amq.direct", "q2", nil)
	expect("", "q1", nil)
}

// Verified on both versions: a default exchange that is named as an alternate
// routes nothing.
func TestDefaultExchangeAsAlternate(t *testing.T) {
	both(t, func(t *testing.T, p compat.Profile) {
		s := guest(t, openBroker(t, p, ""))
		s.queue("q", false, nil)
		s.exchange("x", "direct", table("alternate-exchange", ""))
		if got, err := s.route(&Publication{Exchange: []byte("x"), RoutingKey: []byte("q")}); err != nil || got != nil {
			t.Fatalf("routed to %v, %v", got, err)
		}
	})
}

// A wide fan-out over several exchanges is still one copy a queue.
func TestOneCopyAQueue(t *testing.T) {
	s := guest(t, openBroker(t, compat.V4, ""))
	s.exchange("x1", "fanout", nil)
	s.exchange("x2", "fanout", nil)
	s.bindExchange("x1", "", "x2")
	s.bindExchange("x2", "", "x1") // a cycle
	s.bindExchange("x1", "", "x1")
	var want []string
	for i := range 40 {
		name := fmt.Sprintf("q%02d", i)
		want = append(want, name)
		s.queue(name, false, nil)
		s.bindQueue("x1", "a", name, nil)
		s.bindQueue("x1", "b", name, nil)
		s.bindQueue("x2", "", name, nil)
		got, err := s.route(&Publication{Exchange: []byte("x1"), RoutingKey: []byte("k")})
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v, %v", got, err)
		}
		if len(s.r.found) != 0 || len(s.r.visited) != 2 {
			t.Fatalf("%d destinations left over, %d exchanges visited", len(s.r.found), len(s.r.visited))
		}
	}
}

// The order of a binding's arguments does not make another binding.
func TestBindingArgumentsInAnyOrder(t *testing.T) {
	s := guest(t, openBroker(t, compat.V4, ""))
	s.queue("q", false, nil)
	s.bindQueue("amq.headers", "", "q", table("b", "2", "a", "1", "x-match", "all"))
	s.bindQueue("amq.headers", "", "q", table("x-match", "all", "a", "1", "b", "2"))
	if n := len(s.v.Bindings()); n != 1 {
		t.Fatalf("%d bindings", n)
	}
	s.must(s.unbind(BindRequest{Source: "amq.headers", Destination: "q", ToQueue: true, Arguments: table("a", "1", "x-match", "all", "b", "2")}))
	if n := len(s.v.Bindings()); n != 0 {
		t.Fatalf("%d bindings are left", n)
	}
}

// What a message is made of: its own memory, the client's properties, and no
// BCC.
func TestCompose(t *testing.T) {
	s := guest(t, openBroker(t, compat.V4, ""))
	s.queue("a", false, nil)
	s.queue("b", false, nil)
	s.queue("c", false, nil)
	headers := table("first", int8(-3), "CC", frames.Array{"b"}, "BCC", frames.Array{"c", int32(1)}, "nested", table("BCC", "stays", "n", nil))
	v := frames.PropertyValues{
		Flags:       frames.FlagContentType | frames.FlagHeaders | frames.FlagDeliveryMode | frames.FlagPriority | frames.FlagExpiration | frames.FlagTimestamp,
		ContentType: "text/plain", Headers: headers, DeliveryMode: 2, Priority: 7, Expiration: "1500", Timestamp: 12345,
	}
	key := []byte("a")
	p := &Publication{RoutingKey: key, Properties: properties(t, v), BodySize: 4}
	got, err := s.route(p)
	if err != nil || !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Fatalf("%v, %v", got, err)
	}
	var arena queue.Arena
	body := []byte("body")
	m := p.Compose(&arena, body)
	copy(key, "X") // the read buffer goes on
	if m.Exchange != "" || m.RoutingKey != "a" || !bytes.Equal(m.Content, body) || m.Priority != 7 || !m.Persistent || m.Expiration != 1500 {
		t.Fatalf("%+v", m)
	}
	back, err := frames.ParseProperties(m.Properties)
	if err != nil {
		t.Fatal(err)
	}
	v.Headers = slices.DeleteFunc(slices.Clone(headers), func(f frames.Field) bool { return f.Key == "BCC" })
	if diff := gocmp.Diff(v, back.Values()); diff != "" {
		t.Fatal(diff)
	}
}

// BCC alone leaves an empty table; without BCC the properties are the
// client's octets.
func TestComposeKeepsOctets(t *testing.T) {
	s := guest(t, openBroker(t, compat.V4, ""))
	for _, c := range []struct{ sent, want []byte }{
		{[]byte{0x20, 0, 0, 0, 0, 9, 3, 'B', 'C', 'C', 'A', 0, 0, 0, 0}, []byte{0x20, 0, 0, 0, 0, 0}},
		{[]byte{0x20, 0, 0, 0, 0, 12, 2, 'l', 'l', 'L', 0, 0, 0, 0, 0, 0, 0, 1}, nil},
		{[]byte{0, 0}, nil},
		{[]byte{0x10, 0, 2}, nil},
	} {
		properties, err := frames.ParseProperties(c.sent)
		if err != nil {
			t.Fatal(err)
		}
		p := &Publication{RoutingKey: []byte("nowhere"), Properties: properties}
		if _, err := s.route(p); err != nil {
			t.Fatal(err)
		}
		want := c.want
		if want == nil {
			want = c.sent
		}
		var arena queue.Arena
		if m := p.Compose(&arena, nil); !bytes.Equal(m.Properties, want) {
			t.Errorf("%x: %x, want %x", c.sent, m.Properties, want)
		}
	}
}

// Expiration and delivery mode of one publish do not stay for the next.
func TestPublicationIsReadAnew(t *testing.T) {
	s := guest(t, openBroker(t, compat.V4, ""))
	p := &Publication{Properties: properties(t, frames.PropertyValues{
		Flags:      frames.FlagExpiration | frames.FlagDeliveryMode | frames.FlagPriority | frames.FlagHeaders,
		Expiration: "5", DeliveryMode: 2, Priority: 9, Headers: table("BCC", frames.Array{"x"}),
	})}
	for _, properties := range []frames.Properties{p.Properties, {}} {
		p.Properties = properties
		if _, err := s.route(p); err != nil {
			t.Fatal(err)
		}
	}
	if p.Expiration != -1 || p.Persistent || p.Priority != 0 || p.hasBCC {
		t.Fatalf("left over: %+v", p)
	}
}
