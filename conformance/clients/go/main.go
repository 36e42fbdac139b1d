package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// patience bounds each wait for something that the broker is to send. It is far
// above what a broker needs, so that only a message that never comes meets it; the
// driver's own limit bounds the whole program.
const patience = 30 * time.Second

// run is one walk through the steps against one broker.
type run struct {
	// Immutable after newRun.
	uri      string
	profile4 bool   // the broker refuses what RabbitMQ 4 refuses
	restart  string // shell command that restarts the broker and waits for it
	exchange string
	queue    string

	// Owned by the main goroutine; replaced by steps that lose their channel.
	conn *amqp.Connection
	ch   *amqp.Channel
}

// newRun reads what the driver says in the environment.
func newRun() (*run, error) {
	r := &run{uri: os.Getenv("AMQP_URI"), restart: os.Getenv("RESTART")}
	switch c := os.Getenv("COMPAT"); c {
	case "3":
	case "4":
		r.profile4 = true
	default:
		return nil, fmt.Errorf("COMPAT is %q, want 3 or 4", c)
	}
	if r.uri == "" || r.restart == "" {
		return nil, fmt.Errorf("AMQP_URI and RESTART must be set")
	}
	prefix := fmt.Sprintf("clients.go.%d.%d", os.Getpid(), time.Now().UnixNano())
	r.exchange, r.queue = prefix+".exchange", prefix+".queue"
	return r, nil
}

// restartBroker blocks until the broker has gone and come back.
func (r *run) restartBroker() error {
	out, err := exec.Command("sh", "-c", r.restart).CombinedOutput()
	if err != nil {
		return fmt.Errorf("restart the broker: %w: %s", err, out)
	}
	return nil
}

// libraryVersion is the version of the client that this program was built with.
func libraryVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/rabbitmq/amqp091-go" {
			return m.Version
		}
	}
	return "unknown"
}

func main() {
	fmt.Println("client amqp091-go", libraryVersion())
	r, err := newRun()
	if err != nil {
		fmt.Println("FAIL setup:", err)
		os.Exit(1)
	}
	steps := []struct {
		name string
		take func() error
	}{
		{"connect", r.connect},
		{"declare", r.declare},
		{"bind", r.bind},
		{"publish-confirm", r.publishConfirm},
		{"consume-ack", r.consumeAck},
		{"nack-requeue", r.nackRequeue},
		{"get", r.get},
		{"mandatory-return", r.mandatoryReturn},
		{"headers", r.headers},
		{"body-12MiB", r.body12MiB},
		{"body-20MiB", r.body20MiB},
		{"channel-error", r.channelError},
		{"restart", r.restartRecovery},
		{"delete", r.delete},
	}
	for _, s := range steps {
		if err := s.take(); err != nil {
			fmt.Printf("FAIL %s: %v\n", s.name, err)
			os.Exit(1)
		}
		fmt.Println("ok", s.name)
	}
}
