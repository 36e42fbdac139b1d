// Package exchange decides where a message goes: given the bindings of one exchange, a routing key and headers, it names
// the destinations. It does nothing else. There is no I/O, no clock, no lock and no memory of past messages; queues,
// alternate exchanges, exchange-to-exchange graphs and the removal of doubles are the broker's business.
//
//	                 Bind, Unbind (one writer)
//	matcher v1  ------------------------------>  matcher v2  ---->  ...
//	    ^                                            ^
//	publishers that began before                 publishers that begin now: Route
//
// A Matcher is an immutable value. Bind and Unbind return a new one that shares all but the changed path with the old
// (package immutable), the broker publishes the new one with one atomic store, and a Route that is under way finishes on
// the version it began with. So every method may be called from any goroutine, and nothing here is ever owned by one;
// the broker lets a single writer derive new versions so that none gets lost.
//
// One file holds one exchange type: direct, fanout, topic, headers and consistent hash; those that choose one binding at
// random or by a remainder share choose.go; selecting.go adds bindings with a JMS selector to topic and headers. Their rules are those RabbitMQ shows on the wire, where it differs between
// its 3.x and 4.x lines Options picks one. Chance comes in as a function, so that a test can say what it throws.
package exchange
