package store

import (
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// text is a string of any bytes: a JSON string where it is UTF-8, else
// {"base64": "..."}.
type text string

// notUTF8 is the other form of a text.
type notUTF8 struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(notUTF8{[]byte(t)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var other notUTF8
		if err := strict(b, &other); err != nil {
			return err
		}
		*t = text(other.Base64)
		return nil
	}
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s == nil {
		return errors.New("null where a text is due")
	}
	*t = text(*s)
	return nil
}
