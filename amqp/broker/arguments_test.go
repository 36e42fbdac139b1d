package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// table makes a field table of keys and values in turn.
func table(pairs ...any) frames.Table {
	var t frames.Table
	for i := 0; i < len(pairs); i += 2 {
		t = append(t, frames.Field{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return t
}

// quorum and stream are tables that begin with the type.
func quorum(pairs ...any) frames.Table {
	return append(table("x-queue-type", "quorum"), table(pairs...)...)
}

func stream(pairs ...any) frames.Table {
	return append(table("x-queue-type", "stream"), table(pairs...)...)
}

// outcome writes an error as the tables below do: the code and the text, {q} and {x} standing for the object;
// "" for no error.
func outcome(err *frames.Error) string {
	if err == nil {
		return ""
	}
	_, text, _ := strings.Cut(err.ReplyText(), " - ")
	text = strings.NewReplacer("queue 'q' in vhost '/'", "{q}", "exchange 'q' in vhost '/'", "{x}").Replace(text)
	return strings.TrimSpace(fmt.Sprintf("%d %s", err.Code, text))
}

// eachProfile runs a test in both profiles with what is expected in each.
func eachProfile(t *testing.T, name, v3, v4 string, run func(p compat.Profile) *frames.Error) {
	t.Helper()
	for p, want := range map[compat.Profile]string{compat.V3: v3, compat.V4: v4} {
		err := run(p)
		if got := outcome(err); got != want {
			t.Errorf("profile %s, %s:\n got %q\nwant %q", p, name, got, want)
		}
		if err != nil && (err.Scope == frames.ScopeChannel) != (err.Code == frames.PreconditionFailed) {
			t.Errorf("profile %s, %s: code %d has scope %d", p, name, err.Code, err.Scope)
		}
	}
}

// Letters of a declareCase's properties.
const (
	exclusive  = "e"
	autoDelete = "a"
	transient  = "t"
)

// declareCase is a declaration of a new queue, durable unless its properties say transient.
type declareCase struct {
	what       string
	properties string
	args       frames.Table
	v3, v4     string // outcome; v4 "=" when it is v3's
}

func (c *declareCase) in4() string {
	if c.v4 == "=" {
		return c.v3
	}
	return c.v4
}

func (c *declareCase) has(property string) bool { return strings.Contains(c.properties, property) }

// bad is the outcome of an unacceptable value.
func bad(arg, reason string) string { return "406 invalid arg '" + arg + "' for {q}: " + reason }

// foreign is the outcome of an argument of another queue type.
func foreign(arg, queueType string) string {
	return "406 invalid arg '" + arg + "' for {q} of queue type rabbit_" + queueType + "_queue"
}

// masterDenied is what a reply-text has room for of 4.3.6's refusal of x-queue-master-locator.
const masterDenied = "541 Feature `queue_master_locator` is deprecated.\nBy default, this feature is not permitted anymore.\n" +
	"The feature will be removed from a future major RabbitMQ version, regardless of the configuration; actual version to be determined.\nTo con..."

// declareCases were all put to RabbitMQ 3.10.8 and 4.3.6.
var declareCases = []declareCase{
	{"nothing", "", nil, "", "="},
	{"unknown arguments", "", table("x-nothing", int32(1), "foo", nil), "", "="},

	// The integer rule, on one argument.
	{"byte", "", table("x-max-length", int8(1)), "", "="},
	{"unsigned byte", "", table("x-max-length", uint8(1)), "", "="},
	{"short", "", table("x-max-length", int16(1)), "", "="},
	{"unsigned short", "", table("x-max-length", uint16(1)), "", "="},
	{"int", "", table("x-max-length", int32(1)), "", "="},
	{"unsigned int", "", table("x-max-length", uint32(1)), "", "="},
	{"long", "", table("x-max-length", int64(1)), "", "="},
	{"long, letter L", "", table("x-max-length", frames.LongLong(1)), "", "="},
	{"longstr", "", table("x-max-length", "1"), bad("x-max-length", `"expected integer, got longstr"`), "="},
	{"binary", "", table("x-max-length", []byte("1")), bad("x-max-length", `"expected integer, got binary"`), "="},
	{"double", "", table("x-max-length", 1.0), bad("x-max-length", `"expected integer, got double"`), "="},
	{"float", "", table("x-max-length", float32(1)), bad("x-max-length", `"expected integer, got float"`), "="},
	{"bool", "", table("x-max-length", true), bad("x-max-length", `"expected integer, got bool"`), "="},
	{"timestamp", "", table("x-max-length", frames.Timestamp(1)), bad("x-max-length", `"expected integer, got timestamp"`), "="},
	{"void", "", table("x-max-length", nil), bad("x-max-length", `"expected integer, got void"`), "="},
	{"decimal", "", table("x-max-length", frames.Decimal{Value: 1}), bad("x-max-length", `"expected integer, got decimal"`), "="},
	{"table", "", table("x-max-length", frames.Table{}), bad("x-max-length", `"expected integer, got table"`), "="},
	{"array", "", table("x-max-length", frames.Array{}), bad("x-max-length", `"expected integer, got array"`), "="},

	{"ttl 0", "", table("x-message-ttl", int32(0)), "", "="},
	{"ttl at most", "", table("x-message-ttl", int64(315360000000)), "", "="},
	{"ttl above", "", table("x-message-ttl", int64(315360000001)), bad("x-message-ttl", "{value_too_large,315360000001}"), "="},
	{"ttl negative", "", table("x-message-ttl", int32(-1)), bad("x-message-ttl", "{value_negative,-1}"), "="},
	{"ttl text", "", table("x-message-ttl", "1"), bad("x-message-ttl", `"expected integer, got longstr"`), "="},
	{"expires 1", "", table("x-expires", int32(1000000)), "", "="},
	{"expires 0", "", table("x-expires", int32(0)), bad("x-expires", "{value_zero,0}"), "="},
	{"expires negative", "", table("x-expires", int64(-5)), bad("x-expires", "{value_negative,-5}"), "="},
	{"expires above", "", table("x-expires", int64(315360000001)), bad("x-expires", "{value_too_large,315360000001}"), "="},
	{"expires text", "", table("x-expires", "1"), bad("x-expires", `"expected integer, got longstr"`), "="},
	{"length 0", "", table("x-max-length", int32(0)), "", "="},
	{"length without bound", "", table("x-max-length", int64(1<<62)), "", "="},
	{"length negative", "", table("x-max-length", int8(-1)), bad("x-max-length", "{value_negative,-1}"), "="},
	{"bytes 0", "", table("x-max-length-bytes", int32(0)), "", "="},
	{"bytes negative", "", table("x-max-length-bytes", int32(-1)), bad("x-max-length-bytes", "{value_negative,-1}"), "="},
	{"priorities 0", "", table("x-max-priority", int32(0)), "", "="},
	{"priorities 255", "", table("x-max-priority", uint8(255)), "", "="},
	{"priorities 256", "", table("x-max-priority", int32(256)), bad("x-max-priority", "{max_value_exceeded,256}"), "="},
	{"priorities negative", "", table("x-max-priority", int32(-1)), bad("x-max-priority", "{value_negative,-1}"), "="},
	{"priorities text", "", table("x-max-priority", "5"), bad("x-max-priority", `"expected integer, got longstr"`), "="},

	{"drop-head", "", table("x-overflow", "drop-head"), "", "="},
	{"reject-publish", "", table("x-overflow", "reject-publish"), "", "="},
	{"reject-publish-dlx", "", table("x-overflow", "reject-publish-dlx"), "", "="},
	{"reject-publish-dlx on quorum", "", quorum("x-overflow", "reject-publish-dlx"), "", "="},
	{"overflow bogus", "", table("x-overflow", "bogus"), bad("x-overflow", "invalid_overflow"), "="},
	{"overflow int", "", table("x-overflow", int32(1)), bad("x-overflow", "{unacceptable_type,signedint}"), "="},

	{"dead letters to default", "", table("x-dead-letter-exchange", ""), "", "="},
	{"dead letters", "", table("x-dead-letter-exchange", "missing", "x-dead-letter-routing-key", "k"), "", "="},
	{"key before exchange", "", table("x-dead-letter-routing-key", "k", "x-dead-letter-exchange", "missing"), "", "="},
	{"dead letters int", "", table("x-dead-letter-exchange", int32(1)), "406 invalid type 'signedint' for arg 'x-dead-letter-exchange' in {q}", "="},
	{"dead letters bytes", "", table("x-dead-letter-exchange", []byte("x")), "406 invalid type 'binary' for arg 'x-dead-letter-exchange' in {q}", "="},
	{"dead letters int on stream", "", stream("x-dead-letter-exchange", int32(1)), "406 invalid type 'signedint' for arg 'x-dead-letter-exchange' in {q}", "="},
	{"dead letters int before type", "", table("x-queue-type", "bogus", "x-dead-letter-exchange", int32(1)), "406 invalid type 'signedint' for arg 'x-dead-letter-exchange' in {q}", "="},
	{"key alone", "", table("x-dead-letter-routing-key", "k"), bad("x-dead-letter-routing-key", "routing_key_but_no_dlx_defined"), "="},
	{"key int", "", table("x-dead-letter-routing-key", int32(1)), bad("x-dead-letter-routing-key", "{unacceptable_type,signedint}"), "="},
	{"strategy", "", quorum("x-dead-letter-strategy", "at-least-once"), "", "="},
	{"strategy most", "", quorum("x-dead-letter-strategy", "at-most-once"), "", "="},
	{"strategy bogus", "", quorum("x-dead-letter-strategy", "bogus"), bad("x-dead-letter-strategy", "invalid_dlx_strategy"), "="},
	{"strategy int", "", quorum("x-dead-letter-strategy", int32(1)), bad("x-dead-letter-strategy", "{unacceptable_type,signedint}"), "="},
	{"strategy on classic", "", table("x-dead-letter-strategy", "bogus"), foreign("x-dead-letter-strategy", "classic"), "="},

	{"single active", "", table("x-single-active-consumer", true), "", "="},
	{"single active text", "", table("x-single-active-consumer", "true"), bad("x-single-active-consumer", "{unacceptable_type,longstr}"), "="},

	{"type classic", "", table("x-queue-type", "classic"), "", "="},
	{"type quorum", "", quorum(), "", "="},
	{"type stream", "", stream(), "", "="},
	{"type bogus", "", table("x-queue-type", "bogus"), bad("x-queue-type", `"unsupported queue type 'bogus'"`), "="},
	{"type in capitals", "", table("x-queue-type", "Classic"), bad("x-queue-type", `"unsupported queue type 'Classic'"`), "="},
	{"type with a quote", "", table("x-queue-type", `a"b\c`), bad("x-queue-type", `"unsupported queue type 'a\"b\\c'"`), "="},
	{"type with a line feed", "", table("x-queue-type", "a\nb"), bad("x-queue-type", `"unsupported queue type 'a\nb'"`), "="},
	{"type with a control character", "", table("x-queue-type", "\x01"), bad("x-queue-type", `[117,110,115,117,112,112,111,114,116,101,100,32,113,117,101,117,101,32,116,121,112,101,32,39,1,39]`), "="},
	{"type beyond ASCII", "", table("x-queue-type", "é"), bad("x-queue-type", `"unsupported queue type 'é'"`), "="},
	{"type int", "", table("x-queue-type", int32(1)), bad("x-queue-type", "{unacceptable_type,signedint}"), "="},
	{"type bytes", "", table("x-queue-type", []byte("classic")), bad("x-queue-type", "{unacceptable_type,binary}"), "="},
	{"type void", "", table("x-queue-type", nil), bad("x-queue-type", "{unacceptable_type,void}"), "="},
	{"type empty", "", table("x-queue-type", ""), bad("x-queue-type", `"unsupported queue type ''"`), ""},
	{"type undefined", "", table("x-queue-type", "undefined"), bad("x-queue-type", `"unsupported queue type 'undefined'"`), ""},
	{"type twice", "", table("x-queue-type", "classic", "x-queue-type", "bogus"), "", "="},

	{"mode default", "", table("x-queue-mode", "default"), "", "="},
	{"mode lazy", "", table("x-queue-mode", "lazy"), "", "="},
	{"mode bogus", "", table("x-queue-mode", "bogus"), bad("x-queue-mode", `"unsupported queue mode 'bogus'"`), ""},
	{"mode int", "", table("x-queue-mode", int32(5)), bad("x-queue-mode", "{unacceptable_type,signedint}"), ""},
	{"mode on quorum", "", quorum("x-queue-mode", "lazy"), foreign("x-queue-mode", "quorum"), "="},
	{"version 1", "", table("x-queue-version", int32(1)), "", bad("x-queue-version", `"unsupported queue version '1'"`)},
	{"version 2", "", table("x-queue-version", int64(2)), "", "="},
	{"version 3", "", table("x-queue-version", int32(3)), bad("x-queue-version", `"unsupported queue version '3'"`), "="},
	{"version 0", "", table("x-queue-version", int32(0)), bad("x-queue-version", `"unsupported queue version '0'"`), "="},
	{"version -1", "", table("x-queue-version", int32(-1)), bad("x-queue-version", `{value_negative,-1}`), "="},
	{"version text", "", table("x-queue-version", "2"), bad("x-queue-version", `"expected integer, got longstr"`), "="},

	{"master min-masters", "", table("x-queue-master-locator", "min-masters"), "", masterDenied},
	{"master client-local", "", table("x-queue-master-locator", "client-local"), "", masterDenied},
	{"master random", "", table("x-queue-master-locator", "random"), "", masterDenied},
	{"master bogus", "", table("x-queue-master-locator", "bogus"), "541", masterDenied},
	{"master int", "", table("x-queue-master-locator", int32(1)), "541", masterDenied},
	{"master bytes", "", table("x-queue-master-locator", []byte("random")), "", masterDenied},
	{"master bogus, exclusive", exclusive, table("x-queue-master-locator", "bogus"), "", masterDenied},
	{"master on quorum", "", quorum("x-queue-master-locator", "random"), foreign("x-queue-master-locator", "quorum"), "="},

	{"leader on classic", "", table("x-queue-leader-locator", "balanced"), foreign("x-queue-leader-locator", "classic"), ""},
	{"leader client-local", "", quorum("x-queue-leader-locator", "client-local"), "", "="},
	{"leader balanced", "", quorum("x-queue-leader-locator", "balanced"), "", "="},
	{"leader random", "", quorum("x-queue-leader-locator", "random"), "", "="},
	{"leader least-leaders", "", quorum("x-queue-leader-locator", "least-leaders"), "", "="},
	{"leader min-masters", "", quorum("x-queue-leader-locator", "min-masters"), bad("x-queue-leader-locator", "invalid_queue_locator_arg"), ""},
	{"leader bogus", "", stream("x-queue-leader-locator", "bogus"), bad("x-queue-leader-locator", "invalid_queue_locator_arg"), "="},
	{"leader int", "", stream("x-queue-leader-locator", int32(1)), bad("x-queue-leader-locator", "{unacceptable_type,signedint}"), "="},

	{"delivery limit 0", "", quorum("x-delivery-limit", int32(0)), "", "="},
	{"delivery limit -2", "", quorum("x-delivery-limit", int32(-2)), "", "="},
	{"delivery limit text", "", quorum("x-delivery-limit", "3"), "", "="},
	{"delivery limit on classic", "", table("x-delivery-limit", int32(3)), foreign("x-delivery-limit", "classic"), "="},
	{"delivery limit on stream", "", stream("x-delivery-limit", int32(3)), foreign("x-delivery-limit", "stream"), "="},
	{"group 3", "", quorum("x-quorum-initial-group-size", int32(3)), "", "="},
	{"group 0", "", quorum("x-quorum-initial-group-size", int32(0)), bad("x-quorum-initial-group-size", "{value_zero,0}"), "="},
	{"group -1", "", quorum("x-quorum-initial-group-size", int32(-1)), bad("x-quorum-initial-group-size", "{value_negative,-1}"), "="},
	{"group text", "", quorum("x-quorum-initial-group-size", "1"), bad("x-quorum-initial-group-size", `"expected integer, got longstr"`), "="},
	{"group on classic", "", table("x-quorum-initial-group-size", int32(3)), foreign("x-quorum-initial-group-size", "classic"), "="},
	{"target group on quorum", "", quorum("x-quorum-target-group-size", "x"), "", "="},
	{"target group on classic", "", table("x-quorum-target-group-size", "x"), "", "="},
	{"in memory", "", quorum("x-max-in-memory-length", int32(0), "x-max-in-memory-bytes", int32(0)), "", "="},
	{"in memory length -1", "", quorum("x-max-in-memory-length", int32(-1)), bad("x-max-in-memory-length", "{value_negative,-1}"), "="},
	{"in memory bytes text", "", quorum("x-max-in-memory-bytes", "1"), bad("x-max-in-memory-bytes", `"expected integer, got longstr"`), "="},
	{"in memory on classic", "", table("x-max-in-memory-bytes", "x"), foreign("x-max-in-memory-bytes", "classic"), "="},

	{"age years", "", stream("x-max-age", "1Y"), "", "="},
	{"age months", "", stream("x-max-age", "2M"), "", "="},
	{"age days", "", stream("x-max-age", "07D"), "", "="},
	{"age hours", "", stream("x-max-age", "100h"), "", "="},
	{"age minutes", "", stream("x-max-age", "5m"), "", "="},
	{"age seconds", "", stream("x-max-age", "5s"), "", "="},
	{"age, line feed", "", stream("x-max-age", "5s\nx"), "", "="},
	{"age huge", "", stream("x-max-age", "99999999999999999999Y"), "", "="},
	{"age zero", "", stream("x-max-age", "0s"), bad("x-max-age", "invalid_max_age"), "="},
	{"age without unit", "", stream("x-max-age", "5"), bad("x-max-age", "invalid_max_age"), "="},
	{"age of another unit", "", stream("x-max-age", "5d"), bad("x-max-age", "invalid_max_age"), "="},
	{"age of two units", "", stream("x-max-age", "5ss"), bad("x-max-age", "invalid_max_age"), "="},
	{"age bogus", "", stream("x-max-age", "bogus"), "541", bad("x-max-age", "invalid_max_age")},
	{"age negative", "", stream("x-max-age", "-5s"), "541", bad("x-max-age", "invalid_max_age")},
	{"age empty", "", stream("x-max-age", ""), "541", bad("x-max-age", "invalid_max_age")},
	{"age int", "", stream("x-max-age", int32(1)), bad("x-max-age", "{unacceptable_type,signedint}"), "="},
	{"age on classic", "", table("x-max-age", "1Y"), foreign("x-max-age", "classic"), "="},
	{"age on quorum", "", quorum("x-max-age", "1Y"), foreign("x-max-age", "quorum"), "="},

	{"segment 0", "", stream("x-stream-max-segment-size-bytes", int32(0)), "", "="},
	{"segment at most", "", stream("x-stream-max-segment-size-bytes", int64(3000000000)), "", "="},
	{"segment above", "", stream("x-stream-max-segment-size-bytes", int64(3000000001)), "406 Exceeded max value for x-stream-max-segment-size-bytes", "="},
	{"segment -1", "", stream("x-stream-max-segment-size-bytes", int32(-1)), bad("x-stream-max-segment-size-bytes", "{value_negative,-1}"), "="},
	{"segment text", "", stream("x-stream-max-segment-size-bytes", "1"), bad("x-stream-max-segment-size-bytes", `"expected integer, got longstr"`), "="},
	{"segment on classic", "", table("x-stream-max-segment-size-bytes", int32(1)), foreign("x-stream-max-segment-size-bytes", "classic"), "="},
	{"filter 16", "", stream("x-stream-filter-size-bytes", int32(16)), "", "="},
	{"filter 255", "", stream("x-stream-filter-size-bytes", uint8(255)), "", "="},
	{"filter 15", "", stream("x-stream-filter-size-bytes", int32(15)), "", "406 Invalid value for x-stream-filter-size-bytes"},
	{"filter 256", "", stream("x-stream-filter-size-bytes", int32(256)), "", "406 Invalid value for x-stream-filter-size-bytes"},
	{"filter -1", "", stream("x-stream-filter-size-bytes", int32(-1)), "", bad("x-stream-filter-size-bytes", "{value_negative,-1}")},
	{"filter text", "", stream("x-stream-filter-size-bytes", "16"), "", bad("x-stream-filter-size-bytes", `"expected integer, got longstr"`)},
	{"filter on classic", "", table("x-stream-filter-size-bytes", int32(16)), "", foreign("x-stream-filter-size-bytes", "classic")},
	{"cluster 1", "", stream("x-initial-cluster-size", int32(1)), "", "="},
	{"cluster 0", "", stream("x-initial-cluster-size", int32(0)), bad("x-initial-cluster-size", "{value_zero,0}"), "="},
	{"cluster on quorum", "", quorum("x-initial-cluster-size", int32(1)), foreign("x-initial-cluster-size", "quorum"), "="},

	{"consumer timeout", "", quorum("x-consumer-timeout", int32(0)), "", "="},
	{"consumer timeout -1", "", quorum("x-consumer-timeout", int32(-1)), "", bad("x-consumer-timeout", "{value_negative,-1}")},
	{"consumer timeout text", "", quorum("x-consumer-timeout", "1"), "", bad("x-consumer-timeout", `"expected integer, got longstr"`)},
	{"consumer timeout on classic", "", table("x-consumer-timeout", int32(1)), "", foreign("x-consumer-timeout", "classic")},
	{"disconnected timeout -1", "", quorum("x-consumer-disconnected-timeout", int32(-1)), "", bad("x-consumer-disconnected-timeout", "{value_negative,-1}")},
	{"disconnected timeout on stream", "", stream("x-consumer-disconnected-timeout", int32(1)), "", foreign("x-consumer-disconnected-timeout", "stream")},
	{"retry", "", quorum("x-delayed-retry-type", "bogus", "x-delayed-retry-min", int32(-1), "x-delayed-retry-max", "x"), "", "="},
	{"retry type on classic", "", table("x-delayed-retry-type", "all"), "", foreign("x-delayed-retry-type", "classic")},
	{"retry min on classic", "", table("x-delayed-retry-min", int32(1)), "", foreign("x-delayed-retry-min", "classic")},
	{"retry max on classic", "", table("x-delayed-retry-max", int32(1)), "", foreign("x-delayed-retry-max", "classic")},

	{"ttl on stream", "", stream("x-message-ttl", int32(1)), foreign("x-message-ttl", "stream"), "="},
	{"expires on stream", "", stream("x-expires", int32(1)), foreign("x-expires", "stream"), "="},
	{"length on stream", "", stream("x-max-length", int32(1)), foreign("x-max-length", "stream"), "="},
	{"bytes on stream", "", stream("x-max-length-bytes", int32(1)), "", "="},
	{"overflow on stream", "", stream("x-overflow", "drop-head"), foreign("x-overflow", "stream"), "="},
	{"dead letters on stream", "", stream("x-dead-letter-exchange", "x"), foreign("x-dead-letter-exchange", "stream"), "="},
	{"single active on stream", "", stream("x-single-active-consumer", true), foreign("x-single-active-consumer", "stream"), "="},
	{"priorities on stream", "", stream("x-max-priority", int32(1)), foreign("x-max-priority", "stream"), "="},
	{"priorities on quorum", "", quorum("x-max-priority", int32(1)), foreign("x-max-priority", "quorum"), "="},
	{"version on quorum", "", quorum("x-queue-version", int32(9)), foreign("x-queue-version", "quorum"), "="},
	{"much on quorum", "", quorum("x-message-ttl", int32(1), "x-expires", int32(100000), "x-max-length", int32(1), "x-max-length-bytes", int32(1),
		"x-single-active-consumer", true, "x-dead-letter-exchange", "x", "x-dead-letter-routing-key", "k"), "", "="},

	// What is reported of several mistakes.
	{"expires before ttl", "", table("x-message-ttl", int32(-1), "x-expires", int32(-1)), bad("x-expires", "{value_negative,-1}"), "="},
	{"bytes before overflow", "", table("x-overflow", "bogus", "x-max-length-bytes", int32(-1)), bad("x-max-length-bytes", "{value_negative,-1}"), "="},
	{"value before foreign", "", table("x-max-age", "5s", "x-overflow", "bogus"), bad("x-overflow", "invalid_overflow"), "="},
	{"type before value", "", table("x-overflow", "bogus", "x-queue-type", "bogus"), bad("x-queue-type", `"unsupported queue type 'bogus'"`), "="},
	{"foreign in the order of the table, but sorted by an added type", "", table("x-max-age", "5s", "x-delivery-limit", int32(1)), foreign("x-max-age", "classic"), foreign("x-delivery-limit", "classic")},
	{"foreign in the order of the table", "", table("x-max-age", "5s", "x-delivery-limit", int32(1), "x-queue-type", "classic"), foreign("x-max-age", "classic"), "="},
	{"foreign in the other order", "", table("x-delivery-limit", int32(1), "x-max-age", "5s"), foreign("x-delivery-limit", "classic"), "="},
	{"foreign before property", transient, quorum("x-max-priority", int32(1)), foreign("x-max-priority", "quorum"), "="},
	{"property before segment", transient, stream("x-stream-max-segment-size-bytes", int64(3000000001)), "406 invalid property 'non-durable' for {q}", "="},
	{"segment before filter", "", stream("x-stream-filter-size-bytes", int32(1), "x-stream-max-segment-size-bytes", int64(3000000001)), "406 Exceeded max value for x-stream-max-segment-size-bytes", "="},

	{"transient quorum", transient, quorum(), "406 invalid property 'non-durable' for {q}", "="},
	{"exclusive quorum", exclusive, quorum(), "406 invalid property 'exclusive-owner' for {q}", "="},
	{"transient exclusive quorum", transient + exclusive, quorum(), "406 invalid property 'exclusive-owner' for {q}", "="},
	{"auto-delete quorum", autoDelete, quorum(), "406 invalid property 'auto-delete' for {q}", "="},
	{"all of them", transient + exclusive + autoDelete, quorum(), "406 invalid property 'auto-delete' for {q}", "="},
	{"transient stream", transient, stream(), "406 invalid property 'non-durable' for {q}", "="},
	{"exclusive stream", exclusive, stream(), "406 invalid property 'exclusive-owner' for {q}", "="},
	{"auto-delete stream", autoDelete, stream(), "406 invalid property 'auto-delete' for {q}", "="},
	{"transient classic", transient, nil, "", "="},
	{"exclusive auto-delete classic", transient + exclusive + autoDelete, table("x-queue-type", "classic"), "", "="},
}

// declare checks a new queue as queue.declare does.
func declare(p compat.Profile, c *declareCase) *frames.Error {
	if _, _, err := deadLetterExchange("/", "q", c.args); err != nil {
		return err
	}
	_, err := checkQueueArguments(p, "/", "q", !c.has(transient), c.has(exclusive), c.has(autoDelete), c.args)
	return err
}

func TestQueueArguments(t *testing.T) {
	for i := range declareCases {
		c := &declareCases[i]
		eachProfile(t, c.what, c.v3, c.in4(), func(p compat.Profile) *frames.Error { return declare(p, c) })
	}
}

// serverNamedCases are declarations without a name.
var serverNamedCases = []declareCase{
	{"nothing", "", nil, "", "="},
	{"classic", "", table("x-queue-type", "classic"), "", "="},
	{"quorum", "", quorum(), "406 Cannot declare a server-named queue for type rabbit_quorum_queue", "="},
	{"stream", "", stream(), "406 Cannot declare a server-named queue for type rabbit_stream_queue", "="},
	{"before properties", transient, stream(), "406 Cannot declare a server-named queue for type rabbit_stream_queue", "="},
	{"bogus", "", table("x-queue-type", "bogus"), "541", "406 unknown queue type 'bogus'"},
	{"before dead letters", "", table("x-queue-type", "bogus", "x-dead-letter-exchange", int32(1)), "541", "406 unknown queue type 'bogus'"},
	{"empty", "", table("x-queue-type", ""), "541", ""},
	{"undefined", "", table("x-queue-type", "undefined"), "541", ""},
	{"int", "", table("x-queue-type", int32(1)), "541", "="},
	{"bytes", "", table("x-queue-type", []byte("quorum")), "406 Cannot declare a server-named queue for type rabbit_quorum_queue", "="},
	{"bool", "", table("x-queue-type", true), "541", "406 unknown queue type 'true'"},
	{"table", "", table("x-queue-type", table()), "541", "="},
	{"double", "", table("x-queue-type", 1.5), "541", "="},
	// 4.3.6 lets the void pass here and refuses it among the other arguments.
	{"void", "", table("x-queue-type", nil), "541", bad("x-queue-type", "{unacceptable_type,void}")},
}

func TestServerNamed(t *testing.T) {
	for i := range serverNamedCases {
		c := &serverNamedCases[i]
		eachProfile(t, c.what, c.v3, c.in4(), func(p compat.Profile) *frames.Error {
			if err := serverNameAllowed(p, c.args); err != nil {
				return err
			}
			return declare(p, c)
		})
	}
}

// consumeCase is a basic.consume on a queue of a type.
type consumeCase struct {
	what, queueType string
	args            frames.Table
	priority        int // when accepted
	v3, v4          string
}

func (c *consumeCase) in4() string {
	if c.v4 == "=" {
		return c.v3
	}
	return c.v4
}

var consumeCases = []consumeCase{
	{"nothing", typeClassic, nil, 0, "", "="},
	{"unknown", typeClassic, table("x-nothing", int32(1)), 0, "", "="},
	{"priority", typeClassic, table("x-priority", int32(7)), 7, "", "="},
	{"priority below zero", typeQuorum, table("x-priority", int64(-7)), -7, "", "="},
	{"priority text", typeClassic, table("x-priority", "7"), 0, bad("x-priority", `"expected integer, got longstr"`), "="},
	{"priority bool", typeQuorum, table("x-priority", true), 0, bad("x-priority", `"expected integer, got bool"`), "="},
	{"priority of a stream", typeStream, table("x-priority", "7"), 0, foreign("x-priority", "stream"), "="},
	{"stream offset on classic", typeClassic, table("x-stream-offset", "first"), 0, foreign("x-stream-offset", "classic"), "="},
	{"stream offset on quorum", typeQuorum, table("x-stream-offset", "first"), 0, foreign("x-stream-offset", "quorum"), "="},
	{"value before foreign", typeClassic, table("x-stream-offset", "first", "x-priority", "x"), 0, bad("x-priority", `"expected integer, got longstr"`), "="},
	{"offset first", typeStream, table("x-stream-offset", "first"), 0, "", "="},
	{"offset last", typeStream, table("x-stream-offset", "last"), 0, "", "="},
	{"offset next", typeStream, table("x-stream-offset", "next"), 0, "", "="},
	{"offset bytes", typeStream, table("x-stream-offset", []byte("next")), 0, "", "="},
	{"offset number", typeStream, table("x-stream-offset", int64(5)), 0, "", "="},
	{"offset negative", typeStream, table("x-stream-offset", int64(-1)), 0, "", "="},
	{"offset timestamp", typeStream, table("x-stream-offset", frames.Timestamp(5)), 0, "", "="},
	{"offset age", typeStream, table("x-stream-offset", "1h"), 0, "", "="},
	{"offset age of no unit", typeStream, table("x-stream-offset", "1x"), 0, bad("x-stream-offset", `{invalid_stream_offset_arg,{longstr,<<"1x">>}}`), "="},
	{"offset bogus", typeStream, table("x-stream-offset", "bogus"), 0, "541", bad("x-stream-offset", `{invalid_stream_offset_arg,{longstr,<<"bogus">>}}`)},
	{"offset bool", typeStream, table("x-stream-offset", true), 0, "541", "="},
	{"offset double", typeStream, table("x-stream-offset", 1.5), 0, "541", "="},
	{"offset void", typeStream, table("x-stream-offset", nil), 0, "541", "="},
	{"offset other bytes", typeStream, table("x-stream-offset", []byte("1h")), 0, "541", "="},
	{"filter on classic", typeClassic, table("x-stream-filter", "a"), 0, "", foreign("x-stream-filter", "classic")},
	{"unfiltered on classic", typeClassic, table("x-stream-match-unfiltered", true), 0, "", foreign("x-stream-match-unfiltered", "classic")},
	{"filter on stream", typeStream, table("x-stream-filter", int32(1), "x-stream-match-unfiltered", "x"), 0, "", "="},
	{"timeout on classic", typeClassic, table("x-consumer-timeout", int32(1)), 0, "", foreign("x-consumer-timeout", "classic")},
	{"timeout on quorum", typeQuorum, table("x-consumer-timeout", int32(100000)), 0, "", "="},
	{"timeout below zero", typeQuorum, table("x-consumer-timeout", int32(-1)), 0, "", bad("x-consumer-timeout", "{value_negative,-1}")},
	{"timeout text", typeQuorum, table("x-consumer-timeout", "1"), 0, "", bad("x-consumer-timeout", `"expected integer, got longstr"`)},
	{"failover", typeClassic, table("x-cancel-on-ha-failover", true), 0, "", "="},
	{"failover int", typeClassic, table("x-cancel-on-ha-failover", int32(1)), 0, bad("x-cancel-on-ha-failover", "{unacceptable_type,signedint}"), ""},
	{"failover on quorum", typeQuorum, table("x-cancel-on-ha-failover", true), 0, foreign("x-cancel-on-ha-failover", "quorum"), ""},
	{"queue arguments", typeClassic, table("x-message-ttl", "x", "x-max-age", "x"), 0, "", "="},
}

func TestConsumeArguments(t *testing.T) {
	for i := range consumeCases {
		c := &consumeCases[i]
		eachProfile(t, c.what, c.v3, c.in4(), func(p compat.Profile) *frames.Error {
			priority, err := checkConsumeArguments(p, "/", "q", c.queueType, c.args)
			if priority != c.priority {
				t.Errorf("profile %s, %s: priority %d, want %d", p, c.what, priority, c.priority)
			}
			return err
		})
	}
}

func TestNamedExchanges(t *testing.T) {
	args := table("x-dead-letter-exchange", "dlx", "alternate-exchange", "")
	if name, ok, err := deadLetterExchange("/", "q", args); name != "dlx" || !ok || err != nil {
		t.Errorf("dead-letter exchange %q %v %v", name, ok, err)
	}
	if name, ok, err := alternateExchange("/", "q", args); name != "" || !ok || err != nil {
		t.Errorf("alternate exchange %q %v %v, want the default exchange", name, ok, err)
	}
	if name, ok, err := deadLetterExchange("/", "q", nil); name != "" || ok || err != nil {
		t.Errorf("dead-letter exchange %q %v %v of no arguments", name, ok, err)
	}
}

func TestQueueSpec(t *testing.T) {
	for _, c := range []struct {
		p    compat.Profile
		args frames.Table
		want queueSpec
	}{
		{compat.V3, nil, queueSpec{Type: typeClassic}},
		{compat.V4, nil, queueSpec{Type: typeClassic, Arguments: table("x-queue-type", "classic")}},
		{compat.V3, table("x-max-priority", int64(0)), queueSpec{Type: typeClassic, Arguments: table("x-max-priority", int64(0))}},
		{compat.V4, table("x-max-priority", int64(0)), queueSpec{Type: typeClassic, MaxPriority: 1, Arguments: table("x-max-priority", int64(0), "x-queue-type", "classic")}},
		{compat.V4, table("z", nil, "x-max-priority", uint8(10), "a", "b"), queueSpec{Type: typeClassic, MaxPriority: 10, Arguments: table("a", "b", "x-max-priority", uint8(10), "x-queue-type", "classic", "z", nil)}},
		{compat.V4, table("z", nil, "x-queue-type", "quorum", "a", "b"), queueSpec{Type: typeQuorum, Arguments: table("z", nil, "x-queue-type", "quorum", "a", "b")}},
		{compat.V4, table("x-queue-type", ""), queueSpec{Type: typeClassic, Arguments: table("x-queue-type", "")}},
	} {
		before := append(frames.Table(nil), c.args...)
		got, err := checkQueueArguments(c.p, "/", "q", true, false, false, c.args)
		if err != nil {
			t.Errorf("profile %s, %v: %v", c.p, c.args, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("profile %s, %v (-want +got):\n%s", c.p, c.args, diff)
		}
		if diff := cmp.Diff(before, c.args); diff != "" {
			t.Errorf("profile %s: the client's table was changed (-before +after):\n%s", c.p, diff)
		}
	}
}

// TestDefaultQueueType follows 4.3.6, where virtual hosts have a default type.
func TestDefaultQueueType(t *testing.T) {
	for _, c := range []struct {
		what, defaultType, properties string
		args                          frames.Table
		v3, v4                        any // x-queue-type that results; nil for none
	}{
		{"no default", "", "", nil, nil, "classic"},
		{"undefined default", "undefined", "", nil, nil, "classic"},
		{"quorum", "quorum", "", nil, "quorum", "quorum"},
		{"stream", "stream", "", nil, "stream", "stream"},
		{"classic", "classic", "", nil, "classic", "classic"},
		{"transient classic", "classic", transient + exclusive, nil, "classic", "classic"},
		{"transient", "quorum", transient, nil, nil, "classic"},
		{"exclusive", "quorum", exclusive, nil, nil, "classic"},
		{"auto-delete", "stream", autoDelete, nil, nil, "classic"},
		{"given", "quorum", "", table("x-queue-type", "classic"), "classic", "classic"},
		{"given badly", "quorum", "", table("x-queue-type", int32(1)), int32(1), int32(1)},
		{"given empty", "quorum", "", table("x-queue-type", ""), "", "quorum"},
		{"given undefined and exclusive", "stream", exclusive, table("x-queue-type", "undefined"), "undefined", "stream"},
		{"given empty without default", "", "", table("x-queue-type", ""), "", ""},
	} {
		d := &declareCase{properties: c.properties}
		for p, want := range map[compat.Profile]any{compat.V3: c.v3, compat.V4: c.v4} {
			args := withDefaultQueueType(p, c.defaultType, !d.has(transient), d.has(exclusive), d.has(autoDelete), c.args)
			if got, _ := args.Get("x-queue-type"); got != want {
				t.Errorf("profile %s, %s: type %v, want %v", p, c.what, got, want)
			}
		}
	}
}
