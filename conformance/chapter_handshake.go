package conformance

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// foreignHeaders are protocol headers that are answered with eight bytes and the end of the connection. four is
// RabbitMQ 4's answer; 3's, and Warren's, is always AMQP 0 0 9 1.
var foreignHeaders = []struct{ id, title, sent, four string }{
	{"0-8-plain", "AMQP 0 0 8 0", "AMQP\x00\x00\x08\x00", "AMQP\x03\x01\x00\x00"},
	{"0-9-2", "AMQP 0 0 9 2, a revision that does not exist", "AMQP\x00\x00\x09\x02", wire.Header091},
	{"0-10", "AMQP 0 0 10 0", "AMQP\x00\x00\x0a\x00", wire.Header091},
	{"1-0", "AMQP 0 1 0 0, AMQP 1.0 without SASL", "AMQP\x00\x01\x00\x00", "AMQP\x03\x01\x00\x00"},
	{"http", "an HTTP request", "GET / HTTP/1.1\r\nHost: broker\r\n\r\n", "AMQP\x03\x01\x00\x00"},
	{"tls", "a TLS client hello", "\x16\x03\x01\x00\x2e\x01\x00\x00\x2a\x03\x03" + strings.Repeat("r", 32), "AMQP\x03\x01\x00\x00"},
	{"random", "eight bytes of nothing", "\x00\xff\x01\xfe\x02\xfd\x03\xfc", "AMQP\x03\x01\x00\x00"},
	{"lower-case", "amqp in lower case", "amqp\x00\x00\x09\x01", "AMQP\x03\x01\x00\x00"},
}

func handshakeCases() []Case {
	cases := []Case{
		{ID: "handshake/header-0-9-1", Title: "AMQP 0 0 9 1 is answered with connection.start 0-9", Source: "spec 4.2.2, behaviour 1.2", Class: Core,
			Run: func(t *T) { wantStart(t, wire.Header091, 0, 9) }},
		{ID: "handshake/header-0-9", Title: "AMQP 1 1 0 9 (AMQP 0-9) is taken as 0-9-1", Source: "behaviour 1.2", Class: Extension,
			Run: func(t *T) { wantStart(t, "AMQP\x01\x01\x00\x09", 0, 9) }},
		{ID: "handshake/header-0-8", Title: "AMQP 1 1 8 0 (AMQP 0-8) starts as 8-0 under profile 3", Source: "behaviour 0.25", Class: Extension,
			Profiles: []int{Profile3}, Run: func(t *T) { wantStart(t, "AMQP\x01\x01\x08\x00", 8, 0) }},
		{ID: "handshake/header-0-8-refused", Title: "AMQP 1 1 8 0 (AMQP 0-8) is refused under profile 4", Source: "behaviour 0.25", Class: Extension,
			Profiles: []int{Profile4}, Difference: "foreign-header",
			Run: func(t *T) { wantForeign(t, "AMQP\x01\x01\x08\x00", "AMQP\x03\x01\x00\x00") }},
		{ID: "handshake/header-in-pieces", Title: "a protocol header that arrives byte by byte is a protocol header", Source: "spec 4.2.2", Class: Core,
			Run: func(t *T) {
				c := t.Dial()
				for i := range wire.Header091 {
					c.SendBytes([]byte(wire.Header091[i : i+1]))
				}
				c.wantStartMethod(0, 9)
			}},
		{ID: "handshake/foreign-1-0-sasl", Title: "AMQP 3 1 0 0 (SASL of AMQP 1.0)", Source: "behaviour 1.2", Class: Extension, Difference: "foreign-header",
			Run: wantSASL},
		{ID: "handshake/start-locales", Title: "locales are en_US", Source: "spec connection.start, behaviour 1.3", Class: Core,
			Run: func(t *T) { t.Equal("locales", t.DialStart().start.Locales, wire.LongStr("en_US")); t.abandon() }},
		{ID: "handshake/start-mechanisms", Title: "mechanisms are PLAIN and AMQPLAIN, and ANONYMOUS under profile 4", Source: "behaviour 0.24", Class: Core,
			Run: startMechanisms},
		{ID: "handshake/start-capabilities", Title: "capabilities are RabbitMQ's nine, all true", Source: "behaviour 1.3", Class: Extension,
			Run: startCapabilities},
		{ID: "handshake/start-properties", Title: "server-properties have RabbitMQ's keys, in order, as long strings", Source: "behaviour 1.3", Class: Extension,
			Difference: "own-properties", Run: startProperties},
		{ID: "handshake/start-version", Title: "product is RabbitMQ and version is of the profile", Source: "behaviour 1.3", Class: Extension,
			Run: startVersion},
		{ID: "handshake/silence", Title: "a connection that says nothing is ended after ten seconds", Source: "behaviour 1.2", Class: Timing,
			Run: func(t *T) { wantTimedOut(t, t.Dial()) }},
		{ID: "handshake/silence-after-header", Title: "a connection that says no more than its header is ended after ten seconds, without a method",
			Source: "behaviour 1.2", Class: Timing, Run: func(t *T) { wantTimedOut(t, t.DialStart()) }},
		{ID: "handshake/method-before-start-ok", Title: "a method other than start-ok is refused", Source: "spec 4.2.2", Class: Core, Run: func(t *T) {
			c := t.DialStart()
			c.Send(0, wire.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072})
			c.WantClosed(patience)
		}},
		{ID: "handshake/open-before-tune-ok", Title: "connection.open without tune-ok is refused", Source: "spec 4.2.2", Class: Core, Run: func(t *T) {
			c := t.DialStart()
			c.Authenticate(login{})
			c.Send(0, wire.ConnectionOpen{VirtualHost: t.VHost})
			c.WantClosed(patience)
		}},
		{ID: "handshake/channel-before-open", Title: "a channel before connection.open is refused", Source: "spec 4.2.2", Class: Core, Run: func(t *T) {
			c := t.DialStart()
			c.Authenticate(login{})
			c.Send(0, wire.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072})
			c.Send(1, wire.ChannelOpen{})
			c.WantClosing(hard(505, nil, "type 1, all octets = <<0,20,0,10,0>>"))
		}},
		{ID: "handshake/close-before-open", Title: "connection.close in place of open is refused", Source: "spec 4.2.2", Class: Core, Run: func(t *T) {
			c := t.DialStart()
			c.Authenticate(login{})
			c.Send(0, wire.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072}, wire.ConnectionClose{ReplyCode: 200})
			c.WantClosing(hard(504, wire.ConnectionClose{}, "unexpected method in connection state opening"))
		}},
		{ID: "handshake/first-frame-limit", Title: "before tune-ok a frame may have 4096 bytes under profile 3, 8192 under 4", Source: "behaviour 1.1", Class: Core,
			Run: func(t *T) {
				c := t.DialStart()
				c.Authenticate(login{properties: propertiesFor(t, int(t.smallest()))})
				t.abandon()
			}},
		{ID: "handshake/first-frame-too-large", Title: "one byte more ends the connection without a method", Source: "behaviour 1.1", Class: Core,
			Run: func(t *T) {
				c := t.DialStart()
				c.StartOk(login{properties: propertiesFor(t, int(t.smallest())+1)})
				c.WantClosed(patience)
			}},
	}
	for _, h := range foreignHeaders {
		cases = append(cases, Case{ID: "handshake/foreign-" + h.id, Title: h.title + " is answered with a protocol header, then the end",
			Source: "spec 4.2.2, behaviour 1.2, 0.3", Class: Core, Difference: "foreign-header",
			Run: func(t *T) { wantForeign(t, h.sent, h.four) }})
	}
	return cases
}

// abandon says that the case is done with its connections as they are.
func (t *T) abandon() {
	for _, c := range t.conns {
		c.Drop()
	}
}

func wantStart(t *T, header string, major, minor uint8) {
	c := t.Dial()
	c.SendBytes([]byte(header))
	c.wantStartMethod(major, minor)
}

func (c *Conn) wantStartMethod(major, minor uint8) {
	start, ok := c.Method(0).(wire.ConnectionStart)
	if !ok {
		c.t.Fatalf("no connection.start")
	}
	c.t.Equal("version", []uint8{start.VersionMajor, start.VersionMinor}, []uint8{major, minor})
	c.Drop()
}

func wantForeign(t *T, sent, four string) {
	want := wire.Header091
	if t.Four() && !t.Differs() {
		want = four
	}
	c := t.Dial()
	c.SendBytes([]byte(sent))
	c.wantHeader(want)
	c.WantClosed(patience)
}

func (c *Conn) wantHeader(want string) {
	got, err := c.w.ReadBytes(len(want), patience)
	if err != nil || !bytes.Equal(got, []byte(want)) {
		c.t.Fatalf("answer %q, error %v; want %q", got, err, want)
	}
}

// wantSASL: RabbitMQ 4 speaks AMQP 1.0 and goes on with its sasl-mechanisms frame, whose type octet is 1.
func wantSASL(t *T) {
	c := t.Dial()
	c.SendBytes([]byte("AMQP\x03\x01\x00\x00"))
	if !t.Four() || t.Differs() {
		c.wantHeader(wire.Header091)
		c.WantClosed(patience)
		return
	}
	c.wantHeader("AMQP\x03\x01\x00\x00")
	head, err := c.w.ReadBytes(8, patience)
	if err != nil || head[5] != 1 {
		t.Fatalf("want a SASL frame, got %q, error %v", head, err)
	}
	c.Drop()
}

func startMechanisms(t *T) {
	got := strings.Fields(string(t.DialStart().start.Mechanisms))
	want := []string{"AMQPLAIN", "PLAIN"}
	if t.Four() {
		want = []string{"AMQPLAIN", "ANONYMOUS", "PLAIN"}
	}
	slices.Sort(got)
	t.Equal("mechanisms", got, want)
	t.abandon()
}

func startCapabilities(t *T) {
	got, _ := t.DialStart().start.ServerProperties.Get("capabilities")
	table, ok := got.(wire.Table)
	if !ok {
		t.Fatalf("capabilities are %#v", got)
	}
	slices.SortFunc(table, func(a, b wire.Field) int { return strings.Compare(a.Key, b.Key) })
	t.Equal("capabilities", table, capabilities("authentication_failure_close", "basic.nack", "connection.blocked",
		"consumer_cancel_notify", "consumer_priorities", "direct_reply_to", "exchange_exchange_bindings", "per_consumer_qos",
		"publisher_confirms"))
	t.abandon()
}

func startProperties(t *T) {
	var keys []string
	for _, f := range t.DialStart().start.ServerProperties {
		if _, ok := f.Value.(string); !ok && f.Key != "capabilities" {
			t.Fatalf("%s is %#v", f.Key, f.Value)
		}
		keys = append(keys, f.Key)
	}
	want := []string{"capabilities", "cluster_name", "copyright", "information", "platform", "product", "version"}
	if t.Differs() {
		want = append(want, "warren", "warren_version")
	}
	t.Equal("keys", keys, want)
	t.abandon()
}

func startVersion(t *T) {
	p := t.DialStart().start.ServerProperties
	product, _ := p.Get("product")
	t.Equal("product", product, any("RabbitMQ"))
	version, _ := p.Get("version")
	if ok, err := regexp.MatchString(fmt.Sprintf(`^%d\.[0-9]+\.[0-9]+`, t.Profile), version.(string)); err != nil || !ok {
		t.Fatalf("version %q is not of profile %d", version, t.Profile)
	}
	t.abandon()
}

// wantTimedOut allows 7 to 16 s for what RabbitMQ does after 10: the case is about silence being bounded.
func wantTimedOut(t *T, c *Conn) {
	start := time.Now()
	c.WantClosed(16 * time.Second)
	if d := time.Since(start); d < 7*time.Second {
		t.Fatalf("ended after only %v", d)
	}
}

// propertiesFor gives client-properties that make the payload of the target's start-ok frame of an exact size.
func propertiesFor(t *T, size int) wire.Table {
	filler := func(n int) wire.Table { return table("filler", strings.Repeat("x", n)) }
	ok := wire.ConnectionStartOk{Mechanism: "PLAIN", Locale: "en_US", Response: wire.LongStr("\x00" + t.User + "\x00" + t.Password)}
	ok.ClientProperties = filler(0)
	return filler(size - len(wire.EncodeMethod(ok)))
}

func openCases() []Case {
	return []Case{
		{ID: "open/known-hosts", Title: "open-ok has empty known-hosts", Source: "spec connection.open-ok", Class: Core,
			Run: func(t *T) { t.Connect() }},
		{ID: "open/ignored-fields", Title: "insist and capabilities are ignored", Source: "behaviour 1.6", Class: Core, Run: func(t *T) {
			c := t.DialStart()
			c.Authenticate(login{})
			c.Send(0, wire.ConnectionTuneOk{ChannelMax: 2047, FrameMax: c.tune.FrameMax},
				wire.ConnectionOpen{VirtualHost: t.VHost, Capabilities: "anything", Insist: true})
			c.Want(0, wire.ConnectionOpenOk{})
		}},
		{ID: "open/unknown-vhost", Title: "an unknown virtual host: connection.close 530", Source: "behaviour 1.6", Class: Core, Run: func(t *T) {
			wantOpenRefused(t, login{vhost: t.Q}, "vhost {Q} not found")
		}},
		{ID: "open/vhost-verbatim", Title: "a virtual host's name is taken letter by letter", Source: "behaviour 1.6", Class: Core, Run: func(t *T) {
			wantOpenRefused(t, login{vhost: t.VHost + "/"}, "vhost {V}/ not found")
		}},
		{ID: "open/no-permission", Title: "a virtual host without permission: connection.close 530", Source: "behaviour 1.6", Class: Core, NeedsAdmin: true,
			Run: func(t *T) {
				t.user()
				wantOpenRefused(t, login{user: t.Login, password: "pw"}, "access to vhost '{V}' refused for user '{U}'")
			}},
		{ID: "open/two-connections", Title: "connections of one user are independent", Source: "spec 2.2.1", Class: Core, Run: func(t *T) {
			a, b := t.Connect(), t.Connect()
			one, two := a.Chan(1), b.Chan(1)
			one.Queue(t.Q)
			two.Queue(t.Q2)
			a.Close()
			two.WantCount(t.Q2, 0, 0)
		}},
		{ID: "open/pipelined", Title: "tune-ok, open and channel.open in one write", Source: "spec 4.2.2", Class: Core, Run: func(t *T) {
			c := t.DialStart()
			c.Authenticate(login{})
			c.SendFrames(wire.MethodFrame(0, wire.ConnectionTuneOk{ChannelMax: 2047, FrameMax: c.tune.FrameMax}),
				wire.MethodFrame(0, wire.ConnectionOpen{VirtualHost: t.VHost}), wire.MethodFrame(1, wire.ChannelOpen{}))
			c.WantNext(0, wire.ConnectionOpenOk{})
			c.WantNext(1, wire.ChannelOpenOk{})
		}},
		{ID: "open/update-secret", Title: "update-secret is answered with update-secret-ok", Source: "behaviour 1.10", Class: Extension, Run: func(t *T) {
			c := t.Connect()
			c.Send(0, wire.ConnectionUpdateSecret{NewSecret: "another", Reason: "renewed"})
			c.Want(0, wire.ConnectionUpdateSecretOk{})
		}},
	}
}

func wantOpenRefused(t *T, l login, text string) {
	c := t.DialStart()
	c.Authenticate(l)
	c.TuneOpen(l)
	c.WantClosing(hard(530, wire.ConnectionOpen{}, text))
}
