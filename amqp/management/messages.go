package management

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/queue"
)

// stringProperties are the properties that are short strings, by name.
var stringProperties = []struct {
	name  string
	flag  uint16
	field func(*frames.PropertyValues) *string
}{
	{"content_type", frames.FlagContentType, func(v *frames.PropertyValues) *string { return &v.ContentType }},
	{"content_encoding", frames.FlagContentEncoding, func(v *frames.PropertyValues) *string { return &v.ContentEncoding }},
	{"correlation_id", frames.FlagCorrelationID, func(v *frames.PropertyValues) *string { return &v.CorrelationID }},
	{"reply_to", frames.FlagReplyTo, func(v *frames.PropertyValues) *string { return &v.ReplyTo }},
	{"expiration", frames.FlagExpiration, func(v *frames.PropertyValues) *string { return &v.Expiration }},
	{"message_id", frames.FlagMessageID, func(v *frames.PropertyValues) *string { return &v.MessageID }},
	{"type", frames.FlagType, func(v *frames.PropertyValues) *string { return &v.Type }},
	{"user_id", frames.FlagUserID, func(v *frames.PropertyValues) *string { return &v.UserID }},
	{"app_id", frames.FlagAppID, func(v *frames.PropertyValues) *string { return &v.AppID }},
	{"cluster_id", frames.FlagClusterID, func(v *frames.PropertyValues) *string { return &v.ClusterID }},
}

// propertiesJSON shows a message's properties; none at all are an empty array.
func propertiesJSON(raw []byte) any {
	p, err := frames.ParseProperties(raw)
	if err != nil {
		return []any{} // cannot be: it was checked when it was published
	}
	v := p.Values()
	o := object{}
	for _, s := range stringProperties {
		if v.Flags&s.flag != 0 {
			o[s.name] = textJSON([]byte(*s.field(&v)))
		}
	}
	if v.Flags&frames.FlagHeaders != 0 {
		o["headers"] = tableJSON(v.Headers)
	}
	if v.Flags&frames.FlagDeliveryMode != 0 {
		o["delivery_mode"] = v.DeliveryMode
	}
	if v.Flags&frames.FlagPriority != 0 {
		o["priority"] = v.Priority
	}
	if v.Flags&frames.FlagTimestamp != 0 {
		o["timestamp"] = v.Timestamp
	}
	if len(o) == 0 {
		return []any{}
	}
	return o
}

// readProperties reads the properties of a message to publish.
func (q *request) readProperties(v any) (raw []byte, err error) {
	o, ok := v.(object)
	if a, isArray := v.([]any); isArray && len(a) == 0 {
		o, ok = object{}, true
	}
	if !ok {
		return nil, badRequest([]any{"not_map", v})
	}
	var p frames.PropertyValues
	for _, s := range stringProperties {
		value, ok := o[s.name]
		if !ok {
			continue
		}
		if *s.field(&p), ok = value.(string); !ok {
			return nil, badRequest([]any{"not_string", s.name})
		}
		p.Flags |= s.flag
	}
	for _, n := range []struct {
		name string
		flag uint16
		set  func(int64) bool
	}{
		{"delivery_mode", frames.FlagDeliveryMode, func(n int64) bool { p.DeliveryMode = uint8(n); return n >= 0 && n <= 255 }},
		{"priority", frames.FlagPriority, func(n int64) bool { p.Priority = uint8(n); return n >= 0 && n <= 255 }},
		{"timestamp", frames.FlagTimestamp, func(n int64) bool { p.Timestamp = uint64(n); return n >= 0 }},
	} {
		value, ok := o[n.name]
		if !ok {
			continue
		}
		number, isNumber := value.(json.Number)
		i, isInteger := integer(number)
		if !isNumber || !isInteger || !n.set(i) {
			return nil, badRequest([]any{"not_int", n.name})
		}
		p.Flags |= n.flag
	}
	if headers, ok := o["headers"]; ok {
		if p.Headers, err = jsonTable(headers); err != nil {
			return nil, err
		}
		if err := noNulls(headers); err != nil {
			return nil, err
		}
		p.Flags |= frames.FlagHeaders
	}
	return p.Append(nil), nil
}

func holdsNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case object:
		for _, e := range v {
			if holdsNull(e) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if holdsNull(e) {
				return true
			}
		}
	}
	return false
}

// publish does POST /exchanges/V/X/publish. It answers when the message is
// where it would be confirmed from.
func publish(q *request) (any, error) {
	o, err := q.object()
	if err != nil {
		return nil, err
	}
	if err := needs(o, "routing_key", "properties", "payload", "payload_encoding"); err != nil {
		return nil, err
	}
	properties, err := q.readProperties(o["properties"])
	if err != nil {
		return nil, err
	}
	key, err := text(o, "routing_key")
	if err != nil {
		return nil, err
	}
	body, err := readPayload(o)
	if err != nil {
		return nil, err
	}
	parsed, err := frames.ParseProperties(properties)
	if err != nil {
		return nil, badRequest("the properties are too long")
	}
	name := exchangeName(q.PathValue("exchange"))
	routed, err := q.vhost.Post(q.client(), &broker.Publication{
		Exchange: []byte(name), RoutingKey: []byte(key), Properties: parsed, BodySize: uint64(len(body)),
	}, body)
	if refused, ok := err.(*frames.Error); ok {
		if refused.Code == frames.NotFound && q.api.v4() {
			return nil, &failure{http.StatusNotFound, "not_found", "exchange_not_found"}
		}
		return nil, badRequest(fmt.Sprintf("%d %s", refused.Code, refused.ReplyText()))
	}
	if err != nil {
		return nil, err
	}
	return object{"routed": routed}, nil
}

func readPayload(o object) ([]byte, error) {
	payload, err := text(o, "payload")
	if err != nil {
		return nil, err
	}
	switch o["payload_encoding"] {
	case "string":
		return []byte(payload), nil
	case "base64":
		b, err := base64.StdEncoding.DecodeString(payload)
		if err != nil {
			return nil, badRequest([]any{"not_base64", payload})
		}
		return b, nil
	}
	return nil, badRequest([]any{"unsupported_encoding", o["payload_encoding"]})
}

// ackModes are what can be done with messages that were got.
var ackModes = []struct {
	name string
	fate queue.Fate
}{
	{"ack_requeue_true", queue.Requeue}, {"ack_requeue_false", queue.Acknowledge},
	{"reject_requeue_true", queue.Fail}, {"reject_requeue_false", queue.Refuse},
}

// ackMode finds a mode by its name.
func (q *request) ackMode(v any) (queue.Fate, error) {
	var names []string
	for _, m := range ackModes {
		if v == m.name {
			return m.fate, nil
		}
		names = append(names, m.name)
	}
	if q.api.v4() {
		return 0, badRequest(fmt.Sprintf("Invalid ackmode value: %v. Valid values are: %s", v, strings.Join(names, ", ")))
	}
	return 0, &failure{http.StatusInternalServerError, "internal_server_error", "unknown ackmode"}
}

// getMost is how many messages one request gets at most.
const getMost = 50000

// getMessages does POST /queues/V/Q/get.
func getMessages(q *request) (any, error) {
	o, err := q.object()
	if err != nil {
		return nil, err
	}
	if err := needs(o, "ackmode", "count", "encoding"); err != nil {
		return nil, err
	}
	count, ok := integer(o["count"])
	if !ok {
		return nil, badRequest([]any{"not_integer", o["count"]})
	}
	fate, err := q.ackMode(o["ackmode"])
	if err != nil {
		return nil, err
	}
	if e := o["encoding"]; e != "auto" && e != "base64" {
		return nil, badRequest("Unsupported encoding. Please use auto or base64.")
	}
	truncate := int64(-1)
	if v, ok := o["truncate"]; ok {
		if truncate, ok = integer(v); !ok || truncate < 0 {
			return nil, badRequest([]any{"not_integer", v})
		}
	}
	u, err := q.vhost.GetQueue(q.client(), q.PathValue("queue"))
	if refused, ok := err.(*frames.Error); ok && refused.Code == frames.NotFound && q.api.v4() {
		return nil, &failure{http.StatusNotFound, "not_found", "queue_not_found"}
	}
	if err != nil {
		return nil, err
	}
	return q.take(u, int(min(count, getMost)), fate, o["encoding"] == "base64", truncate)
}

// take gets messages and ends them as the request says.
func (q *request) take(u *broker.Queue, count int, fate queue.Fate, base64Only bool, truncate int64) (any, error) {
	all := []object{}
	var entries []queue.Entry
	for range count {
		e, left, ok, err := u.GetNow()
		if err != nil {
			return nil, errNotFound // deleted meanwhile, with what was taken
		}
		if !ok {
			break
		}
		entries = append(entries, e)
		all = append(all, messageObject(&e, left, base64Only, truncate))
	}
	return all, q.vhost.EndGot(u, entries, fate)
}

func messageObject(e *queue.Entry, left int, base64Only bool, truncate int64) object {
	m := e.Message
	payload := m.Content
	if truncate >= 0 && int64(len(payload)) > truncate {
		payload = payload[:truncate]
	}
	encoding, shown := "string", string(payload)
	if base64Only || !utf8.Valid(payload) {
		encoding, shown = "base64", base64.StdEncoding.EncodeToString(payload)
	}
	return object{
		"payload_bytes": len(m.Content), "redelivered": e.Redelivered, "exchange": m.Exchange, "routing_key": m.RoutingKey, "message_count": left,
		"properties": propertiesJSON(m.Properties), "payload": shown, "payload_encoding": encoding,
	}
}
