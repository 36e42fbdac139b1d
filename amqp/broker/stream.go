package broker

import (
	"fmt"
	"math"

	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
	streams "github.com/warrenmq/warren/queue/stream"
)

// Arguments of streams and their consumers.
const (
	argStreamFilter    = "x-stream-filter"
	argMatchUnfiltered = "x-stream-match-unfiltered"
)

// openStream makes the log of a stream whose arguments were checked and whose
// policies are known.
func (v *VHost) openStream(q *Queue, id uint64, args frames.Table) *streams.Log {
	c := streamConfig(v.broker.Profile, args, q.applied.Load())
	c.ID, c.Stored = id, true
	return v.broker.streams.Open(c)
}

// applyToStream gives a stream what follows from its policies of the moment:
// retention at once, the sizes of segments and filters from now on.
func (q *Queue) applyToStream(p compat.Profile) {
	if q.Type == typeStream {
		q.Stream.(*streams.Log).Configure(streamConfig(p, q.Arguments, q.applied.Load()))
	}
}

// streamConfig reads the arguments and policies of a stream.
func streamConfig(p compat.Profile, args frames.Table, a *applied) streams.Config {
	args = effectiveArguments(typeStream, args, a.definition)
	c := streams.Config{Retention: streams.Retention{MaxBytes: -1}, FilterBytes: -1}
	if n, ok := integerArgument(args, "x-max-length-bytes"); ok {
		c.Retention.MaxBytes = n
	}
	if s, ok := args.Get(argMaxAge); ok {
		age, _ := s.(string)
		c.Retention.MaxAge, _ = ageMillis(age)
	}
	if n, ok := integerArgument(args, argSegmentSize); ok {
		c.SegmentBytes = max(n, 1)
	}
	if compat.StreamFilters.In(p) {
		n, _ := integerArgument(args, argFilterSize)
		c.FilterBytes = int(n)
	}
	return c
}

// ageMillis is ageMs as a number, of which the largest stands for all above.
func ageMillis(s string) (int64, bool) {
	ms, ok := ageMs(s)
	if !ok {
		return 0, false
	}
	if !ms.IsInt64() {
		return math.MaxInt64, true
	}
	return ms.Int64(), true
}

// recoverStream finds what the store has of a stream.
func (q *Queue) recoverStream() error {
	if err := q.Stream.(*streams.Log).Recover(); err != nil {
		return fmt.Errorf("recover stream %q in vhost %q: %w", q.Name, q.VHost, err)
	}
	return nil
}

// refuseIfStream is the error for a method that streams do not have.
func (q *Queue) refuseIfStream(method string) error {
	if q.Type != typeStream {
		return nil
	}
	return frames.Errorf(frames.NotImplemented, "%s not supported by stream queues %s", method, queueText(q.VHost, q.Name))
}

// RejectRefused is the error for rejecting a stream's delivery, for a profile
// in which that is one.
func (q *Queue) RejectRefused(p compat.Profile) error {
	if compat.StreamRejects.In(p) {
		return nil
	}
	return q.refuseIfStream("basic.nack and basic.reject")
}

// StreamReading does the checks of basic.consume that only streams have, and
// says what the consumer wants; nil for a queue that is no stream. Arguments
// have been checked by CheckConsume. prefetch and global are the limits of the
// consumer and of its channel, 0 for none.
func (v *VHost) StreamReading(q *Queue, m *frames.BasicConsume, prefetch, global int) (*queue.Reading, error) {
	if q.Type != typeStream {
		return nil, nil
	}
	p, object := v.broker.Profile, queueText(v.Name, q.Name)
	shared := compat.StreamGlobalQos.In(p)
	switch {
	case prefetch == 0 && !(shared && global > 0):
		return nil, frames.Errorf(frames.PreconditionFailed, compat.StreamPrefetchText.In(p), object)
	case m.NoAck:
		return nil, frames.Errorf(frames.NotImplemented, compat.StreamAckText.In(p), object)
	case global > 0 && !shared:
		return nil, frames.Errorf(frames.NotImplemented, "%s does not support global qos", object)
	}
	r := v.readingFrom(m.Arguments)
	if compat.StreamFilters.In(p) {
		if err := readFilter(r, m.Arguments); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// readingFrom reads x-stream-offset.
func (v *VHost) readingFrom(args frames.Table) *queue.Reading {
	value, _ := args.Get(argStreamOffset)
	if n, ok := integer(value); ok {
		return &queue.Reading{From: queue.AtOffset, Offset: uint64(max(n, 0))}
	}
	switch value := value.(type) {
	case frames.Timestamp:
		return &queue.Reading{From: queue.AtTime, Time: int64(min(uint64(value), math.MaxInt64/1000)) * 1000}
	case []byte:
		return v.readingFromText(string(value))
	case string:
		return v.readingFromText(value)
	}
	return &queue.Reading{From: queue.Next}
}

func (v *VHost) readingFromText(s string) *queue.Reading {
	switch s {
	case "first":
		return &queue.Reading{From: queue.First}
	case "last":
		return &queue.Reading{From: queue.Last}
	}
	if age, ok := ageMillis(s); ok {
		return &queue.Reading{From: queue.AtTime, Time: v.broker.Clock.NowMillis() - age}
	}
	return &queue.Reading{From: queue.Next}
}

// readFilter reads x-stream-filter, a string or an array of strings, and
// x-stream-match-unfiltered. Other types count as absent, other elements are
// passed over, and an array without a string kills RabbitMQ's channel
// (verified on 4.3.6).
func readFilter(r *queue.Reading, args frames.Table) error {
	switch value, _ := args.Get(argStreamFilter); value := value.(type) {
	case string:
		r.Filter = []string{value}
	case frames.Array:
		for _, v := range value {
			if s, ok := v.(string); ok {
				r.Filter = append(r.Filter, s)
			}
		}
		if len(r.Filter) == 0 {
			return frames.Errorf(frames.InternalError, "")
		}
	}
	value, _ := args.Get(argMatchUnfiltered)
	r.Unfiltered, _ = value.(bool)
	return nil
}
