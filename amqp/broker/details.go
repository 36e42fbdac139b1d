package broker

import (
	"net"
	"time"

	"github.com/warrenmq/warren/frames"
)

// SessionDetails are what the management API shows of a connection.
type SessionDetails struct {
	SessionInfo
	State            string // starting, tuning, opening, running, blocking, blocked, closing, closed
	Mechanism        string // of the login
	Peer, Local      net.Addr
	TLS              bool
	ChannelMax       int
	FrameMax         uint32
	Heartbeat        time.Duration
	ConnectedAt      time.Time
	ClientProperties frames.Table
	Received, Sent   uint64 // bytes
	Channels         []ChannelDetails
}

// ChannelDetails are what the management API shows of a channel.
type ChannelDetails struct {
	Number                       uint16
	Confirm, Transactional       bool
	Prefetch, GlobalPrefetch     int // of consumers to come, and of all together; 0 is no limit
	Unacknowledged, Unconfirmed  int
	Uncommitted, UncommittedAcks int
	Consumers                    []ConsumerDetails
}

// ConsumerDetails are what the management API shows of a consumer.
type ConsumerDetails struct {
	Tag              string
	Queue            *Queue
	NoAck, Exclusive bool
	Prefetch         int
	Arguments        frames.Table
	// Active is false for a consumer that waits for its turn on a queue with a
	// single active consumer.
	Active bool
}
