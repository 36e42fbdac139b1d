package bench

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/warrenmq/warren/frames"
)

// patience bounds every wait for a broker's answer.
const patience = 30 * time.Second

// client is a connection with one channel, spoken to over raw frames, so that
// the generator costs little beside the broker. Not safe for concurrent use,
// but one goroutine may write while another reads.
type client struct {
	conn net.Conn
	r    *frames.Reader
	// confirmed is the publishes before the first that is not confirmed, of
	// rounds.
	confirmed uint64
}

// dial opens a connection and channel 1.
func dial(uri string) (*client, error) {
	c, err := connect(uri)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", redacted(uri), err)
	}
	return c, nil
}

func redacted(uri string) string {
	if u, err := url.Parse(uri); err == nil {
		return u.Redacted()
	}
	return "the broker"
}

func connect(uri string) (*client, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "amqp" || u.Host == "" {
		return nil, errors.New("the address must look like amqp://user:password@host:port/vhost")
	}
	host := u.Host
	if u.Port() == "" {
		host += ":5672"
	}
	conn, err := net.DialTimeout("tcp", host, patience)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, r: frames.NewReader(conn)}
	if err := c.handshake(u); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *client) handshake(u *url.URL) error {
	user, password := "guest", "guest"
	if u.User != nil {
		user = u.User.Username()
		password, _ = u.User.Password()
	}
	vhost, err := url.PathUnescape(strings.TrimPrefix(u.EscapedPath(), "/"))
	if err != nil {
		return err
	}
	if vhost == "" {
		vhost = "/"
	}
	c.r.SetLimit(1 << 20)
	if _, err := c.conn.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return err
	}
	if _, err := expect[*frames.ConnectionStart](c); err != nil {
		return err
	}
	startOk := &frames.ConnectionStartOk{Mechanism: "PLAIN", Response: []byte("\x00" + user + "\x00" + password), Locale: "en_US"}
	tune, err := ask[*frames.ConnectionTune](c, 0, startOk)
	if err != nil {
		return err
	}
	tuneOk := &frames.ConnectionTuneOk{ChannelMax: tune.ChannelMax, FrameMax: tune.FrameMax}
	if _, err := c.conn.Write(frames.AppendMethodFrame(nil, 0, tuneOk)); err != nil {
		return err
	}
	if _, err := ask[*frames.ConnectionOpenOk](c, 0, &frames.ConnectionOpen{VirtualHost: vhost}); err != nil {
		return err
	}
	_, err = ask[*frames.ChannelOpenOk](c, 1, &frames.ChannelOpen{})
	return err
}

// ask sends a method and waits for its answer.
func ask[M frames.Method](c *client, channel uint16, m frames.Method) (M, error) {
	if _, err := c.conn.Write(frames.AppendMethodFrame(nil, channel, m)); err != nil {
		var none M
		return none, fmt.Errorf("%s: %w", m.ID(), err)
	}
	got, err := expect[M](c)
	if err != nil {
		return got, fmt.Errorf("%s: %w", m.ID(), err)
	}
	return got, nil
}

// expect reads the next method, which must be an M.
func expect[M frames.Method](c *client) (M, error) {
	var none M
	if err := c.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return none, err
	}
	defer c.conn.SetReadDeadline(time.Time{})
	for {
		f, err := c.r.Next()
		if err != nil {
			return none, err
		}
		if f.Type != frames.TypeMethod {
			continue // heartbeats
		}
		m, err := frames.DecodeMethod(f.Payload)
		if err != nil {
			return none, err
		}
		if want, ok := m.(M); ok {
			return want, nil
		}
		return none, refusal(m)
	}
}

// refusal is the error that an unexpected method stands for.
func refusal(m frames.Method) error {
	switch m := m.(type) {
	case *frames.ChannelClose:
		return fmt.Errorf("refused with %d %s", m.ReplyCode, m.ReplyText)
	case *frames.ConnectionClose:
		return fmt.Errorf("refused with %d %s", m.ReplyCode, m.ReplyText)
	}
	return fmt.Errorf("unexpected %s", m.ID())
}

// queue declares a queue that goes with this connection; "" has the broker
// name it.
func (c *client) queue(q *frames.QueueDeclare) (string, error) {
	ok, err := ask[*frames.QueueDeclareOk](c, 1, q)
	if err != nil {
		return "", err
	}
	return ok.Queue, nil
}

// appendPublish encodes one publish. props are the property flags and values.
func appendPublish(b []byte, exchange, key string, props, body []byte) []byte {
	b = frames.AppendMethodFrame(b, 1, &frames.BasicPublish{Exchange: []byte(exchange), RoutingKey: []byte(key)})
	b = frames.AppendHeaderFrame(b, 1, uint64(len(body)), props)
	return frames.AppendBodyFrames(b, 1, body, 1<<17)
}

// properties encodes a delivery mode and a priority.
func properties(mode, priority uint8) []byte {
	v := frames.PropertyValues{Flags: frames.FlagDeliveryMode | frames.FlagPriority, DeliveryMode: mode, Priority: priority}
	return v.Append(nil)
}
