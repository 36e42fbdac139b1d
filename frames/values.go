package frames

import "encoding/binary"

// PropertyValues are properties in decoded form, for code that makes messages or shows them to people.
// Flags says which are present; a field whose flag is not set is not sent whatever it holds.
type PropertyValues struct {
	Flags           uint16
	ContentType     string
	ContentEncoding string
	Headers         Table
	DeliveryMode    uint8
	Priority        uint8
	CorrelationID   string
	ReplyTo         string
	Expiration      string
	MessageID       string
	Timestamp       uint64 // seconds
	Type            string
	UserID          string
	AppID           string
	ClusterID       string
}

// Values copies all properties out.
func (p *Properties) Values() PropertyValues {
	v := PropertyValues{Flags: p.flags}
	if t, ok := p.Headers(); ok {
		v.Headers = t.Decode()
	}
	v.DeliveryMode, _ = p.DeliveryMode()
	v.Priority, _ = p.Priority()
	v.Timestamp, _ = p.Timestamp()
	for flag := FlagContentType; flag >= FlagClusterID; flag >>= 1 {
		if s := v.shortstr(flag); s != nil {
			b, _ := p.shortstr(flag)
			*s = string(b)
		}
	}
	return v
}

// Append appends the flag word and the values in the form that AppendHeaderFrame and ParseProperties take.
// Strings and header keys over 255 bytes are cut.
func (v *PropertyValues) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, v.Flags&allFlags)
	for flag := FlagContentType; flag >= FlagClusterID; flag >>= 1 {
		if v.Flags&flag == 0 {
			continue
		}
		switch flag {
		case FlagHeaders:
			dst = v.Headers.Append(dst)
		case FlagDeliveryMode:
			dst = append(dst, v.DeliveryMode)
		case FlagPriority:
			dst = append(dst, v.Priority)
		case FlagTimestamp:
			dst = binary.BigEndian.AppendUint64(dst, v.Timestamp)
		default:
			dst = appendShortstr(dst, *v.shortstr(flag))
		}
	}
	return dst
}

// shortstr returns the field of a flag whose property is a short string, nil for the others.
func (v *PropertyValues) shortstr(flag uint16) *string {
	switch flag {
	case FlagContentType:
		return &v.ContentType
	case FlagContentEncoding:
		return &v.ContentEncoding
	case FlagCorrelationID:
		return &v.CorrelationID
	case FlagReplyTo:
		return &v.ReplyTo
	case FlagExpiration:
		return &v.Expiration
	case FlagMessageID:
		return &v.MessageID
	case FlagType:
		return &v.Type
	case FlagUserID:
		return &v.UserID
	case FlagAppID:
		return &v.AppID
	case FlagClusterID:
		return &v.ClusterID
	}
	return nil
}
