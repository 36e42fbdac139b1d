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
	profileFlag    = flag.Int("profile", 0, "3 or 4: which RabbitMQ the broker should behave as; Warren in this process is judged by both when it is not given")
	ctlFlag        = flag.String("rabbitmqctl", "", "path of the broker's rabbitmqctl, besides -management; needed for class alarms")
	warrenFlag     = flag.Bool("warren", false, "the broker at -uri is Warren: judge by its intended differences")
	classFlag      = flag.String("class", "", "comma-separated classes to run; empty: all")
	budgetFlag     = flag.Int64("body-budget", 0, "bytes of waiting messages that Warren in this process keeps in memory; 1 has it page everything, 0 is its default")
)

// TestConformance runs every case of a profile, each as a parallel subtest of its own: -run picks cases and
// -parallel bounds how many run at once.
func TestConformance(t *testing.T) {
	switch *profileFlag {
	case Profile3, Profile4:
		judge(t, *profileFlag)
	case 0:
		if *uriFlag != "" {
			t.Fatal("give -profile 3 or -profile 4 with -uri")
		}
		for _, profile := range []int{Profile3, Profile4} {
			t.Run(fmt.Sprintf("profile%d", profile), func(t *testing.T) {
				t.Parallel()
				judge(t, profile)
			})
		}
	default:
		t.Fatalf("-profile %d is neither 3 nor 4", *profileFlag)
	}
}

func judge(t *testing.T, profile int) {
	target := givenTarget(t, profile)
	var classes []Class
	for c := range strings.SplitSeq(*classFlag, ",") {
		if c != "" {
			classes = append(classes, Class(c))
		}
	}
	cases, needAdmin := Select(target, classes...)
	if needAdmin > 0 {
		t.Logf("%d cases are left out: they need an administrator, give -management, or -rabbitmqctl with it", needAdmin)
	}
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			if c.Class != Alarms { // parallel cases begin when the others are through
				t.Parallel()
			}
			for _, f := range Run(target, c).Failures {
				t.Errorf("%s (%s)\n%s", c.Title, c.Source, f)
			}
		})
	}
}

// givenTarget is the broker of the flags, or Warren. With an administrator the run gets a virtual host of its own,
// so that nothing stays behind.
func givenTarget(t *testing.T, profile int) Target {
	uri, warren := *uriFlag, *warrenFlag
	var admin Admin
	if uri == "" {
		var stop func()
		uri, admin, stop = startWarren(t, profile)
		t.Cleanup(stop)
		warren = true
	}
	target, err := ParseTarget(uri)
	if err != nil {
		t.Fatal(err)
	}
	if *managementFlag != "" {
		management, err := NewManagementAdmin(*managementFlag)
		if err != nil {
			t.Fatal(err)
		}
		admin = management
		if *ctlFlag != "" {
			admin = CtlAdmin{management, *ctlFlag}
		}
	}
	target.Profile, target.Warren, target.Admin = profile, warren, admin
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
