// Command crash is the crash matrix: it runs the real binary as a child,
// keeps it busy over several connections that always have something in flight,
// kills it with SIGKILL, starts it again on the same folder and compares what
// is there with what the clients were told.
//
//	go run ./conformance/crash [-kills 1000] [-seed N] [-tags crashpoints] [-v]
//
// What must hold, whenever the kill comes:
//
//   - a confirmed persistent message is there, once in each queue, with its
//     bytes, and the messages of one publisher are in the order they were sent;
//   - a transaction whose commit-ok came is there as a whole, one whose commit
//     was under way as a whole or not at all, any other not at all; that counts
//     for its acknowledgements too;
//   - a declare, delete, bind or purge that was answered holds;
//   - an acknowledgement does not come back once a commit-ok or a confirm
//     followed it on its channel, or 200 ms after the broker had it;
//   - a message that was rejected, or expired, is either where it was or in the
//     dead-letter queue, not in both and not in neither;
//   - what was once gone does not appear again, and a message that was handed
//     out and comes back is marked redelivered.
//
// A run can also kill at the commit points that the binary has when it is
// built with the tag crashpoints, and it proves that it can fail: built with a
// mutant tag the binary forgets a part of a commit, or confirms too early, and
// the matrix must say so.
//
//	workers ──────────────> ledger: what each client was told
//	   │ amqp                   │
//	   ▼                        ▼
//	warren serve (child)     verify: drain every queue, compare
package main
