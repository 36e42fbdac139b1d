package broker

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
)

// queueText names a queue the way RabbitMQ's error texts do. Any goroutine.
func queueText(vhost, name string) string {
	return "queue '" + name + "' in vhost '" + vhost + "'"
}

// exchangeText names an exchange the way RabbitMQ's error texts do. Any goroutine.
func exchangeText(vhost, name string) string {
	return "exchange '" + name + "' in vhost '" + vhost + "'"
}

// lineBreaks drops the two characters that RabbitMQ strips from names.
var lineBreaks = strings.NewReplacer("\r", "", "\n", "")

// stripCRLF returns the name without carriage returns and line feeds, as RabbitMQ does for the names of
// queues and exchanges in declare, delete and bind (verified on 3.10.8 and 4.3.6). It allocates nothing
// when there is none. Any goroutine.
func stripCRLF(name string) string {
	if strings.IndexByte(name, '\r') < 0 && strings.IndexByte(name, '\n') < 0 {
		return name
	}
	return lineBreaks.Replace(name)
}

// Prefixes of the names that the broker makes up itself (verified on 3.10.8 and 4.3.6).
const (
	generatedQueuePrefix       = "amq.gen-"
	generatedConsumerTagPrefix = "amq.ctag-"
)

// generatedNameBytes is how much randomness a generated name carries; unpadded base64 makes 22 characters
// of it.
const generatedNameBytes = 16

// generatedName returns the prefix followed by 22 characters of URL-safe base64 that nobody can guess: the
// name of a server-named queue is what keeps others from it. Any goroutine.
func generatedName(prefix string) string {
	var b [generatedNameBytes]byte
	rand.Read(b[:]) // never fails: crypto/rand stops the program instead
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}
