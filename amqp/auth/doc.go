// Package auth decides who may log in and what they may do: users and their password hashes, permissions and topic
// permissions, and the SASL mechanisms of connection.start-ok.
//
// What it promises:
//
//   - A check takes no lock. Everything is held in one immutable snapshot behind an atomic pointer, so the channels of
//     all connections ask at the same time without waiting for each other or for a change.
//   - A change is seen by checks before the call that makes it returns, and reported durable later through its done
//     function. Changes reach the store in the order in which they became visible. What belongs together (a deleted
//     user and its permissions) is one atomic update of the store.
//   - Nothing a client sends makes it panic, allocate without bound or take other than linear time; patterns are
//     matched by Go's regexp package, which never backtracks.
//   - A refused login says the same, and costs about the same, for an unknown user, a wrong password and a user who
//     may only log in over loopback.
//
// The way of a login and of a check:
//
//	connection.start-ok -> Mechanism.Respond -> Backend.Authenticate -> loopback rule -> user name
//	                                                 |
//	                                                 v
//	     management API -> Directory --(atomic pointer)--> snapshot -> accounts -> compiled patterns
//	     definitions          |                              ^
//	                          v                              |
//	                        Store                Backend.Check, CheckTopic, VHostAccess <- channels
//
// Who owns what: the Directory owns users and permissions; its mutex is held only to make a change, never across disk
// I/O. A snapshot, and everything reachable from it, is never written after it was published. Mechanisms are immutable
// and shared by all connections. The package starts no goroutine and reads no clock.
//
// # Patterns
//
// A permission is three regular expressions on names. They are unanchored: "r" allows every name with an r in it. The
// empty pattern stands for ^$ and so denies every name. RabbitMQ compiles them with PCRE, this package with Go's regexp
// (RE2 syntax), in which everything of everyday use means the same. Of PCRE's own extensions one is understood:
// lookahead assertions at the very start of an anchored pattern, as in
//
//	^(?!amq\.|secret).*
//
// because that is how "all but these" is written (at most 16 of them). Other look-around, back-references, atomic
// groups and possessive quantifiers, as well as counts above 1000, are refused with a *PatternError that says so when
// the permission is set, never when it is used. Two further differences: "$" does not match before a final line feed,
// and "." matches one character, not one byte.
//
// In topic permissions {username} and {vhost} are replaced by the names they stand for, quoted, so that a user name
// that holds characters special to patterns cannot widen what the pattern allows. RabbitMQ 4.3 does so too, 3.10 inserts
// them unquoted.
package auth
