package conformance

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/warrenmq/warren/conformance/wire"
)

// fieldSamples has one field of every type a table may hold, the extreme values among them, keys in bytewise order.
func fieldSamples() []wire.Field {
	fields := []wire.Field{
		{Key: "array", Value: wire.Array{int32(1), "two", true, wire.Array{}, wire.Table{{Key: "in", Value: int64(3)}}}},
		{Key: "bool-false", Value: false}, {Key: "bool-true", Value: true},
		{Key: "bytes", Value: wire.Bytes{0, 0xff, 'x'}}, {Key: "bytes-empty", Value: wire.Bytes{}},
		{Key: "decimal", Value: wire.Decimal{Scale: 2, Value: 314}}, {Key: "decimal-max", Value: wire.Decimal{Scale: 255, Value: math.MaxInt32}},
		{Key: "double", Value: -2.5e300}, {Key: "float", Value: float32(1.5)},
		{Key: "int16", Value: int16(math.MinInt16)}, {Key: "int32", Value: int32(math.MinInt32)}, {Key: "int64", Value: int64(math.MinInt64)},
		{Key: "int64-max", Value: int64(math.MaxInt64)}, {Key: "int8", Value: int8(math.MinInt8)},
		{Key: "string", Value: "text ж"}, {Key: "string-binary", Value: "\xff\x00\xfe"}, {Key: "string-empty", Value: ""},
		{Key: "table", Value: wire.Table{{Key: "z", Value: int32(1)}, {Key: "a", Value: wire.Table{{Key: "deep", Value: wire.Void{}}}}}},
		{Key: "table-empty", Value: wire.Table{}},
		{Key: "timestamp", Value: wire.Timestamp(1700000000)},
		{Key: "uint16", Value: uint16(math.MaxUint16)}, {Key: "uint32", Value: uint32(math.MaxUint32)}, {Key: "uint8", Value: uint8(math.MaxUint8)},
		{Key: "void", Value: wire.Void{}},
	}
	return slices.Clone(fields)
}

// roundTrip publishes with properties and demands them back by get, by delivery, and by return.
func roundTrip(t *T, sent, back wire.Properties) {
	ch := t.Channel()
	ch.Queue(t.Q)
	ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, sent, "body")
	t.exactly(ch.Get(t.Q, true).Properties, back)
	ch.ConsumeNoAck(t.Q, "c")
	ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, sent, "body")
	t.exactly(ch.Delivery().Properties, back)
}

// exactly compares without taking absent for empty.
func (t *T) exactly(got, want wire.Properties) {
	if !reflect.DeepEqual(got, want) {
		t.Equal("properties", got, want)
		t.Fatalf("properties differ in what is empty and what absent:\n got %#v\nwant %#v", got, want)
	}
}

// fullProperties has every property set.
func fullProperties() wire.Properties {
	return wire.Properties{ContentType: new("text/plain"), ContentEncoding: new("gzip"), Headers: ptr(table("h", "v")), DeliveryMode: new(uint8(2)),
		Priority: new(uint8(7)), CorrelationID: new("correlation"), ReplyTo: new("reply"), Expiration: new("600000"), MessageID: new("message"),
		Timestamp: new(wire.Timestamp(1700000000)), Type: new("type"), AppID: new("app"), ClusterID: new("cluster")}
}

func propertyCases() []Case {
	const source = "spec 4.2.6.1, behaviour 6"
	cases := []Case{
		{ID: "properties/all", Title: "all properties come back as they were", Source: source, Class: Core, Run: func(t *T) {
			p := fullProperties()
			p.UserID = &t.User
			roundTrip(t, p, p)
		}},
		{ID: "properties/none", Title: "no property stays none", Source: source, Class: Core, Run: func(t *T) { roundTrip(t, wire.Properties{}, wire.Properties{}) }},
		{ID: "properties/empty-strings", Title: "properties that are there and empty stay so", Source: source, Class: Core, Run: func(t *T) {
			p := wire.Properties{ContentType: new(""), ContentEncoding: new(""), CorrelationID: new(""), ReplyTo: new(""), MessageID: new(""), Type: new(""),
				AppID: new(""), ClusterID: new(""), DeliveryMode: new(uint8(1)), Priority: new(uint8(0)), Timestamp: new(wire.Timestamp(0))}
			roundTrip(t, p, p)
		}},
		{ID: "properties/empty-headers", Title: "an empty headers table stays one", Source: source, Class: Core, Run: func(t *T) {
			p := wire.Properties{Headers: &wire.Table{}}
			roundTrip(t, p, p)
		}},
		{ID: "properties/long-strings", Title: "properties of 255 bytes", Source: source, Class: Core, Run: func(t *T) {
			s := strings.Repeat("p", 255)
			p := wire.Properties{ContentType: &s, ContentEncoding: &s, CorrelationID: &s, ReplyTo: &s, MessageID: &s, Type: &s, AppID: &s, ClusterID: &s}
			roundTrip(t, p, p)
		}},
		{ID: "properties/timestamp-extreme", Title: "timestamps are 64 bits", Source: source, Class: Core, Run: func(t *T) {
			p := wire.Properties{Timestamp: new(wire.Timestamp(math.MaxUint64))}
			roundTrip(t, p, p)
		}},
		{ID: "headers-table/all-types", Title: "headers of every type come back as they were", Source: source, Class: Core, Run: func(t *T) {
			p := wire.Properties{Headers: (*wire.Table)(new(fieldSamples()))}
			roundTrip(t, p, p)
		}},
		{ID: "headers-table/order", Title: "header order: kept under profile 3, sorted under 4", Source: "behaviour 0.18", Class: Extension,
			Difference: "headers-untouched", Run: func(t *T) {
				sent := wire.Properties{Headers: ptr(table("b", int32(1), "a", table("z", "1", "y", "2"), "B", "x"))}
				back := sent
				if t.Four() && !t.Differs() {
					back.Headers = ptr(table("B", "x", "a", table("z", "1", "y", "2"), "b", int32(1)))
				}
				roundTrip(t, sent, back)
			}},
		{ID: "headers-table/letter-L", Title: "letter L: kept under profile 3, l under 4", Source: "behaviour 0.18", Class: Extension,
			Difference: "headers-untouched", Run: func(t *T) {
				sent := wire.Properties{Headers: ptr(table("n", wire.LongLong(-9)))}
				back := sent
				if t.Four() && !t.Differs() {
					back.Headers = ptr(table("n", int64(-9)))
				}
				roundTrip(t, sent, back)
			}},
		{ID: "headers-table/duplicate-keys", Title: "a key that comes twice: kept under profile 3, the first under 4", Source: "behaviour 0.18, 3", Class: Extension,
			Difference: "headers-untouched", Run: func(t *T) {
				sent := wire.Properties{Headers: ptr(table("a", int32(1), "a", int32(2)))}
				back := sent
				if t.Four() && !t.Differs() {
					back.Headers = ptr(table("a", int32(1)))
				}
				roundTrip(t, sent, back)
			}},
		{ID: "headers-table/long-key", Title: "a header key of 255 bytes and a value of 50,000", Source: source, Class: Core, Run: func(t *T) {
			p := wire.Properties{Headers: ptr(table(strings.Repeat("k", 255), strings.Repeat("v", 50000)))}
			roundTrip(t, p, p)
		}},
		{ID: "headers-table/deep", Title: "tables nested a hundred deep", Source: source, Class: Core, Run: func(t *T) {
			deep := table("leaf", int32(1))
			for range 100 {
				deep = table("n", deep)
			}
			p := wire.Properties{Headers: &deep}
			roundTrip(t, p, p)
		}},
		{ID: "headers-table/many", Title: "a thousand headers", Source: source, Class: Core, Run: func(t *T) {
			var many wire.Table
			for i := range 1000 {
				many = append(many, wire.Field{Key: fmt.Sprintf("key-%04d", i), Value: int32(i)})
			}
			p := wire.Properties{Headers: &many}
			roundTrip(t, p, p)
		}},
		{ID: "headers-table/redelivered", Title: "a redelivered message has the same headers", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			p := wire.Properties{Headers: (*wire.Table)(new(fieldSamples()))}
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, p, "body")
			t.exactly(ch.Get(t.Q, false).Properties, p)
			ch.Send(wire.BasicNack{DeliveryTag: 1, Requeue: true})
			g := ch.Get(t.Q, true)
			t.exactly(g.Properties, p)
			t.Equal("redelivered", g.Redelivered, true)
		}},
	}
	return append(append(cases, singleProperties()...), singleFields()...)
}

// singleProperties: one case for each property, alone.
func singleProperties() []Case {
	var cases []Case
	full := reflect.ValueOf(fullProperties())
	for i := range full.NumField() {
		name := full.Type().Field(i).Name
		if name == "UserID" { // must be the login's: publish/own-user-id
			continue
		}
		var p wire.Properties
		reflect.ValueOf(&p).Elem().Field(i).Set(full.Field(i))
		cases = append(cases, Case{ID: "properties/only-" + name, Title: name + " alone comes back alone", Source: "spec 4.2.6.1, behaviour 6", Class: Core,
			Run: func(t *T) { roundTrip(t, p, p) }})
	}
	return cases
}

// singleFields: one case for each field sample, alone.
func singleFields() []Case {
	var cases []Case
	for _, f := range fieldSamples() {
		cases = append(cases, Case{ID: "headers-table/" + f.Key, Title: "a header of type " + f.Key + " comes back as it was", Source: "spec 4.2.5.5, behaviour 6",
			Class: Core, Run: func(t *T) {
				p := wire.Properties{Headers: &wire.Table{f}}
				roundTrip(t, p, p)
			}})
	}
	return cases
}
