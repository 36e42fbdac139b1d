package conformance

import (
	"fmt"
	"os/exec"
)

// AlarmSetter is an Admin that can raise the resource alarms of a broker's node; class Alarms asks for it. resource is
// "memory" or "disk". Both methods return when connections have been told.
type AlarmSetter interface {
	SetAlarm(resource string) error
	ClearAlarm(resource string) error
}

// CtlAdmin is a ManagementAdmin that raises alarms through rabbitmqctl, which needs no listener of its own.
type CtlAdmin struct {
	*ManagementAdmin
	Ctl string // path of rabbitmqctl
}

// SetAlarm implements [AlarmSetter].
func (a CtlAdmin) SetAlarm(resource string) error {
	return a.eval(fmt.Sprintf("rabbit_alarm:set_alarm({{resource_limit, %s, node()}, []}).", resource))
}

// ClearAlarm implements [AlarmSetter].
func (a CtlAdmin) ClearAlarm(resource string) error {
	return a.eval(fmt.Sprintf("rabbit_alarm:clear_alarm({resource_limit, %s, node()}).", resource))
}

func (a CtlAdmin) eval(expression string) error {
	if out, err := exec.Command(a.Ctl, "eval", expression).CombinedOutput(); err != nil {
		return fmt.Errorf("rabbitmqctl eval %s: %w: %s", expression, err, out)
	}
	return nil
}

// alarm raises an alarm until the case clears it with t.calm, or ends.
func (t *T) alarm(resource string) {
	setter, ok := t.Admin.(AlarmSetter)
	if !ok {
		t.Fatalf("the administrator %T cannot raise alarms", t.Admin)
	}
	t.Cleanup(func() { t.Must(setter.ClearAlarm(resource)) })
	t.Must(setter.SetAlarm(resource))
}

// calm clears an alarm.
func (t *T) calm(resource string) { t.Must(t.Admin.(AlarmSetter).ClearAlarm(resource)) }
