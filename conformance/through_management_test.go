package conformance

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/amqp/amqptest"
)

// TestThroughManagement runs the cases that need an administrator once more, with everything set over the management
// API: so the API is proven by the cases that RabbitMQ's is.
func TestThroughManagement(t *testing.T) {
	if *uriFlag != "" {
		t.Log("the broker given with -uri is administered over its management API in any case")
		return
	}
	for _, profile := range []int{Profile3, Profile4} {
		t.Run(fmt.Sprintf("profile%d", profile), func(t *testing.T) {
			t.Parallel()
			b := amqptest.Start(t, amqptest.Compat(profile), amqptest.DataDir(t.TempDir()), amqptest.Management())
			target, err := ParseTarget(b.URI())
			if err != nil {
				t.Fatal(err)
			}
			admin, err := NewManagementAdmin(b.ManagementURL())
			if err != nil {
				t.Fatal(err)
			}
			target.Profile, target.Warren, target.Admin = profile, true, admin
			target.VHost = "through-management"
			if err := admin.CreateVHost(target.VHost); err != nil {
				t.Fatal(err)
			}
			judgeAdministered(t, target)
		})
	}
}

// judgeAdministered runs the cases in which the administrator has something to do.
func judgeAdministered(t *testing.T, target Target) {
	ran := 0
	cases, _ := Select(target)
	for _, c := range cases {
		if !c.NeedsAdmin && c.Class != Management {
			continue
		}
		ran++
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			for _, f := range Run(target, c).Failures {
				t.Errorf("%s (%s)\n%s", c.Title, c.Source, f)
			}
		})
	}
	if ran < 100 {
		t.Errorf("only %d cases need an administrator", ran)
	}
}
