//go:build mutant && mutant_body

package persist

func init() { mutantForgets = prefixBody }
