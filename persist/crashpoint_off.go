//go:build !crashpoints

package persist

// crashPoint is where a binary built with the tag crashpoints can be told to
// kill itself.
func crashPoint(string) {}
