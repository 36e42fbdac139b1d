//go:build mutant && mutant_early

package persist

func init() { mutantEarly = true }
