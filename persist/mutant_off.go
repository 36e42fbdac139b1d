//go:build !mutant

package persist

import "time"

// A binary built with the tag mutant and one of mutant_body, mutant_index,
// mutant_ack, mutant_definition, mutant_early breaks a promise, so that the
// crash matrix can prove that it finds broken promises.

// mutantEarly confirms before the commit.
const mutantEarly = false

// mutantEarlyBy is how long before the commit it does.
const mutantEarlyBy = 20 * time.Millisecond

// forgotten leaves a key out of a commit.
func forgotten([]byte) bool { return false }
