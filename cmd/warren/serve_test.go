package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// asWarren in the environment makes the test binary the broker's binary.
const asWarren = "WARREN_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asWarren) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func command(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asWarren+"=1")
	return c
}

// child is a broker in a process of its own.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	ready string // its ready file
	amqp  string

	mu  sync.Mutex
	log bytes.Buffer
}

func (c *child) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(b)
}

func (c *child) output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

// start runs warren serve and waits for the log line that says that clients can
// connect.
func start(t *testing.T, args ...string) *child {
	t.Helper()
	c := &child{t: t}
	logs, logEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.ready = filepath.Join(t.TempDir(), "ready")
	c.cmd = command(append([]string{"serve", "--listen", "127.0.0.1:0", "--ready-file", c.ready}, args...)...)
	c.cmd.Stdout, c.cmd.Stderr = logEnd, c
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	logEnd.Close()
	started := make(chan struct{})
	go c.follow(logs, started)
	t.Cleanup(func() { c.cmd.Process.Kill(); c.cmd.Wait() })
	<-started
	c.readReady(c.ready)
	return c
}

// follow copies the log and says when the broker reports that it has started,
// or has ended.
func (c *child) follow(logs io.ReadCloser, started chan struct{}) {
	defer logs.Close()
	once := sync.OnceFunc(func() { close(started) })
	defer once()
	buf := make([]byte, 4096)
	for {
		n, err := logs.Read(buf)
		c.Write(buf[:n])
		if strings.Contains(c.output(), "Server startup complete") {
			once()
		}
		if err != nil {
			return
		}
	}
}

// readReady reads the ready file, which is there before the log line is.
func (c *child) readReady(file string) {
	c.t.Helper()
	var r struct {
		AMQP string
		PID  int
	}
	b, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatalf("%v\n%s", err, c.output())
	}
	if err := json.Unmarshal(b, &r); err != nil || r.PID != c.cmd.Process.Pid {
		c.t.Fatalf("ready file %q: %v", b, err)
	}
	c.amqp = r.AMQP
}

func (c *child) dial() *amqp091.Connection {
	c.t.Helper()
	conn, err := amqp091.Dial("amqp://guest:guest@" + c.amqp + "/")
	if err != nil {
		c.t.Fatalf("%v\n%s", err, c.output())
	}
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

func channel(t *testing.T, conn *amqp091.Connection) *amqp091.Channel {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// fill publishes n confirmed persistent messages to a durable queue.
func fill(t *testing.T, ch *amqp091.Channel, n int) {
	t.Helper()
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	var last *amqp091.DeferredConfirmation
	for i := range n {
		c, err := ch.PublishWithDeferredConfirm("", "q", true, false, amqp091.Publishing{DeliveryMode: 2, Body: fmt.Append(nil, i)})
		if err != nil {
			t.Fatal(err)
		}
		last = c
	}
	if ok, err := last.WaitContext(context.Background()); err != nil || !ok {
		t.Fatalf("confirm: %v, %v", ok, err)
	}
}

// drained gets everything in q and says what came back.
func drained(t *testing.T, ch *amqp091.Channel) (bodies []string, redelivered int) {
	t.Helper()
	for {
		d, ok, err := ch.Get("q", true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return bodies, redelivered
		}
		bodies = append(bodies, string(d.Body))
		if d.Redelivered {
			redelivered++
		}
	}
}

// TestStopAndKill: confirmed persistent messages are there, in order, after
// SIGTERM and after SIGKILL; SIGTERM closes clients with 320 and exits with 0.
func TestStopAndKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, "--data-dir", dir)
	conn := c.dial()
	closed := conn.NotifyClose(make(chan *amqp091.Error, 1))
	fill(t, channel(t, conn), 100)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if e := <-closed; e == nil || e.Code != 320 || e.Reason != "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'" {
		t.Errorf("closed with %v", e)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, c.output())
	}

	c = start(t, "--data-dir", dir)
	bodies, redelivered := drained(t, channel(t, c.dial()))
	if len(bodies) != 100 || bodies[0] != "0" || bodies[99] != "99" || redelivered != 0 {
		t.Errorf("after SIGTERM: %d messages, %d redelivered, %v", len(bodies), redelivered, bodies)
	}
	fill(t, channel(t, c.dial()), 50)
	c.cmd.Process.Kill()
	c.cmd.Wait()

	c = start(t, "--data-dir", dir)
	bodies, redelivered = drained(t, channel(t, c.dial()))
	if len(bodies) < 50 || bodies[len(bodies)-50] != "0" || bodies[len(bodies)-1] != "49" || redelivered != len(bodies) {
		t.Errorf("after SIGKILL: %d messages, %d redelivered, %v", len(bodies), redelivered, bodies)
	}
}

// TestSameFolder: a second broker on the same folder says so.
func TestSameFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, "--data-dir", dir)
	out, err := command("serve", "--data-dir", dir, "--listen", "127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), dir) {
		t.Errorf("second broker: %v\n%s", err, out)
	}
}

// TestReadyFile: a ready file is there exactly while clients can connect; that
// of a broker that was killed does not mislead who waits for the next.
func TestReadyFile(t *testing.T) {
	t.Parallel()
	ready := filepath.Join(t.TempDir(), "ready")
	if err := os.WriteFile(ready, []byte("stale"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := command("serve", "--memory", "--listen", "nowhere:x", "--ready-file", ready).CombinedOutput()
	if _, statErr := os.Stat(ready); err == nil || !errors.Is(statErr, fs.ErrNotExist) {
		t.Errorf("after a start that failed (%v): %v\n%s", err, statErr, out)
	}
	c := start(t, "--memory")
	if b, err := os.ReadFile(c.ready); err != nil || !json.Valid(b) {
		t.Errorf("while it runs: %q, %v", b, err)
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, c.output())
	}
	if _, err := os.Stat(c.ready); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the stop: %v", err)
	}
}

// TestSignalTwice: signals that come together are one wish, and the stop stays
// a clean one.
func TestSignalTwice(t *testing.T) {
	t.Parallel()
	c := start(t, "--data-dir", t.TempDir())
	fill(t, channel(t, c.dial()), 100)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGTERM} {
		if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, c.output())
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	notFolder := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notFolder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "--compat", "5"}, `unknown compatibility profile "5"`},
		{[]string{"serve", "--memory", "--listen", "off"}, "nothing to listen on"},
		{[]string{"serve", "--memory", "--listen", "nowhere:x"}, "listen for amqp"},
		{[]string{"serve", "--memory", "--tls-listen", "127.0.0.1:0"}, "--tls-listen needs --tls-cert and --tls-key"},
		{[]string{"serve", "--memory", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0", "--tls-cert", "no.pem", "--tls-key", "no.pem"}, "no.pem"},
		{[]string{"serve", "--memory", "--log-level", "loud"}, `unknown --log-level "loud"`},
		{[]string{"serve", "--memory", "--log-format", "xml"}, `unknown --log-format "xml"`},
		{[]string{"serve", "--memory", "--default-queue-type", "bogus"}, `unknown --default-queue-type "bogus"`},
		{[]string{"serve", "--memory", "--connection-max", "-1"}, "a limit is below 0"},
		{[]string{"serve", "--memory", "--tls-login-from", "x"}, `unknown --tls-login-from "x"`},
		{[]string{"serve", "--data-dir", notFolder, "--listen", "127.0.0.1:0"}, notFolder},
		{[]string{"serve", "now"}, `serve takes no arguments, got "now"`},
		{[]string{"serve", "--bogus"}, "flag provided but not defined"},
	} {
		out, err := command(c.args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: %v\n%s\nwant %q", c.args, err, out, c.want)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	out, err := command("--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "warren version ") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestEnvironment: RabbitMQ's variables work, and flags win over them.
func TestEnvironment(t *testing.T) {
	t.Setenv("RABBITMQ_DEFAULT_USER", "me")
	t.Setenv("RABBITMQ_DEFAULT_PASS", "secret")
	t.Setenv("RABBITMQ_DEFAULT_VHOST", "mine")
	t.Setenv("RABBITMQ_NODE_PORT", "1")
	c := start(t, "--memory", "--compat", "3")
	conn, err := amqp091.Dial("amqp://me:secret@" + c.amqp + "/mine")
	if err != nil {
		t.Fatalf("%v\n%s", err, c.output())
	}
	defer conn.Close()
	if v := conn.Properties["version"]; v != "3.10.8" {
		t.Errorf("version %v", v)
	}
}
