// Package store is warren store: it checks, measures, exports and imports the
// data folder of a broker that does not run.
//
//	check ──┐
//	stats ──┼── persist.Reader ── folder
//	export ─┘        │
//	                 └─> JSON lines ──> import ──> persist.Store ── new folder
//
// An export is one JSON object a line: a header, definitions, messages in the
// order of their queues, and an end that counts them. What is written can be
// read by people; where JSON cannot say exactly what the store holds, the bytes
// stand there in base64, so that a round trip changes nothing.
//
// Everything here runs on one goroutine.
package store
