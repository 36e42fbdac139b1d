// Package broker holds everything that exists independently of any
// connection: virtual hosts, their exchanges, queues and bindings, the path of
// a publish through them, and what is kept of them in the store.
//
//	channel ──> VHost.Route (immutable snapshot, no lock) ──> queues
//	channel ──> VHost.DeclareQueue, Bind, ... ──> new snapshot ──> store
//
// The topology of a virtual host is one immutable value behind an atomic
// pointer. Whoever changes it holds the virtual host's mutex, builds the next
// value, which shares almost all of its memory with the last one, and swaps
// the pointer; publishers only load it. A queue that has gone says so itself,
// so a publisher with an old snapshot does no harm.
//
// Methods that change durable things take a done function and say whether it
// will be called: the caller's answer to its client must wait for it, since a
// declare or delete whose -ok was sent holds over SIGKILL.
//
// Hooks: see Event, Observer and Interceptor. Tracing, fault rules, metrics
// and the event exchange hang there and put no code of their own into the
// paths.
package broker
