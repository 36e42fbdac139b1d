//go:build mutant && mutant_index

package persist

func init() { mutantForgets = prefixIndex }
