package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// publisher numbers its messages over all restarts. One goroutine.
type publisher struct {
	name string
	last int
}

// next makes the publisher's next message.
func (p *publisher) next() *message {
	p.last++
	return &message{id: fmt.Sprintf("%s-%d", p.name, p.last), publisher: p.name, number: p.last}
}

// parseID takes a message's id apart; number 0: it is none of ours.
func parseID(id string) (publisher string, number int) {
	i := strings.LastIndexByte(id, '-')
	if i < 0 {
		return "", 0
	}
	number, err := strconv.Atoi(id[i+1:])
	if err != nil {
		return "", 0
	}
	return id[:i], number
}

// body makes a message's body: its id, its own length and octets that follow
// from both, so that whoever has it can tell whether it is whole.
func body(id string, size int) []byte {
	b := fmt.Appendf(nil, "%s %d ", id, size)
	seed := uint64(len(id))
	for _, c := range []byte(id) {
		seed = seed*1099511628211 + uint64(c)
	}
	fill := rand.NewPCG(seed, uint64(size))
	for len(b) < size {
		b = fmt.Appendf(b, "%016x", fill.Uint64())
	}
	return b
}

// whole says whether b is the body of id.
func whole(id string, b []byte) bool {
	fields := bytes.SplitN(b, []byte{' '}, 3)
	if len(fields) != 3 || string(fields[0]) != id {
		return false
	}
	size, err := strconv.Atoi(string(fields[1]))
	return err == nil && bytes.Equal(b, body(id, size))
}

// sizes gives a body's size: mostly small, now and then over the limits at
// which stores treat bodies in other ways.
func sizes(rnd *rand.Rand) int {
	switch n := rnd.IntN(1000); {
	case n < 700:
		return rnd.IntN(300)
	case n < 950:
		return rnd.IntN(8 << 10)
	case n < 998:
		return rnd.IntN(128 << 10)
	default:
		return 4<<20 + rnd.IntN(3<<20)
	}
}
