package selector

import (
	"strings"

	"github.com/warrenmq/warren/frames"
)

// name is a header or a property of the message.
type name struct {
	key  []byte // of a header; nil for a property
	read func(p *frames.Properties) value
	of   kind
}

func (n *name) kind() kind { return n.of }

func (n *name) eval(v *View) value {
	if n.read != nil {
		return n.read(&v.properties)
	}
	return v.header(n.key)
}

func header(key string) *name { return &name{key: []byte(key), of: kindAny} }

// propertyPrefix is how names of AMQP's properties begin.
const propertyPrefix = "properties."

// properties are the names that stand for properties instead of headers.
var properties = map[string]name{
	"JMSCorrelationID": text((*frames.Properties).CorrelationID),
	"JMSMessageID":     text((*frames.Properties).MessageID),
	"JMSType":          text((*frames.Properties).Type),
	"JMSXUserID":       text((*frames.Properties).UserID),
	"JMSXAppID":        text((*frames.Properties).AppID),
	"JMSDeliveryMode":  {read: deliveryMode, of: kindString},
	"JMSPriority":      {read: priority, of: kindInteger},
	"JMSTimestamp":     {read: millis, of: kindInteger},

	"properties.app_id":           text((*frames.Properties).AppID),
	"properties.cluster_id":       text((*frames.Properties).ClusterID),
	"properties.content_encoding": text((*frames.Properties).ContentEncoding),
	"properties.content_type":     text((*frames.Properties).ContentType),
	"properties.correlation_id":   text((*frames.Properties).CorrelationID),
	"properties.expiration":       text((*frames.Properties).Expiration),
	"properties.message_id":       text((*frames.Properties).MessageID),
	"properties.reply_to":         text((*frames.Properties).ReplyTo),
	"properties.type":             text((*frames.Properties).Type),
	"properties.user_id":          text((*frames.Properties).UserID),
	"properties.delivery_mode":    octet((*frames.Properties).DeliveryMode),
	"properties.priority":         octet((*frames.Properties).Priority),
	"properties.timestamp":        {read: seconds, of: kindInteger},
}

// nameOf finds what a name stands for; reason says why it stands for nothing. JMS 1.1 section 3.8.1.1 has the fields of a
// message's head that a selector may name, and section 3.5.1 keeps the prefix JMS for itself; what begins with JMSX or
// JMS_ is a header like any other.
func nameOf(s string) (n *name, reason string) {
	if p, ok := properties[s]; ok {
		return &p, ""
	}
	switch {
	case strings.HasPrefix(s, propertyPrefix):
		return nil, "AMQP has no property " + brief(s[len(propertyPrefix):])
	case strings.HasPrefix(s, "JMS") && !strings.HasPrefix(s, "JMSX") && !strings.HasPrefix(s, "JMS_"):
		return nil, brief(s) + " cannot be in a selector"
	}
	return header(s), ""
}

// text is a property that is a string.
func text(get func(*frames.Properties) ([]byte, bool)) name {
	return name{of: kindString, read: func(p *frames.Properties) value {
		b, ok := get(p)
		if !ok {
			return value{}
		}
		return ofOctets(b)
	}}
}

// octet is a property that is a small number.
func octet(get func(*frames.Properties) (uint8, bool)) name {
	return name{of: kindInteger, read: func(p *frames.Properties) value {
		n, ok := get(p)
		if !ok {
			return value{}
		}
		return ofInteger(int64(n))
	}}
}

var persistent, nonPersistent = []byte("PERSISTENT"), []byte("NON_PERSISTENT")

// deliveryMode is always there, as a string (JMS 1.1 section 3.8.1.1): what is not persistent is not.
func deliveryMode(p *frames.Properties) value {
	if mode, _ := p.DeliveryMode(); mode == 2 {
		return ofOctets(persistent)
	}
	return ofOctets(nonPersistent)
}

// priority is always there: a message without counts as 0, as it does in a queue.
func priority(p *frames.Properties) value {
	n, _ := p.Priority()
	return ofInteger(int64(n))
}

func seconds(p *frames.Properties) value {
	n, ok := p.Timestamp()
	if !ok {
		return value{}
	}
	return ofUnsigned(n)
}

// millis is a timestamp as JMS counts it.
func millis(p *frames.Properties) value {
	v := seconds(p)
	const perSecond = 1000
	switch {
	case v.kind == kindInteger && v.integer <= (1<<63-1)/perSecond:
		return ofInteger(v.integer * perSecond)
	case v.kind == kindNull:
		return v
	}
	return ofFloat(v.number() * perSecond)
}
