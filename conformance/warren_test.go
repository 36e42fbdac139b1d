package conformance

import "testing"

// startWarren starts Warren in this process with a compatibility profile and returns how to reach it, who administers
// it, and how to stop it. The broker is not wired up yet, so for now a broker has to be named.
func startWarren(t testing.TB, profile int) (uri string, admin Admin, stop func()) {
	t.Helper()
	t.Fatalf("no broker for profile %d: give -uri", profile)
	return "", nil, nil
}
