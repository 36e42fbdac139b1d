package broker

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// values draws a value of any type a table can hold, with the words that mean something to some argument
// often among them.
func values() *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Map(rapid.Int8(), func(v int8) any { return v }), rapid.Map(rapid.Uint8(), func(v uint8) any { return v }),
		rapid.Map(rapid.Int16(), func(v int16) any { return v }), rapid.Map(rapid.Uint16(), func(v uint16) any { return v }),
		rapid.Map(rapid.Int32(), func(v int32) any { return v }), rapid.Map(rapid.Uint32(), func(v uint32) any { return v }),
		rapid.Map(rapid.Int64(), func(v int64) any { return v }), rapid.Map(rapid.Int64(), func(v int64) any { return frames.LongLong(v) }),
		rapid.Map(rapid.Uint64(), func(v uint64) any { return frames.Timestamp(v) }), rapid.Map(rapid.Bool(), func(v bool) any { return v }),
		rapid.Map(rapid.Float32(), func(v float32) any { return v }), rapid.Map(rapid.Float64(), func(v float64) any { return v }),
		rapid.Map(rapid.Uint32(), func(v uint32) any { return frames.Decimal{Scale: 1, Value: v} }),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(v []byte) any { return v }),
		rapid.Map(rapid.SampledFrom([]string{"", "quorum", "stream", "classic", "lazy", "1h", "x"}), func(v string) any { return v }),
		rapid.Map(rapid.String(), func(v string) any { return v }), rapid.Just[any](nil))
	nested := rapid.OneOf(
		rapid.Map(rapid.SliceOfN(leaf, 0, 3), func(v []any) any { return frames.Array(v) }),
		rapid.Map(rapid.SliceOfN(leaf, 0, 3), func(v []any) any {
			var t frames.Table
			for _, e := range v {
				t = append(t, frames.Field{Key: "k", Value: e})
			}
			return t
		}))
	return rapid.OneOf(leaf, leaf, nested)
}

// argumentNames are all the names that some check looks at.
func argumentNames() []string {
	names := []string{"foo", argAlternateExchange}
	for _, row := range queueTypes {
		for _, list := range [][]knownArgument{row.queue, row.consumer} {
			for _, a := range list {
				names = append(names, a.name)
			}
		}
	}
	return names
}

// tables draws argument tables, sane and not.
func tables() *rapid.Generator[frames.Table] {
	field := rapid.Custom(func(t *rapid.T) frames.Field {
		return frames.Field{Key: rapid.SampledFrom(argumentNames()).Draw(t, "key"), Value: values().Draw(t, "value")}
	})
	return rapid.Map(rapid.SliceOfN(field, 0, 6), func(fields []frames.Field) frames.Table { return fields })
}

// TestAnyArguments: whatever is in the tables, every function answers, in the scope of its code, and a queue
// is equivalent to itself.
func TestAnyArguments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]compat.Profile{compat.V3, compat.V4}).Draw(t, "profile")
		a, b := tables().Draw(t, "a"), tables().Draw(t, "b")
		queueType := rapid.SampledFrom(queueTypes).Draw(t, "type").name
		_, _, dlxErr := deadLetterExchange("/", "q", a)
		_, _, aeErr := alternateExchange("/", "q", a)
		_, consumeErr := checkConsumeArguments(p, "/", "q", queueType, a)
		spec, declareErr := checkQueueArguments(p, "/", "q", true, false, false, a)
		for _, err := range []*frames.Error{dlxErr, aeErr, consumeErr, declareErr, serverNameAllowed(p, a),
			equivalentQueueArguments(p, "/", "q", a, b), equivalentExchangeArguments("/", "q", a, b)} {
			if err != nil && (err.Scope == frames.ScopeChannel) != (err.Code == frames.PreconditionFailed) {
				t.Fatalf("code %d has scope %d", err.Code, err.Scope)
			}
		}
		if declareErr != nil {
			return
		}
		if _, ok := findQueueType(spec.Type); !ok {
			t.Fatalf("type %q", spec.Type)
		}
		if err := equivalentQueueArguments(p, "/", "q", spec.Arguments, a); err != nil {
			t.Fatalf("not equivalent to itself: %v", err)
		}
	})
}
