package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// patience bounds every wait for a broker.
const patience = 20 * time.Second

// build makes the binary with build tags and gives its path.
func build(folder, tags string) (string, error) {
	binary := filepath.Join(folder, "warren")
	cmd := exec.Command("go", "build", "-tags", tags, "-o", binary, "github.com/warrenmq/warren/cmd/warren")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build warren with tags %q: %w\n%s", tags, err, out)
	}
	return binary, nil
}

// child is a running broker.
type child struct {
	cmd    *exec.Cmd
	uri    string
	log    bytes.Buffer // the child's own; to be read once exited is closed
	exited chan struct{}

	mu     sync.Mutex
	killed time.Time // zero: not yet
}

// start runs the binary on a data folder and waits until it serves.
func start(binary, data string, env []string, args ...string) (*child, error) {
	ready := filepath.Join(filepath.Dir(data), "ready.json")
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	b := &child{exited: make(chan struct{})}
	b.cmd = exec.Command(binary, append([]string{"serve", "--data-dir", data, "--listen", "127.0.0.1:0", "--management", "off", "--prometheus", "off", "--ready-file", ready}, args...)...)
	b.cmd.Env = append(os.Environ(), env...)
	b.cmd.Stdout, b.cmd.Stderr = &b.log, &b.log
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start broker: %w", err)
	}
	go func() {
		_ = b.cmd.Wait()
		b.mu.Lock()
		if b.killed.IsZero() { // by its own hand, at a commit point
			b.killed = time.Now()
		}
		b.mu.Unlock()
		close(b.exited)
	}()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		select {
		case <-b.exited:
			return nil, fmt.Errorf("broker ended while it started: %v\n%s", b.cmd.ProcessState, b.tail())
		default:
		}
		text, err := os.ReadFile(ready)
		var addresses struct{ AMQP string }
		if err == nil && json.Unmarshal(text, &addresses) == nil {
			b.uri = "amqp://guest:guest@" + addresses.AMQP + "/"
			return b, nil
		}
	}
	b.kill()
	return nil, fmt.Errorf("broker does not serve after %v\n%s", patience, b.tail())
}

// kill ends the broker with SIGKILL, if it has not ended by itself, and says
// when that was at the earliest.
func (b *child) kill() time.Time {
	b.mu.Lock()
	if b.killed.IsZero() {
		b.killed = time.Now()
	}
	b.mu.Unlock()
	_ = b.cmd.Process.Signal(syscall.SIGKILL)
	<-b.exited
	return b.killed
}

// bySIGKILL says whether the broker, which has exited, was ended by SIGKILL and
// not by a fault of its own.
func (b *child) bySIGKILL() bool {
	status, ok := b.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// tail is the end of the log of a broker that has exited.
func (b *child) tail() string {
	<-b.exited
	text := b.log.Bytes()
	return string(text[max(0, len(text)-4000):])
}

func (b *child) dial() (*amqp091.Connection, error) {
	c, err := amqp091.DialConfig(b.uri, amqp091.Config{Heartbeat: 30 * time.Second})
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return c, nil
}
