// Package conformance judges an AMQP 0-9-1 broker from outside, by what it puts on the wire.
//
// A [Case] is one rule: it opens its own connections, sends exact frames and demands exact frames back: code, text,
// class and method ids, order. Rules come from the AMQP 0-9-1 specification and from what RabbitMQ does beyond it;
// every case holds on RabbitMQ 3.10.8 (profile 3) and 4.3.6 (profile 4), with the values of each where they differ,
// except where Warren departs on purpose, which [Differences] lists with reasons.
//
//	All() ──> Case.Run(*T) ──> T: names, texts, failures     ──> Target: where the broker is, who administers it
//	                      └──> Conn / Chan: say and demand   ──> wire: own codec, own client
//
// A case is synchronous and runs on one goroutine: it says something, then waits for the frames it demands with a
// generous deadline. "Nothing more comes" is shown by a marker, a method with a known answer, never by waiting; the
// few rules that are about time are of class [Timing]. After a case has passed, its connections must have no
// unread frame and must still answer.
//
// Chapters are functions that return lists of cases; such a function is as long as its list.
//
// Ownership: a Target is immutable and shared by all cases. A T, its Conns and their Chans belong to the goroutine
// of the one case they were made for.
package conformance
