//go:build mutant && mutant_definition

package persist

func init() { mutantForgets = prefixDef }
