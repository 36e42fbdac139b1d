package main

import (
	"errors"
	"fmt"
)

// mutants are the build tags of brokers that break a promise: the first ones
// leave a kind of key out of their commits, the last confirms before the
// commit.
var mutants = []string{"mutant_body", "mutant_index", "mutant_ack", "mutant_definition", "mutant_early"}

// findMutants runs the matrix on each mutant and fails on one that it does not
// find out within the kills.
func findMutants(o options) error {
	var missed error
	for _, mutant := range mutants {
		each := o
		each.tags, each.folder = "crashpoints,mutant,"+mutant, ""
		s, err := run(each)
		if err == nil {
			missed = errors.Join(missed, fmt.Errorf("%s: nothing was found after %d kills", mutant, s.Kills))
			continue
		}
		fmt.Printf("%s: found after %d kills: %.300s\n", mutant, s.Kills, err)
	}
	return missed
}
