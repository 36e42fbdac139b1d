package queue

// ReadStored rebuilds a message from the head and body that a store keeps of
// it, which the message refers to from then on. For tools that read stores; a
// broker's queues do that in Recover.
func ReadStored(head, body []byte) (*Message, error) { return recovered(head, body, nil) }
