package frames

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The contents of a table {k: value}, by RabbitMQ's own encoder; L, which that never sends, by hand.
var tableGoldens = []struct {
	value    any
	typeName string
	hex      string
}{
	{true, "bool", "016b7401"},
	{false, "bool", "016b7400"},
	{int8(-2), "byte", "016b62fe"},
	{uint8(254), "unsignedbyte", "016b42fe"},
	{int16(-2), "short", "016b73fffe"},
	{uint16(65534), "unsignedshort", "016b75fffe"},
	{int32(-2), "signedint", "016b49fffffffe"},
	{uint32(4294967294), "unsignedint", "016b69fffffffe"},
	{int64(-2), "long", "016b6cfffffffffffffffe"},
	{LongLong(-2), "long", "016b4cfffffffffffffffe"},
	{float32(1.5), "float", "016b663fc00000"},
	{-0.1, "double", "016b64bfb999999999999a"},
	{Decimal{Scale: 2, Value: 12345}, "decimal", "016b440200003039"},
	{"str\xff", "longstr", "016b5300000004737472ff"},
	{[]byte{0, 1}, "binary", "016b78000000020001"},
	{Timestamp(1700000000), "timestamp", "016b54000000006553f100"},
	{Table{{"n", true}}, "table", "016b4600000004016e7401"},
	{Table(nil), "table", "016b4600000000"},
	{Array{"a", int32(1), Array{}, Table(nil)}, "array", "016b4100000015530000000161490000000141000000004600000000"},
	{nil, "void", "016b56"},
}

func TestGoldenTables(t *testing.T) {
	for _, c := range tableGoldens {
		want, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		table := Table{{"k", c.value}}
		if got := table.AppendContents(nil); string(got) != string(want) {
			t.Errorf("%T %v encodes %x, want %s", c.value, c.value, got, c.hex)
		}
		got, err := ParseTable(want)
		if diff := cmp.Diff(table, got); diff != "" || err != nil {
			t.Errorf("%s decodes with %v (-want +got):\n%s", c.hex, err, diff)
		}
		raw, ok := RawTable(want).Lookup("k")
		if !ok || raw.Type != want[2] || !cmp.Equal(raw.Decode(), c.value) {
			t.Errorf("%s: Lookup gives %c %x", c.hex, raw.Type, raw.Data)
		}
		if got := TypeName(c.value); got != c.typeName {
			t.Errorf("TypeName(%T) = %q, want %q", c.value, got, c.typeName)
		}
		for n := 1; n < len(want); n++ {
			if _, err := ParseTable(want[:n]); err != ErrMalformedTable {
				t.Errorf("%x: %v, want ErrMalformedTable", want[:n], err)
			}
		}
	}
	if got := TypeName(struct{}{}); got != "unknown" {
		t.Errorf("TypeName of a foreign type = %q", got)
	}
}

func TestTableBooleans(t *testing.T) {
	got, err := ParseTable([]byte("\x01kt\x02"))
	if diff := cmp.Diff(Table{{"k", true}}, got); diff != "" || err != nil {
		t.Errorf("any octet but 0 is true: %v\n%s", err, diff)
	}
}

func TestMalformedTables(t *testing.T) {
	cases := map[string]string{
		"unknown letter":              "\x01kZ",
		"letter of the PDF only":      "\x01kU\x00\x00",
		"key without a value":         "\x01k",
		"string past the end":         "\x01kS\x00\x00\x00\x02a",
		"longest string past the end": "\x01kS\xff\xff\xff\xffa",
		"nested table past the end":   "\x01kF\x00\x00\x00\x09\x01nt\x01",
		"unknown letter, nested":      "\x01kF\x00\x00\x00\x03\x01nZ",
		"unknown letter in an array":  "\x01kA\x00\x00\x00\x01Z",
		"infinite double":             "\x01kd\x7f\xf0\x00\x00\x00\x00\x00\x00",
		"double not a number":         "\x01kd\x7f\xf8\x00\x00\x00\x00\x00\x00",
		"infinite float":              "\x01kf\xff\x80\x00\x00",
	}
	for name, contents := range cases {
		if _, err := ParseTable([]byte(contents)); err != ErrMalformedTable {
			t.Errorf("%s: ParseTable says %v", name, err)
		}
		whole := appendLongstr(nil, contents)
		if _, err := SkipTable(whole); err != ErrMalformedTable {
			t.Errorf("%s: SkipTable says %v", name, err)
		}
		if _, _, err := ReadTable(whole); err != ErrMalformedTable {
			t.Errorf("%s: ReadTable says %v", name, err)
		}
		// Iteration over unchecked bytes ends; it must not panic.
		for it := RawTable(contents).Iter(); it.Next(); {
			_ = it.Value().Decode()
		}
	}
	for _, b := range []string{"", "\x00\x00\x00", "\x00\x00\x00\x01"} {
		if _, err := SkipTable([]byte(b)); err != ErrMalformedTable {
			t.Errorf("SkipTable(%q): %v", b, err)
		}
		if _, _, err := ReadTable([]byte(b)); err != ErrMalformedTable {
			t.Errorf("ReadTable(%q): %v", b, err)
		}
	}
}

// nest makes an array or table that holds itself levels times.
func nest(levels int, letter byte) []byte {
	key := ""
	if letter == 'F' {
		key = "\x00"
	}
	level := len(key) + 5
	var b []byte
	for inner := levels - 1; inner >= 0; inner-- {
		b = append(append(b, key...), letter)
		b = binary.BigEndian.AppendUint32(b, uint32(inner*level))
	}
	return b
}

func TestTableDepth(t *testing.T) {
	deepest := nest(MaxTableDepth-1, 'F')
	table, err := ParseTable(deepest)
	if err != nil {
		t.Fatalf("a table with %d levels: %v", MaxTableDepth, err)
	}
	if string(table.AppendContents(nil)) != string(deepest) {
		t.Error("the deepest table encodes otherwise")
	}
	if _, err := ParseTable(nest(MaxTableDepth, 'F')); err != ErrMalformedTable {
		t.Errorf("one level more: %v", err)
	}
	inArray := append([]byte("\x01k"), nest(MaxTableDepth-1, 'A')...)
	if _, err := ParseTable(inArray); err != nil {
		t.Errorf("arrays with %d levels: %v", MaxTableDepth, err)
	}
	inArray = append([]byte("\x01k"), nest(MaxTableDepth, 'A')...)
	if _, err := ParseTable(inArray); err != ErrMalformedTable {
		t.Errorf("one array more: %v", err)
	}
	if _, err := ParseTable(nest(1<<20, 'F')); err != ErrMalformedTable {
		t.Errorf("a million levels: %v", err)
	}
}

func TestTableLookup(t *testing.T) {
	table := Table{{"a", int32(1)}, {"a", int32(2)}, {"", "empty key"}, {"list", Array{"x", true}}}
	raw := RawTable(table.AppendContents(nil))
	for key, want := range map[string]any{"a": int32(1), "": "empty key"} {
		if v, ok := table.Get(key); !ok || v != want {
			t.Errorf("Get(%q) = %v %t", key, v, ok)
		}
		if v, ok := raw.Lookup(key); !ok || v.Decode() != want {
			t.Errorf("Lookup(%q) = %v %t", key, v, ok)
		}
	}
	if _, ok := table.Get("b"); ok {
		t.Error("Get finds a key that is not there")
	}
	if _, ok := raw.Lookup("b"); ok {
		t.Error("Lookup finds a key that is not there")
	}
	var keys []string
	for it := raw.Iter(); it.Next(); {
		keys = append(keys, string(it.Key()))
	}
	if diff := cmp.Diff([]string{"a", "a", "", "list"}, keys); diff != "" {
		t.Errorf("keys in order (-want +got):\n%s", diff)
	}
	list, _ := raw.Lookup("list")
	var items Array
	for it := list.ArrayIter(); it.Next(); {
		items = append(items, it.Value().Decode())
	}
	if diff := cmp.Diff(Array{"x", true}, items); diff != "" {
		t.Errorf("array items (-want +got):\n%s", diff)
	}
	number, _ := raw.Lookup("a")
	if it := number.ArrayIter(); it.Next() {
		t.Error("a number has array elements")
	}
}

func TestTableLongKeyIsCut(t *testing.T) {
	long := strings.Repeat("k", 300)
	got, err := ParseTable(Table{{long, true}, {"after", true}}.AppendContents(nil))
	if diff := cmp.Diff(Table{{long[:255], true}, {"after", true}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestTableForeignTypePanics(t *testing.T) {
	defer func() {
		if r := recover(); r != "frames: int is not a field table value" {
			t.Errorf("recovered %v", r)
		}
	}()
	Table{{"k", 1}}.Append(nil)
}

// genTable draws tables of all value types, nested up to depth.
func genTable(depth int) *rapid.Generator[Table] {
	return rapid.Custom(func(t *rapid.T) Table {
		var table Table
		for range rapid.IntRange(0, 4).Draw(t, "fields") {
			key := string(rapid.SliceOfN(rapid.Byte(), 0, 255).Draw(t, "key"))
			table = append(table, Field{Key: key, Value: genValue(depth).Draw(t, "value")})
		}
		return table
	})
}

func genValue(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Bool().AsAny(), rapid.Int8().AsAny(), rapid.Uint8().AsAny(), rapid.Int16().AsAny(),
		rapid.Uint16().AsAny(), rapid.Int32().AsAny(), rapid.Uint32().AsAny(), rapid.Int64().AsAny(),
		rapid.Map(rapid.Int64(), func(n int64) LongLong { return LongLong(n) }).AsAny(),
		rapid.Float32Range(-3.4e38, 3.4e38).AsAny(), rapid.Float64Range(-1.7e308, 1.7e308).AsAny(),
		rapid.Map(rapid.Uint64(), func(n uint64) Timestamp { return Timestamp(n) }).AsAny(),
		rapid.Map(rapid.Uint32(), func(n uint32) Decimal { return Decimal{Scale: uint8(n % 7), Value: n} }).AsAny(),
		rapid.String().AsAny(), rapid.SliceOf(rapid.Byte()).AsAny(), rapid.Just[any](nil),
	}
	if depth > 0 {
		array := rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return genValue(depth - 1) }), 0, 3),
			func(s []any) Array { return append(Array{}, s...) })
		kinds = append(kinds, genTable(depth-1).AsAny(), array.AsAny())
	}
	return rapid.OneOf(kinds...)
}

func TestTableRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := genTable(3).Draw(t, "table")
		b := append(table.Append(nil), "rest"...)
		got, rest, err := ReadTable(b)
		if err != nil || string(rest) != "rest" {
			t.Fatalf("ReadTable: rest %q, %v", rest, err)
		}
		if diff := cmp.Diff(table, got); diff != "" {
			t.Fatalf("decoded otherwise (-want +got):\n%s", diff)
		}
		if rest, err := SkipTable(b); err != nil || string(rest) != "rest" {
			t.Fatalf("SkipTable: rest %q, %v", rest, err)
		}
		for _, f := range table {
			want, _ := table.Get(f.Key)
			if v, ok := RawTable(b[4 : len(b)-4]).Lookup(f.Key); !ok || !cmp.Equal(v.Decode(), want) {
				t.Fatalf("Lookup(%q) = %v %t, want %v", f.Key, v, ok, want)
			}
		}
		for cut := range min(len(b)-4, 64) {
			if _, err := SkipTable(b[:cut]); !errors.Is(err, ErrMalformedTable) {
				t.Fatalf("the first %d of %d bytes pass: %v", cut, len(b)-4, err)
			}
		}
	})
}
