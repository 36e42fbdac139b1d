package amqp

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/persist"
)

func TestMain(m *testing.M) {
	// Half of rapid's default keeps the run short under the race detector; the
	// command line still decides.
	if err := flag.Set("rapid.checks", "50"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// quiet drops the log.
var quiet = slog.New(slog.DiscardHandler)

// site is a server with its broker, and a listener when somebody dials.
type site struct {
	t      testing.TB
	broker *broker.Broker
	server *Server
	addr   string
	closed bool
}

// startSite makes a server without a listener; it is shut down with the test.
func startSite(t testing.TB, store *persist.Store, o Options) *site {
	t.Helper()
	b, err := broker.Open(broker.Options{Store: store, Logger: quiet, BodyBudget: 1})
	if err != nil {
		t.Fatal(err)
	}
	if o.Logger == nil {
		o.Logger = quiet
	}
	o.Broker = b
	o.LoopbackUsers = []string{"none"} // a pipe's end has no address
	s := &site{t: t, broker: b, server: NewServer(o)}
	t.Cleanup(s.stop)
	return s
}

// listen takes connections on a port of its own.
func (s *site) listen() *site {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = l.Addr().String()
	go s.server.Serve(l)
	return s
}

// stop shuts down; what does not answer is reset at once.
func (s *site) stop() {
	if s.closed {
		return
	}
	s.closed = true
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.server.Shutdown(ctx)
	if err := s.broker.Close(); err != nil {
		s.t.Errorf("close broker: %v", err)
	}
}

// openStore makes a store in the test's folder.
func openStore(t testing.TB) *persist.Store {
	t.Helper()
	store, err := persist.Open(persist.Options{Dir: t.TempDir(), Logger: quiet, Sync: persist.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// holdCommitter stops the store's committer until release is called.
func holdCommitter(t testing.TB, store *persist.Store) (release func()) {
	t.Helper()
	held, gate := make(chan struct{}), make(chan struct{})
	store.Update([]persist.Definition{{Key: persist.Key{Kind: 'z', Name: "held"}, Value: []byte("{}")}}, nil, nil, func(err error) {
		if err != nil {
			t.Errorf("hold the committer: %v", err)
		}
		close(held)
		<-gate
	})
	<-held
	done := false
	release = func() {
		if !done {
			done = true
			close(gate)
		}
	}
	t.Cleanup(release)
	return release
}

// client is the test's end of a connection: frames, nothing else.
type client struct {
	t      testing.TB
	socket net.Conn
	reader *frames.Reader
	buf    []byte // frames not sent yet
	got    int    // octets of frames read
}

func newClient(t testing.TB, socket net.Conn) *client {
	c := &client{t: t, socket: socket, reader: frames.NewReader(socket)}
	c.reader.SetLimit(0)
	t.Cleanup(func() { socket.Close() })
	return c
}

// patience is how long a client waits for anything.
const patience = 20 * time.Second

// dial connects over TCP, without a handshake.
func (s *site) dial() *client {
	s.t.Helper()
	return s.dialWith(&net.Dialer{})
}

func (s *site) dialWith(d *net.Dialer) *client {
	s.t.Helper()
	socket, err := d.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := socket.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	return newClient(s.t, socket)
}

// narrow is a dialer whose sockets hold little that was not read.
func narrow() *net.Dialer {
	return &net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if e := raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
		}); e != nil {
			return e
		}
		return err
	}}
}

// pipe connects in memory, without a handshake.
func (s *site) pipe() *client {
	mine, theirs := net.Pipe()
	s.server.take(theirs)
	return newClient(s.t, mine)
}

// settings of a handshake.
type handshake struct {
	heartbeat    uint16
	frameMax     uint32
	mechanism    string
	response     string
	capabilities frames.Table
}

// connect does a handshake as guest.
func (s *site) connect() *client { s.t.Helper(); return s.dial().login(handshake{}) }

func (c *client) login(h handshake) *client {
	c.t.Helper()
	c.start(h)
	tune := expect[*frames.ConnectionTune](c, 0)
	if h.frameMax == 0 {
		h.frameMax = tune.FrameMax
	}
	c.send(0, &frames.ConnectionTuneOk{ChannelMax: tune.ChannelMax, FrameMax: h.frameMax, Heartbeat: h.heartbeat})
	c.send(0, &frames.ConnectionOpen{VirtualHost: "/"})
	expect[*frames.ConnectionOpenOk](c, 0)
	return c
}

// start sends the protocol header and start-ok.
func (c *client) start(h handshake) {
	c.t.Helper()
	c.write([]byte("AMQP\x00\x00\x09\x01"))
	expect[*frames.ConnectionStart](c, 0)
	if h.mechanism == "" {
		h.mechanism, h.response = "PLAIN", "\x00guest\x00guest"
	}
	c.send(0, &frames.ConnectionStartOk{
		ClientProperties: frames.Table{{Key: "capabilities", Value: h.capabilities}},
		Mechanism:        h.mechanism, Response: []byte(h.response), Locale: "en_US",
	})
}

// write sends octets.
func (c *client) write(b []byte) {
	c.t.Helper()
	if _, err := c.socket.Write(b); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// add buffers a method; flush sends what is buffered.
func (c *client) add(channel uint16, m frames.Method) {
	c.buf = frames.AppendMethodFrame(c.buf, channel, m)
}

func (c *client) flush() {
	c.t.Helper()
	c.write(c.buf)
	c.buf = c.buf[:0]
}

func (c *client) send(channel uint16, m frames.Method) {
	c.t.Helper()
	c.add(channel, m)
	c.flush()
}

// The properties that tests publish with.
var (
	transient  = []byte(nil)
	persistent = (&frames.PropertyValues{Flags: frames.FlagDeliveryMode, DeliveryMode: 2}).Append(nil)
)

// addPublish buffers a publish to a queue.
func (c *client) addPublish(channel uint16, queue string, properties, body []byte) {
	c.addPublishTo(channel, &frames.BasicPublish{RoutingKey: []byte(queue)}, properties, body)
}

func (c *client) addPublishTo(channel uint16, m *frames.BasicPublish, properties, body []byte) {
	c.add(channel, m)
	c.buf = frames.AppendHeaderFrame(c.buf, channel, uint64(len(body)), properties)
	c.buf = frames.AppendBodyFrames(c.buf, channel, body, 131072)
}

func (c *client) publish(channel uint16, queue string, properties, body []byte) {
	c.t.Helper()
	c.addPublish(channel, queue, properties, body)
	c.flush()
}

// next reads a frame; heartbeats too.
func (c *client) next() (frames.Frame, error) {
	f, err := c.reader.Next()
	if err == nil {
		c.got += len(f.Payload) + frames.Overhead
	}
	return f, err
}

// frame reads a frame that must come.
func (c *client) frame() frames.Frame {
	c.t.Helper()
	f, err := c.next()
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return f
}

// method reads a method on whatever channel, past heartbeats.
func (c *client) method() (uint16, frames.Method) {
	c.t.Helper()
	for {
		f := c.frame()
		if f.Type == frames.TypeHeartbeat {
			continue
		}
		if f.Type != frames.TypeMethod {
			c.t.Fatalf("frame of type %d on channel %d where a method is due", f.Type, f.Channel)
		}
		m, err := frames.DecodeMethod(bytes.Clone(f.Payload))
		if err != nil {
			c.t.Fatalf("decode: %v", err)
		}
		return f.Channel, m
	}
}

// expect reads a method that must be an M on a channel.
func expect[M frames.Method](c *client, channel uint16) M {
	c.t.Helper()
	on, m := c.method()
	got, ok := m.(M)
	if !ok || on != channel {
		c.t.Fatalf("got %#v on channel %d, want a %T on channel %d", m, on, got, channel)
	}
	return got
}

// call sends a method and reads the answer.
func call[M frames.Method](c *client, channel uint16, m frames.Method) M {
	c.t.Helper()
	c.send(channel, m)
	return expect[M](c, channel)
}

// body reads a content after its method.
func (c *client) body(channel uint16) []byte {
	c.t.Helper()
	f := c.frame()
	if f.Type != frames.TypeHeader || f.Channel != channel {
		c.t.Fatalf("frame of type %d on channel %d where a header is due", f.Type, f.Channel)
	}
	h, err := frames.ParseContentHeader(f.Payload)
	if err != nil {
		c.t.Fatal(err)
	}
	body := make([]byte, 0, h.BodySize)
	for uint64(len(body)) < h.BodySize {
		f := c.frame()
		if f.Type != frames.TypeBody || f.Channel != channel {
			c.t.Fatalf("frame of type %d on channel %d where a body is due", f.Type, f.Channel)
		}
		body = append(body, f.Payload...)
	}
	return body
}

// delivery reads a basic.deliver with its body.
func (c *client) delivery(channel uint16) (*frames.BasicDeliver, []byte) {
	c.t.Helper()
	d := expect[*frames.BasicDeliver](c, channel)
	return d, c.body(channel)
}

// get does basic.get of a message that must be there.
func (c *client) get(channel uint16, queue string, noAck bool) (*frames.BasicGetOk, []byte) {
	c.t.Helper()
	ok := call[*frames.BasicGetOk](c, channel, &frames.BasicGet{Queue: queue, NoAck: noAck})
	return ok, c.body(channel)
}

// open opens channels.
func (c *client) open(channels ...uint16) *client {
	c.t.Helper()
	for _, id := range channels {
		call[*frames.ChannelOpenOk](c, id, &frames.ChannelOpen{})
	}
	return c
}

// declare declares a queue that is durable or goes with nobody.
func (c *client) declare(channel uint16, queue string, durable bool) {
	c.t.Helper()
	call[*frames.QueueDeclareOk](c, channel, &frames.QueueDeclare{Queue: queue, Durable: durable})
}

// gone reads until the connection has ended, and returns the methods that came
// on channel 0 before.
func (c *client) gone() (last []frames.Method) {
	c.t.Helper()
	for {
		f, err := c.next()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.t.Fatal("the connection does not end")
		}
		if err != nil {
			return last
		}
		if f.Type == frames.TypeMethod && f.Channel == 0 {
			m, err := frames.DecodeMethod(bytes.Clone(f.Payload))
			if err != nil {
				c.t.Fatal(err)
			}
			last = append(last, m)
		}
	}
}

// close ends the connection in order.
func (c *client) close() {
	c.t.Helper()
	c.send(0, &frames.ConnectionClose{ReplyCode: 200})
	for {
		f, err := c.next()
		if err != nil {
			c.t.Fatalf("no close-ok: %v", err)
		}
		if f.Type == frames.TypeMethod && f.Channel == 0 {
			if id, _, _ := frames.SplitMethod(f.Payload); id == frames.ConnectionCloseOkID {
				break
			}
		}
	}
	if _, err := c.next(); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		c.t.Fatalf("after close-ok: %v, want the end of the stream", err)
	}
}

// conns gives the server's connections.
func (s *site) conns() []*conn {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	var all []*conn
	for c := range s.server.conns {
		all = append(all, c)
	}
	return all
}

// conn gives the server's end of a client's connection.
func (s *site) conn(c *client) *conn {
	s.t.Helper()
	for _, o := range s.conns() {
		if o.socket.RemoteAddr().String() == c.socket.LocalAddr().String() {
			return o
		}
	}
	s.t.Fatal("the server does not know this connection")
	return nil
}

// eventually waits for a condition that another goroutine makes true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// clean checks that nothing is left of connections that have gone.
func (s *site) clean() {
	s.t.Helper()
	eventually(s.t, "all connections gone", func() bool { return s.server.Connections() == 0 })
	s.server.mu.Lock()
	if c := &s.server.census; c.connections+c.channels+len(c.userConnections)+len(c.userChannels)+len(c.ofVHost) != 0 {
		s.t.Errorf("they still count: %+v", *c)
	}
	s.server.mu.Unlock()
	if n := s.server.budget.queued.Load(); n != 0 {
		s.t.Errorf("%d octets count as queued for nobody", n)
	}
	for _, v := range s.broker.VHosts() {
		for _, q := range v.Queues() {
			if n := q.Counts(); n.Unacked != 0 || n.Consumers != 0 {
				s.t.Errorf("queue %q has %d unacked messages and %d consumers", q.Name, n.Unacked, n.Consumers)
			}
			if q.Owner != nil {
				s.t.Errorf("exclusive queue %q has survived its connection", q.Name)
			}
		}
	}
}

// check does a round trip on a connection and queue of its own.
func (s *site) check() {
	s.t.Helper()
	c := s.connect().open(1)
	call[*frames.ConfirmSelectOk](c, 1, &frames.ConfirmSelect{})
	q := call[*frames.QueueDeclareOk](c, 1, &frames.QueueDeclare{Exclusive: true}).Queue
	want := fmt.Sprint("to ", q)
	c.publish(1, q, transient, []byte(want))
	expect[*frames.BasicAck](c, 1)
	if _, got := c.get(1, q, true); string(got) != want {
		s.t.Fatalf("got %q, want %q", got, want)
	}
	c.close()
}
