// Package management is the HTTP API that RabbitMQ's management plugin has: the
// same paths, outcomes, status codes and field names, over the broker of this
// process, so that tools written for the one work with the other.
//
//	request ── route (routes.go) ── login, tags, virtual host ── resource ── broker
//	                                                                │
//	                            JSON: sort, columns, pages ◄────────┘
//
// There is one file for each kind of resource. A handler returns a value, which
// becomes the JSON body, or an error, which becomes a status and RabbitMQ's error
// object; server.go is the only place that writes an answer. Counts are those of
// the moment. Nothing here holds state but what limits logins; all methods may
// be called from any goroutine.
package management
