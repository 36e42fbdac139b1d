package wire

// The methods of AMQP 0-9-1 with RabbitMQ's extensions, each under its name in Go spelling. What a field means stands
// in the specification; NoWait suppresses the -ok, Ticket is unused.
type (
	ConnectionStart struct {
		VersionMajor, VersionMinor uint8
		ServerProperties           Table
		Mechanisms, Locales        LongStr
	}
	ConnectionStartOk struct {
		ClientProperties Table
		Mechanism        string
		Response         LongStr
		Locale           string
	}
	ConnectionSecure   struct{ Challenge LongStr }
	ConnectionSecureOk struct{ Response LongStr }
	ConnectionTune     struct {
		ChannelMax uint16
		FrameMax   uint32
		Heartbeat  uint16
	}
	ConnectionTuneOk struct {
		ChannelMax uint16
		FrameMax   uint32
		Heartbeat  uint16
	}
	ConnectionOpen struct {
		VirtualHost, Capabilities string
		Insist                    bool
	}
	ConnectionOpenOk struct{ KnownHosts string }
	ConnectionClose  struct {
		ReplyCode         uint16
		ReplyText         string
		ClassID, MethodID uint16
	}
	ConnectionCloseOk      struct{}
	ConnectionBlocked      struct{ Reason string }
	ConnectionUnblocked    struct{}
	ConnectionUpdateSecret struct {
		NewSecret LongStr
		Reason    string
	}
	ConnectionUpdateSecretOk struct{}

	ChannelOpen   struct{ OutOfBand string }
	ChannelOpenOk struct{ ChannelID LongStr }
	ChannelFlow   struct{ Active bool }
	ChannelFlowOk struct{ Active bool }
	ChannelClose  struct {
		ReplyCode         uint16
		ReplyText         string
		ClassID, MethodID uint16
	}
	ChannelCloseOk struct{}

	AccessRequest struct {
		Realm                                   string
		Exclusive, Passive, Active, Write, Read bool
	}
	AccessRequestOk struct{ Ticket uint16 }

	ExchangeDeclare struct {
		Ticket                                         uint16
		Exchange, Type                                 string
		Passive, Durable, AutoDelete, Internal, NoWait bool
		Arguments                                      Table
	}
	ExchangeDeclareOk struct{}
	ExchangeDelete    struct {
		Ticket           uint16
		Exchange         string
		IfUnused, NoWait bool
	}
	ExchangeDeleteOk struct{}
	ExchangeBind     struct {
		Ticket                          uint16
		Destination, Source, RoutingKey string
		NoWait                          bool
		Arguments                       Table
	}
	ExchangeBindOk struct{}
	ExchangeUnbind struct {
		Ticket                          uint16
		Destination, Source, RoutingKey string
		NoWait                          bool
		Arguments                       Table
	}
	ExchangeUnbindOk struct{}

	QueueDeclare struct {
		Ticket                                          uint16
		Queue                                           string
		Passive, Durable, Exclusive, AutoDelete, NoWait bool
		Arguments                                       Table
	}
	QueueDeclareOk struct {
		Queue                       string
		MessageCount, ConsumerCount uint32
	}
	QueueBind struct {
		Ticket                      uint16
		Queue, Exchange, RoutingKey string
		NoWait                      bool
		Arguments                   Table
	}
	QueueBindOk struct{}
	QueuePurge  struct {
		Ticket uint16
		Queue  string
		NoWait bool
	}
	QueuePurgeOk struct{ MessageCount uint32 }
	QueueDelete  struct {
		Ticket                    uint16
		Queue                     string
		IfUnused, IfEmpty, NoWait bool
	}
	QueueDeleteOk struct{ MessageCount uint32 }
	QueueUnbind   struct {
		Ticket                      uint16
		Queue, Exchange, RoutingKey string
		Arguments                   Table
	}
	QueueUnbindOk struct{}

	BasicQos struct {
		PrefetchSize  uint32
		PrefetchCount uint16
		Global        bool
	}
	BasicQosOk   struct{}
	BasicConsume struct {
		Ticket                            uint16
		Queue, ConsumerTag                string
		NoLocal, NoAck, Exclusive, NoWait bool
		Arguments                         Table
	}
	BasicConsumeOk struct{ ConsumerTag string }
	BasicCancel    struct {
		ConsumerTag string
		NoWait      bool
	}
	BasicCancelOk struct{ ConsumerTag string }
	BasicPublish  struct {
		Ticket               uint16
		Exchange, RoutingKey string
		Mandatory, Immediate bool
	}
	BasicReturn struct {
		ReplyCode                       uint16
		ReplyText, Exchange, RoutingKey string
	}
	BasicDeliver struct {
		ConsumerTag          string
		DeliveryTag          uint64
		Redelivered          bool
		Exchange, RoutingKey string
	}
	BasicGet struct {
		Ticket uint16
		Queue  string
		NoAck  bool
	}
	BasicGetOk struct {
		DeliveryTag          uint64
		Redelivered          bool
		Exchange, RoutingKey string
		MessageCount         uint32
	}
	BasicGetEmpty struct{ ClusterID string }
	BasicAck      struct {
		DeliveryTag uint64
		Multiple    bool
	}
	BasicReject struct {
		DeliveryTag uint64
		Requeue     bool
	}
	BasicRecoverAsync struct{ Requeue bool }
	BasicRecover      struct{ Requeue bool }
	BasicRecoverOk    struct{}
	BasicNack         struct {
		DeliveryTag       uint64
		Multiple, Requeue bool
	}

	ConfirmSelect   struct{ NoWait bool }
	ConfirmSelectOk struct{}

	TxSelect     struct{}
	TxSelectOk   struct{}
	TxCommit     struct{}
	TxCommitOk   struct{}
	TxRollback   struct{}
	TxRollbackOk struct{}
)

// methods ties ids to structs. exchange.unbind-ok is 51, not 41: an old slip that became the protocol.
var methods = []struct {
	class, method uint16
	zero          Method
}{
	{10, 10, ConnectionStart{}}, {10, 11, ConnectionStartOk{}}, {10, 20, ConnectionSecure{}}, {10, 21, ConnectionSecureOk{}},
	{10, 30, ConnectionTune{}}, {10, 31, ConnectionTuneOk{}}, {10, 40, ConnectionOpen{}}, {10, 41, ConnectionOpenOk{}},
	{10, 50, ConnectionClose{}}, {10, 51, ConnectionCloseOk{}}, {10, 60, ConnectionBlocked{}}, {10, 61, ConnectionUnblocked{}},
	{10, 70, ConnectionUpdateSecret{}}, {10, 71, ConnectionUpdateSecretOk{}},
	{20, 10, ChannelOpen{}}, {20, 11, ChannelOpenOk{}}, {20, 20, ChannelFlow{}}, {20, 21, ChannelFlowOk{}},
	{20, 40, ChannelClose{}}, {20, 41, ChannelCloseOk{}},
	{30, 10, AccessRequest{}}, {30, 11, AccessRequestOk{}},
	{40, 10, ExchangeDeclare{}}, {40, 11, ExchangeDeclareOk{}}, {40, 20, ExchangeDelete{}}, {40, 21, ExchangeDeleteOk{}},
	{40, 30, ExchangeBind{}}, {40, 31, ExchangeBindOk{}}, {40, 40, ExchangeUnbind{}}, {40, 51, ExchangeUnbindOk{}},
	{50, 10, QueueDeclare{}}, {50, 11, QueueDeclareOk{}}, {50, 20, QueueBind{}}, {50, 21, QueueBindOk{}},
	{50, 30, QueuePurge{}}, {50, 31, QueuePurgeOk{}}, {50, 40, QueueDelete{}}, {50, 41, QueueDeleteOk{}},
	{50, 50, QueueUnbind{}}, {50, 51, QueueUnbindOk{}},
	{60, 10, BasicQos{}}, {60, 11, BasicQosOk{}}, {60, 20, BasicConsume{}}, {60, 21, BasicConsumeOk{}},
	{60, 30, BasicCancel{}}, {60, 31, BasicCancelOk{}}, {60, 40, BasicPublish{}}, {60, 50, BasicReturn{}},
	{60, 60, BasicDeliver{}}, {60, 70, BasicGet{}}, {60, 71, BasicGetOk{}}, {60, 72, BasicGetEmpty{}},
	{60, 80, BasicAck{}}, {60, 90, BasicReject{}}, {60, 100, BasicRecoverAsync{}}, {60, 110, BasicRecover{}},
	{60, 111, BasicRecoverOk{}}, {60, 120, BasicNack{}},
	{85, 10, ConfirmSelect{}}, {85, 11, ConfirmSelectOk{}},
	{90, 10, TxSelect{}}, {90, 11, TxSelectOk{}}, {90, 20, TxCommit{}}, {90, 21, TxCommitOk{}},
	{90, 30, TxRollback{}}, {90, 31, TxRollbackOk{}},
}
