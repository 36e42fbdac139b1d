package selector

import (
	"errors"
	"strings"
	"testing"

	"github.com/warrenmq/warren/frames"
)

// message makes the properties of a message.
func message(t testing.TB, v frames.PropertyValues) frames.Properties {
	t.Helper()
	p, err := frames.ParseProperties(v.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func match(t testing.TB, text string, p frames.Properties) bool {
	t.Helper()
	s, err := Compile(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var v View
	v.Reset(p)
	return s.Match(&v)
}

// sample has a header of every type, and all properties.
var sample = frames.PropertyValues{
	Flags: 0xfffc, ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 7, CorrelationID: "c-1", ReplyTo: "answers",
	Expiration: "1000", MessageID: "m-1", Timestamp: 1700000000, Type: "order", UserID: "guest", AppID: "shop", ClusterID: "k",
	Headers: frames.Table{
		{Key: "color", Value: "red"}, {Key: "Weight", Value: int32(2500)}, {Key: "price", Value: 9.75}, {Key: "single", Value: float32(0.5)},
		{Key: "urgent", Value: true}, {Key: "late", Value: false}, {Key: "void", Value: nil}, {Key: "bytes", Value: []byte("red")},
		{Key: "list", Value: frames.Array{"red"}}, {Key: "table", Value: frames.Table{}}, {Key: "int8", Value: int8(-1)}, {Key: "uint8", Value: uint8(255)},
		{Key: "int16", Value: int16(-2)}, {Key: "uint16", Value: uint16(65535)}, {Key: "uint32", Value: uint32(1 << 31)}, {Key: "int64", Value: int64(1 << 62)},
		{Key: "long", Value: frames.LongLong(-5)}, {Key: "stamp", Value: frames.Timestamp(1 << 40)}, {Key: "far", Value: frames.Timestamp(1 << 63)},
		{Key: "decimal", Value: frames.Decimal{Scale: 2, Value: 314}}, {Key: "whole", Value: frames.Decimal{Value: 3}},
		{Key: "min", Value: int64(-1 << 63)}, {Key: "x-retry", Value: int32(3)}, {Key: "twice", Value: "first"}, {Key: "twice", Value: "second"},
		{Key: "phone", Value: "12993"}, {Key: "word", Value: "lose"}, {Key: "under", Value: "_foo"}, {Key: "city", Value: "Zürich"}, {Key: "empty", Value: ""},
		{Key: "select", Value: "x"}, {Key: "AND", Value: "keyword"}, {Key: "a.b", Value: int32(1)}, {Key: "quote", Value: "it's"},
	},
}

// TestMatch goes through JMS 1.1 section 3.8.1, point by point.
func TestMatch(t *testing.T) {
	for _, c := range []struct {
		group string
		yes   []string
		no    []string
	}{
		{"empty", []string{"", "  \t\r\n\f"}, nil},
		{"string literals", []string{"color = 'red'", "quote = 'it''s'", "empty = ''", "color <> 'blue'"}, []string{"color = 'Red'", "color <> 'red'", "color = 'blue'"}},
		{"exact numbers", []string{"Weight = 2500", "Weight = +2500", "Weight = 2500L", "Weight = 0x9C4", "Weight = 04704", "int8 = -1", "min = -9223372036854775808", "whole = 3", "uint8 = 255"}, []string{"Weight = 2501", "Weight = 0x9c5"}},
		{"approximate numbers", []string{"price = 9.75", "price = 975E-2", "price = 9.75d", "price > 9.", "single = .5", "single = 0.5f", "decimal = 3.14", "Weight = 2.5e3", "single = 5E-1", "Weight = 2500d"}, []string{"price = 9.76"}},
		{"booleans", []string{"urgent", "urgent = TRUE", "late = false", "NOT late", "urgent <> FALSE", "TRUE", "urgent = (Weight > 1)"}, []string{"late", "FALSE", "NOT urgent", "urgent = FALSE", "urgent <> urgent"}},
		{"names", []string{"color='red'AND Weight=2500", `"x-retry" = 3`, `"AND" = 'keyword'`, "a.b = 1", "twice = 'first'", "select = 'x'", `"color" = 'red'`}, []string{"COLOR = 'red'", "weight = 2500", "twice = 'second'", `"JMSPriority" = 7`}},
		{"keywords in any case", []string{"color = 'red' and not (Weight bEtWeEn 1 aNd 2) Or false", "nope is null", "color like 'r%'", "color in ('red')"}, nil},
		{"JMS names", []string{"JMSPriority = 7", "JMSDeliveryMode = 'PERSISTENT'", "JMSMessageID = 'm-1'", "JMSCorrelationID LIKE 'c-%'", "JMSTimestamp = 1700000000000", "JMSType = 'order'", "JMSXUserID = 'guest'", "JMSXAppID = 'shop'", "JMSXGroupID IS NULL", "JMS_vendor IS NULL"}, []string{"JMSPriority < 7", "JMSDeliveryMode = 'NON_PERSISTENT'"}},
		{"AMQP names", []string{"properties.content_type = 'text/plain'", "properties.content_encoding = 'gzip'", "properties.delivery_mode = 2", "properties.priority = 7", "properties.correlation_id = 'c-1'", "properties.reply_to = 'answers'", "properties.expiration = '1000'", "properties.message_id = 'm-1'", "properties.timestamp = 1700000000", "properties.type = 'order'", "properties.user_id = 'guest'", "properties.app_id = 'shop'", "properties.cluster_id = 'k'"}, nil},
		{"header types", []string{"int16 = -2", "uint16 = 65535", "uint32 = 2147483648", "int64 = 4611686018427387904", "long = -5", "stamp = 1099511627776", "far > 9e18"}, []string{"far < 0"}},
		{"types that selectors do not know", []string{"bytes IS NOT NULL", "list IS NOT NULL", "table IS NOT NULL", "NOT (bytes = 'red')"}, []string{"bytes = 'red'", "bytes <> 'red'", "list = 'red'", "bytes = bytes", "bytes IN ('red')", "bytes LIKE '%'", "bytes + 1 = 1"}},
		{"precedence", []string{"1 + 2 * 3 = 7", "(1 + 2) * 3 = 9", "8 - 4 - 2 = 2", "16 / 4 / 2 = 2", "-2 * -3 = 6", "FALSE AND FALSE OR TRUE", "TRUE OR TRUE AND FALSE", "NOT FALSE AND TRUE", "NOT (TRUE AND FALSE)", "- - 2 = 2", "+-+2 = -2", "NOT NOT TRUE", "NOT Weight = 1"}, []string{"FALSE AND (FALSE OR TRUE)", "NOT FALSE AND FALSE"}},
		{"arithmetic", []string{"Weight * 2 = 5000", "Weight - 500.5 = 1999.5", "7 / 2 = 3", "-7 / 2 = -3", "7 / 2.0 = 3.5", "-Weight = -2500", "9223372036854775807 + 1 = min", "1 / 0.0 > 1e308", "Weight = 2000 + 500", "-min = min", "-price = -9.75"}, []string{"1 / 0 = 0", "1 / 0 <> 0"}},
		{"comparison of unlike types is false", []string{"NOT (color = 1)", "NOT (color <> 1)", "urgent = urgent"}, []string{"color = 1", "color <> 1", "color > 1", "urgent = 1", "color > word", "urgent < urgent", "Weight = '2500'", "color BETWEEN 1 AND 2"}},
		{"comparison", []string{"Weight > 2499", "Weight >= 2500", "Weight < 2501", "Weight <= 2500", "Weight < 2500.5", "price > single", "price >= 9.75", "price <= 9.75", "price < 10", "single <> price"}, []string{"Weight > 2500", "Weight < 2500", "price > 9.75", "price < 9.75"}},
		{"BETWEEN", []string{"Weight BETWEEN 2500 AND 2501", "Weight BETWEEN 2499 AND 2500", "Weight NOT BETWEEN 1 AND 2", "Weight + 1 BETWEEN 2 * 1250 AND 2501"}, []string{"Weight BETWEEN 2501 AND 2499", "Weight NOT BETWEEN 2500 AND 2500", "Weight BETWEEN nope AND 1", "nope BETWEEN 1 AND 2", "nope NOT BETWEEN 1 AND 2"}},
		{"BETWEEN with one end unknown", []string{"Weight NOT BETWEEN nope AND 1", "Weight NOT BETWEEN 9999 AND nope"}, []string{"Weight BETWEEN nope AND 9999", "Weight NOT BETWEEN nope AND 9999", "Weight NOT BETWEEN 1 AND nope"}},
		{"IN", []string{"color IN ('blue', 'red')", "color NOT IN ('blue')", "Weight NOT IN ('2500')", "JMSType IN ('order')"}, []string{"color IN ('blue','green')", "color NOT IN ('red')", "nope IN ('red')", "nope NOT IN ('red')", "Weight IN ('2500')"}},
		{"LIKE", []string{"phone LIKE '12%3'", "word LIKE 'l_se'", `under LIKE '\_%' ESCAPE '\'`, "phone NOT LIKE '13%3'", "word LIKE '%'", "word LIKE '%o%e'", "city LIKE 'Z_rich'", "city LIKE '%_ich'", "empty LIKE '%'", "empty LIKE ''", "word LIKE '____'", "word LIKE '%os_'", "word LIKE '%_s%'", "Weight NOT LIKE '%'", "quote LIKE '%''s'"},
			[]string{"phone LIKE '12%4'", "word LIKE 'l__se'", `word LIKE '\_%' ESCAPE '\'`, "nope LIKE '%'", "nope NOT LIKE '%'", "Weight LIKE '%'", "empty LIKE '_'", "word LIKE 'los'", "word LIKE 'ose'", "word LIKE '%ll%'", "word LIKE '_____'"}},
		{"IS NULL", []string{"nope IS NULL", "void IS NULL", "color IS NOT NULL", "empty IS NOT NULL"}, []string{"nope IS NOT NULL", "color IS NULL"}},
		{"three values", []string{"nope = 1 OR TRUE", "NOT (nope = 1 AND FALSE)", "(nope = 1) IS NULL OR TRUE"}[:2], []string{"nope = 1", "NOT (nope = 1)", "nope = 1 AND TRUE", "nope = 1 OR FALSE", "nope", "NOT nope", "nope + 1 = 1", "-nope = 1", "nope = nope", "nope <> 1", "color", "NOT color", "NOT (nope = 1 OR FALSE)", "color AND TRUE"}},
	} {
		p := message(t, sample)
		for _, text := range c.yes {
			if !match(t, text, p) {
				t.Errorf("%s: %s does not match", c.group, text)
			}
		}
		for _, text := range c.no {
			if match(t, text, p) {
				t.Errorf("%s: %s matches", c.group, text)
			}
		}
	}
}

// TestAbsentProperties: a message without properties has a delivery mode and a priority all the same.
func TestAbsentProperties(t *testing.T) {
	for text, want := range map[string]bool{
		"JMSDeliveryMode = 'NON_PERSISTENT'": true, "JMSPriority = 0": true, "JMSTimestamp IS NULL": true, "JMSType IS NULL": true,
		"properties.priority IS NULL": true, "properties.delivery_mode IS NULL": true, "properties.timestamp IS NULL": true, "color IS NULL": true,
		"JMSPriority IS NULL": false, "JMSMessageID = ''": false,
	} {
		if got := match(t, text, frames.Properties{}); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestErrors has the place of each fault, in characters.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		text     string
		position int
		reason   string
	}{
		{"color =", 8, "expected a name or a value, found the end"},
		{"= 'red'", 1, "expected a name or a value, found ="},
		{"color", 0, ""},
		{"5", 1, "expected a condition, found a number"},
		{"'a'", 1, "expected a condition, found a string"},
		{"a + 1", 1, "expected a condition, found a number"},
		{"a = 1 AND 5", 11, "expected a condition, found a number"},
		{"a = 1 OR b + 1", 10, "expected a condition, found a number"},
		{"JMSType", 1, "expected a condition, found a string"},
		{"NOT 'a'", 5, "expected a condition, found a string"},
		{"a = 1 b", 7, "unexpected name b"},
		{"a = 1 = 1", 7, "unexpected ="},
		{"(a = 1", 7, "expected ), found the end"},
		{"a = 1)", 6, "unexpected )"},
		{"a = 'x", 5, "no closing '"},
		{`"x = 1`, 1, `no closing "`},
		{`"" = 1`, 1, "a name in quotes is empty"},
		{"ü = 'ü' ; a", 9, "unexpected character ';'"},
		{"a > 'x'", 5, "expected a number, found a string"},
		{"'x' < a", 1, "expected a number, found a string"},
		{"a >= TRUE", 6, "expected a number, found a condition"},
		{"1 = 'x'", 5, "expected a number, found a string"},
		{"'x' = 1.5", 7, "expected a string, found a number"},
		{"TRUE = 1", 8, "expected a condition, found a number"},
		{"JMSPriority = 'high'", 15, "expected a number, found a string"},
		{"a + 'x' = 1", 5, "expected a number, found a string"},
		{"'x' + a = 1", 1, "expected a number, found a string"},
		{"-'x' = 1", 2, "expected a number, found a string"},
		{"a BETWEEN 1", 12, "expected AND, found the end"},
		{"a BETWEEN 'a' AND 'b'", 11, "expected a number, found a string"},
		{"'a' BETWEEN 1 AND 2", 1, "expected a number, found a string"},
		{"a IN 'x'", 6, "expected (, found a string"},
		{"a IN ()", 7, "expected a string, found )"},
		{"a IN (1)", 7, "expected a string, found a number"},
		{"a IN ('x' 'y')", 11, "expected ), found a string"},
		{"'x' IN ('x')", 1, "IN wants a name before it"},
		{"JMSPriority IN ('x')", 1, "expected a string, found a number"},
		{"a + 1 LIKE 'x'", 1, "LIKE wants a name before it"},
		{"JMSPriority LIKE '1'", 1, "expected a string, found a number"},
		{"a LIKE b", 8, "expected a string, found name b"},
		{"a LIKE 'x' ESCAPE 'ab'", 19, "ESCAPE wants one character"},
		{"a LIKE 'x' ESCAPE ''", 19, "ESCAPE wants one character"},
		{"a LIKE '%!' ESCAPE '!'", 8, "the escape character stands at the end of the pattern"},
		{"a LIKE '!x' ESCAPE '!'", 8, "the escape character stands before a character that needs none"},
		{"1 IS NULL", 1, "IS wants a name before it"},
		{"a IS 1", 6, "expected NULL, found a number"},
		{"a NOT 1", 7, "expected BETWEEN, IN or LIKE, found a number"},
		{"NULL = a", 1, "expected a name or a value, found NULL"},
		{"a = NULL", 5, "expected a name or a value, found NULL"},
		{"9223372036854775808 = a", 1, "number is too large"},
		{"99999999999999999999 = a", 1, "99999999999999999999 is not a number, or one that is too large"},
		{"a = 1e999", 5, "1e999 is not a number, or one that is too large"},
		{"a = 08", 5, "08 is not a number, or one that is too large"},
		{"a = 0x", 5, "0x is not a number, or one that is too large"},
		{"a = 1_0", 5, "1_0 is not a number, or one that is too large"},
		{"a = 1.5fd", 5, "1.5fd is not a number, or one that is too large"},
		{"a = 5b", 5, "5b is not a number, or one that is too large"},
		{"JMSReplyTo = 'x'", 1, "JMSReplyTo cannot be in a selector"},
		{"a = 1 OR JMSDestination IS NULL", 10, "JMSDestination cannot be in a selector"},
		{"properties.body = 'x'", 1, "AMQP has no property body"},
		{"a = \xff", 1, "the selector is not UTF-8"},
	} {
		_, err := Compile(c.text)
		if c.position == 0 {
			if err != nil {
				t.Errorf("%s: %v", c.text, err)
			}
			continue
		}
		var got *Error
		if !errors.As(err, &got) || got.Position != c.position || got.Reason != c.reason {
			t.Errorf("%q: %v, want position %d: %s", c.text, err, c.position, c.reason)
		}
	}
}

// TestLimits reaches each limit from both sides.
func TestLimits(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("(", n) + "TRUE" + strings.Repeat(")", n) }
	terms := func(n int) string { return "a = 1" + strings.Repeat(" OR a", n-2) }
	listed := func(n int) string { return "a IN ('x'" + strings.Repeat(",''", n-2) + ")" }
	liked := func(n int) string { return "a LIKE '" + strings.Repeat("ü", n) + "'" }
	long := func(n int) string { return "TRUE" + strings.Repeat(" ", n-4) }
	for name, c := range map[string]struct {
		make func(int) string
		most int
	}{
		"parentheses": {nested, MaxDepth},
		"NOT":         {func(n int) string { return strings.Repeat("NOT ", n) + "TRUE" }, MaxDepth},
		"signs":       {func(n int) string { return strings.Repeat("-", n) + "a = 1" }, MaxDepth},
		"terms":       {terms, MaxTerms},
		"list":        {listed, MaxTerms},
		"pattern":     {liked, MaxPattern},
		"length":      {long, MaxLength},
	} {
		if _, err := Compile(c.make(c.most)); err != nil {
			t.Errorf("%s: %d: %v", name, c.most, err)
		}
		if _, err := Compile(c.make(c.most + 1)); err == nil {
			t.Errorf("%s: %d are taken", name, c.most+1)
		}
	}
}

// TestMatchAllocatesNothing: a view that has seen as many headers needs no more memory.
func TestMatchAllocatesNothing(t *testing.T) {
	s, err := Compile("color LIKE '%e_' AND Weight * 2 > 1 AND JMSType IN ('order') AND nope IS NULL AND JMSDeliveryMode = 'PERSISTENT'")
	if err != nil {
		t.Fatal(err)
	}
	p := message(t, sample)
	var v View
	if n := testing.AllocsPerRun(100, func() {
		v.Reset(p)
		if !s.Match(&v) {
			t.Error("no match")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestViewLetsGo: a view of the next message knows nothing of the one before, and memory of a huge one is given back.
func TestViewLetsGo(t *testing.T) {
	var big frames.Table
	for range keptFields + 1 {
		big = append(big, frames.Field{Key: "a", Value: true})
	}
	s, err := Compile("a")
	if err != nil {
		t.Fatal(err)
	}
	var v View
	v.Reset(message(t, frames.PropertyValues{Flags: frames.FlagHeaders, Headers: big}))
	if !s.Match(&v) {
		t.Error("a is not seen")
	}
	v.Reset(frames.Properties{})
	if s.Match(&v) || cap(v.headers) > keptFields {
		t.Errorf("a is still there, or room for %d headers", cap(v.headers))
	}
}
