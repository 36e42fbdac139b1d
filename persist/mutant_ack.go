//go:build mutant && mutant_ack

package persist

func init() { mutantForgets = prefixAck }
