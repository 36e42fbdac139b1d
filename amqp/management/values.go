package management

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/warrenmq/warren/frames"
)

// tableJSON is a field table as JSON. The first of several equal keys counts.
func tableJSON(t frames.Table) object {
	o := make(object, len(t))
	for _, f := range t {
		if _, ok := o[f.Key]; !ok {
			o[f.Key] = valueJSON(f.Value)
		}
	}
	return o
}

func valueJSON(v any) any {
	switch v := v.(type) {
	case string:
		return textJSON([]byte(v))
	case []byte:
		return textJSON(v)
	case frames.Table:
		return tableJSON(v)
	case frames.Array:
		all := make([]any, 0, len(v))
		for _, e := range v {
			all = append(all, valueJSON(e))
		}
		return all
	case frames.Decimal:
		return float64(v.Value) / math.Pow10(int(v.Scale))
	}
	return v // numbers, booleans and null are what they are
}

// textJSON: octets that are no text cannot stand in JSON as they are.
func textJSON(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// jsonTable makes a field table of a JSON object, with RabbitMQ's types:
// integers are long, other numbers double, strings long strings. Keys are in
// order, since JSON has none.
func jsonTable(v any) (frames.Table, error) {
	if v == nil {
		return nil, nil
	}
	if a, ok := v.([]any); ok && len(a) == 0 {
		return nil, nil // how an empty object looks to some clients
	}
	o, ok := v.(object)
	if !ok {
		return nil, badRequest([]any{"not_map", v})
	}
	t := make(frames.Table, 0, len(o))
	for _, key := range sortedKeys(o) {
		value, err := jsonValue(o[key])
		if err != nil {
			return nil, err
		}
		t = append(t, frames.Field{Key: key, Value: value})
	}
	return t, nil
}

func jsonValue(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string:
		return v, nil
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, badRequest("not_json")
		}
		return f, nil
	case []any:
		a := make(frames.Array, 0, len(v))
		for _, e := range v {
			value, err := jsonValue(e)
			if err != nil {
				return nil, err
			}
			a = append(a, value)
		}
		return a, nil
	case object:
		return jsonTable(v)
	}
	return nil, fmt.Errorf("a JSON value of type %T", v)
}

// noNulls refuses null within arguments, which RabbitMQ does not take over HTTP.
func noNulls(v any) error {
	if v != nil && holdsNull(v) {
		return errNull
	}
	return nil
}

var errNull = badRequest("null_not_allowed")

// boolean reads a boolean, which may be its word; absent is false.
func boolean(o object, key string) (bool, error) {
	switch v := o[key].(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	case string:
		switch v {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return false, badRequest([]any{"not_boolean", v})
	default:
		return false, badRequest([]any{"not_boolean", v})
	}
}

// integer reads a number, which may be written as a string.
func integer(v any) (int64, bool) {
	n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
	return n, err == nil && v != nil
}

// text reads a string; absent is "".
func text(o object, key string) (string, error) {
	switch v := o[key].(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	default:
		return "", badRequest([]any{"not_string", v})
	}
}

// printedWidth is where RabbitMQ's printer of terms begins to break lists.
const printedWidth = 72

// field is a key of an object and where its value goes.
type field[T any] struct {
	key  string
	into *T
}

// texts reads several strings; the first that is none is the error.
func texts(o object, all []field[string]) (err error) {
	for _, f := range all {
		if *f.into, err = text(o, f.key); err != nil {
			return err
		}
	}
	return nil
}

// booleans reads several booleans; the first that is none is the error.
func booleans(o object, all []field[bool]) (err error) {
	for _, f := range all {
		if *f.into, err = boolean(o, f.key); err != nil {
			return err
		}
	}
	return nil
}

// needs refuses an object that lacks a key, in RabbitMQ's words.
func needs(o object, keys ...string) error {
	var missing []string
	for _, k := range keys {
		if _, ok := o[k]; !ok {
			missing = append(missing, "{key_missing,"+k+"}")
		}
	}
	if missing == nil {
		return nil
	}
	list := "[" + strings.Join(missing, ",") + "]"
	if len(list) > printedWidth {
		list = "[" + strings.Join(missing, ",\n ") + "]"
	}
	return badRequest(list)
}
