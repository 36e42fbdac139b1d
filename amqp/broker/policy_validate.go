package broker

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/frames/compat"
)

// ValidationError says why a policy, a limit or a parameter was refused, in RabbitMQ's words: the reason of a 400 of
// the management API, line ends included.
type ValidationError struct{ Text string }

// Error is the text on one line.
func (e *ValidationError) Error() string { return strings.Join(strings.Fields(e.Text), " ") }

func invalid(format string, a ...any) *ValidationError {
	return &ValidationError{fmt.Sprintf(format, a...)}
}

// validationFailed is RabbitMQ's frame around the lines of its parameter validation.
func validationFailed(lines ...string) *ValidationError {
	return invalid("Validation failed\n\n%s\n", strings.Join(lines, "\n"))
}

// ParsePolicy makes a policy of the JSON object that a client sent, decoded by encoding/json, with or without
// UseNumber: keys pattern and definition, and if given priority and apply-to; others are ignored. The error is a
// *ValidationError. What it returns shares no memory with the document. Any goroutine.
func ParsePolicy(profile compat.Profile, kind PolicyKind, name string, document map[string]any) (Policy, error) {
	decoded, err := canonical(document)
	if err != nil {
		return Policy{}, &ValidationError{err.Error()}
	}
	d := decoded.(map[string]any)
	if missing := missingKeys(d, "pattern", "definition"); missing != "" {
		return Policy{}, &ValidationError{missing}
	}
	p := Policy{Name: name, ApplyTo: ApplyToAll}
	// RabbitMQ gathers what it finds in the reverse order.
	lines := slices.DeleteFunc([]string{
		p.takeDefinition(profile, kind, d["definition"]), p.takeApplyTo(profile, d), p.takePattern(profile, d["pattern"]), p.takePriority(d),
	}, func(line string) bool { return line == "" })
	if len(lines) > 0 {
		return Policy{}, validationFailed(lines...)
	}
	return p, nil
}

// missingKeys is the management API's text for keys that must be there.
func missingKeys(d map[string]any, keys ...string) string {
	var missing []string
	for _, k := range keys {
		if _, ok := d[k]; !ok {
			missing = append(missing, "{key_missing,"+k+"}")
		}
	}
	if missing == nil {
		return ""
	}
	return "[" + strings.Join(missing, ",") + "]"
}

func (p *Policy) takePriority(d map[string]any) string {
	v, given := d["priority"]
	if !given {
		return ""
	}
	number, ok := jsonFloat(v)
	if !ok {
		return notANumber("priority", v)
	}
	p.Priority = number
	return ""
}

func notANumber(name string, v any) string {
	return fmt.Sprintf("%s should be a number, actually was %s", name, erlangJSON(v, len(name)+len(" should be a number, actually was ")))
}

func (p *Policy) takePattern(profile compat.Profile, v any) string {
	text, ok := v.(string)
	if !ok {
		const start = "pattern should be a binary but was "
		return start + erlangJSON(v, len(start))
	}
	p.Pattern = text
	_, err := auth.CompileMatcher(text)
	if err == nil {
		return ""
	}
	var pe *auth.PatternError
	if !errors.As(err, &pe) {
		return "pattern: " + err.Error()
	}
	reason, offset := patternReason(profile, pe)
	const start = "pattern should be regular expression but is invalid: "
	return start + erlangTuple(len(start), erlangString(reason), fmt.Sprint(offset))
}

// patternReason is how the PCRE of each version says it: 4.3.6 has PCRE2, which counts some offsets from behind the
// fault.
func patternReason(profile compat.Profile, pe *auth.PatternError) (reason string, offset int) {
	if !compat.PCRE2Texts.In(profile) {
		return pe.Reason, pe.Offset
	}
	switch pe.Reason {
	case "missing )":
		return "missing closing parenthesis", pe.Offset
	case "unmatched parentheses":
		return "unmatched closing parenthesis", pe.Offset + 1
	case "nothing to repeat":
		return "quantifier does not follow a repeatable item", pe.Offset + 1
	}
	return pe.Reason, pe.Offset
}

func (p *Policy) takeApplyTo(profile compat.Profile, d map[string]any) string {
	v, given := d["apply-to"]
	if !given {
		return ""
	}
	to, ok := v.(string)
	if !ok {
		to = erlangJSON(v, 0)
	}
	known := []string{ApplyToAll, ApplyToQueues, ApplyToExchanges}
	text := "apply-to '%s' unrecognised; should be 'queues', 'exchanges' or 'all'"
	if compat.ApplyToQueueTypes.In(profile) {
		known = append(known, ApplyToClassic, ApplyToQuorum, ApplyToStreams)
		text = "apply-to '%s' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'"
	}
	if !ok || !slices.Contains(known, to) {
		return fmt.Sprintf(text, to)
	}
	p.ApplyTo = to
	return ""
}

func (p *Policy) takeDefinition(profile compat.Profile, kind PolicyKind, v any) string {
	definition, ok := v.(map[string]any)
	if !ok { // RabbitMQ answers 500
		const start = "definition must be a dictionary: "
		return start + erlangJSON(v, len(start))
	}
	if len(definition) == 0 {
		return "no policy provided"
	}
	p.Definition = definition
	return checkDefinition(profile, kind, definition)
}

// checkDefinition checks every key that is known, in the order of the table, then what keys must have of each other,
// and then that there are no others.
func checkDefinition(profile compat.Profile, kind PolicyKind, definition map[string]any) string {
	known, unknown := map[string]any{}, maps.Clone(definition)
	for i := range policyKeys {
		k := findPolicyKey(profile, kind, policyKeys[i].name)
		v, given := definition[policyKeys[i].name]
		if k == nil || !given {
			continue
		}
		known[k.name] = v
		delete(unknown, k.name)
		if k.valid != nil && !k.accepts(profile, v) {
			return erlangJSON(v, 0) + " " + k.what
		}
	}
	if _, given := unknown[keyQueueMasterLocator]; given && !compat.MasterLocator.In(profile) {
		return "use of deprecated queue-master-locator argument is not permitted"
	}
	for _, check := range []func(map[string]any) string{checkDelayedRetry, checkSharding, checkMirroring} {
		if fault := check(known); fault != "" {
			return fault
		}
	}
	if len(unknown) == 0 {
		return ""
	}
	return erlangPairs(unknown, 0) + " are not recognised policy settings"
}

// accepts checks a value by itself.
func (k *policyKey) accepts(profile compat.Profile, v any) bool {
	if n, ok := jsonInteger(v); ok && n < 0 && k.name == "delivery-limit" && !compat.PolicyNegativeDeliveryLimit.In(profile) {
		return false
	}
	return k.valid(v)
}

// checkDelayedRetry checks the delayed-retry keys of 4.3 against each other.
func checkDelayedRetry(d map[string]any) string {
	least, hasLeast := d["delayed-retry-min"]
	if typ, given := d["delayed-retry-type"]; given && typ != "disabled" && !hasLeast {
		return fmt.Sprintf("delayed-retry-min is required when delayed-retry-type is %s", typ)
	}
	most, hasMost := d["delayed-retry-max"]
	if x, y := wholePolicyNumber(least), wholePolicyNumber(most); hasLeast && hasMost && y < x {
		return fmt.Sprintf("delayed-retry-max (%d) must not be smaller than delayed-retry-min (%d)", y, x)
	}
	return ""
}

// checkSharding checks the keys of the sharding plugin, which mean nothing on one node.
func checkSharding(d map[string]any) string {
	shards, given := d["shards-per-node"]
	key, hasKey := d["routing-key"]
	if !given {
		if hasKey {
			return "shards-per-node must be specified"
		}
		return ""
	}
	n, ok := jsonFloat(shards)
	switch {
	case !ok:
		return notANumber("shards-per-node", shards)
	case n < 0:
		return "shards-per-node should be greater than 0, actually was " + erlangJSON(shards, 0)
	case hasKey && !isText(key):
		return "routing-key should be binary, actually was " + erlangJSON(key, 0)
	}
	return ""
}

// checkMirroring checks the keys of mirrored queues, which mean nothing on one node.
func checkMirroring(d map[string]any) string {
	mode, given := d["ha-mode"]
	if !given {
		for key := range d {
			if strings.HasPrefix(key, "ha-") {
				return "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
			}
		}
		return ""
	}
	if fault := checkMirrors(mode, d); fault != "" {
		return fault
	}
	if n, ok := d["ha-sync-batch-size"]; ok && !atLeast(1)(n) {
		return fmt.Sprintf("ha-sync-batch-size takes an integer greater than 0, %s given", erlangJSON(n, 0))
	}
	for _, key := range []string{"ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure"} {
		words := [2]string{"always", "when-synced"}
		if key == "ha-sync-mode" {
			words = [2]string{"manual", "automatic"}
		}
		if v, ok := d[key]; ok && v != words[0] && v != words[1] {
			return fmt.Sprintf("%s must be %q or %q, got %s", key, words[0], words[1], erlangJSON(v, 0))
		}
	}
	return ""
}

// checkMirrors checks ha-params by the mode.
func checkMirrors(mode any, d map[string]any) string {
	params, given := d["ha-params"]
	shown := "none"
	if given {
		shown = erlangJSON(params, 0)
	}
	list, isList := params.([]any)
	switch mode {
	case "all":
		if given {
			return `ha-mode="all" does not take parameters`
		}
	case "exactly":
		if !atLeast(1)(params) {
			return fmt.Sprintf(`ha-mode="exactly" takes an integer, %s given`, shown)
		}
	case "nodes":
		switch bad := slices.DeleteFunc(slices.Clone(list), isText); {
		case !isList:
			return fmt.Sprintf(`ha-mode="nodes" takes a list, %s given`, shown)
		case len(list) == 0:
			return `ha-mode="nodes" list must be non-empty`
		case len(bad) > 0:
			return fmt.Sprintf(`ha-mode="nodes" takes a list of strings, %s was not a string`, erlangJSON(bad, 0))
		}
	default:
		return erlangJSON(mode, 0) + " is not a valid ha-mode value"
	}
	return ""
}
