package conformance

import "github.com/warrenmq/warren/conformance/wire"

func confirmCases() []Case {
	const source = "rabbitmq: confirms, behaviour 2.7"
	persistent := wire.Properties{DeliveryMode: new(uint8(2))}
	return append(refusals(Extension, []refusal{
		{"confirm/on-tx", "confirm.select on a transactional channel", source, func(t *T, ch *Chan) {
			ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
			ch.Send(wire.ConfirmSelect{})
		}, soft(406, wire.ConfirmSelect{}, "cannot switch from tx to confirm mode"), closing{}},
		{"confirm/on-tx-nowait", "confirm.select with nowait on a transactional channel", source, func(t *T, ch *Chan) {
			ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
			ch.Send(wire.ConfirmSelect{NoWait: true})
		}, soft(406, wire.ConfirmSelect{}, "cannot switch from tx to confirm mode"), closing{}},
		{"confirm/then-tx", "tx.select on a confirming channel", source, func(t *T, ch *Chan) {
			ch.Confirm()
			ch.Send(wire.TxSelect{})
		}, soft(406, wire.TxSelect{}, "cannot switch from confirm to tx mode"), closing{}},
		{"confirm/failed-publish", "a publish that fails the channel gets no confirm", source, func(t *T, ch *Chan) {
			ch.Confirm()
			ch.Publish(t.X, "k", "body")
		}, soft(404, wire.BasicPublish{}, "no {x}"), closing{}},
	}),
		Case{ID: "confirm/select-again", Title: "select may be repeated and does not start the count anew", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Confirm()
			ch.Publish("", t.Q, "a")
			ch.WantConfirms(1, 1)
			ch.Confirm()
			ch.Publish("", t.Q, "b")
			ch.WantConfirms(2, 2)
		}},
		Case{ID: "confirm/select-nowait", Title: "nowait suppresses select-ok", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Send(wire.ConfirmSelect{NoWait: true})
			ch.Publish("", t.Q, "a")
			ch.WantConfirms(1, 1)
		}},
		Case{ID: "confirm/first-after-select", Title: "the count starts at 1 with the first publish after select", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a", "b", "c")
			ch.Confirm()
			ch.Publish("", t.Q, "d")
			ch.Want(wire.BasicAck{DeliveryTag: 1})
		}},
		Case{ID: "confirm/unroutable", Title: "an unroutable message is confirmed", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Confirm()
			ch.Publish("", t.Q, "lost")
			ch.Want(wire.BasicAck{DeliveryTag: 1})
		}},
		Case{ID: "confirm/persistent", Title: "persistent messages to a durable queue are confirmed", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Durable: true})
			ch.Confirm()
			for range 20 {
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, persistent, "body")
			}
			ch.WantConfirms(1, 20)
			ch.WantCount(t.Q, 20, 0)
		}},
		Case{ID: "confirm/mixed", Title: "transient, persistent and unroutable messages are all confirmed, once each", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Durable: true})
			ch.Confirm()
			for range 10 {
				ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, persistent, "kept")
				ch.Publish("", t.Q, "transient")
				ch.Publish("", t.Q2, "lost")
			}
			ch.WantConfirms(1, 30)
		}},
		Case{ID: "confirm/several-queues", Title: "a message for several queues is confirmed once", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Durable: true})
			ch.Queue(t.Q2)
			ch.Exchange(t.X, "fanout")
			ch.Bind(t.Q, t.X, "")
			ch.Bind(t.Q2, t.X, "")
			ch.Confirm()
			ch.PublishWith(wire.BasicPublish{Exchange: t.X}, persistent, "body")
			ch.Want(wire.BasicAck{DeliveryTag: 1})
		}},
		Case{ID: "confirm/consumed-at-once", Title: "a message that is consumed at once is confirmed all the same", Source: source, Class: Extension, Run: func(t *T) {
			c := t.Connect()
			one, two := c.Chan(1), c.Chan(2)
			one.DeclareQueue(wire.QueueDeclare{Queue: t.Q, Durable: true})
			two.ConsumeNoAck(t.Q, "c")
			one.Confirm()
			one.PublishWith(wire.BasicPublish{RoutingKey: t.Q}, persistent, "body")
			two.WantBodies("body")
			one.WantConfirms(1, 1)
		}},
		Case{ID: "confirm/per-channel", Title: "each channel counts and confirms for itself", Source: source, Class: Extension, Run: func(t *T) {
			c := t.Connect()
			one, two := c.Chan(1), c.Chan(2)
			one.Queue(t.Q)
			one.Confirm()
			one.Publish("", t.Q, "a", "b")
			two.Publish("", t.Q, "silent")
			one.WantConfirms(1, 2)
			two.Confirm()
			two.Publish("", t.Q, "c")
			two.WantConfirms(1, 1)
		}},
		Case{ID: "confirm/deliveries-beside", Title: "confirms and delivery tags are two counts", Source: source, Class: Extension, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Confirm()
			ch.Publish("", t.Q, "a", "b", "c")
			ch.WantConfirms(1, 3)
			t.Equal("tag", ch.Get(t.Q, false).Tag, uint64(1))
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.Publish("", t.Q, "d")
			ch.WantConfirms(4, 4)
		}},
	)
}

// txChannel gives a transactional channel with queue Q.
func txChannel(t *T) *Chan {
	ch := t.Channel()
	ch.Queue(t.Q)
	ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
	return ch
}

func (ch *Chan) commit()   { ch.Call(wire.TxCommit{}, wire.TxCommitOk{}) }
func (ch *Chan) rollback() { ch.Call(wire.TxRollback{}, wire.TxRollbackOk{}) }

func txCases() []Case {
	const source = "spec tx, behaviour 2.8"
	return append(append(refusals(Core, []refusal{
		{"tx/commit-unselected", "commit on a channel that is not transactional", source, func(t *T, ch *Chan) { ch.Send(wire.TxCommit{}) },
			soft(406, wire.TxCommit{}, "channel is not transactional"), closing{}},
		{"tx/rollback-unselected", "rollback on a channel that is not transactional", source, func(t *T, ch *Chan) { ch.Send(wire.TxRollback{}) },
			soft(406, wire.TxRollback{}, "channel is not transactional"), closing{}},
		{"tx/publish-fails-at-once", "a bad publish fails the channel at once, and the transaction with it", source, func(t *T, ch *Chan) {
			ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
			ch.Publish(t.X, "k", "body")
		}, soft(404, wire.BasicPublish{}, "no {x}"), closing{}},
		{"tx/double-ack", "a tag acknowledged in the transaction is used up", source, func(t *T, ch *Chan) {
			three(t, ch)
			ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
			ch.Send(wire.BasicAck{DeliveryTag: 1}, wire.BasicAck{DeliveryTag: 1})
		}, soft(406, wire.BasicAck{}, "unknown delivery tag 1"), closing{}},
	}), txAckCases()...),
		Case{ID: "tx/select-again", Title: "select may be repeated", Source: source, Class: Core, Run: func(t *T) {
			txChannel(t).Call(wire.TxSelect{}, wire.TxSelectOk{})
		}},
		Case{ID: "tx/empty", Title: "commit and rollback of nothing are ok", Source: source, Class: Core, Run: func(t *T) {
			ch := txChannel(t)
			ch.commit()
			ch.rollback()
			ch.commit()
		}},
		Case{ID: "tx/publish-commit", Title: "published messages appear at commit, in order", Source: source, Class: Core, Run: func(t *T) {
			ch := txChannel(t)
			ch.Publish("", t.Q, "a", "b")
			ch.WantCount(t.Q, 0, 0)
			ch.commit()
			ch.WantGet(t.Q, "a", 1)
			ch.WantGet(t.Q, "b", 0)
		}},
		Case{ID: "tx/publish-rollback", Title: "rollback drops what was published", Source: source, Class: Core, Run: func(t *T) {
			ch := txChannel(t)
			ch.Publish("", t.Q, "a")
			ch.rollback()
			ch.Publish("", t.Q, "b")
			ch.commit()
			ch.WantGet(t.Q, "b", 0)
		}},
		Case{ID: "tx/several-queues", Title: "a commit reaches every queue it was published to", Source: source, Class: Core, Run: func(t *T) {
			ch := txChannel(t)
			ch.DeclareQueue(wire.QueueDeclare{Queue: t.Q2, Durable: true})
			ch.Publish("", t.Q, "a")
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q2}, wire.Properties{DeliveryMode: new(uint8(2))}, "b")
			ch.commit()
			ch.WantCount(t.Q, 1, 0)
			ch.WantCount(t.Q2, 1, 0)
		}},
		Case{ID: "tx/close-drops", Title: "closing the channel drops the transaction", Source: source, Class: Core, Run: func(t *T) {
			ch := txChannel(t)
			ch.Publish("", t.Q, "a")
			ch.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
			ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
			ch.WantCount(t.Q, 0, 0)
		}},
		Case{ID: "tx/return-at-commit", Title: "mandatory returns come at commit, before commit-ok", Source: source, Class: Core, Run: func(t *T) {
			ch := txChannel(t)
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q2, Mandatory: true}, wire.Properties{}, "body")
			ch.Quiet()
			ch.Send(wire.TxCommit{})
			ch.WantReturn(Returned{Code: 312, Text: "NO_ROUTE", Key: t.Q2, Body: "body"})
			ch.Want(wire.TxCommitOk{})
		}},
		Case{ID: "tx/return-not-on-rollback", Title: "rolled back, nothing is returned", Source: source, Class: Core, Run: func(t *T) {
			ch := txChannel(t)
			ch.PublishWith(wire.BasicPublish{RoutingKey: t.Q2, Mandatory: true}, wire.Properties{}, "body")
			ch.rollback()
			ch.commit()
		}},
		Case{ID: "tx/declare-is-not-part", Title: "declares and bindings are no part of it", Source: source, Class: Core, Run: func(t *T) {
			ch := txChannel(t)
			ch.Queue(t.Q2)
			ch.rollback()
			ch.WantCount(t.Q2, 0, 0)
		}},
		Case{ID: "tx/delivery", Title: "a commit delivers to consumers", Source: source, Class: Core, Run: func(t *T) {
			ch := txChannel(t)
			two := ch.Conn.Chan(2)
			two.ConsumeNoAck(t.Q, "c")
			ch.Publish("", t.Q, "a")
			ch.Quiet()
			two.Quiet()
			ch.commit()
			two.WantBodies("a")
		}},
	)
}

func txAckCases() []Case {
	const source = "spec tx, behaviour 2.8"
	scene := func(t *T) *Chan {
		ch := t.Channel()
		three(t, ch)
		ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
		return ch
	}
	return []Case{
		{ID: "tx/ack-commit", Title: "acks hold from the commit on", Source: source, Class: Core, Run: func(t *T) {
			ch := scene(t)
			ch.Send(wire.BasicAck{DeliveryTag: 2, Multiple: true})
			ch.commit()
			ch.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
			ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
			ch.WantGet(t.Q, "c", 0)
		}},
		{ID: "tx/ack-uncommitted", Title: "acks without a commit are void when the channel closes", Source: source, Class: Core, Run: func(t *T) {
			ch := scene(t)
			ch.Send(wire.BasicAck{DeliveryTag: 3, Multiple: true})
			ch.Call(wire.ChannelClose{ReplyCode: 200}, wire.ChannelCloseOk{})
			ch.Call(wire.ChannelOpen{}, wire.ChannelOpenOk{})
			ch.WantCount(t.Q, 3, 0)
		}},
		{ID: "tx/ack-rollback", Title: "rollback makes acked tags outstanding again, without redelivery", Source: source, Class: Core, Run: func(t *T) {
			ch := scene(t)
			ch.Send(wire.BasicAck{DeliveryTag: 3, Multiple: true})
			ch.rollback()
			ch.WantCount(t.Q, 0, 0)
			ch.Send(wire.BasicAck{DeliveryTag: 2})
			ch.commit()
			ch.Send(wire.BasicNack{Multiple: true, Requeue: true})
			ch.commit()
			ch.WantGet(t.Q, "a", 1)
			ch.WantGet(t.Q, "c", 0)
		}},
		{ID: "tx/nack-commit", Title: "a requeue happens at commit", Source: source, Class: Extension, Run: func(t *T) {
			ch := scene(t)
			ch.Send(wire.BasicNack{DeliveryTag: 1, Requeue: true}, wire.BasicReject{DeliveryTag: 2, Requeue: true}, wire.BasicReject{DeliveryTag: 3})
			ch.WantCount(t.Q, 0, 0)
			ch.commit()
			ch.WantCount(t.Q, 2, 0)
			t.Equal("message", ch.Get(t.Q, true), Got{Tag: 4, Redelivered: true, Key: t.Q, Left: 1, Body: "a"})
		}},
		{ID: "tx/ack-prefetch", Title: "room for deliveries is made at commit, not at ack", Source: source, Class: Core, Run: func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Publish("", t.Q, "a", "b")
			ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
			ch.Prefetch(1)
			ch.Consume(t.Q, "c")
			ch.WantBodies("a")
			ch.Send(wire.BasicAck{DeliveryTag: 1})
			ch.WantCount(t.Q, 1, 1)
			ch.Send(wire.TxCommit{})
			wantBoth(t, ch, wire.TxCommitOk{}, "b")
		}},
	}
}

// wantBoth demands a method and a delivery, in either order.
func wantBoth(t *T, ch *Chan, want wire.Method, body string) {
	sawMethod, sawBody := false, false
	for range 2 {
		switch m := ch.next().(type) {
		case wire.BasicDeliver:
			_, got := ch.Content()
			t.Equal("body delivered", got, body)
			sawBody = true
		default:
			t.Equal("method", m, want)
			sawMethod = true
		}
	}
	if !sawMethod || !sawBody {
		t.Fatalf("want %#v and %q, saw one of them twice", want, body)
	}
}
