package management

import (
	"cmp"
	"fmt"
	"net"
	"slices"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
)

// sessions are the open connections that the user may see: its own, or all
// with monitoring; in a virtual host if the request is for one.
func (q *request) sessions() []broker.SessionDetails {
	var all []broker.SessionDetails
	for _, s := range q.api.broker.Sessions() {
		i := s.Describe()
		if q.vhost != nil && i.VHost != q.vhost.Name || !q.is("monitoring") && i.User != q.user.Name {
			continue
		}
		all = append(all, s.Details())
	}
	slices.SortFunc(all, func(a, b broker.SessionDetails) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func host(a net.Addr) string {
	h, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return h
}

func port(a net.Addr) int {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.Port
	}
	return 0
}

func connectionObject(d *broker.SessionDetails) object {
	o := object{
		"name": d.Name, "user": d.User, "user_who_performed_action": d.User, "vhost": d.VHost, "node": nodeName, "state": d.State,
		"protocol": "AMQP 0-9-1", "auth_mechanism": d.Mechanism, "channels": len(d.Channels), "channel_max": d.ChannelMax, "frame_max": d.FrameMax,
		"timeout": int(d.Heartbeat.Seconds()), "connected_at": d.ConnectedAt.UnixMilli(), "client_properties": tableJSON(d.ClientProperties),
		"host": host(d.Local), "port": port(d.Local), "peer_host": host(d.Peer), "peer_port": port(d.Peer), "ssl": d.TLS, "type": "network",
		"recv_oct": d.Received, "send_oct": d.Sent, "recv_cnt": 0, "send_cnt": 0, "send_pend": 0,
		"recv_oct_details": object{"rate": 0.0}, "send_oct_details": object{"rate": 0.0},
	}
	if v, ok := d.ClientProperties.Get("connection_name"); ok {
		if s, ok := v.(string); ok {
			o["user_provided_name"] = s
		}
	}
	for _, k := range []string{"peer_cert_subject", "peer_cert_issuer", "peer_cert_validity", "ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash"} {
		o[k] = nil
	}
	return o
}

func listConnections(q *request) (any, error) {
	all := []object{}
	for _, d := range q.sessions() {
		all = append(all, connectionObject(&d))
	}
	return q.list(all)
}

// pathConnection finds the connection that the path names.
func (q *request) pathConnection() (broker.Session, error) {
	for _, s := range q.api.broker.Sessions() {
		i := s.Describe()
		if i.Name != q.PathValue("name") {
			continue
		}
		if !q.is("monitoring") && i.User != q.user.Name {
			return nil, notAuthorised("User not authorised to access object")
		}
		return s, nil
	}
	return nil, errNotFound
}

func getConnection(q *request) (any, error) {
	s, err := q.pathConnection()
	if err != nil {
		return nil, err
	}
	d := s.Details()
	return q.one(connectionObject(&d))
}

// closeReason is what the client is told.
func (q *request) closeReason() string {
	return cmp.Or(q.Header.Get("X-Reason"), "Closed via management plugin")
}

func closeConnection(q *request) (any, error) {
	s, err := q.pathConnection()
	if err != nil {
		return nil, err
	}
	if !q.is() && s.Describe().User != q.user.Name {
		return nil, notAuthorised("User not authorised to access object")
	}
	s.Close(frames.ConnectionForced, q.closeReason())
	return nil, nil
}

func userConnections(q *request) (any, error) {
	all := []object{}
	for _, d := range q.sessions() {
		if d.User == q.PathValue("user") {
			all = append(all, connectionObject(&d))
		}
	}
	return q.list(all)
}

func closeUserConnections(q *request) (any, error) {
	user := q.PathValue("user")
	if !q.is() && user != q.user.Name {
		return nil, notAuthorised("User not authorised to access object")
	}
	q.api.broker.CloseSessions(func(i broker.SessionInfo) bool { return i.User == user }, q.closeReason())
	return nil, nil
}

func channelName(d *broker.SessionDetails, c *broker.ChannelDetails) string {
	return fmt.Sprintf("%s (%d)", d.Name, c.Number)
}

func channelObject(d *broker.SessionDetails, c *broker.ChannelDetails) object {
	return object{
		"name": channelName(d, c), "number": c.Number, "user": d.User, "user_who_performed_action": d.User, "vhost": d.VHost, "node": nodeName,
		"connection_details": object{"name": d.Name, "peer_host": host(d.Peer), "peer_port": port(d.Peer)},
		"state":              "running", "confirm": c.Confirm, "transactional": c.Transactional, "consumer_count": len(c.Consumers),
		"prefetch_count": c.Prefetch, "global_prefetch_count": c.GlobalPrefetch, "messages_unacknowledged": c.Unacknowledged,
		"messages_unconfirmed": c.Unconfirmed, "messages_uncommitted": c.Uncommitted, "acks_uncommitted": c.UncommittedAcks,
		"pending_raft_commands": 0,
	}
}

func listChannels(q *request) (any, error) {
	all := []object{}
	for _, d := range q.sessions() {
		all = append(all, channelsOf(&d)...)
	}
	return q.list(all)
}

func channelsOf(d *broker.SessionDetails) (all []object) {
	for i := range d.Channels {
		all = append(all, channelObject(d, &d.Channels[i]))
	}
	return all
}

func connectionChannels(q *request) (any, error) {
	s, err := q.pathConnection()
	if err != nil {
		return nil, err
	}
	d := s.Details()
	return q.list(channelsOf(&d))
}

func getChannel(q *request) (any, error) {
	for _, d := range q.sessions() {
		for i := range d.Channels {
			c := &d.Channels[i]
			if channelName(&d, c) != q.PathValue("name") {
				continue
			}
			o := channelObject(&d, c)
			o["consumer_details"] = consumersOf(&d, func(k *broker.ConsumerDetails) bool {
				return slices.ContainsFunc(c.Consumers, func(own broker.ConsumerDetails) bool { return own.Tag == k.Tag && own.Queue == k.Queue })
			})
			o["publishes"], o["deliveries"] = []any{}, []any{}
			return q.one(o)
		}
	}
	return nil, errNotFound
}

func consumersOf(d *broker.SessionDetails, keep func(*broker.ConsumerDetails) bool) []object {
	all := []object{}
	for i := range d.Channels {
		ch := &d.Channels[i]
		for j := range ch.Consumers {
			c := &ch.Consumers[j]
			if !keep(c) {
				continue
			}
			status := "up"
			if c.Queue.SingleActive() != nil {
				status = "waiting"
				if c.Active {
					status = "single_active"
				}
			}
			all = append(all, object{
				"consumer_tag": c.Tag, "ack_required": !c.NoAck, "active": c.Active, "activity_status": status, "exclusive": c.Exclusive,
				"prefetch_count": c.Prefetch, "arguments": tableJSON(c.Arguments), "queue": object{"name": c.Queue.Name, "vhost": c.Queue.VHost},
				"channel_details": object{
					"connection_name": d.Name, "name": channelName(d, ch), "node": nodeName, "number": ch.Number,
					"peer_host": host(d.Peer), "peer_port": port(d.Peer), "user": d.User,
				},
			})
		}
	}
	return all
}

func listConsumers(q *request) (any, error) {
	all := []object{}
	for _, d := range q.sessions() {
		all = append(all, consumersOf(&d, func(*broker.ConsumerDetails) bool { return true })...)
	}
	return q.list(all)
}
