package store

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/warrenmq/warren/frames"
)

// fields is a field table: its fields in order, keys that repeat included.
type fields []field

// field is a key and a value with the letter of its type on the wire: see
// frames.Table.
type field struct {
	Key text `json:"key"`
	typed
}

// typed is a value with its letter. JSON has it as a text (S), base64 (x), a
// number (integers; f and d, if finite), true or false (t), a list (A of values,
// F of fields), an object (D), or not at all (V).
type typed struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value,omitempty"`
}

// decimal is the value of letter D.
type decimal struct {
	Scale uint8  `json:"scale"`
	Value uint32 `json:"value"`
}

// fromTable describes a table.
func fromTable(t frames.Table) (fields, error) {
	all := make(fields, 0, len(t))
	for _, f := range t {
		v, err := fromValue(f.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, field{text(f.Key), v})
	}
	return all, nil
}

func fromValue(value any) (typed, error) {
	letter, shown := shape(value)
	if letter == "" {
		return typed{}, fmt.Errorf("a field of type %T", value)
	}
	if letter == "V" {
		return typed{Type: letter}, nil
	}
	var err error
	switch v := shown.(type) {
	case frames.Table:
		shown, err = fromTable(v)
	case frames.Array:
		list := make([]typed, len(v))
		for i := range v {
			if list[i], err = fromValue(v[i]); err != nil {
				return typed{}, err
			}
		}
		shown = list
	}
	if err != nil {
		return typed{}, err
	}
	b, err := json.Marshal(shown)
	return typed{letter, b}, err
}

// shape gives a value's letter and what is shown of it.
func shape(value any) (letter string, shown any) {
	switch v := value.(type) {
	case nil:
		return "V", nil
	case bool:
		return "t", v
	case int8:
		return "b", v
	case uint8:
		return "B", v
	case int16:
		return "s", v
	case uint16:
		return "u", v
	case int32:
		return "I", v
	case uint32:
		return "i", v
	case int64:
		return "l", v
	case frames.LongLong:
		return "L", v
	case float32:
		return "f", json.RawMessage(strconv.FormatFloat(float64(v), 'g', -1, 32))
	case float64:
		return "d", json.RawMessage(strconv.FormatFloat(v, 'g', -1, 64))
	case frames.Decimal:
		return "D", decimal(v)
	case string:
		return "S", text(v)
	case []byte:
		return "x", v
	case frames.Timestamp:
		return "T", v
	case frames.Table:
		return "F", v
	case frames.Array:
		return "A", v
	}
	return "", nil
}

// table is the inverse of fromTable.
func (all fields) table() (frames.Table, error) {
	t := make(frames.Table, 0, len(all))
	for _, f := range all {
		if len(f.Key) > 255 {
			return nil, fmt.Errorf("field key of %d bytes: at most 255 are possible", len(f.Key))
		}
		v, err := f.value()
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Key, err)
		}
		t = append(t, frames.Field{Key: string(f.Key), Value: v})
	}
	return t, nil
}

// as reads a value's JSON as an M.
func as[M any](b json.RawMessage) (any, error) {
	var v *M
	if err := strict(b, &v); err != nil {
		return nil, err
	}
	if v == nil {
		return nil, fmt.Errorf("no value")
	}
	return *v, nil
}

// readers are the inverse of shape, for values that hold no others.
var readers = map[string]func(json.RawMessage) (any, error){
	"t": as[bool], "b": as[int8], "B": as[uint8], "s": as[int16], "u": as[uint16], "I": as[int32], "i": as[uint32],
	"l": as[int64], "L": as[frames.LongLong], "x": as[[]byte], "T": as[frames.Timestamp],
	"f": func(b json.RawMessage) (any, error) {
		f, err := strconv.ParseFloat(string(b), 32)
		return float32(f), err
	},
	"d": func(b json.RawMessage) (any, error) { return parseFinite(string(b)) },
	"D": func(b json.RawMessage) (any, error) {
		v, err := as[decimal](b)
		if err != nil {
			return nil, err
		}
		return frames.Decimal(v.(decimal)), nil
	},
	"S": func(b json.RawMessage) (any, error) {
		v, err := as[text](b)
		if err != nil {
			return nil, err
		}
		return string(v.(text)), nil
	},
}

func parseFinite(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
		err = fmt.Errorf("%s is no finite number", s)
	}
	return f, err
}

// value is the inverse of fromValue.
func (v typed) value() (any, error) {
	if read, ok := readers[v.Type]; ok {
		return read(v.Value)
	}
	switch v.Type {
	case "V":
		if len(v.Value) > 0 {
			return nil, fmt.Errorf("a value of type V")
		}
		return nil, nil
	case "F":
		var all fields
		if err := strict(v.Value, &all); err != nil {
			return nil, err
		}
		return all.table()
	case "A":
		var list []typed
		if err := strict(v.Value, &list); err != nil {
			return nil, err
		}
		a := make(frames.Array, len(list))
		for i := range list {
			var err error
			if a[i], err = list[i].value(); err != nil {
				return nil, err
			}
		}
		return a, nil
	}
	return nil, fmt.Errorf("unknown field type %q", v.Type)
}
