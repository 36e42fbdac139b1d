package exchange

import (
	"math"

	"github.com/warrenmq/warren/frames"
)

// named is a field value with the name it has in testdata.
type named struct {
	name  string
	value any
}

type (
	arr = frames.Array
	tab = frames.Table
)

// matrixValues are compared with one another by TestHeadersMatrix. The names are letter:value; those of testdata must
// stay in step, so append only.
var matrixValues = []named{
	{"V", nil},
	{"t:true", true}, {"t:false", false},
	{"b:1", int8(1)}, {"b:-1", int8(-1)}, {"B:1", uint8(1)}, {"B:255", uint8(255)},
	{"s:1", int16(1)}, {"s:-1", int16(-1)}, {"u:1", uint16(1)}, {"u:65535", uint16(65535)},
	{"I:0", int32(0)}, {"I:1", int32(1)}, {"I:-1", int32(-1)}, {"I:5", int32(5)}, {"I:5000", int32(5000)},
	{"i:1", uint32(1)}, {"i:4294967295", uint32(math.MaxUint32)},
	{"l:1", int64(1)}, {"l:5", int64(5)}, {"l:5000", int64(5000)}, {"L:1", frames.LongLong(1)}, {"L:-1", frames.LongLong(-1)},
	{"l:2^53", int64(1) << 53}, {"l:2^53+1", int64(1)<<53 + 1}, {"l:2^63-1", int64(math.MaxInt64)}, {"l:-2^63", int64(math.MinInt64)},
	{"T:1", frames.Timestamp(1)}, {"T:5", frames.Timestamp(5)}, {"T:5000", frames.Timestamp(5000)},
	{"T:2^63", frames.Timestamp(1 << 63)}, {"T:2^64-1", frames.Timestamp(math.MaxUint64)},
	{"T:2^61", frames.Timestamp(1 << 61)},
	{"f:1", float32(1)}, {"f:0.1", float32(0.1)}, {"f:-0", float32(math.Copysign(0, -1))}, {"f:-1", float32(-1)},
	{"d:0", float64(0)}, {"d:-0", math.Copysign(0, -1)}, {"d:1", float64(1)}, {"d:0.1", 0.1}, {"d:f:0.1", float64(float32(0.1))},
	{"d:1.5", 1.5}, {"d:-1", float64(-1)}, {"d:5", float64(5)}, {"d:2^53", float64(1 << 53)}, {"d:2^63", float64(1 << 63)},
	{"d:-2^63", -float64(1 << 63)}, {"d:2^64", float64(1<<63) * 2}, {"d:1e300", 1e300}, {"d:-1e300", -1e300},
	{"D:0,1", frames.Decimal{Value: 1}}, {"D:1,10", frames.Decimal{Scale: 1, Value: 10}},
	{"S:", ""}, {"S:s", "s"}, {"S:1", "1"}, {"S:true", "true"}, {"S:ff", "\xff"},
	{"x:", []byte{}}, {"x:s", []byte("s")}, {"x:ff", []byte{0xff}},
	{"F:", tab{}}, {"A:", arr{}},
	{"F:k=I:1", tab{{Key: "k", Value: int32(1)}}}, {"F:k=l:1", tab{{Key: "k", Value: int64(1)}}},
	{"F:k=L:1", tab{{Key: "k", Value: frames.LongLong(1)}}}, {"F:k=V", tab{{Key: "k", Value: nil}}},
	{"F:a,b", tab{{Key: "a", Value: int32(1)}, {Key: "b", Value: int32(2)}}},
	{"F:b,a", tab{{Key: "b", Value: int32(2)}, {Key: "a", Value: int32(1)}}},
	{"A:I:1", arr{int32(1)}}, {"A:l:1", arr{int64(1)}}, {"A:L:1", arr{frames.LongLong(1)}}, {"A:d:1", arr{float64(1)}},
	{"A:f:1", arr{float32(1)}}, {"A:T:1", arr{frames.Timestamp(1)}}, {"A:t:true", arr{true}}, {"A:V", arr{nil}},
	{"A:I:1,I:2", arr{int32(1), int32(2)}}, {"A:I:2,I:1", arr{int32(2), int32(1)}},
	{"A:S:s", arr{"s"}}, {"A:x:s", arr{[]byte("s")}}, {"A:F:", arr{tab{}}}, {"A:A:", arr{arr{}}},
	{"A:d:0", arr{float64(0)}}, {"A:d:-0", arr{math.Copysign(0, -1)}},
	{"A:A:I:1", arr{arr{int32(1)}}}, {"A:F:k=I:1", arr{tab{{Key: "k", Value: int32(1)}}}},
	{"A:F:k=d:0", arr{tab{{Key: "k", Value: float64(0)}}}}, {"A:F:k=d:-0", arr{tab{{Key: "k", Value: math.Copysign(0, -1)}}}},
}

// headersScenario is a binding and a message in words of single letters.
type headersScenario struct {
	name    string
	args    frames.Table
	headers frames.Table
	v3, v4  bool // does it match on 3.10.8, on 4.3.6
}

func kv(pairs ...any) frames.Table {
	t := frames.Table{}
	for i := 0; i < len(pairs); i += 2 {
		t = append(t, frames.Field{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return t
}

// headersScenarios are about modes, presence, x- keys and repeated keys. The outcomes were taken
// from the two brokers.
var headersScenarios = []headersScenario{
	{"no args, no headers", nil, nil, true, true},
	{"no args, headers", nil, kv("a", "1"), true, true},
	{"all, no headers", kv("x-match", "all"), nil, true, true},
	{"any, no headers", kv("x-match", "any"), nil, false, false},
	{"any, headers, no conditions", kv("x-match", "any"), kv("a", "1"), false, false},
	{"all of two, both", kv("x-match", "all", "a", "1", "b", "2"), kv("b", "2", "a", "1", "c", "3"), true, true},
	{"all of two, one", kv("x-match", "all", "a", "1", "b", "2"), kv("a", "1"), false, false},
	{"all of two, one wrong", kv("x-match", "all", "a", "1", "b", "2"), kv("a", "1", "b", "3"), false, false},
	{"default of two, one", kv("a", "1", "b", "2"), kv("a", "1"), false, false},
	{"any of two, one", kv("x-match", "any", "a", "1", "b", "2"), kv("b", "2"), true, true},
	{"any of two, wrong", kv("x-match", "any", "a", "1", "b", "2"), kv("b", "1", "a", "2"), false, false},
	{"any of two, none", kv("x-match", "any", "a", "1", "b", "2"), kv("c", "2"), false, false},
	{"void in all", kv("a", nil, "b", "2"), kv("a", int32(9), "b", "2"), true, true},
	{"void in all, absent", kv("a", nil, "b", "2"), kv("b", "2"), false, false},
	{"void in any", kv("x-match", "any", "a", nil), kv("a", tab{}), true, true},
	{"void header, void condition", kv("a", nil), kv("a", nil), true, true},
	{"void header, value", kv("a", ""), kv("a", nil), false, false},
	{"x- skipped by all", kv("x-match", "all", "x-a", "1"), nil, true, true},
	{"x- skipped by all, wrong", kv("x-match", "all", "x-a", "1", "b", "2"), kv("x-a", "9", "b", "2"), true, true},
	{"x- skipped by any", kv("x-match", "any", "x-a", "1"), kv("x-a", "1"), false, false},
	{"x- in all-with-x", kv("x-match", "all-with-x", "x-a", "1"), kv("x-a", "1"), true, true},
	{"x- in all-with-x, wrong", kv("x-match", "all-with-x", "x-a", "1", "b", "2"), kv("x-a", "9", "b", "2"), false, false},
	{"x- in all-with-x, absent", kv("x-match", "all-with-x", "x-a", "1"), nil, false, false},
	{"x- in any-with-x", kv("x-match", "any-with-x", "x-a", "1", "b", "2"), kv("x-a", "1"), true, true},
	{"x- in any-with-x, wrong", kv("x-match", "any-with-x", "x-a", "1"), kv("x-a", "2"), false, false},
	{"all-with-x, no conditions", kv("x-match", "all-with-x"), nil, true, true},
	{"any-with-x, no conditions", kv("x-match", "any-with-x"), kv("x-match", "any-with-x"), false, false},
	{"x-match header", kv("x-match", "all-with-x", "a", "1"), kv("x-match", "any", "a", "1"), true, true},
	{"key x", kv("x", "1"), kv("x", "2"), false, false},
	{"key x-", kv("x-", "1"), kv("x-", "2"), true, true},
	{"key X-", kv("X-a", "1"), kv("X-a", "2"), false, false},
	{"empty key", kv("", "1"), kv("", "1"), true, true},
	{"empty key, wrong", kv("", "1"), kv("", "2"), false, false},
	{"header twice, first right", kv("a", "1"), kv("a", "1", "a", "2"), true, false},
	{"header twice, last right", kv("a", "2"), kv("a", "1", "a", "2"), false, true},
	{"header twice, any", kv("x-match", "any", "a", "2"), kv("a", "1", "a", "2"), false, true},
	{"header twice, apart", kv("a", "2", "b", "1"), kv("a", "1", "b", "1", "a", "2"), false, true},
	{"header twice, x-", kv("x-match", "all-with-x", "x-a", "2"), kv("x-a", "1", "x-a", "2"), false, true},
	{"argument twice, header once", kv("a", "1", "a", "1"), kv("a", "1"), false, true},
	{"argument twice, header twice", kv("a", "1", "a", "1"), kv("a", "1", "a", "1"), true, true},
	{"argument twice differing, header twice", kv("a", "1", "a", "2"), kv("a", "1", "a", "2"), true, false},
	{"argument twice differing, header twice swapped", kv("a", "1", "a", "2"), kv("a", "2", "a", "1"), false, false},
	{"argument twice differing, any, first", kv("x-match", "any", "a", "1", "a", "2"), kv("a", "1"), true, true},
	{"argument twice differing, any, second", kv("x-match", "any", "a", "1", "a", "2"), kv("a", "2"), false, true},
	{"argument twice differing, any, second of two", kv("x-match", "any", "a", "1", "a", "2"), kv("a", "3", "a", "2"), true, true},
	{"x-match twice, any first", kv("x-match", "any", "x-match", "all", "a", "1", "b", "2"), kv("a", "1"), true, true},
	{"x-match twice, all first", kv("x-match", "all", "x-match", "any", "a", "1", "b", "2"), kv("a", "1"), false, false},
	{"key order does not matter", kv("b", "1", "x-match", "any", "a", "2"), kv("a", "2"), true, true},
}

// identityScenarios pair two argument tables: does unbinding the second remove a binding with the first? The outcomes
// were taken from the two brokers.
var identityScenarios = []struct {
	name   string
	a, b   frames.Table
	v3, v4 bool
}{
	{"same", kv("a", "1"), kv("a", "1"), true, true},
	{"none and empty", nil, kv(), true, true},
	{"order", kv("a", "1", "b", "2"), kv("b", "2", "a", "1"), true, true},
	{"value", kv("a", "1"), kv("a", "2"), false, false},
	{"type string", kv("a", "1"), kv("a", []byte("1")), false, false},
	{"type width", kv("a", int32(1)), kv("a", int64(1)), false, false},
	{"l and L", kv("a", int64(1)), kv("a", frames.LongLong(1)), true, true},
	{"l and L nested", kv("a", arr{int64(1)}), kv("a", arr{frames.LongLong(1)}), true, true},
	{"int and float", kv("a", int32(1)), kv("a", float64(1)), false, false},
	{"f and d", kv("a", float32(1)), kv("a", float64(1)), false, false},
	{"zero and minus zero", kv("a", float64(0)), kv("a", math.Copysign(0, -1)), true, false},
	{"nested order", kv("a", tab{{Key: "k", Value: "1"}, {Key: "m", Value: "2"}}), kv("a", tab{{Key: "m", Value: "2"}, {Key: "k", Value: "1"}}), false, false},
	{"empty array and table", kv("a", arr{}), kv("a", tab{}), false, false},
	{"twice the same", kv("a", "1", "a", "1"), kv("a", "1"), false, false},
	{"twice differing, swapped", kv("a", "1", "a", "2"), kv("a", "2", "a", "1"), false, false},
	{"one more", kv("a", "1"), kv("a", "1", "b", "1"), false, false},
	{"default mode spelled out", kv("a", "1"), kv("a", "1", "x-match", "all"), false, false},
}

// refusedArguments are x-match arguments and the texts both brokers refuse them with.
var refusedArguments = []struct {
	value any
	text  string
}{
	{"bogus", `Invalid x-match field value <<"bogus">>; expected all, any, all-with-x, or any-with-x`},
	{"", `Invalid x-match field value <<>>; expected all, any, all-with-x, or any-with-x`},
	{"ALL", `Invalid x-match field value <<"ALL">>; expected all, any, all-with-x, or any-with-x`},
	{int32(5), `Invalid x-match field type signedint (value 5); expected longstr`},
	{true, `Invalid x-match field type bool (value true); expected longstr`},
	{nil, `Invalid x-match field type void (value undefined); expected longstr`},
	{[]byte("all"), `Invalid x-match field type binary (value <<"all">>); expected longstr`},
	{1.5, `Invalid x-match field type double (value 1.5); expected longstr`},
	{float64(1), `Invalid x-match field type double (value 1.0); expected longstr`},
	{float64(100), `Invalid x-match field type double (value 100.0); expected longstr`},
	{float64(1000), `Invalid x-match field type double (value 1.0e3); expected longstr`},
	{1e22, `Invalid x-match field type double (value 1.0e22); expected longstr`},
	{123456789.5, `Invalid x-match field type double (value 123456789.5); expected longstr`},
	{0.001, `Invalid x-match field type double (value 0.001); expected longstr`},
	{0.0001, `Invalid x-match field type double (value 0.0001); expected longstr`},
	{float64(1200), `Invalid x-match field type double (value 1.2e3); expected longstr`},
	{12345678901234567890.0, `Invalid x-match field type double (value 1.2345678901234567e19); expected longstr`},
	{1e-7, `Invalid x-match field type double (value 1.0e-7); expected longstr`},
	{float32(0.1), `Invalid x-match field type float (value 0.10000000149011612); expected longstr`},
	{math.Copysign(0, -1), `Invalid x-match field type double (value -0.0); expected longstr`},
	{frames.Timestamp(5), `Invalid x-match field type timestamp (value 5); expected longstr`},
	{frames.Decimal{Scale: 2, Value: 100}, `Invalid x-match field type decimal (value {2,100}); expected longstr`},
	{arr{}, `Invalid x-match field type array (value []); expected longstr`},
	{arr{"a", int32(1)}, `Invalid x-match field type array (value [{longstr,<<"a">>},{signedint,1}]); expected longstr`},
	{tab{{Key: "k", Value: "v"}}, `Invalid x-match field type table (value [{<<"k">>,longstr,<<"v">>}]); expected longstr`},
	{tab{{Key: "k", Value: arr{nil}}}, `Invalid x-match field type table (value [{<<"k">>,array,[{void,undefined}]}]); expected longstr`},
	{"a\"b\\c\n", `Invalid x-match field value <<"a\"b\\c\n">>; expected all, any, all-with-x, or any-with-x`},
	{"a\x00", `Invalid x-match field value <<97,0>>; expected all, any, all-with-x, or any-with-x`},
	{"a-mode-of-some-length-that-would-not-fit-a-line-of-eighty-columns-if-it-were-broken-there",
		`Invalid x-match field value <<"a-mode-of-some-length-that-would-not-fit-a-line-of-eighty-columns-if-it-were-broken-there">>; expected all, any, all-with-x, or any-with-x`},
}
