package amqp

import (
	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/amqp/broker"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
)

// Limits on connections, channels and consumers: of the node (Options), of a virtual host and of a user (the
// broker's, which may change at any time and hold for what comes).

// nodeName is how the node calls itself in texts.
const nodeName = "warren@localhost"

// census counts what limits are about. Guarded by Server.mu.
type census struct {
	connections, channels    int            // all that are open
	userConnections, ofVHost map[string]int // connections by user and by virtual host
	userChannels             map[string]int
}

func newCensus() census {
	return census{userConnections: map[string]int{}, ofVHost: map[string]int{}, userChannels: map[string]int{}}
}

// openVHost does the checks of connection.open, in RabbitMQ's order, and counts the connection. closeConnection is to
// follow when there is no error.
func (s *Server) openVHost(user, vhost string) (*broker.VHost, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if most := s.options.ConnectionMax; most > 0 && s.census.connections >= most {
		return nil, frames.Errorf(frames.NotAllowed, "connection refused: node connection limit (%d) is reached", most)
	}
	if v, ok := s.broker.VHost(vhost); ok {
		if err := s.checkConnectionLimits(user, v); err != nil {
			return nil, err
		}
	}
	v, err := s.broker.OpenVHost(user, vhost)
	if err != nil {
		return nil, err
	}
	s.census.connections++
	s.census.userConnections[user]++
	s.census.ofVHost[vhost]++
	return v, nil
}

// checkConnectionLimits asks the virtual host's limit and the user's. mu is held.
func (s *Server) checkConnectionLimits(user string, v *broker.VHost) error {
	if limit, ok := v.ConnectionLimit(); ok && int64(s.census.ofVHost[v.Name]) >= limit {
		return frames.Errorf(frames.NotAllowed, "access to vhost '%s' refused for user '%s': connection limit (%d) is reached", v.Name, user, limit)
	}
	if limit, ok := s.userLimit(user, auth.LimitConnections); ok && s.census.userConnections[user] >= limit {
		return frames.Errorf(frames.NotAllowed, "connection refused for user '%s': user connection limit (%d) is reached", user, limit)
	}
	return nil
}

// closeConnection takes a connection out of the counts.
func (s *Server) closeConnection(user, vhost string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.census.connections--
	countDown(s.census.userConnections, user)
	countDown(s.census.ofVHost, vhost)
}

// openChannel counts a channel, unless a limit is reached. closeChannel is to follow when there is no error.
func (s *Server) openChannel(user string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit, ok := s.userLimit(user, auth.LimitChannels); ok && s.census.userChannels[user] >= limit {
		return frames.Errorf(frames.NotAllowed, compat.UserChannelLimitText.In(s.broker.Profile), user, limit)
	}
	if most := s.options.ChannelMaxPerNode; most > 0 && s.census.channels >= most {
		return frames.Errorf(frames.NotAllowed, "number of channels opened on node '%s' has reached the maximum allowed limit of %d", nodeName, most)
	}
	s.census.channels++
	s.census.userChannels[user]++
	return nil
}

// closeChannel takes a channel out of the counts.
func (s *Server) closeChannel(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.census.channels--
	countDown(s.census.userChannels, user)
}

func countDown(counts map[string]int, name string) {
	if counts[name]--; counts[name] == 0 {
		delete(counts, name)
	}
}

// userLimit gives a user's limit; a negative one is none.
func (s *Server) userLimit(user, name string) (int, bool) {
	u, ok := s.broker.Users.User(user)
	if !ok {
		return 0, false
	}
	limit, ok := u.Limits[name]
	return limit, ok && limit >= 0
}

// checkConsumerLimit refuses one more consumer on a channel that has n.
func (s *Server) checkConsumerLimit(n int) error {
	if most := s.options.ConsumerMaxPerChannel; most > 0 && n >= most {
		return frames.Errorf(frames.NotAllowed, "reached maximum (%d) of consumers per channel", most)
	}
	return nil
}
