package broker

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// redeclareCase is a declaration of a queue that was declared with current.
type redeclareCase struct {
	what              string
	current, received frames.Table
	v3, v4            string
}

func (c *redeclareCase) in4() string {
	if c.v4 == "=" {
		return c.v3
	}
	return c.v4
}

func differs(arg, received, current string) string {
	return "406 inequivalent arg '" + arg + "' for {q}: received " + received + " but current is " + current
}

var redeclareCases = []redeclareCase{
	{"nothing", nil, nil, "", "="},
	{"the same", table("x-message-ttl", int32(100)), table("x-message-ttl", int32(100)), "", "="},
	{"other widths", table("x-message-ttl", int32(100)), table("x-message-ttl", int64(100)), "", "="},
	{"narrow widths", table("x-message-ttl", uint8(100)), table("x-message-ttl", uint16(100)), "", "="},
	{"letter L", table("x-message-ttl", int8(100)), table("x-message-ttl", frames.LongLong(100)), "", "="},
	{"a timestamp of that value", table("x-message-ttl", int32(100)), table("x-message-ttl", frames.Timestamp(100)), "", "="},
	{"a double of that value", table("x-message-ttl", int32(100)), table("x-message-ttl", 100.0), differs("x-message-ttl", "'100.0'", "'100'"), "="},
	{"a float", table("x-message-ttl", int32(100)), table("x-message-ttl", float32(0.5)), differs("x-message-ttl", "'0.5'", "'100'"), "="},
	{"other value", table("x-message-ttl", int32(100)), table("x-message-ttl", int32(200)), differs("x-message-ttl", "'200'", "'100'"), "="},
	{"text", table("x-message-ttl", int32(100)), table("x-message-ttl", "100"), differs("x-message-ttl", "'100'", "'100'"), "="},
	{"bool", table("x-message-ttl", int32(1)), table("x-message-ttl", true), differs("x-message-ttl", "'true'", "'1'"), "="},
	{"void", table("x-message-ttl", int32(1)), table("x-message-ttl", nil), differs("x-message-ttl", "none", "'1'"), "="},
	{"void against nothing", nil, table("x-message-ttl", nil), differs("x-message-ttl", "the value 'undefined' of type 'void'", "none"), "="},
	{"table", table("x-message-ttl", int32(1)), table("x-message-ttl", table("a", int32(1), "b", "x")), differs("x-message-ttl", `'[{<<"a">>,signedint,1},{<<"b">>,longstr,<<"x">>}]'`, "'1'"), "="},
	{"empty table", table("x-message-ttl", int32(1)), table("x-message-ttl", frames.Table{}), differs("x-message-ttl", `'[]'`, "'1'"), "="},
	{"array", table("x-message-ttl", int32(1)), table("x-message-ttl", frames.Array{int32(1), "x", nil, true, frames.Array{}}), differs("x-message-ttl", `'[{signedint,1},{longstr,<<"x">>},{void,undefined},{bool,true},{array,[]}]'`, "'1'"), "="},
	{"decimal", table("x-message-ttl", int32(1)), table("x-message-ttl", frames.Decimal{Scale: 2, Value: 5}), "541", "="},
	{"decimal against nothing", nil, table("x-message-ttl", frames.Decimal{Scale: 2, Value: 5}), differs("x-message-ttl", "the value '{2,5}' of type 'decimal'", "none"), "="},
	{"not received", table("x-message-ttl", int32(100)), nil, differs("x-message-ttl", "none", "the value '100' of type 'signedint'"), "="},
	{"not current", nil, table("x-message-ttl", uint8(100)), differs("x-message-ttl", "the value '100' of type 'unsignedbyte'", "none"), "="},
	{"invalid values are compared only", table("x-overflow", "drop-head"), table("x-overflow", "bogus"), differs("x-overflow", "'bogus'", "'drop-head'"), "="},
	{"text beyond ASCII", table("x-overflow", "drop-head"), table("x-overflow", "łé"), differs("x-overflow", "'łé'", "'drop-head'"), "="},
	{"bytes of that text", table("x-overflow", "drop-head"), table("x-overflow", []byte("drop-head")), "", "="},
	{"other bytes", table("x-overflow", "drop-head"), table("x-overflow", []byte("x")), differs("x-overflow", "'x'", "'drop-head'"), "="},
	{"bool differs", table("x-single-active-consumer", true), table("x-single-active-consumer", false), differs("x-single-active-consumer", "'false'", "'true'"), "="},
	{"dead letters not longstr", table("x-dead-letter-exchange", "x"), table("x-dead-letter-exchange", int32(1)), differs("x-dead-letter-exchange", "'1'", "'x'"), "="},
	{"dead letters against none", nil, table("x-dead-letter-exchange", ""), differs("x-dead-letter-exchange", "the value '' of type 'longstr'", "none"), "="},
	{"unknown arguments", table("foo", int32(1)), table("bar", int32(2), "foo", "x"), "", "="},
	{"arguments of another type", nil, table("x-max-age", "5s", "x-delivery-limit", int32(1)), "", "="},
	{"first of a key counts", table("x-message-ttl", int32(1)), table("x-message-ttl", int32(1), "x-message-ttl", int32(2)), "", "="},
	{"expires before ttl on classic", nil, table("x-message-ttl", int32(1), "x-expires", int32(1)), differs("x-expires", "the value '1' of type 'signedint'", "none"), "="},
	{"ttl before type on classic", nil, quorum("x-message-ttl", int32(1)), differs("x-message-ttl", "the value '1' of type 'signedint'", "none"), "="},
	{"type before ttl on quorum", quorum(), table("x-message-ttl", int32(1), "x-queue-type", "stream"), differs("x-queue-type", "'stream'", "'quorum'"), "="},
	{"dead letters before expires on quorum", quorum(), quorum("x-expires", int32(1), "x-dead-letter-exchange", "x"), differs("x-dead-letter-exchange", "the value 'x' of type 'longstr'", "none"), "="},
	{"bytes before type on stream", stream(), table("x-max-age", "5s", "x-max-length-bytes", int32(1)), differs("x-max-length-bytes", "the value '1' of type 'signedint'", "none"), "="},

	{"classic against none", nil, table("x-queue-type", "classic"), "", "="},
	{"none against classic", table("x-queue-type", "classic"), nil, "", "="},
	{"quorum against none", nil, quorum(), differs("x-queue-type", "the value 'quorum' of type 'longstr'", "none"), differs("x-queue-type", "'quorum'", "'classic'")},
	{"none against quorum", quorum(), nil, differs("x-queue-type", "none", "the value 'quorum' of type 'longstr'"), differs("x-queue-type", "'classic'", "'quorum'")},
	{"quorum against classic", table("x-queue-type", "classic"), quorum(), differs("x-queue-type", "'quorum'", "'classic'"), "="},
	{"bogus against none", nil, table("x-queue-type", "bogus"), differs("x-queue-type", "the value 'bogus' of type 'longstr'", "none"), differs("x-queue-type", "'bogus'", "'classic'")},
	{"int against none", nil, table("x-queue-type", int32(1)), differs("x-queue-type", "the value '1' of type 'signedint'", "none"), differs("x-queue-type", "'1'", "'classic'")},
	{"bytes classic against none", nil, table("x-queue-type", []byte("classic")), differs("x-queue-type", "the value 'classic' of type 'binary'", "none"), ""},
	{"empty against none", nil, table("x-queue-type", ""), differs("x-queue-type", "the value '' of type 'longstr'", "none"), differs("x-queue-type", "''", "'classic'")},

	{"the same age", stream("x-max-age", "60s"), stream("x-max-age", "60s"), "", "="},
	{"the same age in another unit", stream("x-max-age", "60s"), stream("x-max-age", "1m"), differs("x-max-age", "'1m'", "'60s'"), ""},
	{"another age", stream("x-max-age", "60s"), stream("x-max-age", "2m"), differs("x-max-age", "'2m'", "'60s'"), differs("x-max-age", "'120000'", "'60000'")},
	{"no age", stream("x-max-age", "60s"), stream(), differs("x-max-age", "none", "the value '60s' of type 'longstr'"), differs("x-max-age", "none", "the value '60000' of type 'longstr'")},
	{"bogus age", stream("x-max-age", "60s"), stream("x-max-age", "bogus"), differs("x-max-age", "'bogus'", "'60s'"), differs("x-max-age", "'bogus'", "'60000'")},
	{"filter size", stream(), stream("x-stream-filter-size-bytes", int32(16)), "", differs("x-stream-filter-size-bytes", "the value '16' of type 'signedint'", "none")},
	{"leader locator on classic", nil, table("x-queue-leader-locator", "x"), "", differs("x-queue-leader-locator", "the value 'x' of type 'longstr'", "none")},
	{"master locator on classic", nil, table("x-queue-master-locator", "x"), differs("x-queue-master-locator", "the value 'x' of type 'longstr'", "none"), "="},
	{"consumer timeout on quorum", quorum(), quorum("x-consumer-timeout", int32(1)), "", differs("x-consumer-timeout", "the value '1' of type 'signedint'", "none")},
	{"delayed retry on quorum", quorum(), quorum("x-delayed-retry-type", "x"), "", differs("x-delayed-retry-type", "the value 'x' of type 'longstr'", "none")},
	{"delivery limit floats", quorum("x-delivery-limit", 1.5), quorum("x-delivery-limit", float32(1.5)), "", "="},
	{"delivery limit of other type", quorum("x-delivery-limit", table("a", int32(1))), quorum("x-delivery-limit", table("a", int64(1))), differs("x-delivery-limit", `'[{<<"a">>,long,1}]'`, `'[{<<"a">>,signedint,1}]'`), "="},
	{"delivery limit of the same tables", quorum("x-delivery-limit", table("a", int64(1), "b", frames.Array{nil})), quorum("x-delivery-limit", table("a", frames.LongLong(1), "b", frames.Array{nil})), "", "="},
	{"delivery limit of void", quorum("x-delivery-limit", nil), quorum("x-delivery-limit", nil), "", "="},
	{"delivery limit of void and text", quorum("x-delivery-limit", nil), quorum("x-delivery-limit", "undefined"), differs("x-delivery-limit", "'undefined'", "none"), "="},
	{"delivery limit of decimals", quorum("x-delivery-limit", frames.Decimal{Scale: 1, Value: 2}), quorum("x-delivery-limit", frames.Decimal{Scale: 1, Value: 2}), "", "="},
	{"delivery limit of other decimals", quorum("x-delivery-limit", frames.Decimal{Scale: 1, Value: 2}), quorum("x-delivery-limit", frames.Decimal{Scale: 2, Value: 20}), "541", "="},
	{"delivery limit of large timestamps", quorum("x-delivery-limit", frames.Timestamp(1<<63)), quorum("x-delivery-limit", int64(-1<<63)), differs("x-delivery-limit", `'-9223372036854775808'`, `'9223372036854775808'`), "="},
	{"delivery limit of short tables", quorum("x-delivery-limit", table("a", int64(1))), quorum("x-delivery-limit", table()), differs("x-delivery-limit", `'[]'`, `'[{<<"a">>,long,1}]'`), "="},
}

func TestRedeclaredQueue(t *testing.T) {
	for i := range redeclareCases {
		c := &redeclareCases[i]
		eachProfile(t, c.what, c.v3, c.in4(), func(p compat.Profile) *frames.Error {
			spec, err := checkQueueArguments(p, "/", "q", true, false, false, c.current)
			if err != nil {
				t.Fatalf("%s: current arguments: %v", c.what, err)
			}
			return equivalentQueueArguments(p, "/", "q", spec.Arguments, c.received)
		})
	}
}

// TestTextsAreUTF8: a longstr and a byte array need not be, but a reply-text has to. RabbitMQ sends the bytes.
func TestTextsAreUTF8(t *testing.T) {
	current, received := table("x-overflow", "a\xffb"), table("x-overflow", []byte{0xfe})
	got := outcome(equivalentQueueArguments(compat.V3, "/", "q", current, received))
	if want := differs("x-overflow", "'\uFFFD'", "'a\uFFFDb'"); got != want {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

// exchangeCase is a declaration of an exchange that exists, or of a new one when current is nil.
type exchangeCase struct {
	what              string
	current, received frames.Table
	want              string // in both profiles
}

var exchangeCases = []exchangeCase{
	{"nothing", nil, nil, ""},
	{"alternate", nil, table("alternate-exchange", "foo"), ""},
	{"empty alternate", nil, table("alternate-exchange", ""), ""},
	{"alternate int", nil, table("alternate-exchange", int32(1)), "406 invalid type 'signedint' for arg 'alternate-exchange' in {x}"},
	{"alternate void", nil, table("alternate-exchange", nil), "406 invalid type 'void' for arg 'alternate-exchange' in {x}"},
	{"the same", table("alternate-exchange", "foo"), table("alternate-exchange", "foo"), ""},
	{"new alternate", frames.Table{}, table("alternate-exchange", "foo"), "406 inequivalent arg 'alternate-exchange' for {x}: received the value 'foo' of type 'longstr' but current is none"},
	{"alternate gone", table("alternate-exchange", "foo"), table(), "406 inequivalent arg 'alternate-exchange' for {x}: received none but current is the value 'foo' of type 'longstr'"},
	{"other alternate", table("alternate-exchange", "foo"), table("alternate-exchange", "bar"), "406 inequivalent arg 'alternate-exchange' for {x}: received 'bar' but current is 'foo'"},
	{"alternate int against foo", table("alternate-exchange", "foo"), table("alternate-exchange", int32(1)), "406 inequivalent arg 'alternate-exchange' for {x}: received '1' but current is 'foo'"},
	{"other arguments", table("a", int32(1)), table("a", int32(2), "x-queue-type", "quorum"), ""},
}

func TestExchangeArguments(t *testing.T) {
	for i := range exchangeCases {
		c := &exchangeCases[i]
		var err *frames.Error
		if c.current == nil {
			_, _, err = alternateExchange("/", "q", c.received)
		} else {
			err = equivalentExchangeArguments("/", "q", c.current, c.received)
		}
		if got := outcome(err); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.what, got, c.want)
		}
	}
}

func TestInequivalentProperties(t *testing.T) {
	q, x := queueText("/", "q"), exchangeText("/", "q")
	for _, c := range []struct {
		err  *frames.Error
		want string
	}{
		{inequivalentBool("durable", q, true, false), "406 inequivalent arg 'durable' for {q}: received 'true' but current is 'false'"},
		{inequivalentBool("auto_delete", x, false, true), "406 inequivalent arg 'auto_delete' for {x}: received 'false' but current is 'true'"},
		{inequivalentBool("durable", q, true, true), ""},
		{inequivalentText("type", x, "topic", "direct"), "406 inequivalent arg 'type' for {x}: received 'topic' but current is 'direct'"},
		{inequivalentText("type", x, "topic", "topic"), ""},
	} {
		if got := outcome(c.err); got != c.want {
			t.Errorf("\n got %q\nwant %q", got, c.want)
		}
	}
}

// TestErlangFloat holds what Erlang's ~p printed for these floats.
func TestErlangFloat(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0.0", 1: "1.0", 100: "100.0", 1000: "1.0e3", 100000: "1.0e5", 123456: "123456.0", 1200000: "1.2e6", -2.5: "-2.5",
		0.1: "0.1", 0.001: "0.001", 0.0015: "0.0015", 0.0001: "0.0001", 0.00012345: "1.2345e-4", 1e-7: "1.0e-7", 1e22: "1.0e22",
		123456789.125: "123456789.125", 1<<53 - 1: "9007199254740991.0", 1 << 53: "9.007199254740992e15", 1.25e20: "1.25e20",
	} {
		if got := erlangFloat(f); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestSameValue: being the same is symmetric, holds for a value and itself, and does not see widths.
func TestSameValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := values().Draw(t, "a"), values().Draw(t, "b")
		if sameValue(a, b) != sameValue(b, a) {
			t.Fatalf("%#v and %#v: not symmetric", a, b)
		}
		if !sameValue(a, a) {
			t.Fatalf("%#v is not itself", a)
		}
		if n, ok := integer(a); ok && (!sameValue(a, n) || !sameValue(frames.LongLong(n), a)) {
			t.Fatalf("%#v is not %d", a, n)
		}
	})
}
