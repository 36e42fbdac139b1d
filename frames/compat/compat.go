// Package compat is the one table of what clients can see differ between the
// two RabbitMQ versions that Warren follows: 3.10.8 (profile 3) and 4.3.6
// (profile 4). Code that behaves differently by version asks a row of this
// table; there is no other place with a version in it.
//
// Each row names where the fact comes from: "verified" means both versions
// were asked on the wire.
//
// Intended differences from 4.3.6, because a broker for tests refuses nothing
// that users' programs still do: transient non-exclusive queues, global qos
// and a frame-max of 4096 stay permitted; message headers keep the client's
// bytes, order and types; and a foreign protocol header is answered with
// AMQP 0 0 9 1 in both profiles, since Warren speaks nothing else.
package compat

import "fmt"

// Profile is the RabbitMQ version whose behaviour is followed. The zero value
// is not valid; use V3 or V4.
type Profile uint8

// The profiles.
const (
	V3 Profile = 3 // RabbitMQ 3.10.8
	V4 Profile = 4 // RabbitMQ 4.3.6, the default
)

// Parse reads the value of --compat.
func Parse(s string) (Profile, error) {
	switch s {
	case "3":
		return V3, nil
	case "4":
		return V4, nil
	}
	return 0, fmt.Errorf("unknown compatibility profile %q: give 3 (RabbitMQ 3.10.8) or 4 (RabbitMQ 4.3.6)", s)
}

// String gives "3" or "4".
func (p Profile) String() string { return fmt.Sprint(uint8(p)) }

// Row is one difference: what it is about, where the fact comes from, and the
// value in each profile.
type Row[T any] struct {
	What, Source string
	V3, V4       T
}

// In gives the row's value in a profile. Any goroutine.
func (r *Row[T]) In(p Profile) T {
	if p == V3 {
		return r.V3
	}
	return r.V4
}

const verified = "verified on 3.10.8 and 4.3.6"

// The table.
var (
	Version = Row[string]{"version in server-properties", verified, "3.10.8", "4.3.6"}

	Platform = Row[string]{"platform in server-properties", verified, "Erlang/OTP 25.2.3", "Erlang/OTP 29.1.2"}

	Copyright = Row[string]{"copyright holder in server-properties", verified,
		"Copyright (c) 2007-2022 VMware, Inc. or its affiliates.",
		"Copyright (c) 2007-2026 Broadcom Inc and/or its subsidiaries"}

	UnknownExchangeTypeCode = Row[uint16]{"reply code for an unknown exchange type", verified, 503, 406}

	AccessPrefix = Row[bool]{"access-refused texts name the permission: 'write access to' instead of 'access to'", verified, false, true}

	InitialFrameMax = Row[uint32]{"largest frame payload before tune-ok", "RabbitMQ source, key initial_frame_max", 4096, 8192}

	MaxMessageSize = Row[uint64]{"default largest message body, bytes", "source for 3.10.8 (128 MiB); verified on 4.3.6 (16 MiB)", 128 << 20, 16 << 20}

	HeaderSizeCap = Row[uint64]{"body size in a content header that is refused at once with 501; 0 = none", verified, 0, 512 << 20}

	BodyOverrun = Row[bool]{"body longer than its header said: 501 instead of waiting silently", verified, false, true}

	Anonymous = Row[bool]{"SASL ANONYMOUS offered", verified, false, true}

	OldProtocolHeader = Row[bool]{"protocol header AMQP 1 1 8 0 (0-8) accepted", verified, true, false}

	CancelOkCancels = Row[bool]{"basic.cancel-ok from a client acts as basic.cancel instead of 503", verified, false, true}

	HeaderNumbersByValue = Row[bool]{"headers exchange: the number 1 matches 1.0 and other widths", verified, true, false}

	PassiveDeclareNeedsPermission = Row[bool]{"a passive declare needs any one permission on the object", verified, false, true}

	CheckDeliveryMode = Row[bool]{"delivery_mode other than 1 or 2 is refused with 406", verified, true, false}

	QueueTypeInjected = Row[bool]{"x-queue-type is added to the stored queue arguments when the client gave none", verified, false, true}

	QueueModeValidated = Row[bool]{"x-queue-mode of a classic queue is validated", verified, true, false}

	QueueVersion1 = Row[bool]{"x-queue-version 1 accepted", verified, true, false}

	QueueTypeShownAgainstDefault = Row[bool]{"inequivalent x-queue-type is compared with the default type instead of 'none'", verified, false, true}

	EmptyQueueTypeIsDefault = Row[bool]{"x-queue-type \"\" or \"undefined\" means the default type", verified, false, true}

	MasterLocator = Row[bool]{"x-queue-master-locator accepted", verified, true, false}

	ClassicLeaderLocator = Row[bool]{"x-queue-leader-locator valid on classic queues", verified, false, true}

	LeaderLocatorMinMasters = Row[bool]{"x-queue-leader-locator \"min-masters\" accepted", verified, false, true}

	StreamFilters = Row[bool]{"x-stream-filter-size-bytes of a stream, x-stream-filter and x-stream-match-unfiltered of its consumers are known", verified, false, true}

	StreamPrefetchText = Row[string]{"text for a stream consumer without prefetch", verified,
		"consumer prefetch count is not set for '%s'", "consumer prefetch count is not set for stream %s"}

	StreamAckText = Row[string]{"text for a stream consumer without acknowledgement", verified,
		"automatic acknowledgement not supported by stream queues %s", "automatic acknowledgement not supported by stream %s"}

	StreamGlobalQos = Row[bool]{"streams can be consumed on a channel with a limit set by global qos", verified, false, true}

	StreamRejects = Row[bool]{"basic.nack, basic.reject and basic.recover of a stream's deliveries count as acknowledgements instead of 540, for recover 541", verified, false, true}

	StreamDeliveryMode = Row[bool]{"a stream's messages without delivery mode are delivered with 1", verified, false, true}

	QuorumTimeouts = Row[bool]{"x-consumer-timeout and x-consumer-disconnected-timeout are known: quorum queues and their consumers only", verified, false, true}

	DelayedRetry = Row[bool]{"x-delayed-retry-* are known: quorum queues only", verified, false, true}

	MirrorConsumerArguments = Row[bool]{"x-cancel-on-ha-failover and x-credit are known consumer arguments", verified, true, false}

	UnknownTypeRefused = Row[bool]{"a queue without a name and of an unknown type is refused with 406 instead of 541", verified, false, true}

	MaxAgeNeedsDigits = Row[bool]{"an age that does not start with a digit is refused with 406; otherwise 541", verified, false, true}

	MaxAgeByDuration = Row[bool]{"x-max-age of equal length counts as equal whatever its unit", verified, false, true}

	MinPriorities = Row[bool]{"x-max-priority 0 acts as 1", verified, false, true}

	TransientExchangesSurvive = Row[bool]{"transient exchanges survive a restart", verified, false, true}

	UserChannelLimitText = Row[string]{"text for a user's channel limit", verified,
		"number of channels opened for user '%s' has reached the maximum allowed user limit of (%d)",
		"number of channels opened for user '%s' has reached the maximum allowed user limit of %d"}

	MaxTopicHashes = Row[int]{"most # wildcards in the key of a topic binding; 0 = any number", verified, 0, 2}

	DeathKeepsRedelivered = Row[bool]{"a dead-lettered message that was delivered before its death is marked redelivered", verified, false, true}

	ExpirationNormalised = Row[bool]{"the expiration property is delivered without sign and leading zeros", verified, false, true}

	ReplyQueues = Row[bool]{"direct reply names are queues of a type of their own, with refusals of their own", verified, false, true}

	RepliesCountAsRouted = Row[bool]{"a direct reply counts as routed, even when the requester has gone", verified, false, true}

	TopicPermissionsGoWithExchange = Row[bool]{"topic permissions for an exchange go when it is deleted", verified, false, true}

	LocalRandomExchange = Row[bool]{"exchange type x-local-random is known", verified, false, true}

	MaxHashWeight = Row[int64]{"highest weight of a binding to an x-consistent-hash exchange; 0 = any", verified, 0, 10000}

	ReplayErrorNamed = Row[bool]{"x-recent-history bound to an exchange that leads nowhere: the 541 has a text and names the method", verified, false, true}

	HistorySurvives = Row[bool]{"an x-recent-history exchange remembers over a restart", "RabbitMQ source: a table in memory, then Khepri", false, true}

	DelayHeaderLong = Row[bool]{"the x-delay header of a message that was delayed is a 64-bit integer", "delayed message plugin's source, 3.10 and 4.2", false, true}

	TraceHeadersSorted = Row[bool]{"the headers of a firehose message are sorted by key", verified, false, true}

	LogExchange = Row[bool]{"amq.rabbitmq.log is declared in the default virtual host", verified, false, true}

	PublisherDeathsCount = Row[bool]{"an x-death header that the publisher sent counts when the message is dead-lettered, instead of being replaced", verified, true, false}

	LastDeathHeaders = Row[bool]{"dead-lettered messages have x-last-death-* headers", verified, false, true}

	DeathKeyRemovesCC = Row[bool]{"dead-lettering with a routing key removes the CC header", verified, true, false}

	ExpirationBeforeDeath = Row[bool]{"original-expiration is the first key of an x-death entry instead of the last", verified, false, true}

	LaterDeathsRearranged = Row[bool]{"with each death but the first, the keys of its x-death entry are sorted and the entries of others change to the opposite order", verified, true, false}

	DeathDropsDuplicates = Row[bool]{"of headers with the same key, dead-lettering keeps the first", verified, false, true}

	ApplyToQueueTypes = Row[bool]{"policies may apply to queues of one type", verified, false, true}

	VHostQueueType = Row[bool]{"a virtual host has a default queue type", verified, false, true}

	QueueLimitAfterArguments = Row[bool]{"the limit of queues in a virtual host is asked after the arguments of a new queue", verified, false, true}

	PCRE2Texts = Row[bool]{"what is wrong with a pattern is said in the words of PCRE 2", verified, false, true}

	PolicyNegativeDeliveryLimit = Row[bool]{"policies may have a negative delivery-limit", verified, false, true}
	EveryReturnFails            = Row[bool]{"quorum: every return counts to the delivery limit, not only basic.reject and the loss of the channel", verified, true, false}

	UnlimitedReturnsGoLast = Row[bool]{"quorum: without a delivery limit, what a client gives back goes behind all that waits", verified, true, false}

	SingleActivePreempted = Row[bool]{"quorum: a single active consumer makes way for one of higher priority, and successors come by priority instead of age", verified, false, true}

	PropertiesCountAsBytes = Row[bool]{"quorum: x-max-length-bytes counts properties too", verified, false, true}

	QuorumMaxPriority = Row[int]{"quorum: highest priority told apart; 0 = none are", verified, 0, 31}

	QuorumDefaultPriority = Row[uint8]{"quorum: priority of a message without one", verified, 0, 4}

	DefaultDeliveryLimit = Row[int64]{"quorum: delivery limit without x-delivery-limit; -1 = none", verified, -1, 20}

	NegativeDeliveryLimit = Row[int64]{"quorum: what a negative x-delivery-limit means; -1 = none", verified, 0, -1}

	AnyDeliveryLimit = Row[bool]{"quorum: an x-delivery-limit that is no number is a limit that is never reached, instead of none given", verified, true, false}

	SingleActiveGetText = Row[string]{"quorum: text for basic.get beside a single active consumer", verified,
		"cannot obtain access to locked %s. basic.get operations are not supported by quorum queues with single active consumer",
		"cannot obtain access to locked %s. basic.get operations are not supported by <<\"quorum\">> queues with single active consumer"}

	QuorumRefusesGlobalQos = Row[bool]{"quorum: basic.consume is refused with 540 on a channel with global qos", verified, true, false}

	GetShowsDeliveryCount = Row[bool]{"quorum: basic.get shows x-delivery-count also at the first time", verified, true, false}

	AcquiredCount = Row[bool]{"quorum: x-acquired-count counts all returns, x-delivery-count failures only and is absent while 0", verified, false, true}

	TimeoutClosesChannel = Row[bool]{"consumer timeout: of any queue, looked for every 60 s, closes the channel; otherwise of quorum queues, in time, cancels the consumer", verified, true, false}

	TimeoutTextHasValue = Row[bool]{"consumer timeout: the reply-text shows the timeout instead of -1", verified, true, false}

	PublishCheckOrder4 = Row[bool]{"expiration and CC/BCC are checked before topic permission and user-id", "RabbitMQ source", false, true}
)
