package conformance

import (
	"github.com/warrenmq/warren/conformance/wire"
)

// amqplain is an AMQPLAIN response: a table's entries without its length.
func amqplain(fields ...wire.Field) string { return string(wire.EncodeTable(fields)) }

func authenticationCases() []Case {
	silent := login{properties: wire.Table{{Key: "capabilities", Value: wire.Table{}}}}
	with := func(mechanism, response string) login { return login{mechanism: mechanism, response: response} }
	cases := []Case{
		accepted("plain", "PLAIN", Core, func(t *T) login { return with("PLAIN", "\x00"+t.User+"\x00"+t.Password) }),
		accepted("amqplain", "AMQPLAIN", Extension, func(t *T) login {
			return with("AMQPLAIN", amqplain(wire.Field{Key: "LOGIN", Value: t.User}, wire.Field{Key: "PASSWORD", Value: t.Password}))
		}),
		accepted("amqplain-any-order", "AMQPLAIN with password first and a stranger between", Extension, func(t *T) login {
			return with("AMQPLAIN", amqplain(wire.Field{Key: "PASSWORD", Value: t.Password}, wire.Field{Key: "EXTRA", Value: true},
				wire.Field{Key: "LOGIN", Value: t.User}))
		}),
		accepted("no-properties", "empty client-properties", Core, func(t *T) login { return login{properties: wire.Table{}} }),
		accepted("strange-properties", "client-properties of every type", Core, func(t *T) login {
			return login{properties: append(wire.Table{{Key: "product", Value: int32(1)}}, fieldSamples()...)}
		}),
		{ID: "authentication/anonymous", Title: "ANONYMOUS logs in as the default user under profile 4", Source: "behaviour 0.24", Class: Extension,
			Profiles: []int{Profile4}, Run: func(t *T) {
				c := t.DialStart()
				c.Authenticate(login{mechanism: "ANONYMOUS"})
				t.abandon()
			}},
		refusedLogin("wrong-password", "PLAIN", func(t *T) login { return with("PLAIN", "\x00"+t.User+"\x00wrong-"+t.Q) }),
		refusedLogin("unknown-user", "PLAIN", func(t *T) login { return with("PLAIN", "\x00"+t.Q+"\x00"+t.Password) }),
		refusedLogin("empty-password", "PLAIN", func(t *T) login { return with("PLAIN", "\x00"+t.User+"\x00") }),
		refusedLogin("amqplain-wrong-password", "AMQPLAIN", func(t *T) login {
			return with("AMQPLAIN", amqplain(wire.Field{Key: "LOGIN", Value: t.User}, wire.Field{Key: "PASSWORD", Value: "wrong-" + t.Q}))
		}),
		silentLogin("wrong-password-silent", "wrong password from a client without authentication_failure_close", Core, func(t *T) login {
			return login{response: "\x00" + t.User + "\x00wrong-" + t.Q, properties: silent.properties}
		}),
		silentLogin("unknown-mechanism", "a mechanism that was not offered", Core, func(t *T) login { return with("BOGUS", "x") }),
		silentLogin("mechanism-case", "plain in lower case", Core, func(t *T) login { return with("plain", "\x00"+t.User+"\x00"+t.Password) }),
		silentLogin("plain-malformed", "a PLAIN response without separators", Core, func(t *T) login { return with("PLAIN", t.User+t.Password) }),
		silentLogin("plain-authzid", "a PLAIN response with an authorization identity", Core,
			func(t *T) login { return with("PLAIN", "someone\x00"+t.User+"\x00"+t.Password) }),
		silentLogin("plain-one-separator", "a PLAIN response with one separator", Core, func(t *T) login { return with("PLAIN", "\x00"+t.User) }),
		silentLogin("amqplain-no-password", "an AMQPLAIN response without PASSWORD", Extension, func(t *T) login {
			return with("AMQPLAIN", amqplain(wire.Field{Key: "LOGIN", Value: t.User}))
		}),
	}
	return append(cases, Case{ID: "authentication/password-changed", Title: "a changed password holds for the next connection and leaves the live one",
		Source: "behaviour 1.9", Class: Core, NeedsAdmin: true, Run: func(t *T) {
			t.user()
			t.permit(".*", ".*", ".*")
			live := t.ConnectAs(login{user: t.Login, password: "pw"})
			t.Must(t.Admin.PutUser(t.Login, "pw2"))
			live.Chan(1).Queue(t.Q)
			t.ConnectAs(login{user: t.Login, password: "pw2"})
			c := t.DialStart()
			c.StartOk(login{user: t.Login, password: "pw"})
			c.wantLoginRefused("PLAIN")
		}})
}

// accepted logs in and opens the connection.
func accepted(id, title string, class Class, l func(t *T) login) Case {
	return Case{ID: "authentication/" + id, Title: title + ": accepted", Source: "behaviour 1.4", Class: class,
		Run: func(t *T) { t.ConnectAs(l(t)).Chan(1) }}
}

// refusedLogin: a client with authentication_failure_close is told 403 at once.
func refusedLogin(id, mechanism string, l func(t *T) login) Case {
	return Case{ID: "authentication/" + id, Title: id + ": connection.close 403 for a client that understands it", Source: "behaviour 1.4", Class: Core,
		Run: func(t *T) {
			c := t.DialStart()
			c.StartOk(l(t))
			c.wantLoginRefused(mechanism)
		}}
}

func (c *Conn) wantLoginRefused(mechanism string) {
	c.WantClosing(hard(403, nil, "Login was refused using authentication mechanism "+mechanism+". For details see the broker logfile."))
}

// silentLogin: the connection ends without a method. RabbitMQ holds it for three seconds first.
func silentLogin(id, title string, class Class, l func(t *T) login) Case {
	return Case{ID: "authentication/" + id, Title: title + ": the connection ends without a method", Source: "behaviour 1.4", Class: class,
		Run: func(t *T) {
			c := t.DialStart()
			c.StartOk(l(t))
			c.WantClosed(patience)
		}}
}
