package conformance

import "slices"

// Class says what a case needs and where it fits.
type Class string

const (
	// Core is AMQP 0-9-1 as the specification has it, with RabbitMQ's reply texts.
	Core Class = "core"
	// Extension is what RabbitMQ adds: confirms, nack, exchange bindings, priorities, CC and BCC, and their kin.
	Extension Class = "extension"
	// Timing is a rule about time: such a case waits up to some ten seconds.
	Timing Class = "timing"
	// Management needs the HTTP management API.
	Management Class = "management"
	// Own is what Warren has and RabbitMQ has not; such a case is for Warren alone.
	Own Class = "own"
	// Alarms needs an administrator who can raise resource alarms. These block whoever publishes, so such cases run one
	// at a time with no other case beside them.
	Alarms Class = "alarms"
)

// Profiles of the broker under test: which RabbitMQ it should behave as.
const (
	Profile3 = 3 // RabbitMQ 3.10.8
	Profile4 = 4 // RabbitMQ 4.3.6
)

// Case is one rule and the way to check it.
type Case struct {
	ID         string // "chapter/what", unique
	Title      string // the rule in a few words
	Source     string // where the rule stands: "spec queue.7", "rabbitmq: ..." or "behaviour 2.3"
	Class      Class
	Profiles   []int  // empty: all
	Difference string // id in Differences when Warren is meant to answer otherwise
	NeedsAdmin bool   // needs users, permissions or virtual hosts of its own
	Run        func(t *T)
}

// In reports whether the case applies to a profile.
func (c Case) In(profile int) bool {
	return len(c.Profiles) == 0 || slices.Contains(c.Profiles, profile)
}

// All returns every case, chapter by chapter. The slice is the caller's.
func All() []Case {
	return slices.Concat(
		handshakeCases(), authenticationCases(), tuneCases(), openCases(),
		frameCases(), sequenceCases(), contentCases(), channelCases(), closingCases(), heartbeatCases(),
		exchangeDeclareCases(), exchangeBindCases(),
		queueDeclareCases(), queueArgumentCases(), queueDeleteCases(), queueBindCases(), exclusiveCases(), nameCases(),
		consumeCases(), cancelCases(), qosCases(),
		publishCases(), returnCases(), carbonCopyCases(), expirationCases(),
		getCases(), ackCases(), recoverCases(),
		confirmCases(), txCases(),
		directCases(), topicCases(), headersCases(), alternateCases(),
		priorityCases(), propertyCases(), permissionCases(), clientCases(),
		deadLetterCases(), deathCountCases(), ttlCases(), limitCases(), expiresCases(),
		singleActiveCases(), consumerPriorityCases(), replyCases(), argumentCases(), equivalenceCases(),
		policyCases(), vhostLimitCases(),
		quorumCases(), consumerTimeoutCases(),
		choosingCases(), historyCases(), delayedCases(), traceCases(),
		subscriptionCases(), activeConsumerCases(), overflowModeCases(), flowThresholdCases(), agingCases(), ownArgumentCases(), selectorBindingCases(), selectorConsumerCases(),
		streamCases(),
		alarmCases(),
	)
}

// Select returns the cases of All that a target can be judged by, and how many were left out because the target has
// no administrator. Classes, when given, narrow the choice.
func Select(target Target, classes ...Class) (chosen []Case, needAdmin int) {
	for _, c := range All() {
		if !c.In(target.Profile) || c.Class == Own && !target.Warren || len(classes) > 0 && !slices.Contains(classes, c.Class) {
			continue
		}
		if (c.NeedsAdmin || c.Class == Management) && target.Admin == nil {
			needAdmin++
			continue
		}
		if _, is := target.Admin.(AlarmSetter); c.Class == Alarms && !is {
			needAdmin++
			continue
		}
		chosen = append(chosen, c)
	}
	return chosen, needAdmin
}
