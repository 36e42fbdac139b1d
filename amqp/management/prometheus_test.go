package management_test

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/amqp/management"
	"github.com/warrenmq/warren/frames/compat"
)

// metricsOf serves the API and the metrics of one broker.
func metricsOf(t *testing.T) (api *httptest.Server, scrape func(path string) (status int, text string)) {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	b, err := broker.Open(broker.Options{Profile: compat.V3, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	api = httptest.NewServer(management.New(management.Options{Broker: b, Logger: quiet, Version: "test"}))
	t.Cleanup(func() {
		api.Close()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	m := management.NewMetrics(b)
	return api, func(path string) (int, string) {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code, w.Body.String()
	}
}

func steps(t *testing.T, api *httptest.Server, all ...[3]string) {
	t.Helper()
	for _, x := range all {
		if status, answer, _ := call(t, api, "guest:guest", x[0], x[1], x[2]); status/100 != 2 {
			t.Fatalf("%s %s: %d %s", x[0], x[1], status, answer)
		}
	}
}

const post = `{"properties":{},"routing_key":"q","payload":"hello","payload_encoding":"string"}`

// The values are those that 3.10.8's plugin gives for the same.
func TestMetrics(t *testing.T) {
	t.Parallel()
	api, scrape := metricsOf(t)
	steps(t, api, [3]string{"PUT", "/queues/%2F/q", `{"durable":true}`}, [3]string{"PUT", "/queues/%2F/r", `{"durable":true}`},
		[3]string{"PUT", "/vhosts/a%22b", ``}, [3]string{"PUT", "/queues/a%22b/q", ``},
		[3]string{"POST", "/exchanges/%2F/amq.default/publish", post}, [3]string{"POST", "/exchanges/%2F/amq.default/publish", post},
		[3]string{"POST", "/exchanges/%2F/amq.default/publish", post},
		[3]string{"POST", "/queues/%2F/q/get", `{"count":1,"ackmode":"ack_requeue_false","encoding":"auto"}`},
		[3]string{"POST", "/bindings/%2F/e/amq.topic/q/q", `{}`}, [3]string{"DELETE", "/queues/%2F/r", ``})
	const detailed = "/metrics/detailed?family=queue_coarse_metrics&family=exchange_bindings&vhost=%2F"
	for _, c := range []struct {
		path      string
		have, not []string
	}{
		{"/metrics", []string{
			"rabbitmq_queue_messages_ready 2", "rabbitmq_queue_messages_unacked 0", "rabbitmq_queue_messages 2", "rabbitmq_queue_messages_ready_bytes 10",
			"rabbitmq_queues 2", "rabbitmq_queues_created_total 3", "rabbitmq_queues_deleted_total 1", "rabbitmq_connections 0", "rabbitmq_channels 0",
			"rabbitmq_consumers 0", `rabbitmq_global_messages_routed_total{protocol="amqp091"} 3`,
			`rabbitmq_global_messages_delivered_total{protocol="amqp091",queue_type="rabbit_classic_queue"} 1`,
			`rabbitmq_global_messages_acknowledged_total{protocol="amqp091",queue_type="rabbit_classic_queue"} 1`,
		}, []string{"queue=", "rabbitmq_detailed"}},
		{"/metrics/per-object", []string{
			`rabbitmq_queue_messages_ready{vhost="/",queue="q"} 2`, `rabbitmq_queue_messages_ready{vhost="a\"b",queue="q"} 0`, "rabbitmq_queues 2",
		}, []string{"rabbitmq_queue_messages_ready 2"}},
		{detailed, []string{
			`rabbitmq_detailed_queue_messages_ready{vhost="/",queue="q"} 2`, `rabbitmq_cluster_exchange_bindings{vhost="/",exchange="amq.topic",type="topic"} 1`,
		}, []string{"rabbitmq_detailed_queue_consumers", `a\"b`, "rabbitmq_queues", "rabbitmq_cluster_vhost_status"}},
	} {
		status, text := scrape(c.path)
		lines := strings.Split(text, "\n")
		for _, l := range c.have {
			if !slices.Contains(lines, l) {
				t.Errorf("%s: no line %s", c.path, l)
			}
		}
		for _, l := range c.not {
			if strings.Contains(text, l) {
				t.Errorf("%s: there is %s", c.path, l)
			}
		}
		if status != 200 || !strings.Contains(text, `rabbitmq_build_info{rabbitmq_version="3.10.8"`) {
			t.Errorf("%s: status %d, or no build info", c.path, status)
		}
	}
	for path, answer := range map[string]string{"/metrics/zz": "Unknown Registry", "/": `{"error":"Object Not Found","reason":"Not Found"}`} {
		if status, text := scrape(path); status != 404 || strings.TrimSpace(text) != answer {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// What was counted stays counted when the queue goes, and its name is used anew.
func TestTotalsOutliveQueues(t *testing.T) {
	t.Parallel()
	api, scrape := metricsOf(t)
	for range 2 {
		steps(t, api, [3]string{"PUT", "/queues/%2F/q", ``}, [3]string{"POST", "/exchanges/%2F/amq.default/publish", post}, [3]string{"DELETE", "/queues/%2F/q", ``})
	}
	steps(t, api, [3]string{"PUT", "/vhosts/v", ``}, [3]string{"PUT", "/queues/v/q", ``},
		[3]string{"POST", "/exchanges/v/amq.default/publish", post}, [3]string{"DELETE", "/vhosts/v", ``})
	for range 2 {
		if _, text := scrape("/metrics"); !strings.Contains(text, "rabbitmq_global_messages_routed_total{protocol=\"amqp091\"} 3\n") {
			t.Errorf("routed: want 3 in\n%s", text)
		}
	}
}

// testdata/metrics.txt has types and help of 3.10.8's metrics: each of ours
// must be one of them.
func TestMetricNames(t *testing.T) {
	t.Parallel()
	known, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(string(known), "\n")
	_, scrape := metricsOf(t)
	seen := 0
	for _, path := range []string{"/metrics", "/metrics/detailed?family=queue_coarse_metrics&family=queue_metrics&family=channel_metrics&family=connection_metrics&family=connection_coarse_metrics&family=vhost_status&family=exchange_names&family=exchange_bindings"} {
		_, text := scrape(path)
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "#") {
				seen++
				if !slices.Contains(all, strings.TrimSpace(line)) {
					t.Errorf("%s: RabbitMQ has no %s", path, line)
				}
			}
		}
	}
	if seen < 80 {
		t.Errorf("only %d lines", seen)
	}
}
