package broker

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unsafe"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// Publication is one basic.publish with its content, as it stands in the
// connection's read buffer: everything here is borrowed until Route and
// Compose have returned.
type Publication struct {
	Exchange, RoutingKey []byte
	Properties           frames.Properties
	// BodySize is the body's size in bytes, which may be more than was kept of
	// a body that is too large.
	BodySize uint64
	// PropertiesError is why the properties cannot be read; it counts in its
	// place among the checks.
	PropertiesError error
	// ReplyName is the reply name of the publisher's channel; "" when it does
	// not consume direct replies.
	ReplyName string

	// Filled by Route.

	// Unroutable says that a mandatory publish is to be returned.
	Unroutable  bool
	Persistent  bool
	Priority    uint8
	Expiration  int64
	exchange    *Exchange
	hasBCC      bool
	directReply bool
	// plainExpiration: the expiration is delivered as a plain number, not as it
	// was written.
	plainExpiration bool
}

// Router routes for one channel: scratch memory, and the last route, which
// serves as long as the topology is the same value. Not safe for concurrent
// use.
type Router struct {
	queues  []*queue.Queue
	found   []*destination
	visited []*Exchange
	keys    [][]byte
	message exchange.Message // the one being routed: here, because it would escape from the stack
	replies int              // reply names among the keys of this route
	kept    int              // queues of this route that no client sees
	// malformed: a delayed exchange could not read the x-delay header.
	malformed bool

	// The last route, and what it is valid for.
	snapshot      *topology
	exchange, key []byte
	node          *exchangeNode
	cached        bool

	// The exchange that the user was last seen to have write permission on.
	permitted        *Exchange
	permittedVersion uint64
}

// Route checks a publish in RabbitMQ's order and says which queues it goes
// to, each once. The slice is valid until the next call. No queue and no
// error: the publish is unroutable.
func (v *VHost) Route(r *Router, c *Client, p *Publication) ([]*queue.Queue, error) {
	if p.BodySize > v.broker.MaxMessageSize {
		return nil, frames.Errorf(frames.PreconditionFailed, "message size %d is larger than configured max size %d", p.BodySize, v.broker.MaxMessageSize)
	}
	t := v.topology.Load()
	if t != r.snapshot || !bytes.Equal(p.Exchange, r.exchange) {
		r.enter(t, p.Exchange)
	}
	if err := v.checkPublish(r, c, p); err != nil {
		return nil, err
	}
	p.exchange = r.node.Exchange
	if !(r.cached && len(r.keys) == 0 && bytes.Equal(p.RoutingKey, r.key)) {
		if r.route(v, t, p); r.malformed {
			return nil, crash()
		}
	}
	p.Unroutable = v.unroutable(r)
	return r.queues, nil
}

// enter makes the router ready for an exchange of a snapshot.
func (r *Router) enter(t *topology, name []byte) {
	r.snapshot, r.cached = t, false
	r.exchange = append(r.exchange[:0], name...)
	r.node, _ = t.exchanges.GetBytes(name)
}

// checkPublish does the checks that come before routing, reading of the
// properties only what it needs.
func (v *VHost) checkPublish(r *Router, c *Client, p *Publication) error {
	if err := v.checkWrite(r, c, p); err != nil {
		return err
	}
	if r.node == nil {
		return noExchange(v.Name, string(p.Exchange))
	}
	if r.node.Internal {
		return frames.Errorf(frames.AccessRefused, "cannot publish to internal %s", exchangeText(v.Name, r.node.Name))
	}
	late := compat.PublishCheckOrder4.In(v.broker.Profile)
	if late {
		if p.PropertiesError != nil {
			return p.PropertiesError
		}
		if err := p.checkReply(); err != nil {
			return err
		}
		if err := v.checkContent(r, p); err != nil {
			return err
		}
	}
	if r.node.Type == "topic" {
		if err := v.checkTopic(c, r.node.Name, borrowed(p.RoutingKey), auth.Write); err != nil {
			return err
		}
	}
	if !late {
		if p.PropertiesError != nil {
			return p.PropertiesError
		}
		if err := p.checkReply(); err != nil {
			return err
		}
	}
	if err := v.checkUserID(c, p); err != nil {
		return err
	}
	if late {
		return nil
	}
	return v.checkContent(r, p)
}

// borrowed is b as a string for the length of one call that keeps nothing of
// it: every publish to a topic exchange would allocate its key otherwise.
func borrowed(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func (v *VHost) checkWrite(r *Router, c *Client, p *Publication) error {
	version := v.broker.Auth.Version()
	if r.node != nil && r.permitted == r.node.Exchange && r.permittedVersion == version {
		return nil
	}
	if err := v.check(c, auth.Exchange, string(p.Exchange), auth.Write); err != nil {
		return err
	}
	if r.node != nil {
		r.permitted, r.permittedVersion = r.node.Exchange, version
	}
	return nil
}

func (v *VHost) checkUserID(c *Client, p *Publication) error {
	id, ok := p.Properties.UserID()
	if !ok || string(id) == c.User || slices.Contains(v.broker.Auth.Tags(c.User), "impersonator") {
		return nil
	}
	return frames.Errorf(frames.PreconditionFailed, "user_id property set to '%s' but authenticated user was '%s'", id, c.User)
}

// checkContent reads the properties that routing and queues need: expiration,
// CC and BCC, delivery mode, which is the order in which they are refused
// (verified on 3.10.8).
func (v *VHost) checkContent(r *Router, p *Publication) error {
	r.keys = r.keys[:0]
	p.Expiration, p.hasBCC, p.plainExpiration = -1, false, false
	p.Priority, _ = p.Properties.Priority()
	if text, ok := p.Properties.Expiration(); ok {
		ms, err := parseExpiration(text)
		if err != nil {
			return err
		}
		p.Expiration = ms
		p.plainExpiration = compat.ExpirationNormalised.In(v.broker.Profile) && !isPlainNumber(text)
	}
	if headers, ok := p.Properties.Headers(); ok && len(headers) > 0 {
		if err := r.senderSelected(p, headers); err != nil {
			return err
		}
	}
	mode, ok := p.Properties.DeliveryMode()
	p.Persistent = mode == 2
	if ok && mode != 1 && mode != 2 && compat.CheckDeliveryMode.In(v.broker.Profile) {
		return frames.Errorf(frames.PreconditionFailed, "invalid message: {delivery_mode_unknown,%d}", mode)
	}
	return nil
}

// senderSelected collects the routing keys of the CC and BCC headers.
func (r *Router) senderSelected(p *Publication, headers frames.RawTable) error {
	for _, name := range [...]string{"CC", "BCC"} {
		value, ok := headers.Lookup(name)
		if !ok {
			continue
		}
		if value.Type != 'A' {
			return frames.Errorf(frames.PreconditionFailed, `invalid message: {unacceptable_type_in_header,"%s",%s}`, name, frames.TypeName(value.Decode()))
		}
		p.hasBCC = p.hasBCC || name == "BCC"
		for it := value.ArrayIter(); it.Next(); {
			if e := it.Value(); e.Type == 'S' {
				r.keys = append(r.keys, e.Data)
			}
		}
	}
	return nil
}

// route finds the queues for a publication. The result is kept as the last
// route when only exchange and key decided it.
func (r *Router) route(v *VHost, t *topology, p *Publication) {
	clear(r.queues)
	r.queues, r.visited, r.replies, r.kept = r.queues[:0], r.visited[:0], 0, 0
	r.malformed = false
	headers, _ := p.Properties.Headers()
	r.message = exchange.Message{RoutingKey: p.RoutingKey, Headers: headers, Properties: &p.Properties}
	r.key, r.cached = append(r.key[:0], p.RoutingKey...), len(r.keys) == 0
	r.visit(v, t, r.node, &r.message)
	r.message.Done()
	r.message = exchange.Message{}
	r.distinct()
}

// visit routes through one exchange and, over its bindings to exchanges and
// its alternate exchange, through others; each once a message, which cuts
// loops.
func (r *Router) visit(v *VHost, t *topology, x *exchangeNode, m *exchange.Message) {
	if slices.Contains(r.visited, x.Exchange) {
		return
	}
	r.visited = append(r.visited, x.Exchange)
	if x.Name == "" {
		r.visitDefault(v, t, m.RoutingKey)
		for _, key := range r.keys {
			r.visitDefault(v, t, key)
		}
		return
	}
	if !x.traits.KeyDecides || x.keeps || x.selects {
		r.cached = false
	}
	start := len(r.found)
	if !x.keeps || !r.keep(x.Exchange, m) {
		r.match(x, m)
	}
	found := len(r.found)
	for i := start; i < found; i++ {
		d := r.found[i]
		if d.queue != nil {
			r.queues = append(r.queues, d.queue.Queue)
		} else if next, ok := t.exchanges.Get(d.exchange.Name); ok {
			r.visit(v, t, next, m)
		}
	}
	clear(r.found[start:])
	r.found = r.found[:start]
	// Only a publish to the default exchange itself looks for a queue of that
	// name: as an alternate it has no bindings (verified on both versions).
	if found == start && x.alternate != "" {
		if ae, ok := t.exchanges.Get(x.alternate); ok {
			r.visit(v, t, ae, m)
		}
	}
}

// match appends where the bindings of one exchange lead.
func (r *Router) match(x *exchangeNode, m *exchange.Message) {
	r.found = x.matcher.Route(r.found, m)
	if len(r.keys) == 0 || x.traits.ChoosesOne {
		return
	}
	own := m.RoutingKey
	for _, key := range r.keys {
		m.RoutingKey = key
		r.found = x.matcher.Route(r.found, m)
	}
	m.RoutingKey = own
}

// visitDefault: the routing key is the queue's name, or a reply name.
func (r *Router) visitDefault(v *VHost, t *topology, key []byte) {
	if q, ok := t.queues.GetBytes(key); ok {
		r.queues = append(r.queues, q.Queue)
		return
	}
	r.visitReply(v, key)
}

// distinct leaves one copy a queue.
func (r *Router) distinct() {
	switch n := len(r.queues); {
	case n < 2:
	case n <= 16:
		kept := r.queues[:1]
		for _, q := range r.queues[1:] {
			if !slices.Contains(kept, q) {
				kept = append(kept, q)
			}
		}
		r.queues = kept
	default:
		slices.SortFunc(r.queues, func(a, b *queue.Queue) int { return cmp.Compare(a.ID, b.ID) })
		r.queues = slices.Compact(r.queues)
	}
}

// Compose makes the message that the queues share. body becomes the
// message's; the caller has copied it out of its buffer.
func (p *Publication) Compose(a *queue.Arena, body []byte) *queue.Message {
	m := a.NewMessage(len(body) + len(p.Properties.Raw()))
	m.Exchange = p.exchange.Name
	m.RoutingKey = a.String(p.RoutingKey)
	if p.hasBCC || p.directReply || p.plainExpiration {
		m.Properties = p.edited()
	} else {
		m.Properties = a.Copy(p.Properties.Raw())
	}
	m.Content = body
	m.Priority, m.Persistent, m.Expiration = p.Priority, p.Persistent, p.Expiration
	if p.hasBCC {
		m.BCC = p.blindKeys(a)
	}
	return m
}

// blindKeys are the routing keys of the BCC header, for when the message is
// dead-lettered: the header itself is not kept.
func (p *Publication) blindKeys(a *queue.Arena) (keys []string) {
	headers, _ := p.Properties.Headers()
	value, _ := headers.Lookup("BCC")
	for it := value.ArrayIter(); it.Next(); {
		if e := it.Value(); e.Type == 'S' {
			keys = append(keys, a.String(e.Data))
		}
	}
	return keys
}

// edited are the properties without the BCC header, which recipients must
// not see, and with the channel's own reply name in a request.
func (p *Publication) edited() []byte {
	values := p.Properties.Values()
	if p.hasBCC {
		values.Headers = slices.DeleteFunc(values.Headers, func(f frames.Field) bool { return f.Key == "BCC" })
	}
	if p.directReply {
		values.ReplyTo = p.ReplyName
	}
	if p.plainExpiration {
		values.Expiration = strconv.FormatInt(p.Expiration, 10)
	}
	return values.Append(nil)
}

// isPlainNumber: digits without a sign or leading zeros.
func isPlainNumber(text []byte) bool {
	return text[0] >= '1' && text[0] <= '9' || len(text) == 1 && text[0] == '0'
}
