//go:build !mutant

package persist

// A binary built with the tag mutant and one of mutant_body, mutant_index,
// mutant_ack, mutant_definition, mutant_early breaks a promise, so that the
// crash matrix can prove that it finds broken promises.

// mutantEarly confirms before the commit.
const mutantEarly = false

// forgotten leaves a key out of a commit.
func forgotten([]byte) bool { return false }
