package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/amqp/management"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/persist"
	"github.com/warrenmq/warren/queue"
)

// serveConfig is what serve runs with; flags and environment fill it.
type serveConfig struct {
	dataDir             string
	memory              bool
	sync                persist.SyncPolicy
	compat              compat.Profile
	listen, tlsListen   string
	tlsCert, tlsKey     string
	tlsCA, certLogin    string
	management          string
	managementAsked     bool // the address was given, not the default
	prometheus          string
	prometheusAsked     bool
	user, pass, vhost   string
	loopbackUsers       []string
	maxMessageSize      uint64
	limits              serveLimits
	defaultQueueType    string
	defaultDeadLetters  string // exchange
	consumerTimeout     int64  // milliseconds; 0 is none
	maxUnacked          int
	bodyBudget          int64
	resources           broker.Limits
	logFormat, logLevel string
	readyFile           string
}

// serveLimits are the limits of the node; 0 is none.
type serveLimits struct{ connections, channels, consumers, exchanges int }

// off turns a listener off.
const off = "off"

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run the broker",
		Description: "Runs the broker until SIGINT or SIGTERM, which close every connection with 320 and the\n" +
			"store cleanly; a signal half a second later or more ends it at once. Flags win over environment variables.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "data-dir", Value: "warren-data", EnvVars: []string{"WARREN_DATA_DIR"}, Usage: "keep durable queues, exchanges, users and persistent messages in `DIR`"},
			&cli.BoolFlag{Name: "memory", EnvVars: []string{"WARREN_MEMORY"}, Usage: "keep nothing on disk"},
			&cli.StringFlag{Name: "sync", Value: "always", EnvVars: []string{"WARREN_SYNC"}, Usage: "when a commit is forced to the disk: always (before its confirms), interval (once a second) or never (the operating system's choice); only always survives a power loss"},
			&cli.StringFlag{Name: "compat", Value: "4", EnvVars: []string{"WARREN_COMPAT"}, Usage: "behave as RabbitMQ 3 (3.10.8) or 4 (4.3.6) does"},
			&cli.StringFlag{Name: "listen", Value: ":5672", EnvVars: []string{"WARREN_LISTEN"}, Usage: "take AMQP connections on `ADDR`; port 0 is a free one, off is none"},
			&cli.StringFlag{Name: "tls-listen", Value: off, EnvVars: []string{"WARREN_TLS_LISTEN"}, Usage: "take AMQP connections over TLS on `ADDR`"},
			&cli.StringFlag{Name: "tls-cert", EnvVars: []string{"WARREN_TLS_CERT"}, Usage: "PEM `FILE` with the server's certificate chain"},
			&cli.StringFlag{Name: "tls-key", EnvVars: []string{"WARREN_TLS_KEY"}, Usage: "PEM `FILE` with its key"},
			&cli.StringFlag{Name: "tls-ca", EnvVars: []string{"WARREN_TLS_CA"}, Usage: "PEM `FILE` with the authorities of client certificates, for SASL EXTERNAL"},
			&cli.StringFlag{Name: "tls-login-from", Value: "distinguished_name", EnvVars: []string{"WARREN_TLS_LOGIN_FROM"}, Usage: "SASL EXTERNAL's user name: distinguished_name or common_name of the certificate"},
			&cli.StringFlag{Name: "management", Value: ":15672", EnvVars: []string{"WARREN_MANAGEMENT"}, Usage: "serve RabbitMQ's HTTP management API on `ADDR`; off is none. The default is given up with a warning when the port is taken"},
			&cli.StringFlag{Name: "prometheus", Value: ":15692", EnvVars: []string{"WARREN_PROMETHEUS"}, Usage: "serve figures for Prometheus on `ADDR`, without login; off is none. The default is given up with a warning when the port is taken"},
			&cli.StringFlag{Name: "default-user", Value: "guest", EnvVars: []string{"WARREN_DEFAULT_USER", "RABBITMQ_DEFAULT_USER"}, Usage: "`NAME` of the administrator made on the first start"},
			&cli.StringFlag{Name: "default-pass", Value: "guest", EnvVars: []string{"WARREN_DEFAULT_PASS", "RABBITMQ_DEFAULT_PASS"}, Usage: "its `PASSWORD`"},
			&cli.StringFlag{Name: "default-vhost", Value: "/", EnvVars: []string{"WARREN_DEFAULT_VHOST", "RABBITMQ_DEFAULT_VHOST"}, Usage: "`NAME` of the virtual host made on the first start"},
			&cli.StringSliceFlag{Name: "loopback-users", Value: cli.NewStringSlice("guest"), EnvVars: []string{"WARREN_LOOPBACK_USERS"}, Usage: "users that may log in over loopback only; none for nobody"},
			&cli.Uint64Flag{Name: "max-message-size", EnvVars: []string{"WARREN_MAX_MESSAGE_SIZE"}, Usage: "largest message body in `BYTES`; 0 is the profile's (128 MiB for 3, 16 MiB for 4)"},
			&cli.IntFlag{Name: "connection-max", EnvVars: []string{"WARREN_CONNECTION_MAX"}, Usage: "most connections, a `NUMBER`; 0 is no limit"},
			&cli.IntFlag{Name: "channel-max-per-node", EnvVars: []string{"WARREN_CHANNEL_MAX_PER_NODE"}, Usage: "most channels of all connections, a `NUMBER`; 0 is no limit"},
			&cli.IntFlag{Name: "consumer-max-per-channel", EnvVars: []string{"WARREN_CONSUMER_MAX_PER_CHANNEL"}, Usage: "most consumers of a channel, a `NUMBER`; 0 is no limit"},
			&cli.IntFlag{Name: "exchange-limit", EnvVars: []string{"WARREN_EXCHANGE_LIMIT"}, Usage: "most exchanges of all virtual hosts, a `NUMBER`; 0 is no limit"},
			&cli.StringFlag{Name: "default-queue-type", EnvVars: []string{"WARREN_DEFAULT_QUEUE_TYPE"}, Usage: "`TYPE` of queues declared without one, where the virtual host has no default: classic, quorum or stream (--compat 4)"},
			&cli.StringFlag{Name: "default-dead-letter-exchange", EnvVars: []string{"WARREN_DEFAULT_DEAD_LETTER_EXCHANGE"}, Usage: "`NAME` of the exchange that takes what dies in queues without a dead-letter exchange, where the virtual host has no setting"},
			&cli.Int64Flag{Name: "consumer-timeout", Value: 1_800_000, EnvVars: []string{"WARREN_CONSUMER_TIMEOUT"}, Usage: "let clients take so many `MS` to acknowledge a delivery; 0 is for ever"},
			&cli.IntFlag{Name: "connection-max-unacked", EnvVars: []string{"WARREN_CONNECTION_MAX_UNACKED"}, Usage: "most deliveries, `N`, that a connection may have unacknowledged on all its channels; 0 is no limit"},
			&cli.Int64Flag{Name: "body-budget", Value: queue.DefaultBodyBudget, EnvVars: []string{"WARREN_BODY_BUDGET"}, Usage: "keep waiting messages of `BYTES` in memory, all queues together; more goes to disk"},
			&cli.StringFlag{Name: "memory-high-watermark", Value: "0.4", EnvVars: []string{"WARREN_MEMORY_HIGH_WATERMARK"}, Usage: "hold publishers when this `FRACTION` of the memory, or a size such as 2GiB, is used; 0 is no limit"},
			&cli.StringFlag{Name: "disk-free-limit", Value: "50MB", EnvVars: []string{"WARREN_DISK_FREE_LIMIT"}, Usage: "hold publishers when fewer `BYTES` are free where the data is; never less than 210 MiB counts"},
			&cli.StringFlag{Name: "log-format", Value: "text", EnvVars: []string{"WARREN_LOG_FORMAT"}, Usage: "text or json"},
			&cli.StringFlag{Name: "log-level", Value: "info", EnvVars: []string{"WARREN_LOG_LEVEL"}, Usage: "debug, info, warn or error"},
			&cli.StringFlag{Name: "ready-file", EnvVars: []string{"WARREN_READY_FILE"}, Usage: "write the real addresses as JSON to `FILE` once clients can connect; it goes with the broker"},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("serve takes no arguments, got %q", c.Args().First())
			}
			config, err := readServeConfig(c)
			if err != nil {
				return err
			}
			return serve(config)
		},
	}
}

func readServeConfig(c *cli.Context) (serveConfig, error) {
	profile, err := compat.Parse(c.String("compat"))
	if err != nil {
		return serveConfig{}, err
	}
	policy, err := persist.ParseSyncPolicy(c.String("sync"))
	if err != nil {
		return serveConfig{}, fmt.Errorf("--sync: %w", err)
	}
	s := serveConfig{
		dataDir: c.String("data-dir"), memory: c.Bool("memory"), sync: policy, compat: profile,
		listen: listenAddress(c), tlsListen: c.String("tls-listen"),
		management: c.String("management"), managementAsked: c.IsSet("management"),
		prometheus: c.String("prometheus"), prometheusAsked: c.IsSet("prometheus"),
		tlsCert: c.String("tls-cert"), tlsKey: c.String("tls-key"), tlsCA: c.String("tls-ca"), certLogin: c.String("tls-login-from"),
		user: c.String("default-user"), pass: c.String("default-pass"), vhost: c.String("default-vhost"),
		loopbackUsers: c.StringSlice("loopback-users"), maxMessageSize: c.Uint64("max-message-size"),
		bodyBudget: c.Int64("body-budget"), maxUnacked: c.Int("connection-max-unacked"),
		limits: serveLimits{
			connections: c.Int("connection-max"), channels: c.Int("channel-max-per-node"),
			consumers: c.Int("consumer-max-per-channel"), exchanges: c.Int("exchange-limit"),
		},
		defaultQueueType: c.String("default-queue-type"), defaultDeadLetters: c.String("default-dead-letter-exchange"),
		consumerTimeout: c.Int64("consumer-timeout"),
		logFormat:       c.String("log-format"), logLevel: c.String("log-level"), readyFile: c.String("ready-file"),
	}
	if s.resources, err = broker.ParseLimits(c.String("memory-high-watermark"), c.String("disk-free-limit")); err != nil {
		return serveConfig{}, err
	}
	s.resources.SoftMemoryLimit = os.Getenv("GOMEMLIMIT") == "" // who sets that wants it so
	return s, s.validate()
}

// listenAddress honours RABBITMQ_NODE_PORT below the flag and WARREN_LISTEN.
func listenAddress(c *cli.Context) string {
	if port := os.Getenv("RABBITMQ_NODE_PORT"); port != "" && !c.IsSet("listen") {
		return ":" + port
	}
	return c.String("listen")
}

func (s *serveConfig) validate() error {
	if s.tlsListen != off && (s.tlsCert == "" || s.tlsKey == "") {
		return errors.New("--tls-listen needs --tls-cert and --tls-key")
	}
	if s.certLogin != "distinguished_name" && s.certLogin != "common_name" {
		return fmt.Errorf("unknown --tls-login-from %q: give distinguished_name or common_name", s.certLogin)
	}
	if s.consumerTimeout < 0 || s.consumerTimeout > math.MaxInt64/int64(time.Millisecond) {
		return fmt.Errorf("--consumer-timeout %d is out of range: give milliseconds, or 0 for none", s.consumerTimeout)
	}
	if s.maxUnacked < 0 {
		return fmt.Errorf("--connection-max-unacked %d is negative; 0 is no limit", s.maxUnacked)
	}
	if s.logFormat != "text" && s.logFormat != "json" {
		return fmt.Errorf("unknown --log-format %q: give text or json", s.logFormat)
	}
	switch s.defaultQueueType {
	case "", "classic", "quorum", "stream":
	default:
		return fmt.Errorf("unknown --default-queue-type %q: give classic, quorum or stream", s.defaultQueueType)
	}
	if l := s.limits; min(l.connections, l.channels, l.consumers, l.exchanges) < 0 {
		return errors.New("a limit is below 0: give 0 for no limit")
	}
	if s.bodyBudget <= 0 {
		return fmt.Errorf("--body-budget %d: give a number of bytes above 0", s.bodyBudget)
	}
	if s.listen == off && s.tlsListen == off {
		return errors.New("nothing to listen on: --listen and --tls-listen are both off")
	}
	return nil
}

func (s *serveConfig) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return nil, fmt.Errorf("unknown --log-level %q: give debug, info, warn or error", s.logLevel)
	}
	o := &slog.HandlerOptions{Level: level}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(os.Stdout, o)), nil
	}
	return slog.New(slog.NewTextHandler(os.Stdout, o)), nil
}

// node is a running broker.
type node struct {
	broker *broker.Broker
	server *amqp.Server
	web    []*http.Server // of the management API and of Prometheus
	log    *slog.Logger
	ready  map[string]any // of the ready file

	listeners []management.Listener // immutable once the broker is ready
	failed    chan error            // a listener or the store has failed
}

// serve runs the broker until a signal or a failure.
func serve(s serveConfig) error {
	log, err := s.logger()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	n, err := s.start(log)
	if err != nil {
		return err
	}
	select {
	case sig := <-signals:
		log.Info("stopping", "signal", sig.String())
		go endOnSecond(signals, log)
		return errors.Join(n.stop(), s.removeReadyFile())
	case err := <-n.failed:
		log.Error("the broker cannot go on", "error", err)
		return err
	}
}

// sameWish is how long after the first signal another one means the same:
// timeout(1), terminals and supervisors signal both the process and its group.
const sameWish = 500 * time.Millisecond

// endOnSecond ends the process when a signal comes while it is stopping.
func endOnSecond(signals <-chan os.Signal, log *slog.Logger) {
	time.Sleep(sameWish)
	for len(signals) > 0 {
		<-signals
	}
	<-signals
	log.Warn("second signal: ending at once")
	os.Exit(1)
}

// start opens the store and the listeners.
func (s *serveConfig) start(log *slog.Logger) (*node, error) {
	n := &node{log: log, failed: make(chan error, 4), ready: map[string]any{"pid": os.Getpid()}}
	if err := s.removeReadyFile(); err != nil {
		return nil, err
	}
	store, err := s.openStore(n)
	if err != nil {
		return nil, err
	}
	n.broker, err = broker.Open(broker.Options{
		Store: store, Profile: s.compat, Logger: log, MaxMessageSize: s.maxMessageSize, BodyBudget: s.bodyBudget,
		DefaultUser: s.user, DefaultPassword: s.pass, DefaultVHost: s.vhost,
		DefaultQueueType: s.defaultQueueType, DefaultDeadLetterExchange: s.defaultDeadLetters, ExchangeLimit: s.limits.exchanges,
	})
	if err != nil {
		return nil, err
	}
	n.broker.Watch(s.resources)
	n.server = amqp.NewServer(amqp.Options{
		Broker: n.broker, Logger: log, LoopbackUsers: s.loopbackUsers, CertLoginFrom: s.certLogin, Version: version,
		ConnectionMax: s.limits.connections, ChannelMaxPerNode: s.limits.channels, ConsumerMaxPerChannel: s.limits.consumers,
		ConsumerTimeout: timeoutOption(s.consumerTimeout),
		MaxUnacked:      s.maxUnacked,
	})
	if err := s.listenAll(n); err != nil {
		return nil, errors.Join(err, n.stop())
	}
	if err := errors.Join(s.serveManagement(n), s.servePrometheus(n)); err != nil {
		return nil, errors.Join(err, n.stop())
	}
	if err := s.writeReadyFile(n); err != nil {
		return nil, errors.Join(err, n.stop())
	}
	log.Info("Server startup complete", "version", version, "compat", s.compat.String())
	return n, nil
}

// timeoutOption turns milliseconds, of which 0 is none, into the server's
// option, of which 0 is the default.
func timeoutOption(ms int64) time.Duration {
	if ms == 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

func (s *serveConfig) openStore(n *node) (*persist.Store, error) {
	if s.memory {
		return nil, nil
	}
	return persist.Open(persist.Options{
		Dir: s.dataDir, Logger: n.log, Sync: s.sync,
		OnFatal: func(err error) { n.failed <- fmt.Errorf("store in %s: %w", s.dataDir, err) },
	})
}

func (s *serveConfig) listenAll(n *node) error {
	if s.listen != off {
		if err := n.listen("amqp", s.listen, nil); err != nil {
			return err
		}
	}
	if s.tlsListen == off {
		return nil
	}
	config, err := amqp.TLSConfig(s.tlsCert, s.tlsKey, s.tlsCA)
	if err != nil {
		return err
	}
	return n.listen("amqps", s.tlsListen, config)
}

// listen starts one listener; name is its key in the ready file.
func (n *node) listen(name, address string, config *tls.Config) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", name, err)
	}
	kind := "TCP"
	n.ready[name] = dialable(l.Addr())
	n.listensOn(map[string]string{"amqp": "amqp", "amqps": "amqp/ssl"}[name], l.Addr())
	if config != nil {
		kind = "TLS (SSL)"
		l = tls.NewListener(l, config)
	}
	n.log.Info(fmt.Sprintf("started %s listener on %s", kind, l.Addr()))
	go func() {
		if err := n.server.Serve(l); !errors.Is(err, amqp.ErrClosed) {
			n.failed <- err
		}
	}()
	return nil
}

// dialable is an address that a client on this machine can connect to.
func dialable(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
	}
	return a.String()
}

// writeReadyFile writes beside the file and renames, so that a reader never
// sees a half of it.
func (s *serveConfig) writeReadyFile(n *node) error {
	if s.readyFile == "" {
		return nil
	}
	b, err := json.Marshal(n.ready)
	if err != nil {
		return fmt.Errorf("write ready file: %w", err)
	}
	temp := s.readyFile + ".tmp"
	if err := os.WriteFile(temp, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write ready file: %w", err)
	}
	if err := os.Rename(temp, s.readyFile); err != nil {
		return fmt.Errorf("write ready file: %w", err)
	}
	return nil
}

// removeReadyFile takes back what a ready file says: at the start, that of a
// broker that was killed, and at the end this one's.
func (s *serveConfig) removeReadyFile() error {
	if s.readyFile == "" {
		return nil
	}
	if err := os.Remove(s.readyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove ready file: %w", err)
	}
	return nil
}

// shutdownGrace is how long clients have to answer connection.close; the whole
// stop stays under five seconds.
const shutdownGrace = 2 * time.Second

// stop closes connections, then the store.
func (n *node) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	for _, web := range n.web {
		_ = web.Close() // requests under way are cut off
	}
	n.server.Shutdown(ctx)
	if err := n.broker.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	n.log.Info("stopped")
	return nil
}
