package conformance

// Difference is one place where Warren answers otherwise than RabbitMQ on purpose.
type Difference struct {
	ID     string
	Title  string
	Reason string
}

// Differences returns every intended difference. A case that is judged differently for Warren names one of these
// in Case.Difference and asks T.Differs; nothing else in the suite looks at which broker it faces.
func Differences() []Difference {
	return []Difference{
		{"foreign-header", "any protocol header but that of AMQP 0-9-1 and 0-9 is answered with AMQP 0 0 9 1 in both profiles",
			"RabbitMQ 4 answers AMQP 3 1 0 0, its AMQP 1.0 security layer; Warren does not speak AMQP 1.0, so naming it would " +
				"send clients astray. The specification (4.2.2) asks for a version that the server does speak."},
		{"frame-min", "under profile 4 a frame-max of 4096 stays permitted",
			"RabbitMQ 4.1 raised the lower bound to 8192 and so locked out clients that negotiate the specification's own " +
				"minimum, 4096 (4.2.3). Nothing is gained by refusing them."},
		{"global-qos", "under profile 4 basic.qos with global set stays one shared limit per channel",
			"RabbitMQ 4.3 takes it for a per-consumer limit unless configured otherwise, so that a client which relies on " +
				"the shared limit is flooded without a word. Warren keeps the meaning that 3.x documents."},
		{"own-properties", "server-properties have two more keys, warren and warren_version",
			"product and version are RabbitMQ's, since client libraries branch on them; whoever wants to know what really answers " +
				"finds it in keys that no library looks at."},
		{"exclusive-gone", "under profile 4 a connection's exclusive queues are gone for everyone once it has close-ok, as under 3",
			"RabbitMQ 4 deletes them in time too, but for a moment other connections may still see them. That is a weakness of " +
				"how its metadata spreads, so Warren is held to the stronger rule."},
		{"tx-whole", "a transaction whose message a full queue refuses leaves nothing behind",
			"RabbitMQ enqueues the messages that were not refused and then says that the transaction completed partially. Warren takes " +
				"all of a transaction or none of it; the client hears the same 406."},
		{"late-requeue", "a consumer whose last late message is given back with requeue is fed again",
			"RabbitMQ 4.3 feeds it again after basic.ack or basic.reject, but after a requeue leaves it registered and without messages for good. " +
				"Nobody can want that."},
		{"stream-dead-letters", "under profile 3 a stream takes dead letters",
			"RabbitMQ 3.10.8 loses a message that is dead-lettered to a stream, without a word; 4.3 puts it there. A loss is nothing to rely on."},
		{"stream-filter-value", "under profile 4 a filter value that is not a string counts as none",
			"RabbitMQ 4.3 ends the connection of whoever publishes such a message to a stream, with an internal error that names nothing. The " +
				"header is the publisher's own business, and other queues take it."},
		{"headers-untouched", "under profile 4 message headers keep the client's bytes: order, repeated keys, and letter L",
			"RabbitMQ 4 decodes and re-encodes headers, which sorts top-level keys, drops repeated ones and turns L into l. Warren passes the " +
				"bytes through, as 3.x does: cheaper, and signatures over headers hold."},
		{"delayed-there", "the exchange type x-delayed-message is always there",
			"To RabbitMQ it is a plugin from its community that one has to install. Programs that need it would fail on a broker that they " +
				"were told to use instead."},
		{"hash-binding-left", "x-consistent-hash: a queue of two bindings keeps receiving when one of them goes",
			"RabbitMQ forgets the queue with the first of its bindings that goes, so one that is bound gets nothing. In Warren the other " +
				"binding's weight counts from then on."},
	}
}
