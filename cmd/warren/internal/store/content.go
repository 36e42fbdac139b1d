package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// content is a message's bytes: what was published, and how.
type content struct {
	Exchange   text `json:"exchange"`
	RoutingKey text `json:"routing_key"`
	// Expiration is the publisher's time to live in milliseconds, -1 for none;
	// Priority and Persistent are what the properties say too.
	Expiration int64  `json:"expiration"`
	Priority   uint8  `json:"priority"`
	Persistent bool   `json:"persistent"`
	Dead       bool   `json:"dead,omitempty"`
	CCDone     bool   `json:"cc_done,omitempty"`
	BCC        []text `json:"bcc,omitempty"`

	Properties *properties `json:"properties,omitempty"`
	Body       []byte      `json:"body"`
	// Head, instead of all the above but the body, is what the store keeps
	// beside it, where the rest could not say it exactly.
	Head *[]byte `json:"head,omitempty"`
}

// properties are those of class basic; absent ones are nil.
type properties struct {
	ContentType     *text   `json:"content_type,omitempty"`
	ContentEncoding *text   `json:"content_encoding,omitempty"`
	Headers         *fields `json:"headers,omitempty"`
	DeliveryMode    *uint8  `json:"delivery_mode,omitempty"`
	Priority        *uint8  `json:"priority,omitempty"`
	CorrelationID   *text   `json:"correlation_id,omitempty"`
	ReplyTo         *text   `json:"reply_to,omitempty"`
	Expiration      *text   `json:"expiration,omitempty"`
	MessageID       *text   `json:"message_id,omitempty"`
	Timestamp       *uint64 `json:"timestamp,omitempty"`
	Type            *text   `json:"type,omitempty"`
	UserID          *text   `json:"user_id,omitempty"`
	AppID           *text   `json:"app_id,omitempty"`
	ClusterID       *text   `json:"cluster_id,omitempty"`
}

// describe gives the content of a stored message, in words if they say exactly
// what is there.
func describe(head, body []byte) content {
	c, err := inWords(head, body)
	if err == nil {
		var again []byte
		if again, err = c.head(); err == nil && bytes.Equal(again, head) {
			return c
		}
	}
	return content{Head: &head, Body: body}
}

func inWords(head, body []byte) (content, error) {
	m, err := queue.RecoverMessage(head, body)
	if err != nil {
		return content{}, err
	}
	c := content{
		Exchange: text(m.Exchange), RoutingKey: text(m.RoutingKey), Expiration: m.Expiration, Priority: m.Priority,
		Persistent: m.Persistent, Dead: m.Dead, CCDone: m.CCDone, Body: body,
	}
	for _, key := range m.BCC {
		c.BCC = append(c.BCC, text(key))
	}
	c.Properties, err = readProperties(m.Properties)
	return c, err
}

// head gives what the store keeps beside the body.
func (c *content) head() ([]byte, error) {
	if c.Head != nil {
		return *c.Head, nil
	}
	if len(c.Exchange) > 255 || len(c.RoutingKey) > 255 {
		return nil, fmt.Errorf("exchange or routing key of more than 255 bytes")
	}
	m := queue.Message{
		Exchange: string(c.Exchange), RoutingKey: string(c.RoutingKey), Expiration: c.Expiration, Priority: c.Priority,
		Persistent: c.Persistent, Dead: c.Dead, CCDone: c.CCDone,
	}
	for _, key := range c.BCC {
		m.BCC = append(m.BCC, string(key))
	}
	var err error
	if m.Properties, err = c.Properties.append(nil); err != nil {
		return nil, err
	}
	return m.AppendHead(nil), nil
}

// readProperties describes the property bytes of a content header.
func readProperties(b []byte) (*properties, error) {
	p, err := frames.ParseProperties(b)
	if err != nil {
		return nil, fmt.Errorf("read properties: %w", err)
	}
	short := func(value []byte, is bool) *text {
		if !is {
			return nil
		}
		t := text(value)
		return &t
	}
	number := func(n uint8, is bool) *uint8 {
		if !is {
			return nil
		}
		return &n
	}
	var d properties
	d.ContentType, d.ContentEncoding = short(p.ContentType()), short(p.ContentEncoding())
	d.DeliveryMode, d.Priority = number(p.DeliveryMode()), number(p.Priority())
	d.CorrelationID, d.ReplyTo, d.Expiration = short(p.CorrelationID()), short(p.ReplyTo()), short(p.Expiration())
	d.MessageID, d.Type, d.UserID = short(p.MessageID()), short(p.Type()), short(p.UserID())
	d.AppID, d.ClusterID = short(p.AppID()), short(p.ClusterID())
	if at, is := p.Timestamp(); is {
		d.Timestamp = &at
	}
	if raw, is := p.Headers(); is {
		all, err := fromTable(raw.Decode())
		if err != nil {
			return nil, err
		}
		d.Headers = &all
	}
	return &d, nil
}

// append is the inverse of readProperties.
func (d *properties) append(dst []byte) ([]byte, error) {
	if d == nil {
		return append(dst, 0, 0), nil
	}
	var v frames.PropertyValues
	short := func(flag uint16, to *string, value *text) error {
		if value == nil {
			return nil
		}
		if len(*value) > 255 {
			return fmt.Errorf("a property of %d bytes: at most 255 are possible", len(*value))
		}
		v.Flags |= flag
		*to = string(*value)
		return nil
	}
	for _, p := range []struct {
		flag  uint16
		to    *string
		value *text
	}{
		{frames.FlagContentType, &v.ContentType, d.ContentType}, {frames.FlagContentEncoding, &v.ContentEncoding, d.ContentEncoding},
		{frames.FlagCorrelationID, &v.CorrelationID, d.CorrelationID}, {frames.FlagReplyTo, &v.ReplyTo, d.ReplyTo},
		{frames.FlagExpiration, &v.Expiration, d.Expiration}, {frames.FlagMessageID, &v.MessageID, d.MessageID},
		{frames.FlagType, &v.Type, d.Type}, {frames.FlagUserID, &v.UserID, d.UserID},
		{frames.FlagAppID, &v.AppID, d.AppID}, {frames.FlagClusterID, &v.ClusterID, d.ClusterID},
	} {
		if err := short(p.flag, p.to, p.value); err != nil {
			return nil, err
		}
	}
	if d.DeliveryMode != nil {
		v.Flags, v.DeliveryMode = v.Flags|frames.FlagDeliveryMode, *d.DeliveryMode
	}
	if d.Priority != nil {
		v.Flags, v.Priority = v.Flags|frames.FlagPriority, *d.Priority
	}
	if d.Timestamp != nil {
		v.Flags, v.Timestamp = v.Flags|frames.FlagTimestamp, *d.Timestamp
	}
	if d.Headers != nil {
		t, err := d.Headers.table()
		if err != nil {
			return nil, err
		}
		v.Flags, v.Headers = v.Flags|frames.FlagHeaders, t
	}
	return v.Append(dst), nil
}

// strict reads JSON and refuses keys that are not known, and anything behind
// the value.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("more than one value")
	}
	return nil
}
