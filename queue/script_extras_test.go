package queue

import (
	"strconv"
	"strings"
	"time"
)

// Commands and options of scripts about what AMQP leaves out.

// extraRules reads the options of "queue" that are Warren's own.
func (s *stage) extraRules(a scriptArgs, r *Rules) {
	if a.options["overflow"] == "drop-lowest-priority" {
		r.Overflow = DropLowest
	}
	r.SingleActive = a.has("single-active")
	if r.MaxActive = a.number("max-active"); r.MaxActive > 0 {
		r.MaxBackup = -1
	}
	if a.has("max-backup") {
		r.MaxBackup = a.number("max-backup")
	}
}

func (s *stage) advance(a scriptArgs) error {
	n, err := strconv.Atoi(a.names[0])
	s.clock.Advance(time.Duration(n) * time.Second)
	return err
}

func (s *stage) levels(scriptArgs) error {
	for _, n := range s.q.LevelCounts() {
		if n.Ready > 0 || n.Delivered > 0 {
			s.print("%d: %d ready, %d delivered, %d of them again, waited %d s",
				n.Priority, n.Ready, n.Delivered, n.Redelivered, n.WaitedMillis/1000)
		}
	}
	return nil
}

func (s *stage) active(scriptArgs) error {
	var tags []string
	for _, c := range s.q.ActiveConsumers() {
		tags = append(tags, c.Tag)
	}
	s.print("%s", strings.Join(tags, " "))
	return nil
}
