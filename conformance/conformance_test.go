package conformance

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

var (
	uriFlag        = flag.String("uri", "", "broker to judge, amqp://user:password@host:port/vhost; empty: Warren, started in this process")
	managementFlag = flag.String("management", "", "its management API, http://user:password@host:port; needed for users, permissions and virtual hosts")
	profileFlag    = flag.Int("profile", Profile3, "3 or 4: which RabbitMQ the broker should behave as")
	warrenFlag     = flag.Bool("warren", false, "the broker at -uri is Warren: judge by its intended differences")
	classFlag      = flag.String("class", "", "comma-separated classes to run; empty: all")
)

// TestConformance runs every case of the profile, each as a parallel subtest of its own: -run picks cases and
// -parallel bounds how many run at once.
func TestConformance(t *testing.T) {
	target := givenTarget(t)
	var classes []Class
	for c := range strings.SplitSeq(*classFlag, ",") {
		if c != "" {
			classes = append(classes, Class(c))
		}
	}
	cases, needAdmin := Select(target, classes...)
	if needAdmin > 0 {
		t.Logf("%d cases are left out: they need an administrator, give -management", needAdmin)
	}
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			for _, f := range Run(target, c).Failures {
				t.Errorf("%s (%s)\n%s", c.Title, c.Source, f)
			}
		})
	}
}

// givenTarget is the broker of the flags, or Warren. With an administrator the run gets a virtual host of its own,
// so that nothing stays behind.
func givenTarget(t *testing.T) Target {
	uri, warren := *uriFlag, *warrenFlag
	var admin Admin
	if uri == "" {
		var stop func()
		uri, admin, stop = startWarren(t, *profileFlag)
		t.Cleanup(stop)
		warren = true
	}
	target, err := ParseTarget(uri)
	if err != nil {
		t.Fatal(err)
	}
	if *managementFlag != "" {
		if admin, err = NewManagementAdmin(*managementFlag); err != nil {
			t.Fatal(err)
		}
	}
	target.Profile, target.Warren, target.Admin = *profileFlag, warren, admin
	if admin == nil {
		return target
	}
	target.VHost = fmt.Sprintf("conformance-%s", runID)
	if err := admin.CreateVHost(target.VHost); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.DeleteVHost(target.VHost); err != nil {
			t.Error(err)
		}
	})
	if err := admin.SetPermissions(target.User, target.VHost, ".*", ".*", ".*"); err != nil {
		t.Fatal(err)
	}
	return target
}
