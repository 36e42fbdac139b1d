// Package resource says how much memory this process may use and uses, and
// reads limits as RabbitMQ's configuration spells them. It holds no state and
// changes nothing.
//
// What counts as used is anonymous memory. The store maps its files, whose
// pages the kernel takes back when it needs them; counting those would hold up
// publishers for memory that is free.
package resource
