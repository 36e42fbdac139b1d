//go:build mutant

package persist

import "time"

// mutantEarlyBy is how long before the commit it confirms.
const mutantEarlyBy = 20 * time.Millisecond

// mutantEarly confirms before the commit; mutantForgets is the first byte of
// the keys that commits leave out.
var (
	mutantEarly   bool
	mutantForgets byte
)

// forgotten leaves a key out of a commit.
func forgotten(key []byte) bool { return key[0] == mutantForgets }
