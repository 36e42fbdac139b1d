package broker

import (
	"encoding/json"
	"fmt"

	"github.com/warrenmq/warren/amqp/auth"
	"github.com/warrenmq/warren/persist"
)

// kindNames are the kinds of definitions in the words of definitions.json.
var kindNames = map[byte]string{
	kindVHost: "vhost", kindExchange: "exchange", kindQueue: "queue", kindBinding: "binding", kindSetUp: "set-up mark",
	kindPolicy: "policy", kindOperatorPolicy: "operator policy", kindLimits: "limits of a vhost", kindGlobal: "global parameter",
	auth.KindUser: "user", auth.KindPermission: "permission", auth.KindTopicPermission: "topic permission",
}

// KindName says what a definition in a store is, such as "queue".
func KindName(kind byte) string {
	if name, ok := kindNames[kind]; ok {
		return name
	}
	return fmt.Sprintf("definition of kind %q", kind)
}

// CheckDefinition says whether a broker could load a stored definition by
// itself; not whether what it refers to is there. For tools that read stores.
func CheckDefinition(d persist.Definition) error {
	var err error
	switch d.Kind {
	case kindSetUp:
	case kindVHost:
		err = json.Unmarshal(d.Value, new(vhostDefinition))
	case kindExchange:
		var s storedExchange
		_, err = decodeDefinition(d.Value, &s, &s.Arguments)
	case kindQueue:
		var s storedQueue
		_, err = decodeDefinition(d.Value, &s, &s.Arguments)
	case kindBinding:
		var s storedBinding
		_, err = decodeDefinition(d.Value, &s, &s.Arguments)
	default:
		var known bool
		known, err = auth.NewDirectory(nil).Load(d.Kind, d.VHost, d.Name, d.Value)
		if err == nil && !known && !json.Valid(d.Value) { // all there are, are JSON
			err = fmt.Errorf("the definition is no JSON")
		}
	}
	return err
}

// StoredLogs gives the logs in which a stored queue, or an exchange that keeps
// messages, has them; none for other definitions.
func StoredLogs(d persist.Definition) (logs []uint64) {
	var q storedQueue
	var x storedExchange
	switch {
	case d.Kind == kindQueue && json.Unmarshal(d.Value, &q) == nil:
		logs = append(logs, q.ID)
	case d.Kind == kindExchange && json.Unmarshal(d.Value, &x) == nil:
		for _, log := range []uint64{x.Delays, x.History} {
			if log != 0 {
				logs = append(logs, log)
			}
		}
	}
	return logs
}
