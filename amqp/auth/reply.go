package auth

import "fmt"

// Reply is a refusal as the client sees it: the code and text of connection.close or channel.close. The text is without
// the name of the code that goes before it on the wire ("ACCESS_REFUSED - ") and is not yet cut to 255 bytes.
type Reply struct {
	Code uint16
	Text string
}

// AMQP reply codes of refusals.
const (
	accessRefused = 403
	notAllowed    = 530
)

// Wording chooses between the texts of RabbitMQ's versions.
type Wording uint8

// The two wordings there are.
const (
	Wording3 Wording = iota // up to 3.11: the text does not say which access was missing
	Wording4                // 3.12 and later: it does
)

// LoginRefused is for the connection of a client that has the capability authentication_failure_close; others are reset.
func LoginRefused(mechanism string) Reply {
	return Reply{accessRefused, "Login was refused using authentication mechanism " + mechanism +
		". For details see the broker logfile."}
}

// VHostRefused answers connection.open when VHostAccess is false.
func VHostRefused(user, vhost string) Reply {
	return Reply{notAllowed, fmt.Sprintf("access to vhost '%s' refused for user '%s'", vhost, user)}
}

// UserConnectionsReached answers connection.open when the user has as many connections as LimitConnections allows.
func UserConnectionsReached(user string, limit int) Reply {
	return Reply{notAllowed,
		fmt.Sprintf("connection refused for user '%s': user connection limit (%d) is reached", user, limit)}
}

// AccessRefused closes the channel when Check is false.
func AccessRefused(w Wording, user, vhost string, r Resource, p Access) Reply {
	return Reply{accessRefused, fmt.Sprintf("%saccess to %s '%s' in vhost '%s' refused for user '%s'",
		w.access(p), r.Kind, r.checkedName(), vhost, user)}
}

// TopicRefused closes the channel when CheckTopic is false.
func TopicRefused(w Wording, user, vhost, exchange, routingKey string, p Access) Reply {
	return Reply{accessRefused, fmt.Sprintf("%saccess to topic '%s' in exchange '%s' in vhost '%s' refused for user '%s'",
		w.access(p), routingKey, exchange, vhost, user)}
}

func (w Wording) access(p Access) string {
	if w == Wording3 {
		return ""
	}
	return p.String() + " "
}
