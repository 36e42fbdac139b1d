package conformance

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func exampleDeadLetter(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	if _, err := ch.QueueDeclare("jobs", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	_, err := ch.QueueDeclare("retry", false, false, false, false, amqp.Table{
		"x-message-ttl":             50,
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": "jobs",
	})
	check(err)
	publish(ch, "retry", "again in 50 ms", 0) // comes out of "jobs"
	jobs, err := ch.Consume("jobs", "", true, false, false, false, nil)
	check(err)
	bodies, last := take(t, jobs, 1)
	want(t, bodies, "again in 50 ms")
	if deaths, ok := last.Headers["x-death"].([]any); !ok || len(deaths) != 1 {
		t.Errorf("x-death is %v", last.Headers["x-death"])
	}
}

func exampleQueueExpiry(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	_, err := ch.QueueDeclare("session", false, false, false, false, amqp.Table{"x-expires": 50})
	check(err)
	// A passive declaration would be a use of the queue; a publish is none.
	returns := ch.NotifyReturn(make(chan amqp.Return, 64))
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		check(ch.Publish("", "session", true, false, amqp.Publishing{}))
		select {
		case <-returns:
			_, err := ch.QueueDeclarePassive("session", false, false, false, false, nil)
			wantRefusal(t, err, amqp.NotFound)
			return
		default:
		}
	}
	t.Fatal("the queue is still there")
}

func exampleDropHead(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	_, err := ch.QueueDeclare("latest", false, false, false, false, amqp.Table{"x-max-length": 2})
	check(err)
	publish(ch, "latest", "1", 0) // goes when "3" comes
	publish(ch, "latest", "2", 0)
	publish(ch, "latest", "3", 0)
	want(t, drained(ch, "latest"), "2", "3")
}

func exampleRejectPublish(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	check(ch.Confirm(false))
	_, err := ch.QueueDeclare("full", false, false, false, false, amqp.Table{
		"x-max-length-bytes": 3,
		"x-overflow":         "reject-publish",
	})
	check(err)
	first, err := ch.PublishWithDeferredConfirm("", "full", false, false, amqp.Publishing{Body: []byte("abc")})
	check(err)
	second, err := ch.PublishWithDeferredConfirm("", "full", false, false, amqp.Publishing{Body: []byte("d")})
	check(err)
	if !first.Wait() || second.Wait() {
		t.Error("the first fits, the second does not")
	}
}

func examplePriorities(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	_, err := ch.QueueDeclare("tasks", false, false, false, false, amqp.Table{"x-max-priority": 5})
	check(err)
	publish(ch, "tasks", "later", 1)
	publish(ch, "tasks", "now", 5)
	want(t, drained(ch, "tasks"), "now", "later")
}

func exampleConsumerPriority(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	if _, err := ch.QueueDeclare("events", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	second, err := ch.Consume("events", "reserve", true, false, false, false, amqp.Table{"x-priority": -1})
	check(err)
	first, err := ch.Consume("events", "main", true, false, false, false, nil)
	check(err)
	publish(ch, "events", "e", 0)
	bodies, _ := take(t, first, 1)
	want(t, bodies, "e")
	if len(second) > 0 {
		t.Error("the reserve got something as well")
	}
}

func exampleSingleActive(t *testing.T, conn *amqp.Connection, ch *amqp.Channel) {
	_, err := ch.QueueDeclare("ledger", false, false, false, false, amqp.Table{"x-single-active-consumer": true})
	check(err)
	active, err := ch.Consume("ledger", "a", true, false, false, false, nil)
	check(err)
	standby, err := ch.Consume("ledger", "b", true, false, false, false, nil)
	check(err)
	publish(ch, "ledger", "1", 0)
	bodies, _ := take(t, active, 1)
	want(t, bodies, "1")
	check(ch.Cancel("a", false))
	publish(ch, "ledger", "2", 0)
	bodies, _ = take(t, standby, 1)
	want(t, bodies, "2")
}
