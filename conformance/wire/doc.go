// Package wire is a second, independent AMQP 0-9-1 codec and a bare client on top of it, for judging brokers.
//
// It shares no code with the broker's own frames room: were both sides of a test to use one codec, a fault in it
// would cancel out and stay unseen. Speed is no aim here. The codec is strict about what it reads (trailing bytes,
// a missing end octet and unknown methods are errors) and lax about what it writes, because a judge must be able to
// send wrong bytes: see [Raw], [Frame] and [Conn.Write].
//
//	bytes on a socket -> Conn.ReadFrame -> Frame -> DecodeMethod  -> a method value such as QueueDeclareOk{...}
//	                                             -> DecodeHeader  -> Header with Properties
//
// A Conn belongs to one goroutine; every other type is a plain value.
package wire
