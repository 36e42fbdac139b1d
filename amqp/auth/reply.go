package auth

// Reply is a refusal as the client sees it: the code and text of connection.close. The text is without the name of the
// code that goes before it on the wire ("ACCESS_REFUSED - ") and is not yet cut to 255 bytes.
type Reply struct {
	Code uint16
	Text string
}

// accessRefused is the AMQP reply code of a refused login.
const accessRefused = 403

// LoginRefused is for the connection of a client that has the capability authentication_failure_close; others are reset.
func LoginRefused(mechanism string) Reply {
	return Reply{accessRefused, "Login was refused using authentication mechanism " + mechanism +
		". For details see the broker logfile."}
}
