package broker

import (
	"strings"

	"github.com/warrenmq/warren/exchange/immutable"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// ReplyTo is the pseudo-queue of direct reply-to: consuming from it gives a
// channel a reply name of its own, which stands in the reply-to property of
// its requests; answers go to that name over the default exchange.
const ReplyTo = "amq.rabbitmq.reply-to"

const replyPrefix = ReplyTo + "."

// volatileType is the type of the queue behind a reply name: it is in no
// listing and goes with its consumer.
const volatileType = "volatile"

// OpenReply makes a channel's reply queue. It lives until its consumer goes.
func (v *VHost) OpenReply() *Queue {
	q := v.makeQueue(queue.Config{VHost: v.Name, Name: generatedName(replyPrefix), AutoDelete: true}, volatileType, v.broker.nextQueueID(false))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.setReplies(v.replies.Load().Set(q.Name, q))
	return q
}

// closeReply forgets a reply queue that has been deleted.
func (v *VHost) closeReply(q *Queue) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.setReplies(v.replies.Load().Delete(q.Name))
}

// setReplies publishes a new map. mu is held.
func (v *VHost) setReplies(m immutable.Map[*Queue]) { v.replies.Store(&m) }

// replyNameSize is how long the names are that OpenReply makes.
var replyNameSize = len(generatedName(replyPrefix))

// isReplyName says whether a name is one that a channel has or had: a well-formed
// one, since nobody remembers those that have gone.
func isReplyName(name string) bool {
	return strings.HasPrefix(name, replyPrefix) && len(name) == replyNameSize
}

// declareReply answers queue.declare of a reply name, or of the pseudo-queue
// itself: it exists while its channel consumes.
func (v *VHost) declareReply(name string) (DeclareResult, error) {
	if _, ok := v.replies.Load().Get(name); !ok && name != ReplyTo {
		return DeclareResult{}, noQueue(v.Name, name)
	}
	return DeclareResult{Queue: name, Consumers: 1}, nil
}

// refuseReplyName is what 4.3 says to the methods that make no sense on a
// reply name; 3.10.8 knows no such queue.
func (v *VHost) refuseReplyName(name string, code uint16, format string) error {
	if !isReplyName(name) || !compat.ReplyQueues.In(v.broker.Profile) {
		return nil
	}
	if strings.Contains(format, "%s") {
		return frames.Errorf(code, format, queueText(v.Name, name))
	}
	return frames.Errorf(code, "%s", format)
}

// checkReply handles a request that asks for a direct reply: its channel must
// consume replies.
func (p *Publication) checkReply() error {
	p.directReply = false
	to, ok := p.Properties.ReplyTo()
	if !ok || string(to) != ReplyTo {
		return nil
	}
	if p.ReplyName == "" {
		return frames.Errorf(frames.PreconditionFailed, "fast reply consumer does not exist")
	}
	p.directReply = true
	return nil
}

// visitReply routes an answer to a reply name.
func (r *Router) visitReply(v *VHost, name []byte) (isReply bool) {
	if len(name) != replyNameSize || !strings.HasPrefix(string(name), replyPrefix) {
		return false
	}
	r.cached = false // reply queues are in no topology
	r.replies++
	if q, ok := v.replies.Load().GetBytes(name); ok {
		r.queues = append(r.queues, q.Queue)
	}
	return true
}

// unroutable says whether a mandatory publish is returned. 3.10.8 returns an
// answer to a reply name although it delivers it; 4.3 never does, even when
// the requester has gone.
func (v *VHost) unroutable(r *Router) bool {
	if compat.RepliesCountAsRouted.In(v.broker.Profile) {
		return len(r.queues) == r.kept && r.replies == 0
	}
	return len(r.queues) <= r.replies+r.kept && r.onlyReplies()
}

func (r *Router) onlyReplies() bool {
	for _, q := range r.queues {
		if !isReplyName(q.Name) && !hidden(q) {
			return false
		}
	}
	return true
}
