package management

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames/compat"
)

// Metrics serves the broker's figures in Prometheus' text format under the
// names that RabbitMQ's plugin gives them: /metrics adds up, /metrics/per-object
// has a line for each queue, channel and connection, and /metrics/detailed those
// of the families asked for. There is no login, as in RabbitMQ. What RabbitMQ
// says of Erlang is not there. Any goroutine.
type Metrics struct {
	broker      *broker.Broker
	clusterName func() string
}

// NewMetrics makes the handler.
func NewMetrics(b *broker.Broker) *Metrics {
	a := &API{broker: b}
	return &Metrics{b, a.clusterNameOf}
}

// sample is one line: labels as they are written, and the value.
type sample struct {
	labels string
	value  float64
}

// metric is a name and its lines.
type metric struct {
	family           string // of /metrics/detailed; "" is not in it
	name, kind, help string
	whole            bool // has its labels when the others are added up
	samples          []sample
}

// ServeHTTP implements http.Handler.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := &scrape{broker: m.broker, query: r.URL.Query()}
	path, ok := strings.CutPrefix(strings.TrimSuffix(r.URL.Path, "/"), "/metrics")
	switch {
	case !ok || r.Method != http.MethodGet && r.Method != http.MethodHead:
		(&API{broker: m.broker}).refuse(w, errNotFound)
		return
	case path == "":
		s.sum = true
	case path == "/per-object":
	case path == "/detailed":
		s.detailed = true
	default:
		http.Error(w, "Unknown Registry", http.StatusNotFound)
		return
	}
	s.collect(m.clusterName())
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(s.text()) // a peer that has gone
}

// scrape is one answer in the making.
type scrape struct {
	broker        *broker.Broker
	query         map[string][]string
	sum, detailed bool
	metrics       []*metric
}

func (s *scrape) metric(family, name, kind, help string) *metric {
	m := &metric{family: family, name: name, kind: kind, help: help}
	s.metrics = append(s.metrics, m)
	return m
}

// single adds a metric of one line that has no object.
func (s *scrape) single(name, kind, help string, value float64) {
	s.metric("", name, kind, help).add("", value)
}

func (m *metric) add(labels string, value float64) {
	m.samples = append(m.samples, sample{labels, value})
}

// vhosts are those that the query asks for, all by default.
func (s *scrape) vhosts() []*broker.VHost {
	asked := s.query["vhost"]
	return slices.DeleteFunc(s.broker.VHosts(), func(v *broker.VHost) bool {
		return s.detailed && len(asked) > 0 && !slices.Contains(asked, v.Name)
	})
}

func (s *scrape) collect(cluster string) {
	if !s.detailed {
		s.node()
	}
	queues, consumers := s.queues()
	connections, channels := s.sessions()
	if s.detailed {
		s.topology()
	} else {
		s.single("connections", "gauge", "Connections currently open", float64(connections))
		s.single("channels", "gauge", "Channels currently open", float64(channels))
		s.single("consumers", "gauge", "Consumers currently connected", float64(consumers))
		s.single("queues", "gauge", "Queues available", float64(queues))
		s.global(consumers)
	}
	version := compat.Version.In(s.broker.Profile)
	info := s.metric("", "build_info", "untyped", "RabbitMQ & Erlang/OTP version info")
	info.whole = true
	info.add(labels("rabbitmq_version", version, "prometheus_plugin_version", version, "prometheus_client_version", "", "erlang_version", ""), 1)
	info = s.metric("", "identity_info", "untyped", "RabbitMQ node & cluster identity info")
	info.whole = true
	info.add(labels("rabbitmq_node", nodeName, "rabbitmq_cluster", cluster, "rabbitmq_cluster_permanent_id", ""), 1)
}

// node is what concerns the process.
func (s *scrape) node() {
	t := s.broker.Totals()
	s.single("connections_opened_total", "counter", "Total number of connections opened", float64(t.ConnectionsOpened))
	s.single("connections_closed_total", "counter", "Total number of connections closed or terminated", float64(t.ConnectionsClosed))
	s.single("queues_created_total", "counter", "Total number of queues created", float64(t.QueuesCreated))
	s.single("queues_deleted_total", "counter", "Total number of queues deleted", float64(t.QueuesDeleted))
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	s.single("process_resident_memory_bytes", "gauge", "Memory used in bytes", float64(memory.Sys-memory.HeapReleased))
	s.single("erlang_uptime_seconds", "gauge", "Node uptime", s.broker.Uptime().Seconds())
}

// queueFigures are what is told of each queue, in RabbitMQ's order.
var queueFigures = []struct {
	family, name, help string
	of                 func(*queueCounts) int64
}{
	{"queue_coarse_metrics", "queue_messages_ready", "Messages ready to be delivered to consumers", func(n *queueCounts) int64 { return n.ready }},
	{"queue_coarse_metrics", "queue_messages_unacked", "Messages delivered to consumers but not yet acknowledged", func(n *queueCounts) int64 { return n.unacked }},
	{"queue_coarse_metrics", "queue_messages", "Sum of ready and unacknowledged messages - total queue depth", func(n *queueCounts) int64 { return n.ready + n.unacked }},
	{"queue_consumer_count queue_metrics", "queue_consumers", "Consumers on a queue", func(n *queueCounts) int64 { return n.consumers }},
	{"queue_metrics", "queue_messages_ready_bytes", "Size in bytes of ready messages", func(n *queueCounts) int64 { return n.readyBytes }},
}

type queueCounts struct{ ready, unacked, consumers, readyBytes int64 }

func (s *scrape) queues() (queues, consumers int) {
	metrics := make([]*metric, len(queueFigures))
	for i, f := range queueFigures {
		metrics[i] = s.metric(f.family, f.name, "gauge", f.help)
	}
	for _, v := range s.vhosts() {
		for _, u := range v.Queues() {
			n := u.Counts()
			queues, consumers = queues+1, consumers+n.Consumers
			c := &queueCounts{int64(n.Ready), int64(n.Unacked), int64(n.Consumers), n.ReadyBytes}
			l := labels("vhost", v.Name, "queue", u.Name)
			for i, f := range queueFigures {
				metrics[i].add(l, float64(f.of(c)))
			}
		}
	}
	return queues, consumers
}

// channelFigures are what is told of each channel.
var channelFigures = []struct {
	name, help string
	of         func(*broker.ChannelDetails) int
}{
	{"channel_consumers", "Consumers on a channel", func(d *broker.ChannelDetails) int { return len(d.Consumers) }},
	{"channel_messages_unacked", "Delivered but not yet acknowledged messages", func(d *broker.ChannelDetails) int { return d.Unacknowledged }},
	{"channel_messages_unconfirmed", "Published but not yet confirmed messages", func(d *broker.ChannelDetails) int { return d.Unconfirmed }},
	{"channel_messages_uncommitted", "Messages received in a transaction but not yet committed", func(d *broker.ChannelDetails) int { return d.Uncommitted }},
	{"channel_acks_uncommitted", "Message acknowledgements in a transaction not yet committed", func(d *broker.ChannelDetails) int { return d.UncommittedAcks }},
	{"consumer_prefetch", "Limit of unacknowledged messages for each consumer", func(d *broker.ChannelDetails) int { return d.Prefetch }},
	{"channel_prefetch", "Total limit of unacknowledged messages for all consumers on a channel", func(d *broker.ChannelDetails) int { return d.GlobalPrefetch }},
}

// sessions tells of channels and connections. RabbitMQ's label for both is
// channel, its value the name of an Erlang process; here it is the name that the
// management API shows.
func (s *scrape) sessions() (connections, channels int) {
	ofChannel := make([]*metric, len(channelFigures))
	for i, f := range channelFigures {
		ofChannel[i] = s.metric("channel_metrics", f.name, "gauge", f.help)
	}
	in := s.metric("connection_coarse_metrics", "connection_incoming_bytes_total", "counter", "Total number of bytes received on a connection")
	out := s.metric("connection_coarse_metrics", "connection_outgoing_bytes_total", "counter", "Total number of bytes sent on a connection")
	count := s.metric("connection_metrics", "connection_channels", "gauge", "Channels on a connection")
	for _, session := range s.broker.Sessions() {
		d := session.Details()
		l := labels("channel", d.Name)
		in.add(l, float64(d.Received))
		out.add(l, float64(d.Sent))
		count.add(l, float64(len(d.Channels)))
		connections, channels = connections+1, channels+len(d.Channels)
		for i := range d.Channels {
			l := labels("channel", fmt.Sprintf("%s (%d)", d.Name, d.Channels[i].Number))
			for k, f := range channelFigures {
				ofChannel[k].add(l, float64(f.of(&d.Channels[i])))
			}
		}
	}
	return connections, channels
}

// global is what never becomes less when queues and connections go.
func (s *scrape) global(consumers int) {
	const protocol = "amqp091"
	t := s.broker.Totals()
	g := func(name, kind, help string) *metric {
		m := s.metric("", "global_"+name, kind, help)
		m.whole = true
		return m
	}
	g("consumers", "gauge", "Current number of consumers").add(labels("protocol", protocol), float64(consumers))
	acked := g("messages_acknowledged_total", "counter", "Total number of messages acknowledged by consumers")
	delivered := g("messages_delivered_total", "counter", "Total number of messages delivered to consumers")
	var routed uint64
	for _, typ := range sortedKeys(t.Routed) {
		l := labels("protocol", protocol, "queue_type", "rabbit_"+typ+"_queue")
		acked.add(l, float64(t.Acknowledged[typ]))
		delivered.add(l, float64(t.Delivered[typ]))
		routed += t.Routed[typ]
	}
	g("messages_routed_total", "counter", "Total number of messages routed to queues or streams").add(labels("protocol", protocol), float64(routed))
}

// topology is what /metrics/detailed tells of virtual hosts and exchanges,
// under another prefix.
func (s *scrape) topology() {
	status := s.metric("vhost_status", "vhost_status", "gauge", "Whether a given vhost is running")
	names := s.metric("exchange_names", "exchange_name", "gauge", "Enumerates exchanges without any additional info. This value is cluster-wide. A cheaper alternative to `exchange_bindings`")
	bindings := s.metric("exchange_bindings", "exchange_bindings", "gauge", "Number of bindings for an exchange. This value is cluster-wide.")
	for _, v := range s.vhosts() {
		status.add(labels("vhost", v.Name), 1)
		count := map[string]int{}
		for _, b := range v.Bindings() {
			count[b.Source]++
		}
		for _, x := range v.Exchanges() {
			if x.Name == "" {
				continue
			}
			l := labels("vhost", v.Name, "exchange", x.Name, "type", x.Type)
			names.add(l, 1)
			bindings.add(l, float64(count[x.Name]))
		}
	}
}

// prefix is what a metric's name begins with.
func (s *scrape) prefix(m *metric) string {
	switch {
	case !s.detailed || m.family == "":
		return "rabbitmq_"
	case strings.HasPrefix(m.name, "vhost_") || strings.HasPrefix(m.name, "exchange_"):
		return "rabbitmq_cluster_"
	}
	return "rabbitmq_detailed_"
}

// wanted says whether a metric is in the answer.
func (s *scrape) wanted(m *metric) bool {
	return !s.detailed || m.family == "" || slices.ContainsFunc(strings.Fields(m.family), func(f string) bool {
		return slices.Contains(s.query["family"], f)
	})
}

func (s *scrape) text() []byte {
	var b bytes.Buffer
	for _, m := range s.metrics {
		if !s.wanted(m) {
			continue
		}
		name := s.prefix(m) + m.name
		fmt.Fprintf(&b, "# TYPE %s %s\n# HELP %s %s\n", name, m.kind, name, m.help)
		samples := m.samples
		if s.sum && !m.whole {
			total := 0.0
			for _, one := range samples {
				total += one.value
			}
			samples = []sample{{"", total}}
		}
		for _, one := range samples {
			b.WriteString(name + one.labels + " " + strconv.FormatFloat(one.value, 'f', -1, 64) + "\n")
		}
	}
	return b.Bytes()
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labels writes names and values.
func labels(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(pairs[i] + `="` + labelEscapes.Replace(pairs[i+1]) + `"`)
	}
	return "{" + b.String() + "}"
}
