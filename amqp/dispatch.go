package amqp

import "github.com/warrenmq/warren/frames"

// handler runs one method of an open channel; args are the method's
// arguments, borrowed. conn.mu is held.
type handler func(ch *channel, args []byte) error

// handlers is the one table from method id to handler. Classes are multiples
// of 5 up to 90, methods go up to 120. What is not in it is not legal from a
// client on a channel.
var handlers [90/5 + 1][121]handler

func handlerOf(id frames.MethodID) handler {
	class, method := id.Class(), id.Method()
	if class > 90 || class%5 != 0 || method > 120 {
		return nil
	}
	return handlers[class/5][method]
}

func handle(id frames.MethodID, h handler) { handlers[id.Class()/5][id.Method()] = h }

// decoder is a pointer to a generated method struct.
type decoder[M any] interface {
	*M
	ID() frames.MethodID
	Decode(args []byte) error
}

// on makes a handler of a function on a decoded method. Errors of decoding
// carry their own ids; others get the method's.
func on[M any, P decoder[M]](do func(*channel, P) error) handler {
	return func(ch *channel, args []byte) error {
		m := P(new(M))
		if err := m.Decode(args); err != nil {
			return err
		}
		if err := do(ch, m); err != nil {
			return at(err, m.ID())
		}
		return nil
	}
}

func init() {
	handle(frames.ChannelOpenID, on((*channel).open))
	handle(frames.ChannelFlowID, on((*channel).flow))
	handle(frames.ChannelCloseID, on((*channel).closedByClient))
	handle(frames.AccessRequestID, on((*channel).access))

	handle(frames.ExchangeDeclareID, on((*channel).exchangeDeclare))
	handle(frames.ExchangeDeleteID, on((*channel).exchangeDelete))
	handle(frames.ExchangeBindID, on((*channel).exchangeBind))
	handle(frames.ExchangeUnbindID, on((*channel).exchangeUnbind))

	handle(frames.QueueDeclareID, on((*channel).queueDeclare))
	handle(frames.QueueBindID, on((*channel).queueBind))
	handle(frames.QueueUnbindID, on((*channel).queueUnbind))
	handle(frames.QueuePurgeID, on((*channel).queuePurge))
	handle(frames.QueueDeleteID, on((*channel).queueDelete))

	handle(frames.BasicQosID, on((*channel).qos))
	handle(frames.BasicConsumeID, on((*channel).consume))
	handle(frames.BasicCancelID, on((*channel).cancel))
	handle(frames.BasicCancelOkID, on((*channel).cancelOk))
	handle(frames.BasicPublishID, (*channel).beginPublish)
	handle(frames.BasicGetID, on((*channel).get))
	handle(frames.BasicAckID, (*channel).ack)
	handle(frames.BasicRejectID, (*channel).reject)
	handle(frames.BasicNackID, (*channel).nack)
	handle(frames.BasicRecoverID, on((*channel).recover))
	handle(frames.BasicRecoverAsyncID, on((*channel).recoverAsync))

	handle(frames.ConfirmSelectID, on((*channel).confirmSelect))
	handle(frames.TxSelectID, on((*channel).txSelect))
	handle(frames.TxCommitID, on((*channel).txCommit))
	handle(frames.TxRollbackID, on((*channel).txRollback))
}
