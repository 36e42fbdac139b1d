package conformance

import (
	"time"

	"github.com/warrenmq/warren/conformance/wire"
)

// wantBlocked demands connection.blocked as the next frame of the connection.
func (c *Conn) wantBlocked(reason string) {
	c.WantNext(0, wire.ConnectionBlocked{Reason: reason})
}

// wantUnblocked demands connection.unblocked as the next frame of the connection: what waited is answered after it.
func (c *Conn) wantUnblocked() { c.WantNext(0, wire.ConnectionUnblocked{}) }

// publisher is a channel in confirm mode with a queue t.Q.
func (t *T) publisher() *Chan { return t.publisherOf(t.Q) }

func (t *T) publisherOf(q string) *Chan {
	ch := t.Channel()
	ch.Queue(q)
	ch.Confirm()
	return ch
}

// blocked is a publisher whose publish of "held" waits for the end of an alarm.
func (t *T) blocked(resource string) *Chan {
	ch := t.publisher()
	t.alarm(resource)
	ch.Publish("", t.Q, "held")
	ch.wantBlocked("low on " + resource)
	return ch
}

// wantHeld demands what a blocked publisher gets at the end of the alarm.
func (ch *Chan) wantHeld() {
	ch.wantUnblocked()
	ch.WantConfirms(1, 1)
	ch.WantGet(ch.t.Q, "held", 0)
}

func alarmCases() []Case {
	const source = "rabbitmq: resource alarms, behaviour 1.11"
	one := func(id, title string, run func(t *T)) Case {
		return Case{ID: "alarm/" + id, Title: title, Source: source, Class: Alarms, Run: run}
	}
	return []Case{
		one("idle", "a connection that does not publish is told nothing and served", func(t *T) {
			ch := t.publisher()
			t.alarm("memory")
			ch.Quiet()
			ch.WantEmpty(t.Q)
			t.Channel().Queue(t.Q2) // a new one too
		}),
		one("memory", "the reason is low on memory", func(t *T) {
			ch := t.blocked("memory")
			t.calm("memory")
			ch.wantHeld()
		}),
		one("disk", "the reason is low on disk", func(t *T) {
			ch := t.blocked("disk")
			t.calm("disk")
			ch.wantHeld()
		}),
		one("both", "both reasons stand in one text", func(t *T) {
			ch := t.publisher()
			t.alarm("memory")
			t.alarm("disk")
			ch.Publish("", t.Q, "held")
			ch.wantBlocked("low on disk & memory")
			t.calm("disk")
			t.calm("memory")
			ch.wantHeld()
		}),
		one("reason-changes", "another reason is not told, and unblocked comes with the last", func(t *T) {
			ch := t.blocked("memory")
			t.alarm("disk")
			t.calm("memory")
			t.calm("disk")
			ch.wantHeld()
		}),
		one("again", "each alarm is told anew", func(t *T) {
			ch := t.blocked("memory")
			t.calm("memory")
			ch.wantHeld()
			t.alarm("disk")
			ch.Publish("", t.Q, "again")
			ch.wantBlocked("low on disk")
			t.calm("disk")
			ch.wantUnblocked()
			ch.WantConfirms(2, 2)
		}),
		one("everything-waits", "every method of a blocked connection waits, on all channels; unblocked comes before the answers", func(t *T) {
			ch := t.publisher()
			other := ch.Chan(2)
			t.alarm("memory")
			ch.Publish("", t.Q, "held")
			other.Send(wire.QueueDeclare{Queue: t.Q2, Exclusive: true})
			ch.wantBlocked("low on memory")
			t.calm("memory")
			ch.wantUnblocked()
			other.Want(wire.QueueDeclareOk{Queue: t.Q2})
			ch.WantConfirms(1, 1)
		}),
		one("no-capability", "without the capability connection.blocked the same happens without a word", func(t *T) {
			c := t.ConnectAs(login{properties: wire.Table{{Key: "capabilities", Value: capabilities("publisher_confirms")}}})
			ch := c.Chan(1)
			ch.Queue(t.Q)
			ch.Confirm()
			other := t.publisherOf(t.Q2)
			t.alarm("memory")
			ch.Publish("", t.Q, "held")
			other.Publish("", t.Q2, "") // by now the first one is blocked
			other.wantBlocked("low on memory")
			t.calm("memory")
			ch.WantConfirms(1, 1)
			other.WantConfirms(1, 1)
			other.wantUnblocked()
		}),
		one("header-blocks", "the content header blocks, not the method; the body waits", func(t *T) {
			ch := t.publisher()
			other := ch.Chan(2)
			t.alarm("memory")
			frames := ch.ContentFrames(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{}, "held")
			ch.SendFrames(frames[0])
			other.Quiet()
			ch.SendFrames(frames[1])
			ch.wantBlocked("low on memory")
			ch.SendFrames(frames[2])
			t.calm("memory")
			ch.wantHeld()
		}),
		one("body-blocks", "a body frame blocks when the alarm came after the header", func(t *T) {
			ch := t.publisher()
			frames := ch.ContentFrames(wire.BasicPublish{RoutingKey: t.Q}, wire.Properties{}, "held")
			ch.SendFrames(frames[:2]...)
			ch.Chan(2).Quiet()
			t.alarm("memory")
			ch.SendFrames(frames[2])
			ch.wantBlocked("low on memory")
			ch.WantConfirms(1, 1) // complete with the frame that blocks
			t.calm("memory")
			ch.wantUnblocked()
		}),
		one("empty-body", "a message that is complete with its header is taken and confirmed", func(t *T) {
			ch := t.publisher()
			t.alarm("memory")
			ch.Publish("", t.Q, "")
			ch.wantBlocked("low on memory")
			ch.WantConfirms(1, 1)
			t.calm("memory")
			ch.wantUnblocked()
			ch.WantGet(t.Q, "", 0)
		}),
		one("deliveries", "deliveries go out on a blocked connection", func(t *T) {
			ch, other := t.publisher(), t.Channel()
			consumer := ch.Chan(2)
			consumer.DeclareQueue(wire.QueueDeclare{Queue: t.Q2, AutoDelete: true})
			consumer.ConsumeNoAck(t.Q2, "c")
			t.alarm("memory")
			ch.Publish("", t.Q, "held")
			ch.wantBlocked("low on memory")
			other.Publish("", t.Q2, "") // complete with its header, so it is taken
			other.wantBlocked("low on memory")
			consumer.WantDelivery(Delivery{Consumer: "c", Tag: 1, Key: t.Q2})
			t.calm("memory")
			ch.wantHeld()
			other.wantUnblocked()
		}),
		one("tx", "publishes of a transaction wait, and its commit after them", func(t *T) {
			ch := t.Channel()
			ch.Queue(t.Q)
			ch.Call(wire.TxSelect{}, wire.TxSelectOk{})
			t.alarm("memory")
			ch.Publish("", t.Q, "a", "b")
			ch.Send(wire.TxCommit{})
			ch.wantBlocked("low on memory")
			t.calm("memory")
			ch.wantUnblocked()
			ch.Want(wire.TxCommitOk{})
			ch.wantReady(t.Q, "a", "b")
		}),
		one("client-closes", "connection.close of a blocked client is answered after the alarm", func(t *T) {
			ch := t.blocked("memory")
			ch.over = true
			ch.Conn.Send(0, wire.ConnectionClose{ReplyCode: 200})
			t.calm("memory")
			ch.wantUnblocked()
			for f := ch.NextFrame(); f.Channel != 0; f = ch.NextFrame() {
				if m := ch.decode(f); m != (wire.BasicAck{DeliveryTag: 1}) {
					t.Fatalf("before close-ok came %#v", m)
				}
			}
		}),
		one("server-closes", "a blocked connection can be closed from outside", func(t *T) {
			closer, ok := t.Admin.(ConnectionCloser)
			if !ok {
				t.Fatalf("the administrator %T cannot close connections", t.Admin)
			}
			t.user("management")
			t.permit(".*", ".*", ".*")
			ch := t.ConnectAs(login{user: t.Login, password: "pw"}).Chan(1)
			t.alarm("memory")
			ch.Publish("", t.Q, "held")
			ch.wantBlocked("low on memory")
			t.Must(closer.CloseConnection(t.Login, "bye"))
			ch.Conn.WantClosing(hard(320, nil, "bye"))
		}),
		one("heartbeat", "a blocked client's heartbeats are not missed, those of the broker go on", func(t *T) {
			t.alarm("memory")
			ch := t.ConnectAs(login{heartbeat: 1}).Chan(1)
			ch.Publish("", t.Q, "held")
			ch.wantBlocked("low on memory")
			beats := 0
			for end := time.Now().Add(5 * time.Second); time.Now().Before(end); beats++ {
				if f, err := ch.w.ReadFrame(patience); err != nil || f.Type != wire.FrameHeartbeat {
					t.Fatalf("want a heartbeat, got %v, %v", f, err)
				}
			}
			if beats < 4 {
				t.Errorf("%d heartbeats in 5 s, want one every half second", beats)
			}
			ch.Drop()
		}),
	}
}
