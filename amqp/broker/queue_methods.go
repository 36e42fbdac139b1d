package broker

import (
	"errors"
	"strings"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/frames"
	"github.com/warrenmq/warren/frames/compat"
	"github.com/warrenmq/warren/queue"
)

// DeclareResult is what queue.declare-ok says.
type DeclareResult struct {
	Queue               string
	Messages, Consumers uint32
}

// DeclareQueue does queue.declare, active or passive. Checks and their order
// are RabbitMQ's. wait: done will be called when the queue is durable.
func (v *VHost) DeclareQueue(c *Client, m *frames.QueueDeclare, done func(error)) (r DeclareResult, wait bool, err error) {
	name := stripCRLF(m.Queue)
	if name == ReplyTo || strings.HasPrefix(name, replyPrefix) {
		r, err = v.declareReply(name)
		return r, false, err
	}
	if m.Passive {
		r, err = v.passiveQueue(c, name)
		return r, false, err
	}
	m = v.withDefaultType(m)
	switch {
	case name == "":
		if err := serverNameAllowed(v.broker.Profile, m.Arguments); err != nil {
			return r, false, err
		}
		name = generatedName("amq.gen-")
	case strings.HasPrefix(name, "amq."):
		return r, false, frames.Errorf(frames.AccessRefused, "queue name '%s' contains reserved prefix 'amq.*'", name)
	}
	if err := v.check(c, auth.Queue, name, auth.Configure); err != nil {
		return r, false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.refuseDeleted(); err != nil {
		return r, false, err
	}
	q, ok := v.Queue(name)
	if ok && q.Deleted() {
		v.drop(q, nil) // whoever deletes it has not come so far yet
		ok = false
	}
	if ok {
		if err := v.equivalentQueue(c, q, m); err != nil {
			return r, false, err
		}
		return declared(q), q.stored && v.asBefore(done), nil
	}
	q, err = v.newQueue(c, name, m)
	if err != nil {
		return r, false, err
	}
	e := v.begin()
	e.addQueue(q)
	return declared(q), e.finish(done), nil
}

func declared(q *Queue) DeclareResult {
	q.Touch()
	return inspected(q)
}

// inspected says how many messages wait, and how many consumers there are.
func inspected(q *Queue) DeclareResult {
	n := q.Counts()
	if q.Type == typeStream {
		n.Consumers = 0 // as in RabbitMQ, whoever consumes
	}
	return DeclareResult{Queue: q.Name, Messages: uint32(n.Ready), Consumers: uint32(n.Consumers)}
}

func (v *VHost) passiveQueue(c *Client, name string) (DeclareResult, error) {
	if err := v.checkPassive(c, auth.Queue, name); err != nil {
		return DeclareResult{}, err
	}
	q, err := v.accessQueue(c, name)
	if err != nil {
		return DeclareResult{}, err
	}
	if q.Type == typeQuorum {
		return inspected(q), nil // not a use: its x-expires goes on
	}
	return declared(q), nil
}

// accessQueue finds a queue that the client may use.
func (v *VHost) accessQueue(c *Client, name string) (*Queue, error) {
	q, ok := v.Queue(name)
	if !ok {
		return nil, noQueue(v.Name, name)
	}
	return q, q.exclusiveTo(c)
}

// exclusiveTo is the error for a queue that belongs to another connection.
func (q *Queue) exclusiveTo(c *Client) error {
	if q.Owner != nil && q.Owner != c.Owner {
		return lockedQueue(q.VHost, q.Name)
	}
	return nil
}

func (v *VHost) equivalentQueue(c *Client, q *Queue, m *frames.QueueDeclare) error {
	if err := q.exclusiveTo(c); err != nil {
		return err
	}
	if (q.Owner != nil) != m.Exclusive {
		return lockedQueue(v.Name, q.Name)
	}
	object := queueText(v.Name, q.Name)
	if durable := m.Durable && !m.Exclusive; durable != q.Durable {
		return inequivalentBool("durable", object, durable, q.Durable)
	}
	if m.AutoDelete != q.AutoDelete {
		return inequivalentBool("auto_delete", object, m.AutoDelete, q.AutoDelete)
	}
	return orNil(equivalentQueueArguments(v.broker.Profile, v.Name, q.Name, q.Arguments, m.Arguments))
}

// newQueue checks what a new queue asks for and makes it. mu is held.
func (v *VHost) newQueue(c *Client, name string, m *frames.QueueDeclare) (*Queue, error) {
	limitLast := compat.QueueLimitAfterArguments.In(v.broker.Profile)
	if err := v.checkQueueLimit(name); err != nil && !limitLast {
		return nil, err
	}
	dlx, has, dlxErr := deadLetterExchange(v.Name, name, m.Arguments)
	if dlxErr != nil {
		return nil, dlxErr
	}
	if has {
		if err := v.check(c, auth.Queue, name, auth.Read); err != nil {
			return nil, err
		}
		if err := v.check(c, auth.Exchange, dlx, auth.Write); err != nil {
			return nil, err
		}
	}
	durable := m.Durable && !m.Exclusive
	spec, err := checkQueueArguments(v.broker.Profile, v.Name, name, durable, m.Exclusive, m.AutoDelete, m.Arguments)
	if err != nil {
		return nil, err
	}
	if err := v.checkQueueLimit(name); err != nil && limitLast {
		return nil, err
	}
	config := queue.Config{
		VHost: v.Name, Name: name, Durable: durable, AutoDelete: m.AutoDelete,
		Arguments: spec.Arguments, MaxPriority: spec.MaxPriority,
	}
	if m.Exclusive {
		config.Owner = c.Owner
	}
	return v.makeQueue(config, spec.Type, v.broker.nextQueueID(durable)), nil
}

// makeQueue makes a queue of a checked configuration, new or recovered.
func (v *VHost) makeQueue(config queue.Config, typ string, id uint64) *Queue {
	config.ID, config.Pump, config.Clock = id, v.broker.pump, v.broker.Clock
	config.Pager = v.broker.pager
	if typ == typeQuorum {
		asQuorum(v.broker.Profile, &config)
	}
	config.Aging = priorityAging(config.Arguments)
	q := &Queue{Type: typ, stored: config.Durable && v.broker.store != nil}
	rules := v.firstPolicies(q, &config)
	if typ == typeStream {
		config.Stream = v.openStream(q, id, config.Arguments)
	} else if q.stored {
		config.Journal = queue.StoreJournal(v.broker.store.Log(id))
	}
	config.Rules = &rules
	config.Bury = func(_ *queue.Queue, dead []queue.Dead) { v.bury(q, q.deadLetter.Load(), dead) }
	config.Funeral = func(_ *queue.Queue, dead []queue.Dead) []queue.Enqueue {
		return v.funerals(q, q.deadLetter.Load(), dead)
	}
	config.Lapsed = func(*queue.Queue) { v.lapse(q) }
	q.Queue = queue.New(config)
	q.destination = &destination{queue: q}
	return q
}

func (e *edit) addQueue(q *Queue) {
	e.next.queues = e.next.queues.Set(q.Name, q)
	e.added++
	if q.Owner != nil {
		e.v.owned[q.Owner] = append(e.v.owned[q.Owner], q)
	}
	if q.stored {
		e.put(kindQueue, q.Name, queueDefinition(q))
	}
	e.event(Event{Step: QueueDeclared, Queue: q.Name})
}

// DeleteQueue does queue.delete; a queue that is missing counts as deleted
// with 0 messages.
func (v *VHost) DeleteQueue(c *Client, m *frames.QueueDelete, done func(error)) (count uint32, wait bool, err error) {
	name := stripCRLF(m.Queue)
	if isReplyName(name) {
		return 0, false, nil
	}
	if err := v.check(c, auth.Queue, name, auth.Configure); err != nil {
		return 0, false, err
	}
	q, err := v.accessQueue(c, name)
	if fe, ok := err.(*frames.Error); ok && fe.Code == frames.NotFound {
		return 0, v.asBefore(done), nil
	}
	if err != nil {
		return 0, false, err
	}
	if err := refuseQuorumDelete(q, m); err != nil {
		return 0, false, err
	}
	n, err := q.Delete(m.IfUnused, m.IfEmpty)
	switch {
	case errors.Is(err, queue.ErrInUse):
		return 0, false, frames.Errorf(frames.PreconditionFailed, "%s in use", queueText(v.Name, name))
	case errors.Is(err, queue.ErrNotEmpty):
		return 0, false, frames.Errorf(frames.PreconditionFailed, "%s not empty", queueText(v.Name, name))
	case err != nil:
		return 0, v.dropQueue(q, done), nil // by somebody else meanwhile, perhaps not yet altogether
	}
	return uint32(n), v.dropQueue(q, done), nil
}

// PurgeQueue does queue.purge.
func (v *VHost) PurgeQueue(c *Client, name string) (count uint32, journaled bool, err error) {
	name = stripCRLF(name)
	if isReplyName(name) && compat.ReplyQueues.In(v.broker.Profile) {
		return 0, false, nil
	}
	if err := v.check(c, auth.Queue, name, auth.Read); err != nil {
		return 0, false, err
	}
	q, err := v.accessQueue(c, name)
	if err != nil {
		return 0, false, err
	}
	if err := q.refuseIfStream("queue.purge"); err != nil {
		return 0, false, err
	}
	n, journaled := q.Purge()
	v.broker.observe(Event{Step: QueuePurged, VHost: v.Name, Queue: name})
	return uint32(n), journaled, nil
}

// GetQueue finds a queue for basic.get and checks that the client may read it.
func (v *VHost) GetQueue(c *Client, name string) (*Queue, error) {
	if err := v.refuseReplyName(name, frames.NotImplemented, "basic.get not supported by volatile %s"); err != nil {
		return nil, err
	}
	q, err := v.readQueue(c, name)
	if err != nil {
		return nil, err
	}
	if err := v.refuseQuorumGet(q); err != nil {
		return nil, err
	}
	return q, q.refuseIfStream("basic.get")
}

// ConsumeQueue finds a queue for basic.consume and checks that the client may
// read it. replyName is that of the channel, if it has one.
func (v *VHost) ConsumeQueue(c *Client, name, replyName string) (*Queue, error) {
	if name == replyName {
		if err := v.refuseReplyName(name, frames.PreconditionFailed, "multiple consumers are unsupported for %s"); err != nil {
			return nil, err
		}
	}
	if err := v.refuseReplyName(name, frames.PreconditionFailed, "only creator channel may consume from %s"); err != nil {
		return nil, err
	}
	return v.readQueue(c, name)
}

func (v *VHost) readQueue(c *Client, name string) (*Queue, error) {
	if err := v.check(c, auth.Queue, name, auth.Read); err != nil {
		return nil, err
	}
	return v.accessQueue(c, name)
}

// CheckConsume validates the arguments of a basic.consume on q and gives the
// consumer's priority.
func (v *VHost) CheckConsume(q *Queue, args frames.Table) (priority int, err error) {
	if q.Type == volatileType {
		return 0, nil // RabbitMQ does not look at them
	}
	priority, fe := checkConsumeArguments(v.broker.Profile, v.Name, q.Name, q.Type, args)
	return priority, orNil(fe)
}

// ConsumeRefused turns a queue's refusal of a consumer into the channel's
// error.
func (v *VHost) ConsumeRefused(name string, err error) error {
	if errors.Is(err, queue.ErrExclusive) {
		return frames.Errorf(frames.AccessRefused, "%s in exclusive use", queueText(v.Name, name))
	}
	var full *queue.FullError
	if errors.As(err, &full) {
		return consumersFull(v.Name, name, full)
	}
	return noQueue(v.Name, name)
}

// ConsumerTag makes a tag for a consumer that the client gave none.
func ConsumerTag() string { return generatedName("amq.ctag-") }
