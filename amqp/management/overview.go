package management

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames/compat"
)

// nodeName stands where RabbitMQ has the name of an Erlang node.
const nodeName = "warren@localhost"

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func overview(q *request) (any, error) {
	b := q.api.broker
	version := compat.Version.In(b.Profile)
	o := object{
		"management_version": version, "rabbitmq_version": version, "product_version": version, "product_name": "RabbitMQ",
		"warren_version": q.api.options.Version, "erlang_version": "", "erlang_full_version": "", "cluster_name": q.api.clusterNameOf(), "node": nodeName,
		"rates_mode": "basic", "sample_retention_policies": object{"global": []int{600, 3600, 28800, 86400}, "basic": []int{600, 3600}, "detailed": []int{600}},
		"exchange_types": exchangeTypes(b), "disable_stats": false, "enable_queue_totals": false, "statistics_db_event_queue": 0,
		"message_stats": object{}, "churn_rates": object{},
	}
	if q.api.v4() {
		for _, k := range []string{"cluster_tags", "node_tags"} {
			o[k] = []any{}
		}
		o["default_queue_type"], o["crypto_lib_version"] = "classic", ""
		o["is_op_policy_updating_enabled"], o["require_definition_json_extension"] = true, false
	} else {
		o["release_series_support_status"] = "supported"
	}
	q.addTotals(o)
	if q.is("monitoring") {
		o["listeners"], o["contexts"] = q.listeners()
	}
	return q.one(o)
}

// addTotals sums up what the user may see.
func (q *request) addTotals(o object) {
	var ready, unacked, consumers, exchanges, queues, channels, connections int
	var published, delivered, acked uint64
	for _, v := range q.vhosts() {
		exchanges += len(v.Exchanges())
		for _, u := range v.Queues() {
			n := u.Counts()
			queues++
			ready, unacked, consumers = ready+n.Ready, unacked+n.Unacked, consumers+n.Consumers
			published, delivered, acked = published+n.Published, delivered+n.Delivered, acked+n.Acked
		}
	}
	for _, d := range q.sessions() {
		connections++
		channels += len(d.Channels)
	}
	o["queue_totals"] = object{"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}
	o["object_totals"] = object{"channels": channels, "connections": connections, "consumers": consumers, "exchanges": exchanges, "queues": queues}
	o["message_stats"] = messageStats(published, delivered, acked)
}

func messageStats(published, delivered, acked uint64) object {
	return object{"publish": published, "deliver_get": delivered, "ack": acked}
}

func exchangeTypes(b *broker.Broker) []object {
	var all []object
	for _, t := range b.ExchangeTypes() {
		all = append(all, object{"name": t, "description": "", "enabled": true})
	}
	return all
}

func (q *request) listeners() (listeners, contexts []object) {
	listeners, contexts = []object{}, []object{}
	for _, l := range q.api.options.Listeners() {
		listeners = append(listeners, object{"node": nodeName, "protocol": l.Protocol, "ip_address": l.IP, "port": l.Port, "socket_opts": object{}})
		if l.Protocol == "http" {
			contexts = append(contexts, object{"node": nodeName, "description": "RabbitMQ Management", "path": "/", "port": strconv.Itoa(l.Port), "ssl_opts": []any{}})
		}
	}
	return listeners, contexts
}

func extensions(*request) (any, error) { return []object{{"javascript": "dispatcher.js"}}, nil }

func whoami(q *request) (any, error) {
	o := object{"name": q.user.Name, "tags": tags(q.user)}
	if q.api.v4() {
		o["is_internal_user"] = true
	}
	return o, nil
}

func tags(u auth.User) []string {
	if u.Tags == nil {
		return []string{}
	}
	return u.Tags
}

func version(q *request) (any, error) {
	if !q.api.v4() {
		return nil, errNotFound
	}
	return compat.Version.In(q.api.broker.Profile), nil
}

// node describes this process as RabbitMQ describes a node.
func (q *request) node() object {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b := q.api.broker
	o := object{
		"name": nodeName, "type": "disc", "running": true, "os_pid": strconv.Itoa(os.Getpid()), "processors": runtime.GOMAXPROCS(0),
		"uptime": b.Uptime().Milliseconds(), "mem_used": m.Sys - m.HeapReleased, "run_queue": 0, "proc_used": runtime.NumGoroutine(),
		"proc_total": 1048576, "net_ticktime": 60, "partitions": []any{}, "cluster_links": []any{}, "log_files": []any{}, "config_files": []any{},
		"db_dir": "", "rates_mode": "basic", "auth_mechanisms": []any{}, "applications": []any{}, "enabled_plugins": []string{"rabbitmq_management"},
		"exchange_types": exchangeTypes(b), "contexts": []any{},
	}
	addUsage(o, b)
	if q.api.v4() {
		o["being_drained"], o["rabbitmq_version"] = false, compat.Version.In(b.Profile)
	}
	return o
}

func nodes(q *request) (any, error) { return q.list([]object{q.node()}) }

func oneNode(q *request) (any, error) {
	if q.PathValue("node") != nodeName {
		return nil, errNotFound
	}
	return q.one(q.node())
}

func healthy(*request) (any, error) { return object{"status": "ok"}, nil }

func aliveness(q *request) (any, error) { return object{"status": "ok"}, nil }

// healthCheck does those checks that mean something on one node.
func healthCheck(q *request) (any, error) {
	switch q.PathValue("check") {
	case "alarms":
		return q.alarmCheck("in the cluster")
	case "local-alarms":
		return q.alarmCheck("on the node")
	case "virtual-hosts", "node-is-mirror-sync-critical":
		return healthy(q)
	case "node-is-quorum-critical":
		return object{"status": "ok", "reason": "single node cluster"}, nil
	case "certificate-expiration":
		if !slices.Contains([]string{"days", "weeks", "months", "years"}, q.PathValue("unit")) {
			return nil, badRequest("Time unit not recognised. Supported units: days, weeks, months, years.")
		}
		return healthy(q)
	case "port-listener":
		return q.portListener()
	case "protocol-listener":
		return q.protocolListener()
	case "is-in-service", "ready-to-serve-clients", "below-node-connection-limit", "metadata-store", "quorum-queues-without-elected-leaders":
		if q.api.v4() {
			return healthy(q)
		}
	}
	return nil, errNotFound
}

func (q *request) portListener() (any, error) {
	port, err := strconv.Atoi(q.PathValue("argument"))
	if err != nil {
		return nil, badRequest("Invalid port")
	}
	ports := []int{}
	for _, l := range q.api.options.Listeners() {
		if l.Port == port {
			return object{"status": "ok", "port": port}, nil
		}
		ports = append(ports, l.Port)
	}
	return q.unhealthy(object{"status": "failed", "reason": "No active listener", "missing": port, "ports": ports})
}

func (q *request) protocolListener() (any, error) {
	name := q.PathValue("argument")
	protocols := []string{}
	for _, l := range q.api.options.Listeners() {
		if l.Protocol == name {
			if q.api.v4() {
				return object{"status": "ok", "protocols": q.protocols()}, nil
			}
			return object{"status": "ok", "protocol": name}, nil
		}
		protocols = append(protocols, l.Protocol)
	}
	var missing any = name
	if q.api.v4() {
		missing = []string{name}
	}
	return q.unhealthy(object{"status": "failed", "reason": "No active listener", "missing": missing, "protocols": protocols})
}

func (q *request) protocols() (all []string) {
	for _, l := range q.api.options.Listeners() {
		all = append(all, l.Protocol)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// unhealthy answers with 503 and a body of its own shape.
func (q *request) unhealthy(o object) (any, error) {
	q.status = 503
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode health check: %w", err)
	}
	return json.RawMessage(text), nil
}

func hashPassword(q *request) (any, error) {
	if !q.api.v4() {
		return nil, errNotFound
	}
	return object{"ok": auth.HashPassword(q.PathValue("password"))}, nil
}
