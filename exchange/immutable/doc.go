// Package immutable holds maps that never change: Set and Delete return a new map and leave the old one as it was.
//
// Routing reads a snapshot of the topology without locks while the topology is being changed elsewhere. A bind must
// therefore produce a new snapshot, and it must not copy ten thousand bindings to add one. Both maps here are hash
// array mapped tries: 32-way nodes chosen by five bits of the hash a level, in the compressed layout that keeps entries
// and children in two dense slices behind two bitmaps. A change copies the nodes on the path from the root to the entry
// (two or three of them for ten thousand keys) and shares the rest.
//
//	     root  entries: c          Set("d") on this map makes a new root and a new left
//	    /    \                     node; the right node belongs to both maps.
//	a b        e f
//
// Ownership: nobody owns a node once the call that made it has returned. Nodes are written only before they are
// published, so any number of goroutines may read a map and derive new maps from it at the same time.
//
// Hashes come from hash/maphash with one seed per process, so their distribution cannot be steered from outside. Keys
// whose whole 64-bit hashes are equal are kept in a list below the last level.
package immutable
